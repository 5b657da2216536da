// SPDX-License-Identifier: MIT
#include "driver/report/run_file.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "driver/base/files.h"
#include "driver/base/library.h"
#include "driver/run/conv_args.h"

namespace polymio::driver {
namespace {

using Json = nlohmann::json;
using Ordered = nlohmann::ordered_json;

constexpr const char* kFormat = "polymio run";
constexpr std::int64_t kLargestCount = std::int64_t{1} << 53;  // exact as a double
constexpr std::size_t kShownText = 60;

// null for a time that is unknown.
Ordered time_or_null(double us) { return us > 0 ? Ordered(us) : Ordered(); }

Ordered to_json(const Machine& machine) {
  return {{"device", machine.device},
          {"model", machine.model},
          {"architecture", machine.architecture},
          {"units", machine.units},
          {"threads", machine.threads},
          {"clock_ghz", machine.clock_ghz},
          {"governor", machine.governor},
          {"memory_bytes", machine.memory_bytes},
          {"cache_bytes", machine.cache_bytes},
          {"fp32_gflops", machine.fp32_gflops},
          {"bandwidth_gbytes_per_s", machine.bandwidth_gbytes}};
}

Ordered to_json(const Measurement& measurement) {
  Ordered json = to_json(measurement.result);
  json["count"] = measurement.count;
  json["layers"] = measurement.layers;
  Ordered solvers = Ordered::array(), refused = Ordered::array();
  for (const Alternative& solver : measurement.solvers) {
    solvers.push_back({{"name", solver.name},
                       {"algorithm", solver.algorithm},
                       {"measured_us", time_or_null(solver.measured_us)},
                       {"predicted_us", time_or_null(solver.predicted_us)},
                       {"workspace", solver.workspace},
                       {"tune_point", solver.tune_point}});
  }
  for (const Refusal& refusal : measurement.refused) {
    refused.push_back({{"reason", refusal.reason}, {"solvers", refusal.solvers}});
  }
  json["solvers"] = std::move(solvers);
  json["refused"] = std::move(refused);
  return json;
}

// An object of the file with its place, for error texts.
class Object {
 public:
  Object(const Json& json, std::string file, std::string place)
      : json_(json), file_(std::move(file)), place_(std::move(place)) {
    if (!json_.is_object()) refuse("", "an object");
  }

  bool has(const char* key) const { return json_.contains(key); }

  std::string text(const char* key) const {
    const Json& value = at(key);
    if (!value.is_string()) refuse(key, "a text");
    return value.get<std::string>();
  }
  bool flag(const char* key) const {
    const Json& value = at(key);
    if (!value.is_boolean()) refuse(key, "true or false");
    return value.get<bool>();
  }
  double number(const char* key) const {
    const Json& value = at(key);
    if (!is_number(value)) refuse(key, "a finite number that is not negative");
    return value.get<double>();
  }
  // `missing` for null.
  double number_or(const char* key, double missing) const { return at(key).is_null() ? missing : number(key); }
  std::int64_t integer(const char* key, std::int64_t low = 0) const {
    const Json& value = at(key);
    if (!value.is_number_integer() || !is_number(value) || value.get<double>() > static_cast<double>(kLargestCount) ||
        value.get<std::int64_t>() < low) {
      refuse(key, fmt::format("an integer from {} to {}", low, kLargestCount));
    }
    return value.get<std::int64_t>();
  }
  std::uint64_t identifier(const char* key) const {
    const Json& value = at(key);
    if (!value.is_number_unsigned()) refuse(key, "an integer from 0");
    return value.get<std::uint64_t>();
  }
  std::vector<double> numbers(const char* key) const {
    std::vector<double> values;
    for (const Json& value : array(key)) {
      if (!is_number(value)) refuse(key, "finite numbers that are not negative");
      values.push_back(value.get<double>());
    }
    return values;
  }
  std::vector<std::string> texts(const char* key) const {
    std::vector<std::string> values;
    for (const Json& value : array(key)) {
      if (!value.is_string()) refuse(key, "a list of texts");
      values.push_back(value.get<std::string>());
    }
    return values;
  }
  Object object(const char* key) const { return {at(key), file_, place_of(key)}; }
  std::vector<Object> objects(const char* key) const {
    std::vector<Object> values;
    for (const Json& value : array(key)) {
      values.emplace_back(value, file_, fmt::format("{}[{}]", place_of(key), values.size()));
    }
    return values;
  }

  // Throws the error text about the value of this key; an empty key means the object.
  [[noreturn]] void refuse(const char* key, const std::string& allowed) const {
    const bool whole = *key == '\0';
    const std::string place = whole ? place_ : place_of(key);
    throw RunError(fmt::format("'{}': {} is {}, allowed: {}; it is no run, or damaged", file_,
                               place.empty() ? "the file" : place, shown(whole ? json_ : json_.at(key)), allowed));
  }

 private:
  static bool is_number(const Json& value) {
    return value.is_number() && std::isfinite(value.get<double>()) && value.get<double>() >= 0;
  }

  static std::string shown(const Json& value) {
    if (value.is_structured()) return value.is_array() ? "a list" : "an object";
    const std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
    return text.size() <= kShownText ? text : text.substr(0, kShownText) + "...";
  }

  std::string place_of(const char* key) const { return place_.empty() ? key : fmt::format("{}.{}", place_, key); }

  const Json& at(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end())
      throw RunError(fmt::format("'{}': {} is missing; it is no run, or damaged", file_, place_of(key)));
    return *found;
  }
  const Json& array(const char* key) const {
    const Json& value = at(key);
    if (!value.is_array()) refuse(key, "a list");
    return value;
  }

