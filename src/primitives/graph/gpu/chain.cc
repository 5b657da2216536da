// Chains on GPUs: their code as text of the portable dialect, in the skeleton of maps.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/math.h"
#include "core/kernel_builder.h"
#include "primitives/common/gpu/skeletons.h"
#include "primitives/graph/chain.h"

namespace polymio::graph {
namespace {

using gpu_skeletons::kMapEntries;
using kernels::ChainOp;

/// A number by its bits: exact, also where it is infinite.
std::string literal(double v, bool in_double) {
  if (in_double) return fmt::format("DOUBLE_OF_BITS((u64)0x{:x})", std::bit_cast<std::uint64_t>(v));
  return fmt::format("FLOAT_OF_BITS(0x{:x}u)", std::bit_cast<std::uint32_t>(static_cast<float>(v)));
}

std::string expression(const Chain& chain, const Instruction& i) {
  const auto value = [&](int v) {
    return v < static_cast<int>(chain.in.size()) ? fmt::format("in[{}]", v) : fmt::format("v{}", v);
  };
  const auto number = [&](double v) { return literal(v, chain.in_double); };
  const std::string a = i.a < 0 ? "" : value(i.a), b = i.b < 0 ? "" : value(i.b), c = i.c < 0 ? "" : value(i.c);
  const auto infix = [&](const char* op) { return fmt::format("{} {} {}", a, op, b); };
  const auto truth = [&](const char* op) { return fmt::format("({} {} {} ? 1 : 0)", a, op, b); };
  const auto extreme = [&](const char* op, const std::string& nan) {
    return fmt::format("({0} {1} {2} || {3} != {3} ? {0} : {2})", a, op, b, nan);
  };
  const auto call = [&](const char* name) { return fmt::format("{}({})", name, a); };
  switch (i.op) {
    case ChainOp::kConstant: return number(i.shift);
    case ChainOp::kAffine:
      return i.shift == 0 ? fmt::format("{} * {}", a, number(i.scale))
                          : fmt::format("{} * {} + {}", a, number(i.scale), number(i.shift));
    case ChainOp::kAdd: return infix("+");
    case ChainOp::kSub: return infix("-");
    case ChainOp::kMul: return infix("*");
    case ChainOp::kDiv: return infix("/");
    case ChainOp::kMin: return extreme("<", a);
    case ChainOp::kMax: return extreme(">", a);
    case ChainOp::kMinNumber: return extreme("<", b);
    case ChainOp::kMaxNumber: return extreme(">", b);
    case ChainOp::kLess: return truth("<");
    case ChainOp::kLessEqual: return truth("<=");
    case ChainOp::kEqual: return truth("==");
    case ChainOp::kSelect: return fmt::format("({} != 0 ? {} : {})", a, b, c);
    case ChainOp::kAbs: return call("abs_of");
    case ChainOp::kExp: return call("exp_of");
    case ChainOp::kExpm1: return call("expm1_nonpositive");
    case ChainOp::kLog: return call("log_of");
    case ChainOp::kLog1p: return call("log1p_unit");
    case ChainOp::kTanh: return call("tanh_of");
    case ChainOp::kErf: return call("erf_of");
    case ChainOp::kSqrt: return call("sqrt_of");
    case ChainOp::kFloor: return call("floor_of");
    case ChainOp::kCeil: return call("ceil_of");
    case ChainOp::kSin: return call("sin_of");
    case ChainOp::kCos: return call("cos_of");
    case ChainOp::kTan: return call("tan_of");
    case ChainOp::kPow: return fmt::format("pow_of({}, {})", a, b);
    case ChainOp::kMod: return fmt::format("mod_of({}, {})", a, b);
  }
  return "";
}

/// A macro that chooses the type of an operand by its number.
std::string types_macro(const char* name, const std::vector<TensorDesc>& tensors) {
  std::string text = fmt::format("#define {}(i) (", name);
  for (std::size_t i = 0; i + 1 < tensors.size(); ++i)
    text += fmt::format("(i) == {} ? {} : ", i, static_cast<int>(tensors[i].type));
  return text + fmt::format("{})\n", static_cast<int>(tensors.back().type));
}

std::string text_of(const Chain& chain) {
  std::string text = fmt::format("#define INPUTS {}\n#define OUTPUTS {}\n", chain.in.size(), chain.out.size());
  text += types_macro("INPUT_TYPE", chain.in) + types_macro("OUTPUT_TYPE", chain.out) + "#define STATEMENTS";
  for (std::size_t i = 0; i < chain.code.size(); ++i)
    text += fmt::format(" const num v{} = {};", chain.in.size() + i, expression(chain, chain.code[i]));
  for (std::size_t o = 0; o < chain.results.size(); ++o) {
    const int v = chain.results[o];
    text += v < static_cast<int>(chain.in.size()) ? fmt::format(" out[{}] = in[{}];", o, v)
                                                  : fmt::format(" out[{}] = v{};", o, v);
  }
  return text + "\n";
}

/// Parameter of the kernels.
struct Formula {
  int unused = 0;
};

/// Parameters of positions.cl.
struct Shape {
  std::array<std::int64_t, kMaxRank> size{}, stride{};
};
struct Axis {
  std::int64_t count, step, size;
  int rank;
};
struct Draw {
  std::int64_t count, seed;
  float first, second;
  int rank, distribution, has_seed;
};

Shape shape_of(const TensorDesc& y) {
  Shape shape;
  for (std::size_t d = 0; d < static_cast<std::size_t>(y.rank); ++d) {
    const std::size_t from_last = static_cast<std::size_t>(y.rank) - 1 - d;
    shape.size[d] = y.lens[from_last];
    shape.stride[d] = y.strides[from_last];
  }
  return shape;
}

constexpr std::int64_t kThreads = 256;

auto launch_over(const TensorDesc& y) {
  const std::int64_t blocks = ceil_div(y.count(), kThreads);
  if (blocks > INT32_MAX)
    fail(Status::kNotImplemented, "a tensor of {} elements is too large for one launch", y.count());
  return launch_shape(kThreads, blocks);
}

}  // namespace

std::vector<KernelSpec> programs(const DeviceInfo& device, DataType type) {
  Chain chain;
  chain.in.emplace_back().type = type;
  chain.out = chain.in;
  chain.in_double = type == DataType::kDouble;
  KernelSpec every = chain_kernels(device, chain).front();
  every.generated.clear();
  return {every, position_kernels(device, type).front()};
}

std::vector<KernelSpec> chain_kernels(const DeviceInfo& device, const Chain& chain) {
  if (chain.in_double && !device.gpu.fp64)
    fail(Status::kNotImplemented, "{} has no arithmetic in fp64, which the types of a pointwise operation need",
         device.name);
  std::vector<std::string> options = {fmt::format("-DIN={}", name_of(chain.in.front().type)),
                                      fmt::format("-DOUT={}", name_of(chain.out.back().type)),
                                      fmt::format("-DNUM={}", chain.in_double ? "double" : "float")};
  if (device.gpu.fp64) options.emplace_back("-DFP64");
  std::vector<KernelSpec> specs;
  for (const char* entry : kMapEntries)
    specs.push_back({"primitives/graph/gpu/chain.cl", entry, options, "", text_of(chain)});
  return specs;
}

ChainRun build_on_gpu(Stream& stream, const Chain& chain) {
  std::vector<const TensorDesc*> tensors;
  for (const TensorDesc& t : chain.out) tensors.push_back(&t);
  for (const TensorDesc& t : chain.in) tensors.push_back(&t);
  kernels::Sides sizes{};
  for (std::size_t i = 0; i < chain.in.size(); ++i) sizes[i].size = size_of(chain.in[i].type);
  for (std::size_t o = 0; o < chain.out.size(); ++o) sizes[chain.in.size() + o].size = size_of(chain.out[o].type);
  const auto nest = gpu_skeletons::nest_of(simplified_loop(tensors), chain.out.size());
  return [kernels = build_kernels(stream, chain_kernels(stream.info(), chain)), nest, sizes, inputs = chain.in.size(),
          outputs = chain.out.size()](Stream& on, void* const* out, const void* const* in) {
    kernels::Sides sides = sizes;
    for (std::size_t i = 0; i < inputs; ++i) sides[i].data = in[i];
    for (std::size_t o = 0; o < outputs; ++o) sides[inputs + o].data = out[o];
    const auto plan = gpu_skeletons::plan_map(nest, sides);
    const Formula formula;
    gpu_skeletons::launch_map(on, *kernels[static_cast<std::size_t>(plan.entry)], plan, sides,
                              gpu_skeletons::value_argument(formula));
  };
}

std::vector<KernelSpec> position_kernels(const DeviceInfo& device, DataType type) {
  if (is_wide(type) && !device.gpu.fp64)
    fail(Status::kNotImplemented, "{} has no arithmetic in fp64, which random numbers and indices of type {} need",
         device.name, name_of(type));
  std::vector<std::string> options = {fmt::format("-DIN={}", name_of(type)), fmt::format("-DOUT={}", name_of(type)),
                                      fmt::format("-DNUM={}", is_wide(type) ? "double" : "float")};
  if (device.gpu.fp64) options.emplace_back("-DFP64");
  constexpr const char* kSource = "primitives/graph/gpu/positions.cl";
  return {{kSource, "random_elements", options}, {kSource, "element_indices", options}};
}

RandomRun build_random_on_gpu(Stream& stream, const Random& r, const TensorDesc& y) {
  const Draw draw{y.count(),
                  r.seed,
                  static_cast<float>(r.first),
                  static_cast<float>(r.second),
                  y.rank,
                  static_cast<int>(r.distribution),
                  0};
  return [kernels = build_kernels(stream, position_kernels(stream.info(), y.type)), shape = shape_of(y), draw,
          blocks = launch_over(y)](Stream& on, void* data, const void* offset, const void* seed) {
    Draw call = draw;
    call.has_seed = seed ? 1 : 0;
    launch(on, *kernels[0], blocks, Buffer(data), shape, call, Buffer(offset), Buffer(seed ? seed : offset));
  };
}

IndexRun build_index_on_gpu(Stream& stream, std::int64_t axis, const TensorDesc& y) {
  const Axis along{y.count(), elements_after(y, axis), y.lens[static_cast<std::size_t>(axis)], y.rank};
  return [kernels = build_kernels(stream, position_kernels(stream.info(), y.type)), shape = shape_of(y), along,
          blocks = launch_over(y)](Stream& on, void* data) {
    launch(on, *kernels[1], blocks, Buffer(data), shape, along);
  };
}

}  // namespace polymio::graph
