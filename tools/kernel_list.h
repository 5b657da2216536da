// GPU programs that together compile nearly all kernel sources.
// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <optional>
#include <set>
#include <vector>

#include "core/kernel_builder.h"
#include "primitives/activation/activation.h"
#include "primitives/batch_norm/batch_norm.h"
#include "primitives/cat/cat.h"
#include "primitives/convolution/convolution.h"
#include "primitives/ctc/ctc.h"
#include "primitives/convolution/fused.h"
#include "primitives/kthvalue/kthvalue.h"
#include "primitives/getitem/getitem.h"
#include "primitives/graph/graph.h"
#include "primitives/optimizer/optimizer.h"
#include "primitives/norm/norm.h"
#include "primitives/softmax/softmax.h"
#include "primitives/reduce/reduce.h"
#include "primitives/pooling/pooling.h"
#include "primitives/dropout/dropout.h"
#include "primitives/lrn/lrn.h"
#include "primitives/loss/loss.h"
#include "primitives/matmul/matmul.h"
#include "primitives/mha/mha.h"
#include "primitives/prelu/prelu.h"
#include "primitives/rnn/rnn.h"
#include "primitives/rope/rope.h"
#include "primitives/tensor_ops/tensor_ops.h"

namespace polymio {

inline std::vector<KernelSpec> listed_programs(const DeviceInfo& device) {
  std::vector<KernelSpec> specs = convolution::base_programs(device, true);
  const auto add = [&](const std::vector<KernelSpec>& more) { specs.insert(specs.end(), more.begin(), more.end()); };
  for (const DataType type : kDataTypes) add(tensor_ops::programs(device, std::array{type}));
  add(tensor_ops::programs(device, std::array{DataType::kFloat, DataType::kHalf, DataType::kInt32}));
  for (const DataType type : {DataType::kFloat, DataType::kDouble}) {
    add(optimizer::programs(device, type));
    add(getitem::programs(device, type));
  }
  using activation::Mode;
  for (int mode = 0; mode < 10; ++mode) add(activation::programs(device, DataType::kFloat, static_cast<Mode>(mode)));
  for (const Mode mode : {Mode::kTanh, Mode::kPower, Mode::kElu})
    add(activation::programs(device, DataType::kDouble, mode));
  add(activation::epilogue_kernels(device, DataType::kHalf, {Mode::kRelu, false, true, false}));
  add(activation::epilogue_kernels(device, DataType::kHalf, {Mode::kRelu, true, true, true}));
  for (const DataType type : {DataType::kHalf, DataType::kDouble}) {
    convolution::Problem fused;
    fused.y.type = type;
    fused.epilogue = {true, 0, true};
    add(convolution::norm_programs(device, fused));
  }
  for (const DataType type : {DataType::kHalf, DataType::kDouble})
    add(norm::programs(device, type, type == DataType::kHalf ? DataType::kFloat : type));
  for (const auto direction : {softmax::Direction::kForward, softmax::Direction::kBackward}) {
    for (const bool log : {false, true}) add(softmax::programs(device, DataType::kFloat, direction, log));
    add(softmax::programs(device, DataType::kDouble, direction, false));
  }
  for (const DataType type : {DataType::kHalf, DataType::kDouble})
    add(matmul::programs(device, type, type == DataType::kHalf ? DataType::kFloat : type));
  add(cat::programs());
  add(ctc::programs(device, DataType::kHalf));
  for (const auto direction : {mha::Direction::kForward, mha::Direction::kBackward})
    for (const DataType type : {DataType::kHalf, DataType::kFloat8Fnuz}) add(mha::programs(device, type, direction));
  for (const DataType type : {DataType::kFloat, DataType::kInt8}) {
    add(kthvalue::programs(device, type));
    reduce::Problem p;
    p.a = p.c = make_tensor(type, std::array<std::int64_t, 1>{1}, {});
    p.nan = reduce::Nan::kPropagate;
    for (int op = 0; op < reduce::kOps; ++op) {
      p.op = static_cast<reduce::Op>(op);
      p.positions = is_extreme(p.op) ? reduce::positions_of(p.c) : decltype(p.positions){};
      if (type == DataType::kFloat || is_extreme(p.op)) add(reduce::programs(device, p));
    }
  }
  for (const DataType type : {DataType::kFloat, DataType::kDouble})
    for (const auto mode : {pooling::Mode::kMax, pooling::Mode::kAverage}) add(pooling::programs(device, type, mode));
  for (const DataType type : {DataType::kBFloat16, DataType::kDouble}) {
    add(prelu::programs(device, type));
    add(rope::programs(device, type));
    add(loss::programs(device, type));
  }
  for (const DataType type : {DataType::kFloat, DataType::kDouble}) {
    add(lrn::programs(device, type));
    add(graph::programs(device, type));
    add(dropout::programs(device, type));
  }
  add(rnn::programs(device, DataType::kHalf));
  for (const Mode mode : {Mode::kPassthru, Mode::kRelu, Mode::kClamp}) {
    batch_norm::Problem p;
    p.x = p.out =
        make_tensor(mode == Mode::kRelu ? DataType::kDouble : DataType::kFloat, std::array<std::int64_t, 2>{1, 1}, {});
    p.activation = mode;
    add(batch_norm::programs(device, p));
    p.direction = batch_norm::Direction::kBackward;
    add(batch_norm::programs(device, p));
  }
  const auto add_all = [&](const SolverList& solvers, const ProblemBase& p) {
    for (const SolverBase* s : solvers)
      if (s->is_applicable(device, p)) add(s->kernel_specs(device, p, s->default_point(device, p)));
  };
  for (const DataType type : {DataType::kFloat, DataType::kDouble}) {
    const TensorDesc x = make_tensor(type, std::array<std::int64_t, 4>{2, 8, 4, 4}, {});
    const TensorDesc y = make_tensor(type, std::array<std::int64_t, 4>{2, 8, 2, 2}, {});
    batch_norm::Problem norm;
    norm.x = norm.out = x;
    for (const auto mode : {batch_norm::Mode::kSpatial, batch_norm::Mode::kPerActivation})
      for (const auto d :
           {batch_norm::Direction::kTraining, batch_norm::Direction::kInference, batch_norm::Direction::kBackward}) {
        norm.mode = mode;
        norm.parameters = batch_norm::parameters_of(x, mode);
        norm.direction = d;
        norm.dy = norm.forward() ? TensorDesc{} : x;
        add_all(batch_norm::solvers(d, device.kind), norm);
      }
    pooling::Problem pool;
    pool.direction = pooling::Direction::kBackward;
    pool.index = pooling::Index::kUint32;
    pool.window = {.length = {2, 2, 1}, .stride = {2, 2, 1}};
    pool.x = pool.dx = x;
    pool.y = pool.dy = y;
    add_all(pooling::solvers(pool.direction, device.kind), pool);
  }
  for (const std::int64_t taps : {4, 9}) {  // depthwise, few taps of one dimension
    for (const bool last : {false, true}) {
      convolution::Problem few;
      few.geometry = {.spatial = 1, .pad = {taps - 1}, .groups = 8};
      const std::int64_t width = 128, results = width + taps - 1;
      few.x = make_tensor(DataType::kHalf, std::array<std::int64_t, 3>{2, 8, width},
                          last ? std::vector<std::int64_t>{8 * width, 1, 8} : std::vector<std::int64_t>{});
      few.w = make_tensor(DataType::kHalf, std::array<std::int64_t, 3>{8, 1, taps}, {});
      few.y = make_tensor(DataType::kHalf, std::array<std::int64_t, 3>{2, 8, results},
                          last ? std::vector<std::int64_t>{8 * results, 1, 8} : std::vector<std::int64_t>{});
      add(programs_of(convolution::solvers(few.direction, device.kind), device, few, {}, "ConvGpuDepthwise", false));
    }
  }
  convolution::Problem eight;  // mixed types, a cast, stochastic rounding
  eight.x = make_tensor(DataType::kHalf, std::array<std::int64_t, 4>{2, 8, 4, 4}, {});
  eight.x.cast = DataType::kFloat8Fnuz;
  eight.w = make_tensor(DataType::kBFloat8Fnuz, std::array<std::int64_t, 4>{8, 8, 1, 1}, {});
  eight.y = make_tensor(DataType::kFloat8E4m3fn, std::array<std::int64_t, 4>{2, 8, 4, 4}, {});
  eight.rounding = convolution::Rounding::kStochastic;
  add_all(convolution::solvers(eight.direction, device.kind), eight);
  return specs;
}

/// The programs of every tune point of the convolution solvers whose kernels are C++ templates: channels-last problems
/// of 16 bits and of TF32 of one to three dimensions with few and with many channels, with steps of 1 and 2; of two, in
/// 16 bits, also those that write planes; depthwise filters of one dimension.
inline std::vector<KernelSpec> template_programs(const DeviceInfo& device) {
  using convolution::Direction;
  using convolution::Scalars;
  std::vector<KernelSpec> all;
  std::set<std::string> seen;
  const auto channels_last = [](DataType type, const std::vector<std::int64_t>& lens) {
    std::vector<std::int64_t> strides(lens.size(), 1);
    std::int64_t step = lens[1];
    for (std::size_t i = lens.size() - 1; i > 0; --i) {
      const std::size_t axis = i == 1 ? 0 : i;
      strides[axis] = step;
      step *= lens[axis];
    }
    return make_tensor(type, lens, strides);
  };
  const auto add_all = [&](const convolution::Problem& p) {
    convolution::validate(p);
    const SolverList solvers = convolution::solvers(p.direction, device.kind);
    for (KernelSpec& spec : programs_of(solvers, device, p, {.math = MathMode::kTf32}, "", true))
      if (!spec.instantiation.empty() && seen.insert(program_name(spec)).second) all.push_back(std::move(spec));
  };
  const auto add = [&](DataType type, Direction direction, std::size_t spatial, std::int64_t channels,
                       std::int64_t filter, std::int64_t stride, bool planes = false,
                       std::optional<DataType> result = {}, Scalars scalars = Scalars::kDefault) {
    convolution::Problem p;
    p.direction = direction;
    p.geometry.spatial = static_cast<int>(spatial);
    const std::int64_t side = spatial == 3 ? 12 : 28,
                       out = convolution::forward_size(side, filter, filter / 2, stride, 1);
    std::vector<std::int64_t> x{8, channels}, w{channels, channels}, y{8, channels};
    for (std::size_t i = 0; i < spatial; ++i) {
      p.geometry.pad[i] = filter / 2;
      p.geometry.stride[i] = stride;
      x.push_back(side);
      w.push_back(filter);
      y.push_back(out);
    }
    p.x = channels_last(type, x);
    p.w = channels_last(type, w);
    p.y = channels_last(type, y);
    if (planes)
      (direction == Direction::kForward ? p.y : p.x) = make_tensor(type, direction == Direction::kForward ? y : x, {});
    p.scalars = scalars;
    TensorDesc& output = direction == Direction::kForward ? p.y : p.x;
    if (result) output.type = output.cast = *result;
    add_all(p);
  };
  const auto add_depthwise_1d = [&](DataType type, Direction direction, std::int64_t taps, bool last) {
    constexpr std::int64_t channels = 8;
    const auto tensor = [&](std::int64_t steps) {
      const std::vector<std::int64_t> lens{1, channels, steps};
      return last ? channels_last(type, lens) : make_tensor(type, lens, {});
    };
    convolution::Problem p;
    p.direction = direction;
    p.geometry.spatial = 1;
    p.geometry.groups = channels;
    p.x = tensor(2 * taps);
    p.w = channels_last(type, {channels, 1, taps});
    p.y = tensor(taps + 1);
    add_all(p);
  };
  for (const DataType type : {DataType::kHalf, DataType::kBFloat16, DataType::kFloat})
    for (const Direction d : {Direction::kForward, Direction::kBackwardData, Direction::kBackwardWeights})
      for (const std::int64_t channels : {64, 256})
        for (const std::size_t spatial : {1u, 2u, 3u})
          for (const std::int64_t filter : {1, 3})
            for (const std::int64_t stride : {1, 2}) add(type, d, spatial, channels, filter, stride);
  for (const DataType type : {DataType::kHalf, DataType::kBFloat16})
    for (const Direction d : {Direction::kForward, Direction::kBackwardData, Direction::kBackwardWeights})
      for (const std::int64_t taps : {4, 16, 31, 41, 57, 64, 114})
        for (const bool last : {false, true}) add_depthwise_1d(type, d, taps, last);
  for (const Direction d : {Direction::kForward, Direction::kBackwardData, Direction::kBackwardWeights})
    for (const std::int64_t channels : {1, 4, 16, 32})
      for (const std::int64_t filter : {1, 3}) add(DataType::kHalf, d, 3, channels, filter, 1);
  for (const Direction d : {Direction::kForward, Direction::kBackwardData})
    for (const std::int64_t channels : {64, 256})
      for (const std::int64_t stride : {1, 2})
        for (const DataType type : {DataType::kHalf, DataType::kFloat}) add(type, d, 2, channels, 3, stride, true);
  for (const Scalars scalars : {Scalars::kDefault, Scalars::kScale, Scalars::kBilinear})
    for (const std::size_t spatial : {2u, 3u}) {
      for (const DataType result : {DataType::kInt32, DataType::kInt8})
        add(DataType::kInt8, Direction::kForward, spatial, 256, 3, 2, false, result, scalars);
      for (const Direction d : {Direction::kForward, Direction::kBackwardData}) {
        add(DataType::kFloat8E4m3fn, d, spatial, 256, 3, 2, false, DataType::kHalf, scalars);
        add(DataType::kFloat8Fnuz, d, spatial, 256, 3, 2, false, {}, scalars);
      }
    }
  for (const DataType type : {DataType::kHalf, DataType::kBFloat16})
    for (std::int64_t head = 16; head <= 128; head += 16)
      for (const bool has_bias : {false, true}) {
        const TensorDesc t = make_tensor(type, std::array<std::int64_t, 4>{1, 1, 1, head}, {});
        const std::array<std::int64_t, 4> one{1, 1, 1, 1};
        const TensorDesc bias = has_bias ? make_tensor(DataType::kFloat, one, {}) : TensorDesc{};
        for (const mha::Problem& p :
             {mha::forward_problem(t, t, t, t, bias), mha::backward_problem(t, t, t, t, t, t, t, t, bias)})
          for (const SolverBase* solver : mha::solvers(p.direction, DeviceKind::kCuda)) {
            const ProblemBase& problem = p;
            if (!solver->is_applicable(device, problem)) continue;
            for (KernelSpec& spec : solver->kernel_specs(device, problem, {}))
              if (!spec.instantiation.empty() && seen.insert(program_name(spec)).second) all.push_back(std::move(spec));
          }
      }
  return all;
}

}  // namespace polymio
