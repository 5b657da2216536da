// The 53 convolutions of ResNet-50 v1.5 (stride 2 in the 3x3 convolution of a stage's first block).
// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "driver/run/conv_args.h"

namespace polymio::driver {

struct Layer {
  std::string name;
  ConvArgs args;
};

std::vector<Layer> resnet50(std::int64_t batch);

}  // namespace polymio::driver
