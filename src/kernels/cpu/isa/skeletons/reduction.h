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
//
//     // Optional: the elements of a block are summed relative to a pivot, which is cheaper than merging: its first
//     // element (then there is no add()) or, in rows, the largest.
//     static constexpr Pivot kPivot = Pivot::kLargest;
//     static constexpr int kSums = 1;
//     Vec<T> element(Vec<T> x) const;                     // of kFirst: what the pivot is
//     T least() const;                                    // of kLargest: what the pivot is at least
//     Vec<T> add_to_sums(Vec<T> (&acc)[2], Vec<T> x) const;  // {pivot, sums}; returns the term of kLargest
//     void values_of(Vec<T> (&acc)[2], Vec<T> count, const Vec<T> (&sums)[2]) const;  // of {pivot, sums}
//
//     Vec<T> apply(const Vec<T> (&values)[2], Vec<T> x) const;      // optional: the second pass over a row
//     Blend stores() const;                        // optional: how its results are stored; Blend or Streaming
//   };
//   constexpr Reduction<> kLargest = reduction<Largest, float, Types<Half>, Types<Half>>();
#pragma once
#include "kernels/cpu/isa/skeletons/column.h"
#include "kernels/cpu/isa/skeletons/row.h"
#include "kernels/cpu/isa/skeletons/row_pass.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// The first kN of From.
template <int kN, class From, class Kept = Types<>>
struct FirstTypes {
  using type = Kept;
};
template <int kN, class First, class... Others, class... Kept>
requires(kN > 0) struct FirstTypes<kN, Types<First, Others...>, Types<Kept...>>
    : FirstTypes<kN - 1, Types<Others...>, Types<Kept..., First>> {
};

/// T: type of the lanes. Functions that reduce depend on no type that only the second pass reads or writes. G: the
/// functor of the second pass, H: that of one over terms.
template <template <class> class F, class T, class Inputs, class Outputs = Types<>, template <class> class G = F,
          template <class> class H = NoTerms>
constexpr Reduction<> reduction() {
  using Reduced = typename FirstTypes<F<T>::kReads, Inputs>::type;
  using R = Row<F, T, Reduced>;
  Reduction<> r;
  r.accumulators = F<T>::kAccumulators;
  r.reads = F<T>::kReads;
  r.row_scalars = row_scalars<F<T>>();
  r.start = &R::start;
  r.reduce = &R::reduce;
  r.reduce_each = &R::reduce_each;
  r.reduce_columns = &Column<F, T, Reduced>::reduce;
  r.merge = &R::merge;
  if constexpr (!__is_same(Outputs, Types<>)) {
    if constexpr (__is_same(H<T>, NoTerms<T>))
      r.apply = &RowPass<G, T, Inputs, Outputs>::apply;
    else
      r.apply = &TermPass<G, H, T, Inputs, Outputs>::apply;
    r.apply_columns = &ColumnPass<G, T, Inputs, Outputs>::apply;
  }
  if constexpr (!__is_same(H<T>, NoTerms<T>)) r.term_bytes = sizeof(T);
  return r;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
