// Prints programs of GPUs that between them reach nearly all of the sources, a line each: the source below src/, then
// its options. SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include "primitives/convolution/convolution.h"

int main() {
  for (const polymio::KernelSpec& spec : polymio::convolution::base_programs(polymio::usual_device("hip-gfx90a"), true))
    fmt::print("{} {}\n", spec.source, fmt::join(spec.options, " "));
}
