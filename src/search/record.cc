// SPDX-License-Identifier: MIT
#include "search/record.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <unordered_set>
#include <vector>

#include "base/env.h"
#include "base/log.h"
#include "base/process_mutex.h"
#include "db/journal.h"

namespace polymio::search {
namespace {

class Recorder {
 public:
  explicit Recorder(std::string path) : path_(std::move(path)) { read(); }

  void add(const std::string& line) {
    const std::scoped_lock lock(mutex_);
    if (broken_ || !seen_.insert(line).second) return;
    const File file(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
    if (!file) return fail();
    // Who was left waiting by an earlier call does not wait again.
    const auto patience = std::chrono::seconds(waiting_.empty() ? 1 : 0);
    waiting_.push_back(line);
    if (lock_file(file.fd(), LOCK_EX, std::chrono::steady_clock::now() + patience) == EWOULDBLOCK)
      return log::info("{} is locked by others: {} lines wait for the next problem", path_, waiting_.size());
    std::string text = read() ? "\n" : "";  // others may have written them meanwhile, or died while writing
    const std::size_t empty = text.size();
    for (const std::string& next : waiting_)
      if (!written_.contains(next)) text += next + "\n";
    waiting_.clear();
    if (text.size() == empty) return;
    if (::write(file.fd(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) fail();
  }

 private:
  /// Whether the last line has no end.
  bool read() {
    std::ifstream file(path_);
    file.seekg(read_);
    std::string line;
    while (std::getline(file, line) && !file.eof()) {
      written_.insert(line);
      read_ += static_cast<std::streamoff>(line.size() + 1);
    }
    return !line.empty();
  }

  void fail() {
    broken_ = true;
    log::warn_once("record", "{}={} cannot be written: {}; problems are not recorded", env::kRecord.name, path_,
                   std::strerror(errno));
  }

  ProcessMutex mutex_;
  std::string path_;
  std::streamoff read_ = 0;
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
