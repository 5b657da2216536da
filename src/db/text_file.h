// What the library's files share: opening nothing but regular files of bounded size, creating without following links,
// lines behind checksums, files read and replaced as a whole.
// SPDX-License-Identifier: MIT
#pragma once
#include <sys/stat.h>
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

namespace polymio {

/// A file is not read beyond this size: a sparse file of any size costs nothing to make, and everything to read.
inline constexpr std::uint64_t kLargestFile = std::uint64_t{1} << 30;
/// A longer line is no record.
inline constexpr std::size_t kLongestLine = std::size_t{1} << 16;

/// Digits of the checksum before a blank and the record.
inline constexpr std::size_t kHashDigits = 16;

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

/// Opens a regular file without waiting (a fifo has no writer, perhaps). Empty with errno set otherwise: EISDIR of a
/// folder, ENODEV of all else that is no regular file. O_CREAT makes a file that is not there yet at this very path: a
/// dangling link is ELOOP.
File open_regular(const std::filesystem::path& path, int flags, mode_t mode = 0666);

/// What the error of a function of this file means, for texts; `most` is the limit that it had.
std::string file_error(int error, std::uint64_t most = kLargestFile);

/// Why what the file or folder holds must not be run: another user may have put it there. Empty when only this user or
/// root can.
std::string why_untrusted(const struct stat& info);

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

/// Reads the open file from `offset` to its end. 0, or the error; EOVERFLOW when it is larger than `most` bytes.
int read_rest(int fd, off_t offset, std::string& text, std::uint64_t most = kLargestFile);

/// The whole of a regular file. 0, or the error.
int read_file(const std::filesystem::path& path, std::string& text, std::uint64_t most = kLargestFile);

/// Puts `text` in place of `path` such that a crash leaves either the old or the new file, and a failure
/// the old one. `temporary` is made anew: a link that somebody has planted there is not followed. Mode 0 is that of any
/// new file. 0, or the error.
int replace_file(const std::filesystem::path& path, const std::filesystem::path& temporary, std::string_view text,
                 mode_t mode);

}  // namespace polymio
