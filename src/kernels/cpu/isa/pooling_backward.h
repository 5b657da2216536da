// The gradient of pooling: every element of dx gathers from the windows that cover it, so that the order of a sum
// depends on sizes only. Maxima without indices find them again in x, for some lines at a time.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/pooling_channel_sweep.h"
#include "kernels/cpu/isa/pooling_forward.h"
#include "kernels/cpu/isa/pooling_gradient_gather.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// Indices of the windows that cover some consecutive rows of dx.
class FoundIndices {
 public:
  static constexpr i64 kBytes = 1 << 18;

  FoundIndices(const Pooling& p, Scratch& scratch) : p_(p) {
    line_ = p.dims[2].windows * (p.across_channels ? p.channels : 1);
    const WindowDim &d = p.dims[0], &h = p.dims[1];
    const i64 depths = (d.length - 1) / d.stride + 1, overlap = (h.length - 1) / h.stride + 2;
    const i64 heights = kBytes / (depths * line_ * static_cast<i64>(sizeof(std::uint32_t)));
    rows_ = max_of<i64>(1, (heights - overlap) * h.stride + 1);
    rows_ = min_of(rows_, h.size);
    memory_ = scratch.take<std::uint32_t>(depths * ((rows_ - 1) / h.stride + overlap) * line_);
  }

  /// Rows of dx whose windows' indices fit.
  i64 rows() const { return rows_; }

  template <class Forward>
  void find(Forward& forward, i64 image, i64 channel, Range depths, Range heights) {
    depths_ = depths;
    heights_ = heights;
    for (i64 d = depths.first; d < depths.end; ++d)
      for (i64 h = heights.first; h < heights.end; ++h)
        forward.line(image, channel, d, h, line(d, h), p_.x, p_.x_at, false);
  }
  IndexLine line(i64 d, i64 h) const {
    std::uint32_t* const at = memory_ + ((d - depths_.first) * heights_.count() + h - heights_.first) * line_;
    return {reinterpret_cast<unsigned char*>(at), p_.across_channels ? p_.channels : 1, 1, sizeof(std::uint32_t),
            false};
  }

 private:
  const Pooling& p_;
  i64 line_, rows_;
  std::uint32_t* memory_;
  Range depths_, heights_;
};

template <class S, bool kMaximum>
class PoolingBackward {
 public:
  using T = Arithmetic<S>;
  using Sources = ChannelSources<S, T, kMaximum>;
  using Line = typename Sources::Line;

  PoolingBackward(const Pooling& p, Scratch& scratch)
      : p_(p),
        width_(p.dims[2]),
        writer_(scratch, {p.scale, p.keep, p.non_temporal}, p.across_channels ? 1 : p.out_at.dims[2]),
        rows_(scratch, p),
        weights_(p, scratch) {
    i64 most = 1;
    for (int k = 0; k < 2; ++k) most *= (p.dims[k].length - 1) / p.dims[k].stride + 1;
    lines_ = scratch.take<Line>(p.across_channels ? most : 0);
    widths_ = scratch.take<Range>(p.across_channels ? width_.size : 0);
  }

  /// Fills tables for lines [first, end); not done by the constructor, which also measures scratch.
  void prepare(i64 first, i64 end) {
    rows_.clear();
    for (i64 w = 0; p_.across_channels && w < width_.size; ++w) widths_[w] = windows_of(width_, w);
    if constexpr (!kMaximum) weights_.prepare(first, end);
  }

  /// Lines [heights.first, heights.end) of a plane of dx; index_of(d, h) has the indices of a line of windows.
  template <class IndexOf>
  void lines(i64 image, i64 channel, i64 d, Range heights, const IndexOf& index_of) {
    Place at{image, channel, d, heights.first, windows_of(p_.dims[0], d), {}};
    CoveringWindows covering(p_.dims[1], at.h);
    for (i64 kept = heights.first; at.h < heights.end; ++at.h, covering.next()) {
      at.heights = covering.range();
      if (p_.across_channels) {
        channels(at, index_of);
        continue;
      }
      if (at.h == kept) {
        kept = min_of(at.h + rows_.windows().rows(), heights.end);
        keep(at, {at.heights.first, windows_of(p_.dims[1], kept - 1).end}, index_of);
      }
      row(at);
    }
  }

 private:
  static constexpr i64 kStep = kLanes<T>;
  struct Place {
    i64 image, channel, d, h;
    Range depths, heights;
  };

  template <class IndexOf>
  void channels(const Place& at, const IndexOf& index_of) {
    switch (p_.index_bytes) {
      case 1: return channels<std::uint8_t>(at, index_of);
      case 2: return channels<std::uint16_t>(at, index_of);
      case 8: return channels<std::uint64_t>(at, index_of);
      default: return channels<std::uint32_t>(at, index_of);  // also of those found
    }
  }

