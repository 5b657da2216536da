// ActivGpuElementwise: an elementwise pass over tensors of any strides, in 16-byte vectors where rows allow it. The
// same pass computes epilogues of convolutions and the gated linear unit.
// SPDX-License-Identifier: MIT
#include <memory>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "core/kernel_builder.h"
#include "primitives/activation/solvers.h"
#include "primitives/common/gpu/skeletons.h"

namespace polymio::activation {
namespace {

using gpu_skeletons::kMapEntries;
using gpu_skeletons::nest_of;
using kernels::Nest;
using kernels::Sides;

/// Values of -DPASS.
enum class Pass { kForward, kBackward, kBackwardFromY, kEpilogue, kGated, kGatedBackward };

bool computes_in_double(DataType type, Mode mode) { return type == DataType::kDouble || mode == Mode::kPower; }

/// Adds the entry points of one program, in the order of kMapEntries.
void add_kernels(const DeviceInfo& device, DataType type, Mode mode, Pass pass, std::vector<KernelSpec>& specs) {
  std::vector<std::string> options = {
      fmt::format("-DIN={}", polymio::name_of(type)), fmt::format("-DOUT={}", polymio::name_of(type)),
      fmt::format("-DNUM={}", computes_in_double(type, mode) ? "double" : "float"),
      fmt::format("-DMODE={}", static_cast<int>(mode)), fmt::format("-DPASS={}", static_cast<int>(pass))};
  if (device.gpu.fp64) options.emplace_back("-DFP64");
  for (const char* entry : kMapEntries) specs.push_back({"primitives/activation/gpu/activation.cl", entry, options});
}

/// Formula of activation.cl.
template <class Real>
struct Formula {
  Real alpha, beta, gamma, scale, keep;
};

struct Values {
  Parameters parameters;
  double scale = 1, keep = 0;
};

template <class Real>
Formula<Real> formula_of(const Values& values) {
  const auto real = [](double value) { return static_cast<Real>(value); };
  const Parameters& p = values.parameters;
  return {real(p.alpha), real(p.beta), real(p.gamma), real(values.scale), real(values.keep)};
}

/// `kernel_of` returns the kernel of an entry point.
template <class KernelOf>
void run(Stream& stream, DataType type, Mode mode, const Nest& nest, const Sides& sides, const Values& values,
         const KernelOf& kernel_of) {
  const auto plan = gpu_skeletons::plan_map(nest, sides);
  const auto launch = [&](const auto& formula) {
    launch_map(stream, kernel_of(plan.entry), plan, sides, gpu_skeletons::value_argument(formula));
  };
  computes_in_double(type, mode) ? launch(formula_of<double>(values)) : launch(formula_of<float>(values));
}

/// Whether the derivative has a formula in y = f(x).
bool differs_from_y(Mode m) {
  return m == Mode::kLogistic || m == Mode::kTanh || m == Mode::kSoftrelu || m == Mode::kElu;
}

std::vector<KernelSpec> kernels_of(const DeviceInfo& d, DataType type, Mode mode, Direction direction) {
  std::vector<KernelSpec> specs;
  const bool forward = direction == Direction::kForward;
  add_kernels(d, type, mode, forward ? Pass::kForward : Pass::kBackward, specs);
  if (!forward && differs_from_y(mode)) add_kernels(d, type, mode, Pass::kBackwardFromY, specs);
  return specs;
}

class GpuElementwise final : public GpuSolver<Problem> {
 public:
  GpuElementwise(const SolverInfo& info, Direction d) : GpuSolver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    POLYMIO_REQUIRE(d.kind != DeviceKind::kCpu, "does not run on this kind of device");
    POLYMIO_REQUIRE(p.direction == direction_, "computes another direction");
    return check_epilogue(d, p.x.type, p.mode);
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    constexpr double kLaunchUs = 3;
    return kLaunchUs + p.work() / std::max(d.bandwidth_gbs, 1.0) * 1e-3;
  }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    return kernels_of(d, p.x.type, p.mode, p.direction);
  }

  Invoker assemble(const DeviceInfo&, const Problem& p, const TunePoint&, const Kernels& built) const override {
    const Nest nest = p.forward() ? nest_of(loop_of(p), 1, {1, 0}) : nest_of(loop_of(p), 2, {1, 2, 0});
    return [p, built, nest](Stream& stream, const Args& a) {
      const std::size_t size = size_of(p.x.type);
      const bool from_y = a.x_is_y && built.size() > kMapEntries.size();
      const Sides sides =
          p.forward() ? Sides{{{a.x, size}, {a.result, size}}} : Sides{{{a.x, size}, {a.dy, size}, {a.result, size}}};
      const auto kernel_of = [&](gpu_skeletons::MapEntry entry) -> const Kernel& {
        return *built[static_cast<std::size_t>(entry) + (from_y ? kMapEntries.size() : 0)];
      };
      run(stream, p.x.type, p.mode, nest, sides, {a.parameters, a.scale, a.keep}, kernel_of);
    };
  }

 private:
  Direction direction_;
};

SharedKernels& shared = *new SharedKernels;

/// The type of an epilogue's scale and bias.
DataType channel_type(DataType y, const Epilogue& e) {
  return !e.scale ? y : y == DataType::kDouble ? DataType::kDouble : DataType::kFloat;
}

