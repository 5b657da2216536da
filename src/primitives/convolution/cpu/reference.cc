// ConvCpuReference: the definition of convolution, one output element at a time, threaded over outputs.
// Any data type, layout, strides, groups, scalars and 1 to 3 spatial dimensions; integers accumulate in
// int64, everything else in double, rounded once.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <memory>
#include <type_traits>

#include "kernels/cpu/activation.h"
#include "kernels/cpu/kernels_of.h"
#include "primitives/convolution/cpu/cost.h"
#include "primitives/convolution/cpu/epilogue.h"
#include "primitives/convolution/cpu/problem_shape.h"
#include "primitives/convolution/definition.h"
#include "primitives/convolution/convolution.h"

namespace polymio::convolution {
namespace {

/// One run: the problem, its output elements and the readers of both inputs.
struct Job {
  const Problem& p;
  const Points points;
  const Problem::Args& args;
  const kernels::ActivationKernels& activation;
  const Reader a, b;

  Job(const Problem& problem, const Problem::Args& arguments, const kernels::ActivationKernels& kernels)
      : p(problem),
        points(problem),
        args(arguments),
        activation(kernels),
        a(first_reader(problem, arguments)),
        b(second_reader(problem, arguments)) {}

  template <class Acc>
  static Acc sum(const Walk& walk, const auto& read_a, const auto& read_b) {
    Acc total = 0;
    walk.each(
        [&](std::int64_t i, std::int64_t j) { total += static_cast<Acc>(read_a(i)) * static_cast<Acc>(read_b(j)); });
    return total;
  }

  /// Elements that are read without a switch.
  template <class Acc, class Element>
  Acc sum_of(const Walk& walk) const {
    const auto value = [](const void* data, std::int64_t i) {
      const auto v = dtype::read<Element>(data, i);
      if constexpr (std::is_arithmetic_v<Element>)
        return v;
      else
        return dtype::to_float(v);
    };
    return sum<Acc>(
        walk, [&](std::int64_t i) { return value(a.data, i); }, [&](std::int64_t i) { return value(b.data, i); });
  }

  template <class Acc>
  Acc element(const Position& at) const {
    const Walk walk = points.walk(at);
    if (a.desc.type != b.desc.type || a.desc.has_cast() || b.desc.has_cast()) return sum<Acc>(walk, a, b);
    switch (a.desc.type) {
      case DataType::kFloat: return sum_of<Acc, float>(walk);
      case DataType::kHalf: return sum_of<Acc, dtype::Half>(walk);
      case DataType::kBFloat16: return sum_of<Acc, dtype::BFloat16>(walk);
      case DataType::kDouble: return sum_of<Acc, double>(walk);
      case DataType::kInt8: return sum_of<Acc, std::int8_t>(walk);
      default: return sum<Acc>(walk, a, b);
    }
  }

  /// One row of the output: the elements (i0, i1, s0, s1, *).
  template <class Acc>
  void row(std::int64_t index) const {
    const auto& size = points.sizes();
    Position at{};
    at.s[1] = index % size[3];
    index /= size[3];
    at.s[0] = index % size[2];
    index /= size[2];
    at.i[1] = index % size[1];
    at.i[0] = index / size[1];
    const DataType type = p.output().type;
    void* out = output_of(p, args);
    const bool stochastic = p.rounding == Rounding::kStochastic && is_fp8(type);
    std::int64_t offset = points.offset(at);
    for (; at.s[2] < size[4]; ++at.s[2], offset += points.last_stride()) {
      double v = args.alpha * static_cast<double>(element<Acc>(at));
      if (args.beta != 0) v += args.beta * dtype::load(type, out, offset);
      if (!p.epilogue.empty()) v = activate(activation, p, args, combine(p, args, v, at.i[1], offset));
      dtype::store(type, out, offset, v, stochastic ? dither(args.seed, static_cast<std::uint64_t>(offset)) : -1);
    }
  }
};

/// Rows per task: about 16 tasks per thread, of at least about 16,000 multiply-adds each.
std::int64_t rows_per_task(const Problem& p, std::int64_t rows, int threads) {
  const double row_products = p.flops() / 2 / static_cast<double>(rows);
  return std::max<std::int64_t>(
      {1, rows / (16 * threads), static_cast<std::int64_t>(16000 / std::max(row_products, 1.0))});
}

class CpuReference final : public Solver<Problem> {
 public:
  CpuReference(const SolverInfo& info, Direction d) : Solver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo&, const Problem& p) const override {
    POLYMIO_REQUIRE(p.direction == direction_, "computes another direction");
    return check_epilogue(p);
  }

  ErrorClass error_class(const Problem&) const override { return ErrorClass::kExact; }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    // Per output, per run of products, per product, which reads both elements through a switch by type: an upper bound
    // for the usual types. Fitted; machine and command were not recorded.
    constexpr double kOutputCycles = 95, kPairsCycles = 15, kPairCycles = 7;
    const TensorDesc& o = p.output();
    const auto last = static_cast<std::size_t>(o.rank - 1);
    const bool weights = p.direction == Direction::kBackwardWeights;
    const double elements = static_cast<double>(o.count()), pairs = p.flops() / 2;
    const auto line = static_cast<double>(weights ? p.y.lens[last] : p.w.lens[last]);
    const std::int64_t rows = o.count() / o.lens[last];
    Work work;
    work.cycles = elements * kOutputCycles + pairs / line * kPairsCycles + pairs * kPairCycles;
    work.pieces = std::ceil(static_cast<double>(rows) / static_cast<double>(rows_per_task(p, rows, d.threads)));
    work.largest = work.cycles / work.pieces;
    return Machine(d).loop_us(work, 0);
  }

  Invoker build(Stream&, const Problem& p, const TunePoint&) const override {
    return [p](Stream& stream, const Args& args) {
      const Job job(p, args, kernels::kernels_of<kernels::ActivationKernels>(stream.info().isa));
      const TensorDesc& o = p.output();
      const std::int64_t rows = o.count() / o.lens[static_cast<std::size_t>(o.rank - 1)];
      const bool integer = p.first_input().type == DataType::kInt8;
      const std::int64_t chunk = rows_per_task(p, rows, stream.threads());
      stream.parallel_for(static_cast<std::size_t>((rows + chunk - 1) / chunk), 0, [&](std::size_t t, void*) {
        const std::int64_t first = static_cast<std::int64_t>(t) * chunk;
        for (std::int64_t r = first; r < std::min(rows, first + chunk); ++r)
          integer ? job.row<std::int64_t>(r) : job.row<double>(r);
      });
    };
  }

 private:
  Direction direction_;
};

}  // namespace

std::unique_ptr<const SolverBase> cpu_reference(const SolverInfo& info, Direction d) {
  return std::make_unique<CpuReference>(info, d);
}

}  // namespace polymio::convolution
