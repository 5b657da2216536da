// The commands that are not base arguments. Each gets the arguments after its name, and returns the exit status of the
// process. Wrong arguments throw ArgError.
// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string>

namespace polymio::driver {

// Times every solver on the problems of a list, to train the learned model on. 3: budget or a signal ended it before.
int run_dataset(std::span<const std::string> arguments);

// The database files. 1 when verify found damage or diff a difference.
int run_db(std::span<const std::string> arguments);

// Finds, runs and verifies every convolution of ResNet-50 v1.5, then repeats it from the find database. 1 if anything
// failed or the second process searched.
int run_demo(std::span<const std::string> arguments);

// The devices, and why a kind of device is absent.
int run_devices(std::span<const std::string> arguments);

// The database files' state, and why a problem has no entry. 1 when a file is damaged or unreadable.
int run_doctor(std::span<const std::string> arguments);

// The trade between time and workspace for a problem.
int run_options(std::span<const std::string> arguments);

// The page of a saved run, or of the comparison of two.
int run_report(std::span<const std::string> arguments);

// Tunes the problems of a list. 3: the budget or a signal ended it before; 1: a problem failed.
int run_tune(std::span<const std::string> arguments);

// Compiles the common GPU programs, or those of a list of problems, into the kernel cache.
int run_warm(std::span<const std::string> arguments);

}  // namespace polymio::driver
