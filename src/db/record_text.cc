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

constexpr std::size_t kOldFields = kFamily;  // lines of older versions end with the kind

template <class T>
bool parse(std::string_view field, T& out) {
  const char* end = field.data() + field.size();
  const auto [rest, error] = std::from_chars(field.data(), end, out);
  return error == std::errc{} && rest == end;
}

bool parse_finite(std::string_view field, auto& out) { return parse(field, out) && std::isfinite(out); }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool is_escaped(std::string_view field) {
  for (std::size_t i = 0; i < field.size(); ++i) {
    if (field[i] != '%') continue;
    if (i + 2 >= field.size() || hex_digit(field[i + 1]) < 0 || hex_digit(field[i + 2]) < 0) return false;
    i += 2;
  }
  return !field.empty();
}

std::string unescape(std::string_view field) {
  if (field == "-") return {};
  std::string out(field.size(), '\0');
  std::size_t size = 0;
  for (std::size_t i = 0; i < field.size(); ++i) {
    const bool escaped = field[i] == '%';
    out[size++] = escaped ? static_cast<char>(hex_digit(field[i + 1]) * 16 + hex_digit(field[i + 2])) : field[i];
    if (escaped) i += 2;
  }
  out.resize(size);
  return out;
}

bool parse_log_sizes(std::string_view field, std::vector<float>& out) {
  if (field == "-") return true;
  for (;;) {
    const std::size_t comma = field.find(',');
    if (!parse_finite(field.substr(0, comma), out.emplace_back())) return false;
    if (comma == std::string_view::npos) return true;
    field.remove_prefix(comma + 1);
  }
}

/// Parses the numbers of a record.
bool parse_record(const Fields& fields, FindRecord& r) {
  const auto& w = fields.field;
  const auto kind = kind_of(fields);
  if (!kind) return false;
  r.kind = *kind;
  const bool valid = is_escaped(w[kKey]) && is_escaped(w[kSolver]) && parse(w[kVersion], r.solver_version) &&
                     parse_finite(w[kTime], r.time_us) && r.time_us >= 0 && parse(w[kWorkspace], r.workspace) &&
                     is_escaped(w[kTunePoint]) && parse(w[kUnits], r.units) && parse(w[kThreadCap], r.thread_cap);
  if (!valid || fields.count == kOldFields) return valid;
  return is_escaped(w[kFamily]) && parse_log_sizes(w[kLogSizes], r.log_sizes) && parse_finite(w[kWork], r.work);
}

/// Finds the live lines in one pass.
class LiveLines {
 public:
  LiveLines(bool layers, std::size_t lines) : layers_(layers) { slots_.reserve(lines); }

  void add(std::size_t index, std::string_view line) {
    const Fields fields = split_fields(line);
    FindRecord r;
    if (parse_record(fields, r)) {
      add(index, fields, r);
    } else if (decode_calibration(line)) {
      slots_[{fields.field[0], fields.field[1], fields.field[2]}] = {index, 0, false, {}};
    } else {
      foreign_.push_back(index);
    }
  }

  /// Indices of the live lines, in order.
  std::vector<std::size_t> indices() const {
    std::vector<std::size_t> live = foreign_;
    for (const auto& [id, slot] : slots_)
      if (above_floor(slot)) live.push_back(slot.index);
    std::sort(live.begin(), live.end());
    return live;
  }

 private:
  struct Slot {
    std::size_t index;
    int version;
    bool measured;
    Identity group;  // key of floors_
  };

  bool above_floor(const Slot& slot) const {
    if (floors_.empty()) return true;
    const auto floor = floors_.find(slot.group);
    return floor == floors_.end() || slot.index > floor->second;
  }

  void add(std::size_t index, const Fields& fields, const FindRecord& r) {
    Identity group{};
    if (r.is_find() || r.kind == RecordKind::kErased)
      group = {"find", fields.field[kKey], fields.field[kSolver]};
    else if (r.kind != RecordKind::kQuarantined)
      group = search_identity(fields);
    if (r.kind == RecordKind::kErased) {
      floors_[group] = index;
      return;
    }
    if (r.kind == RecordKind::kTuned) floors_[search_identity(fields)] = index;
    const Slot added{index, r.solver_version, r.measured(), group};
    const auto [old, first] = slots_.try_emplace(identity(fields, r.kind), added);
    if (first) return;
    const Slot& before = old->second;
    const bool weaker = before.measured && r.kind == RecordKind::kPredicted && before.version == added.version;
    const bool older = layers_ && r.is_find() && before.version > added.version;
    if (!(weaker || older) || !above_floor(before)) old->second = added;
  }

