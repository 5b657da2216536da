// Convolution: the public interface of this folder. Problems are plain (cross-correlation) convolutions; callers map
// transposed mode to the other direction.
// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "core/handle.h"
#include "core/problem_text.h"
#include "search/runner.h"

namespace polymio::convolution {

/// y = x * w; dx from dy and w; dw from dy and x. x and y stand for dx and dy too.
enum class Direction : int { kForward = 0, kBackwardData = 1, kBackwardWeights = 2 };

/// Numbers equal miopenConvAlgorithm_t, and SolverInfo::algorithm.
enum class Algorithm : int { kGemm = 0, kDirect = 1, kFft = 2, kWinograd = 3, kImplicitGemm = 5 };

constexpr const char* name_of(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kGemm: return "GEMM";
    case Algorithm::kDirect: return "Direct";
    case Algorithm::kFft: return "FFT";
    case Algorithm::kWinograd: return "Winograd";
    case Algorithm::kImplicitGemm: return "ImplicitGEMM";
  }
  return "unknown";
}

/// What (alpha, beta) may be: (1, 0), (any, 0), (any, any). The values are in Args.
enum class Scalars : int { kDefault = 0, kScale = 1, kBilinear = 2 };

/// How values are rounded to the 8-bit float formats. Numbers equal miopenF8RoundingMode_t.
enum class Rounding : int { kStandard = 0, kStochastic = 1 };

/// Pads, strides, dilations of up to three spatial dimensions ([D], H, W order), and groups.
struct Geometry {
  int spatial = 2;
  std::array<std::int64_t, 3> pad{}, stride{1, 1, 1}, dilation{1, 1, 1};
  std::int64_t groups = 1;
  bool operator==(const Geometry&) const = default;
  std::uint64_t hash(std::uint64_t seed) const;
};

/// Operations fused into a forward convolution: y = activation(norm(alpha * conv + beta * y + bias) + residual_alpha *
/// residual), where norm is a batch norm by given moments, one of each per channel. For a solver that refuses the
/// epilogue the primitive runs a pass over y after the solver.
struct Epilogue {
  bool bias = false;
  int activation = 0;     // activation::Mode; 0 is none
  bool norm = false;      // for a solver that refuses it the primitive makes a scale and a bias of it, in workspace
  bool residual = false;  // a tensor like y that does not overlap it
  // For solvers: a factor per channel before the bias. With norm both are the norm's, whose parameters they get; bias
  // may be null.
  bool scale = false;
  bool operator==(const Epilogue&) const = default;
  std::uint64_t hash(std::uint64_t seed) const;
  bool empty() const { return *this == Epilogue{}; }
};

struct Problem final : ProblemOf<Problem> {
  struct Args {
    // The direction's output is written, the other two are only read.
    void* x = nullptr;
    void* w = nullptr;
    void* y = nullptr;
    double alpha = 1, beta = 0;
    void* workspace = nullptr;
    std::size_t workspace_bytes = 0;
    void* packed = nullptr;  // weights as packed by the solver's packing()
    std::uint64_t seed = 0;  // of stochastic rounding
    // Epilogue: one bias per channel of y, in y's type, with a scale in parameter_type(); the activation's parameters.
    const void* bias = nullptr;
    const void* scale = nullptr;
    const void *norm_scale = nullptr, *norm_bias = nullptr, *norm_mean = nullptr, *norm_variance = nullptr;
    double norm_epsilon = 0;
    std::int64_t parameter_channels = 0;  // for solvers: the first channels of y, which have these; 0: all
    const void* residual = nullptr;
    double residual_alpha = 1;
    double activation_alpha = 0, activation_beta = 0, activation_gamma = 0;
  };

  Direction direction = Direction::kForward;
  TensorDesc x, w, y;  // w is (K, C / groups, filter...)
  Geometry geometry;
  Scalars scalars = Scalars::kDefault;
  Rounding rounding = Rounding::kStandard;  // kStandard when no 8-bit float is written or cast to
  Epilogue epilogue;

  auto fields() const { return std::tie(direction, x, w, y, geometry, scalars, rounding, epilogue); }
  /// The MIOpenDriver line of the problem, without alpha and beta, which hardly change times.
  std::string key() const override;
  std::string family() const override;
  std::vector<float> log_sizes() const override;  // n, c, k, groups and input sizes
  double work() const override { return flops(); }
  std::vector<float> features() const override;

