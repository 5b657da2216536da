// ActivGpuElementwise: an elementwise pass over tensors of any strides, in 16-byte vectors where rows allow it. The
// same pass computes epilogues of convolutions and the gated linear unit.
// SPDX-License-Identifier: MIT
#include <memory>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "core/kernel_builder.h"
#include "kernels/gpu/walk.h"
#include "primitives/activation/solvers.h"

namespace polymio::activation {
namespace {

using kernels::Nest;
using kernels::Sides;

constexpr std::int64_t kThreads = 256, kUnits = 4, kVectorUnits = 1;  // as in the kernels

/// Values of -DPASS.
enum class Pass { kForward, kBackward, kBackwardFromY, kBiased, kGated };

bool computes_in_double(DataType type, Mode mode) { return type == DataType::kDouble || mode == Mode::kPower; }

/// A negative pass omits -DPASS.
std::vector<std::string> options(const DeviceInfo& device, DataType type, Mode mode, int pass) {
  std::vector<std::string> list = {fmt::format("-DIN={}", polymio::name_of(type)),
                                   fmt::format("-DOUT={}", polymio::name_of(type)),
                                   fmt::format("-DNUM={}", computes_in_double(type, mode) ? "double" : "float"),
                                   fmt::format("-DMODE={}", static_cast<int>(mode))};
  if (pass >= 0) list.push_back(fmt::format("-DPASS={}", pass));
  if (device.gpu.fp64) list.emplace_back("-DFP64");
  return list;
}

/// Adds the kernel for single elements, then the one for vectors.
void add_kernels(const DeviceInfo& device, DataType type, Mode mode, Pass pass, std::vector<KernelSpec>& specs) {
  for (const char* entry : {"elementwise", "elementwise_vectors"})
    specs.push_back(
        {"primitives/activation/gpu/activation.cl", entry, options(device, type, mode, static_cast<int>(pass))});
}

/// Formula of activation.cl. `fixed`, the value of operands that are not read, is unused here.
template <class Real>
struct Formula {
  Real alpha, beta, gamma, scale, keep, fixed;
  int reads_a, reads_b;
};

struct Values {
  Parameters parameters;
  double scale = 1, keep = 0;
};

/// Iteration space and operands a, b and c of the kernels.
struct Operands {
  Nest nest;
  Sides sides;
  DataType type;
  Mode mode;
};

Nest nest_of(const Loop& loop, const std::array<int, 3>& operands) {
  Nest nest;
  nest.rank = static_cast<int>(loop.rank);
  for (std::size_t d = 0; d < loop.rank; ++d) {
    nest.dims[d].size = loop.dims[d].size;
    for (std::size_t o = 0; o < operands.size(); ++o)
      if (operands[o] >= 0) nest.dims[d].strides[o] = loop.dims[d].strides[static_cast<std::size_t>(operands[o])];
  }
  return nest;
}

Launch launch_of(std::int64_t count, std::int64_t per_block) {
  Launch shape;
  shape.blocks[0] = static_cast<std::uint32_t>((count + per_block - 1) / per_block);
  shape.threads[0] = kThreads;
  return shape;
}

template <class Real>
void run_in(Stream& stream, const Operands& v, const Kernel& elements, const Kernel& units, const Values& values) {
  const int vector = kernels::vector_of(v.sides[2].size, v.sides[2].size);
  const bool vectors = takes_vectors(v.nest, v.sides, vector);
  Nest nest = v.nest;
  nest.group(vectors ? vector : 1);
  const auto real = [](double value) { return static_cast<Real>(value); };
  const auto& p = values.parameters;
  const Formula<Real> f{real(p.alpha),
                        real(p.beta),
                        real(p.gamma),
                        real(values.scale),
                        real(values.keep),
                        0,
                        v.sides[0].data != nullptr,
                        v.sides[1].data != nullptr};
  each_part(nest, [&](const Nest& part) {
    const auto walk = part.walk();
    launch(stream, vectors ? units : elements, launch_of(walk.count, kThreads * (vectors ? kVectorUnits : kUnits)),
           Buffer(v.sides[0].data), Buffer(v.sides[1].data_or(v.sides[2].data)), Buffer(v.sides[2].data), walk,
           part.strides(0), part.strides(1), part.strides(2), f);
  });
}

void run(Stream& stream, const Operands& v, const Kernel& elements, const Kernel& units, const Values& values) {
  computes_in_double(v.type, v.mode) ? run_in<double>(stream, v, elements, units, values)
                                     : run_in<float>(stream, v, elements, units, values);
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
    return [p, built, nest = nest_of(loop_of(p), {1, p.forward() ? -1 : 2, 0})](Stream& stream, const Args& a) {
      const std::size_t size = size_of(p.x.type), first_kernel = a.x_is_y && built.size() > 2 ? 2 : 0;
      const Operands v{nest, {{a.x, size}, {p.forward() ? nullptr : a.dy, size}, {a.result, size}}, p.x.type, p.mode};
      run(stream, v, *built[first_kernel], *built[first_kernel + 1], {a.parameters, a.scale, a.keep});
    };
  }

