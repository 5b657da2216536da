// SPDX-License-Identifier: MIT
#include "db/find_db.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "base/process_mutex.h"
#include "db/record_text.h"
#include "db/table.h"

namespace polymio {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHeader =
    "Polymio find database, format 1: checksum key solver version microseconds workspace tune-point "
    "units thread-cap kind family log-sizes work";
ProcessMutex g_databases_mutex;

constexpr std::size_t kCompactFrom = 2048;  // lines; smaller files are not compacted automatically
constexpr auto kCompactPatience = std::chrono::milliseconds(100);
constexpr std::size_t kRelatives = 2048;  // records; decoding takes some milliseconds
constexpr auto kReplacePatience = std::chrono::seconds(2);
constexpr std::size_t kShown = 60;  // characters of an overlong text in an error message

using Clock = std::chrono::steady_clock;

/// Which tables a lookup reads: the user's; packs that the program loaded, too; also the system's.
enum class Layers { kUser, kLoaded, kAll };

/// A loaded pack; never moved, since the table refers to its text.
struct Pack {
  std::string path, text;
  Table table;
};

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

/// $HOME; null if it is relative, since it would depend on the working directory.
const char* home() {
  const char* value = std::getenv("HOME");
  return value && *value == '/' ? value : nullptr;
}

std::optional<fs::path> user_folder() {
  if (env::flag(env::kDisableUserDb, false)) return std::nullopt;
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
  if (env::flag(env::kDisableSystemDb, false)) return std::nullopt;
  if (auto value = env::text(env::kSystemDbPath)) return *value;
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(&system_folder), &info) == 0 || !info.dli_fname) return std::nullopt;
  std::error_code error;
  const fs::path library = fs::weakly_canonical(info.dli_fname, error);
  if (error || library.empty()) return std::nullopt;
  // Libraries are in lib, lib/polymio or lib/<architecture>/polymio.
  const fs::path below_prefix = fs::path("share") / "polymio" / "db";
  const fs::path parent = library.parent_path().parent_path();
  for (const fs::path& prefix : {parent, parent.parent_path(), parent.parent_path().parent_path()}) {
    if (fs::is_directory(prefix / below_prefix, error)) return prefix / below_prefix;
  }
  return parent / below_prefix;
}

/// Counts records and bad lines of a text into `layer`; false if there is no record.
bool count_lines(std::string_view text, FindDb::Layer& layer) {
  layer.bytes = text.size();
  each_line(text, [&](std::string_view line) {
    if (line.empty() || line[0] == '#') return;
    std::string_view record;
    const bool valid = open_line(line, record);
    layer.bad_lines += !valid;
    layer.records += valid && decode(record);
  });
  return layer.records > 0;
}

/// Why the file cannot be created or written; empty if it can.
std::string obstacle_to_writing(fs::path path) {
  std::error_code error;
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) return "not a regular file";
  const bool missing = !fs::exists(path, error);
  while (!fs::exists(path, error) && path.has_relative_path()) path = path.parent_path();
  if (missing && !fs::is_directory(path, error)) return fmt::format("{} is no folder", path.string());
  if (::access(path.c_str(), missing ? W_OK | X_OK : W_OK) == 0) return "";
  return fmt::format("cannot write {}: {}", path.string(), std::strerror(errno));
}

FindDb::Layer describe_file(const char* name, const fs::path& path) {
  FindDb::Layer layer;
  layer.name = name;
  layer.path = path.string();
  std::string text;
  const int error = read_file(path, text);
  layer.readable = error == 0;
  if (error != 0 && error != ENOENT) layer.problem = fmt::format("cannot read it: {}", file_error(error));
  if (error == 0) count_lines(text, layer);
  return layer;
}

/// Opens the file with an exclusive lock against appends and compaction; empty if it does not exist.
File lock_alone(const fs::path& path) {
  const auto deadline = Clock::now() + kReplacePatience;
  for (;;) {
    File file = open_regular(path, O_RDONLY);
    if (!file) return file;
    const int error = lock_file(file.fd(), LOCK_EX, deadline);
    require(error != EWOULDBLOCK, "cannot write {}: other processes hold it locked; waited {} s", path.string(),
            kReplacePatience.count());
    if (error != 0 || names_open_file(path, file.fd())) return file;  // other errors: a file system without locks
  }
}

}  // namespace

