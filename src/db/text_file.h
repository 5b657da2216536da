// What journals and packs share: an owned descriptor, lines behind checksums, files read and replaced as
// a whole.
// SPDX-License-Identifier: MIT
#pragma once
#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

namespace polymio {

/// An owned file descriptor.
class File {
 public:
  File() = default;
  explicit File(int fd) : fd_(fd) {}
  File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~File();
  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// Whether the path still leads to the open file.
bool names_open_file(const std::filesystem::path& path, int fd);

/// An flock, LOCK_SH or LOCK_EX, tried until `deadline`. Whoever holds it may be stopped, so this never waits
/// in the kernel. 0, or the error; EWOULDBLOCK when the time is over.
int lock_file(int fd, int operation, std::chrono::steady_clock::time_point deadline);

/// Appends line break, checksum, blank, record, line break. The first break ends a line that a crash tore.
void append_line(std::string& out, std::string_view record);

/// The record of a line when its checksum holds.
bool open_line(std::string_view line, std::string_view& record);

/// Calls `visit(line)` for each line; a last one without its break is a line too.
template <class Visit>
void each_line(std::string_view text, Visit&& visit) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    visit(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

/// 0, or the error; ENODEV when it is no regular file.
int read_file(const std::filesystem::path& path, std::string& text);

/// Puts `text` in place of `path` such that a crash leaves either the old or the new file, and a failure
/// the old one. Mode 0 is that of any new file. 0, or the error.
int replace_file(const std::filesystem::path& path, const std::filesystem::path& temporary, std::string_view text,
                 mode_t mode);

}  // namespace polymio
