// PoolCpuReference: the definition of every element in double, any strides; simple and slow.
// SPDX-License-Identifier: MIT
#include <cstring>
#include <memory>

#include "core/loop.h"
#include "primitives/pooling/solvers.h"

namespace polymio::pooling {
namespace {

constexpr std::int64_t kPart = 256;

class CpuReference final : public Solver<Problem> {
 public:
  CpuReference(const SolverInfo& info, Direction d) : Solver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo&, const Problem& p) const override {
    POLYMIO_REQUIRE(p.direction == direction_, "computes another direction");
    return {};
  }
  ErrorClass error_class(const Problem&) const override { return ErrorClass::kExact; }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    return 0.05 * static_cast<double>(p.output().count()) * static_cast<double>(p.window.volume()) / d.threads + 1;
  }

  Invoker build(Stream&, const Problem& p, const TunePoint&) const override {
    return [p](Stream& stream, const Args& args) {
      const std::size_t size = size_of(p.index);
      auto* const indices = static_cast<char*>(args.index);
      const Definition definition(p, args);
      const kernels::WindowStrides out = strides_of(p.output()), index_at = strides_of(index_tensor(p.y));
      for_ranges(stream, p.output().count(), kPart, [&](std::int64_t first, std::int64_t end) {
        for (std::int64_t i = first; i < end; ++i) {
          const Coordinates at(p.output(), i);
          std::uint64_t found = 0;
          const double value = (p.forward() ? definition.forward(at, found) : definition.backward(at)).value;
          const std::int64_t offset = offset_of(out, at);
          const double kept = args.keep == 0 ? 0 : args.keep * dtype::load(p.x.type, args.result, offset);
          dtype::store(p.x.type, args.result, offset, args.scale * value + kept);
          if (p.forward() && size > 0)
            std::memcpy(indices + offset_of(index_at, at) * static_cast<std::int64_t>(size), &found, size);
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

}  // namespace polymio::pooling
