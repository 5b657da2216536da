// SPDX-License-Identifier: MIT
#include "tests/runner/case_files.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

namespace polymio::test {
namespace {

namespace fs = std::filesystem;

/// Differs from the build's folder when the tests run on another machine.
fs::path cases_dir() {
  const char* folder = std::getenv("POLYMIO_TEST_CASES");
  return folder ? folder : POLYMIO_CASES_DIR;
}

}  // namespace

std::vector<std::string> expand(const std::string& line) {
  const std::size_t open = line.find('{');
  if (open == std::string::npos) return {line};
  const std::size_t close = line.find('}', open);
  if (close == std::string::npos) throw std::invalid_argument("a list without '}': " + line);
  const std::string list = line.substr(open + 1, close - open - 1);
  const char separator = list.find('|') == std::string::npos ? ',' : '|';
  const std::vector<std::string> rests = expand(line.substr(close + 1));
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(separator, begin), list.size());
    for (const std::string& rest : rests)
      lines.push_back(line.substr(0, open) + list.substr(begin, end - begin) + rest);
    begin = end + 1;
  }
  return lines;
}

std::vector<std::string> CaseFile::lines() const {
  std::ifstream in(path);
  if (!in) throw std::runtime_error("cannot read " + path.string());
  std::vector<std::string> all;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    for (std::string& single : expand(line)) all.push_back(std::move(single));
  }
  return all;
}

std::vector<CaseFile> case_files() {
  std::vector<CaseFile> files;
  for (const Primitive& primitive : kPrimitives) {
    const fs::path folder = cases_dir() / primitive.name;
    if (!fs::is_directory(folder)) continue;  // some cases only: SolverCasesCoverage fails
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.path().extension() == ".txt") files.push_back({&primitive, entry.path().stem(), entry.path()});
  }
  std::ranges::sort(files, {}, &CaseFile::path);
  return files;
}

}  // namespace polymio::test
