// Bias and activation of a block of a strided matrix, in place. 16-bit elements are computed in fp32 and rounded once.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/epilogue.h"

#include "kernels/cpu/activation.h"
#include "kernels/cpu/isa/isa_namespaces.h"
#include "kernels/cpu/isa/operand_cursor.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

constexpr int kColumnBlock = 256;  // columns at a time

/// S: the storage type, T: the type of the arithmetic.
template <class S, class T>
class Rows {
 public:
  Rows(const Epilogue& e, DataType arithmetic)
      : e_(e), bias_(static_cast<const S*>(e.bias)), stride_(e.y.columns.level[kLevels - 1].stride) {
    in_place_job_ = {e.y.dtype, e.mode, ActivationPass::kForward, nullptr, nullptr, nullptr, e.alpha, e.beta, e.gamma};
    buffer_job_ = in_place_job_;
    buffer_job_.type = arithmetic;
    buffer_job_.result = buffer_;
    buffer_job_.x = buffer_;
  }

  void run(i64 m0, i64 m1, i64 n0, i64 n1) {
    Run runs[kColumnBlock];
    for (i64 n = n0; n < n1; n += kColumnBlock) {
      const int columns = static_cast<int>(min_of<i64>(kColumnBlock, n1 - n));
      const int count = cut_runs(e_.y.columns, n, columns, runs);
      Cursor row = seek(e_.y.rows, m0);
      for (i64 m = m0; m < m1; ++m, step(row, e_.y.rows)) {
        S* const start = static_cast<S*>(e_.y.data) + e_.y.offset + row.offset;
        i64 channel = e_.channels_are_rows ? m : n;
        for (int r = 0; r < count; ++r) {
          finish(start + runs[r].offset, runs[r].length, channel);
          if (!e_.channels_are_rows) channel += runs[r].length;
        }
      }
    }
  }

 private:
  /// A run of `length` elements from channel `channel` on, or all of it if channels are rows.
  void finish(S* y, int length, i64 channel) {
    if (stride_ == 1 && bias_ == nullptr) {
      activate(in_place_job_, y, length);
      return;
    }
    if constexpr (sizeof(S) == sizeof(T)) {
      if (stride_ == 1) {
        add_bias(y, length, channel);
        if (e_.mode != 0) activate(in_place_job_, y, length);
        return;
      }
    }
    for (int i = 0; i < length; ++i)
      buffer_[i] = widen(y[i * stride_]) + bias(channel + (e_.channels_are_rows ? 0 : i));
    if (e_.mode != 0) entry_points<ActivationKernels>().run(buffer_job_, 0, length);
    for (int i = 0; i < length; ++i) y[i * stride_] = narrow<S>(buffer_[i]);
  }

  void add_bias(T* y, int length, i64 channel) const {
    if (e_.channels_are_rows) {
      const T b = bias(channel);
      for (int i = 0; i < length; ++i) y[i] += b;
    } else {
      for (int i = 0; i < length; ++i) y[i] += bias(channel + i);
    }
  }

  T bias(i64 channel) const { return bias_ == nullptr ? T{0} : widen(bias_[channel]); }

  static void activate(Activation& job, S* y, int length) {
    job.result = y;
    job.x = y;
    entry_points<ActivationKernels>().run(job, 0, length);
  }

  const Epilogue& e_;
  const S* bias_;
  i64 stride_;
  Activation in_place_job_, buffer_job_;  // of y; of buffer_
  T buffer_[kColumnBlock];
};

void epilogue(const Epilogue& e, i64 m0, i64 m1, i64 n0, i64 n1) {
  switch (e.y.dtype) {
    case DataType::kHalf: return Rows<Half, float>(e, DataType::kFloat).run(m0, m1, n0, n1);
    case DataType::kBFloat16: return Rows<Bfloat16, float>(e, DataType::kFloat).run(m0, m1, n0, n1);
    case DataType::kDouble: return Rows<double, double>(e, DataType::kDouble).run(m0, m1, n0, n1);
    default: return Rows<float, float>(e, DataType::kFloat).run(m0, m1, n0, n1);
  }
}

}  // namespace

template <>
const EpilogueKernels& entry_points<EpilogueKernels>() {
  static constexpr EpilogueKernels kKernels{.run = epilogue};
  return kKernels;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
