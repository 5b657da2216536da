// Files of the driver. Reads only regular files of bounded size; never writes through another user's link.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace polymio::driver {

// Largest text file, and longest line of a list, in bytes.
inline constexpr std::uint64_t kLargestInput = std::uint64_t{1} << 30;
inline constexpr std::size_t kLongestLine = std::size_t{1} << 16;

// An owned file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// Opens a regular file with these flags of open() into `file`. Returns the reason on failure, else empty. Never blocks;
// O_CREAT creates a file at this path only, not behind a link.
std::string open_regular(const std::string& path, int flags, Descriptor& file);

// Reads at most `most` bytes from the start of an open file; returns their number. Throws RunError.
std::size_t read_some(const Descriptor& file, const std::string& path, void* memory, std::size_t most);

// The whole of a regular file. Throws RunError: 'cannot read' it and why.
std::string read_whole(const std::string& path, std::uint64_t most = kLargestInput);

// Replaces the file atomically: writes a temporary file beside it, then renames. A link of this user or root stays, and
// its target is replaced. On failure throws RunError and leaves the old file.
void write_whole(const std::string& path, std::string_view text);

// The file that writing `path` replaces, and the name of the temporary file beside it. Throws RunError for a link of
// another user and for anything but a regular file.
struct Target {
  std::string file, temporary;
};
Target target_of(const std::string& path);

// Writes the whole text or throws RunError.
void write_all(const Descriptor& file, const std::string& path, std::string_view text);

// Makes a folder for this user alone unless it exists. Throws RunError for a link and for another user's folder.
void make_own_folder(const std::string& path);

}  // namespace polymio::driver