  const bool layers_;
  std::unordered_map<Identity, Slot, IdentityHash> slots_;
  std::unordered_map<Identity, std::size_t, IdentityHash> floors_;  // per group: older lines are dropped
  std::vector<std::size_t> foreign_;
};

}  // namespace

std::string escape_field(std::string_view text) {
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

Fields split_fields(std::string_view line) {
  Fields fields;
  while (fields.count < kFields) {
    const std::size_t end = line.find(' ');
    fields.field[fields.count++] = line.substr(0, end);
    if (end == std::string_view::npos) break;
    line.remove_prefix(end + 1);
  }
  return fields;
}

std::optional<RecordKind> kind_of(const Fields& fields) {
  if (fields.count != kOldFields && fields.count != kFields) return std::nullopt;
  const std::string_view field = fields.field[kKind];
  if (field.size() != 1 || field[0] < '0' || field[0] > '6' || fields.field[kKey].starts_with('@')) return std::nullopt;
  return static_cast<RecordKind>(field[0] - '0');
}

Identity identity(const Fields& fields, RecordKind kind) {
  const auto& w = fields.field;
  switch (kind) {
    case RecordKind::kTrial:
    case RecordKind::kFailed:
      return {"trial", w[kKey], w[kSolver], w[kVersion], w[kUnits], w[kThreadCap], w[kTunePoint]};
    case RecordKind::kQuarantined: return {"quarantined", w[kFamily], w[kSolver], w[kVersion]};
    default: return {"find", w[kKey], w[kSolver], w[kUnits], w[kThreadCap]};
  }
}

Identity search_identity(const Fields& fields) {
  const auto& w = fields.field;
  return {"search", w[kKey], w[kSolver], w[kVersion], w[kUnits], w[kThreadCap]};
}

std::size_t IdentityHash::operator()(const Identity& id) const {
  std::uint64_t hash = 0;
  for (const std::string_view field : id)
    if (!field.empty()) hash = mix(hash, content_hash(field));
  return hash;
}

std::vector<std::string_view> live_lines(const std::vector<std::string_view>& lines, bool layers) {
  LiveLines live(layers, lines.size());
  for (std::size_t i = 0; i < lines.size(); ++i) live.add(i, lines[i]);
  std::vector<std::string_view> result;
  for (const std::size_t i : live.indices()) result.push_back(lines[i]);
  return result;
}

std::string encode(const Calibration& c) {
  return fmt::format("{} {} {} {} {}", kCalibrationField, c.units, c.threads, c.fp32_gflops, c.bandwidth_gbs);
}

std::optional<Calibration> decode_calibration(std::string_view line) {
  const Fields fields = split_fields(line);
  const auto& w = fields.field;
  Calibration c;
  const bool valid = fields.count >= 5 && w[0] == kCalibrationField && parse(w[1], c.units) && parse(w[2], c.threads) &&
                     parse_finite(w[3], c.fp32_gflops) && parse_finite(w[4], c.bandwidth_gbs);
  return valid && c.fp32_gflops > 0 && c.bandwidth_gbs > 0 ? std::optional(c) : std::nullopt;
}

std::string encode(const FindRecord& r) {
  std::string log_sizes;
  for (const float v : r.log_sizes)
    log_sizes += fmt::format("{}{}", log_sizes.empty() ? "" : ",", std::round(static_cast<double>(v) * 1000) / 1000);
  // The time of a failed trial may be infinite.
  const double time = r.is_find() || std::isfinite(r.time_us) ? r.time_us : 0;
  return fmt::format("{} {} {} {} {} {} {} {} {} {} {} {}", escape_field(r.key), escape_field(r.solver),
                     r.solver_version, time, r.workspace, escape_field(r.tune_point), r.units, r.thread_cap,
                     static_cast<int>(r.kind), escape_field(r.family), log_sizes.empty() ? "-" : log_sizes, r.work);
}

std::optional<FindRecord> decode(std::string_view text) {
  FindRecord r;
  const Fields fields = split_fields(text);
  if (!parse_record(fields, r)) return std::nullopt;
  r.key = unescape(fields.field[kKey]);
  r.solver = unescape(fields.field[kSolver]);
  r.tune_point = unescape(fields.field[kTunePoint]);
  if (fields.count == kFields) r.family = unescape(fields.field[kFamily]);
  return r;
}

}  // namespace polymio
