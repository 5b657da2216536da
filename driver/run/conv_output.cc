// MIOpenDriver's text lines.
// SPDX-License-Identifier: MIT
#include "driver/run/conv_output.h"

#include <fmt/format.h>

#include <algorithm>

#include "driver/run/conv_calls.h"

namespace polymio::driver {
namespace {

std::string describe(const char* name, const reference::Tensor& tensor) {
  return fmt::format("{} {} {}", name, fmt::join(tensor.lens, "x"), type_name(static_cast<int>(tensor.type)));
}

// "3x3u1": the filter and the vertical stride (the horizontal one in 1-D).
std::string filter_text(const Problem& problem) {
  const auto& lens = problem.tensors[kW].lens;
  const std::vector<std::int64_t> filter(lens.begin() + 2, lens.end());
  const auto stride = strides(problem.args);
  const std::size_t axis = stride.size() > 1 ? stride.size() - 2 : 0;
  return fmt::format("{}u{}", fmt::join(filter, "x"), stride[axis]);
}

}  // namespace

void print_convolution(const Problem& problem) {
  const ConvArgs& args = problem.args;
  fmt::print("{} convolution{}: {}, {}, {}; pad {} stride {} dilation {} groups {}; {:.4g} GFLOP\n",
             direction_title(problem.direction), args.transpose != 0 ? " (transposed)" : "",
             describe("x", problem.tensors[kX]), describe("w", problem.tensors[kW]), describe("y", problem.tensors[kY]),
             fmt::join(pads(args), "x"), fmt::join(strides(args), "x"), fmt::join(dilations(args), "x"), args.groups,
             problem.gflop());
}

void print_solutions(Direction direction, const std::vector<miopenConvSolution_t>& solutions) {
  fmt::print("{} Conv solutions available: {}\n", direction_title(direction), solutions.size());
  for (const miopenConvSolution_t& solution : solutions) {
    fmt::print("- id: {} algo: {}, time: {:.6f} ms, ws: {}, name: {}\n", solution.solution_id,
               static_cast<int>(solution.algorithm), solution.time, solution.workspace_size,
               solution_name(solution.solution_id));
  }
}

void print_times(const Problem& problem, const Result& result, double wall_ms, double query_ms) {
  const char* title = direction_title(problem.direction);
  fmt::print("MIOpen {} Conv. Algorithm: {}, Solution: {}/{}\n", title, result.algorithm, result.solution,
             result.solver);
  fmt::print("GPU Kernel Time {} Conv. Elapsed: {:.6f} ms (average)\n", title, result.average_ms);

  const auto& x = problem.tensors[kX].lens;
  const auto& w = problem.tensors[kW].lens;
  const auto& y = problem.tensors[kY].lens;
  const std::vector<std::int64_t> out(y.begin() + 2, y.end());
  const std::vector<std::int64_t> filter(w.begin() + 2, w.end());
  static const char* const kOut[] = {"wo", "ho, wo", "do, ho, wo"};
  static const char* const kFilter[] = {"x", "x, y", "z, y, x"};
  const double ms = result.average_ms;
  fmt::print("stats: name, n, c, {}, {}, k, flopCnt, bytesRead, bytesWritten, GFLOPs, GB/s, timeMs\n",
             kOut[out.size() - 1], kFilter[filter.size() - 1]);
  fmt::print("stats: {}-conv{}, {}, {}, {}, {}, {},  {:.0f}, {:.0f}, {:.0f}, {:.2f}, {:.2f}, {:.6f}\n",
             direction_short(problem.direction), filter_text(problem), x[0], x[1], fmt::join(out, ", "),
             fmt::join(filter, ", "), y[1], result.gflop * 1e9, result.bytes_read, result.bytes_written,
             result.gflop / ms * 1e3, (result.bytes_read + result.bytes_written) / ms * 1e-6, ms);
  if (problem.args.wall != 0) {
    fmt::print(
        "Wall-clock Time {} Conv. Elapsed: {:.6f} ms, Auxiliary API calls: {:.6f} ms (GWSS: "
        "{:.6f})\n",
        title, wall_ms, result.find_ms, query_ms);
  }
}

}  // namespace polymio::driver
