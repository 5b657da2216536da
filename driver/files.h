// Files of the driver: only regular ones of bounded size are read, and nothing is written through a link that somebody
// has planted.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace polymio::driver {

// A text is not read beyond this size, and a line of a list not beyond this one.
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

// Why the path is no file that is opened with these flags of open(); empty, and the file in `file`, when it is. Never
// waits, and makes a file at this very path only.
std::string open_regular(const std::string& path, int flags, Descriptor& file);

// The first bytes, at most `most`, of an open file. Throws RunError.
std::size_t read_some(const Descriptor& file, const std::string& path, void* memory, std::size_t most);

// The whole of a regular file. Throws RunError: 'cannot read' it and why.
std::string read_whole(const std::string& path, std::uint64_t most = kLargestInput);

// Puts the text in place of the file as a whole: written beside it, then renamed. A link of this user or root stays,
// and the file that it names is replaced. On failure throws RunError and leaves what was there.
void write_whole(const std::string& path, std::string_view text);

// The file that is replaced when `path` is written, and a name beside it for the new one. Throws RunError for a link of
// another user and for what is no regular file.
struct Target {
  std::string file, temporary;
};
Target target_of(const std::string& path);

// Everything, or RunError.
void write_all(const Descriptor& file, const std::string& path, std::string_view text);

// A folder of this user alone, made when missing. Throws RunError for a link and for another user's.
void make_own_folder(const std::string& path);

}  // namespace polymio::driver
