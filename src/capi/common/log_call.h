// The log lines of a call.
// SPDX-License-Identifier: MIT
#pragma once
#include <fmt/format.h>

#include <concepts>
#include <string>

#include "base/log.h"
#include "core/problem_text.h"
#include "core/tensor_checks.h"

namespace polymio::capi {

/// Logs the MIOpenDriver line that repeats a call where MIOPEN_ENABLE_LOGGING_CMD asks for it. `make_line` returns the
/// driver's arguments, or nothing if it has no flags for such a call.
template <std::invocable MakeLine>
void log_command(const MakeLine& make_line) {
  if (!log::command_enabled()) return;
  if (const std::string line = make_line(); !line.empty()) log::write("command", "MIOpenDriver " + line);
}

/// Logs the call, too, where MIOPEN_ENABLE_LOGGING asks for it.
template <std::invocable MakeLine>
void log_call(const char* function, const MakeLine& make_line) {
  if (log::api_enabled()) log::write("api", fmt::format("{} {}", function, make_line()));
  log_command(make_line);
}

/// As flags of one argument have shapes: "40x1", and "2x32" or with strides "2x32@40x1".
inline std::string strides_by_x(const TensorDesc& t) {
  return fmt::format("{}", fmt::join(t.strides.begin(), t.strides.begin() + t.rank, "x"));
}
inline std::string shape_text(const TensorDesc& t) {
  return std::string(sizes_text(t)) + (t.is_channels_first() ? "" : "@" + strides_by_x(t));
}

/// " -D 2,3,4 --in_strides 24,4,1": the sizes of a list, and its strides unless dense.
inline std::string list_flags(const char* flag, const TensorDesc& t) {
  return fmt::format(" {} {}", flag, fmt::join(t.sizes(), ",")) + strides_unless_dense(t, "--in_strides");
}

/// Of result = scale * f + keep * result; nothing if result = f.
inline std::string scale_flags(double scale, double keep, const char* scale_flag = "--scale_alpha",
                               const char* keep_flag = "--scale_beta") {
  return scale == 1 && keep == 0 ? "" : fmt::format(" {} {} {} {}", scale_flag, scale, keep_flag, keep);
}

/// The strides of the gradient of x, where they are not those of x.
inline std::string gradient_strides(const TensorDesc& dx, const TensorDesc& x) {
  return same_strides(dx, x) ? "" : strides_flag(dx, "--din_strides");
}

}  // namespace polymio::capi
