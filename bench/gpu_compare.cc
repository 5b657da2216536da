// SPDX-License-Identifier: MIT
#include "bench/gpu_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "core/kernel_builder.h"
#include "primitives/tensor_ops/tensor_ops.h"
#include "reference/tolerance.h"

namespace polymio {
namespace {

using convolution::Direction;
using convolution::Problem;

constexpr std::int64_t kThreads = 256, kBlocks = 512;

/// Each thread leaves the largest ratio of error to bound, its place, and the sums of squares of errors and results.
/// `want` is NaN in gaps and infinite where the result is not known.
constexpr const char* kCompare = R"kernel(
KERNEL THREADS_PER_BLOCK(256)
    compare(GLOBAL const STORED(OUT) * got, GLOBAL const float* want, GLOBAL float* floats, GLOBAL i64* places, i64 count,
            float bound, float rounding, float smallest) {
  const i64 thread = (i64)BLOCK(0) * 256 + THREAD(0), threads = (i64)BLOCKS(0) * 256;
  const float most = 3e38f, failed = 1e30f;
  float worst = 0, error2 = 0, want2 = 0;
  i64 place = -1;
  for (i64 i = thread; i < count; i += threads) {
    const float v = LOAD(OUT, got, i), w = want[i];
    float ratio;
    if (w != w) {
      ratio = v == v ? failed : 0;
    } else if (!(v > -most && v < most)) {
      ratio = failed;
    } else if (w > most) {
      ratio = 0;
    } else {
      const float error = v < w ? w - v : v - w, size = w < 0 ? -w : w;
      ratio = error / (bound + rounding * (size + bound) + smallest);
      error2 += error * error;
      want2 += w * w;
    }
    if (!(ratio <= worst)) {
      worst = ratio;
      place = i;
    }
  }
  floats[3 * thread] = worst;
  floats[3 * thread + 1] = error2;
  floats[3 * thread + 2] = want2;
  places[thread] = place;
}
)kernel";

std::shared_ptr<const Kernel> compare_kernel(Stream& stream, DataType out) {
  static std::map<std::pair<const void*, DataType>, std::shared_ptr<const Kernel>> made;
  auto& kernel = made[{stream.context(), out}];
  if (kernel) return kernel;
  std::string log;
  const std::string source =
      kernel_source("kernels/gpu/portable/portable.h") + kernel_source("kernels/gpu/portable/float8.h") + kCompare;
  const auto module = stream.load(stream.compiler().compile(source, {fmt::format("-DOUT={}", name_of(out))}, log));
  if (!module) fail(Status::kInternalError, "{} does not take the comparison's program", stream.info().name);
  return kernel = module->kernel("compare");
}

TensorDesc& output_of(Problem& p) {
  return p.direction == Direction::kForward ? p.y : p.direction == Direction::kBackwardData ? p.x : p.w;
}
void*& output_of(Direction d, Problem::Args& a) {
  return d == Direction::kForward ? a.y : d == Direction::kBackwardData ? a.x : a.w;
}

/// The reference of the problem with a result in fp32.
const SolverBase& reference_for(const DeviceInfo& device, const Problem& p) {
  for (const SolverBase* s : convolution::solvers(p.direction, device.kind))
    if (s->info().reference && s->is_applicable(device, p)) return *s;
  fail(Status::kNotImplemented, "no reference kernel for {}", p.key());
}

/// All elements of the memory of a tensor, gaps included.
TensorDesc memory_of(const TensorDesc& t, DataType type) { return make_tensor(type, std::array{t.space()}, {}); }

TensorDesc as_floats(TensorDesc t) {
  t.type = t.cast = DataType::kFloat;
  return t;
}

Problem with_floats(Problem p) {
  output_of(p) = as_floats(p.output());
  return p;
}

/// Products per element of the output, taps in the padding included.
std::int64_t reduction_length(const Problem& p) {
  if (p.direction == Direction::kBackwardWeights) return p.y.count() / p.k();
  return p.w.count() / (p.direction == Direction::kForward ? p.k() : p.c());
}

void fill(Stream& stream, const TensorDesc& t, void* data, float value) {
  unsigned char bytes[sizeof(double)];
  dtype::store(t.type, bytes, 0, static_cast<double>(value));
  tensor_ops::set(stream, {t, data}, bytes);
}

/// Restricts a problem without groups to `count` channels of its output from `first` on.
void restrict_channels(Problem& p, Problem::Args& a, std::int64_t first, std::int64_t count) {
  const auto narrow = [&](TensorDesc& t, void*& data, std::size_t axis) {
    t.lens[axis] = count;
    data = static_cast<char*>(data) + first * t.strides[axis] * static_cast<std::int64_t>(size_of(t.type));
  };
  const bool data = p.direction == Direction::kBackwardData;
  narrow(p.w, a.w, data ? 1 : 0);
  narrow(data ? p.x : p.y, data ? a.x : a.y, 1);
}

}  // namespace

