// Prints GPU programs that together compile nearly all kernel sources, one line per program: the source below src/,
// then its options.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <array>
#include <set>

#include "core/kernel_builder.h"
#include "primitives/activation/activation.h"
#include "primitives/convolution/convolution.h"
#include "primitives/softmax/softmax.h"
#include "primitives/tensor_ops/tensor_ops.h"

int main() {
  using namespace polymio;
  const DeviceInfo device = usual_device("hip-gfx90a");
  std::vector<KernelSpec> specs = convolution::base_programs(device, true);
  const auto add = [&](const std::vector<KernelSpec>& more) { specs.insert(specs.end(), more.begin(), more.end()); };
  for (const DataType type : kDataTypes) add(tensor_ops::programs(device, std::array{type}));
  add(tensor_ops::programs(device, std::array{DataType::kFloat, DataType::kHalf, DataType::kInt32}));
  using activation::Mode;
  for (int mode = 0; mode < 10; ++mode) add(activation::programs(device, DataType::kFloat, static_cast<Mode>(mode)));
  for (const Mode mode : {Mode::kTanh, Mode::kPower, Mode::kElu})
    add(activation::programs(device, DataType::kDouble, mode));
  add(activation::epilogue_kernels(device, DataType::kHalf, Mode::kRelu, true));
  for (const auto direction : {softmax::Direction::kForward, softmax::Direction::kBackward})
    for (const bool log : {false, true})
      for (const DataType type : {DataType::kFloat, DataType::kHalf, DataType::kDouble})
        add(softmax::programs(device, type, direction, log));
  std::set<std::string> lines;
  for (const KernelSpec& spec : specs) lines.insert(program_name(spec));
  for (const std::string& line : lines) fmt::print("{}\n", line);
}
