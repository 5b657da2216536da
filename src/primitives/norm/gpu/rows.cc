// NormGpuRows: rows of any strides, in registers between the reduction and the second pass if they are short. Several
// blocks share a row if rows are long and few. The gradients of weight and bias are a reduction by columns, before dx
// is written.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>

#include "core/kernel_builder.h"
#include "core/stream_memory.h"
#include "primitives/common/gpu/skeletons.h"
#include "primitives/norm/solvers.h"

namespace polymio::norm {
namespace {

using gpu_skeletons::nest_of;
using gpu_skeletons::value_argument;
using kernels::Side;

/// Values of -DPASS.
enum class Pass { kForward, kGradient, kParametersByRows, kParametersByColumns };

constexpr std::size_t kRowKernels = gpu_skeletons::kRowEntries.size();
constexpr std::size_t kWholeRowKernels = 2;  // row_elements, row_vectors
constexpr std::size_t kColumnKernels = gpu_skeletons::kWholeColumnEntries;

bool is_double(const Problem& p) { return p.x.type == DataType::kDouble; }

/// Rows, or columns, and where their operands are in memory.
struct Walk {
  kernels::Nest nest;
  int row_rank = 1;
};

/// The dimensions of rows, then those within a row; operands in the order of a program.
Walk walk_of(common::RowLoops loops, int inputs, std::initializer_list<std::size_t> order) {
  loops.kept.simplify();
  Loop all = loops.kept;
  for (std::size_t d = 0; d < loops.reduced.rank; ++d) all.push(loops.reduced.dims[d]);
  return {nest_of(all, inputs, order), static_cast<int>(loops.reduced.rank)};
}

Walk forward_walk(const Problem& p) {
  const TensorDesc x = split(p, p.x), x2 = split(p, p.x2), y = split(p, p.y);
  const TensorDesc parameter = parameter_desc(p), statistic = statistic_desc(p);
  std::vector<const TensorDesc*> descs = {&y, &x};
  if (p.kind == Kind::kAddLayer) descs.push_back(&x2);
  if (p.affine == Affine::kYes) descs.insert(descs.end(), p.kind == Kind::kRms ? 1 : 2, &parameter);
  descs.insert(descs.end(), 2, &statistic);
  const common::RowLoops loops = rows_of(p, descs);
  switch (descs.size()) {
    case 4: return walk_of(loops, 1, {1, 0, 2, 3});
    case 5: return walk_of(loops, 2, {1, 2, 0, 3, 4});
    case 6: return walk_of(loops, 3, {1, 2, 3, 0, 4, 5});
    default: return walk_of(loops, 4, {1, 2, 3, 4, 0, 5, 6});
  }
}

Walk gradient_walk(const Problem& p) {
  const TensorDesc parameter = parameter_desc(p), statistic = statistic_desc(p);
  std::vector<const TensorDesc*> descs = {&p.dx, &p.dy, &p.x};
  if (p.affine == Affine::kYes) descs.push_back(&parameter);
  descs.insert(descs.end(), 2, &statistic);
  const common::RowLoops loops = rows_of(p, descs);
  return descs.size() == 5 ? walk_of(loops, 2, {1, 2, 0, 3, 4}) : walk_of(loops, 3, {1, 2, 3, 0, 4, 5});
}

/// dy, x, rstd, mean, dw, db; RMS: dy, x, rstd, dw. A row has the elements of one parameter.
Walk parameter_walk(const Problem& p) {
  const TensorDesc parameter = parameter_desc(p), statistic = statistic_desc(p);
  const bool rms = p.kind == Kind::kRms;
  std::vector<const TensorDesc*> descs = {&p.dy, &p.x};
  descs.insert(descs.end(), rms ? 1 : 2, &statistic);
  descs.insert(descs.end(), rms ? 1 : 2, &parameter);
  const auto first = static_cast<std::size_t>(first_of_row(p));
  const common::RowLoops loops = common::row_loops(make_loop(descs), [&](std::size_t d) { return d < first; });
  return rms ? walk_of(loops, 3, {0, 1, 2, 3}) : walk_of(loops, 4, {0, 1, 2, 3, 4, 5});
}

int usual_vector(const Problem& p) { return kernels::vector_of(size_of(p.x.type), size_of(p.statistics)); }

/// Elements of a vector: fewer than usual where only so the innermost dimension divides into them.
int vector_of(const Problem& p, const Walk& walk) {
  int vector = usual_vector(p);
  while (vector > 1 && walk.nest.rank > 1 && walk.nest.inner().size % vector != 0) vector /= 2;
  return vector > 1 ? vector : usual_vector(p);
}

/// Whether parameters are one dimension, so that columns of neighbours can be reduced.
bool has_columns(const Walk& w) { return w.nest.rank == w.row_rank + 1; }

gpu_skeletons::Columns columns_of(const Walk& w, const kernels::Sides& sides) {
  gpu_skeletons::Columns columns{w.nest, sides, {}, w.nest.inputs - 2, true};
  const kernels::Nest::Dim across = w.nest.dim(0);
  std::copy(w.nest.dims.begin() + 1, w.nest.dims.begin() + w.nest.rank, columns.nest.dims.begin());
  --columns.nest.rank;
  columns.shape.columns = across.size;
  for (std::size_t o = 0; o < static_cast<std::size_t>(w.nest.operands); ++o) {
    columns.shape.stride[o] = across.strides[o];
    columns.shape.vector[o] = 1;
  }
  return columns;
}

/// Bytes for the sums of blocks that share a row; 0 if none do.
std::size_t workspace_of(const DeviceInfo& d, const Problem& p) {
  const std::size_t accumulator = (p.forward() && p.kind == Kind::kRms ? 1 : 4) * (is_double(p) ? 8 : 4);
  return gpu_skeletons::max_row_workspace(d, p.rows(), p.length(), accumulator);
}

/// `threads` per block of a row pass, `vector`: elements of a vector, `whole`: blocks do not share rows.
void add_kernels(const DeviceInfo& d, const Problem& p, Pass pass, int threads, int vector, bool whole,
                 std::vector<KernelSpec>& specs) {
  const bool forward = pass == Pass::kForward, to_parameters = pass >= Pass::kParametersByRows;
  const int parameters = p.affine == Affine::kNo ? 0 : p.kind == Kind::kRms || !forward ? 1 : 2;
  const DataType parameter = p.affine == Affine::kYes || to_parameters ? p.parameters : p.x.type;
  std::vector<std::string> options = {
      fmt::format("-DIN={}", polymio::name_of(p.x.type)),
      fmt::format("-DPARAM={}", polymio::name_of(parameter)),
      fmt::format("-DSTAT={}", polymio::name_of(p.statistics)),
      fmt::format("-DOUT={}", polymio::name_of(to_parameters ? parameter : p.statistics)),
      fmt::format("-DNUM={}", is_double(p) ? "double" : "float"),
      fmt::format("-DPASS={}", static_cast<int>(pass)),
      fmt::format("-DADDS={}", p.kind == Kind::kAddLayer ? 1 : 0),
      fmt::format("-DAFFINE={}", to_parameters ? 0 : parameters),
      fmt::format("-DRMS={}", p.kind == Kind::kRms ? 1 : 0)};
  if (d.gpu.fp64) options.emplace_back("-DFP64");
  const bool by_columns = pass == Pass::kParametersByColumns;
  if (!by_columns) options.push_back(fmt::format("-DTHREADS={}", threads));
  if (!by_columns && whole) options.emplace_back("-DWHOLE_ROWS");
  if (vector != usual_vector(p)) options.push_back(fmt::format("-DVECTOR={}", vector));
  const auto entries =
      by_columns
          ? std::span(gpu_skeletons::kColumnEntries).first(kColumnKernels)
          : std::span<const char* const>(gpu_skeletons::kRowEntries).first(whole ? kWholeRowKernels : kRowKernels);
  for (const char* entry : entries) specs.push_back({"primitives/norm/gpu/norm.cl", entry, options});
}

/// Launches kernels of a row program, which begin at `built`. Without `memory` blocks have whole rows.
void run_rows(Stream& stream, const Walk& walk, const kernels::Sides& sides, int mapped, int threads, int vector,
              const std::shared_ptr<const Kernel>* built, StreamMemory* memory, Argument formula) {
  auto plan = gpu_skeletons::plan_row(stream.info(), {walk.nest, sides, walk.row_rank, mapped, threads, vector});
  if (!memory || !memory->is_ready(stream)) plan.shape.parts = 1;
  const auto launch_in = [&](void* workspace) {
    launch_row(
        stream, [&](gpu_skeletons::RowEntry entry) -> const Kernel& { return *built[static_cast<std::size_t>(entry)]; },
        plan, sides, formula, Buffer(workspace));
  };
  plan.shape.parts == 1 ? launch_in(nullptr) : memory->use(stream, launch_in);
}

/// Formulas of norm.cl.
template <class Real>
struct Forward {
  Real length, epsilon;
  int writes_mean, writes_rstd;
};
template <class Real>
struct Gradient {
  Real share;
};
struct Parameters {
  int adds;
};

/// Calls body with 0 in the type of the arithmetic.
template <class Body>
void with_real(const Problem& p, const Body& body) {
  is_double(p) ? body(double{}) : body(float{});
}

struct Sizes {
  std::size_t data, parameter, statistic;
  explicit Sizes(const Problem& p)
      : data(size_of(p.x.type)), parameter(size_of(p.parameters)), statistic(size_of(p.statistics)) {}
};

void run_forward(Stream& stream, const Problem& p, const Walk& walk, int threads, const Kernels& built,
                 StreamMemory* memory, const Problem::Args& a) {
  const Sizes s(p);
  kernels::Sides sides;
  std::size_t n = 0;
  sides[n++] = {a.x, s.data};
  if (p.kind == Kind::kAddLayer) sides[n++] = {a.x2, s.data};
  if (p.affine == Affine::kYes) sides[n++] = {a.weight, s.parameter};
  if (p.affine == Affine::kYes && p.kind != Kind::kRms) sides[n++] = {a.bias, s.parameter};
  sides[n++] = {a.y, s.data};
  // Not every driver accepts null: y stands for what is not written.
  sides[n++] = {a.mean ? a.mean : a.y, s.statistic};
  sides[n++] = {a.rstd ? a.rstd : a.y, s.statistic};
  with_real(p, [&]<class Real>(Real) {
    const Forward<Real> formula{static_cast<Real>(p.length()), static_cast<Real>(a.epsilon),
                                a.mean != nullptr && p.kind != Kind::kRms, a.rstd != nullptr};
    run_rows(stream, walk, sides, 1, threads, vector_of(p, walk), built.data(), memory, value_argument(formula));
  });
}

void run_gradient(Stream& stream, const Problem& p, const Walk& walk, int threads,
                  const std::shared_ptr<const Kernel>* built, StreamMemory* memory, const Problem::Args& a) {
  const Sizes s(p);
  kernels::Sides sides{{{a.dy, s.data}, {a.x, s.data}}};
  std::size_t n = 2;
  if (p.affine == Affine::kYes) sides[n++] = {a.weight, s.parameter};
  sides[n++] = {a.dx, s.data};
  sides[n++] = {a.mean ? a.mean : a.rstd, s.statistic};
  sides[n++] = {a.rstd, s.statistic};
  with_real(p, [&]<class Real>(Real) {
    const Gradient<Real> formula{static_cast<Real>(1 / static_cast<double>(p.length()))};
    run_rows(stream, walk, sides, 1, threads, vector_of(p, walk), built, memory, value_argument(formula));
  });
}

void run_parameters(Stream& stream, const Problem& p, const Walk& walk, const std::shared_ptr<const Kernel>* built,
                    const Problem::Args& a) {
  const Sizes s(p);
  kernels::Sides sides{{{a.dy, s.data}, {a.x, s.data}, {a.rstd, s.statistic}}};
  std::size_t n = 3;
  if (p.kind != Kind::kRms) sides[n++] = {a.mean, s.statistic};
  sides[n++] = {a.dw, s.parameter};
  if (p.kind != Kind::kRms) sides[n++] = {a.db, s.parameter};
  if (!has_columns(walk))
    return run_rows(stream, walk, sides, 0, gpu_skeletons::kRowThreads, usual_vector(p), built, nullptr,
                    value_argument(Parameters{0}));
  const gpu_skeletons::Columns columns = columns_of(walk, sides);
  const auto plan = gpu_skeletons::plan_column(stream.info(), columns);
  Parameters formula{0};
  launch_column(stream, *built[static_cast<std::size_t>(plan.entry)], plan, sides, [&](bool first) {
    formula.adds = !first;
    return value_argument(formula);
  });
}

class GpuRows final : public GpuSolver<Problem> {
 public:
  GpuRows(const SolverInfo& info, Direction d) : GpuSolver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    POLYMIO_REQUIRE(d.kind != DeviceKind::kCpu, "does not run on this kind of device");
    POLYMIO_REQUIRE(p.direction == direction_, "computes another direction");
    POLYMIO_REQUIRE(d.gpu.fp64 || !is_double(p), "the device has no double-precision arithmetic");
    return {};
  }