Expected::Expected(Handle& handle, const Problem& problem, const Problem::Args& inputs, double most_flops,
                   std::uint64_t seed)
    : handle_(handle),
      problem_(problem),
      want_(handle, as_floats(problem.output()).bytes()),
      floats_(handle, 3 * kThreads * kBlocks * sizeof(float)),
      places_(handle, kThreads * kBlocks * sizeof(std::int64_t)),
      kernel_(compare_kernel(handle.stream(), problem.output().type)) {
  Stream& stream = handle.stream();
  Problem p = with_floats(problem);
  fill(stream, memory_of(p.output(), DataType::kFloat), want_.data(), NAN);
  fill(stream, p.output(), want_.data(), INFINITY);
  Problem::Args args = inputs;
  output_of(p.direction, args) = want_.data();
  const std::int64_t channels = p.direction == Direction::kBackwardData ? p.c() : p.k();
  const auto some = static_cast<std::int64_t>(static_cast<double>(channels) * most_flops / p.flops());
  if (p.groups() == 1 && some < channels) {
    const std::int64_t count = std::max<std::int64_t>(some, 1);
    const auto first =
        static_cast<std::int64_t>(mix(seed, p.hash()) % static_cast<std::uint64_t>(channels - count + 1));
    restrict_channels(p, args, first, count);
    share_ = static_cast<double>(count) / static_cast<double>(channels);
  }
  reference_for(stream.info(), p).build(stream, p, {})(stream, &args);
  stream.synchronize();
}

std::vector<KernelSpec> Expected::programs(const DeviceInfo& device, const Problem& p) {
  return reference_for(device, with_floats(p)).kernel_specs(device, with_floats(p), {});
}

void Expected::poison(void* output) const {
  fill(handle_.stream(), memory_of(problem_.output(), problem_.output().type), output, NAN);
}

double Expected::element_bound(ErrorClass error) const {
  reference::Arithmetic how;
  how.reduction_length = reduction_length(problem_);
  if (error == ErrorClass::kReduced) how.input_rounding = 0x1p-10;
  if (error == ErrorClass::kApproximate) how.growth = 2;
  // Absolute products of uniform values have the mean 1/4 and the deviation 0.22: their sum exceeds this by 9 of its
  // own deviations.
  const auto n = static_cast<double>(how.reduction_length);
  return reference::error_bound(how, std::min(n, n / 4 + 2 * std::sqrt(n)));
}

Expected::Difference Expected::compare(const SolverBase& solver, const void* output) const {
  Stream& stream = handle_.stream();
  const TensorDesc& out = problem_.output();
  const ErrorClass error = solver.error_class(problem_);
  const double bound = element_bound(error);
  // Half of the distance of neighbours, relative and smallest; the norm that rounding alone stays well below.
  const auto [rounding, smallest, most_norm] = [&] {
    switch (out.type) {
      case DataType::kHalf: return std::array{0x1p-11, 0x1p-25, 2e-3};
      case DataType::kBFloat16: return std::array{0x1p-8, 0x1p-134, 1e-2};
      case DataType::kFloat8E4m3fn: return std::array{0x1p-4, 0x1p-10, 4e-2};
      case DataType::kFloat8E5m2: return std::array{0x1p-3, 0x1p-17, 8e-2};
      default: return std::array{0x1p-23, 0x1p-140, 2e-5};
    }
  }();
  const std::int64_t blocks = std::clamp<std::int64_t>((out.space() + kThreads - 1) / kThreads, 1, kBlocks);
  launch(stream, *kernel_, launch_shape(kThreads, blocks), Buffer(output), Buffer(want_.data()), Buffer(floats_.data()),
         Buffer(places_.data()), out.space(), static_cast<float>(bound), static_cast<float>(rounding),
         static_cast<float>(smallest));
  std::vector<float> floats(static_cast<std::size_t>(3 * kThreads * blocks));
  std::vector<std::int64_t> places(floats.size() / 3);
  stream.download(floats.data(), floats_.data(), floats.size() * sizeof(float));
  stream.download(places.data(), places_.data(), places.size() * sizeof(std::int64_t));
  Difference found;
  double error2 = 0, want2 = 0;
  std::size_t worst = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (floats[3 * i] > floats[3 * worst]) worst = i;
    error2 += static_cast<double>(floats[3 * i + 1]);
    want2 += static_cast<double>(floats[3 * i + 2]);
  }
  found.ratio = static_cast<double>(floats[3 * worst]);
  found.norm = want2 > 0 ? std::sqrt(error2 / want2) : 0;
  const double norm_limit = error == ErrorClass::kReduced       ? std::max(most_norm, 4e-3)
                            : error == ErrorClass::kApproximate ? std::max(most_norm, 4e-4)
                                                                : most_norm;
  found.wrong = !(found.ratio <= 1) || !(found.norm <= norm_limit);
  if (!found.wrong) return found;
  const std::int64_t at = places[worst];
  double got = 0;
  float want = 0;
  if (at >= 0) {
    const auto offset = static_cast<std::size_t>(at);
    stream.download(&got, {output, offset * size_of(out.type)}, size_of(out.type));
    stream.download(&want, {want_.data(), offset * sizeof want}, sizeof want);
    got = dtype::load(out.type, &got, 0);
  }
  found.text = fmt::format(
      "the element at offset {} is {:.6g}, should be {:.6g} +- {:.2g}; the norm of the error is "
      "{:.1e}, at most {:.1e} is right",
      at, got, static_cast<double>(want), bound, found.norm, norm_limit);
  return found;
}

}  // namespace polymio
