// SPDX-License-Identifier: MIT
#include "kernels/gpu/wgmma.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <vector>

namespace polymio::kernels {
namespace {

/// `types`: of sums, a and b, as the instruction has them; `flags`: its last operands.
std::string text(int columns, int depth, std::string_view types, const std::string& flags,
                 bool a_in_registers = false) {
  const int count = columns / 2;
  const bool integers = types.starts_with("s32");
  std::vector<std::string> names, operands;
  for (int i = 0; i < count; ++i) {
    names.push_back(fmt::format("%{}", i));
    operands.push_back(fmt::format("\"+{}\"(d[{}])", integers ? "r" : "f", i));
  }
  const int b = count + (a_in_registers ? 4 : 1);  // number of an operand
  const std::string a = a_in_registers ? fmt::format("{{%{}, %{}, %{}, %{}}}", count, count + 1, count + 2, count + 3)
                                       : fmt::format("%{}", count);
  return fmt::format(
      "__device__ __forceinline__ void multiply({} (&d)[{}], {}, unsigned long long b, int accumulate) {{\n"
      "  asm volatile(\"{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{}, 0;\\n\"\n"
      "    \"wgmma.mma_async.sync.aligned.m64n{}k{}.{} {{{}}}, {}, %{}, p{};\\n}}\"\n"
      "    : {} : {}, \"l\"(b), \"r\"(accumulate));\n"
      "}}\n",
      integers ? "int" : "float", count, a_in_registers ? "const unsigned (&a)[4]" : "unsigned long long a", b + 1,
      columns, depth, types, fmt::join(names, ", "), a, b, flags, fmt::join(operands, ", "),
      a_in_registers ? "\"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3])" : "\"l\"(a)");
}

}  // namespace

std::string wgmma(int columns, const char* type, bool transpose_a, bool transpose_b) {
  // Operands of TF32 cannot be transposed, and have no parameters that say so.
  const bool tf32 = type == std::string_view("tf32");
  const std::string transposes = tf32 ? "" : fmt::format(", {:d}, {:d}", transpose_a, transpose_b);
  return text(columns, tf32 ? 8 : 16, fmt::format("f32.{0}.{0}", type), ", 1, 1" + transposes);
}

std::string wgmma_of_registers(int columns, const char* type) {
  return text(columns, 16, fmt::format("f32.{0}.{0}", type), ", 1, 1, 1", true);
}

std::string wgmma_of_bytes(int columns, const char* type_a, const char* type_b) {
  const bool integers = type_a == std::string_view("s8");
  return text(columns, 32, fmt::format("{}.{}.{}", integers ? "s32" : "f32", type_a, type_b), integers ? "" : ", 1, 1");
}

}  // namespace polymio::kernels