struct FindDb::State {
  bool enabled = true;
  std::string path;
  ProcessMutex mutex;
  std::optional<Journal> user_journal, system_journal;
  Table user, system;
  std::vector<std::unique_ptr<Pack>> packs;  // in order of increasing precedence
  std::deque<std::string> kept;              // lines that could not be written when they were stored
  std::size_t unsaved = 0;                   // number of lines at the end of `kept` that are not written yet

  /// Reads new lines; true if the file was replaced, so that the table was read again from the start.
  static bool follow(Journal& journal, Table& table) {
    bool restarted = false;
    const auto restart = [&] {
      table = {};
      restarted = true;
    };
    journal.read_new(restart, [&](std::string_view line) { table.add(line); });
    return restarted;
  }

  /// Reads the lines that other processes have stored.
  void refresh() {
    if (system_journal) follow(*system_journal, system);
    if (!user_journal || !follow(*user_journal, user)) return;
    kept.erase(kept.begin(), kept.end() - static_cast<std::ptrdiff_t>(unsaved));
    for (const std::string& line : kept) user.add(line);
  }

  /// Copies the selected lines of each layer to `text`, since those of the tables may go away once the mutex is
  /// released. Layers without lines are left out; the one with the highest precedence is last.
  template <class Select>
  std::vector<Table::Lines> copy_lines(Layers which, std::string& text, Select&& select) {
    const std::scoped_lock lock(mutex);
    refresh();
    std::vector<Table::Lines> layers;
    std::size_t size = 0;
    const auto add = [&](Table& table) {
      Table::Lines lines = select(table);
      for (const std::string_view line : lines) size += line.size();
      if (!lines.empty()) layers.push_back(std::move(lines));
    };
    if (which == Layers::kAll) add(system);
    if (which != Layers::kUser)
      for (const auto& pack : packs) add(pack->table);
    add(user);
    text.reserve(size);
    for (Table::Lines& lines : layers) {
      for (std::string_view& line : lines) {
        text += line;
        line = std::string_view(text).substr(text.size() - line.size());
      }
    }
    return layers;
  }

  /// The live records of the lines that `select` takes from the tables, filtered by `wanted`.
  template <class Select, class Wanted>
  std::vector<FindRecord> records(Layers which, Select&& select, Wanted&& wanted) {
    if (!enabled) return {};
    std::string text;
    Table::Lines all;
    const auto layers = copy_lines(which, text, select);
    for (const Table::Lines& lines : layers) {
      const Table::Lines alive = live_lines(lines);
      all.insert(all.end(), alive.begin(), alive.end());
    }
    if (layers.size() > 1) all = live_lines(all, true);
    std::vector<FindRecord> found;
    for (const std::string_view line : all)
      if (auto record = decode(line); record && wanted(*record)) found.push_back(*std::move(record));
    return found;
  }

  template <class Wanted>
  std::vector<FindRecord> of_key(const std::string& key, Layers which, Wanted&& wanted) {
    const std::string field = escape_field(key);
    return records(
        which, [&](const Table& table) { return table.of_key(field); }, wanted);
  }

  std::vector<FindRecord> lookup(const std::string& key, Layers which) {
    auto found = of_key(key, which, [](const FindRecord& r) { return r.is_find(); });
    const auto order = [](const FindRecord& r) { return std::tie(r.solver, r.units, r.thread_cap); };
    std::sort(found.begin(), found.end(), [&](const auto& a, const auto& b) { return order(a) < order(b); });
    return found;
  }

  /// Appends the unsaved lines and `texts`; false if the lock is not free.
  bool append(const std::vector<std::string>& texts) {
    if (!user_journal || !user_journal->problem().empty()) return false;
    std::vector<std::string> all(kept.end() - static_cast<std::ptrdiff_t>(unsaved), kept.end());
    all.insert(all.end(), texts.begin(), texts.end());
    if (!user_journal->append(all, std::chrono::milliseconds(0))) return false;
    unsaved = 0;
    return true;
  }

  void store(const std::vector<std::string>& texts, std::chrono::milliseconds patience) {
    const auto deadline = Clock::now() + patience;
    std::unique_lock lock(mutex);
    bool saved = append(texts);
    const auto busy = [&] { return !saved && user_journal && user_journal->problem().empty(); };
    while (busy() && Clock::now() < deadline) {
      lock.unlock();  // do not block lookups
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      lock.lock();
      saved = append(texts);
    }
    refresh();  // after a failure, too: some lines may have been written
    if (saved) {
      const bool large = patience >= kCompactPatience && user.size() >= kCompactFrom;
      if (large && user.size() > 2 * user.live()) user_journal->compact(without_dead);
      return;
    }
    if (busy()) log::info("find database {} is in use: {} new lines wait for the next store", path, texts.size());
    for (const std::string& text : texts) user.add(kept.emplace_back(text));
    unsaved += texts.size();
  }

