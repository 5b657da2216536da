// Prints those programs, a line for each: the source below src/, then its options.
// SPDX-License-Identifier: MIT
#include "kernel_list.h"

#include <fmt/format.h>

#include <set>

int main() {
  std::set<std::string> lines;
  for (const polymio::KernelSpec& spec : polymio::listed_programs(polymio::usual_device("hip-gfx90a")))
    lines.insert(program_name(spec));
  for (const std::string& line : lines) fmt::print("{}\n", line);
}
