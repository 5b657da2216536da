// BnormGpu: moments and sums by columns in two stages, the coefficients of each mean in one thread, then a pass over
// the result. Coefficients and partial sums are in the workspace. Inference is one launch where memory has vectors.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/math.h"
#include "core/kernel_builder.h"
#include "core/stream_memory.h"
#include "kernels/gpu/portable/bnorm_channel_shape.h"
#include "primitives/batch_norm/solvers.h"
#include "primitives/common/gpu/skeletons.h"

namespace polymio::batch_norm {
namespace {

using gpu_skeletons::ColumnEntry;
using gpu_skeletons::value_argument;
using kernels::Nest;
using kernels::Side;
using kernels::Sides;

constexpr const char* kSource = "primitives/batch_norm/gpu/batch_norm.cl";
constexpr std::size_t kPartials = static_cast<std::size_t>(ColumnEntry::kPartialElements), kColumnKernels = 4;
constexpr std::int64_t kArrays = 6;  // of coefficients

/// Values of -DPASS.
enum class Pass { kMoments, kSums, kRows, kResult };

bool is_double(const Problem& p) {
  const DataType types[] = {p.x.type, p.scale_type, p.bias_type, p.moment_type};
  return std::find(std::begin(types), std::end(types), DataType::kDouble) != std::end(types);
}
std::size_t real_size(const Problem& p) { return is_double(p) ? 8 : 4; }
bool is_bounded(const Problem& p) {
  return p.activation == activation::Mode::kClippedRelu || p.activation == activation::Mode::kClamp;
}
bool is_gated(const Problem& p) { return !p.forward() && p.activation != activation::Mode::kPassthru; }

/// The kernels of a pass, behind those of the passes before it.
struct Numbers {
  explicit Numbers(const Problem& p)
      : sums(p.direction == Direction::kInference ? 0 : kColumnKernels),
        rows(sums + (p.forward() ? 0 : kColumnKernels)) {}
  std::size_t moments = 0, sums, rows;
  std::size_t result() const { return rows + 1; }
};

std::vector<KernelSpec> kernels_of(const DeviceInfo& d, const Problem& p) {
  std::vector<KernelSpec> specs;
  const char* const real = is_double(p) ? "fp64" : "fp32";
  const auto add = [&](Pass pass, std::span<const char* const> entries) {
    std::vector<std::string> options = {
        fmt::format("-DPASS={}", static_cast<int>(pass)),
        fmt::format("-DIN={}", polymio::name_of(pass == Pass::kRows ? DataType::kFloat : p.x.type)),
        fmt::format("-DOUT={}", pass == Pass::kResult ? polymio::name_of(p.out.type) : real),
        fmt::format("-DNUM={}", is_double(p) ? "double" : "float"),
        fmt::format("-DREAL={}", real),
        fmt::format("-DGRAD={}", polymio::name_of(p.out.type)),
        fmt::format("-DBACKWARD={}", p.forward() ? 0 : 1),
        fmt::format("-DGATED={}", pass == Pass::kMoments || !is_gated(p) ? 0
                                  : is_bounded(p)                        ? 2
                                                                         : 1)};
    if (pass == Pass::kRows) {
      options.push_back(fmt::format("-DSCALES={}", polymio::name_of(p.scale_type)));
      options.push_back(fmt::format("-DBIASES={}", polymio::name_of(p.bias_type)));
      options.push_back(fmt::format("-DMOMENTS={}", polymio::name_of(p.moment_type)));
    }
    if (d.gpu.fp64) options.emplace_back("-DFP64");
    for (const char* entry : entries) specs.push_back({kSource, entry, options});
  };
  const auto columns = std::span<const char* const>(gpu_skeletons::kColumnEntries).subspan(kPartials, kColumnKernels);
  static constexpr const char* kRowsEntry[] = {"rows"};
  if (p.direction != Direction::kInference) add(Pass::kMoments, columns);
  if (!p.forward()) add(Pass::kSums, columns);
  add(Pass::kRows, kRowsEntry);
  add(Pass::kResult, gpu_skeletons::kMapEntries);
  return specs;
}

/// Formulas of batch_norm.cl.
struct NoFormula {
  int unused = 0;
};
enum class Stage : int { kForward, kArgument, kGradient };
template <class Real>
struct RowsFormula {
  Real epsilon, factor, length, low, range, blend, keep;
  int stage, given, inverse, running, saved, has_bias, has_dscale, has_dbias;
};
template <class Real>
struct ResultFormula {
  Real low, high, range, blend, keep;
};

/// The rows with their numbers in place of the parameters, whose order in memory may be another than that of the rows.
Loop numbered(Loop kept) {
  std::int64_t stride = 1;
  for (std::size_t d = kept.rank; d-- > 0; stride *= kept.dims[d].size) kept.dims[d].strides[kParameter] = stride;
  kept.merge();
  return kept;
}

/// The parts of a plan's memory, in bytes from its start.
struct Layout {
  Layout(const DeviceInfo& d, const Problem& p, const Loop& rows_of, std::int64_t length) {
    const std::int64_t rows = rows_of.count();
    const auto real = static_cast<std::int64_t>(real_size(p));
    sums = static_cast<std::size_t>(round_up(kArrays * rows * real, kAlignment));
    partials = sums + static_cast<std::size_t>(round_up(4 * rows * real, kAlignment));
    bytes = partials;
    if (p.direction != Direction::kInference)
      bytes += gpu_skeletons::max_column_workspace(d, rows_of.inner().size, length, 4 * real_size(p));
  }
  static constexpr std::int64_t kAlignment = 256;
  std::size_t sums, partials, bytes;
};

struct Arguments : Problem::Args {
  void* workspace;
};

/// The passes of a problem. Real: the arithmetic.
template <class Real>
class Passes {
 public:
  Passes(const DeviceInfo& d, const Problem& p, const Kernels& built)
      : p_(p),
        built_(built),
        numbers_(p),
        loops_(loops_of(p)),
        numbered_(numbered(loops_.kept)),
        layout_(d, p, numbered_, loops_.reduced.count()),
        rows_(loops_.kept.count()),
        memory_(layout_.bytes) {}