  std::int64_t n() const { return x.lens[0]; }
  std::int64_t c() const { return x.lens[1]; }
  std::int64_t k() const { return y.lens[1]; }
  std::int64_t groups() const { return geometry.groups; }
  int spatial() const { return geometry.spatial; }
  // Spatial dimension i in [0, spatial()): 0 is the outermost ([D], H, W).
  std::int64_t in(int i) const { return x.lens[static_cast<std::size_t>(i) + 2]; }
  std::int64_t filter(int i) const { return w.lens[static_cast<std::size_t>(i) + 2]; }
  std::int64_t out(int i) const { return y.lens[static_cast<std::size_t>(i) + 2]; }
  const TensorDesc& output() const {
    return direction == Direction::kForward ? y : direction == Direction::kBackwardData ? x : w;
  }
  /// The inputs: first x or dy; second w, or dy for backward weights.
  const TensorDesc& first_input() const { return direction == Direction::kBackwardData ? y : x; }
  const TensorDesc& second_input() const { return direction == Direction::kBackwardWeights ? y : w; }
  bool all_types(DataType t) const { return x.type == t && w.type == t && y.type == t; }
  bool has_casts() const { return x.has_cast() || w.has_cast() || y.has_cast(); }
  bool depthwise() const { return geometry.groups > 1 && geometry.groups == c(); }
  /// Of the scale and the batch norm of an epilogue: that of the arithmetic.
  DataType parameter_type() const { return y.type == DataType::kDouble ? DataType::kDouble : DataType::kFloat; }
  /// 2 N K C/g R S P Q: the usual count, taps in the padding included.
  double flops() const;
};

/// Throws BadParm, naming what is wrong, unless the tensors and the geometry fit together.
void validate(const Problem&);

/// The output size: floor((in + 2 pad - (dilation (filter - 1) + 1)) / stride) + 1, at least 1.
std::int64_t forward_size(std::int64_t in, std::int64_t filter, std::int64_t pad, std::int64_t stride,
                          std::int64_t dilation);

/// Every solver of a direction for the CPU or for GPUs, in order of preference at equal times.
SolverList solvers(Direction, DeviceKind = DeviceKind::kCpu);

/// Those of every direction, for the CPU and for GPUs.
SolverList all_solvers();

/// The programs of the default points of a GPU's solvers for the usual kinds of convolutions, each once; with
/// `others` also for rarer ones and unaligned pointers. The device need not be there.
std::vector<KernelSpec> base_programs(const DeviceInfo&, bool others = false);

/// A problem as the runner sees it: find, immediate mode, tuning and plans. Validates the problem, which must outlive
/// the call; NotInitialized while the stream is being captured.
search::Call make_call(Handle&, const Problem&, const Constraints&);

/// Checks results of the problem by evaluating single elements in double.
std::unique_ptr<const search::ResultCheck> make_check(const Problem&);

/// The algorithm that callers see instead: Direct for implicit GEMM with POLYMIO_LEGACY_ALGORITHMS, unless the
/// environment switches implicit GEMM off. Solvers have it as theirs. Read once per process.
Algorithm reported_algorithm(Algorithm);

/// Bit i is set unless the environment switches Algorithm i off.
unsigned enabled_algorithms();

/// The best candidate of each algorithm, fastest first. Throws NotImplemented with reasons if no solver applies.
std::vector<search::Candidate> find(Handle&, const Problem&, const Constraints&, const Problem::Args&,
                                    const search::FindOptions&);

/// The result of find if it needs no run, see search::answer. Neither buffers nor workspace are needed.
std::optional<std::vector<search::Candidate>> answer(Handle&, const Problem&, Constraints, const Problem::Args&,
                                                     const search::FindOptions&, const char* reason = nullptr);

/// Runs the fastest known solver of `algorithm` within args.workspace_bytes.
void run(Handle&, const Problem&, const Constraints&, const Problem::Args&, Algorithm algorithm);

/// Immediate mode: runs the solver `id`. prepare() only builds its plan.
void run(Handle&, const Problem&, const Constraints&, const Problem::Args&, std::uint64_t id);
void prepare(Handle&, const Problem&, const Constraints&, std::uint64_t id);

/// Runs the best known solver within args.workspace_bytes; on GPUs without a workspace within 32 MiB of its own.
void run(Handle&, const Problem&, const Constraints&, const Problem::Args&);

/// Plans for runs while the stream is being captured, see search::prepare.
void prepare(Handle&, std::span<const search::Wanted>);

/// The solver `id` at this tune point, see search::Call::plan.
void run(Handle&, const Problem&, const Constraints&, const Problem::Args&, std::uint64_t id, const TunePoint&);

}  // namespace polymio::convolution
