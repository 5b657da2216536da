// SPDX-License-Identifier: MIT
#include "db/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>

#include "base/log.h"

namespace polymio {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kChunk = std::size_t{4} << 20;

/// Whether the folder is on a file system whose locks or appends other machines may not see.
bool is_network(const fs::path& folder) {
  struct statfs info {};
  if (::statfs(folder.c_str(), &info) != 0) return false;
  constexpr std::array<std::uint32_t, 15> kNetwork = {
      0x00006969 /* nfs */,   0x0000517b /* smb */,    0xfe534d42 /* smb2 */,
      0xff534d42 /* cifs */,  0x0bd00bd0 /* lustre */, 0x00c36400 /* ceph */,
      0x5346414f /* afs */,   0x6b414653 /* kafs */,   0x01021997 /* 9p */,
      0x65735546 /* fuse */,  0x47504653 /* gpfs */,   0x19830326 /* beegfs */,
      0xaad7aaea /* panfs */, 0x01161970 /* gfs2 */,   0x7461636f /* ocfs2 */};
  const auto type = static_cast<std::uint32_t>(info.f_type);
  return std::find(kNetwork.begin(), kNetwork.end(), type) != kNetwork.end();
}

bool locks_fail(const fs::path& folder) {
  const File probe(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!probe) return false;
  return ::flock(probe.fd(), LOCK_SH | LOCK_NB) != 0 && errno != EWOULDBLOCK && errno != EINTR;
}

using Clock = std::chrono::steady_clock;

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == 0) return "localhost";
  std::string text = name.data();
  for (char& c : text)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-') c = '_';
  return text;
}

/// "name" and ".txt" of "name.txt": files of other hosts are "name.<host>.txt".
std::pair<std::string, std::string> split_name(const fs::path& path) {
  return {path.stem().string() + ".", path.extension().string()};
}

/// Writes everything in one call; a short write counts as a full disk. Returns 0 or the error.
int write_once(int fd, std::string_view text) {
  for (;;) {
    const ssize_t put = ::write(fd, text.data(), text.size());
    if (put == static_cast<ssize_t>(text.size())) return 0;
    if (put >= 0) return ENOSPC;
    if (errno != EINTR) return errno;
  }
}

void cannot_read(const fs::path& path, int error) {
  log::warn_once("find-db:" + path.string(), "find database {} cannot be read: {}", path.string(), file_error(error));
}

/// Warns if every user may write the database. Records only choose among correct solvers, so that a malicious one makes
/// calls slower at worst: such a database is used all the same, and one that a group may write without a warning.
void warn_of_others(const fs::path& path, const struct stat& file) {
  const fs::path folder = path.parent_path();
  struct stat info {};
  const bool open_folder = ::stat(folder.c_str(), &info) == 0 && (info.st_mode & S_IWOTH) && !(info.st_mode & S_ISVTX);
  if (!open_folder && !(file.st_mode & S_IWOTH)) return;
  log::warn_once("find-db-open:" + path.string(), "find database {}: every user may write {}; use chmod o-w",
                 path.string(), (open_folder ? folder : path).string());
}

}  // namespace

std::pair<char*, std::size_t> Journal::Arena::room() {
  if (chunks_.empty() || kChunk - used_ < kLongestLine) {
    chunks_.push_back(std::make_unique_for_overwrite<char[]>(kChunk));
    used_ = 0;
  }
  return {chunks_.back().get() + used_, kChunk - used_};
}