  void run(Stream& stream, const Problem::Args& args) {
    memory_.use(stream, [&](void* workspace) { launch_all(stream, {args, workspace}); });
  }

 private:
  void launch_all(Stream& stream, const Arguments& a) const {
    const bool backward = !p_.forward(), given = p_.direction == Direction::kInference || (backward && a.mean);
    if (!given) reduce(stream, a, Pass::kMoments);
    // Backward, the sums of dy need the argument of an activation, and replace those of x.
    if (!backward || !given || is_gated(p_)) run_rows(stream, a, backward ? Stage::kArgument : Stage::kForward, given);
    if (backward) {
      reduce(stream, a, Pass::kSums);
      run_rows(stream, a, Stage::kGradient, given);
    }
    run_result(stream, a);
  }

  /// What relates the bounds of the activation to the argument, which the kernels see relative to them.
  struct Bounds {
    Real low, high, range;
  };
  Bounds bounds(const Arguments& a) const {
    const Range r = range_of(p_.activation, a.activation);
    const bool gated = is_gated(p_);
    return {static_cast<Real>(p_.forward() || gated ? r.low : 0), static_cast<Real>(r.high),
            static_cast<Real>(gated && is_bounded(p_) ? r.high - r.low : 1)};
  }
  Side coefficients(const Arguments& a) const { return {a.workspace, sizeof(Real)}; }
  /// The nest's operands from `first` on are arrays of coefficients, of these numbers.
  void set_arrays(Nest& nest, int first, std::initializer_list<std::int64_t> arrays) const {
    auto o = static_cast<std::size_t>(first);
    for (const std::int64_t array : arrays) nest.first[o++] = array * rows_;
  }

