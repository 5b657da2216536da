// Records as text: words of a line, which lines of several are alive.
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

/// A text as one word without blanks: bytes outside the printable ASCII range, blanks, '%' and '@'
/// become %XX. An empty text is "-", a lone "-" is escaped.
std::string escape_field(std::string_view text);

/// Positions of the words of a record.
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
  std::size_t count = 0;  // of words that are there, at most kFields
};
Fields split_fields(std::string_view line);

/// First word of a calibration: "@calibration units threads gflops gbs". Words beginning with '@' name
/// types of lines that are no find records.
inline constexpr std::string_view kCalibrationField = "@calibration";
std::string encode(const Calibration&);
std::optional<Calibration> decode_calibration(std::string_view line);

/// The kind by its word alone; nothing for other types of lines.
std::optional<RecordKind> kind_of(const Fields&);

/// What a record is about: of two with the same identity one replaces the other.
using Identity = std::array<std::string_view, 7>;
Identity identity(const Fields&, RecordKind);
/// What the trials of one search share; a tuned record ends it.
Identity search_identity(const Fields&);
struct IdentityHash {
  std::size_t operator()(const Identity&) const;
};

/// The lines, oldest first, without those that were replaced, erased, or belong to a completed search.
/// Lines of other formats stay. With `layers` the lines come from several files, the strongest last: then
/// higher solver versions stay too.
std::vector<std::string_view> live_lines(const std::vector<std::string_view>& lines, bool layers = false);

}  // namespace polymio
