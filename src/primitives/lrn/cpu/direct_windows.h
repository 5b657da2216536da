// Forward across channels where windows can be read in the tensor, in vectors: contiguous channels, or contiguous rows
// of one channel.
// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/math.h"
#include "kernels/cpu/lrn.h"
#include "primitives/lrn/lrn.h"

namespace polymio::lrn {

/// Elements, so that the rows of a window stay in the L1 cache.
constexpr std::int64_t kDirectRow = 1024;

/// In fewer contiguous channels too many vectors are at an end, where windows are masked.
constexpr std::int64_t kLeastChannels = 128;

class DirectWindows {
 public:
  /// Nothing for other problems.
  static std::optional<DirectWindows> of(const Problem&);

  /// Into tasks of about so many elements.
  void cut(std::int64_t elements);
  std::int64_t tasks() const;
  /// Calls body(rows) for the rows of a task.
  template <class Body>
  void run(std::int64_t task, const void* x, void* y, const Body& body) const {
    const Part part = part_of(task);
    for (std::int64_t c = part.first_channel, n = 0; c < part.end_channel; c += n) {
      n = channels_from(c, part);
      body(rows_of(part, c, n, x, y));
    }
  }

 private:
  /// Elements [first, end) of the rows, or rows [first, end) of channels.
  struct Part {
    std::int64_t x_offset, y_offset, first, end, first_channel, end_channel;
  };
  Part part_of(std::int64_t task) const;
  /// Channels that have windows of the same shape.
  std::int64_t channels_from(std::int64_t c, const Part&) const;
  kernels::LrnRows rows_of(const Part&, std::int64_t c, std::int64_t n, const void* x, void* y) const;
  static bool is_contiguous(const Loop::Dim& d) { return d.strides[0] == 1 && d.strides[1] == 1; }
  /// Whether rows of neighbouring channels are one run.
  bool merges() const;

  Loop outer_;
  Loop::Dim free_, channels_;  // strides of y and x; free: rows of channels, or along a row
  Reach reach_{0, 0};
  bool along_ = false;
  std::int64_t bytes_ = 4, free_chunk_ = 1, channel_chunk_ = 1;
};

inline std::optional<DirectWindows> DirectWindows::of(const Problem& p) {
  if (!p.forward() || p.has_scale() || p.mode != Mode::kCrossChannel) return {};
  const Loop all = loop_of(p);
  DirectWindows w;
  w.outer_.operands = all.operands;
  w.outer_.base = all.base;
  for (std::size_t d = 0; d < all.rank; ++d) {
    if (p.windowed(d))
      w.channels_ = all.dims[d];
    else
      w.outer_.push(all.dims[d]);
  }
  w.outer_.simplify();
  w.free_ = w.outer_.inner();
  w.outer_.dims[w.outer_.rank - 1] = {};
  w.outer_.merge();
  w.reach_ = reach_of(p, w.channels_.size);
  w.bytes_ = static_cast<std::int64_t>(size_of(p.x.type));
  const std::int64_t c = w.channels_.size;
  // 16-bit elements would be widened once for each window that has them.
  w.along_ = w.bytes_ >= 4 && is_contiguous(w.channels_) && c >= kLeastChannels &&
             std::max(w.reach_.before, w.reach_.after) <= c;
  const bool across = is_contiguous(w.free_) && (w.free_.size >= kernels::kLeastLrnRow || w.merges());
  if (!w.along_ && !across) return {};
  w.cut(kDirectRow);
  return w;
}

inline bool DirectWindows::merges() const {
  return is_contiguous(free_) && channels_.strides[0] == free_.size && channels_.strides[1] == free_.size;
}

inline void DirectWindows::cut(std::int64_t elements) {
  if (along_) {
    free_chunk_ = std::clamp<std::int64_t>(elements / channels_.size, 1, free_.size);
    channel_chunk_ = channels_.size;
    return;
  }
  const std::int64_t parts = ceil_div(free_.size, kDirectRow + kDirectRow / 2);
  free_chunk_ = parts == 1 ? free_.size : round_up(ceil_div(free_.size, parts), 64);
  channel_chunk_ = std::clamp<std::int64_t>(elements / free_chunk_, 1, channels_.size);
}

inline std::int64_t DirectWindows::tasks() const {
  return outer_.count() * ceil_div(free_.size, free_chunk_) * ceil_div(channels_.size, channel_chunk_);
}

inline DirectWindows::Part DirectWindows::part_of(std::int64_t task) const {
  const auto next = [&](const Loop::Dim& dim, std::int64_t chunk, std::int64_t& first, std::int64_t& end) {
    const std::int64_t chunks = ceil_div(dim.size, chunk);
    first = task % chunks * chunk;
    end = std::min(first + chunk, dim.size);
    task /= chunks;
  };
  Part part{};
  next(channels_, channel_chunk_, part.first_channel, part.end_channel);
  next(free_, free_chunk_, part.first, part.end);
  const Cursor at(outer_, task);
  part.y_offset = at.offset(0) + part.first * free_.strides[0];
  part.x_offset = at.offset(1) + part.first * free_.strides[1];
  return part;
}

inline std::int64_t DirectWindows::channels_from(std::int64_t c, const Part& part) const {
  if (along_) return channels_.size;
  const bool inside = c >= reach_.before && c + reach_.after < channels_.size;
  return inside ? std::min(part.end_channel, channels_.size - reach_.after) - c : 1;
}

inline kernels::LrnRows DirectWindows::rows_of(const Part& part, std::int64_t c, std::int64_t n, const void* x,
                                               void* y) const {
  kernels::LrnRows rows;
  rows.x = static_cast<const char*>(x) + (part.x_offset + c * channels_.strides[1]) * bytes_;
  rows.y = static_cast<char*>(y) + (part.y_offset + c * channels_.strides[0]) * bytes_;
  const Loop::Dim& between = along_ ? free_ : channels_;
  rows.y_pitch = between.strides[0];
  rows.x_pitch = between.strides[1];
  rows.n = along_ ? channels_.size : part.end - part.first;
  rows.rows = along_ ? part.end - part.first : n;
  if (!along_ && merges() && rows.n == free_.size) {
    rows.n *= n;
    rows.rows = 1;
  }
  rows.before = along_ ? reach_.before : std::min(reach_.before, c);
  rows.after = along_ ? reach_.after : std::min(reach_.after, channels_.size - 1 - c);
  rows.step = channels_.strides[1];
  rows.along = along_;
  return rows;
}

}  // namespace polymio::lrn