  void reduce(Stream& stream, const Arguments& a, Pass pass) const {
    const bool sums = pass == Pass::kSums, gated = sums && is_gated(p_);
    const int inputs = gated ? 4 : sums ? 2 : 1;
    gpu_skeletons::Columns columns;
    columns.nest = gpu_skeletons::nest_of(loops_.reduced, inputs, {kX, kDy, kX, kX, kX});
    columns.nest.operands = inputs + 1;
    const Loop::Dim& across = numbered_.inner();
    columns.shape.columns = across.size;
    columns.sides[0] = {a.x, size_of(p_.x.type)};
    columns.sides[1] = {a.dy, size_of(p_.out.type)};
    for (std::size_t o = 0; o <= static_cast<std::size_t>(inputs); ++o) {
      const bool own = o >= 2 || o == static_cast<std::size_t>(inputs);  // coefficients, or the result
      columns.shape.stride[o] = own ? 1 : across.strides[o == 0 ? kX : kDy];
      columns.shape.vector[o] = 1;
      if (!own) continue;
      for (int d = 0; d < columns.nest.rank; ++d) columns.nest.dim(d).strides[o] = 0;
      columns.nest.first[o] = 0;
      columns.sides[o] = coefficients(a);
    }
    columns.sides[static_cast<std::size_t>(inputs)] = {a.workspace, sizeof(Real)};
    const std::size_t number = sums ? numbers_.sums : numbers_.moments;
    const NoFormula formula;
    // Several dimensions of means, which only strided tensors have: one after the other.
    const std::int64_t width = across.size, groups = rows_ / width;
    for (std::int64_t g = 0; g < groups; ++g) {
      const Cursor at(numbered_, g * width);
      columns.nest.first[0] = at.offset(kX);
      if (sums) columns.nest.first[1] = at.offset(kDy);
      if (gated) set_arrays(columns.nest, 2, {2, 3});
      if (gated)
        for (const std::size_t o : {2, 3}) columns.nest.first[o] += g * width;
      columns.nest.first[static_cast<std::size_t>(inputs)] =
          static_cast<std::int64_t>(layout_.sums / (4 * sizeof(Real))) + g * width;
      const auto plan = gpu_skeletons::plan_column_partials(stream.info(), columns);
      const auto entry = static_cast<std::size_t>(plan.entry) - kPartials;
      gpu_skeletons::launch_column_partials(stream, *built_[number + entry], *built_[number + kColumnKernels - 1], plan,
                                            columns.sides, value_argument(formula),
                                            Buffer(a.workspace, layout_.partials));
    }
  }

  void run_rows(Stream& stream, const Arguments& a, Stage stage, bool given) const {
    const Bounds range = bounds(a);
    const auto real = [](double value) { return static_cast<Real>(value); };
    RowsFormula<Real> f{real(a.epsilon),
                        real(a.factor),
                        real(static_cast<double>(loops_.reduced.count())),
                        range.low,
                        range.range,
                        real(a.parameter_blend),
                        real(a.parameter_keep),
                        static_cast<int>(stage),
                        given,
                        a.inverse || !p_.forward(),
                        a.next_mean != nullptr,
                        a.saved_mean != nullptr,
                        a.bias != nullptr,
                        a.dscale != nullptr,
                        a.dbias != nullptr};
    Nest nest = gpu_skeletons::nest_of(loops_.kept, 1, {kParameter});
    nest.group(1);
    const kernels::Walk walk = nest.walk();
    const kernels::Strides strides = nest.strides(0);
    const auto buffer = [&](const void* data) { return Buffer(data ? data : a.workspace); };
    launch(stream, *built_[numbers_.rows], launch_shape(256, ceil_div(rows_, std::int64_t{256})), walk, strides,
           Buffer(a.workspace), Buffer(a.workspace, layout_.sums), buffer(a.scale), buffer(a.bias), buffer(a.mean),
           buffer(a.variance), buffer(a.next_mean), buffer(a.next_variance),
           buffer(p_.forward() ? a.saved_mean : a.dscale), buffer(p_.forward() ? a.saved_inverse : a.dbias), f);
  }

  void run_result(Stream& stream, const Arguments& a) const {
    const bool gated = is_gated(p_);
    Loop loop = numbered_;
    for (std::size_t d = 0; d < loops_.reduced.rank; ++d) {
      loop.push(loops_.reduced.dims[d]);
      loop.dims[loop.rank - 1].strides[kParameter] = 0;
    }
    loop.simplify();
    Nest nest;
    Sides sides;
    if (p_.forward()) {
      nest = gpu_skeletons::nest_of(loop, 4, {kX, kParameter, kParameter, kParameter, kOut});
      set_arrays(nest, 1, {0, 1, 2});
    } else if (gated) {
      nest = gpu_skeletons::nest_of(loop, 6, {kX, kDy, kParameter, kParameter, kParameter, kParameter, kOut});
      set_arrays(nest, 2, {2, 3, 4, 5});
    } else {
      nest = gpu_skeletons::nest_of(loop, 5, {kX, kDy, kParameter, kParameter, kParameter, kOut});
      set_arrays(nest, 2, {2, 4, 5});
    }
    sides.fill(coefficients(a));
    sides[0] = {a.x, size_of(p_.x.type)};
    if (!p_.forward()) sides[1] = {a.dy, size_of(p_.dy.type)};
    sides[static_cast<std::size_t>(nest.inputs)] = {a.out, size_of(p_.out.type)};
    const Bounds range = bounds(a);
    const ResultFormula<Real> f{range.low, range.high, range.range, static_cast<Real>(a.blend),
                                static_cast<Real>(a.keep)};
    const auto plan = gpu_skeletons::plan_map(nest, sides);
    gpu_skeletons::launch_map(stream, *built_[numbers_.result() + static_cast<std::size_t>(plan.entry)], plan, sides,
                              value_argument(f));
  }

