// SPDX-License-Identifier: MIT
#include "search/record.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/env.h"
#include "base/log.h"
#include "base/process_mutex.h"
#include "db/text_file.h"

namespace polymio::search {
namespace {

class Recorder {
 public:
  explicit Recorder(std::string path) : path_(std::move(path)) {
    const File file = open_regular(path_, O_RDONLY | O_NOFOLLOW);
    torn(file);
    if (!file && errno != ENOENT && errno != EACCES) fail();
  }

  void add(const std::string& line) {
    const std::scoped_lock lock(mutex_);
    if (broken_ || !seen_.insert(line).second) return;
    const File file = open_regular(path_, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW);
    if (!file) return fail();
    // Lines are waiting already: do not wait for the lock again.
    const auto patience = std::chrono::seconds(waiting_.empty() ? 1 : 0);
    waiting_.push_back(line);
    if (lock_file(file.fd(), LOCK_EX, std::chrono::steady_clock::now() + patience) == EWOULDBLOCK)
      return log::info("{} is locked by others: {} lines wait for the next problem", path_, waiting_.size());
    // Another process may have written these lines, or died while writing.
    std::string text = torn(open_regular(path_, O_RDONLY | O_NOFOLLOW)) ? "\n" : "";
    if (broken_) return;
    const std::size_t empty = text.size();
    for (const std::string& next : waiting_)
      if (!written_.contains(next)) text += next + "\n";
    waiting_.clear();
    if (text.size() == empty) return;
    if (::write(file.fd(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) fail();
  }

 private:
  /// Reads the lines appended since the last call. True if the last one is incomplete.
  bool torn(const File& file) {
    if (!file) return false;
    std::string text;
    if (const int error = read_rest(file.fd(), read_, text); error != 0) {
      errno = error;
      fail();
      return false;
    }
    const std::size_t end = text.rfind('\n') + 1;  // 0 without any
    each_line(std::string_view(text).substr(0, end), [this](std::string_view line) { written_.emplace(line); });
    read_ += static_cast<off_t>(end);
    return end < text.size();
  }

  void fail() {
    broken_ = true;
    log::warn_once("record", "{}={} cannot be written: {}; problems are not recorded", env::kRecord.name, path_,
                   file_error(errno));
  }

  ProcessMutex mutex_;
  std::string path_;
  off_t read_ = 0;
  std::unordered_set<std::string> seen_, written_;
  std::vector<std::string> waiting_;
  bool broken_ = false;
};

}  // namespace

void record_problem(const std::string& key) {
  // Never destroyed: handles may outlive static destruction.
  static Recorder* const recorder = [] {
    const auto path = env::text(env::kRecord);
    return path ? new Recorder(*path) : nullptr;
  }();
  if (recorder) recorder->add("MIOpenDriver " + key);
}

}  // namespace polymio::search
