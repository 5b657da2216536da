// 'dataset': what the learned model is trained on, the times of every solver on the problems of a list.
// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string>

namespace polymio::driver {

// `words` follow 'dataset'. 0: the file has every problem; 3: budget or a signal ended it before; 1: a problem failed.
int run_dataset(std::span<const std::string> arguments);

}  // namespace polymio::driver