  Problem p_;
  Kernels built_;
  Numbers numbers_;
  common::RowLoops loops_;
  Loop numbered_;
  Layout layout_;
  std::int64_t rows_;
  StreamMemory memory_;
};

/// The launch of inference.cl: vectors of an image (of a pixel, if neighbours are channels), and the images.
struct InferenceRuns {
  explicit InferenceRuns(const Problem& p) : loops(loops_of(p)) {
    const Loop &kept = loops.kept, &reduced = loops.reduced;
    const auto outer = [&](std::size_t o) { return reduced.rank == 2 ? reduced.dims[0].strides[o] : std::int64_t{0}; };
    const auto all = [&](const auto& condition) { return condition(kOut) && condition(kX); };
    if (kept.rank != 1 || p.direction != Direction::kInference) return;
    vector = kernels::vector_of(size_of(p.x.type), size_of(p.out.type));
    const auto fits = [&](std::int64_t n) { return n % vector == 0; };
    const std::int64_t channels = kept.count();
    is_across = reduced.rank == 1 && all([&](std::size_t o) { return kept.inner().strides[o] == 1; });
    const bool is_along = reduced.rank <= 2 && all([&](std::size_t o) { return reduced.inner().strides[o] == 1; });
    const auto divides = [&](std::size_t o) {
      return fits(kept.base[o]) && fits(is_across ? reduced.inner().strides[o] : kept.inner().strides[o]) &&
             fits(is_across ? 0 : outer(o));
    };
    is_possible = (is_across || is_along) && fits(is_across ? channels : reduced.inner().size) && all(divides);
    if (!is_possible) return;
    images = is_across ? reduced.inner().size : reduced.rank == 2 ? reduced.dims[0].size : 1;
    const std::int64_t per_channel = (is_across ? channels : reduced.inner().size) / vector;
    units = is_across ? per_channel : per_channel * channels;
    is_possible = units * images <= std::int64_t{1} << 30;
    shape.per_channel = kernels::make_divider(per_channel);
    shape.per_image = kernels::make_divider(units);
    std::size_t n = 0;
    for (const std::size_t o : {kX, kX, kOut, kParameter})
      shape.at[n++] = {kept.base[o], kept.inner().strides[o], is_across ? reduced.inner().strides[o] : outer(o)};
  }

