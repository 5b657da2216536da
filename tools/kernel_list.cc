// Prints those programs, a line for each: the source below src/, then its options. With --templates FOLDER [TEXT]
// instead compiles those of C++ templates whose names contain TEXT for sm90 into files of the folder; a line for each:
// the file, then the program.
// SPDX-License-Identifier: MIT
#include "kernel_list.h"

#include <fmt/format.h>

#include <exception>
#include <fstream>
#include <string_view>

namespace polymio {
namespace {

void compile_templates(const std::string& folder, const std::string& text) {
  constexpr const char* kArchitecture = "cuda-sm90";
  const auto compiler = create_compiler(kArchitecture);
  auto specs = template_programs(usual_device(kArchitecture));
  std::erase_if(specs, [&](const KernelSpec& spec) { return program_name(spec).find(text) == std::string::npos; });
  in_parallel(specs.size(), [&](std::size_t i) {
    const std::string binary = compile_program(*compiler, specs[i]).binary;
    if (!(std::ofstream(fmt::format("{}/{}.cubin", folder, i)) << binary).flush())
      throw std::runtime_error("cannot write to " + folder);
  });
  for (std::size_t i = 0; i < specs.size(); ++i) fmt::print("{}/{}.cubin {}\n", folder, i, program_name(specs[i]));
}

}  // namespace
}  // namespace polymio

int main(int argc, char** argv) try {
  if ((argc == 3 || argc == 4) && std::string_view(argv[1]) == "--templates") {
    polymio::compile_templates(argv[2], argc == 4 ? argv[3] : "");
    return 0;
  }
  if (argc != 1) throw std::runtime_error("unknown arguments, allowed: --templates FOLDER [TEXT]");
  std::set<std::string> lines;
  for (const polymio::KernelSpec& spec : polymio::listed_programs(polymio::usual_device("hip-gfx90a")))
    lines.insert(program_name(spec));
  for (const std::string& line : lines) fmt::print("{}\n", line);
  return 0;
} catch (const std::exception& e) {
  fmt::print(stderr, "kernel_list: {}\n", e.what());
  return 2;
}