  const Json& json_;
  std::string file_, place_;
};

Machine read_machine(const Object& json) {
  Machine machine;
  machine.device = json.text("device");
  machine.model = json.text("model");
  machine.architecture = json.text("architecture");
  machine.governor = json.text("governor");
  machine.clock_ghz = json.numbers("clock_ghz");
  machine.units = json.integer("units");
  machine.threads = json.integer("threads");
  machine.memory_bytes = json.number("memory_bytes");
  const std::vector<double> caches = json.numbers("cache_bytes");
  if (caches.size() != std::size(machine.cache_bytes)) json.refuse("cache_bytes", "the sizes of three caches");
  std::copy(caches.begin(), caches.end(), machine.cache_bytes);
  machine.fp32_gflops = json.number("fp32_gflops");
  machine.bandwidth_gbytes = json.number("bandwidth_gbytes_per_s");
  return machine;
}

int read_algorithm(const std::string& name) {
  for (int algorithm = 0; algorithm <= 5; ++algorithm) {
    if (name == algorithm_name(algorithm)) return algorithm;
  }
  return -1;
}

Direction read_direction(const Object& json) {
  const std::string name = json.text("direction");
  for (const Direction direction : kDirections) {
    if (name == direction_short(direction)) return direction;
  }
  json.refuse("direction", "fwd, bwd or wrw");
}

// Refuses a line that is no convolution of this direction.
void check_line(const Object& json, const Result& result) {
  try {
    const ConvArgs args = parse_line(result.line);
    weight_lens(args);
    if (args.directions == result.direction) return;
  } catch (const ArgError& error) {
    json.refuse("problem", fmt::format("a convolution in the driver's syntax ({})", error.what()));
  }
  json.refuse("problem", fmt::format("a convolution with -F {}", static_cast<int>(result.direction)));
}

Result read_result(const Object& json) {
  Result result;
  result.line = json.text("problem");
  result.direction = read_direction(json);
  check_line(json, result);
  result.error = json.text("error");
  result.algorithm = read_algorithm(json.text("algorithm"));
  result.solver = json.text("solver");
  result.solution = json.identifier("solution");
  result.workspace = json.identifier("workspace");
  result.source = json.text("source");
  result.gflop = json.number("gflop");
  result.bytes_read = json.number("bytes_read");
  result.bytes_written = json.number("bytes_written");
  result.ms = json.number("ms");
  result.average_ms = json.number("average_ms");
  result.find_ms = json.number("find_ms");
  if (!json.has("verification")) return result;
  const Object check = json.object("verification");
  result.checked = true;
  result.verified = check.flag("ok");
  result.outputs = check.integer("outputs");
  result.outputs_checked = check.integer("outputs_checked");
  // JSON has no infinity or NaN, which a wrong result may have.
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  result.worst_error = check.number_or("worst_error", kUnknown);
  result.worst_tolerance = check.number_or("tolerance", kUnknown);
  result.verify_text = check.text("text");
  return result;
}

Measurement read_measurement(const Object& json) {
  Measurement measurement;
  measurement.result = read_result(json);
  measurement.count = json.integer("count", 1);
  measurement.layers = json.texts("layers");
  for (const Object& solver : json.objects("solvers")) {
    measurement.solvers.push_back({solver.text("name"), solver.text("algorithm"), solver.text("tune_point"),
                                   solver.number_or("measured_us", 0), solver.number_or("predicted_us", 0),
                                   solver.number("workspace")});
  }
  for (const Object& refusal : json.objects("refused")) {
    measurement.refused.push_back({refusal.text("reason"), refusal.texts("solvers")});
  }
  return measurement;
}

}  // namespace

Ordered to_json(const Run& run) {
  Ordered notes = Ordered::array(), results = Ordered::array();
  for (const auto& [name, value] : run.notes) notes.push_back({{"name", name}, {"value", value}});
  for (const Measurement& measurement : run.measurements) results.push_back(to_json(measurement));
  return {{"format", kFormat},         {"format_version", kRunVersion},
          {"title", run.title},        {"command", run.command},
          {"date", run.date},          {"library_version", run.version},
          {"commit", run.commit},      {"machine", to_json(run.machine)},
          {"notes", std::move(notes)}, {"results", std::move(results)}};
}

void write_run(const std::string& path, const Run& run) {
  write_whole(path, to_json(run).dump(1, ' ', false, Ordered::error_handler_t::replace) + '\n');
}

Run parse_run(const std::string& name, const std::string& text) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& error) {
    throw RunError(fmt::format("'{}': byte {} is no JSON, allowed: a file that --save has written", name, error.byte));
  }
  const Object file(json, name, "");
  if (!file.has("format") || !json["format"].is_string() || json["format"] != kFormat) {
    throw RunError(fmt::format("'{}': it is no run (its format is not '{}'), allowed: a file that --save has written",
                               name, kFormat));
  }
  if (const std::int64_t version = file.integer("format_version", 1); version > kRunVersion) {
    throw RunError(fmt::format("'{}': its format has version {}, allowed: up to {}; a newer MIOpenDriver reads it",
                               name, version, kRunVersion));
  }
  Run run;
  run.title = file.text("title");
  run.command = file.text("command");
  run.date = file.text("date");
  run.version = file.text("library_version");
  run.commit = file.text("commit");
  run.machine = read_machine(file.object("machine"));
  for (const Object& note : file.objects("notes")) run.notes.emplace_back(note.text("name"), note.text("value"));
  for (const Object& result : file.objects("results")) run.measurements.push_back(read_measurement(result));
  return run;
}

Run read_run(const std::string& path) { return parse_run(path, read_whole(path)); }

}  // namespace polymio::driver
