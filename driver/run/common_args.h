// What the arguments of all primitives share: data types, directions, layouts, and the control of a run. Depends on the
// standard library and fmt only.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "driver/base/flags.h"

namespace polymio::driver {

// One bit per direction, as in -F. Primitives with one gradient call it kBackwardData.
enum Direction : int { kForward = 1, kBackwardData = 2, kBackwardWeights = 4 };
inline constexpr Direction kDirections[] = {kForward, kBackwardData, kBackwardWeights};

// The numbers of miopenDataType_t and of polymio.h, so that this file needs no MIOpen header. kNoType: not given.
enum DataType : int {
  kNoType = -1,
  kHalf = 0,
  kFloat = 1,
  kInt32 = 2,
  kInt8 = 3,
  kBFloat16 = 5,
  kDouble = 6,
  kFloat8Fnuz = 7,
  kBFloat8Fnuz = 8,
  kFloat8E4m3fn = 0x100,
  kFloat8E5m2 = 0x101,
};

const char* type_name(int type);

// A primitive's base arguments: its name, followed by the type unless that is fp32, as in convfp16.
struct Bases {
  std::string_view primitive;
  std::span<const DataType> types;

  std::vector<std::string> names() const;
  // kNoType if `base` is not one of them.
  DataType type_of(std::string_view base) const;
};

// The control of a run, which is not part of the problem.
struct RunArgs {
  std::int64_t iterations = 10;
  std::int64_t verify = 1;
  std::int64_t time = 0;
  std::int64_t search = 0;
  std::string solution = "-1";
  std::string device;
  bool json = false, explain = false;
  std::string from_list;

  bool operator==(const RunArgs&) const = default;
};

Flags run_flags(RunArgs& args);

Flag device_flag(std::string& device);

// Throws ArgError unless the layout is empty or a name for this number of spatial dimensions.
void check_layout(const Flag& flag, std::int64_t spatial_dim);

// Throws ArgError unless the list is empty or has a stride per dimension.
void check_strides(const Flag& flag, std::int64_t spatial_dim);

// Element strides in N,C,[D],[H],W order: `given` when not empty, else packed in `layout` (empty:
// channels first).
std::vector<std::int64_t> tensor_strides(const std::vector<std::int64_t>& lens, const std::string& layout,
                                         const std::vector<std::int64_t>& given);

// The last `spatial_dim` of depth, height and width.
std::vector<std::int64_t> last_axes(std::int64_t spatial_dim, std::int64_t d, std::int64_t h, std::int64_t w);

}  // namespace polymio::driver
