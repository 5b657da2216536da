// Parsing the lines of case files: a base argument and flags, as the driver takes them.
// SPDX-License-Identifier: MIT
#pragma once
#include <fmt/ranges.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "driver/run/conv_args.h"
#include "driver/run/tensor_args.h"

namespace polymio::test {

inline constexpr driver::DataType kFloats[] = {driver::kFloat, driver::kHalf, driver::kBFloat16, driver::kDouble};

/// The type that the base argument names; throws if it is not one of the primitive's.
inline driver::DataType type_of(const std::string& base, const driver::Bases& bases) {
  const driver::DataType type = bases.type_of(base);
  if (type == driver::kNoType)
    throw driver::ArgError(fmt::format("a case begins with '{}', allowed: {}", base, fmt::join(bases.names(), " ")));
  return type;
}

/// Parses the flags behind the base argument.
inline void parse_arguments(std::span<const std::string> arguments, const driver::Flags& rows) {
  driver::parse_flags({arguments[0], "", ""}, rows, arguments.subspan(1));
}

/// Completes the arguments of a primitive whose tensors have the sizes of one input: `args` has `tensors`, with the
/// type set, and `rows()`.
template <class Args>
Args parse_tensors(const std::vector<std::string>& arguments, Args args) {
  Args fresh = args;
  const driver::Flags rows = args.rows();
  parse_arguments(arguments, rows);
  args.tensors.check(rows, fresh.rows());
  return args;
}

/// The same for a line whose base argument is `name` with the suffix of one of the types.
template <class Args>
Args parse_tensors(const std::string& line, std::string_view name, std::span<const driver::DataType> types = kFloats) {
  const std::vector<std::string> arguments = driver::split_line(line);
  Args args;
  args.tensors.type = type_of(arguments[0], {name, types});
  return parse_tensors(arguments, args);
}

}  // namespace polymio::test
