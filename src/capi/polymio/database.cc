// Databases and packs: reading and writing files, loading packs.
// SPDX-License-Identifier: MIT
#include <miopen/polymio.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "db/find_db.h"

using namespace polymio;
using capi::guard;
using capi::not_null;

namespace {

std::string log_sizes_text(const FindRecord& r) {
  std::string text;
  for (const float v : r.log_sizes) text += fmt::format("{}{}", text.empty() ? "" : ",", v);
  return text;
}

std::vector<float> log_sizes_of(std::string_view text, std::size_t index) {
  std::vector<float> sizes;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const char* const end = text.data() + comma;
    float value = 0;
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    require(error == std::errc{} && rest == end && std::isfinite(value) && comma + 1 != text.size(),
            "records[{}].log_sizes has \"{}\": finite numbers separated by commas are allowed", index, text);
    sizes.push_back(value);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return sizes;
}

/// A text field of a record, which must not be null.
std::string text_of(const char* text, const char* field, std::size_t index) {
  require(text, "records[{}].{} is null: a text is needed, empty if unknown", index, field);
  return text;
}

FindRecord from_api(const polymioRecord_t& in, std::size_t index) {
  FindRecord r;
  r.key = text_of(in.problem, "problem", index);
  r.solver = text_of(in.solver, "solver", index);
  r.tune_point = text_of(in.tune_point, "tune_point", index);
  r.family = text_of(in.family, "family", index);
  r.log_sizes = log_sizes_of(text_of(in.log_sizes, "log_sizes", index), index);
  require(!r.key.empty(), "records[{}].problem is empty", index);
  const auto graphic = [](char c) { return c > 0x20 && c < 0x7f; };
  require(!r.solver.empty() && std::all_of(r.solver.begin(), r.solver.end(), graphic),
          "records[{}].solver is \"{}\": a name without blanks is needed", index, r.solver);
  require(in.kind >= polymioRecordPredicted && in.kind <= polymioRecordErased,
          "records[{}].kind is {}: allowed are 0 (predicted) to 6 (erased)", index, static_cast<int>(in.kind));
  require(std::isfinite(in.time * 1000) && in.time >= 0 && std::isfinite(in.work),
          "records[{}] has the time {} and the work {}: both must be finite, the time not negative", index, in.time,
          in.work);
  require(in.units >= 0 && in.threads >= 0, "records[{}] has {} units and {} threads: they must not be negative", index,
          in.units, in.threads);
  r.solver_version = in.solver_version;
  r.time_us = in.time * 1000;
  r.workspace = in.workspace_size;
  r.units = in.units;
  r.thread_cap = in.threads;
  r.kind = static_cast<RecordKind>(in.kind);
  r.work = in.work;
  return r;
}

polymioRecord_t to_api(const FindRecord& r, const std::string& log_sizes) {
  return {sizeof(polymioRecord_t),
          r.key.c_str(),
          r.solver.c_str(),
          r.solver_version,
          r.time_us / 1000,
          r.workspace,
          r.tune_point.c_str(),
          r.units,
          r.thread_cap,
          static_cast<polymioRecordKind_t>(r.kind),
          r.family.c_str(),
          log_sizes.c_str(),
          r.work};
}

FindDb& database_of(const char* architecture) {
  require(*not_null(architecture, "architecture"), "architecture is empty: give that of polymioDeviceInfo_t");
  return find_db(architecture);
}

}  // namespace

miopenStatus_t polymioReadRecords(const char* file, polymioRecordVisitor visitor, void* context) {
  return guard([&] {
    not_null(file, "file");
    require(visitor, "visitor is null");
    read_pack(file, [&](std::size_t line, std::string_view text, const FindRecord* record) {
      const std::string copy(text);
      if (!record) return visitor(context, line, copy.c_str(), nullptr) == 0;
      const std::string log_sizes = log_sizes_text(*record);
      const polymioRecord_t out = to_api(*record, log_sizes);
      return visitor(context, line, copy.c_str(), &out) == 0;
    });
  });
}

miopenStatus_t polymioWriteRecords(const char* file, const polymioRecord_t* records, size_t count) {
  return guard([&] {
    not_null(file, "file");
    if (count > 0) not_null(records, "records");
    std::vector<FindRecord> all;
    // The size of the caller's struct, which may be newer.
    const std::size_t stride = count > 0 ? capi::struct_size(*records, "records") : 0;
    for (std::size_t i = 0; i < count; ++i) {
      const auto* at = reinterpret_cast<const char*>(records) + i * stride;
      const auto& record = *reinterpret_cast<const polymioRecord_t*>(at);
      require(record.size == stride && stride >= sizeof record,
              "records[{}].size is {}: set it to sizeof(polymioRecord_t), at least {}, in every element", i,
              record.size, sizeof record);
      all.push_back(from_api(record, i));
    }
    write_pack(file, all);
  });
}

miopenStatus_t polymioLoadPack(const char* architecture, const char* file) {
  return guard([&] {
    FindDb& db = database_of(architecture);
    db.load_pack(std::filesystem::path(not_null(file, "file")));
  });
}

miopenStatus_t polymioLoadPackFromMemory(const char* architecture, const void* data, size_t size) {
  return guard([&] {
    FindDb& db = database_of(architecture);
    db.load_pack(std::string_view(static_cast<const char*>(not_null(data, "data")), size));
  });
}
