// 'doctor': the database files, their state, and why a problem has no entry.
// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string>
#include <vector>

namespace polymio::driver {

// `arguments` follow 'doctor': flags, then optionally a problem. Returns 0, or 1 when a file is damaged or unreadable.
int run_doctor(std::span<const std::string> arguments);

// The files of the user's own database of a device, which need not exist yet: one, or one per host on a network file
// system. Empty name: the library's choice of device. Throws RunError when records are kept in memory only.
std::vector<std::string> user_files(const std::string& device);

// Throws RunError when results of the device cannot be stored.
void require_storage(const std::string& device);

}  // namespace polymio::driver
