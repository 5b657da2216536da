// Dropout on the CPU. A task draws the numbers of neighbouring generators, a step of all of them at once, and applies
// the mask while it is in the cache.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstring>

#include "base/math.h"
#include "kernels/cpu/kernels_of.h"
#include "primitives/common/caches.h"
#include "primitives/common/map.h"
#include "primitives/dropout/job.h"

namespace polymio::dropout {
namespace {

constexpr std::int64_t kGenerators = 256;       // fewest per task
constexpr std::int64_t kMostGenerators = 2048;  // per task: their states stay in the L2 cache
constexpr std::size_t kNumbers = kStateBytes / sizeof(std::uint32_t);

common::Operands operands_of(const Job& job) {
  const std::size_t size = size_of(job.type);
  common::Operands operands;
  operands.push(job.y, size);
  operands.push(job.x, size);
  operands.push(job.choice.mask, 1);
  return operands;
}

/// Draws the mask of every element and calls body(first element, n, mask) with parts of it.
template <class Body>
void draw_mask(Stream& stream, const kernels::DropoutKernels& kernels, const Job& job, const Body& body) {
  struct Scratch {
    std::uint32_t states[kNumbers][kMostGenerators];
    std::uint8_t mask[kMostGenerators];
  };
  const Choice& c = job.choice;
  const std::int64_t count = job.count(), slots = slots_for(count);
  // Long rows of neighbours are quicker to load, short ones balance the threads.
  const std::int64_t share = slots / (2 * std::int64_t{stream.threads()}) / kGenerators * kGenerators;
  const std::int64_t generators = std::clamp(share, kGenerators, kMostGenerators);
  const auto tasks = static_cast<std::size_t>(ceil_div(slots, generators));
  stream.parallel_for(tasks, sizeof(Scratch), [&](std::size_t i, void* memory) {
    auto& scratch = *static_cast<Scratch*>(memory);
    const std::int64_t first = static_cast<std::int64_t>(i) * generators;
    const std::int64_t mine = std::min(generators, slots - first);
    auto* const states = static_cast<char*>(c.states) + static_cast<std::size_t>(first) * kStateBytes;
    // The memory of the states need not be aligned.
    const auto each = [&](std::int64_t begin, std::int64_t end, const auto& copy) {
      for (std::int64_t s = begin; s < end; ++s)
        for (std::size_t k = 0; k < kNumbers; ++k)
          copy(scratch.states[k] + s, states + static_cast<std::size_t>(s) * kStateBytes + k * sizeof(std::uint32_t));
    };
    const auto write_back = [&](std::int64_t begin, std::int64_t end) {
      if (c.advances)
        each(begin, end, [](const void* from, void* to) { std::memcpy(to, from, sizeof(std::uint32_t)); });
    };
    each(0, mine, [](void* to, const void* from) { std::memcpy(to, from, sizeof(std::uint32_t)); });
    std::int64_t n = mine;
    for (std::int64_t e = first; e < count; e += slots) {
      n = std::min(mine, count - e);
      write_back(n, mine);  // those that do not take part in the last step
      std::uint8_t* const mask = c.mask ? c.mask + e : scratch.mask;
      kernels.draw(job.draws, scratch.states[0], kMostGenerators, n, mask);
      body(e, n, mask);
    }
    write_back(0, n);
  });
}

}  // namespace

void run_on_cpu(Stream& stream, const Job& job) {
  const auto& kernels = kernels::kernels_of<kernels::DropoutKernels>(stream.info().isa);
  const double bytes = 2.0 * static_cast<double>(job.count()) * static_cast<double>(size_of(job.type));
  const bool exceeds_caches = common::exceeds_caches(stream.info(), bytes);
  const common::Operands operands = operands_of(job);
  // Elements in the order of their numbers are not always near each other in memory: then the mask is drawn first.
  const bool fused = !job.choice.mask || job.ordered.contiguous();
  if (!job.choice.stored) {
    const common::Runs runs(job.ordered, operands, common::RunShape::kOneRow, 0, 2);
    draw_mask(stream, kernels, job, [&](std::int64_t first, std::int64_t n, const std::uint8_t* mask) {
      if (!fused) return;
      runs.each(first, first + n, [&](const kernels::Run& run) {
        kernels::Run part = run;
        part.in[1] = mask;
        mask += run.n;
        kernels.apply(job.type, job.scale, false, part);
      });
    });
    if (fused) return;
  }
  common::map(stream, Tiles(job.all), operands,
              [&](const kernels::Run& run) { kernels.apply(job.type, job.scale, exceeds_caches, run); });
}

}  // namespace polymio::dropout
