// Prints polymioDiagnose's JSON as text.
// SPDX-License-Identifier: MIT
#include "driver/db/doctor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>

#include "driver/commands.h"
#include "driver/run/conv_calls.h"
#include "driver/db/records.h"
#include "driver/base/files.h"
#include "driver/run/operation.h"
#include "driver/run/result.h"

namespace polymio::driver {
namespace {

using Json = nlohmann::json;

constexpr Command kCommand{"doctor", "[PROBLEM]",
                           "Says which database files answer and in which state they are; and of a problem,\n"
                           "given as 'conv -n ...', whether it hits, and if not, why and what to do."};

// Prints why the user has no database of their own.
void print_no_folder(const std::string& problem) {
  fmt::print("          ! {}\n", problem);
  if (problem.starts_with("MIOPEN_DEBUG_DISABLE_FIND_DB")) return;
  fmt::print("          > there is no HOME to keep it in: set MIOPEN_USER_DB_PATH to a folder that can be\n");
  fmt::print("            written in, or HOME; until then what find learns is lost when the process ends\n");
}

// Returns true when the file is damaged or unreadable.
bool print_file(const Json& file) {
  const std::string layer = file.value("layer", "?"), path = file.value("path", "");
  const std::string problem = file.value("problem", "");
  const bool readable = file.value("readable", false), writable = file.value("writable", false);
  const auto records = file.value("records", std::size_t{0}), bad = file.value("bad_lines", std::size_t{0});
  fmt::print("  {:<7} {}\n", layer, path.empty() ? "in memory" : path);
  if (path.empty() && layer == "user") {
    print_no_folder(problem);
    return false;
  }
  const bool missing = !readable && (problem.empty() || writable);
  if (missing) {
    fmt::print("          not there{}\n", layer == "user" ? " yet" : "");
  } else {
    fmt::print("          {}; {} record{}, {}\n",
               !readable  ? "not readable"
               : writable ? "readable and writable"
                          : "read-only",
               records, plural(records), bytes_text(file.value("bytes", 0.0)));
  }
  if (!problem.empty()) fmt::print("          ! {}\n", problem);
  if (bad > 0) {
    fmt::print("          ! {} damaged or foreign line{}, which are skipped; to see and to drop them:\n", bad,
               plural(bad));
    fmt::print("            MIOpenDriver db verify {0}\n            MIOpenDriver db prune {0}\n", path);
  }
  const bool not_stored = layer == "user" && !writable;  // may be intended, in a container
  if (not_stored) {
    fmt::print("          > what find learns is lost when the process ends; name a folder that can be written in\n");
    fmt::print("            MIOPEN_USER_DB_PATH, or ship a pack: docs/ship-tuned.md\n");
  }
  return bad > 0 || (!readable && !problem.empty() && !not_stored);
}

const char* mode_name(int mode) {
  static constexpr const char* kNames[] = {
      "?", "NORMAL", "FAST", "HYBRID", "4 (as NORMAL)", "DYNAMIC_HYBRID", "TRUST_VERIFY", "TRUST_VERIFY_FULL"};
  return mode >= 1 && mode <= 7 ? kNames[mode] : kNames[0];
}

const char* enforce_name(int enforce) {
  static constexpr const char* kNames[] = {"?", "NONE", "DB_UPDATE", "SEARCH", "SEARCH_DB_UPDATE", "DB_CLEAN"};
  return enforce >= 1 && enforce <= 5 ? kNames[enforce] : kNames[0];
}

void print_settings(const Json& report) {
  const double budget = report.value("find_budget_ms", 0.0);
  fmt::print("settings\n");
  fmt::print("  find mode {}, enforce {}, budget {}, workspace {}\n", mode_name(report.value("find_mode", 0)),
             enforce_name(report.value("find_enforce", 0)), budget > 0 ? fmt::format("{} ms", budget) : "none",
             report.contains("workspace_limit") ? "at most " + bytes_text(report.value("workspace_limit", 0.0))
                                                : std::string("unlimited"));
  std::set<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (text.starts_with("MIOPEN_") || text.starts_with("POLYMIO_")) variables.emplace(text);
  }
  for (const std::string& text : variables) fmt::print("  {}\n", text);
}

// The settings that make find search although the database has an entry.
std::string searching_settings(const Json& report) {
  const int mode = report.value("find_mode", 0), enforce = report.value("find_enforce", 0);
  const bool normal = mode == 1 || mode == 4, enforced = enforce > 1;
  return fmt::format("{}{}{}", normal ? fmt::format("find mode {}", mode_name(mode)) : "",
                     normal && enforced ? ", " : "",
                     enforced ? fmt::format("MIOPEN_FIND_ENFORCE={}", enforce_name(enforce)) : "");
}

// The solvers that refuse the problem, by reason.
void print_refusals(const Json& problem) {
  std::map<std::string, std::vector<std::string>> names;
  for (const Json& solver : problem.value("refused", Json::array()))
    names[solver.value("reason", "")].push_back(solver.value("name", ""));
  for (const auto& [reason, solvers] : names) fmt::print("  {} refused: {}\n", fmt::join(solvers, ", "), reason);
}

void print_problem(const Json& report) {
  const Json& problem = report["problem"];
  fmt::print("problem\n  {}\n", problem.value("line", ""));
  for (const Json& name : problem.value("quarantined", Json::array()))
    fmt::print("  ! {} is quarantined: it gave a wrong result on this kind of problem\n", name.get<std::string>());
  if (problem.value("hit", false)) {
    fmt::print("  hit: {} answers, {}\n", problem.value("chosen", ""), problem.value("source", ""));
    if (problem.value("searches_anyway", false))
      fmt::print("  ! yet every find searches: {}\n", searching_settings(report));
    return print_refusals(problem);
  }
  const std::string chosen = problem.value("chosen", "");
  fmt::print("  miss: {}\n", problem.value("why_missed", ""));
  if (!chosen.empty()) fmt::print("  until then: {} ({})\n", chosen, problem.value("source", ""));
  fmt::print("  what to do: {}\n", problem.value("advice", ""));
  print_refusals(problem);
}

int print_state(const Json& report) {
  fmt::print("device {} ({}), {} of {} cores\n", report.value("device", ""), report.value("architecture", ""),
             report.value("threads", 0), report.value("units", 0));
  fmt::print("database files, in order of precedence\n");
  bool wrong = false;
  const Json files = report.value("files", Json::array());
  for (const Json& file : files) wrong = print_file(file) || wrong;
  print_settings(report);
  return wrong ? 1 : 0;
}

// Why the file cannot be written; empty when it can. Opens it for writing: access rights permit root everything, even
// on /proc.
std::string obstacle_to_writing(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  if (error) return fmt::format("cannot make its folder: {}", error.message());
  const bool there = fs::exists(fs::symlink_status(path, error));
  const std::string tried = there ? path : fmt::format("{}.{}.tmp", path, static_cast<long>(getpid()));
  if (!there) fs::remove(tried, error);  // left by a killed process
  Descriptor file;
  const std::string why = open_regular(tried, there ? O_WRONLY : O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, file);
  if (file && !there) fs::remove(tried, error);
  return why.empty() ? "" : fmt::format("cannot write it: {}", why);
}

std::vector<Json> user_layers(const std::string& device) {
  const Session session(device);
  const Json report = Json::parse(diagnose(session, nullptr));
  std::vector<Json> layers;
  for (const Json& file : report.value("files", Json::array())) {
    if (file.value("layer", "") == "user") layers.push_back(file);
  }
  return layers;
}

int report_all(const Session& session, const ConvArgs* args, bool json) {
  int status = -1;
  for (const Direction direction : kDirections) {
    if (args != nullptr && (direction_mask(*args) & direction) == 0) continue;
    std::optional<Problem> problem;
    if (args != nullptr) problem.emplace(*args, direction);
    const std::string text = diagnose(session, problem ? &*problem : nullptr);
    const Json report = Json::parse(text);
    if (json) {
      fmt::print("{}\n", text);
    } else {
      if (status < 0) status = print_state(report);
      if (report.contains("problem")) print_problem(report);
    }
    if (args == nullptr) break;
  }
  return std::max(status, 0);
}

}  // namespace

