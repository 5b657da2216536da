// An index of the lines of one database layer by key and by family. Holds views; the caller owns the text.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace polymio {

/// Lists of numbers per 64-bit hash.
class HashLists {
 public:
  void add(std::uint64_t hash, std::size_t value);
  /// The last `limit` numbers of this hash, in the order in which they were added.
  std::vector<std::size_t> of(std::uint64_t hash, std::size_t limit = SIZE_MAX) const;
  bool contains(std::uint64_t hash) const { return find(hash) != kNone; }

 private:
  static constexpr std::size_t kNone = SIZE_MAX;
  struct Node {
    std::uint64_t hash;
    std::size_t value, next;
  };
  std::size_t find(std::uint64_t hash) const;
  void link(std::size_t node);

  std::vector<Node> nodes_;
  std::vector<std::size_t> heads_;  // the newest node of each bucket; the size is a power of two
};

/// Adding a line costs one hash; everything else is computed on first use.
class Table {
 public:
  using Lines = std::vector<std::string_view>;

  void add(std::string_view line);
  std::size_t size() const { return lines_.size(); }

  /// Lines with this first field, oldest first.
  Lines of_key(std::string_view field) const;

  /// The newest `limit` find records of a family, and later erasures.
  Lines finds_of_family(std::string_view field, std::size_t limit);

  Lines quarantines_of_family(std::string_view field);

  /// Estimates how many lines a compaction would keep. Each call visits some thousand lines; lines that no call has
  /// visited yet count as kept.
  std::size_t live();

 private:
  void count(std::string_view line);
  void index_families();
  Lines lines_at(const std::vector<std::size_t>& indices) const;

  Lines lines_;
  HashLists keys_, finds_, quarantines_, identities_;
  std::vector<std::size_t> erasures_;
  std::size_t families_end_ = 0, live_end_ = 0;  // number of lines that are indexed, that are counted
  std::size_t live_ = 0;
  std::unordered_map<std::uint64_t, std::size_t> trials_;  // per search that is not completed
};

}  // namespace polymio
