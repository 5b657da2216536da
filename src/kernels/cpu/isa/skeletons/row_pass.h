// The second pass over rows: outputs from the values of a row and its elements (softmax, norms). The functor is
// described in reduction.h.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/skeletons/accumulators.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

template <template <class> class F, class T, class Inputs, class Outputs>
struct RowPass {
  static constexpr int kCount = F<T>::kAccumulators;

  /// Row i has values[accumulator * pitch + i * step].
  static void apply(const void* job, const Run& run, const double* values, i64 pitch, i64 step) {
    Applied applied{functor<F, T>(job), values, pitch, step, {}};
    applied.set(0);
    map_applied<T, Inputs, Outputs>(applied, run);
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
    F<T> f;
    const double* values;
    i64 pitch, step;
    Vec<T> of_row[kCount];
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
