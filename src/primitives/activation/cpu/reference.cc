// ActivCpuReference: one element at a time in double, any strides; simple and slow.
// SPDX-License-Identifier: MIT
#include <memory>

#include "primitives/activation/scalar.h"
#include "primitives/activation/solvers.h"

namespace polymio::activation {
namespace {

constexpr std::int64_t kPart = 4096;

double element(const Problem& p, const Problem::Args& args, const Cursor& at) {
  const DataType t = p.x.type;
  const double x = dtype::load(t, args.x, at.offset(1));
  if (p.forward()) return value_at(p.mode, args.parameters, x);
  const double dy = dtype::load(t, args.dy, at.offset(2));
  return args.x_is_y ? gradient_from_y(p.mode, args.parameters, x, dy) : gradient_at(p.mode, args.parameters, x, dy);
}

class CpuReference final : public Solver<Problem> {
 public:
  CpuReference(const SolverInfo& info, Direction d) : Solver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo&, const Problem& p) const override {
    POLYMIO_REQUIRE(p.direction == direction_, "computes another direction");
    return {};
  }
  ErrorClass error_class(const Problem&) const override { return ErrorClass::kExact; }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    return 0.03 * static_cast<double>(p.count()) / d.threads + 1;
  }

  Invoker build(Stream&, const Problem& p, const TunePoint&) const override {
    return [p, loop = loop_of(p)](Stream& stream, const Args& args) {
      const DataType t = p.x.type;
      for_ranges(stream, loop.count(), kPart, [&](std::int64_t first, std::int64_t end) {
        Cursor at(loop, first);
        for (std::int64_t i = first; i < end; ++i, at.advance(1)) {
          double v = args.scale * element(p, args, at);
          if (args.keep != 0) v += args.keep * dtype::load(t, args.result, at.offset(0));
          dtype::store(t, args.result, at.offset(0), v);
        }
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

}  // namespace polymio::activation