  S* out(const Place& at, i64 w) const {
    const WindowStrides& s = p_.out_at;
    return static_cast<S*>(p_.out) + at.image * s.image + at.channel * s.channel + at.d * s.dims[0] + at.h * s.dims[1] +
           w * s.dims[2];
  }
  const S* in(const Place& at, i64 d, i64 h) const {
    const WindowStrides& s = p_.in_at;
    return static_cast<const S*>(p_.in) + at.image * s.image + at.channel * s.channel + d * s.dims[0] + h * s.dims[1];
  }

  template <class U, class IndexOf>
  void channels(const Place& at, const IndexOf& index_of) {
    Sources sources = find_sources(at, index_of);
    if constexpr (kMaximum) {
      using Sweep = ChannelSweep<S, T>;
      if (Sweep::is_applicable(width_, p_.channels, p_.out_at.dims[2]))
        return Sweep(width_, p_.channels, sources).template line<U>([&](i64 first, i64 n) {
          return writer_.reserve(out(at, first), n * p_.channels);
        });
    }
    for (i64 w = 0; w < width_.size; ++w) {
      sources.element = w;
      sources.widths = widths_[w];
      for (i64 c = 0; c < p_.channels; c += kWriterElements) {
        const i64 n = min_of(p_.channels - c, kWriterElements);
        gather_channels<U>(sources, c, n, writer_.reserve(out(at, w) + c, n));
      }
    }
  }

  template <class IndexOf>
  Sources find_sources(const Place& at, const IndexOf& index_of) {
    Sources sources{lines_, 0, 0, {}, weights_[2], p_.in_at.dims[2], 0, 0};
    for (i64 d = at.depths.first; d < at.depths.end; ++d)
      for (i64 h = at.heights.first; h < at.heights.end; ++h) {
        const IndexLine index = index_of(d, h);
        const Numbering numbering(p_, index.image);
        const i64 wanted = kMaximum ? numbering.of(at.d, d, at.h, h, 0, 0) : 0;
        lines_[sources.count++] = {in(at, d, h), kMaximum ? index.at(0) : nullptr, static_cast<Int<T>>(wanted),
                                   kMaximum ? 1 : weights_[0][d] * weights_[1][h]};
        sources.index_step = index.window_step * index.bytes;
        sources.wanted_step = numbering.moves[2];
      }
    return sources;
  }

  template <class IndexOf>
  void keep(const Place& at, Range heights, const IndexOf& index_of) {
    const i64 plane = at.image * p_.channels + at.channel;
    for (i64 d = at.depths.first; d < at.depths.end; ++d)
      for (i64 h = heights.first; h < heights.end; ++h)
        rows_.windows().keep(plane, d, h, in(at, d, h), weights_, kMaximum ? index_of(d, h) : IndexLine{});
  }

  void row(const Place& at) {
    rows_.gather(at.d, at.h, at.depths, at.heights,
                 [&](i64 first, i64 n) { return writer_.reserve(out(at, first), n); });
  }

  const Pooling& p_;
  const WindowDim& width_;
  Writer<S, T> writer_;
  GatheredRows<S, T, kMaximum> rows_;
  WindowWeights<T> weights_;
  Line* lines_;    // of one line of dx
  Range* widths_;  // the windows of each element of a line
};

template <class S, bool kMaximum>
void pooling_backward(const Pooling& p, i64 first, i64 end, void* memory) {
  Scratch scratch(memory);
  PoolingBackward<S, kMaximum> backward(p, scratch);
  backward.prepare(first, end);
  const i64 heights = p.dims[1].size, depths = p.dims[0].size, planes = p.across_channels ? 1 : p.channels;
  // Calls body(image, channel, d, rows) for at most `most` rows of one plane at a time.
  const auto each_part = [&](i64 most, const auto& body) {
    for (i64 line = first, n; line < end; line += n) {
      const i64 plane = line / heights / depths, h = line % heights;
      n = min_of(min_of(most, end - line), heights - h);
      body(plane / planes, plane % planes, line / heights % depths, Range{h, h + n});
    }
  };
  if (!kMaximum || p.index_bytes > 0)
    return each_part(heights, [&](i64 image, i64 channel, i64 d, Range rows) {
      backward.lines(image, channel, d, rows, [&](i64 od, i64 oh) { return index_line(p, image, channel, od, oh); });
    });
  if constexpr (kMaximum) {
    FoundIndices found(p, scratch);
    PoolingForward<Largest, S, true> forward(p, scratch);
    forward.prepare();
    each_part(found.rows(), [&](i64 image, i64 channel, i64 d, Range rows) {
      found.find(forward, image, channel, windows_of(p.dims[0], d),
                 {windows_of(p.dims[1], rows.first).first, windows_of(p.dims[1], rows.end - 1).end});
      backward.lines(image, channel, d, rows, [&](i64 od, i64 oh) { return found.line(od, oh); });
    });
  }
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