int run_doctor(std::span<const std::string> arguments) {
  const auto base = find_convolution(kCommand.name, arguments);
  std::string device;
  bool json = false;
  const Flags flags = {{"", "json", Switch{&json}, "the library's own report, as JSON"}, device_flag(device)};
  if (!parse_or_help(kCommand, flags, {arguments.begin(), base})) return 0;
  std::optional<ConvArgs> args;
  if (base != arguments.end()) args = parse({base, arguments.end()});
  const Session session(device.empty() && args ? args->device : device);
  return report_all(session, args ? &*args : nullptr, json || (args && args->json));
}

std::vector<std::string> user_files(const std::string& device) {
  std::vector<std::string> paths;
  std::string problem;
  for (const Json& file : user_layers(device)) {
    if (const std::string path = file.value("path", ""); !path.empty()) paths.push_back(path);
    problem = file.value("problem", "");
  }
  if (paths.empty()) throw RunError(fmt::format("there is no database of your own: {}; name a file", problem));
  return paths;
}

void require_storage(const std::string& device) {
  std::string problem = "there is none";
  for (const Json& file : user_layers(device)) {
    const std::string path = file.value("path", "");
    std::string obstacle = file.value("problem", "");
    if (file.value("writable", false)) obstacle = obstacle_to_writing(path);
    if (obstacle.empty()) return;
    problem = fmt::format("{}{}{}", path, path.empty() ? "" : ": ", obstacle);
  }
  throw RunError(
      fmt::format("results cannot be stored in your own database: {}; name a folder that can be written in "
                  "MIOPEN_USER_DB_PATH",
                  problem));
}

}  // namespace polymio::driver
