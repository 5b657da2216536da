// 'doctor': which databases answer, in which state they are, and why a problem missed.
// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string>
#include <vector>

namespace polymio::driver {

// `words` follow 'doctor': flags, then perhaps a problem. 0, or 1 when something is wrong with a file.
int run_doctor(std::span<const std::string> arguments);

// The files of the user's own database of a device, which need not exist yet: one, or one for each host on a network
// file system. Empty name: the library's choice of device. Throws RunError when records live in memory only.
std::vector<std::string> user_files(const std::string& device);

// Throws RunError when what is learned on the device cannot be stored.
void require_storage(const std::string& device);

}  // namespace polymio::driver
