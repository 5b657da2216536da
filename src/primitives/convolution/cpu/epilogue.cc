// SPDX-License-Identifier: MIT
#include "primitives/convolution/cpu/epilogue.h"

#include <algorithm>

#include "kernels/cpu/activation.h"
#include "kernels/cpu/epilogue.h"
#include "kernels/cpu/kernels_of.h"
#include "primitives/convolution/cpu/problem_shape.h"

namespace polymio::convolution {
namespace {

constexpr std::int64_t kTaskElements = 32768;

struct Extent {
  std::int64_t rows, columns;
};

/// y as a matrix of channels and positions; the columns are the contiguous ones of the two.
kernels::Epilogue matrix_of(const Problem& p) {
  const kernels::ConvShape s = conv_shape(p);
  kernels::Epilogue e;
  e.y.dtype = p.y.type;
  kernels::Axis channels, positions;
  channels.level[kernels::kLevels - 1] = {p.k(), s.y_k, -1, 0};
  positions.level[0] = {s.n, s.y_n, -1, 0};
  for (int d = 0; d < kernels::kSpatial; ++d) positions.level[d + 1] = {s.out[d], s.y_d[d], -1, 0};
  e.channels_are_rows = s.y_k != 1 || p.k() == 1;
  e.y.rows = e.channels_are_rows ? channels : positions;
  e.y.columns = e.channels_are_rows ? positions : channels;
  simplify(e.y);
  return e;
}

}  // namespace

Verdict check_epilogue(const Problem& p) {
  if (p.epilogue.empty()) return {};
  POLYMIO_REQUIRE(p.direction == Direction::kForward, "only a forward convolution has an epilogue");
  const DataType t = p.y.type;
  POLYMIO_REQUIRE(t == DataType::kFloat || t == DataType::kDouble || t == DataType::kHalf || t == DataType::kBFloat16,
                  "an epilogue needs fp32, fp64, fp16 or bf16 output");
  POLYMIO_REQUIRE(!p.epilogue.norm, "takes a batch norm as scale and bias only");
  POLYMIO_REQUIRE(p.epilogue.activation >= 0 && p.epilogue.activation < kernels::kActivationModes,
                  "the activation is unknown");
  return {};
}

kernels::Epilogue epilogue_job(const Problem& p, const Problem::Args& a) {
  kernels::Epilogue e;
  e.y.dtype = p.y.type;
  e.scale = p.epilogue.scale ? a.scale : nullptr;
  e.bias = p.epilogue.bias ? a.bias : nullptr;
  e.residual = p.epilogue.residual ? a.residual : nullptr;
  e.residual_alpha = a.residual_alpha;
  e.mode = p.epilogue.activation;
  e.alpha = a.activation_alpha;
  e.beta = a.activation_beta;
  e.gamma = a.activation_gamma;
  return e;
}

double combine(const Problem& p, const Problem::Args& a, double v, std::int64_t channel, std::int64_t offset) {
  if (p.epilogue.scale) v *= dtype::load(p.parameter_type(), a.scale, channel);
  if (p.epilogue.bias) v += dtype::load(p.epilogue.scale ? p.parameter_type() : p.y.type, a.bias, channel);
  if (p.epilogue.residual) v += a.residual_alpha * dtype::load(p.y.type, a.residual, offset);
  return v;
}

double activate(const kernels::ActivationKernels& kernels, const Problem& p, const Problem::Args& a, double v) {
  kernels::Activation job;
  job.type = DataType::kDouble;
  job.mode = p.epilogue.activation;
  const auto rounded = [&](double parameter) {
    return p.y.type == DataType::kDouble ? parameter : static_cast<float>(parameter);
  };
  job.alpha = rounded(a.activation_alpha);
  job.beta = rounded(a.activation_beta);
  job.gamma = rounded(a.activation_gamma);
  job.x = job.result = &v;
  kernels.run(job, 0, 1);
  return v;
}

Solver<Problem>::Invoker epilogue_pass(Stream& stream, const Problem& p) {
  const kernels::Epilogue y = matrix_of(p);
  const Extent all{y.y.rows.size(), y.y.columns.size()};
  const std::int64_t columns = std::min(all.columns, kTaskElements);
  const Extent task{std::clamp<std::int64_t>(kTaskElements / columns, 1, all.rows), columns};
  const std::int64_t across = (all.columns + task.columns - 1) / task.columns;
  const std::int64_t tasks = (all.rows + task.rows - 1) / task.rows * across;
  const auto& kernels = kernels::kernels_of<kernels::EpilogueKernels>(stream.info().isa);
  return [p, y, all, task, across, tasks, &kernels](Stream& on, const Problem::Args& a) {
    kernels::Epilogue e = epilogue_job(p, a);
    e.y = y.y;
    e.y.data = a.y;
    e.channels_are_rows = y.channels_are_rows;
    on.parallel_for(static_cast<std::size_t>(tasks), 0, [&](std::size_t i, void*) {
      const std::int64_t m = static_cast<std::int64_t>(i) / across * task.rows;
      const std::int64_t n = static_cast<std::int64_t>(i) % across * task.columns;
      kernels.run(e, m, std::min(m + task.rows, all.rows), n, std::min(n + task.columns, all.columns));
    });
  };
}

double epilogue_us(const DeviceInfo& device, const Problem& p) {
  return 2.0 * static_cast<double>(p.y.bytes()) / std::max(device.bandwidth_gbs, 1.0) * 1e-3 + 2.0;
}

}  // namespace polymio::convolution