/// The kernels of the gated linear unit.
auto gate_kernels_of(Stream& stream, DataType type, Pass pass) {
  return [&stream, type, pass](gpu_skeletons::MapEntry entry) -> const Kernel& {
    const auto number = (static_cast<std::uint64_t>(type) * 8 + static_cast<std::uint64_t>(pass)) * 4 +
                        static_cast<std::uint64_t>(entry);
    return shared.get(stream, number, [&] {
      std::vector<KernelSpec> specs;
      add_kernels(stream.info(), type, Mode::kLogistic, pass, specs);
      return specs[static_cast<std::size_t>(entry)];
    });
  };
}

void require_type(const Stream& stream, DataType type) {
  const Verdict v = check_epilogue(stream.info(), type, Mode::kLogistic);
  if (!v) fail(Status::kNotImplemented, "{}: {}", stream.info().name, v.text());
}

}  // namespace

Verdict check_epilogue(const DeviceInfo& d, DataType type, Mode mode) {
  POLYMIO_REQUIRE(d.gpu.fp64 || !computes_in_double(type, mode), "the device has no double-precision arithmetic");
  return {};
}

std::unique_ptr<const SolverBase> gpu_elementwise(const SolverInfo& info, Direction d) {
  return std::make_unique<GpuElementwise>(info, d);
}

std::vector<KernelSpec> epilogue_kernels(const DeviceInfo& d, DataType type, const Epilogue& e) {
  std::vector<KernelSpec> specs;
  add_kernels(d, type, e.mode, Pass::kEpilogue, specs);
  for (KernelSpec& spec : specs)
    for (const std::string& option : {fmt::format("-DCHANNEL={}", polymio::name_of(channel_type(type, e))),
                                      fmt::format("-DHAS_SCALE={:d}", e.scale), fmt::format("-DHAS_BIAS={:d}", e.bias),
                                      fmt::format("-DHAS_RESIDUAL={:d}", e.residual),
                                      fmt::format("-DINPUTS={}", 1 + e.scale + e.bias + e.residual)})
      spec.options.push_back(option);
  return specs;
}

EpilogueInvoker epilogue(Stream& stream, const TensorDesc& y, const Epilogue& e) {
  TensorDesc channels = y;
  channels.strides.fill(0);
  channels.strides[1] = 1;
  const TensorDesc* const operands[] = {&y, &channels};
  const Loop loop = simplified_loop(operands);
  // As the program counts its operands: y, scale, bias, residual, result.
  std::vector<std::size_t> order{0};
  if (e.scale) order.push_back(1);
  if (e.bias) order.push_back(1);
  if (e.residual) order.push_back(0);
  const int inputs = static_cast<int>(order.size());
  order.push_back(0);
  return
      [nest = nest_of(loop, inputs, order), type = y.type, e,
       built = build_kernels(stream, epilogue_kernels(stream.info(), y.type, e))](Stream& on, const EpilogueArgs& a) {
        const std::size_t size = size_of(type), channel = size_of(channel_type(type, e));
        Sides sides{};
        std::size_t count = 0;
        const auto add = [&](const void* data, std::size_t bytes) { sides[count++] = {data, bytes}; };
        add(a.y, size);
        if (e.scale) add(a.scale, channel);
        if (e.bias) add(a.bias, channel);
        if (e.residual) add(a.residual, size);
        add(a.y, size);
        const auto kernel_of = [&](gpu_skeletons::MapEntry entry) -> const Kernel& {
          return *built[static_cast<std::size_t>(entry)];
        };
        run(on, type, e.mode, nest, sides, {rounded(a.parameters, type), a.residual_alpha}, kernel_of);
      };
}

std::vector<KernelSpec> programs(const DeviceInfo& d, DataType type, Mode mode) {
  if (d.kind == DeviceKind::kCpu || !check_epilogue(d, type, mode)) return {};
  auto specs = kernels_of(d, type, mode, Direction::kForward);
  std::ranges::move(kernels_of(d, type, mode, Direction::kBackward), std::back_inserter(specs));
  std::ranges::move(gate_kernels(d, type), std::back_inserter(specs));
  return specs;
}

std::vector<KernelSpec> gate_kernels(const DeviceInfo& d, DataType type) {
  std::vector<KernelSpec> specs;
  for (const Pass pass : {Pass::kGated, Pass::kGatedBackward}) add_kernels(d, type, Mode::kLogistic, pass, specs);
  return specs;
}

void gate_forward(Stream& stream, const Loop& loop, DataType type, const void* x, std::int64_t second, void* y) {
  require_type(stream, type);
  stream.check_memory(x, "the buffer of the input");
  stream.check_memory(y, "the buffer of the output");
  const std::size_t size = size_of(type);
  Nest nest = nest_of(loop, 2, {1, 1, 0});
  nest.first[1] = second;
  run(stream, type, Mode::kLogistic, nest, {{{x, size}, {x, size}, {y, size}}}, {},
      gate_kernels_of(stream, type, Pass::kGated));
}

void gate_backward(Stream& stream, const Loop& loop, DataType type, const void* x, std::int64_t x_second,
                   const void* dy, void* dx, std::int64_t dx_second) {
  require_type(stream, type);
  stream.check_memory(x, "the buffer of the input");
  stream.check_memory(dy, "the buffer of outputGrad");
  stream.check_memory(dx, "the buffer of inputGrad");
  const std::size_t size = size_of(type);
  Nest nest = nest_of(loop, 3, {1, 1, 2, 0, 0});
  nest.first[1] = x_second;
  nest.first[4] = dx_second;
  run(stream, type, Mode::kLogistic, nest, {{{x, size}, {x, size}, {dy, size}, {dx, size}, {dx, size}}}, {},
      gate_kernels_of(stream, type, Pass::kGatedBackward));
}

}  // namespace polymio::activation
