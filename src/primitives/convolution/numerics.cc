// SPDX-License-Identifier: MIT
#include "primitives/convolution/numerics.h"

#include <vector>

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "primitives/tensor_ops/tensor_ops.h"

namespace polymio::convolution {
namespace {

// Bits of MIOPEN_CHECK_NUMERICS; 8 (abort) is not honoured: this library never ends a process.
constexpr int kInfo = 1, kWarn = 2, kThrow = 4, kStatistics = 16;

int checks() {
  static const int bits = static_cast<int>(env::integer(env::kCheckNumerics, 0, 31).value_or(0));
  return bits;
}

void check(Stream& stream, const Problem& p, const TensorDesc& desc, const void* data, const char* role) {
  std::vector<unsigned char> copy;
  if (stream.info().kind != DeviceKind::kCpu) {
    copy.resize(desc.bytes());
    stream.download(copy.data(), data, copy.size());
    data = copy.data();
  }
  const auto n = tensor_ops::scan(stream, desc, data);
  const int bits = checks();
  if (bits & kStatistics)
    log::write("numerics",
               fmt::format("{}: {} of {}: mean {:g}, mean of absolutes {:g}, least {:g}, most {:g}, "
                           "{} zeros of {}",
                           role, name_of(desc.type), p.key(), n.mean, n.mean_abs, n.least, n.most, n.zeros, n.count));
  const bool bad = n.nan > 0 || n.infinite > 0;
  const std::string found =
      fmt::format("{} has {} NaN and {} infinite of {} values, in: {}", role, n.nan, n.infinite, n.count, p.key());
  if (bits & kInfo) log::write("numerics", found);
  if (bad && (bits & kWarn)) log::write("warning", found);
  if (bad && (bits & kThrow)) fail(Status::kInternalError, "MIOPEN_CHECK_NUMERICS: {}", found);
}

}  // namespace

polymio::Plan check_numerics(polymio::Plan plan, const Problem& problem) {
  if (checks() == 0) return plan;
  plan.invoke = [invoke = std::move(plan.invoke), p = problem](Stream& stream, const void* untyped) {
    const auto& args = *static_cast<const Problem::Args*>(untyped);
    const bool weights = p.direction == Direction::kBackwardWeights, data = p.direction == Direction::kBackwardData;
    if (!data) check(stream, p, p.x, args.x, "the input x");
    if (!weights) check(stream, p, p.w, args.w, "the input w");
    if (weights || data) check(stream, p, p.y, args.y, "the input dy");
    invoke(stream, untyped);
    if (data) {
      check(stream, p, p.x, args.x, "the output dx");
    } else if (weights) {
      check(stream, p, p.w, args.w, "the output dw");
    } else {
      check(stream, p, p.y, args.y, "the output y");
    }
  };
  return plan;
}

}  // namespace polymio::convolution
