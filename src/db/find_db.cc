// SPDX-License-Identifier: MIT
#include "db/find_db.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <tuple>

#include "base/env.h"
#include "base/log.h"

namespace polymio {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHeader =
    "Polymio find database, format 1: checksum key solver version microseconds workspace tune-point "
    "units thread-cap measured";
constexpr std::size_t kFields = 9;
constexpr std::size_t kCompactFrom = 2048;  // records; smaller files are not worth a rewrite

/// One word without blanks: bytes outside the printable ASCII range, blanks and '%' become %XX. An
/// empty text is "-", a lone "-" is escaped.
std::string escape(std::string_view text) {
  if (text.empty()) return "-";
  if (text == "-") return "%2D";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte > 0x20 && byte < 0x7f && c != '%')
      out += c;
    else
      out += fmt::format("%{:02X}", byte);
  }
  return out;
}

bool unescape(std::string_view word, std::string& out) {
  out.clear();
  if (word == "-") return true;
  for (std::size_t i = 0; i < word.size(); ++i) {
    if (word[i] != '%') {
      out += word[i];
      continue;
    }
    unsigned byte = 0;
    if (i + 2 >= word.size()) return false;
    const auto [end, error] = std::from_chars(&word[i + 1], &word[i + 1] + 2, byte, 16);
    if (error != std::errc{} || end != &word[i + 1] + 2) return false;
    out += static_cast<char>(byte);
    i += 2;
  }
  return !word.empty();
}

template <class T>
bool parse(std::string_view word, T& out) {
  const char* end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data(), end, out);
  return error == std::errc{} && rest == end;
}

/// Merges with "newest wins" and says whether the table grew.
bool merge(std::vector<FindRecord>& records, const FindRecord& record) {
  const auto same = [&](const FindRecord& r) {
    return r.solver == record.solver && r.units == record.units && r.thread_cap == record.thread_cap;
  };
  const auto old = std::find_if(records.begin(), records.end(), same);
  if (old == records.end()) {
    records.push_back(record);
    return true;
  }
  const bool weaker = old->measured && !record.measured && old->solver_version == record.solver_version;
  if (!weaker) *old = record;
  return false;
}

/// What `merge` would leave of the lines, which keep their order. Valid lines of another format stay.
std::vector<std::string> without_dead(std::vector<std::string> lines) {
  using Slot = std::tuple<std::string, std::string, int, int>;
  std::map<Slot, std::size_t> places;
  std::vector<std::optional<FindRecord>> records;
  for (const std::string& line : lines) records.push_back(decode(line));
  std::vector<char> dead(lines.size(), 0);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (!records[i]) continue;
    const FindRecord& now = *records[i];
    const auto [place, first] = places.try_emplace(Slot{now.key, now.solver, now.units, now.thread_cap}, i);
    if (first) continue;
    std::vector<FindRecord> pair = {*records[place->second]};
    merge(pair, now);
    const bool replaced = pair[0] == now;
    dead[replaced ? place->second : i] = 1;
    if (replaced) place->second = i;
  }
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < lines.size(); ++i)
    if (!dead[i]) kept.push_back(std::move(lines[i]));
  return kept;
}

std::optional<Journal> journal_in(const std::optional<fs::path>& folder, const std::string& device_class,
                                  Journal::Sharing sharing) {
  if (!folder) return std::nullopt;
  std::error_code error;
  fs::path full = fs::absolute(*folder, error);
  if (error) full = *folder;
  std::string name = device_class;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_') c = '_';
  return Journal(full / (name + ".pdb.txt"), kHeader, sharing);
}

const char* home() {
  const char* value = std::getenv("HOME");
  return value && *value ? value : nullptr;
}

std::optional<fs::path> user_folder() {
  if (auto value = env::text(env::kUserDbPath)) {
    const bool tilde = *value == "~" || value->starts_with("~/");
    if (!tilde) return *value;
    if (home()) return fs::path(home() + value->substr(1));
    return std::nullopt;
  }
  const char* config = std::getenv("XDG_CONFIG_HOME");
  if (config && *config == '/') return fs::path(config) / "miopen";
  if (home()) return fs::path(home()) / ".config" / "miopen";
  log::info("no HOME, no MIOPEN_USER_DB_PATH: find results stay in memory");
  return std::nullopt;
}

std::optional<fs::path> system_folder() {
  if (auto value = env::text(env::kSystemDbPath)) return *value;
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(&system_folder), &info) == 0 || !info.dli_fname) return std::nullopt;
  std::error_code error;
  const fs::path library = fs::weakly_canonical(info.dli_fname, error);
  if (error || library.empty()) return std::nullopt;
  return library.parent_path().parent_path() / "share" / "miopen" / "db";
}

}  // namespace

