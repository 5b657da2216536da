// SPDX-License-Identifier: MIT
#include "db/text_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <thread>

#include "base/hash.h"

namespace polymio {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kHashDigits = 16;
constexpr std::string_view kDigits = "0123456789abcdef";

/// 0, or the error.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(fd, text.data(), text.size());
    if (put < 0 && errno != EINTR) return errno;
    if (put > 0) text.remove_prefix(static_cast<std::size_t>(put));
  }
  return 0;
}

}  // namespace

File::~File() {
  if (fd_ >= 0) ::close(fd_);
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
  if (line.size() <= kHashDigits || line[kHashDigits] != ' ') return false;
  record = line.substr(kHashDigits + 1);
  const std::uint64_t hash = content_hash(record);
  for (std::size_t i = 0; i < kHashDigits; ++i)
    if (line[i] != kDigits[hash >> (60 - 4 * i) & 15]) return false;
  return true;
}

int read_file(const fs::path& path, std::string& text) {
  // NONBLOCK: opening a fifo must not wait for a writer.
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info {};
  if (!file || ::fstat(file.fd(), &info) != 0) return errno;
  if (S_ISDIR(info.st_mode)) return EISDIR;
  if (!S_ISREG(info.st_mode)) return ENODEV;
  text.resize(static_cast<std::size_t>(info.st_size));
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(file.fd(), &text[size], text.size() - size);
    if (got < 0 && errno != EINTR) return errno;
    if (got == 0) break;
    if (got > 0) size += static_cast<std::size_t>(got);
  }
  text.resize(size);
  return 0;
}

int replace_file(const fs::path& path, const fs::path& temporary, std::string_view text, mode_t mode) {
  ::unlink(temporary.c_str());  // left by somebody who was killed
  const File file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode ? 0600 : 0666));
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
