// SPDX-License-Identifier: MIT
#include "db/key_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <thread>

#include "base/hash.h"
#include "base/log.h"

namespace polymio {

KeyLock::KeyLock(const std::filesystem::path& folder, const std::string& key, std::chrono::milliseconds patience) {
  if (folder.empty()) return;
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  path_ = folder / fmt::format("{:016x}.busy", content_hash(key));
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (auto interval = std::chrono::milliseconds(1);;
       interval = std::min(2 * interval, std::chrono::milliseconds(20))) {
    // Opened again in each attempt: the last holder has removed the file.
    File file = open_regular(path_, O_RDWR | O_CREAT | O_NOFOLLOW);
    const bool locked = file && ::flock(file.fd(), LOCK_EX | LOCK_NB) == 0;
    if (!locked && errno != EWOULDBLOCK && errno != EINTR) {
      log::info("no lock file {}: {}; processes do not wait for each other", path_.string(), file_error(errno));
      return;
    }
    if (locked && names_open_file(path_, file.fd())) {
      file_ = std::move(file);
      return;
    }
    waited_ = true;
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left <= left.zero()) return;
    std::this_thread::sleep_for(std::min<std::chrono::steady_clock::duration>(left, interval));
  }
}

KeyLock::~KeyLock() {
  if (!held()) return;
  ::unlink(path_.c_str());
  ::flock(file_.fd(), LOCK_UN);  // closing is not enough if a forked child has the descriptor, too
}

}  // namespace polymio
