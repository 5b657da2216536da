// Asks every registered solver what it computes on each kind of device, which need not be there. A line of fields
// separated by tabs for each yes: primitive, device, solver, method or "reference", direction, type, layout, kind.
// tools/generate_support.py makes docs/support.md of them.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <array>
#include <exception>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/registry.h"
#include "primitives/activation/activation.h"
#include "primitives/batch_norm/batch_norm.h"
#include "primitives/convolution/convolution.h"
#include "primitives/kthvalue/kthvalue.h"
#include "primitives/lrn/lrn.h"
#include "primitives/mha/mha.h"
#include "primitives/norm/norm.h"
#include "primitives/pooling/pooling.h"
#include "primitives/reduce/reduce.h"
#include "primitives/softmax/softmax.h"

namespace {

using namespace polymio;

using Lens = std::vector<std::int64_t>;

struct NamedDevice {
  const char* name;
  DeviceInfo info;
};

std::vector<NamedDevice> devices() {
  DeviceInfo cpu;  // the instruction set does not decide what a solver computes
  cpu.architecture = "cpu";
  cpu.memory_bytes = std::size_t{16} << 30;
  cpu.cache_bytes = {32u << 10, 1u << 20, 32u << 20};
  cpu.fp32_gflops = 100;
  cpu.bandwidth_gbs = 20;
  DeviceInfo opencl = usual_device("hip-gfx90a");
  opencl.kind = DeviceKind::kOpenCl;
  opencl.architecture = "opencl";
  return {{"CPU", cpu}, {"CUDA", usual_device("cuda-sm90")}, {"OpenCL", opencl}, {"HIP", usual_device("hip-gfx90a")}};
}

/// The types of a problem's tensors. Operands are read as `cast`.
struct Types {
  std::string name;
  DataType in, out, cast;
};

std::vector<Types> types_of_convolutions() {
  std::vector<Types> types;
  constexpr int kEnd = 0x200;  // of the numbers of types
  for (int i = 0; i < kEnd; ++i) {
    const auto t = static_cast<DataType>(i);
    if (is_valid(t)) types.push_back({name_of(t), t, t, t});
  }
  const std::vector<Types> all = types;
  for (const DataType out : {DataType::kInt32, DataType::kFloat})
    types.push_back({fmt::format("int8 to {}", name_of(out)), DataType::kInt8, out, DataType::kInt8});
  for (const Types& t : all)
    if (is_fp8(t.in)) types.push_back({"fp32, cast to " + t.name, DataType::kFloat, DataType::kFloat, t.in});
  return types;
}

enum class Order { kChannelsFirst, kChannelsLast, kGaps };

TensorDesc tensor(DataType type, const Lens& lens, Order order) {
  std::vector<std::size_t> inner_first(lens.size());
  std::iota(inner_first.rbegin(), inner_first.rend(), std::size_t{0});
  if (order == Order::kChannelsLast) {
    inner_first.erase(inner_first.end() - 2);
    inner_first.insert(inner_first.begin(), 1);
  }
  Lens strides(lens.size());
  std::int64_t stride = order == Order::kGaps ? 2 : 1;
  for (const std::size_t i : inner_first) {
    strides[i] = stride;
    stride *= lens[i];
  }
  return make_tensor(type, lens, strides);
}

std::string layout_name(int spatial, Order order) {
  const std::string sizes = std::string("DHW").substr(static_cast<std::size_t>(3 - spatial));
  if (order == Order::kGaps) return fmt::format("{}-D with gaps", spatial);
  return order == Order::kChannelsLast ? "N" + sizes + "C" : "NC" + sizes;
}

struct Layer {
  const char* name;
  std::int64_t c, filter, pad, stride, dilation, groups;
};
constexpr Layer kLayers[] = {{"1x1", 64, 1, 0, 1, 1, 1},
                             {"3x3", 64, 3, 1, 1, 1, 1},
                             {"5x5", 64, 5, 2, 1, 1, 1},
                             {"stride 2", 64, 3, 1, 2, 1, 1},
                             {"dilation 2", 64, 3, 2, 1, 2, 1},
                             {"3 channels", 3, 7, 3, 2, 1, 1},
                             {"16 groups", 64, 3, 1, 1, 1, 16},
                             {"depthwise", 64, 3, 1, 1, 1, 64},
                             {"depthwise with 33 taps", 64, 33, 16, 1, 1, 64}};

convolution::Problem problem(convolution::Direction direction, const Types& types, int spatial, Order order,
                             const Layer& kind) {
  constexpr std::int64_t kImages = 8, kSize = 28, kOutputs = 64;
  const auto rank = static_cast<std::size_t>(spatial) + 2;
  Lens x(rank, kSize), w(rank, kind.filter);
  Lens y(rank, convolution::forward_size(kSize, kind.filter, kind.pad, kind.stride, kind.dilation));
  x[0] = y[0] = kImages;
  x[1] = kind.c;
  y[1] = w[0] = kOutputs;
  w[1] = kind.c / kind.groups;
  convolution::Problem p;
  p.direction = direction;
  p.x = tensor(types.in, x, order);
  p.w = tensor(types.in, w, order);
  p.y = tensor(types.in, y, order);
  for (TensorDesc* t : {&p.x, &p.w, &p.y}) t->cast = types.cast;
  TensorDesc& output = direction == convolution::Direction::kForward        ? p.y
                       : direction == convolution::Direction::kBackwardData ? p.x
                                                                            : p.w;
  output.type = output.cast = types.out;
  p.geometry.spatial = spatial;
  p.geometry.groups = kind.groups;
  for (std::size_t i = 0; i < rank - 2; ++i) {
    p.geometry.pad[i] = kind.pad;
    p.geometry.stride[i] = kind.stride;
    p.geometry.dilation[i] = kind.dilation;
  }
  return p;
}

template <class Problem>
bool is_valid_problem(const Problem& p) {
  try {
    validate(p);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

void ask(const char* primitive, SolverList (*solvers)(DeviceKind, const ProblemBase&), const ProblemBase& p,
         const std::string& columns) {
  static const std::vector<NamedDevice> all = devices();
  Constraints any;
  any.math = MathMode::kAny;
  for (const NamedDevice& device : all)
    for (const SolverBase* solver : solvers(device.info.kind, p)) {
      const SolverInfo info = solver->info();
      if (admit(*solver, device.info, p, any))
        fmt::print("{}\t{}\t{}\t{}\t{}\n", primitive, device.name, info.name,
                   info.reference ? "reference" : info.method, columns);
    }
}

void ask_convolution() {
  using convolution::Direction;
  constexpr std::array kDirections = {"forward", "backward data", "backward weights"};
  for (const auto d : {Direction::kForward, Direction::kBackwardData, Direction::kBackwardWeights})
    for (const Types& types : types_of_convolutions())
      for (const int spatial : {1, 2, 3})
        for (const Order order : {Order::kChannelsFirst, Order::kChannelsLast, Order::kGaps})
          for (const Layer& kind : kLayers) {
            const convolution::Problem p = problem(d, types, spatial, order, kind);
            if (!is_valid_problem(p)) continue;
            const auto solvers = [](DeviceKind device, const ProblemBase& q) {
              return convolution::solvers(static_cast<const convolution::Problem&>(q).direction, device);
            };
            ask("convolution", solvers, p,
                fmt::format("{}\t{}\t{}\t{}", kDirections[static_cast<std::size_t>(d)], types.name,
                            layout_name(spatial, order), kind.name));
          }
}

/// Calls body(types, order, its name) for the types that tensors of one type have, packed and with gaps.
template <class Body>
void each_type(const Body& body) {
  for (const Types& types : types_of_convolutions())
    for (const Order order : {Order::kChannelsFirst, Order::kGaps})
      if (types.in == types.out && types.in == types.cast)
        body(types, order, order == Order::kGaps ? "with gaps" : "packed");
}

/// Asks the solvers of a problem of one primitive; nothing if there is no such problem.
template <class Problem>
void ask_problem(const char* primitive, const Problem& p, const char* direction, const Types& types, const char* layout,
                 const char* kind) {
  if (!is_valid_problem(p)) return;
  const auto of_device = [](DeviceKind device, const ProblemBase& q) {
    [[maybe_unused]] const auto& problem = static_cast<const Problem&>(q);
    if constexpr (std::is_same_v<Problem, kthvalue::Problem>)
      return kthvalue::solvers(device);
    else if constexpr (std::is_same_v<Problem, reduce::Problem>)
      return reduce::solvers(device);
    else
      return solvers(problem.direction, device);
  };
  ask(primitive, of_device, p, fmt::format("{}\t{}\t{}\t{}", direction, types.name, layout, kind));
}

const char* name_of_direction(bool forward) { return forward ? "forward" : "backward"; }

void ask_activation() {
  using namespace activation;
  for (const bool forward : {true, false})
    each_type([&](const Types& types, Order order, const char* layout) {
      const TensorDesc t = tensor(types.in, {8, 64, 28, 28}, order);
      const Problem p = forward ? forward_problem(Mode::kRelu, t, t) : backward_problem(Mode::kRelu, t, t, t, t);
      ask_problem("activation", p, name_of_direction(forward), types, layout, "relu");
    });
}

void ask_softmax() {
  using namespace softmax;
  for (const bool forward : {true, false})
    each_type([&](const Types& types, Order order, const char* layout) {
      const TensorDesc t = tensor(types.in, {8, 64, 28, 28}, order);
      const Problem p = forward ? forward_problem(Algorithm::kAccurate, Mode::kChannel, t, t)
                                : backward_problem(Algorithm::kAccurate, Mode::kChannel, t, t, t);
      ask_problem("softmax", p, name_of_direction(forward), types, layout, "accurate");
    });
}

void ask_attention() {
  using namespace mha;
  for (const bool forward : {true, false})
    each_type([&](const Types& types, Order order, const char* layout) {
      const TensorDesc t = tensor(types.in, {8, 16, 512, 64}, order);
      const Problem p = forward ? forward_problem(t, t, t, t) : backward_problem(t, t, t, t, t, t, t, t);
      ask_problem("attention", p, name_of_direction(forward), types, layout, "any");
    });
}

void ask_batch_norm() {
  using namespace batch_norm;
  constexpr std::array kNames = {"training", "inference", "backward"};
  for (const auto d : {Direction::kTraining, Direction::kInference, Direction::kBackward})
    for (const Mode mode : {Mode::kSpatial, Mode::kPerActivation})
      each_type([&](const Types& types, Order order, const char* layout) {
        Problem p;
        p.direction = d;
        p.mode = mode;
        p.x = p.out = tensor(types.in, {8, 64, 28, 28}, order);
        if (!p.forward()) p.dy = p.x;
        p.parameters = parameters_of(p.x, mode);
        p.scale_type = p.bias_type = p.moment_type = types.in == DataType::kDouble ? types.in : DataType::kFloat;
        p.parameters.type = p.scale_type;
        ask_problem("batch normalization", p, kNames[static_cast<std::size_t>(d)], types, layout,
                    mode == Mode::kSpatial ? "spatial" : "per activation");
      });
}

void ask_pooling() {
  using namespace pooling;
  for (const auto d : {Direction::kForward, Direction::kBackward})
    for (const Mode mode : {Mode::kMax, Mode::kAverage})
      each_type([&](const Types& types, Order order, const char* layout) {
        const TensorDesc x = tensor(types.in, {8, 64, 28, 28}, order), y = tensor(types.in, {8, 64, 14, 14}, order);
        Problem p;
        p.direction = d;
        p.mode = mode;
        if (mode == Mode::kMax) p.index = Index::kUint8;
        p.window.length = {2, 2, 1};
        p.window.stride = {2, 2, 1};
        p.x = x;
        p.y = y;
        if (!p.forward()) {
          p.dx = x;
          p.dy = y;
        }
        ask_problem("pooling", p, name_of_direction(p.forward()), types, layout,
                    mode == Mode::kMax ? "max" : "average");
      });
}

void ask_lrn() {
  using namespace lrn;
  for (const auto d : {Direction::kForward, Direction::kBackward})
    for (const Mode mode : {Mode::kCrossChannel, Mode::kWithinChannel})
      each_type([&](const Types& types, Order order, const char* layout) {
        Problem p;
        p.direction = d;
        p.mode = mode;
        p.x = p.y = tensor(types.in, {8, 64, 28, 28}, order);
        if (!p.forward()) p.dx = p.dy = p.x;
        ask_problem("local response normalization", p, name_of_direction(p.forward()), types, layout,
                    mode == Mode::kCrossChannel ? "across channels" : "within channels");
      });
}

void ask_norm() {
  using namespace norm;
  constexpr std::array<std::pair<const char*, Kind>, 3> kNames = {
      {{"layer", Kind::kLayer}, {"RMS", Kind::kRms}, {"group", Kind::kGroup}}};
  for (const auto d : {Direction::kForward, Direction::kBackward})
    for (const auto& named : kNames)
      each_type([&](const Types& types, Order order, const char* layout) {
        Problem p;
        p.direction = d;
        p.kind = named.second;
        p.extent = {1, p.kind == Kind::kGroup ? 8 : 1};
        p.parameters = p.statistics = types.in;
        p.x = tensor(types.in, {8, 64, 28, 28}, order);
        (p.forward() ? p.y : p.dx) = p.x;
        if (!p.forward()) p.dy = p.x;
        ask_problem("normalization of rows", p, name_of_direction(p.forward()), types, layout, named.first);
      });
}

void ask_kthvalue() {
  each_type([&](const Types& types, Order order, const char* layout) {
    kthvalue::Problem p;
    p.selection = {2, 3};
    p.x = tensor(types.in, {8, 64, 784}, order);
    p.y = tensor(types.in, {8, 64, 1}, Order::kChannelsFirst);
    p.indices = tensor(DataType::kInt64, {8, 64, 1}, Order::kChannelsFirst);
    ask_problem("k-th value", p, "forward", types, layout, "any");
  });
}

void ask_reduction() {
  using namespace reduce;
  static constexpr std::pair<const char*, Lens (*)(const Lens&)> kKeep[] = {{"rows",
                                                                             [](const Lens& a) {
                                                                               return Lens{a[0], a[1], 1};
                                                                             }},
                                                                            {"columns",
                                                                             [](const Lens& a) {
                                                                               return Lens{1, a[1], a[2]};
                                                                             }},
                                                                            {"all elements", [](const Lens&) {
                                                                               return Lens{1, 1, 1};
                                                                             }}};
  for (const Op op : {Op::kAdd, Op::kMax})
    each_type([&](const Types& types, Order order, const char* layout) {
      for (const auto& [name, kept] : kKeep) {
        const Lens lens = {8, 64, 784};
        Problem p;
        p.op = op;
        p.a = tensor(types.in, lens, order);
        p.c = tensor(types.in, kept(lens), Order::kChannelsFirst);
        if (is_extreme(op)) p.positions = positions_of(p.c);
        ask_problem("reduction", p, is_extreme(op) ? "extremes with indices" : "sums", types, layout, name);
      }
    });
}

}  // namespace

int main() {
  ask_convolution();
  ask_activation();
  ask_batch_norm();
  ask_pooling();
  ask_softmax();
  ask_attention();
  ask_norm();
  ask_lrn();
  ask_reduction();
  ask_kthvalue();
  return 0;
}
