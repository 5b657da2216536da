// SPDX-License-Identifier: MIT
#include "db/table.h"

#include <algorithm>

#include "base/hash.h"
#include "db/record_text.h"

namespace polymio {
namespace {

constexpr std::size_t kCountAtOnce = 16384;  // lines per call of live(): about two milliseconds

}  // namespace

std::size_t HashLists::find(std::uint64_t hash) const {
  if (heads_.empty()) return kNone;
  std::size_t at = heads_[hash & (heads_.size() - 1)];
  while (at != kNone && nodes_[at].hash != hash) at = nodes_[at].next;
  return at;
}

void HashLists::link(std::size_t node) {
  std::size_t& head = heads_[nodes_[node].hash & (heads_.size() - 1)];
  nodes_[node].next = head;
  head = node;
}

void HashLists::add(std::uint64_t hash, std::size_t value) {
  nodes_.push_back({hash, value, kNone});
  if (nodes_.size() <= heads_.size()) return link(nodes_.size() - 1);
  heads_.assign(std::max<std::size_t>(64, 4 * heads_.size()), kNone);
  for (std::size_t i = 0; i < nodes_.size(); ++i) link(i);
}

std::vector<std::size_t> HashLists::of(std::uint64_t hash, std::size_t limit) const {
  std::vector<std::size_t> values;
  for (std::size_t at = find(hash); at != kNone && values.size() < limit; at = nodes_[at].next)
    if (nodes_[at].hash == hash) values.push_back(nodes_[at].value);
  std::reverse(values.begin(), values.end());
  return values;
}

void Table::add(std::string_view line) {
  keys_.add(content_hash(line.substr(0, line.find(' '))), lines_.size());
  lines_.push_back(line);
}

Table::Lines Table::lines_at(const std::vector<std::size_t>& indices) const {
  Lines lines;
  for (const std::size_t i : indices) lines.push_back(lines_[i]);
  return lines;
}

Table::Lines Table::of_key(std::string_view field) const {
  Lines lines = lines_at(keys_.of(content_hash(field)));
  std::erase_if(lines, [&](std::string_view line) { return line.substr(0, line.find(' ')) != field; });
  return lines;
}

void Table::index_families() {
  for (; families_end_ < lines_.size(); ++families_end_) {
    const Fields fields = split_fields(lines_[families_end_]);
    const auto kind = kind_of(fields);
    if (kind == RecordKind::kErased) {
      erasures_.push_back(families_end_);
    } else if (kind && fields.count == kFields) {
      const std::uint64_t family = content_hash(fields.field[kFamily]);
      if (kind == RecordKind::kQuarantined) quarantines_.add(family, families_end_);
      if (kind <= RecordKind::kTuned) finds_.add(family, families_end_);
    }
  }
}

Table::Lines Table::finds_of_family(std::string_view field, std::size_t limit) {
  index_families();
  std::vector<std::size_t> indices = finds_.of(content_hash(field), limit);
  if (indices.empty()) return {};
  const auto since = std::lower_bound(erasures_.begin(), erasures_.end(), indices.front());
  const auto middle = static_cast<std::ptrdiff_t>(indices.size());
  indices.insert(indices.end(), since, erasures_.end());
  std::inplace_merge(indices.begin(), indices.begin() + middle, indices.end());
  return lines_at(indices);
}

Table::Lines Table::quarantines_of_family(std::string_view field) {
  index_families();
  return lines_at(quarantines_.of(content_hash(field)));
}

std::size_t Table::live() {
  const std::size_t end = std::min(lines_.size(), live_end_ + kCountAtOnce);
  for (; live_end_ < end; ++live_end_) count(lines_[live_end_]);
  return live_ + (lines_.size() - live_end_);
}

void Table::count(std::string_view line) {
  const Fields fields = split_fields(line);
  const auto kind = kind_of(fields);
  if (kind == RecordKind::kErased) return;
  if (kind == RecordKind::kTuned) {
    const auto search = trials_.find(IdentityHash()(search_identity(fields)));
    if (search != trials_.end()) {
      live_ -= search->second;
      trials_.erase(search);
    }
  }
  if (kind) {
    const std::uint64_t hash = IdentityHash()(identity(fields, *kind));
    if (identities_.contains(hash)) return;
    identities_.add(hash, 0);
    if (*kind == RecordKind::kTrial || *kind == RecordKind::kFailed) ++trials_[IdentityHash()(search_identity(fields))];
  }
  ++live_;
}

}  // namespace polymio
