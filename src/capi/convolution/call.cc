// SPDX-License-Identifier: MIT
#include "capi/convolution/call.h"

#include <algorithm>

#include "base/env.h"
#include "capi/common/log_call.h"

namespace polymio::capi {
namespace {

using convolution::Direction;

/// Environment overrides of attributes: read once, since warm calls need them.
struct Overrides {
  std::optional<std::int64_t> deterministic = env::integer(env::kDeterministic, 0, 1);
  std::optional<std::int64_t> rounding = env::integer(env::kFp8Rounding, 0, 1);
  std::optional<std::int64_t> seed = env::integer(env::kFp8Seed, 0, INT64_MAX);
  unsigned algorithms = convolution::enabled_algorithms();
};

const Overrides& overrides() {
  static const Overrides values;
  return values;
}

convolution::Geometry geometry(const ConvolutionObject::State& c, int rank) {
  const int spatial = static_cast<int>(c.pad.size());
  require(spatial >= 1 && spatial <= 3, "the convolution descriptor has {} spatial dimensions, 1 to 3 are supported",
          spatial);
  require(rank == spatial + 2, "a convolution with {} spatial dimensions needs tensors of rank {}, rank {} was given",
          spatial, spatial + 2, rank);
  convolution::Geometry g;
  g.spatial = spatial;
  g.groups = c.groups;
  std::copy(c.pad.begin(), c.pad.end(), g.pad.begin());
  std::copy(c.stride.begin(), c.stride.end(), g.stride.begin());
  std::copy(c.dilation.begin(), c.dilation.end(), g.dilation.begin());
  return g;
}

Direction swap(Direction d) {
  switch (d) {
    case Direction::kForward: return Direction::kBackwardData;
    case Direction::kBackwardData: return Direction::kForward;
    case Direction::kBackwardWeights: return d;
  }
  return d;
}

}  // namespace

ConvolutionCall make_call(const ConvolutionObject::State& c, Direction direction, const TensorDesc& x,
                          const TensorDesc& w, const TensorDesc& y) {
  const Overrides& forced = overrides();
  ConvolutionCall call{{},
                       {},
                       forced.seed ? static_cast<std::uint64_t>(*forced.seed) : c.seed,
                       c.transposed,
                       static_cast<search::FindMode>(c.find_mode)};
  auto& p = call.problem;
  p.direction = c.transposed ? swap(direction) : direction;
  p.x = c.transposed ? y : x;
  p.w = w;
  p.y = c.transposed ? x : y;
  p.geometry = geometry(c, x.rank);
  if (is_fp8(p.output().type) || p.has_casts())
    p.rounding = forced.rounding.value_or(c.fp8_rounding) ? convolution::Rounding::kStochastic
                                                          : convolution::Rounding::kStandard;
  call.constraints.deterministic = forced.deterministic.value_or(c.deterministic) != 0;
  call.constraints.math = c.allowed_math();
  call.constraints.algorithms = forced.algorithms;
  return call;
}

void log_call(const ConvolutionCall& c, const convolution::Problem::Args& args, const char* function,
              std::uint64_t solution) {
  log_call(function, [&] {
    static constexpr const char* kMath[] = {"strict", "accurate", "tf32", "any"};
    std::string line = c.problem.key() + scale_flags(args.alpha, args.beta, "--alpha", "--beta");
    if (c.constraints.math != MathMode::kAccurate)
      line += fmt::format(" --math {}", kMath[static_cast<int>(c.constraints.math)]);
    if (c.constraints.deterministic) line += " --deterministic 1";
    if (solution) line += fmt::format(" -S {}", solution);
    return line;
  });
}

std::vector<std::int64_t> output_sizes(const ConvolutionObject::State& c, const TensorDesc& x, const TensorDesc& w) {
  const auto g = geometry(c, x.rank);
  require(w.rank == x.rank, "x has rank {}, w has rank {}: they must be equal", x.rank, w.rank);
  require(x.type == w.type || is_fp8(x.type) || is_fp8(w.type), "x is {}, w is {}: their data types must be equal",
          name_of(x.type), name_of(w.type));
  require(g.groups >= 1, "group count must be positive, {} was given", g.groups);
  // Any of these may be near 2^63.
  __extension__ using Wide = __int128;
  const auto narrow = [](Wide size, const char* what) {
    require(size > 0 && size <= INT64_MAX, "{} exceeds 2^63 - 1", what);
    return static_cast<std::int64_t>(size);
  };
  const std::int64_t in_c = x.lens[1], w_k = w.lens[0], w_c = w.lens[1];
  const Wide all_w_c = Wide{w_c} * g.groups;
  if (c.transposed) {
    require(in_c == w_k, "x has {} channels, w has {} filters: a transposed convolution needs them equal", in_c, w_k);
    require(w_k % g.groups == 0, "group count {} must divide the {} channels of x", g.groups, w_k);
  } else {
    require(in_c == all_w_c, "x has {} channels; w has {} per filter in {} group(s)", in_c, w_c, g.groups);
    require(w_k % g.groups == 0, "group count {} must divide the {} filters of w", g.groups, w_k);
  }
  std::vector<std::int64_t> sizes{x.lens[0], c.transposed ? narrow(all_w_c, "the number of channels of y") : w_k};
  for (std::size_t i = 0; i < c.pad.size(); ++i) {
    const std::int64_t in = x.lens[i + 2], filter = w.lens[i + 2];
    if (!c.transposed) {
      const std::int64_t size = convolution::forward_size(in, filter, g.pad[i], g.stride[i], g.dilation[i]);
      sizes.push_back(narrow(size, "a size of y"));
      continue;
    }
    const std::int64_t extra = c.output_pad[i];
    require(extra >= 0 && extra < g.stride[i],
            "output padding {} in spatial dimension {} must be at least 0 and below the stride {}", extra, i,
            g.stride[i]);
    const Wide size = Wide{g.stride[i]} * (in - 1) + 1 + Wide{g.dilation[i]} * (filter - 1) - 2 * g.pad[i] + extra;
    sizes.push_back(narrow(std::max(Wide{1}, size), "a size of y"));
  }
  return sizes;
}

TensorDesc output_like(const ConvolutionObject::State& c, const TensorDesc& x, const TensorDesc& w) {
  const auto lens = output_sizes(c, x, w);
  const bool last = x.is_channels_last() && !x.is_channels_first();
  return last && x.rank == 4   ? make_tensor(x.type, Layout::kNHWC, lens)
         : last && x.rank == 5 ? make_tensor(x.type, Layout::kNDHWC, lens)
                               : make_tensor(x.type, lens, {});
}

}  // namespace polymio::capi
