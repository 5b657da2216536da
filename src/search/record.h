// POLYMIO_RECORD: a file with each distinct problem of an application as a MIOpenDriver line.
// SPDX-License-Identifier: MIT
#pragma once
#include <string>

namespace polymio::search {

/// Appends the problem with this key to the file, once; processes may share the file. Does nothing without the
/// variable; warns once if the file cannot be written.
void record_problem(const std::string& key);

}  // namespace polymio::search
