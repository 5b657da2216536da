// An append-only text file of records that processes share: one record per line, after its checksum. Appenders take a
// shared flock on the file; compaction takes an exclusive one and replaces the file by rename. On file systems whose
// locks are unreliable every host appends to a file of its own. I/O errors do not throw: they give one warning and the
// result false.
// SPDX-License-Identifier: MIT
#pragma once
#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "db/text_file.h"

namespace polymio {

/// Not thread-safe; processes and objects may share a path.
class Journal {
 public:
  enum class Sharing { kDetect, kPerHost };
  using Visitor = std::function<void(std::string_view record)>;
  using Rewrite = std::function<std::vector<std::string_view>(std::vector<std::string_view> records)>;

  /// `header` is the comment that starts a new file. Does not access the file yet.
  Journal(std::filesystem::path path, std::string header, Sharing sharing = Sharing::kDetect);

  /// Visits the records added since the last call, in file order; their text stays valid. If a file was replaced or
  /// shortened, the text of all earlier records is freed, `restart` is called, and every record is visited again.
  void read_new(const std::function<void()>& restart, const Visitor& visit);

  /// Appends records (without line breaks) with one write; creates the folder if missing. After the first failure the
  /// journal is not written again. A lock that another process holds for longer than `patience` is not a failure: the
  /// result is false and problem() stays empty.
  bool append(std::span<const std::string> records, std::chrono::milliseconds patience = std::chrono::seconds(2));

  /// Replaces all records by `rewrite(records)`. False if another process holds the lock, with one file per host, or on
  /// failure.
  bool compact(const Rewrite& rewrite);

  const std::filesystem::path& path() const { return path_; }

  /// The files of the journal: one, or one per host.
  std::vector<std::filesystem::path> files();

  /// Why the journal is not written after a failure, else empty.
  const std::string& problem() const { return problem_; }

 private:
  /// Text in chunks whose addresses do not change.
  class Arena {
   public:
    /// Free bytes of the last chunk, at least kLongestLine.
    std::pair<char*, std::size_t> room();
    void use(std::size_t bytes) { used_ += bytes; }

   private:
    std::vector<std::unique_ptr<char[]>> chunks_;
    std::size_t used_ = 0;  // of the last chunk
  };

  /// A file that is being followed. The open descriptor prevents reuse of its inode number.
  struct Tail {
    std::filesystem::path path;
    File file;
    dev_t device = 0;
    ino_t inode = 0;
    off_t offset = 0;
  };

  void decide_sharing();
  void list_tails();
  bool must_restart(const Tail& tail) const;
  void follow(Tail& tail, const Visitor& visit);
  static off_t scan(int fd, off_t offset, Arena& arena, const Visitor& visit);
  std::filesystem::path own_path() const;
  File open_for_append(std::chrono::milliseconds patience);
  bool failed(const char* action, int error);

  std::filesystem::path path_;
  std::string header_;
  bool per_host_;
  bool decided_;
  std::string problem_;
  std::vector<Tail> tails_;
  Arena text_;
};

}  // namespace polymio
