// Dropout on GPUs: a pass that draws, or a map that reads the mask. A program serves every shape.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <array>
#include <iterator>

#include "base/error.h"
#include "core/kernel_builder.h"
#include "primitives/common/gpu/arguments.h"
#include "primitives/common/gpu/skeletons.h"
#include "primitives/dropout/job.h"

namespace polymio::dropout {
namespace {

using gpu_skeletons::kMapEntries;
using gpu_skeletons::value_argument;
using kernels::Sides;

constexpr std::int64_t kGenerators = 128, kThreads = 256;  // of a block, as in draw.cl

/// Formulas of apply.cl and draw.cl.
template <class Real>
struct Apply {
  Real scale;
};
template <class Real>
struct Draw {
  Real scale;
  std::uint32_t least;
  int any, stores, advances, slots;
  std::int64_t count;
};

KernelSpec spec_of(const DeviceInfo& device, DataType type, const char* entry, bool draws) {
  KernelSpec spec{draws ? "primitives/dropout/gpu/draw.cl" : "primitives/dropout/gpu/apply.cl", entry, {}};
  spec.options = {fmt::format("-DIN={}", draws ? polymio::name_of(type) : "int8"),
                  fmt::format("-DOUT={}", polymio::name_of(type)),
                  fmt::format("-DNUM={}", type == DataType::kDouble ? "double" : "float")};
  if (device.gpu.fp64) spec.options.emplace_back("-DFP64");
  return spec;
}

SharedKernels& shared = *new SharedKernels;

const Kernel& kernel(Stream& stream, DataType type, const char* entry, bool draws, std::uint64_t number) {
  return shared.get(stream, static_cast<std::uint64_t>(type) * 8 + number,
                    [&] { return spec_of(stream.info(), type, entry, draws); });
}

template <class Real>
void apply_mask(Stream& stream, const Job& job) {
  const std::size_t size = size_of(job.type);
  const auto nest = gpu_skeletons::nest_of(job.all, 2, {2, 1, 0});
  const Sides sides{{{job.choice.mask, 1}, {job.x, size}, {job.y, size}}};
  const auto plan = gpu_skeletons::plan_map(nest, sides);
  const auto entry = static_cast<std::size_t>(plan.entry);
  const Apply<Real> formula{static_cast<Real>(job.scale)};
  gpu_skeletons::launch_map(stream, kernel(stream, job.type, kMapEntries[entry], false, 1 + entry), plan, sides,
                            value_argument(formula));
}

template <class Real>
void draw(Stream& stream, const Job& job) {
  const Choice& c = job.choice;
  const std::int64_t count = job.count(), slots = slots_for(count);
  kernels::Nest nest = gpu_skeletons::nest_of(job.ordered, 1, {1, 0});
  if (nest.rank > 1 && count > kernels::kMaxPartUnits)
    fail(Status::kNotImplemented, "dropout of {} elements on {}: tensors with gaps have at most {}", count,
         stream.info().name, kernels::kMaxPartUnits);
  const std::size_t size = size_of(job.type);
  const Sides sides{{{job.x, size}, {job.y, size}}};
  const Buffer states(c.states), mask(c.mask ? c.mask : job.y);  // not every driver accepts null
  const Draw<Real> formula{static_cast<Real>(job.scale),
                           job.draws.least,
                           job.draws.any ? 1 : 0,
                           c.mask ? 1 : 0,
                           c.advances ? 1 : 0,
                           static_cast<int>(slots),
                           count};
  const Argument added[] = {{Argument::Kind::kBuffer, &states, sizeof states},
                            {Argument::Kind::kBuffer, &mask, sizeof mask},
                            value_argument(formula)};
  const gpu_skeletons::Arguments arguments(nest, sides, added);
  stream.launch(kernel(stream, job.type, "draw", true, 0), launch_shape(kThreads, slots / kGenerators),
                arguments.list());
}

}  // namespace

void run_on_gpu(Stream& stream, const Job& job) {
  const bool wide = job.type == DataType::kDouble;
  if (wide && !stream.info().gpu.fp64)
    fail(Status::kNotImplemented, "{} has no double-precision arithmetic, which fp64 needs", stream.info().name);
  stream.check_memory(job.x, "the input's buffer");
  stream.check_memory(job.y, "the output's buffer");
  if (job.choice.stored) return wide ? apply_mask<double>(stream, job) : apply_mask<float>(stream, job);
  wide ? draw<double>(stream, job) : draw<float>(stream, job);
}

std::vector<KernelSpec> programs(const DeviceInfo& device, DataType type) {
  std::vector<KernelSpec> all = {spec_of(device, type, "draw", true)};
  for (const char* entry : kMapEntries) all.push_back(spec_of(device, type, entry, false));
  return all;
}

}  // namespace polymio::dropout
