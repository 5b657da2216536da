// Helpers for the library's files: open only regular files of bounded size, create without following links, lines with
// checksums, read and replace whole files.
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

/// Larger files are not read: a sparse file is cheap to create at any size, but reading it exhausts memory.
inline constexpr std::uint64_t kLargestFile = std::uint64_t{1} << 30;
/// Longer lines are not records.
inline constexpr std::size_t kLongestLine = std::size_t{1} << 16;

/// Hexadecimal digits of a line's checksum.
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

/// Opens a regular file without blocking. Empty with errno set otherwise: EISDIR for a folder, ENODEV for other file
/// types. O_CREAT does not create the target of a dangling link: that is ELOOP.
File open_regular(const std::filesystem::path& path, int flags, mode_t mode = 0666);

/// The text of an error of a function in this file; `most` is the size limit that the call had.
std::string file_error(int error, std::uint64_t most = kLargestFile);

/// Why code in the file or folder must not be run: users other than this one and root may write it. Empty if they may
/// not.
std::string why_untrusted(const struct stat& info);

/// Whether the path still names the open file.
bool names_open_file(const std::filesystem::path& path, int fd);

/// Tries an flock, LOCK_SH or LOCK_EX, until `deadline`. Polls, since the holder may be a stopped process. Returns 0 or
/// the error; EWOULDBLOCK at the deadline.
int lock_file(int fd, int operation, std::chrono::steady_clock::time_point deadline);

/// Appends line break, checksum, blank, record, line break. The first line break ends an incomplete line of a crashed
/// writer.
void append_line(std::string& out, std::string_view record);

/// Sets `record` to the record of a line; false if the checksum is wrong.
bool open_line(std::string_view line, std::string_view& record);

/// Calls `visit(line)` for each line, including a last one without line break.
template <class Visit>
void each_line(std::string_view text, Visit&& visit) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    visit(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

/// Reads the open file from `offset` to its end. Returns 0 or the error; EOVERFLOW if it has more than `most` bytes.
int read_rest(int fd, off_t offset, std::string& text, std::uint64_t most = kLargestFile);

/// Reads a whole regular file. Returns 0 or the error.
int read_file(const std::filesystem::path& path, std::string& text, std::uint64_t most = kLargestFile);

/// Atomically replaces the content of `path`: a crash leaves the old or the new file, a failure the old one.
/// `temporary` is removed and created again, so that a link placed there is not followed. `mode` 0: that of any new
/// file. Returns 0 or the error.
int replace_file(const std::filesystem::path& path, const std::filesystem::path& temporary, std::string_view text,
                 mode_t mode);

}  // namespace polymio
