// The files of tests/cases, and lists in their lines.
// SPDX-License-Identifier: MIT
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "tests/runner/runner.h"

namespace polymio::test {

struct CaseFile {
  const Primitive* primitive;
  std::string name;  // "pointwise"
  std::filesystem::path path;

  std::string title() const { return primitive->name + ("_" + name); }
  /// Lines without comments, every list expanded.
  std::vector<std::string> lines() const;
};

/// Every file of every primitive's folder, sorted.
std::vector<CaseFile> case_files();

/// Lists multiply: "-n {1,3} -c {4,5}" is four lines, the last list varies fastest. A list whose alternatives contain
/// commas separates them by '|', an alternative may be empty: "{-I NHWC|--in_strides 24,8,2,1|}".
std::vector<std::string> expand(const std::string& line);

}  // namespace polymio::test
