// Records: alone, as the user's database, as packs from a file and from memory.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <fstream>

#include "db/find_db.h"
#include "db/record_text.h"
#include "db/text_file.h"
#include "parsers.h"

namespace polymio::fuzz {
namespace {

void put(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

/// Replaces one field of the record: most often a number of the tune point, else any field, or one of another record.
std::string forged(Random& random, const std::string& record, const std::vector<std::string>& all) {
  const auto split = [](const std::string& text) {
    std::vector<std::string> parts(1);
    for (const char c : text) c == ' ' ? parts.emplace_back(), void() : parts.back().push_back(c);
    return parts;
  };
  std::vector<std::string> names = split(record);
  const std::size_t at = random.one_in(2) ? std::size_t{kTunePoint} : random.below(names.size());
  if (at >= names.size()) return record;
  std::string& name = names[at];
  switch (random.below(4)) {
    case 0: {
      const auto other = split(random.pick(all));
      if (at < other.size()) name = other[at];
      break;
    }
    case 1: name = extreme_number(random); break;
    case 2:  // each number of a list
      for (std::uint64_t i = 0; i < 3; ++i) replace_number(random, name);
      break;
    default: replace_number(random, name);
  }
  if (random.one_in(2) && names.size() > kKind) {  // the fastest result of a completed search, so that it is chosen
    names[kTime] = "0.001";
    names[kKind] = std::to_string(static_cast<int>(RecordKind::kTuned));
  }
  return fmt::format("{}", fmt::join(names, " "));
}

/// A file of one to eight records, most of them with tune points and changed under a valid checksum, sometimes damaged;
/// or a file without one, so that each kind also sees files that it refuses.
std::string file_of_records(Random& random, const World& world) {
  if (random.one_in(8)) return random.one_in(2) ? "" : "no record\n";
  std::string text;
  for (std::uint64_t lines = 1 + random.below(8); lines > 0; --lines) {
    std::string record = random.pick(world.records);
    for (int i = 0; i < 4 && record.find(" - ") != std::string::npos; ++i) record = random.pick(world.records);
    if (!random.one_in(4)) record = forged(random, record, world.records);
    if (random.one_in(8)) record = mutate(random, record, world.records);
    append_line(text, record);
  }
  return random.one_in(4) ? mutate(random, text, world.records) : text;
}

bool use_records(World& world, Random& random, Counts& counts) {
  bool good = world.use_activation(counts);
  for (std::uint64_t i = 0; i < 2; ++i)
    good = world.samples[random.below(world.samples.size())].use(random, counts) && good;
  return good;
}

bool run_record(const World& world, Random& random, Counts& counts) {
  std::vector<std::string> texts;
  for (std::uint64_t lines = 1 + random.below(6); lines > 0; --lines)
    texts.push_back(mutate(random, forged(random, random.pick(world.records), world.records), world.records));
  for (const std::string& text : texts) {
    const auto record = decode(text);
    (record ? counts.accepted : counts.refused)++;
    if (!record) continue;
    ++counts.used;
    const std::string again = encode(*record);
    const auto twice = decode(again);
    if (twice && encode(*twice) == again) continue;
    std::printf("a record is another after it was written: %s\n", text.c_str());
    return false;
  }
  const std::vector<std::string_view> lines(texts.begin(), texts.end());
  return live_lines(lines, random.one_in(2)).size() <= lines.size();
}

bool run_database(World& world, Random& random, Counts& counts) {
  const std::string text = file_of_records(random, world);
  if (random.one_in(2)) std::filesystem::remove(world.database);  // else the file is shortened or grows
  put(world.database, text);
  const auto layer = find_db(world.architecture).layers().at(0);
  (layer.records > 0 ? counts.accepted : counts.refused)++;
  const bool good = use_records(world, random, counts);
  if (random.one_in(8)) find_db(world.architecture).compact();
  return good;
}

bool run_pack(World& world, Random& random, Counts& counts) {
  const std::filesystem::path file = world.folder / "pack";  // read again each time
  std::filesystem::remove(world.database);
  put(file, file_of_records(random, world));
  if (polymioLoadPack(world.architecture.c_str(), file.c_str()) != miopenStatusSuccess) {
    ++counts.refused;
    return true;
  }
  ++counts.accepted;
  return use_records(world, random, counts);
}

bool run_pack_from_memory(World& world, Random& random, Counts& counts) {
  // Packs from memory stay loaded: each is for another class of devices.
  const std::string text = file_of_records(random, world), architecture = fmt::format("fuzz-{:x}", random.bits());
  if (polymioLoadPackFromMemory(architecture.c_str(), text.data(), text.size()) != miopenStatusSuccess) {
    ++counts.refused;
    return true;
  }
  ++counts.accepted;
  FindDb& db = find_db(architecture);
  for (const std::string& line : world.records) {
    const auto record = decode(line);
    counts.used += db.lookup(record->key).size() + db.relatives(record->family).size() +
                   db.quarantined(record->family).size() + db.trials(record->key, record->solver).size();
  }
  return true;
}

}  // namespace

std::vector<Kind> record_kinds(World& world) {
  const auto kind = [&world](const char* name, unsigned weight, auto run) {
    return Kind{name, weight, [&world, run](Random& r, Counts& c) { return run(world, r, c); }};
  };
  return {kind("records", 8, run_record), kind("databases", 8, run_database), kind("packs", 8, run_pack),
          kind("packs in memory", 1, run_pack_from_memory)};
}

}  // namespace polymio::fuzz
