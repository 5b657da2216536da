// SPDX-License-Identifier: MIT
#include "core/solver.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/hash.h"

namespace polymio {

std::uint64_t Constraints::hash(std::uint64_t seed) const {
  seed = mix(seed, workspace_limit);
  return mix(seed, static_cast<std::uint64_t>(math) | (deterministic ? 16u : 0u) |
                       static_cast<std::uint64_t>(algorithms & 0xffffu) << 8 |
                       static_cast<std::uint64_t>(alignment) << 32);
}

std::string Verdict::text() const {
  if (!reason) return "";
  return numbers ? fmt::format("{} (limit {}, here {})", reason, need, have) : reason;
}

std::string to_text(const TunePoint& point) { return fmt::format("{}", fmt::join(point, ",")); }

TunePoint parse_tune_point(const std::string& text) {
  TunePoint point;
  const char* p = text.data();
  const char* end = p + text.size();
  while (p < end) {
    int value = 0;
    const auto [rest, error] = std::from_chars(p, end, value);
    if (error != std::errc{} || (rest != end && *rest != ',')) return {};
    point.push_back(value);
    p = rest + (rest != end);
  }
  return point;
}

std::vector<TunePoint> valid_points(const SolverBase& solver, const DeviceInfo& device, const ProblemBase& problem) {
  const TuneSpace space = solver.tune_space(device, problem);
  std::vector<TunePoint> points(space.empty() ? 0 : 1);
  for (const Knob& knob : space) {
    std::vector<TunePoint> longer;
    for (const TunePoint& p : points)
      for (const int value : knob.values) {
        longer.push_back(p);
        longer.back().push_back(value);
      }
    points = std::move(longer);
  }
  std::erase_if(points, [&](const TunePoint& p) { return !solver.is_valid(device, problem, p); });
  return points;
}

TunePoint least_estimate(const SolverBase& solver, const DeviceInfo& device, const ProblemBase& problem,
                         std::span<const TunePoint> points) {
  TunePoint best;
  double least = 0;
  for (const TunePoint& point : points) {
    const double us = solver.estimate(device, problem, point);
    if (!best.empty() && us >= least) continue;
    best = point;
    least = us;
  }
  return best;
}

bool takes(const SolverBase& solver, const DeviceInfo& device, const ProblemBase& problem, const TunePoint& point) {
  if (point == solver.default_point(device, problem)) return true;
  const TuneSpace space = solver.tune_space(device, problem);
  const bool known = !space.empty() && std::equal(space.begin(), space.end(), point.begin(), point.end(),
                                                  [](const Knob& knob, int value) {
                                                    return std::ranges::find(knob.values, value) != knob.values.end();
                                                  });
  return known && solver.is_valid(device, problem, point);
}

std::optional<TunePoint> starting_point(const SolverBase& solver, const DeviceInfo& device, const ProblemBase& problem,
                                        std::size_t limit) {
  const TunePoint standard = solver.default_point(device, problem);
  if (solver.workspace_size(device, problem, standard) <= limit) return standard;
  std::optional<TunePoint> best;
  double best_us = 0;
  for (TunePoint& p : valid_points(solver, device, problem)) {
    if (solver.workspace_size(device, problem, p) > limit) continue;
    const double us = solver.estimate(device, problem, p);
    if (!best || us < best_us) {
      best = std::move(p);
      best_us = us;
    }
  }
  return best;
}

Verdict admit(const SolverBase& solver, const DeviceInfo& device, const ProblemBase& problem,
              const Constraints& allowed) {
  const SolverInfo info = solver.info();
  POLYMIO_REQUIRE(info.devices & static_cast<unsigned>(device.kind), "does not run on this kind of device");
  POLYMIO_REQUIRE(allowed.algorithms >> info.algorithm & 1u, "its algorithm is disabled");
  POLYMIO_REQUIRE(!allowed.deterministic || info.deterministic, "not deterministic, and determinism is required");
  if (allowed.alignment < info.alignment)
    return {"the tensors in memory are not aligned as it needs", info.alignment, allowed.alignment, true};
  if (const Verdict v = solver.is_applicable(device, problem); !v) return v;
  POLYMIO_REQUIRE_MOST(static_cast<int>(solver.error_class(problem)), static_cast<int>(allowed.math),
                       "its error class exceeds the math mode");
  if (!starting_point(solver, device, problem, allowed.workspace_limit)) {
    const std::size_t bytes = solver.workspace_size(device, problem, solver.default_point(device, problem));
    return {"needs more workspace than is available", static_cast<std::int64_t>(allowed.workspace_limit),
            static_cast<std::int64_t>(bytes), true};
  }
  return {};
}

}  // namespace polymio
