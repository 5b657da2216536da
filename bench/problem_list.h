// Lists of problems: one driver line each, its name and class in the comment behind it; a '#' at the start of a line or
// after a space begins a comment.
// SPDX-License-Identifier: MIT
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "driver/run/conv_args.h"

namespace polymio {

struct ListedProblem {
  std::string list, name, group;  // list: the file's name without folder and extension
  driver::ConvArgs args;
};

/// Throws driver::ArgError, naming `flag` or the line.
inline std::vector<ListedProblem> read_problem_list(const std::string& path, const char* flag) {
  std::ifstream in(path);
  if (!in) throw driver::ArgError(fmt::format("{}: cannot open '{}'", flag, path));
  std::vector<ListedProblem> problems;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const std::size_t end = line.starts_with('#') ? 0 : std::min(line.find(" #"), line.size());  // "-#" is a flag
    ListedProblem p;
    p.list = std::filesystem::path(path).stem().string();
    if (end < line.size()) std::istringstream(line.substr(end + 2)) >> p.name >> p.group;
    line.resize(end);
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      p.args = driver::parse_line(line);
    } catch (const driver::ArgError& e) {
      throw driver::ArgError(fmt::format("{}:{}: {}", path, number, e.what()));
    }
    if (p.name.empty()) p.name = fmt::format("line{}", problems.size() + 1);
    if (p.group.empty()) p.group = "other";
    problems.push_back(std::move(p));
  }
  return problems;
}

}  // namespace polymio
