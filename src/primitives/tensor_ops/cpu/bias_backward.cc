// The elements of a channel are cut into chunks of a size that depends only on the problem; tasks sum chunks into a
// table, which is then summed in order. Dense channels (NHWC) are summed as rows, others one by one.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <vector>

#include "primitives/tensor_ops/cpu/rows.h"
#include "primitives/tensor_ops/passes.h"

namespace polymio::tensor_ops {
namespace {

constexpr std::int64_t kBlock = 512;                           // elements read at a time
constexpr std::int64_t kTaskElements = std::int64_t{1} << 15;  // about 10 us, and within the L2 cache
constexpr std::int64_t kMinRow = 16;                           // fewest channels for summing rows

/// Blocks are summed in D, their sums in Total.
template <class D>
using Total = std::conditional_t<std::is_same_v<D, float>, double, D>;

/// Offsets of the channels of a tensor, possibly NCHWc.
struct Channels {
  explicit Channels(const TensorDesc& t) : vector(t.vector_length), stride(t.strides[1]) {}
  std::int64_t offset(std::int64_t k) const { return vector == 1 ? k * stride : k / vector * stride + k % vector; }
  std::int64_t vector, stride;
};

template <class D>
Total<D> sum_block(const D* p, std::int64_t n) {
  constexpr std::int64_t kLanes = 16;
  D lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::int64_t j = 0; j < kLanes; ++j) lanes[j] += p[i + j];
  Total<D> sum = 0;
  for (const D lane : lanes) sum += lane;
  for (; i < n; ++i) sum += p[i];
  return sum;
}

template <class D>
class Sums {
 public:
  explicit Sums(Input dy)
      : data_(dy.data),
        type_(dy.desc.type),
        read_(reader<D>(type_)),
        channels_(dy.desc),
        count_(dy.desc.lens[1] * channels_.vector) {
    const TensorDesc* desc = &dy.desc;
    Loop all = make_loop({&desc, 1});
    for (std::size_t d = 0; d < all.rank; ++d) {
      const bool channel = d == 1 || d == static_cast<std::size_t>(desc->rank);
      if (!channel) loop_.push(all.dims[d]);
    }
    loop_.simplify();
    inner_ = loop_.dims[loop_.rank - 1].strides[0];
    rows_ = channels_.vector == 1 && channels_.stride < inner_ && count_ >= kMinRow;
    const std::int64_t reduced = loop_.count();
    const std::int64_t row_channels = rows_ ? std::min(count_, kBlock) : 1;
    chunk_ = std::max<std::int64_t>(1, kTaskElements / row_channels);
    chunks_ = (reduced + chunk_ - 1) / chunk_;
    group_ = rows_ ? row_channels : std::clamp<std::int64_t>(kTaskElements / reduced, 1, count_);
    groups_ = (count_ + group_ - 1) / group_;
    table_.resize(static_cast<std::size_t>(chunks_ * count_));
  }

  std::int64_t count() const { return count_; }

  void run(Stream& stream) {
    stream.parallel_for(static_cast<std::size_t>(chunks_ * groups_), 0, [this](std::size_t i, void*) {
      const auto task = static_cast<std::int64_t>(i);
      const std::int64_t first = task % groups_ * group_, last = std::min(first + group_, count_);
      const std::int64_t begin = task / groups_ * chunk_, end = std::min(begin + chunk_, loop_.count());
      Total<D>* totals = table_.data() + task / groups_ * count_;
      if (rows_) return add_rows(begin, end, first, last, totals);
      for (std::int64_t k = first; k < last; ++k) totals[k] = channel(begin, end, channels_.offset(k));
    });
  }

  Total<D> total(std::int64_t k) const {
    Total<D> sum = 0;
    for (std::int64_t c = 0; c < chunks_; ++c) sum += table_[static_cast<std::size_t>(c * count_ + k)];
    return sum;
  }

 private:
  /// n elements `stride` apart: in place if possible, else converted into the buffer.
  const D* row(std::int64_t offset, std::int64_t stride, std::int64_t n, D* buffer) const {
    const void* start = at(data_, type_, offset);
    if (stride == 1 && is_native<D>(type_)) return static_cast<const D*>(start);
    read_(start, stride, n, buffer);
    return buffer;
  }

  Total<D> channel(std::int64_t begin, std::int64_t end, std::int64_t offset) const {
    alignas(64) D buffer[kBlock];
    Total<D> sum = 0;
    Cursor cursor(loop_, begin);
    for (std::int64_t i = begin; i < end;) {
      const std::int64_t n = std::min({cursor.run(), end - i, kBlock});
      sum += sum_block(row(offset + cursor.offset(0), inner_, n, buffer), n);
      cursor.advance(n);
      i += n;
    }
    return sum;
  }

  void add_rows(std::int64_t begin, std::int64_t end, std::int64_t first, std::int64_t last, Total<D>* totals) const {
    alignas(64) D buffer[kBlock];
    alignas(64) Total<D> sums[kBlock] = {};
    const std::int64_t n = last - first;
    Cursor cursor(loop_, begin);
    for (std::int64_t i = begin; i < end; ++i, cursor.advance(1)) {
      const D* p = row(cursor.offset(0) + channels_.offset(first), channels_.stride, n, buffer);
      for (std::int64_t k = 0; k < n; ++k) sums[k] += p[k];
    }
    std::copy_n(sums, n, totals + first);
  }

  const void* data_;
  DataType type_;
  ReadRow<D> read_;
  Channels channels_;
  std::int64_t count_;
  Loop loop_;  // over the elements of one channel
  std::int64_t inner_ = 1;
  bool rows_ = false;  // NHWC: sums rows of channels
  std::int64_t chunk_ = 1, chunks_ = 1, group_ = 1, groups_ = 1;
  std::vector<Total<D>> table_;  // chunk by channel
};

/// D: type of the sums; S: type of alpha * sum + beta * db.
template <class D, class S>
void run_in(Stream& stream, double alpha, Input dy, double beta, Output db) {
  Sums<D> sums(dy);
  sums.run(stream);
  const Channels channels(db.desc);
  const DataType type = db.desc.type;
  for (std::int64_t k = 0; k < sums.count(); ++k) {
    void* out = at(db.data, type, channels.offset(k));
    S value = static_cast<S>(alpha) * static_cast<S>(sums.total(k));
    if (beta != 0) {
      S old;
      reader<S>(type)(out, 1, 1, &old);
      value += static_cast<S>(beta) * old;
    }
    writer<S>(type)(&value, 1, out, 1);
  }
}

}  // namespace

void run_bias_backward(Stream& stream, double alpha, Input dy, double beta, Output db) {
  const DataType types[] = {dy.desc.type, db.desc.type};
  const double scalars[] = {alpha, beta};
  const bool wide = dy.desc.type == DataType::kInt32 || dy.desc.type == DataType::kInt64;
  if (wide && needs_exact(types, scalars))
    run_in<Wide, Wide>(stream, alpha, dy, beta, db);
  else if (wide)
    run_in<Wide, double>(stream, alpha, dy, beta, db);
  else if (dy.desc.type == DataType::kDouble)
    run_in<double, double>(stream, alpha, dy, beta, db);
  else
    run_in<float, double>(stream, alpha, dy, beta, db);
}

}  // namespace polymio::tensor_ops
