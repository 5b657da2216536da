// Sums, products and extremes as reductions.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/reduce.h"

#include "kernels/cpu/isa/isa_namespaces.h"
#include "kernels/cpu/isa/skeletons/reduction.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

template <ReduceKind kKind, class T>
struct SumOf {
  using Job = void;
  static constexpr int kReads = 1, kAccumulators = 1, kIndex = -1, kElementsPerLane = 64;
  void start(Vec<T> (&acc)[1]) const { acc[0] = Vec<T>{}; }
  void add(Vec<T> (&acc)[1], Vec<T>, Vec<T> x) const { acc[0] = acc[0] + term(x); }
  void merge(Vec<T> (&acc)[1], const Vec<T> (&later)[1]) const { acc[0] = acc[0] + later[0]; }
  static Vec<T> term(Vec<T> x) {
    if constexpr (kKind == ReduceKind::kMagnitudes) return absolute<T>(x);
    if constexpr (kKind == ReduceKind::kNumbers) return x == x ? x : Vec<T>{};
    if constexpr (kKind == ReduceKind::kSquares) return x * x;
    return x;
  }
};
template <class T>
struct Sum : SumOf<ReduceKind::kSum, T> {};
template <class T>
struct Magnitudes : SumOf<ReduceKind::kMagnitudes, T> {};
template <class T>
struct Numbers : SumOf<ReduceKind::kNumbers, T> {};
template <class T>
struct Squares : SumOf<ReduceKind::kSquares, T> {};

template <class T>
struct Product {
  using Job = ReduceJob;
  static constexpr int kReads = 1, kAccumulators = 1, kIndex = -1;
  explicit Product(const Job& job) : zero(broadcast(static_cast<typename Float<T>::Int>(job.zero ? -1 : 0))) {}
  void start(Vec<T> (&acc)[1]) const { acc[0] = broadcast<T>(1); }
  void add(Vec<T> (&acc)[1], Vec<T>, Vec<T> x) const { acc[0] = acc[0] * ((x != x) & zero ? Vec<T>{} : x); }
  void merge(Vec<T> (&acc)[1], const Vec<T> (&later)[1]) const { acc[0] = acc[0] * later[0]; }
  Ints<T> zero;
};

/// Of elements, their magnitudes or their opposites.
template <class T>
struct ExtremeOf {
  using Job = ReduceJob;
  using Int = typename Float<T>::Int;
  static constexpr int kReads = 1, kAccumulators = 2;
  explicit ExtremeOf(const Job& job)
      : kept(broadcast(job.magnitude ? kMost : Int{-1})),
        flipped(broadcast(job.negative ? static_cast<Int>(~kMost) : Int{0})),
        first(broadcast(static_cast<T>(job.first))) {}

  void start(Vec<T> (&acc)[2]) const {
    acc[0] = first;
    acc[1] = Vec<T>{};
  }
  Vec<T> signed_(Vec<T> element) const { return (Vec<T>)(((Ints<T>)element & kept) ^ flipped); }

  static constexpr Int kMost = static_cast<Int>(~std::uint64_t{0} >> (65 - 8 * sizeof(T)));
  Ints<T> kept, flipped;
  Vec<T> first;
};

/// The largest number.
template <class T>
struct Largest : ExtremeOf<T> {
  static constexpr int kIndex = -1, kAccumulators = 1;
  using ExtremeOf<T>::ExtremeOf;
  void start(Vec<T> (&acc)[1]) const { acc[0] = this->first; }
  void add(Vec<T> (&acc)[1], Vec<T>, Vec<T> element) const { acc[0] = larger_of<T>(this->signed_(element), acc[0]); }
  void merge(Vec<T> (&acc)[1], const Vec<T> (&later)[1]) const { acc[0] = larger_of<T>(later[0], acc[0]); }
};

/// The largest number, and the last NaN of a lane.
template <class T>
struct Extreme : ExtremeOf<T> {
  static constexpr int kIndex = -1;
  using ExtremeOf<T>::ExtremeOf;
  void add(Vec<T> (&acc)[2], Vec<T>, Vec<T> element) const {
    const Vec<T> x = this->signed_(element);
    acc[0] = larger_of<T>(x, acc[0]);
    acc[1] = x == x ? acc[1] : x;
  }
  void merge(Vec<T> (&acc)[2], const Vec<T> (&later)[2]) const {
    acc[0] = larger_of<T>(later[0], acc[0]);
    acc[1] = later[1] == later[1] ? acc[1] : later[1];
  }
};

/// The first of equal elements wins.
template <class T>
struct Position : ExtremeOf<T> {
  static constexpr int kIndex = 1;
  explicit Position(const ReduceJob& job)
      : ExtremeOf<T>(job), propagate(broadcast(static_cast<typename Float<T>::Int>(job.propagate ? -1 : 0))) {}
  void add(Vec<T> (&acc)[2], Vec<T> index, Vec<T> element) const {
    const Vec<T> x = this->signed_(element);
    const auto wins = (x > acc[0]) | ((x != x) & propagate);
    acc[0] = wins ? x : acc[0];
    acc[1] = wins ? index : acc[1];
  }
  void merge(Vec<T> (&acc)[2], const Vec<T> (&later)[2]) const {
    const auto is_nan = (later[0] != later[0]) & propagate;
    const auto wins = (later[0] > acc[0]) | ((later[0] == acc[0]) & (later[1] < acc[1])) |
                      (is_nan & ((acc[0] == acc[0]) | (later[1] > acc[1])));
    acc[0] = wins ? later[0] : acc[0];
    acc[1] = wins ? later[1] : acc[1];
  }
  Ints<T> propagate;
};

/// The functor's reduction of elements of S with lanes of T.
template <template <class> class F, class S, class T>
constexpr Reduction<> kReduction = reduction<F, T, Types<S>>();

template <class S>
const Reduction<>* kernel_of(ReduceKind kind) {
  using T = std::conditional_t<sizeof(S) == 8 || __is_same(S, std::int32_t), double, float>;
  using Square = std::conditional_t<__is_same(S, Half) || __is_same(S, std::int8_t), float, double>;
  switch (kind) {
    case ReduceKind::kSum: return &kReduction<Sum, S, T>;
    case ReduceKind::kMagnitudes: return &kReduction<Magnitudes, S, T>;
    case ReduceKind::kNumbers: return &kReduction<Numbers, S, T>;
    case ReduceKind::kSquares: return &kReduction<Squares, S, Square>;
    case ReduceKind::kProduct: return &kReduction<Product, S, double>;
    case ReduceKind::kLargest: return &kReduction<Largest, S, T>;
    case ReduceKind::kExtreme: return &kReduction<Extreme, S, T>;
    case ReduceKind::kPosition: return &kReduction<Position, S, T>;
  }
  return nullptr;
}

const Reduction<>* kernel(ReduceKind kind, DataType type) {
  switch (type) {
    case DataType::kFloat: return kernel_of<float>(kind);
    case DataType::kHalf: return kernel_of<Half>(kind);
    case DataType::kBFloat16: return kernel_of<Bfloat16>(kind);
    case DataType::kDouble: return kernel_of<double>(kind);
    case DataType::kInt32: return kernel_of<std::int32_t>(kind);
    case DataType::kInt8: return kernel_of<std::int8_t>(kind);
    default: return nullptr;
  }
}

}  // namespace

template <>
const ReduceKernels& entry_points<ReduceKernels>() {
  static constexpr ReduceKernels kKernels{.kernel = kernel};
  return kKernels;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
