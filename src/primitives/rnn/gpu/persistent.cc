// SPDX-License-Identifier: MIT
#include "primitives/rnn/gpu/persistent.h"

#include <algorithm>
#include <limits>

#include "base/math.h"
#include "primitives/rnn/gpu/step.h"

namespace polymio::rnn {
namespace {

constexpr int kWarps = 8, kThreads = 32 * kWarps;  // as in persistent.cl
constexpr int kRows[] = {8, 16, 32, 64};

/// Local memory that a block may have, by the compute capabilities of NVIDIA's table of technical specifications.
std::size_t most_local_bytes(const DeviceInfo& d) {
  const int capability = d.gpu.compute_capability;
  if (capability == 90 || (capability >= 100 && capability < 120)) return 227u << 10;
  if (capability == 80 || capability == 87) return 163u << 10;
  if (capability > 80) return 99u << 10;
  return d.gpu.shared_bytes;
}

/// More take a product and a kernel of cells at each step.
std::int64_t most_samples(const DeviceInfo& d) { return d.kind == DeviceKind::kOpenCl ? 64 : 128; }

int units_of_group(const Persistent& p, const Network& n) { return p.backward || n.gates() == 1 ? p.rows : p.rows / 4; }

std::size_t local_bytes(const Persistent& p, const Network& n, std::int64_t depth, std::int64_t groups) {
  const std::int64_t pitch = depth + (!p.by_matrix_units ? 0 : n.type == DataType::kFloat ? 16 : 8);
  const std::int64_t weights = groups * p.rows * pitch * static_cast<std::int64_t>(size_of(n.type));
  const std::int64_t sums = (p.by_matrix_units ? kWarps * p.rows : kThreads) * (p.samples + 1);
  const std::int64_t chunks = p.by_matrix_units ? 0 : kWarps * std::min(512, 64 * p.samples);
  const std::int64_t values = p.backward ? 0 : p.rows * p.samples;
  return static_cast<std::size_t>(round_up(weights + 4 * (values + std::max(sums, chunks)), 16));
}

/// Microseconds of a step, fitted to an H200: what a block reads, what all blocks read from the second-level cache,
/// products and cells of a pass over samples. A block waits for the others unless it computes other samples meanwhile.
/// Sectors of 32 bytes that several blocks write cost more, the more there are.
double step_us(const Persistent& p, const Network& n, std::int64_t depth, std::int64_t groups, std::int64_t blocks,
               std::int64_t samples) {
  constexpr double kWait = 0.7, kReadRate = 110e3, kCacheRate = 3.8e6, kWeightRate = 224e3, kProductRate = 17e3;
  const auto passes = static_cast<double>(groups * ceil_div(p.row_samples, std::int64_t{p.samples}));
  const auto size = static_cast<double>(size_of(n.type)), d = static_cast<double>(depth);
  const double read = static_cast<double>(std::min<std::int64_t>(p.samples, p.row_samples)) * d * size;
  const double rows_of_blocks = static_cast<double>(ceil_div(samples, p.row_samples));
  const double sums = p.rows * p.samples;
  const double read_weights = p.rows * d * size / kWeightRate;
  const double products = !p.by_matrix_units ? sums * d / kProductRate : size > 2 ? 2 * read_weights : read_weights;
  const double cells = 0.1 + 0.2 * sums / 256;
  const double writers = std::max(1.0, 32 / (static_cast<double>(units_of_group(p, n)) * size));
  const double pass = read / kReadRate + read * static_cast<double>(blocks) * rows_of_blocks / kCacheRate + products +
                      cells + 0.001 * d * (writers - 1);
  return std::max(kWait + pass, passes * pass);
}

/// The same of a product of all multiprocessors, whose weights are read each time, and a kernel of cells.
double step_us_of_products(const Network& n, std::int64_t samples) {
  const auto weights = static_cast<double>(n.gates() * n.hidden * n.hidden), count = static_cast<double>(samples);
  return n.type == DataType::kFloat ? 5.6 + weights * std::max(2 * count / 22e6, 4 / 1e6)
                                    : 4.5 + weights * std::max(2 * count / 200e6, 2 / 4e6);
}

}  // namespace

std::int64_t persistent_depth(const Network& n, Pass pass) {
  return round_up((pass == Pass::kBackwardData ? n.gates() : 1) * n.hidden, 64);
}

std::size_t persistent_bytes(const DeviceInfo& d, const Network& n, std::int64_t samples, std::int64_t steps,
                             Pass pass) {
  if (samples > most_samples(d)) return 0;
  return static_cast<std::size_t>((steps + 1) * samples * persistent_depth(n, pass)) * size_of(n.type);
}

std::optional<Persistent> persistent(const DeviceInfo& d, const Network& n, const Schedule& s, Pass pass) {
  constexpr std::int64_t kMostUnits = 4096;       // more never fit
  constexpr std::int64_t kMostUnitsOfBlock = 64;  // of one block that computes all
  const bool is_cuda = d.kind == DeviceKind::kCuda && d.gpu.compute_capability >= 70;
  if (!is_cuda && d.kind != DeviceKind::kOpenCl) return {};
  if (s.runs.size() != 1 || s.runs[0].samples != s.samples || s.samples > most_samples(d)) return {};
  if (n.hidden > (is_cuda ? kMostUnits : kMostUnitsOfBlock) || d.gpu.block_threads < kThreads) return {};
  const std::int64_t depth = persistent_depth(n, pass);
  Persistent p, best;
  p.backward = pass == Pass::kBackwardData;
  const bool has_matrix_units = is_cuda && d.gpu.compute_capability >= 80;
  double least = is_cuda ? step_us_of_products(n, s.samples) : std::numeric_limits<double>::max();
  bool found = false;
  for (const int rows : kRows) {
    p.by_matrix_units = has_matrix_units && rows >= 16;
    const bool for_matrix_units = has_matrix_units && n.type != DataType::kFloat;
    if (rows == 8 ? for_matrix_units || !p.backward : rows == 64 && !has_matrix_units) continue;
    p.rows = rows;
    const std::int64_t groups = ceil_div(n.hidden, std::int64_t{units_of_group(p, n)});
    const std::int64_t of_block = is_cuda ? ceil_div(groups, std::int64_t{d.units}) : groups;
    const std::int64_t blocks = ceil_div(groups, of_block);
    const std::int64_t most_rows = is_cuda ? d.units / blocks : 1;
    for (std::int64_t rows_of_blocks = 1; rows_of_blocks <= std::min(most_rows, s.samples); ++rows_of_blocks) {
      p.row_samples = ceil_div(s.samples, rows_of_blocks);
      p.samples = 32;
      for (const int samples : {16, 8, 4})
        if (p.row_samples <= samples && (samples >= 8 || !p.by_matrix_units)) p.samples = samples;
      p.local_bytes = local_bytes(p, n, depth, of_block);
      if (p.local_bytes > most_local_bytes(d)) continue;
      const double us = step_us(p, n, depth, of_block, blocks, s.samples);
      if (us >= least) continue;
      least = us;
      found = true;
      p.single = of_block == 1 && p.row_samples <= p.samples;
      p.launch = launch_shape(kThreads, blocks, ceil_div(s.samples, p.row_samples));
      p.launch.shared_bytes = is_cuda ? static_cast<std::uint32_t>(p.local_bytes) : 0;
      p.launch.cooperative = blocks > 1;
      best = p;
    }
  }
  if (!found) return {};
  return best;
}

KernelSpec Persistent::spec(const DeviceInfo& device, const Network& n) const {
  KernelSpec spec{"primitives/rnn/gpu/persistent.cl", "all_steps", cell_options(device, n.type, n.mode)};
  const auto add = [&](const char* name, auto value) {
    spec.options.push_back(std::string("-D") + name + "=" + std::to_string(value));
  };
  add("BACKWARD", int{backward});
  add("ROWS", rows);
  add("SAMPLES", samples);
  add("SINGLE", int{single});
  add("MATRIX", int{by_matrix_units});
  if (by_matrix_units) add("DEPTH", persistent_depth(n, backward ? Pass::kBackwardData : Pass::kTraining));
  if (device.kind == DeviceKind::kOpenCl) add("LOCAL_BYTES", local_bytes);
  return spec;
}

}  // namespace polymio::rnn
