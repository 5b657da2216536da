// SPDX-License-Identifier: MIT
#include "db/record_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_map>

#include "base/hash.h"

namespace polymio {
namespace {

constexpr std::size_t kOldFields = kFamily;  // lines of earlier writers end with the kind

template <class T>
bool parse(std::string_view word, T& out) {
  const char* end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data(), end, out);
  return error == std::errc{} && rest == end;
}

bool parse_finite(std::string_view word, auto& out) { return parse(word, out) && std::isfinite(out); }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool is_escaped(std::string_view word) {
  for (std::size_t i = 0; i < word.size(); ++i) {
    if (word[i] != '%') continue;
    if (i + 2 >= word.size() || hex_digit(word[i + 1]) < 0 || hex_digit(word[i + 2]) < 0) return false;
    i += 2;
  }
  return !word.empty();
}

std::string unescape(std::string_view word) {
  if (word == "-") return {};
  std::string out(word.size(), '\0');
  std::size_t size = 0;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const bool escaped = word[i] == '%';
    out[size++] = escaped ? static_cast<char>(hex_digit(word[i + 1]) * 16 + hex_digit(word[i + 2])) : word[i];
    if (escaped) i += 2;
  }
  out.resize(size);
  return out;
}

bool parse_log_sizes(std::string_view word, std::vector<float>& out) {
  if (word == "-") return true;
  for (;;) {
    const std::size_t comma = word.find(',');
    if (!parse_finite(word.substr(0, comma), out.emplace_back())) return false;
    if (comma == std::string_view::npos) return true;
    word.remove_prefix(comma + 1);
  }
}

/// The numbers of a record whose texts are well formed.
bool parse_record(const Words& words, FindRecord& r) {
  const auto& w = words.word;
  const auto kind = kind_of(words);
  if (!kind) return false;
  r.kind = *kind;
  const bool good = is_escaped(w[kKey]) && is_escaped(w[kSolver]) && parse(w[kVersion], r.solver_version) &&
                    parse_finite(w[kTime], r.time_us) && r.time_us >= 0 && parse(w[kWorkspace], r.workspace) &&
                    is_escaped(w[kTunePoint]) && parse(w[kUnits], r.units) && parse(w[kThreadCap], r.thread_cap);
  if (!good || words.count == kOldFields) return good;
  return is_escaped(w[kFamily]) && parse_log_sizes(w[kLogSizes], r.log_sizes) && parse_finite(w[kWork], r.work);
}

/// Which of the lines are alive, found in one pass over them.
class Survivors {
 public:
  Survivors(bool layers, std::size_t lines) : layers_(layers) { slots_.reserve(lines); }

  void add(std::size_t index, std::string_view line) {
    const Words words = split_words(line);
    FindRecord r;
    if (parse_record(words, r)) {
      add(index, words, r);
    } else if (decode_calibration(line)) {
      slots_[{words.word[0], words.word[1], words.word[2]}] = {index, 0, false, {}};
    } else {
      foreign_.push_back(index);
    }
  }

  /// In order.
  std::vector<std::size_t> indices() const {
    std::vector<std::size_t> alive = foreign_;
    for (const auto& [id, slot] : slots_)
      if (above_floor(slot)) alive.push_back(slot.index);
    std::sort(alive.begin(), alive.end());
    return alive;
  }

 private:
  struct Slot {
    std::size_t index;
    int version;
    bool measured;
    Identity group;  // whose floor counts
  };

  bool above_floor(const Slot& slot) const {
    if (floors_.empty()) return true;
    const auto floor = floors_.find(slot.group);
    return floor == floors_.end() || slot.index > floor->second;
  }

  void add(std::size_t index, const Words& words, const FindRecord& r) {
    Identity group{};
    if (r.is_find() || r.kind == RecordKind::kErased)
      group = {"find", words.word[kKey], words.word[kSolver]};
    else if (r.kind != RecordKind::kQuarantined)
      group = search_identity(words);
    if (r.kind == RecordKind::kErased) {
      floors_[group] = index;
      return;
    }
    if (r.kind == RecordKind::kTuned) floors_[search_identity(words)] = index;
    const Slot now{index, r.solver_version, r.measured(), group};
    const auto [old, first] = slots_.try_emplace(identity(words, r.kind), now);
    if (first) return;
    const Slot& before = old->second;
    const bool weaker = before.measured && r.kind == RecordKind::kPredicted && before.version == now.version;
    const bool older = layers_ && r.is_find() && before.version > now.version;
    if (!(weaker || older) || !above_floor(before)) old->second = now;
  }

