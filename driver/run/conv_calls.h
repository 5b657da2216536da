// One interface to the C API's convolution calls of the three directions, which differ in the order of arguments.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "driver/run/conv_problem.h"

namespace polymio::driver {

struct Algorithm {
  int algorithm;
  float ms;
  std::size_t workspace;
};

// Device memory by Role, and workspace.
struct DeviceData {
  void* tensors[3];
  void* workspace;
  std::size_t workspace_bytes;
};

std::size_t find_workspace(const Session& session, const Problem& problem);
std::vector<Algorithm> find(const Session& session, const Problem& problem, const DeviceData& data, bool exhaustive);
void run(const Session& session, const Problem& problem, const DeviceData& data, int algorithm);

// At most ten, best first.
std::vector<miopenConvSolution_t> solutions(const Session& session, const Problem& problem);
std::size_t solution_workspace(const Session& session, const Problem& problem, std::uint64_t id);
void compile_solution(const Session& session, const Problem& problem, std::uint64_t id);
void run_solution(const Session& session, const Problem& problem, const DeviceData& data, std::uint64_t id);

// "UNKNOWN" for an id without name.
std::string solution_name(std::uint64_t id);

// The problem with all its descriptors, for calls that take one.
OwnedProblem make_problem(const Problem& problem);

// polymioExplain's JSON text.
std::string explain(const Session& session, miopenProblem_t problem);
std::string explain(const Session& session, const Problem& problem);

// polymioDiagnose's JSON text; `problem` may be null.
std::string diagnose(const Session& session, const Problem* problem);

}  // namespace polymio::driver
