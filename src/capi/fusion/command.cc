// SPDX-License-Identifier: MIT
#include "capi/fusion/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "core/problem_text.h"

namespace polymio::capi {
namespace {

/// Whether the driver makes these tensors for one layout, that of x.
bool has_tensors(const FusedCall& c) {
  const bool last = !c.x.is_channels_first();
  const auto like_x = [&](const TensorDesc& t) {
    return t.type == c.x.type && !t.has_cast() && (last ? t.is_channels_last() : t.is_channels_first());
  };
  if (!like_x(c.x) || (c.convolution && !(like_x(c.convolution->w) && like_x(c.convolution->y)))) return false;
  if (!c.norm) return true;
  const DataType usual = c.x.type == DataType::kDouble ? DataType::kDouble : DataType::kFloat;
  return c.norm->scale_type == usual && c.norm->bias_type == usual && c.norm->moment_type == usual &&
         c.norm->parameters.is_channels_first();
}

/// The flags between the base argument and the mode: the fused command has those of a convolution.
std::string sizes_of(const FusedCall& c) {
  if (!c.convolution) return size_flags(c.x);
  const std::string key = c.convolution->key();
  const std::size_t begin = base_arg("conv", c.x.type, c.convolution->spatial()).size();
  return key.substr(begin, key.find(" -m conv") - begin);
}

}  // namespace

std::string command_of(const FusedCall& c) {
  static constexpr std::array<std::string_view, 7> kModes = {"cbna", "cna", "na", "cn", "cba", "ca", "cb"};
  const std::string letters =
      std::string(c.convolution ? "c" : "") + (c.bias ? "b" : "") + (c.norm ? "n" : "") + (c.activation ? "a" : "");
  const auto* const mode = std::ranges::find(kModes, letters);
  if (mode == kModes.end() || !has_tensors(c)) return "";
  std::string line = base_arg("CBAInfer", c.x.type, c.x.rank - 2) + sizes_of(c) +
                     fmt::format(" -J {} -F 1", mode - kModes.begin()) + layout_flags(c.x, "-I", "--in_strides");
  if (c.norm) line += fmt::format(" -M {} --epsilon {}", static_cast<int>(c.norm->mode), c.epsilon);
  if (c.activation)
    line += fmt::format(" -m {} -A {} -B {} -G {}", static_cast<int>(*c.activation), c.parameters.alpha,
                        c.parameters.beta, c.parameters.gamma);
  return line;
}

}  // namespace polymio::capi