  static std::vector<std::string_view> without_dead(const std::vector<std::string_view>& all) {
    return live_lines(all);
  }

  void add_pack(const std::string& file, std::string text) {
    Layer counted;
    const std::string origin = file.empty() ? "memory" : file;
    require(count_lines(text, counted), "the pack in {} has {} bytes and not one record: it is not a pack, or damaged",
            origin, text.size());
    if (counted.bad_lines > 0) log::info("pack in {}: {} damaged lines are skipped", origin, counted.bad_lines);
    auto pack = std::make_unique<Pack>();
    pack->path = file;
    pack->text = std::move(text);
    each_line(pack->text, [&](std::string_view line) {
      std::string_view record;
      if (open_line(line, record)) pack->table.add(record);
    });
    const std::scoped_lock lock(mutex);
    std::erase_if(packs, [&](const auto& old) { return file.empty() ? old->text == pack->text : old->path == file; });
    packs.push_back(std::move(pack));
  }
};

FindDb::FindDb(std::string device_class, std::optional<fs::path> user_dir, std::optional<fs::path> system_dir,
               bool enabled, Journal::Sharing sharing)
    : state_(std::make_unique<State>()) {
  state_->enabled = enabled;
  if (!enabled) return;
  state_->user_journal = journal_in(user_dir, device_class, sharing);
  state_->system_journal = journal_in(system_dir, device_class, sharing);
  if (state_->user_journal) state_->path = state_->user_journal->path().string();
}

FindDb::~FindDb() = default;

const std::string& FindDb::path() const { return state_->path; }

std::vector<FindRecord> FindDb::lookup(const std::string& key) { return state_->lookup(key, Layers::kAll); }

std::vector<FindRecord> FindDb::lookup_user(const std::string& key) { return state_->lookup(key, Layers::kLoaded); }

std::vector<FindRecord> FindDb::lookup_own(const std::string& key) { return state_->lookup(key, Layers::kUser); }

std::vector<FindRecord> FindDb::trials(const std::string& key, const std::string& solver) {
  return state_->of_key(key, Layers::kAll, [&](const FindRecord& r) {
    return r.solver == solver && (r.kind == RecordKind::kTrial || r.kind == RecordKind::kFailed);
  });
}

std::vector<FindRecord> FindDb::quarantined(const std::string& family) {
  const std::string field = escape_field(family);
  return state_->records(
      Layers::kAll, [&](Table& table) { return table.quarantines_of_family(field); },
      [&](const FindRecord& r) { return r.family == family; });
}

std::vector<FindRecord> FindDb::relatives(const std::string& family) {
  const std::string field = escape_field(family);
  return state_->records(
      Layers::kAll, [&](Table& table) { return table.finds_of_family(field, kRelatives); },
      [&](const FindRecord& r) { return r.family == family && r.measured(); });
}

void FindDb::store(std::span<const FindRecord> records, std::chrono::milliseconds patience) {
  if (!state_->enabled || records.empty()) return;
  std::vector<std::string> texts;
  for (const FindRecord& record : records) texts.push_back(encode(record));
  state_->store(texts, patience);
}

std::optional<Calibration> FindDb::calibration(int units, int threads) {
  if (!state_->enabled) return std::nullopt;
  const std::scoped_lock lock(state_->mutex);
  state_->refresh();
  std::optional<Calibration> newest;
  for (const std::string_view line : state_->user.of_key(kCalibrationField))
    if (const auto c = decode_calibration(line); c && c->units == units && c->threads == threads) newest = c;
  return newest;
}

void FindDb::store(const Calibration& calibration) {
  if (state_->enabled) state_->store({encode(calibration)}, std::chrono::seconds(2));
}

void FindDb::load_pack(const fs::path& file) {
  std::string text;
  const int error = read_file(file, text);
  require(error == 0, "the pack {} cannot be read: {}", file.string(), file_error(error));
  state_->add_pack(file.string(), std::move(text));
}

void FindDb::load_pack(std::string_view text) { state_->add_pack("", std::string(text)); }

bool FindDb::compact() {
  const std::scoped_lock lock(state_->mutex);
  return state_->user_journal && state_->user_journal->compact(State::without_dead);
}