  const bool layers_;
  std::unordered_map<Identity, Slot, IdentityHash> slots_;
  std::unordered_map<Identity, std::size_t, IdentityHash> floors_;  // what is older is dead
  std::vector<std::size_t> foreign_;
};

}  // namespace

std::string escape_word(std::string_view text) {
  if (text.empty()) return "-";
  if (text == "-") return "%2D";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte > 0x20 && byte < 0x7f && c != '%' && c != '@')
      out += c;
    else
      out += fmt::format("%{:02X}", byte);
  }
  return out;
}

Words split_words(std::string_view line) {
  Words words;
  while (words.count < kFields) {
    const std::size_t end = line.find(' ');
    words.word[words.count++] = line.substr(0, end);
    if (end == std::string_view::npos) break;
    line.remove_prefix(end + 1);
  }
  return words;
}

std::optional<RecordKind> kind_of(const Words& words) {
  if (words.count != kOldFields && words.count != kFields) return std::nullopt;
  const std::string_view word = words.word[kKind];
  if (word.size() != 1 || word[0] < '0' || word[0] > '6' || words.word[kKey].starts_with('@')) return std::nullopt;
  return static_cast<RecordKind>(word[0] - '0');
}

Identity identity(const Words& words, RecordKind kind) {
  const auto& w = words.word;
  switch (kind) {
    case RecordKind::kTrial:
    case RecordKind::kFailed:
      return {"trial", w[kKey], w[kSolver], w[kVersion], w[kUnits], w[kThreadCap], w[kTunePoint]};
    case RecordKind::kQuarantined: return {"quarantined", w[kFamily], w[kSolver], w[kVersion]};
    default: return {"find", w[kKey], w[kSolver], w[kUnits], w[kThreadCap]};
  }
}

Identity search_identity(const Words& words) {
  const auto& w = words.word;
  return {"search", w[kKey], w[kSolver], w[kVersion], w[kUnits], w[kThreadCap]};
}

std::size_t IdentityHash::operator()(const Identity& id) const {
  std::uint64_t hash = 0;
  for (const std::string_view word : id)
    if (!word.empty()) hash = mix(hash, content_hash(word));
  return hash;
}

std::vector<std::string_view> live_lines(const std::vector<std::string_view>& lines, bool layers) {
  Survivors survivors(layers, lines.size());
  for (std::size_t i = 0; i < lines.size(); ++i) survivors.add(i, lines[i]);
  std::vector<std::string_view> alive;
  for (const std::size_t i : survivors.indices()) alive.push_back(lines[i]);
  return alive;
}

std::string encode(const Calibration& c) {
  return fmt::format("{} {} {} {} {}", kCalibrationWord, c.units, c.threads, c.fp32_gflops, c.bandwidth_gbs);
}

std::optional<Calibration> decode_calibration(std::string_view line) {
  const Words words = split_words(line);
  const auto& w = words.word;
  Calibration c;
  const bool good = words.count >= 5 && w[0] == kCalibrationWord && parse(w[1], c.units) && parse(w[2], c.threads) &&
                    parse_finite(w[3], c.fp32_gflops) && parse_finite(w[4], c.bandwidth_gbs);
  return good && c.fp32_gflops > 0 && c.bandwidth_gbs > 0 ? std::optional(c) : std::nullopt;
}

std::string encode(const FindRecord& r) {
  std::string log_sizes;
  for (const float v : r.log_sizes)
    log_sizes += fmt::format("{}{}", log_sizes.empty() ? "" : ",", std::round(static_cast<double>(v) * 1000) / 1000);
  // Where nothing was measured the time may be infinite.
  const double time = r.is_find() || std::isfinite(r.time_us) ? r.time_us : 0;
  return fmt::format("{} {} {} {} {} {} {} {} {} {} {} {}", escape_word(r.key), escape_word(r.solver), r.solver_version,
                     time, r.workspace, escape_word(r.tune_point), r.units, r.thread_cap, static_cast<int>(r.kind),
                     escape_word(r.family), log_sizes.empty() ? "-" : log_sizes, r.work);
}

std::optional<FindRecord> decode(std::string_view text) {
  FindRecord r;
  const Words words = split_words(text);
  if (!parse_record(words, r)) return std::nullopt;
  r.key = unescape(words.word[kKey]);
  r.solver = unescape(words.word[kSolver]);
  r.tune_point = unescape(words.word[kTunePoint]);
  if (words.count == kFields) r.family = unescape(words.word[kFamily]);
  return r;
}

}  // namespace polymio