/// Visits the valid records of complete lines from `offset` on. Returns the offset after the last line break, or -1
/// with errno set.
off_t Journal::scan(int fd, off_t offset, Arena& arena, const Visitor& visit) {
  for (;;) {
    const auto [room, size] = arena.room();
    const ssize_t got = ::pread(fd, room, size, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    const std::string_view text(room, static_cast<std::size_t>(got));
    const std::size_t last = text.rfind('\n');
    if (last == std::string_view::npos && text.size() < kLongestLine) return offset;
    const std::string_view lines = text.substr(0, last == std::string_view::npos ? 0 : last + 1);
    offset += static_cast<off_t>(lines.empty() ? text.size() : lines.size());
    bool valid = false;
    each_line(lines, [&](std::string_view line) {
      std::string_view record;
      if (!open_line(line, record)) return;
      valid = true;
      visit(record);
    });
    if (valid) arena.use(lines.size());
  }
}

Journal::Journal(fs::path path, std::string header, Sharing sharing)
    : path_(std::move(path)),
      header_(std::move(header)),
      per_host_(sharing == Sharing::kPerHost),
      decided_(per_host_) {}

void Journal::decide_sharing() {
  std::error_code error;
  const fs::path folder = path_.parent_path();
  if (decided_ || !fs::is_directory(folder, error)) return;
  decided_ = true;
  per_host_ = is_network(folder) || locks_fail(folder);
  if (per_host_) log::info("find database {}: one file per host", path_.string());
}

fs::path Journal::own_path() const {
  if (!per_host_) return path_;
  const auto [stem, extension] = split_name(path_);
  return path_.parent_path() / (stem + host_name() + extension);
}

/// Adds tails for the shared file and then, in name order, for the files of all hosts.
void Journal::list_tails() {
  std::vector<fs::path> paths;
  const auto [stem, extension] = split_name(path_);
  std::error_code error;
  if (per_host_) {
    for (fs::directory_iterator it(path_.parent_path(), error), end; !error && it != end; it.increment(error)) {
      const std::string name = it->path().filename().string();
      if (name.size() > stem.size() + extension.size() && name.starts_with(stem) && name.ends_with(extension))
        paths.push_back(it->path());
    }
    std::sort(paths.begin(), paths.end());
  }
  paths.insert(paths.begin(), path_);
  for (const fs::path& path : paths) {
    const auto known = [&](const Tail& tail) { return tail.path == path; };
    if (std::none_of(tails_.begin(), tails_.end(), known)) tails_.push_back({path, {}, 0, 0, 0});
  }
}

bool Journal::must_restart(const Tail& tail) const {
  if (!tail.file) return false;
  struct stat now {};
  if (::stat(tail.path.c_str(), &now) != 0) return errno == ENOENT;
  return now.st_dev != tail.device || now.st_ino != tail.inode || now.st_size < tail.offset;
}

std::vector<fs::path> Journal::files() {
  decide_sharing();
  list_tails();
  std::vector<fs::path> paths;
  for (const Tail& tail : tails_) paths.push_back(tail.path);
  return paths;
}

void Journal::follow(Tail& tail, const Visitor& visit) {
  if (!tail.file) {
    File file = open_regular(tail.path, O_RDONLY);
    if (!file && (errno == ENOENT || errno == ENOTDIR)) return;
    struct stat info {};
    if (!file || ::fstat(file.fd(), &info) != 0) return cannot_read(tail.path, errno);
    warn_of_others(tail.path, info);
    tail.file = std::move(file);
    tail.device = info.st_dev;
    tail.inode = info.st_ino;
    tail.offset = 0;
  }
  struct stat info {};
  if (::fstat(tail.file.fd(), &info) != 0 || info.st_size == tail.offset) return;
  if (static_cast<std::uint64_t>(info.st_size) > kLargestFile) return cannot_read(tail.path, EOVERFLOW);
  const off_t end = scan(tail.file.fd(), tail.offset, text_, visit);
  if (end < 0) return cannot_read(tail.path, errno);
  tail.offset = end;
}

void Journal::read_new(const std::function<void()>& restart, const Visitor& visit) {
  decide_sharing();
  if (tails_.empty() || per_host_) list_tails();
  const auto changed = [this](const Tail& tail) { return must_restart(tail); };
  if (std::any_of(tails_.begin(), tails_.end(), changed)) {
    tails_.clear();
    text_ = {};
    list_tails();
    restart();
  }
  for (Tail& tail : tails_) follow(tail, visit);
}

bool Journal::failed(const char* action, int error) {
  problem_ = fmt::format("cannot {}: {}", action, file_error(error));
  log::warn_once("find-db:" + own_path().string(),
                 "find database {}: {}; new results stay in memory (MIOPEN_USER_DB_PATH chooses another folder)",
                 own_path().string(), problem_);
  return false;
}

/// Opens and locks the file, which still has its path then; empty with errno set otherwise. Every append opens the file
/// again, so that a forked child does not share its parent's lock.
File Journal::open_for_append(std::chrono::milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  // The previous file stays open during the next attempt: closing a file that a compaction has replaced frees its
  // blocks, which may wait for the fsync of the next compaction, and so on.
  File last;
  for (;;) {
    const fs::path path = own_path();
    File file = open_regular(path, O_RDWR | O_APPEND | O_CREAT);
    if (!file) return {};
    const int error = lock_file(file.fd(), LOCK_SH, Clock::now());
    if (per_host_ || (error == 0 && names_open_file(path, file.fd()))) return file;
    per_host_ = error != 0 && error != EWOULDBLOCK;
    if (Clock::now() >= deadline) break;
    if (error == EWOULDBLOCK) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    last = std::move(file);
  }
  errno = EWOULDBLOCK;
  return {};
}

bool Journal::append(std::span<const std::string> records, std::chrono::milliseconds patience) {
  if (!problem_.empty()) return false;
  std::error_code error;
  fs::create_directories(path_.parent_path(), error);
  if (error) return failed("make its folder", error.value());
  decide_sharing();
  const File file = open_for_append(patience);
  if (!file) return errno != EWOULDBLOCK && failed("open it", errno);
  struct stat info {};
  std::string text;
  if (::fstat(file.fd(), &info) != 0) return failed("open it", errno);
  if (static_cast<std::uint64_t>(info.st_size) > kLargestFile) return failed("append to it", EOVERFLOW);
  if (info.st_size == 0) text = "# " + header_ + "\n";
  for (const std::string& record : records) append_line(text, record);
  const int write_error = write_once(file.fd(), text);
  return write_error == 0 || failed("write it", write_error);
}

bool Journal::compact(const Rewrite& rewrite) {
  decide_sharing();
  if (!problem_.empty() || per_host_) return false;
  // NOFOLLOW: the rename would replace a symbolic link.
  const File file(::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info {};
  if (!file || ::fstat(file.fd(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  if (static_cast<std::uint64_t>(info.st_size) > kLargestFile) return false;
  if (::flock(file.fd(), LOCK_EX | LOCK_NB) != 0 || !names_open_file(path_, file.fd())) return false;
  Arena arena;
  std::vector<std::string_view> records;
  if (scan(file.fd(), 0, arena, [&](std::string_view record) { records.push_back(record); }) < 0) return false;
  std::string text = "# " + header_ + "\n";
  for (const std::string_view record : rewrite(std::move(records))) append_line(text, record);
  const int error = replace_file(path_, path_.string() + ".tmp", text, info.st_mode);
  if (error == 0) return true;
  log::warn_once("find-db-compact:" + path_.string(), "find database {}: cannot compact: {}", path_.string(),
                 std::strerror(error));
  return false;
}

}  // namespace polymio
