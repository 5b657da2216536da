// SPDX-License-Identifier: MIT
#include "driver/run/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "driver/run/conv_run.h"
#include "driver/run/conv_problem.h"
#include "reference/tolerance.h"

namespace polymio::driver {
namespace {

// Difference of two results relative to the largest value: root mean square and maximum.
struct Difference {
  double rms = 0, most = 0;
};

Difference difference_of(const reference::Tensor& tensor, const void* a, const void* b) {
  double sum = 0, most = 0, largest = 0;
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    const std::int64_t at = tensor.offset(i);
    const double first = reference::load(tensor.type, a, at), second = reference::load(tensor.type, b, at);
    const double difference = std::abs(first - second);
    if (!(difference < INFINITY)) return {INFINITY, INFINITY};
    sum += difference * difference;
    most = std::max(most, difference);
    largest = std::max({largest, std::abs(first), std::abs(second)});
  }
  if (largest == 0) return {};
  return {std::sqrt(sum / static_cast<double>(tensor.count())) / largest, most / largest};
}

// Bound of the RMS difference of two correct results: one rounding of the output, and one per term of the sums, whose
// magnitude exceeds that of the result by about the root of their length.
double allowed(const Problem& problem) {
  const reference::Arithmetic a = reference::arithmetic(problem.math);
  const auto roundoff = [](reference::Type t) { return reference::is_integer(t) ? 0 : reference::unit_roundoff(t); };
  return 2 * (roundoff(a.output) + static_cast<double>(a.reduction_length) * roundoff(a.accumulate));
}

void print(const Session& session, const Result& result) {
  fmt::print("  {:<10} {:<28} {:>10.4g} ms {:>9.1f} GFLOP/s  {}\n", session.device.name, result.solver, result.ms,
             result.gflops(), result.error.empty() ? result.verify_text : result.error);
}

bool compare_direction(const Session* const sessions[2], const ConvArgs& args, Direction direction) {
  std::vector<unsigned char> outputs[2];
  Result results[2];
  for (const int i : {0, 1}) {
    RunOptions options;
    options.print = false;
    options.output = &outputs[i];
    results[i] = run_direction(*sessions[i], args, direction, options).at(0);
  }
  fmt::print("{}\n", results[0].line);
  for (const int i : {0, 1}) print(*sessions[i], results[i]);
  if (!results[0].error.empty() || !results[1].error.empty()) return false;
  const Problem problem(args, direction);
  const Difference difference = difference_of(problem.tensors[problem.written()], outputs[0].data(), outputs[1].data());
  const double limit = allowed(problem);
  const bool agree = difference.rms <= limit;
  fmt::print(
      "  {}: RMS difference {:.3g} of the largest value (at most {:.3g}), largest {:.3g}; {} is {:.3g} times as "
      "fast\n",
      agree ? "the results agree" : "the results DIFFER", difference.rms, limit, difference.most,
      sessions[1]->device.name, results[0].ms / results[1].ms);
  return agree && results[0].ok() && results[1].ok();
}

}  // namespace

int run_compare(const ConvArgs& args) {
  const std::size_t comma = args.compare.find(',');
  if (comma == std::string::npos || args.compare.find(',', comma + 1) != std::string::npos || args.all_solvers ||
      !args.device.empty())
    throw ArgError(
        fmt::format("--compare: bad value '{}', allowed: two devices, as in cpu,cuda:0, without --device "
                    "and --all-solvers",
                    args.compare));
  const Session first(args.compare.substr(0, comma)), second(args.compare.substr(comma + 1));
  const Session* const sessions[] = {&first, &second};
  bool ok = true;
  for (const Direction direction : kDirections)
    if (direction_mask(args) & direction) ok = compare_direction(sessions, args, direction) && ok;
  return ok ? 0 : 1;
}

}  // namespace polymio::driver
