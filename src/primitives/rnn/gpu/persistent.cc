// SPDX-License-Identifier: MIT
#include "primitives/rnn/gpu/persistent.h"

#include <algorithm>

#include "base/math.h"
#include "primitives/rnn/gpu/step.h"

namespace polymio::rnn {
namespace {

constexpr int kWarps = 8, kThreads = 32 * kWarps;  // as in persistent.cl
constexpr int kRows[] = {8, 16, 32};

/// Local memory that a block may have, by the compute capabilities of NVIDIA's table of technical specifications.
std::size_t most_local_bytes(const DeviceInfo& d) {
  const int capability = d.gpu.compute_capability;
  if (capability == 90 || (capability >= 100 && capability < 120)) return 227u << 10;
  if (capability == 80 || capability == 87) return 163u << 10;
  if (capability > 80) return 99u << 10;
  return d.gpu.shared_bytes;
}

/// Beyond, a product of all multiprocessors at each step costs less: measured on an H200 with 1, 16, 64 and 128
/// samples.
std::int64_t most_samples(const DeviceInfo& d, Pass pass) {
  if (d.kind == DeviceKind::kOpenCl) return 64;
  return pass == Pass::kBackwardData ? 16 : 32;
}

int units_of_group(const Persistent& p, const Network& n) { return p.backward || n.gates() == 1 ? p.rows : p.rows / 4; }

std::size_t local_bytes(const Persistent& p, const Network& n, std::int64_t depth, std::int64_t groups) {
  const std::int64_t pitch = depth + (p.by_matrix_units ? 8 : 0);
  const std::int64_t weights = groups * p.rows * pitch * static_cast<std::int64_t>(size_of(n.type));
  const std::int64_t sums = (p.by_matrix_units ? kWarps * p.rows : kThreads) * (p.samples + 1);
  const std::int64_t chunks = p.by_matrix_units ? 0 : kWarps * std::min(512, 64 * p.samples);
  return static_cast<std::size_t>(round_up(weights + 4 * std::max(sums, chunks), 16));
}

}  // namespace

std::int64_t persistent_depth(const Network& n, Pass pass) {
  return round_up((pass == Pass::kBackwardData ? n.gates() : 1) * n.hidden, 64);
}

std::size_t persistent_bytes(const Network& n, std::int64_t samples, Pass pass) {
  return kArrivedBytes + static_cast<std::size_t>(2 * samples * persistent_depth(n, pass)) * size_of(n.type);
}

std::optional<Persistent> persistent(const DeviceInfo& d, const Network& n, const Schedule& s, Pass pass) {
  constexpr std::int64_t kMostUnits = 4096;       // more never fit
  constexpr std::int64_t kMostUnitsOfBlock = 64;  // of one block that computes all
  const bool is_cuda = d.kind == DeviceKind::kCuda && d.gpu.compute_capability >= 70;
  if (!is_cuda && d.kind != DeviceKind::kOpenCl) return {};
  if (s.runs.size() != 1 || s.runs[0].samples != s.samples || s.samples > most_samples(d, pass)) return {};
  if (n.hidden > (is_cuda ? kMostUnits : kMostUnitsOfBlock) || d.gpu.block_threads < kThreads) return {};
  Persistent p;
  p.backward = pass == Pass::kBackwardData;
  p.by_matrix_units = is_cuda && d.gpu.compute_capability >= 80 && n.type != DataType::kFloat;
  for (const int samples : {32, 16, 8, 4})
    if (s.samples <= samples && (samples >= 8 || !p.by_matrix_units)) p.samples = samples;
  // The fewest rows of which each block has one group: as many blocks as possible take part.
  for (const int rows : kRows) {
    if (rows == 8 && (p.by_matrix_units || !p.backward)) continue;
    p.rows = rows;
    const std::int64_t groups = ceil_div(n.hidden, std::int64_t{units_of_group(p, n)});
    const std::int64_t of_block = is_cuda ? ceil_div(groups, std::int64_t{d.units}) : groups;
    const std::int64_t blocks = ceil_div(groups, of_block);
    p.local_bytes = local_bytes(p, n, persistent_depth(n, pass), of_block);
    if (p.local_bytes > most_local_bytes(d) || (rows != std::end(kRows)[-1] && is_cuda && of_block > 1)) continue;
    p.launch = launch_shape(kThreads, blocks);
    p.launch.shared_bytes = is_cuda ? static_cast<std::uint32_t>(p.local_bytes) : 0;
    p.launch.cooperative = blocks > 1;
    return p;
  }
  return {};
}

KernelSpec Persistent::spec(const DeviceInfo& device, const Network& n) const {
  KernelSpec spec{"primitives/rnn/gpu/persistent.cl", "all_steps", cell_options(device, n.type, n.mode)};
  for (const auto& [name, value] :
       {std::pair{"BACKWARD", int{backward}}, {"ROWS", rows}, {"SAMPLES", samples}, {"MATRIX", int{by_matrix_units}}})
    spec.options.push_back(std::string("-D") + name + "=" + std::to_string(value));
  if (device.kind == DeviceKind::kOpenCl) spec.options.push_back("-DLOCAL_BYTES=" + std::to_string(local_bytes));
  return spec;
}

}  // namespace polymio::rnn