std::vector<FindDb::Layer> FindDb::layers() {
  const std::scoped_lock lock(state_->mutex);
  std::vector<Layer> layers;
  if (!state_->user_journal) {
    layers.emplace_back().name = "user";
    layers.back().problem = state_->enabled ? "no folder (no HOME, no MIOPEN_USER_DB_PATH): results stay in memory"
                                            : "MIOPEN_DEBUG_DISABLE_FIND_DB is set: nothing is stored or found";
  }
  if (state_->user_journal) {
    for (const fs::path& file : state_->user_journal->files()) {
      Layer& layer = layers.emplace_back(describe_file("user", file));
      std::string obstacle = state_->user_journal->problem();
      if (obstacle.empty()) obstacle = obstacle_to_writing(file);
      layer.writable = obstacle.empty();
      if (layer.problem.empty()) layer.problem = obstacle;
    }
  }
  for (auto pack = state_->packs.rbegin(); pack != state_->packs.rend(); ++pack) {
    Layer& layer = layers.emplace_back();
    layer.name = "pack";
    layer.path = (*pack)->path;
    layer.readable = true;
    count_lines((*pack)->text, layer);
  }
  if (state_->system_journal)
    for (const fs::path& file : state_->system_journal->files()) layers.push_back(describe_file("system", file));
  return layers;
}

FindDb& find_db(const std::string& device_class) {
  using Key = std::tuple<std::string, std::string, std::string, bool>;
  // Never destroyed: handles may outlive static destruction.
  static auto& databases = *new std::map<Key, std::unique_ptr<FindDb>>;
  const auto user = user_folder(), system = system_folder();
  const bool enabled = !env::flag(env::kDisableFindDb, false);
  const std::scoped_lock lock(g_databases_mutex);
  auto& db = databases[{device_class, user.value_or("").string(), system.value_or("").string(), enabled}];
  if (!db) db = std::make_unique<FindDb>(device_class, user, system, enabled);
  return *db;
}

std::vector<fs::path> db_folders() {
  std::vector<fs::path> folders;
  for (const auto& folder : {user_folder(), system_folder()})
    if (folder) folders.push_back(*folder);
  return folders;
}

void read_pack(const fs::path& file,
               const std::function<bool(std::size_t line, std::string_view text, const FindRecord* record)>& visit) {
  std::string text;
  const int error = read_file(file, text);
  require(error == 0, "{} cannot be read: {}", file.string(), file_error(error));
  std::size_t number = 0;
  bool proceed = true;
  each_line(text, [&](std::string_view line) {
    ++number;
    std::string_view inner;
    if (!proceed || line.empty() || line[0] == '#') return;
    const bool valid = open_line(line, inner);
    if (valid && decode_calibration(inner)) return;
    const auto record = valid ? decode(inner) : std::nullopt;
    proceed = visit(number, line, record ? &*record : nullptr);
  });
}

void write_pack(const fs::path& file, std::span<const FindRecord> records) {
  static std::atomic<unsigned> counter = 0;
  std::vector<std::string> texts;
  for (const FindRecord& record : records) {
    texts.push_back(encode(record));
    require(texts.back().size() < kLongestLine - kHashDigits,
            "a record of {} has {} bytes of text, at most {} are read", record.solver.substr(0, kShown),
            texts.back().size(), kLongestLine - kHashDigits - 1);
  }
  std::string content = fmt::format("# {}\n", kHeader);
  for (const std::string_view line : live_lines({texts.begin(), texts.end()})) append_line(content, line);
  std::error_code error;
  fs::path target = file;
  struct stat info {};
  if (::lstat(target.c_str(), &info) == 0 && S_ISLNK(info.st_mode)) {  // the rename must not replace a link
    require(info.st_uid == ::geteuid() || info.st_uid == 0,
            "cannot write {}: it is a symbolic link of user {}; give the path of the file itself", file.string(),
            info.st_uid);
    target = fs::weakly_canonical(file, error);
  }
  const bool exists = ::stat(target.c_str(), &info) == 0;
  require(!exists || S_ISREG(info.st_mode), "cannot write {}: it is not a regular file", file.string());
  const File lock = lock_alone(target);
  const fs::path temporary = fmt::format("{}.{}-{}.tmp", target.string(), ::getpid(), counter++);
  const int failure = replace_file(target, temporary, content, exists ? info.st_mode : 0);
  require(failure == 0, "cannot write {}: {}; the old file is unchanged", file.string(), std::strerror(failure));
}

}  // namespace polymio
