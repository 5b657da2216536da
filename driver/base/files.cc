// Uses system calls: streams support neither O_EXCL nor O_NOFOLLOW.
// SPDX-License-Identifier: MIT
#include "driver/base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "driver/base/library.h"

namespace polymio::driver {
namespace {

constexpr const char* kNotRegular = "it is not a regular file";

std::string error_text(int error) {
  if (error == ENXIO) return kNotRegular;  // a socket, or a fifo without a reader
  if (error == ELOOP) return "it is a symbolic link, which is not followed here";
  return std::strerror(error);
}

[[noreturn]] void cannot(const char* action, const std::string& path, const std::string& why) {
  throw RunError(fmt::format("cannot {} '{}': {}", action, path, why));
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) close(fd_);
}

std::string open_regular(const std::string& path, int flags, Descriptor& file) {
  flags |= O_CLOEXEC | O_NONBLOCK;  // do not block on a fifo
  Descriptor opened(open(path.c_str(), flags & ~O_CREAT));
  if (!opened && errno == ENOENT && (flags & O_CREAT) != 0) {
    opened = Descriptor(open(path.c_str(), flags | O_EXCL | O_NOFOLLOW, 0666));
    if (!opened && errno == EEXIST) errno = ELOOP;
  }
  struct stat info {};
  if (!opened || fstat(opened.get(), &info) != 0) return error_text(errno);
  if (S_ISDIR(info.st_mode)) return "it is a directory";
  if (!S_ISREG(info.st_mode)) return kNotRegular;
  file = std::move(opened);
  return "";
}

std::size_t read_some(const Descriptor& file, const std::string& path, void* memory, std::size_t most) {
  std::size_t done = 0;
  while (done < most) {
    const ssize_t got = pread(file.get(), static_cast<char*>(memory) + done, most - done, static_cast<off_t>(done));
    if (got < 0 && errno != EINTR) cannot("read", path, std::strerror(errno));
    if (got == 0) break;
    if (got > 0) done += static_cast<std::size_t>(got);
  }
  return done;
}

std::string read_whole(const std::string& path, std::uint64_t most) {
  Descriptor file;
  if (const std::string why = open_regular(path, O_RDONLY, file); !why.empty()) cannot("read", path, why);
  struct stat info {};
  if (fstat(file.get(), &info) != 0) cannot("read", path, std::strerror(errno));
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (size > most) cannot("read", path, fmt::format("it has {} bytes, allowed: {}", size, most));
  std::string text(size, '\0');
  text.resize(read_some(file, path, text.data(), text.size()));
  return text;
}

Target target_of(const std::string& path) {
  std::string file = path;
  struct stat info {};
  if (lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode)) {
    if (info.st_uid != geteuid() && info.st_uid != 0) cannot("write", path, "it is another user's symbolic link");
    std::error_code error;
    file = std::filesystem::weakly_canonical(path, error).string();
    if (error) cannot("write", path, error.message());
  }
  if (stat(file.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) cannot("write", path, kNotRegular);
  return {file, fmt::format("{}.{}.tmp", file, static_cast<long>(getpid()))};
}

void write_whole(const std::string& path, std::string_view text) {
  const Target target = target_of(path);
  struct stat old {};
  const bool exists = stat(target.file.c_str(), &old) == 0;
  unlink(target.temporary.c_str());  // left by a killed process
  const Descriptor file(
      open(target.temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, exists ? 0600 : 0666));
  if (!file) cannot("write", path, std::strerror(errno));
  try {
    write_all(file, path, text);
    if (exists && fchmod(file.get(), old.st_mode & 07777) != 0) cannot("write", path, std::strerror(errno));
    if (std::rename(target.temporary.c_str(), target.file.c_str()) != 0) cannot("write", path, std::strerror(errno));
  } catch (...) {
    unlink(target.temporary.c_str());
    throw;
  }
}

void write_all(const Descriptor& file, const std::string& path, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = write(file.get(), text.data(), text.size());
    if (put < 0 && errno != EINTR) cannot("write", path, std::strerror(errno));
    if (put > 0) text.remove_prefix(static_cast<std::size_t>(put));
  }
}

void make_own_folder(const std::string& path) {
  if (mkdir(path.c_str(), 0700) == 0) return;
  const int error = errno;
  struct stat info {};
  if (error != EEXIST || lstat(path.c_str(), &info) != 0) cannot("make", path, std::strerror(error));
  if (!S_ISDIR(info.st_mode))
    cannot("make", path, "it exists and is not a folder, allowed: nothing or a folder of this user");
  if (info.st_uid != geteuid()) cannot("make", path, "it is another user's folder, allowed: a folder of this user");
}

}  // namespace polymio::driver