  // More threads than registers allow would spill.
  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override { return {{"threads", {256, 512}}}; }
  bool is_valid(const DeviceInfo& d, const Problem&, const TunePoint& t) const override {
    return t[0] <= std::max(d.gpu.block_threads, gpu_skeletons::kRowThreads);
  }
  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override {
    const Walk walk = p.forward() ? forward_walk(p) : gradient_walk(p);
    if (walk.nest.inner().strides[0] != 1) return {gpu_skeletons::kRowThreads};
    const std::int64_t vector = vector_of(p, walk), n = p.length();
    const std::int64_t units = n % vector == 0 ? n / vector : n;
    return {gpu_skeletons::row_threads(d, p.rows(), units, tune_space(d, p)[0].values.back())};
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    constexpr double kLaunchUs = 3;
    const double us = p.work() / std::max(d.bandwidth_gbs, 1.0) * 1e-3;
    return p.forward() ? kLaunchUs + us : 2 * kLaunchUs + us * 5 / 3;
  }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    std::vector<KernelSpec> specs;
    const bool whole = workspace_of(d, p) == 0;
    if (p.forward()) {
      add_kernels(d, p, Pass::kForward, t[0], vector_of(p, forward_walk(p)), whole, specs);
      return specs;
    }
    add_kernels(d, p, Pass::kGradient, t[0], vector_of(p, gradient_walk(p)), whole, specs);
    add_kernels(d, p, has_columns(parameter_walk(p)) ? Pass::kParametersByColumns : Pass::kParametersByRows,
                gpu_skeletons::kRowThreads, usual_vector(p), true, specs);
    return specs;
  }

