// The second pass over rows: outputs from the values of a row and its elements (softmax, norms). The functor is
// described in reduction.h.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/skeletons/accumulators.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

template <template <class> class F, class T, class Inputs, class Outputs>
struct RowPass;

template <template <class> class F, class T, class... I, class Outputs>
struct RowPass<F, T, Types<I...>, Outputs> {
  static constexpr int kCount = F<T>::kAccumulators;

  /// Row i has values[accumulator * pitch + i * step].
  static void apply(const void* job, const Run& run, const double* values, i64 pitch, i64 step) {
    Applied applied{functor<F, T>(job), values, pitch, step, {}, {}};
    applied.set(0);
    for (std::size_t k = 0; k < sizeof...(I); ++k)
      applied.after[k] = (run.repeats >> k & 1) != 0 ? 0 : run.rows * run.in_row_bytes[k];
    map_applied<T, Types<I...>, Outputs>(applied, run);
    finish_applied(applied.f);
  }

 private:
  struct Applied {
    void start_row(i64 row) {
      if (step != 0) set(row);
    }
    void set(i64 row) {
      for (int k = 0; k < kCount; ++k) of_row[k] = broadcast(static_cast<T>(values[k * pitch + row * step]));
    }
    template <class... X>
    [[gnu::always_inline]] auto operator()(X... x) const {
      return f.apply(of_row, x...);
    }
    /// The next rows, which are reduced next: their lines arrive while results are stored.
    [[gnu::always_inline]] void prefetch(const RowInputs<T, I...>& in, i64 i) const {
      constexpr i64 kSizes[] = {sizeof(I)...};
      constexpr int kIntoL2 = 2;
      for (int k = 0; k < F<T>::kReads; ++k)
        __builtin_prefetch(static_cast<const char*>(in.in[k]) + (i & in.mask[k]) * kSizes[k] + after[k], 0, kIntoL2);
    }
    F<T> f;
    const double* values;
    i64 pitch, step;
    Vec<T> of_row[kCount];
    i64 after[sizeof...(I)];  // bytes to the next rows
  };
};

/// The second pass by F, or by G over the terms if they were kept.
template <template <class> class F, template <class> class G, class T, class Inputs, class Outputs>
struct TermPass {
  static void apply(const void* job, const Run& run, const double* values, i64 pitch, i64 step) {
    if (!run.terms) return RowPass<F, T, Inputs, Outputs>::apply(job, run, values, pitch, step);
    Run terms = run;
    terms.in[0] = run.terms;
    terms.in_row_bytes[0] = run.term_row_bytes;
    RowPass<G, T, Types<T>, Outputs>::apply(job, terms, values, pitch, step);
  }
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
