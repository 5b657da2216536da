// Attention, softmax(scale * q k' + bias) v for every batch and head, and its gradient: the public interface of this
// folder. No matrix of all queries by all keys is stored. Find 2.0 measures the solvers; the graph API runs the best
// known one.
// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "core/handle.h"
#include "core/problem_text.h"
#include "search/runner.h"

namespace polymio::mha {

/// o, m and z_inv from q, k and v; or dq, dk and dv from these and dout.
enum class Direction : int { kForward = 0, kBackward = 1 };
/// Numbers equal miopenMhaMask_t. kCausal: query i sees the keys 0 to i.
enum class Mask : int { kNone = 0, kCausal = 1 };

/// Factors that callers keep in device memory, one float each. A descale multiplies what was stored divided by it; a
/// scale multiplies what is stored: s is the matrix of softmax results, ds its gradient.
enum class Scalar : int {
  kDescaleQ,
  kDescaleK,
  kDescaleV,
  kDescaleS,
  kDescaleO,
  kDescaleDO,
  kDescaleDS,
  kScaleS,
  kScaleO,
  kScaleDS,
  kScaleDQ,
  kScaleDK,
  kScaleDV,
};
inline constexpr std::size_t kScalars = 13;

/// The largest magnitude of a result before it is multiplied by its scale and rounded; of s before dropout.
enum class Amax : int { kO, kS, kDQ, kDK, kDV, kDS };
inline constexpr std::size_t kAmaxes = 6;

struct Problem final : ProblemOf<Problem> {
  /// Device memory, but for scale and mask. What may be null is not written, or is 1 (scalars), absent (bias), not
  /// applied (dropout: all three or none).
  struct Args {
    const void *q = nullptr, *k = nullptr, *v = nullptr;
    void* o = nullptr;  // backward: an input, the result of forward
    const void* bias = nullptr;
    void *m = nullptr, *z_inv = nullptr;  // backward: inputs; forward: may be null
    const void* dout = nullptr;
    void *dq = nullptr, *dk = nullptr, *dv = nullptr;
    std::array<const void*, kScalars> scalars{};
    std::array<void*, kAmaxes> amax{};
    const void *probability = nullptr, *seed = nullptr, *offset = nullptr;  // of dropout: float, int64, int64
    double scale = 1;
    Mask mask = Mask::kNone;
    void* workspace = nullptr;
    std::size_t workspace_bytes = 0;

    const void*& scalar(Scalar s) { return scalars[static_cast<std::size_t>(s)]; }
    const void* scalar(Scalar s) const { return scalars[static_cast<std::size_t>(s)]; }
    void*& largest(Amax a) { return amax[static_cast<std::size_t>(a)]; }
    void* largest(Amax a) const { return amax[static_cast<std::size_t>(a)]; }
  };

  Direction direction = Direction::kForward;
  // Batch, heads, tokens, head size, any strides of the first three dimensions; elements of a head are contiguous.
  TensorDesc q, k, v, o;
  TensorDesc dout, dq, dk, dv;  // backward only
  TensorDesc bias;              // batch or 1, heads or 1, queries, keys, fp32; rank 0: none

  auto fields() const { return std::tie(direction, q, k, v, o, dout, dq, dk, dv, bias); }
  /// The MIOpenDriver line of the problem, without scale, mask and dropout.
  std::string key() const override;
  std::string family() const override;
  std::vector<float> log_sizes() const override;  // batch * heads, queries, keys, head size
  double work() const override;                   // operations

  bool forward() const { return direction == Direction::kForward; }
  bool has_bias() const { return bias.rank != 0; }
  std::int64_t batch() const { return q.lens[0]; }
  std::int64_t heads() const { return q.lens[1]; }
  std::int64_t queries() const { return q.lens[2]; }
  std::int64_t keys() const { return k.lens[2]; }
  std::int64_t head_size() const { return q.lens[3]; }
  std::int64_t rows() const { return batch() * heads() * queries(); }
  const TensorDesc& output() const { return forward() ? o : dq; }
  /// The tensor m or z_inv.
  TensorDesc statistics() const;
};

/// Not validated. Give `bias` rank 0 for none.
Problem forward_problem(const TensorDesc& q, const TensorDesc& k, const TensorDesc& v, const TensorDesc& o,
                        const TensorDesc& bias = {});
Problem backward_problem(const TensorDesc& q, const TensorDesc& k, const TensorDesc& v, const TensorDesc& o,
                         const TensorDesc& dout, const TensorDesc& dq, const TensorDesc& dk, const TensorDesc& dv,
                         const TensorDesc& bias = {});

/// Throws BadParm, naming what is wrong, unless the tensors fit together.
void validate(const Problem&);

/// Every solver of a direction for the CPU or for GPUs, in order of preference at equal times; those of both.
SolverList solvers(Direction, DeviceKind = DeviceKind::kCpu);
SolverList all_solvers();

/// Checks results of the problem by an evaluation in double.
std::unique_ptr<const search::ResultCheck> make_check(const Problem&);

/// The GPU kernels of a direction for this type.
std::vector<KernelSpec> programs(const DeviceInfo&, DataType, Direction);

/// Bytes with which every solver of the device runs the problem.
std::size_t workspace_size(const DeviceInfo&, const Problem&);

/// Runs the solver `id` at a tune point, or the best known one that the workspace suffices for if the id is 0. Throws
/// BadParm for missing buffers, too small a workspace and results that overlap other tensors.
void run(Handle&, const Problem&, const Problem::Args&, std::uint64_t id = 0, const TunePoint& = {});

/// Find, immediate mode and tuning of the problem, which must outlive the result.
search::Call search_call(Handle&, const Problem&, const Constraints&);

/// Measures on these tensors. NotInitialized while the stream is being captured.
std::vector<search::Candidate> find(Handle&, const Problem&, const Constraints&, const Problem::Args&,
                                    const search::FindOptions&);

}  // namespace polymio::mha
