// Scale, bias, residual and activation of a block of a strided matrix, in place. 16-bit elements are computed in fp32
// and rounded once.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/epilogue.h"

#include "kernels/cpu/activation.h"
#include "kernels/cpu/isa/apply_epilogue.h"
#include "kernels/cpu/isa/isa_namespaces.h"
#include "kernels/cpu/isa/math_functions.h"
#include "kernels/cpu/isa/operand_cursor.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

constexpr int kColumnBlock = 256;  // columns at a time

/// S: the storage type, T: the type of the arithmetic.
template <class S, class T>
class Rows {
 public:
  Rows(const Epilogue& e, DataType arithmetic)
      : e_(e),
        channels_(e),
        residual_(static_cast<const S*>(e.residual)),
        residual_alpha_(static_cast<T>(e.residual_alpha)),
        range_(e),
        stride_(e.y.columns.level[kLevels - 1].stride) {
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
      if constexpr (sizeof(S) == sizeof(T)) {
        if (count == 1 && stride_ == 1 && range_.is_known && e_.channels_are_rows && residual_ == nullptr) {
          finish_rows(m0, m1, runs[0]);
          continue;
        }
      }
      Cursor row = seek(e_.y.rows, m0);
      for (i64 m = m0; m < m1; ++m, step(row, e_.y.rows)) {
        const i64 start = e_.y.offset + row.offset;
        i64 channel = e_.channels_are_rows ? m : n;
        for (int r = 0; r < count; ++r) {
          finish(start + runs[r].offset, runs[r].length, channel);
          if (!e_.channels_are_rows) channel += runs[r].length;
        }
      }
    }
  }

 private:
  /// A run of `length` elements at `offset`, from channel `channel` on, or all of it if channels are rows.
  void finish(i64 offset, int length, i64 channel) {
    S* const y = static_cast<S*>(e_.y.data) + offset;
    if (stride_ == 1 && channels_.empty() && residual_ == nullptr) {
      activate(in_place_job_, y, length);
      return;
    }
    const S* const residual = residual_ == nullptr ? nullptr : residual_ + offset;
    if constexpr (sizeof(S) == sizeof(T)) {
      if (stride_ == 1 && range_.is_known) {
        finish_vectors(y, residual, length, channel);
        return;
      }
      if (stride_ == 1) {
        combine(y, 1, residual, y, length, channel);
        if (e_.mode != 0) activate(in_place_job_, y, length);
        return;
      }
    }
    combine(y, stride_, residual, buffer_, length, channel);
    if (e_.mode != 0) entry_points<ActivationKernels>().run(buffer_job_, 0, length);
    for (int i = 0; i < length; ++i) y[i * stride_] = narrow<S>(buffer_[i]);
  }

  /// finish_vectors() of one run of each row, for the parts of a product: the rows are short.
  void finish_rows(i64 m0, i64 m1, const Run& run) const {
    constexpr int kN = kLanes<T>;
    const int whole = run.length / kN * kN, rest = run.length - whole;
    T* const first = static_cast<T*>(e_.y.data) + e_.y.offset + run.offset;
    Cursor row = seek(e_.y.rows, m0);
    for (i64 m = m0; m < m1; ++m, step(row, e_.y.rows)) {
      T* const y = first + row.offset;
      const Vec<T> scale = broadcast(channels_.scale(m)), bias = broadcast(channels_.bias(m));
      for (int i = 0; i < whole; i += kN) store(y + i, range_(load(y + i) * scale + bias));
      if (rest > 0) store_lanes(y + whole, range_(load_lanes(y + whole, 0, rest) * scale + bias), rest);
    }
  }

  /// All of the epilogue, vector by vector.
  void finish_vectors(T* y, const T* residual, int length, i64 channel) const {
    constexpr int kN = kLanes<T>;
    Vec<T> scale = broadcast(channels_.scale(channel)), bias = broadcast(channels_.bias(channel));
    const Vec<T> residual_alpha = broadcast(residual_alpha_);
    const auto finish = [&](int i, auto read, auto write) {
      if (!e_.channels_are_rows) {
        scale = channels_.has_scale() ? read(channels_.scales(channel + i)) : scale;
        bias = channels_.has_bias() ? read(channels_.biases(channel + i)) : bias;
      }
      Vec<T> v = read(y + i) * scale + bias;
      if (residual != nullptr) v += residual_alpha * read(residual + i);
      write(y + i, range_(v));
    };
    int i = 0;
    for (; i + kN <= length; i += kN)
      finish(
          i, [](const T* p) { return load(p); }, [](T* p, Vec<T> v) { store(p, v); });
    const int rest = length - i;
    if (rest > 0)
      finish(
          i, [rest](const T* p) { return load_lanes(p, 0, rest); },
          [rest](T* p, Vec<T> v) { store_lanes(p, v, rest); });
  }

  /// to = y * scale + bias + residual_alpha * residual.
  void combine(const S* y, i64 stride, const S* residual, T* to, int length, i64 channel) const {
    T scales[kColumnBlock], biases[kColumnBlock];
    const i64 step = e_.channels_are_rows ? 0 : 1;
    for (int i = 0; i < length; ++i) {
      scales[i] = channels_.scale(channel + i * step);
      biases[i] = channels_.bias(channel + i * step);
    }
    for (int i = 0; i < length; ++i) to[i] = widen(y[i * stride]) * scales[i] + biases[i];
    if (residual == nullptr) return;
    for (int i = 0; i < length; ++i) to[i] += residual_alpha_ * widen(residual[i * stride]);
  }

  static void activate(Activation& job, S* y, int length) {
    job.result = y;
    job.x = y;
    entry_points<ActivationKernels>().run(job, 0, length);
  }

  const Epilogue& e_;
  const ChannelValues<S, T> channels_;
  const S* residual_;
  T residual_alpha_;
  ActivationRange<T> range_;
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

/// S: the type of the bias.
template <class S, class T>
void fold(const FoldedNorm& job) {
  const auto at = [](const void* values, i64 c, int n) { return load_lanes(static_cast<const T*>(values) + c, 0, n); };
  for (i64 c = 0; c < job.channels; c += kLanes<T>) {
    const int n = static_cast<int>(min_of<i64>(kLanes<T>, job.channels - c));
    const Vec<T> root = square_root(at(job.variance, c, n) + static_cast<T>(job.epsilon));
    const Vec<T> scale = at(job.norm_scale, c, n) / root;
    Vec<T> bias = -at(job.mean, c, n);
    if (job.bias != nullptr) bias += fetch_vector<T>(static_cast<const S*>(job.bias) + c, n);
    store_lanes(static_cast<T*>(job.scale_result) + c, scale, n);
    store_lanes(static_cast<T*>(job.bias_result) + c, bias * scale + at(job.norm_bias, c, n), n);
  }
}

void fold_norm(const FoldedNorm& job) {
  if (job.y == DataType::kDouble) return fold<double, double>(job);
  with_storage<float>(job.y, [&]<class S>(S*) { fold<S, float>(job); });
}

}  // namespace

template <>
const EpilogueKernels& entry_points<EpilogueKernels>() {
  static constexpr EpilogueKernels kKernels{.run = epilogue, .fold_norm = fold_norm};
  return kKernels;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
