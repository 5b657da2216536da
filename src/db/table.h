// Lines of one layer of the database, found by key and by family. Only views: the text is kept elsewhere.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace polymio {

/// Numbers listed by 64-bit hashes.
class HashLists {
 public:
  void add(std::uint64_t hash, std::size_t value);
  /// The last `limit`, in the order of adding.
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
  std::vector<std::size_t> heads_;  // a power of two; the newest node of each bucket
};

/// Adding costs one hash; everything else is worked out when first asked for.
class Table {
 public:
  using Lines = std::vector<std::string_view>;

  void add(std::string_view line);
  std::size_t size() const { return lines_.size(); }

  /// Lines whose first word this is, oldest first.
  Lines of_key(std::string_view field) const;

  /// The newest `limit` find records of a family, and the erasures since.
  Lines finds_of_family(std::string_view field, std::size_t limit);

  Lines quarantines_of_family(std::string_view field);

  /// About how many lines a compaction would keep. Looks at some thousand lines a call; those that no call has
  /// reached yet count as kept.
  std::size_t live();

 private:
  void count(std::string_view line);
  void index_families();
  Lines lines_at(const std::vector<std::size_t>& indices) const;

  Lines lines_;
  HashLists keys_, finds_, quarantines_, identities_;
  std::vector<std::size_t> erasures_;
  std::size_t families_end_ = 0, live_end_ = 0;  // how many lines are worked in
  std::size_t live_ = 0;
  std::unordered_map<std::uint64_t, std::size_t> trials_;  // of searches that are not completed
};

}  // namespace polymio