std::string encode(const FindRecord& r) {
  return fmt::format("{} {} {} {} {} {} {} {} {}", escape(r.key), escape(r.solver), r.solver_version, r.time_us,
                     r.workspace, escape(r.tune_point), r.units, r.thread_cap, r.measured ? 1 : 0);
}

std::optional<FindRecord> decode(std::string_view text) {
  std::array<std::string_view, kFields> words;
  for (std::string_view& word : words) {
    const std::size_t end = text.find(' ');
    word = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  FindRecord r;
  int measured = 0;
  const bool good = unescape(words[0], r.key) && unescape(words[1], r.solver) && parse(words[2], r.solver_version) &&
                    parse(words[3], r.time_us) && parse(words[4], r.workspace) && unescape(words[5], r.tune_point) &&
                    parse(words[6], r.units) && parse(words[7], r.thread_cap) && parse(words[8], measured);
  if (!good || !std::isfinite(r.time_us) || (measured != 0 && measured != 1)) return std::nullopt;
  r.measured = measured == 1;
  return r;
}

FindDb::FindDb(std::string device_class, std::optional<fs::path> user_dir, std::optional<fs::path> system_dir,
               bool enabled, Journal::Sharing sharing)
    : enabled_(enabled) {
  if (!enabled) return;
  user_journal_ = journal_in(user_dir, device_class, sharing);
  system_journal_ = journal_in(system_dir, device_class, sharing);
  if (user_journal_) path_ = user_journal_->path().string();
}

void FindDb::refresh() {
  if (system_journal_) {
    const auto visit = [this](std::string_view text) {
      if (auto record = decode(text)) merge(system_[record->key], *record);
    };
    system_journal_->read_new([this] { system_.clear(); }, visit);
  }
  if (!user_journal_) return;
  bool restarted = false;
  const auto restart = [&] {
    restarted = true;
    user_.clear();
    user_lines_ = user_live_ = 0;
  };
  const auto visit = [this](std::string_view text) {
    ++user_lines_;
    if (auto record = decode(text)) user_live_ += merge(user_[record->key], *record);
  };
  user_journal_->read_new(restart, visit);
  if (!restarted) return;
  for (const FindRecord& record : unsaved_) user_live_ += merge(user_[record.key], record);
}

std::vector<FindRecord> FindDb::lookup(const std::string& key) {
  if (!enabled_) return {};
  const std::scoped_lock lock(mutex_);
  refresh();
  std::vector<FindRecord> found;
  if (const auto mine = user_.find(key); mine != user_.end()) found = mine->second;
  if (const auto shipped = system_.find(key); shipped != system_.end()) {
    for (const FindRecord& record : shipped->second) {
      const auto shadows = [&](const FindRecord& r) {
        return r.solver == record.solver && r.units == record.units && r.thread_cap == record.thread_cap &&
               r.solver_version >= record.solver_version;
      };
      if (std::none_of(found.begin(), found.end(), shadows)) merge(found, record);
    }
  }
  const auto order = [](const FindRecord& r) { return std::tie(r.solver, r.units, r.thread_cap); };
  std::sort(found.begin(), found.end(), [&](const FindRecord& a, const FindRecord& b) { return order(a) < order(b); });
  return found;
}

void FindDb::store(std::span<const FindRecord> records) {
  if (!enabled_ || records.empty()) return;
  const std::scoped_lock lock(mutex_);
  std::vector<std::string> lines;
  for (const FindRecord& record : records) lines.push_back(encode(record));
  if (!user_journal_ || !user_journal_->append(lines)) {
    for (const FindRecord& record : records) user_live_ += merge(user_[record.key], record);
    // Kept apart only where a changing file may have the table read again.
    if (user_journal_) unsaved_.insert(unsaved_.end(), records.begin(), records.end());
    return;
  }
  refresh();
  if (user_lines_ >= kCompactFrom && user_lines_ > 2 * user_live_) compact_locked();
}

bool FindDb::compact() {
  const std::scoped_lock lock(mutex_);
  return compact_locked();
}

bool FindDb::compact_locked() { return user_journal_ && user_journal_->compact(without_dead); }

FindDb& find_db(const std::string& device_class) {
  using Key = std::tuple<std::string, std::string, std::string, bool>;
  static std::mutex mutex;
  // Never destroyed: handles may outlive static destruction.
  static auto& databases = *new std::map<Key, std::unique_ptr<FindDb>>;
  const auto user = user_folder(), system = system_folder();
  const bool enabled = !env::flag(env::kDisableFindDb, false);
  const std::scoped_lock lock(mutex);
  auto& db = databases[{device_class, user.value_or("").string(), system.value_or("").string(), enabled}];
  if (!db) db = std::make_unique<FindDb>(device_class, user, system, enabled);
  return *db;
}

}  // namespace polymio
