// The files of the user's own database.
// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

namespace polymio::driver {

// The files of the user's own database of a device, which need not exist yet: one, or one per host on a network file
// system. Empty name: the library's choice of device. Throws RunError when records are kept in memory only.
std::vector<std::string> user_files(const std::string& device);

// Throws RunError when results of the device cannot be stored.
void require_storage(const std::string& device);

}  // namespace polymio::driver
