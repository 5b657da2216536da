// SPDX-License-Identifier: MIT
#include "kernels/gpu/wgmma.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <vector>

namespace polymio::kernels {

std::string wgmma(int columns, const char* type, bool transpose_a, bool transpose_b) {
  const int count = columns / 2;
  std::vector<std::string> names, operands;
  for (int i = 0; i < count; ++i) {
    names.push_back(fmt::format("%{}", i));
    operands.push_back(fmt::format("\"+f\"(d[{}])", i));
  }
  // Operands of TF32 cannot be transposed, and have no parameters that say so.
  const bool tf32 = type == std::string_view("tf32");
  const std::string transposes = tf32 ? "" : fmt::format(", {:d}, {:d}", transpose_a, transpose_b);
  return fmt::format(
      "__device__ __forceinline__ void multiply(float (&d)[{0}], unsigned long long a, unsigned long long b, int "
      "accumulate) {{\n"
      "  asm volatile(\"{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{3}, 0;\\n\"\n"
      "    \"wgmma.mma_async.sync.aligned.m64n{4}k{5}.f32.{6}.{6} {{{7}}}, %{1}, %{2}, p, 1, 1{8};\\n}}\"\n"
      "    : {9} : \"l\"(a), \"l\"(b), \"r\"(accumulate));\n"
      "}}\n",
      count, count, count + 1, count + 2, columns, tf32 ? 8 : 16, type, fmt::join(names, ", "), transposes,
      fmt::join(operands, ", "));
}

}  // namespace polymio::kernels