 private:
  Direction direction_;
};

SharedKernels& shared = *new SharedKernels;

const Kernel& gate_kernel(Stream& stream, DataType type, int entry) {
  return shared.get(stream, static_cast<std::uint64_t>(type) * 4 + static_cast<std::uint64_t>(entry),
                    [&] { return gate_kernels(stream.info(), type)[static_cast<std::size_t>(entry)]; });
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

std::vector<KernelSpec> epilogue_kernels(const DeviceInfo& d, DataType type, Mode mode, bool bias) {
  std::vector<KernelSpec> specs;
  add_kernels(d, type, mode, bias ? Pass::kBiased : Pass::kForward, specs);
  return specs;
}

EpilogueInvoker epilogue(Stream& stream, const TensorDesc& y, Mode mode, bool bias) {
  TensorDesc channels = y;
  channels.strides.fill(0);
  channels.strides[1] = 1;
  const TensorDesc* const operands[] = {&y, &channels};
  return [nest = nest_of(simplified_loop(operands), {0, bias ? 1 : -1, 0}), type = y.type, mode,
          built = build_kernels(stream, epilogue_kernels(stream.info(), y.type, mode, bias))](
             Stream& on, void* data, const void* b, const Parameters& parameters) {
    const std::size_t size = size_of(type);
    run(on, {nest, {{data, size}, {b, size}, {data, size}}, type, mode}, *built[0], *built[1],
        {rounded(parameters, type)});
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
  add_kernels(d, type, Mode::kLogistic, Pass::kGated, specs);
  specs.push_back({"primitives/activation/gpu/gate.cl", "gate_backward", options(d, type, Mode::kLogistic, -1)});
  return specs;
}

void gate_forward(Stream& stream, const Loop& loop, DataType type, const void* x, std::int64_t second, void* y) {
  require_type(stream, type);
  stream.check_memory(x, "the buffer of the input");
  stream.check_memory(y, "the buffer of the output");
  const std::size_t size = size_of(type);
  Operands v{nest_of(loop, {1, 1, 0}), {{x, size}, {x, size}, {y, size}}, type, Mode::kLogistic};
  v.nest.first[1] = second;
  run(stream, v, gate_kernel(stream, type, 0), gate_kernel(stream, type, 1), {});
}

void gate_backward(Stream& stream, const Loop& loop, DataType type, const void* x, std::int64_t x_second,
                   const void* dy, void* dx, std::int64_t dx_second) {
  require_type(stream, type);
  stream.check_memory(x, "the buffer of the input");
  stream.check_memory(dy, "the buffer of outputGrad");
  stream.check_memory(dx, "the buffer of inputGrad");
  const Kernel& kernel = gate_kernel(stream, type, 2);
  each_part(nest_of(loop, {1, 2, 0}), [&](const Nest& part) {
    const auto walk = part.walk();
    launch(stream, kernel, launch_of(walk.count, kThreads), Buffer(x), Buffer(dy), Buffer(dx), walk, part.strides(0),
           part.strides(1), part.strides(2), x_second, dx_second);
  });
}

}  // namespace polymio::activation
