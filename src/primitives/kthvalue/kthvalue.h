// The k-th smallest element along one dimension and its position: the public interface of this folder. Selection by the
// digits of a number that has the order of the elements; NaNs are larger than every number. The C API has no find for
// it: the first run takes the best known tune point, and tunes if the environment enforces a search.
// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "core/handle.h"
#include "core/problem_text.h"
#include "search/runner.h"

namespace polymio::kthvalue {

struct Selection {
  std::int64_t dim = 0;
  std::int64_t k = 1;  // from 1
  bool operator==(const Selection&) const = default;
  std::uint64_t hash(std::uint64_t seed) const {
    return mix(seed, static_cast<std::uint64_t>(k) << 4 ^ static_cast<std::uint64_t>(dim));
  }
};

struct Problem final : ProblemOf<Problem> {
  struct Args {
    const void* x = nullptr;
    void* y = nullptr;
    void* indices = nullptr;  // of equal elements, the first
  };

  Selection selection;
  TensorDesc x;
  TensorDesc y, indices;  // the sizes of x with 1 in dimension `dim`; indices have 64 bits

  auto fields() const { return std::tie(selection, x, y, indices); }
  /// The MIOpenDriver line of the problem.
  std::string key() const override;
  std::string family() const override;
  std::vector<float> log_sizes() const override;  // rows, elements of a row
  double work() const override;                   // bytes

  const TensorDesc& output() const { return y; }
  std::int64_t length() const { return x.lens[static_cast<std::size_t>(selection.dim)]; }
};

/// Throws BadParm, naming what is wrong.
void validate(const Problem&);

/// Every solver for the CPU or for GPUs; those of both.
SolverList solvers(DeviceKind = DeviceKind::kCpu);
SolverList all_solvers();

/// Checks results of the problem by a selection among the elements in double.
std::unique_ptr<const search::ResultCheck> make_check(const Problem&);

/// Throws BadParm if an output overlaps x or the other output; NotImplemented on GPUs for more than 2^30 elements in
/// the dimension.
void run(Handle&, const Problem&, const Problem::Args&);

/// The programs that a GPU needs for elements of this type.
std::vector<KernelSpec> programs(const DeviceInfo&, DataType);

}  // namespace polymio::kthvalue
