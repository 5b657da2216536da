// SPDX-License-Identifier: MIT
#include "primitives/common/map.h"

#include <algorithm>

#include "base/math.h"

namespace polymio::common {
namespace {

constexpr std::int64_t kTasksPerThread = 4;  // balances threads of unequal speed

}  // namespace

void split(Stream& stream, const Loop& loop, std::int64_t task_elements,
           FunctionRef<void(std::int64_t, std::int64_t)> body) {
  const std::int64_t count = loop.count();
  const std::int64_t most = loop.separate ? kTasksPerThread * stream.threads() : 1;
  const std::int64_t tasks = std::clamp<std::int64_t>(count / task_elements, 1, most);
  for_ranges(stream, count, round_up(ceil_div(count, tasks), kBlock), body);
}

void gather_all(Stream& stream, const Loop& loop, std::size_t operand, std::size_t size, const void* data,
                void* dense) {
  constexpr std::int64_t kTask = 1 << 13;
  for_ranges(stream, loop.count(), kTask, [&](std::int64_t first, std::int64_t end) {
    gather(loop, operand, size, data, Cursor(loop, first), end - first,
           static_cast<unsigned char*>(dense) + first * static_cast<std::int64_t>(size));
  });
}

void map(Stream& stream, const Tiles& tiles, const Operands& operands, FunctionRef<void(const kernels::Run&)> kernel,
         std::int64_t task_elements, RunShape shape) {
  const auto run_loop = [&](const Loop& loop) {
    const Runs runs(loop, operands, shape);
    split(stream, loop, task_elements, [&](std::int64_t begin, std::int64_t end) { runs.each(begin, end, kernel); });
  };
  run_loop(tiles.main);
  if (tiles.rest) run_loop(*tiles.rest);
}

}  // namespace polymio::common
