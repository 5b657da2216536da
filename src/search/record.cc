// SPDX-License-Identifier: MIT
#include "search/record.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <unordered_set>

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
    ::flock(file.fd(), LOCK_EX);
    read();  // others may have written it meanwhile
    if (written_.contains(line)) return;
    const std::string text = line + "\n";
    if (::write(file.fd(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) fail();
  }

 private:
  void read() {
    std::ifstream file(path_);
    file.seekg(read_);
    for (std::string line; std::getline(file, line) && !file.eof();) {
      written_.insert(line);
      read_ += static_cast<std::streamoff>(line.size() + 1);
    }
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
