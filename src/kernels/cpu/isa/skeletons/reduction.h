// Reductions to a few accumulators. The functor is written once, for vectors, and serves rows (row.h), columns
// (column.h) and both arithmetics: lanes of T reduce up to kMostElements elements, their values are merged in double.
// SPDX-License-Identifier: MIT
//
//   template <class T>
//   struct Largest {
//     using Job = Parameters;              // what the kernels' `job` points to; void: nothing
//     static constexpr int kReads = 1;     // inputs that are reduced
//     static constexpr int kRowScalars = 0;  // optional: the last so many of them are one number per row of columns
//     static constexpr int kElementsPerLane = 64;  // optional: of a column (kMostElements), fewer for more exact sums
//     static constexpr int kAccumulators = 2;
//     static constexpr int kIndex = 1;     // the accumulator that holds an element's number; -1: none
//     explicit Largest(const Job&);
//     void start(Vec<T> (&acc)[2]) const;                           // the values of no elements
//     void add(Vec<T> (&acc)[2], Vec<T> index, Vec<T> x) const;     // an element for each lane
//     void merge(Vec<T> (&acc)[2], const Vec<T> (&later)[2]) const;
//     Vec<T> apply(const Vec<T> (&values)[2], Vec<T> x) const;      // optional: the second pass over a row
//     Blend blend() const;                                          // optional: how its results are stored
//   };
//   constexpr Reduction<> kLargest = reduction<Largest, float, Types<Half>, Types<Half>>();
#pragma once
#include "kernels/cpu/isa/skeletons/column.h"
#include "kernels/cpu/isa/skeletons/row.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// T: type of the lanes.
template <template <class> class F, class T, class Inputs, class Outputs = Types<>>
constexpr Reduction<> reduction() {
  using R = Row<F, T, Inputs, Outputs>;
  Reduction<> r;
  r.accumulators = F<T>::kAccumulators;
  r.reads = F<T>::kReads;
  r.row_scalars = row_scalars<F<T>>();
  r.start = &R::start;
  r.reduce = &R::reduce;
  r.reduce_each = &R::reduce_each;
  r.reduce_columns = &Column<F, T, Inputs>::reduce;
  r.merge = &R::merge;
  if constexpr (!__is_same(Outputs, Types<>)) {
    r.apply = &R::apply;
    r.apply_columns = &ColumnPass<F, T, Inputs, Outputs>::apply;
  }
  return r;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
