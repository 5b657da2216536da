// SPDX-License-Identifier: MIT
#include "db/text_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <thread>

#include "base/hash.h"

namespace polymio {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDigits = "0123456789abcdef";

/// Returns 0 or the error.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(fd, text.data(), text.size());
    if (put < 0 && errno != EINTR) return errno;
    if (put > 0) text.remove_prefix(static_cast<std::size_t>(put));
  }
  return 0;
}

constexpr int kMostAttempts = 1000;  // to open a file that others create and remove all the time

}  // namespace

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

File open_regular(const fs::path& path, int flags, mode_t mode) {
  // NONBLOCK: opening a fifo must not wait for the other end.
  flags |= O_CLOEXEC | O_NONBLOCK;
  const bool create = (flags & O_CREAT) != 0;
  File file(::open(path.c_str(), flags & ~O_CREAT));
  for (int attempt = 0; create && !file && errno == ENOENT && attempt < kMostAttempts; ++attempt) {
    file = File(::open(path.c_str(), flags | O_EXCL | O_NOFOLLOW, mode));
    if (file || errno != EEXIST) break;
    // Another process has created it, and may remove it before the next line, or it is a dangling link.
    file = File(::open(path.c_str(), flags & ~O_CREAT));
    struct stat link {};
    if (!file && errno == ENOENT && ::lstat(path.c_str(), &link) == 0 && S_ISLNK(link.st_mode)) errno = ELOOP;
  }
  struct stat info {};
  if (!file || ::fstat(file.fd(), &info) != 0) return {};
  if (S_ISREG(info.st_mode)) return file;
  file = {};
  errno = S_ISDIR(info.st_mode) ? EISDIR : ENODEV;
  return {};
}

std::string file_error(int error, std::uint64_t most) {
  switch (error) {
    case ENODEV:
    case ENXIO: return "it is not a regular file";
    case ELOOP: return "it is a symbolic link, which is not followed here";
    case EOVERFLOW: return fmt::format("it is larger than {} MiB, the most that is read or written", most >> 20);
    default: return std::strerror(error);
  }
}

std::string why_untrusted(const struct stat& info) {
  if (info.st_uid != ::geteuid() && info.st_uid != 0)
    return fmt::format("it belongs to user {}, not to this one ({})", info.st_uid, ::geteuid());
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return fmt::format("its mode {:o} allows others to write it", info.st_mode & 07777);
  return "";
}

bool names_open_file(const fs::path& path, int fd) {
  struct stat named {
  }, opened{};
  return ::stat(path.c_str(), &named) == 0 && ::fstat(fd, &opened) == 0 && named.st_dev == opened.st_dev &&
         named.st_ino == opened.st_ino;
}

int lock_file(int fd, int operation, std::chrono::steady_clock::time_point deadline) {
  while (::flock(fd, operation | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return errno;
    if (std::chrono::steady_clock::now() >= deadline) return EWOULDBLOCK;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return 0;
}

void append_line(std::string& out, std::string_view record) {
  const std::uint64_t hash = content_hash(record);
  out += '\n';
  for (int shift = 60; shift >= 0; shift -= 4) out += kDigits[hash >> shift & 15];
  out += ' ';
  out += record;
  out += '\n';
}

bool open_line(std::string_view line, std::string_view& record) {
  if (line.size() <= kHashDigits || line.size() > kLongestLine || line[kHashDigits] != ' ') return false;
  record = line.substr(kHashDigits + 1);
  const std::uint64_t hash = content_hash(record);
  for (std::size_t i = 0; i < kHashDigits; ++i)
    if (line[i] != kDigits[hash >> (60 - 4 * i) & 15]) return false;
  return true;
}

int read_rest(int fd, off_t offset, std::string& text, std::uint64_t most) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return errno;
  if (static_cast<std::uint64_t>(info.st_size) > most) return EOVERFLOW;
  text.resize(static_cast<std::size_t>(std::max<off_t>(info.st_size - offset, 0)));
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::pread(fd, &text[size], text.size() - size, offset + static_cast<off_t>(size));
    if (got < 0 && errno != EINTR) return errno;
    if (got == 0) break;
    if (got > 0) size += static_cast<std::size_t>(got);
  }
  text.resize(size);
  return 0;
}

int read_file(const fs::path& path, std::string& text, std::uint64_t most) {
  const File file = open_regular(path, O_RDONLY);
  return file ? read_rest(file.fd(), 0, text, most) : errno;
}

int replace_file(const fs::path& path, const fs::path& temporary, std::string_view text, mode_t mode) {
  ::unlink(temporary.c_str());  // left behind by a killed process
  const File file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode ? 0600 : 0666));
  if (!file) return errno;
  int error = write_all(file.fd(), text);
  if (error == 0 && ((mode && ::fchmod(file.fd(), mode & 07777) != 0) || ::fsync(file.fd()) != 0 ||
                     ::rename(temporary.c_str(), path.c_str()) != 0))
    error = errno;
  if (error != 0) {
    ::unlink(temporary.c_str());
    return error;
  }
  const fs::path parent = path.parent_path();
  const File folder(::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder) ::fsync(folder.fd());
  return 0;
}

}  // namespace polymio
