// 'dataset': measures the training data of the learned model, the times of every solver on the problems of a list.
// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string>

namespace polymio::driver {

// `arguments` follow 'dataset'. Returns 0: the file has every problem; 3: the budget or a signal ended it before; 1: a
// problem failed.
int run_dataset(std::span<const std::string> arguments);

}  // namespace polymio::driver
