// Records as text: the fields of a line, and the live lines of a file.
// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "db/find_db.h"

namespace polymio {

/// A text as one field without blanks: bytes outside printable ASCII, blanks, '%' and '@' become %XX. An empty text is
/// "-", and the text "-" is escaped.
std::string escape_field(std::string_view text);

/// Positions of the fields of a record.
enum Field : std::size_t {
  kKey,
  kSolver,
  kVersion,
  kTime,
  kWorkspace,
  kTunePoint,
  kUnits,
  kThreadCap,
  kKind,
  kFamily,
  kLogSizes,
  kWork,
  kFields
};

struct Fields {
  std::array<std::string_view, kFields> field;
  std::size_t count = 0;  // number of fields, at most kFields
};
Fields split_fields(std::string_view line);

/// The first field of a calibration: "@calibration units threads gflops gbs". First fields that begin with '@' name
/// lines of other types than records.
inline constexpr std::string_view kCalibrationField = "@calibration";
std::string encode(const Calibration&);
std::optional<Calibration> decode_calibration(std::string_view line);

/// The kind of a record, from its field alone; nothing for other types of lines.
std::optional<RecordKind> kind_of(const Fields&);

/// The identity of a record: of two records with the same identity one replaces the other.
using Identity = std::array<std::string_view, 7>;
Identity identity(const Fields&, RecordKind);
/// The fields that the trials of one search have in common; a tuned record with them ends the search.
Identity search_identity(const Fields&);
struct IdentityHash {
  std::size_t operator()(const Identity&) const;
};

/// The lines, oldest first, without replaced and erased records and trials of completed searches. Lines of other types
/// stay. With `layers` the lines are from several files in order of increasing precedence, and records of higher solver
/// versions stay, too.
std::vector<std::string_view> live_lines(const std::vector<std::string_view>& lines, bool layers = false);

}  // namespace polymio
