// An append-only text file of records shared by many processes: one record a line behind its
// checksum. Appenders share an flock on the file itself; compaction takes it alone and replaces the
// file by rename. Where locks cannot be trusted every host appends to a file of its own.
// No I/O failure throws: it is one warning and a false.
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

/// Not thread-safe; any number of processes and of objects may use one path.
class Journal {
 public:
  enum class Sharing { kDetect, kPerHost };
  using Visitor = std::function<void(std::string_view record)>;
  using Rewrite = std::function<std::vector<std::string_view>(std::vector<std::string_view> records)>;

  /// `header` is the comment that starts a new file. Nothing is touched until the first call below.
  Journal(std::filesystem::path path, std::string header, Sharing sharing = Sharing::kDetect);

  /// Visits the records that appeared since the last call, in file order; their text is kept. When a file
  /// was replaced or shortened, `restart` is called first, when the text of old records is gone, and every
  /// record is visited again.
  void read_new(const std::function<void()>& restart, const Visitor& visit);

  /// Appends records (no line breaks inside) with one write; makes the folder when missing. After
  /// the first failure the journal is not written any more. That somebody else has locked the file for longer
  /// than `patience` is none: then this is false without a problem().
  bool append(std::span<const std::string> records, std::chrono::milliseconds patience = std::chrono::seconds(2));

  /// Replaces the records by `rewrite(all of them)`. False when somebody else holds the file, when
  /// every host has its own, or on failure.
  bool compact(const Rewrite& rewrite);

  const std::filesystem::path& path() const { return path_; }

  /// The files read so far or to be read: one, or one for each host.
  std::vector<std::filesystem::path> files();

  /// Why nothing is written any more; empty as long as all is well.
  const std::string& problem() const { return problem_; }

 private:
  /// Text in chunks that stay where they are.
  class Arena {
   public:
    /// Free bytes behind what is used: at least as many as the longest line that is looked at.
    std::pair<char*, std::size_t> room();
    void use(std::size_t bytes) { used_ += bytes; }

   private:
    std::vector<std::unique_ptr<char[]>> chunks_;
    std::size_t used_ = 0;  // of the last chunk
  };

  /// One file being followed. The open descriptor keeps the inode number from being reused.
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
