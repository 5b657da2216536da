// Every rank and job computes the partition independently, so nothing here depends on time or order of execution.
// SPDX-License-Identifier: MIT
#include "driver/tune/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <optional>

#include "driver/base/flags.h"

namespace polymio::driver {
namespace {

std::optional<std::size_t> read_number(std::string_view text) {
  std::size_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end) return std::nullopt;
  return value;
}

std::optional<Share> read_share(std::string_view index, std::string_view count) {
  const auto i = read_number(index), n = read_number(count);
  if (!i || !n || *i >= *n) return std::nullopt;
  return Share{*i, *n};
}

}  // namespace

std::string duration_text(double seconds) {
  const auto whole = static_cast<long long>(std::llround(seconds));
  if (whole < 60) return fmt::format("{:.1f}s", seconds);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
}

Share parse_share(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash != std::string_view::npos) {
    if (const auto share = read_share(text.substr(0, slash), text.substr(slash + 1))) return *share;
  }
  throw ArgError(fmt::format("--share: bad value '{}', allowed: I/N with I from 0 to N-1, as in 0/4", text));
}

Share share_from_environment() {
  static constexpr const char* kNames[][2] = {
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, {"PMI_RANK", "PMI_SIZE"}, {"SLURM_PROCID", "SLURM_NTASKS"}};
  for (const auto& [rank, size] : kNames) {
    const char* index = std::getenv(rank);
    const char* count = std::getenv(size);
    if (index == nullptr || count == nullptr) continue;
    if (const auto share = read_share(index, count)) return *share;
    throw ArgError(fmt::format("{}={} and {}={} are no rank and size, allowed: a rank from 0 to size - 1", rank, index,
                               size, count));
  }
  return {};
}

std::vector<std::size_t> deal(std::span<const double> costs, Share share) {
  std::vector<std::size_t> order(costs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return costs[a] > costs[b]; });
  std::vector<double> loads(share.count, 0.0);
  std::vector<std::size_t> mine;
  for (const std::size_t i : order) {
    const auto least = std::min_element(loads.begin(), loads.end());
    *least += costs[i];
    if (least - loads.begin() == static_cast<std::ptrdiff_t>(share.index)) mine.push_back(i);
  }
  std::sort(mine.begin(), mine.end());
  return mine;
}

}  // namespace polymio::driver