  common::RowLoops loops;
  bool is_possible = false, is_across = false;
  int vector = 1;
  std::int64_t units = 1, images = 1;  // units of an image
  kernels::ChannelShape shape{};
};

std::vector<KernelSpec> inference_kernels(const DeviceInfo& d, const Problem& p, bool is_across) {
  std::vector<std::string> options = {fmt::format("-DIN={}", polymio::name_of(p.x.type)),
                                      fmt::format("-DOUT={}", polymio::name_of(p.out.type)),
                                      fmt::format("-DNUM={}", is_double(p) ? "double" : "float"),
                                      fmt::format("-DSCALES={}", polymio::name_of(p.scale_type)),
                                      fmt::format("-DBIASES={}", polymio::name_of(p.bias_type)),
                                      fmt::format("-DMOMENTS={}", polymio::name_of(p.moment_type)),
                                      fmt::format("-DACROSS={}", is_across ? 1 : 0)};
  if (d.gpu.fp64) options.emplace_back("-DFP64");
  return {{"primitives/batch_norm/gpu/inference.cl", "inference", options}};
}

/// Formula of inference.cl.
template <class Real>
struct InferenceFormula {
  Real epsilon, low, high, blend, keep;
  int inverse, has_bias, vectors;
};

/// A thread has several vectors where these fill the device, sooner where each needs the coefficients of many channels.
template <class Real>
void infer(Stream& stream, const Kernel& kernel, const Problem& p, const InferenceRuns& r, const Problem::Args& a) {
  constexpr std::int64_t kMostPerThread = 8;
  const std::int64_t filling = (r.is_across ? 512 : 2048) * std::max(stream.info().units, 1);
  const std::int64_t each = std::clamp<std::int64_t>(r.units * r.images / filling, 1, kMostPerThread);
  const std::int64_t step = ceil_div(r.images, each);
  const Range range = range_of(p.activation, a.activation);
  const auto is_aligned = [&](const void* data, DataType type) {
    const auto bytes = std::min<std::size_t>(static_cast<std::size_t>(r.vector) * size_of(type), 16);
    return reinterpret_cast<std::uintptr_t>(data) % bytes == 0;
  };
  kernels::ChannelShape shape = r.shape;
  shape.aligned = is_aligned(a.x, p.x.type) && is_aligned(a.out, p.out.type);
  const auto real = [](double v) { return static_cast<Real>(v); };
  const bool vectors = r.shape.at[3].channel == 1 && r.shape.at[3].first % r.vector == 0 &&
                       is_aligned(a.scale, p.scale_type) && (!a.bias || is_aligned(a.bias, p.bias_type)) &&
                       is_aligned(a.mean, p.moment_type) && is_aligned(a.variance, p.moment_type);
  const InferenceFormula<Real> f{real(a.epsilon), real(range.low), real(range.high),  real(a.blend),
                                 real(a.keep),    a.inverse,       a.bias != nullptr, vectors};
  launch(stream, kernel, launch_shape(256, ceil_div(r.units * step, std::int64_t{256})), shape,
         static_cast<int>(r.images), static_cast<int>(step), Buffer(a.x), Buffer(a.out), Buffer(a.scale),
         Buffer(a.bias ? a.bias : a.scale), Buffer(a.mean), Buffer(a.variance), f);
}

class GpuPasses final : public GpuSolver<Problem> {
 public:
  GpuPasses(const SolverInfo& info, Direction d) : GpuSolver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    POLYMIO_REQUIRE(d.kind != DeviceKind::kCpu, "does not run on this kind of device");
    POLYMIO_REQUIRE(p.direction == direction_, "computes another direction");
    const DataType types[] = {p.x.type, p.scale_type, p.bias_type, p.moment_type};
    POLYMIO_REQUIRE(d.gpu.fp64 || std::ranges::find(types, DataType::kDouble) == std::end(types),
                    "the device has no double-precision arithmetic");
    return {};
  }
  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    constexpr double kLaunchUs = 3;
    return 5 * kLaunchUs + 2 * p.work() / std::max(d.bandwidth_gbs, 1.0) * 1e-3;
  }
  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    return programs(d, p);
  }
  Invoker assemble(const DeviceInfo& d, const Problem& p, const TunePoint&, const Kernels& built) const override {
    const auto invoker = [](auto passes) {
      return [passes](Stream& stream, const Args& args) { passes->run(stream, args); };
    };
    if (const InferenceRuns runs(p); runs.is_possible)
      return [p, runs, kernel = built[0]](Stream& stream, const Args& a) {
        is_double(p) ? infer<double>(stream, *kernel, p, runs, a) : infer<float>(stream, *kernel, p, runs, a);
      };
    if (is_double(p)) return invoker(std::make_shared<Passes<double>>(d, p, built));
    return invoker(std::make_shared<Passes<float>>(d, p, built));
  }

 private:
  Direction direction_;
};

}  // namespace

std::vector<KernelSpec> programs(const DeviceInfo& d, const Problem& p) {
  if (d.kind == DeviceKind::kCpu) return {};
  const InferenceRuns runs(p);
  return runs.is_possible ? inference_kernels(d, p, runs.is_across) : kernels_of(d, p);
}

std::unique_ptr<const SolverBase> gpu_passes(const SolverInfo& info, Direction d) {
  return std::make_unique<GpuPasses>(info, d);
}

}  // namespace polymio::batch_norm
