// POLYMIO_RECORD: a file that collects each distinct problem of an application as a MIOpenDriver line.
// SPDX-License-Identifier: MIT
#pragma once
#include <string>

namespace polymio::search {

/// Appends the problem with this key to the file, once; any number of processes may share it. Does
/// nothing without the variable; a file that cannot be written is one warning.
void record_problem(const std::string& key);

}  // namespace polymio::search