  Invoker assemble(const DeviceInfo& d, const Problem& p, const TunePoint& t, const Kernels& built) const override {
    const std::size_t bytes = workspace_of(d, p);
    const auto memory = bytes > 0 ? std::make_shared<StreamMemory>(bytes) : nullptr;
    if (p.forward())
      return [p, built, memory, threads = t[0], walk = forward_walk(p)](Stream& on, const Args& a) {
        run_forward(on, p, walk, threads, built, memory.get(), a);
      };
    return [p, built, memory, threads = t[0], rows = gradient_walk(p), columns = parameter_walk(p)](Stream& on,
                                                                                                    const Args& a) {
      run_parameters(on, p, columns, built.data() + (memory ? kRowKernels : kWholeRowKernels), a);
      run_gradient(on, p, rows, threads, built.data(), memory.get(), a);
    };
  }

 private:
  Direction direction_;
};

}  // namespace

std::unique_ptr<const SolverBase> gpu_rows(const SolverInfo& info, Direction d) {
  return std::make_unique<GpuRows>(info, d);
}

std::vector<KernelSpec> programs(const DeviceInfo& d, DataType data, DataType parameters) {
  std::vector<KernelSpec> specs;
  if (d.kind == DeviceKind::kCpu || (data == DataType::kDouble && !d.gpu.fp64)) return specs;
  for (int kind = 0; kind < kKinds; ++kind)
    for (const Affine affine : {Affine::kNo, Affine::kYes}) {
      Problem p;
      p.kind = static_cast<Kind>(kind);
      p.affine = affine;
      p.x.type = p.statistics = data;
      p.parameters = parameters;
      const bool whole = affine == Affine::kNo;
      add_kernels(d, p, Pass::kForward, gpu_skeletons::kRowThreads, usual_vector(p), whole, specs);
      if (p.kind != Kind::kLayer && p.kind != Kind::kRms) continue;
      add_kernels(d, p, Pass::kGradient, gpu_skeletons::kRowThreads, usual_vector(p), whole, specs);
      for (const Pass pass : {Pass::kParametersByRows, Pass::kParametersByColumns})
        add_kernels(d, p, pass, gpu_skeletons::kRowThreads, usual_vector(p), true, specs);
    }
  return specs;
}

}  // namespace polymio::norm
