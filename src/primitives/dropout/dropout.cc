// SPDX-License-Identifier: MIT
#include "primitives/dropout/dropout.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/math.h"
#include "core/aligned_buffer.h"
#include "core/problem_text.h"
#include "core/tensor_checks.h"
#include "primitives/dropout/job.h"

namespace polymio::dropout {
namespace {

constexpr std::int64_t kBlock = 256, kMostBlocks = 64;  // of MIOpen's launch, which defines the slots

/// The numbers v with u(v) > rate in float, u = 2^-32 v + 2^-32: u does not descend.
kernels::Draws draws_of(float rate) {
  const auto keeps = [&](std::uint32_t v) { return static_cast<float>(v) * 0x1p-32f + 0x1p-32f > rate; };
  if (!keeps(UINT32_MAX)) return {0, false};
  std::uint32_t low = 0, high = UINT32_MAX;  // high keeps
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    keeps(middle) ? high = middle : low = middle + 1;
  }
  return {low, true};
}

/// MIOpen's status.
template <class... Args>
void refuse_unless(bool condition, fmt::format_string<Args...> text, Args&&... args) {
  if (!condition) fail(Status::kUnknownError, text, std::forward<Args>(args)...);
}

void check(const Choice& c, const TensorDesc& x, const TensorDesc& y) {
  require_float_tensor(x, "the input", kMaxRank, "dropout functions");
  require_float_tensor(y, "the output", kMaxRank, "dropout functions");
  refuse_unless(x.type == y.type, "the input is {}, the output is {}: their data types must be equal", name_of(x.type),
                name_of(y.type));
  if (x.rank != y.rank || x.lens != y.lens)
    fail(Status::kUnknownError, "the input has sizes {}, the output has {}: they must be equal", sizes_text(x),
         sizes_text(y));
  refuse_unless(c.rate >= 0 && c.rate <= 1, "the dropout rate is {}: it must be from 0 to 1", c.rate);
  refuse_unless(!c.stored || c.mask, "the mask of the reserve space is to be used, but there is no reserve space");
  const std::size_t bytes = c.states ? c.states_bytes : 0;
  const std::size_t needed = static_cast<std::size_t>(slots_for(x.count())) * kStateBytes;
  refuse_unless(c.stored || bytes >= needed,
                "the generators have {} bytes of states, {} elements need {}: see miopenDropoutGetStatesSize", bytes,
                x.count(), needed);
  require_separate(y, "of dropout");
}

}  // namespace

std::int64_t slots_for(std::int64_t count) { return kBlock * std::min(kMostBlocks, ceil_div(count, kBlock)); }

void apply(Stream& stream, const Choice& choice, const TensorDesc& x_desc, const void* x, const TensorDesc& y_desc,
           void* y) {
  check(choice, x_desc, y_desc);
  require_no_overlap(x_desc, x, "the input", y_desc, y);
  const CallerBuffer buffers[] = {{x_desc, x, "the input's buffer"}, {y_desc, y, "the output's buffer", true}};
  if (!are_aligned(buffers))
    return run_on_aligned(stream.info(), buffers,
                          [&](void* const* data) { apply(stream, choice, x_desc, data[0], y_desc, data[1]); });
  const TensorDesc mask = make_tensor(DataType::kInt8, x_desc.sizes(), {});
  const TensorDesc* const operands[] = {&y_desc, &x_desc, &mask};
  Loop ordered = make_loop(operands);
  ordered.merge();
  const double kept = x_desc.type == DataType::kDouble ? 1 - double{choice.rate} : double{1 - choice.rate};
  const Job job{
      choice, x_desc.type, draws_of(choice.rate), kept == 0 ? 0 : 1 / kept, ordered, simplified_loop(operands), x, y};
  stream.info().kind == DeviceKind::kCpu ? run_on_cpu(stream, job) : run_on_gpu(stream, job);
}

}  // namespace polymio::dropout
