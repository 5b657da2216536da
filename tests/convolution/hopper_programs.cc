// SPDX-License-Identifier: MIT
#include "tests/convolution/hopper_programs.h"

#include <fmt/format.h>

#include "primitives/activation/activation.h"
#include "primitives/convolution/cuda/hopper_plan.h"
#include "tests/convolution/hopper_kernels.h"

namespace polymio::convolution {
namespace {

using cuda::HopperTile;
using cuda::kProductTiles;
using cuda::kWeightTiles;

using Programs = std::map<std::string, HopperProgram>;

template <class Kernel>
void add(Programs& to, const std::string& name) {
  to[name] = {[](const void* arguments) { Kernel::run(*static_cast<const typename Kernel::Arguments*>(arguments)); },
              sizeof(typename Kernel::Arguments), Kernel::kThreads};
}

template <class T>
[[maybe_unused]] constexpr const char* kResult = "sm90::Tf32";
template <>
[[maybe_unused]] constexpr const char* kResult<sm90::Half> = "sm90::Half";
template <>
[[maybe_unused]] constexpr const char* kResult<sm90::Bfloat16> = "sm90::Bfloat16";
template <>
[[maybe_unused]] constexpr const char* kResult<sm90::Int32> = "sm90::Int32";
template <>
[[maybe_unused]] constexpr const char* kResult<sm90::Signed8> = "sm90::Signed8";
template <>
[[maybe_unused]] constexpr const char* kResult<sm90::Result8<4, false, false>> = "sm90::Result8<4, false, false>";
template <>
[[maybe_unused]] constexpr const char* kResult<sm90::Result8<5, false, false>> = "sm90::Result8<5, false, false>";
template <>
[[maybe_unused]] constexpr const char* kResult<sm90::Result8<4, true, false>> = "sm90::Result8<4, true, false>";
template <>
[[maybe_unused]] constexpr const char* kResult<sm90::Result8<5, true, false>> = "sm90::Result8<5, true, false>";

template <>
[[maybe_unused]] constexpr const char* kResult<sm90::Result8<4, false, true>> = "sm90::Result8<4, false, true>";
template <>
[[maybe_unused]] constexpr const char* kResult<sm90::Result8<5, true, true>> = "sm90::Result8<5, true, true>";

template <>
[[maybe_unused]] constexpr const char* kResult<sm90::SplitFloat> = "sm90::SplitFloat";

/// The name of an element, as the kernels' templates take it.
template <class T>
struct Name {
  static std::string text() { return kResult<T>; }
};
template <class T>
struct Name<sm90::Float8<T>> {
  static std::string text() { return fmt::format("sm90::Float8<{}>", kResult<T>); }
};
template <class T>
struct Name<sm90::Float16<T>> {
  static std::string text() { return fmt::format("sm90::Float16<{}>", kResult<T>); }
};
template <class T, bool kScaled>
struct Name<sm90::Int8<T, kScaled>> {
  static std::string text() { return fmt::format("sm90::Int8<{}, {}>", kResult<T>, kScaled); }
};

constexpr const char* kAddends[] = {"sm90::kNone", "sm90::kOld", "sm90::kResidual"};

/// The last arguments of the templates of forward and backward data.
template <sm90::Addend kAddend = sm90::kNone, bool kBias = false, bool kScale = false, int kActivation = 0,
          bool kPlanes = false>
struct Epilogue {
  static constexpr sm90::Addend addend = kAddend;
  static constexpr bool bias = kBias, scale = kScale, planes = kPlanes;
  static constexpr int activation = kActivation;
  static std::string name() {
    return fmt::format("{}, {}, {}, {}, {}", kAddends[kAddend], kBias, kScale, kActivation, kPlanes);
  }
};
using Plain = Epilogue<>;
using Old = Epilogue<sm90::kOld>;
using BiasRelu = Epilogue<sm90::kNone, true, false, RELU>;
using All = Epilogue<sm90::kResidual, true, true, RELU>;
using Planes = Epilogue<sm90::kNone, false, false, 0, true>;
using PlanesBiasRelu = Epilogue<sm90::kNone, true, false, RELU, true>;

template <class Element, int kSpatial, bool kData, int kTile, int kSplit, class E = Plain, int kPhases = 1>
void add_product(Programs& to) {
  constexpr HopperTile t = kProductTiles[kTile];
  constexpr int kStages = t.stages - (E::bias && E::scale && t.columns == 256 ? 1 : 0);
  if constexpr (t.can_split(kSplit, kData))
    add<sm90::ConvProduct<Element, kSpatial, kData, t.row_blocks, t.columns, kStages, t.apart, kSplit, E::addend,
                          E::bias, E::scale, E::activation, E::planes, kPhases>>(
        to, fmt::format("sm90::ConvProduct<{}, {}, {}, {}, {}, {}, {}, {}, {}, {}>", Name<Element>::text(), kSpatial,
                        kData, t.row_blocks, t.columns, kStages, t.apart, kSplit, E::name(), kPhases));
}

template <class Element, bool kData, int kColumns, class E = Plain>
void add_halo(Programs& to) {
  constexpr std::size_t kSize = sizeof(typename Element::Stored);
  constexpr int kHalos = cuda::HopperHalo::halos(kSize), kStages = cuda::HopperHalo::stages(kSize);
  add<sm90::ConvHalo<Element, kData, kColumns, kHalos, kStages, E::addend, E::bias, E::scale, E::activation,
                     E::planes>>(to, fmt::format("sm90::ConvHalo<{}, {}, {}, {}, {}, {}>", Name<Element>::text(), kData,
                                                 kColumns, kHalos, kStages, E::name()));
}

template <class Element, int kSpatial, int kTile>
void add_weights(Programs& to) {
  constexpr HopperTile t = kWeightTiles[kTile];
  add<sm90::ConvWeights<Element, kSpatial, t.row_blocks, t.columns / 64, t.stages, t.apart>>(
      to, fmt::format("sm90::ConvWeights<{}, {}, {}, {}, {}, {}>", Name<Element>::text(), kSpatial, t.row_blocks,
                      t.columns / 64, t.stages, t.apart));
}

template <class Element, int kTapsH, int kTapsW, int kPixels>
void add_halo_weights(Programs& to) {
  constexpr int kStages = cuda::HopperHaloWeights::kStages;
  add<sm90::ConvHaloWeights<Element, kTapsH, kTapsW, kPixels, kStages>>(
      to, fmt::format("sm90::ConvHaloWeights<{}, {}, {}, {}, {}>", Name<Element>::text(), kTapsH, kTapsW, kPixels,
                      kStages));
}

/// Every direction.
template <class Element, int kWarps, int kRowBlocks, int kChannels = 1>
void add_long_filters(Programs& to) {
  const auto name = [](bool reversed, bool adds_images) {
    return fmt::format("sm90::ConvLongFilters<{}, {}, {}, {}, {}, {}>", Name<Element>::text(), kWarps, kRowBlocks,
                       kChannels, reversed, adds_images);
  };
  add<sm90::ConvLongFilters<Element, kWarps, kRowBlocks, kChannels, false, false>>(to, name(false, false));
  add<sm90::ConvLongFilters<Element, kWarps, kRowBlocks, kChannels, true, false>>(to, name(true, false));
  add<sm90::ConvLongFilters<Element, kWarps, kRowBlocks, kChannels, false, true>>(to, name(false, true));
}

template <class Element, int kDepth>
void add_depthwise_lines(Programs& to) {
  const auto name = [](bool reversed) {
    return fmt::format("sm90::ConvDepthwiseLines<{}, {}, {}, false, 0>", Name<Element>::text(), kDepth, reversed);
  };
  add<sm90::ConvDepthwiseLines<Element, kDepth, false, false, 0>>(to, name(false));
  add<sm90::ConvDepthwiseLines<Element, kDepth, true, false, 0>>(to, name(true));
  add<sm90::ConvDepthwiseLinesWeights<Element, kDepth>>(
      to, fmt::format("sm90::ConvDepthwiseLinesWeights<{}, {}>", Name<Element>::text(), kDepth));
}

template <class Element, int kDepth, bool kBias = false, int kActivation = 0>
void add_depthwise_channels(Programs& to) {
  const auto name = [](bool reversed) {
    return fmt::format("sm90::ConvDepthwiseChannels<{}, {}, {}, {}, {}>", Name<Element>::text(), kDepth, reversed,
                       kBias, kActivation);
  };
  add<sm90::ConvDepthwiseChannels<Element, kDepth, false, kBias, kActivation>>(to, name(false));
  add<sm90::ConvDepthwiseChannels<Element, kDepth, true, kBias, kActivation>>(to, name(true));
}

template <class Element, int kDepth>
void add_depthwise_channels_weights(Programs& to) {
  add<sm90::ConvDepthwiseChannelsWeights<Element, kDepth>>(
      to, fmt::format("sm90::ConvDepthwiseChannelsWeights<{}, {}>", Name<Element>::text(), kDepth));
}

template <class Element, sm90::ConvFewChannelsSource kSource, int kRows, bool kPlanes, bool kBias = false,
          bool kScale = false, int kActivation = 0>
void add_few_channels(Programs& to) {
  constexpr const char* kSources[] = {"kPairs", "kMatrices", "kPixels", "kElements"};
  add<sm90::ConvFewChannelsPacking<kRows>>(to, fmt::format("sm90::ConvFewChannelsPacking<{}>", kRows));
  add<sm90::ConvFewChannels<Element, kSource, kRows, kPlanes, kBias, kScale, kActivation>>(
      to, fmt::format("sm90::ConvFewChannels<{}, sm90::{}, {}, {}, {}, {}, {}>", Name<Element>::text(),
                      kSources[kSource], kRows, kPlanes, kBias, kScale, kActivation));
}

template <class Element, int kRows>
void add_few_channels_of(Programs& to) {
  add_few_channels<Element, sm90::kPairs, kRows, false>(to);
  add_few_channels<Element, sm90::kPairs, kRows, true>(to);
  add_few_channels<Element, sm90::kMatrices, kRows, false>(to);
  add_few_channels<Element, sm90::kMatrices, kRows, true>(to);
}

template <class Element, int kWarps, int kRows, int kColumns, bool kPlanes, bool kSlots>
void add_few_channels_weights(Programs& to) {
  add<sm90::ConvFewChannelsWeights<Element, kWarps, kRows, kColumns, kPlanes, kSlots>>(
      to, fmt::format("sm90::ConvFewChannelsWeights<{}, {}, {}, {}, {}, {}>", Name<Element>::text(), kWarps, kRows,
                      kColumns, kPlanes, kSlots));
}

using sm90::Bfloat16;
using sm90::Half;
using sm90::SplitFloat;
using sm90::Tf32;

constexpr int kMany = cuda::HopperProduct::kMaxPhases;

template <int... kTiles>
void add_product_tiles(Programs& to, std::integer_sequence<int, kTiles...>) {
  (add_product<Half, 2, false, kTiles, 1>(to), ...);
  (add_product<Half, 2, true, kTiles, 1>(to), ...);
  (add_product<Half, 2, true, kTiles, 1, Plain, kMany>(to), ...);
  (add_product<Half, 2, false, kTiles, 2>(to), ...);
  (add_product<Half, 2, false, kTiles, 4>(to), ...);
  (add_product<Half, 2, true, kTiles, 8>(to), ...);
  (add_product<Half, 2, true, kTiles, 2, Old, kMany>(to), ...);
}

template <int... kTiles>
void add_weight_tiles(Programs& to, std::integer_sequence<int, kTiles...>) {
  (add_weights<Half, 2, kTiles>(to), ...);
}

template <int... kTiles>
void add_tf32_weight_tiles(Programs& to, std::integer_sequence<int, kTiles...>) {
  (add_weights<Tf32, 2, kTiles>(to), ...);
}

template <int kSpatial, int... kTiles>
void add_other_dimensions(Programs& to) {
  (add_product<Bfloat16, kSpatial, false, kTiles, 1>(to), ...);
  (add_product<Bfloat16, kSpatial, true, kTiles, 1>(to), ...);
  (add_product<Bfloat16, kSpatial, true, kTiles, 1, Plain, kMany>(to), ...);
  add_weights<Bfloat16, kSpatial, 3>(to);
  add_weights<Bfloat16, kSpatial, 4>(to);
}

template <class Element, int kTile, int kSplit>
void add_epilogues(Programs& to) {
  add_product<Element, 2, false, kTile, kSplit, Old>(to);
  add_product<Element, 2, false, kTile, kSplit, BiasRelu>(to);
  add_product<Element, 2, false, kTile, kSplit, All>(to);
}

/// Forward and backward data.
template <int... kTiles>
void add_tf32_tiles(Programs& to, std::integer_sequence<int, kTiles...>) {
  (add_product<Tf32, 2, false, kTiles, 1>(to), ...);
  (add_product<Tf32, 2, false, kTiles, 1, Plain, kMany>(to), ...);
  (add_product<Tf32, 2, false, kTiles, 2, Old>(to), ...);
}

template <int... kColumns>
void add_tf32_halos(Programs& to) {
  (add_halo<Tf32, false, kColumns>(to), ...);
  (add_halo<Tf32, false, kColumns, Old>(to), ...);
  (add_halo<Tf32, false, kColumns, All>(to), ...);
}

template <int kSpatial, int... kTiles>
void add_tf32_dimensions(Programs& to) {
  (add_product<Tf32, kSpatial, false, kTiles, 1>(to), ...);
  (add_product<Tf32, kSpatial, false, kTiles, 1, Plain, kMany>(to), ...);
}

/// Forward: results as they are and scaled.
template <class Result, int... kTiles>
void add_int8_tiles(Programs& to, std::integer_sequence<int, kTiles...>) {
  (add_product<sm90::Int8<Result, false>, 2, false, kTiles, 1>(to), ...);
  (add_product<sm90::Int8<Result, true>, 2, false, kTiles, 2, Old>(to), ...);
}

/// Forward and backward data.
template <class Result, int... kTiles>
void add_float8_tiles(Programs& to, std::integer_sequence<int, kTiles...>) {
  using Element = sm90::Float8<Result>;
  (add_product<Element, 2, false, kTiles, 1>(to), ...);
  (add_product<Element, 2, false, kTiles, 1, Plain, kMany>(to), ...);
  (add_product<Element, 2, false, kTiles, 2, Old>(to), ...);
}

template <int kSpatial>
void add_byte_dimensions(Programs& to) {
  add_product<sm90::Int8<sm90::Int32, false>, kSpatial, false, 8, 1>(to);
  add_product<sm90::Float8<sm90::Half>, kSpatial, false, 10, 1>(to);
  add_product<sm90::Float8<sm90::Half>, kSpatial, false, 10, 1, Plain, kMany>(to);
}

/// Forward and backward data.
template <int... kTiles>
void add_split_tiles(Programs& to) {
  (add_product<SplitFloat, 2, false, kTiles, 1>(to), ...);
  (add_product<SplitFloat, 2, true, kTiles, 1>(to), ...);
  (add_product<SplitFloat, 2, true, kTiles, 1, Plain, kMany>(to), ...);
}

template <int kSpatial, int... kTiles>
void add_split_dimensions(Programs& to) {
  (add_product<SplitFloat, kSpatial, false, kTiles, 1>(to), ...);
  (add_product<SplitFloat, kSpatial, true, kTiles, 1, Plain, kMany>(to), ...);
}

template <int... kTiles>
void add_split_clusters(Programs& to) {
  (add_product<SplitFloat, 2, false, kTiles, 2, Old>(to), ...);
  (add_product<SplitFloat, 2, false, kTiles, 4, Old>(to), ...);
  (add_product<SplitFloat, 2, true, kTiles, 1, Old>(to), ...);
  (add_product<SplitFloat, 2, true, kTiles, 2, Old>(to), ...);
}

template <int... kTiles>
void add_planes(Programs& to) {
  (add_product<Half, 2, false, kTiles, 1, Planes>(to), ...);
  (add_product<Half, 2, true, kTiles, 1, Planes>(to), ...);
}

template <bool kData, class E, int... kColumns>
void add_halos(Programs& to) {
  (add_halo<Half, kData, kColumns, E>(to), ...);
}

template <class Element, int kTapsH, int kTapsW, int... kPixels>
void add_halos_of_weights(Programs& to) {
  (add_halo_weights<Element, kTapsH, kTapsW, kPixels>(to), ...);
}

Programs programs() {
  Programs all;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  add_product_tiles(all, std::make_integer_sequence<int, std::size(kProductTiles)>());
  constexpr auto kAllWeightTiles = std::make_integer_sequence<int, std::size(kWeightTiles)>();
  add_weight_tiles(all, kAllWeightTiles);
  add_tf32_weight_tiles(all, kAllWeightTiles);
  add_weights<Tf32, 1, 3>(all);
  add_weights<Tf32, 3, 3>(all);
  add_other_dimensions<1, 8, 11, 12>(all);
  add_other_dimensions<3, 8, 11, 12>(all);
  add_epilogues<Half, 0, 1>(all);
  add_epilogues<Half, 5, 1>(all);
  add_epilogues<Half, 8, 1>(all);
  add_epilogues<Half, 1, 2>(all);
  add_tf32_tiles(all, std::make_integer_sequence<int, std::size(kProductTiles)>());
  add_tf32_dimensions<1, 8, 12>(all);
  add_tf32_dimensions<3, 8, 12>(all);
  add_epilogues<Tf32, 0, 1>(all);
  add_epilogues<Tf32, 8, 1>(all);
  add_epilogues<Tf32, 1, 2>(all);
  add_product<Tf32, 2, false, 12, 1, Old>(all);
  add_tf32_halos<72, 104, 112, 152, 184, 208, 232>(all);
  add_product<Tf32, 2, false, 12, 1, Old, kMany>(all);
  add_product<Tf32, 2, false, 0, 1, Planes>(all);
  add_product<Tf32, 2, false, 12, 1, Planes>(all);
  add_product<Tf32, 2, false, 1, 2, Planes>(all);
  constexpr auto kAllTiles = std::make_integer_sequence<int, std::size(kProductTiles)>();
  add_int8_tiles<sm90::Int32>(all, kAllTiles);
  add_int8_tiles<Tf32>(all, std::integer_sequence<int, 0, 10, 12>());
  add_int8_tiles<sm90::Signed8>(all, std::integer_sequence<int, 0, 3, 8, 10, 12>());
  add_product<sm90::Int8<sm90::Int32, true>, 2, false, 1, 1, Old>(all);
  add_product<sm90::Int8<Tf32, true>, 2, false, 1, 1, Old>(all);
  add_product<sm90::Int8<sm90::Signed8, true>, 2, false, 1, 1, Old>(all);
  add_product<sm90::Int8<sm90::Signed8, true>, 2, false, 3, 1, Old>(all);
  add_product<sm90::Int8<sm90::Signed8, true>, 2, false, 8, 1>(all);
  const std::integer_sequence<int, 1, 3, 4, 5, 10, 11, 12, 13> with_sums;
  add_float8_tiles<Half>(all, with_sums);
  add_float8_tiles<Tf32>(all, std::integer_sequence<int, 1>());
  add_float8_tiles<sm90::Result8<4, false, false>>(all, std::integer_sequence<int, 3, 4>());
  add_float8_tiles<sm90::Result8<5, false, false>>(all, std::integer_sequence<int, 1>());
  add_product<sm90::Float8<sm90::Result8<4, false, false>>, 2, false, 3, 1, Old>(all);
  add_product<sm90::Float8<Tf32>, 2, false, 1, 1, Old>(all);
  add_product<sm90::Float16<sm90::Result8<4, true, false>>, 2, false, 3, 1>(all);
  add_product<sm90::Float16<sm90::Result8<4, true, false>>, 2, true, 4, 1, Old>(all);
  add_product<sm90::Float16<sm90::Result8<5, true, false>>, 2, true, 8, 1>(all);
  add_product<sm90::Float16<Half>, 2, false, 10, 2>(all);
  add_product<sm90::Float16<Tf32>, 2, true, 1, 1, Plain, kMany>(all);
  add_product<sm90::Float8<sm90::Result8<4, false, true>>, 2, false, 4, 1>(all);
  add_product<sm90::Float8<sm90::Result8<4, false, true>>, 2, false, 10, 2, Old>(all);
  add_product<sm90::Float16<sm90::Result8<5, true, true>>, 2, true, 1, 1, Plain, kMany>(all);
  add_byte_dimensions<1>(all);
  add_byte_dimensions<3>(all);
  add_split_tiles<3, 4, 10, 11, 12>(all);
  add_split_dimensions<1, 10, 12>(all);
  add_split_dimensions<3, 10, 12>(all);
  add_split_clusters<4, 10>(all);
  add_product<SplitFloat, 2, false, 4, 1, Planes>(all);
  add_product<SplitFloat, 2, false, 12, 1, Planes>(all);
  add_product<SplitFloat, 2, false, 4, 2, Planes>(all);
  add_product<SplitFloat, 2, true, 10, 1, Planes>(all);
  add_product<SplitFloat, 2, true, 10, 1, Planes, kMany>(all);
  add_weights<SplitFloat, 1, 3>(all);
  add_weights<SplitFloat, 2, 1>(all);
  add_weights<SplitFloat, 2, 3>(all);
  add_weights<SplitFloat, 3, 3>(all);
  add_product<SplitFloat, 2, true, 10, 1, Old, kMany>(all);
  add_product<SplitFloat, 2, false, 4, 1, All>(all);
  add_halo<Half, false, 104, BiasRelu>(all);
  add_halo_weights<sm90::Float16<Tf32>, 2, 3, 48>(all);
  add_product<SplitFloat, 2, false, 12, 1, All>(all);
  add_product<SplitFloat, 2, false, 4, 2, All>(all);
  add_product<Half, 2, false, 12, 1, Old>(all);
  add_product<Half, 2, true, 12, 1, Old>(all);
  add_product<Half, 2, true, 12, 1, Old, kMany>(all);
  add_product<Half, 2, false, 10, 2, Old>(all);
  add_product<Half, 2, true, 10, 2, Old>(all);
  add_halos<false, Old, 8, 24, 48, 64, 72, 104, 112, 120, 152, 184, 192, 232>(all);
  add_halos<false, All, 120>(all);
  add_planes<0, 1, 5, 8, 10, 12>(all);
  add_product<Half, 2, false, 1, 2, Planes>(all);
  add_product<Half, 2, true, 12, 1, Planes, kMany>(all);
  add_product<Half, 3, false, 11, 1, Planes>(all);
  add_product<Half, 2, false, 8, 1, PlanesBiasRelu>(all);
  add_halos<false, Planes, 8, 24, 48, 64, 72, 104, 112, 120, 152, 184, 192, 232>(all);
  add_halos<true, Planes, 112, 152, 184, 192, 232>(all);
  add_halos<false, PlanesBiasRelu, 120>(all);
  add_halos<true, Old, 112, 152, 184, 192, 232>(all);
  add_halos_of_weights<Half, 3, 3, 112, 192, 208, 240>(all);
  add_halos_of_weights<Half, 2, 3, 48>(all);
  add_halos_of_weights<sm90::Float16<Tf32>, 2, 3, 128>(all);
  add_weights<sm90::Float16<Tf32>, 2, 1>(all);
  add_weights<sm90::Float16<Tf32>, 2, 4>(all);
  add_halos_of_weights<Tf32, 3, 3, 32, 88, 96>(all);
  add_halos_of_weights<Tf32, 2, 3, 48>(all);
  add_halos_of_weights<Half, 4, 1, 96, 160>(all);
  add_halos_of_weights<Tf32, 4, 1, 96, 104>(all);
  add_few_channels_of<Half, 1>(all);
  add_few_channels_of<Half, 2>(all);
  add_few_channels_of<Half, 4>(all);
  add_few_channels_weights<Half, 4, 1, 6, false, true>(all);
  add_few_channels_weights<Half, 4, 1, 10, false, false>(all);
  add_few_channels_weights<Half, 4, 2, 2, false, true>(all);
  add_few_channels_weights<Half, 4, 2, 6, false, true>(all);
  add_few_channels_weights<Half, 4, 2, 8, false, false>(all);
  add_few_channels_weights<Half, 4, 2, 8, true, false>(all);
  add_few_channels_weights<Half, 8, 2, 14, false, false>(all);
  add_few_channels_weights<Half, 4, 4, 2, true, true>(all);
  add_few_channels_weights<Half, 4, 4, 4, false, true>(all);
  add_few_channels_weights<Half, 4, 1, 2, false, true>(all);
  add_few_channels_weights<Bfloat16, 4, 2, 6, false, false>(all);
  add_few_channels<Bfloat16, sm90::kMatrices, 1, false>(all);
  add_few_channels<Half, sm90::kPixels, 1, false>(all);
  add_few_channels<Half, sm90::kElements, 1, false>(all);
  add_few_channels<Bfloat16, sm90::kPixels, 2, true>(all);
  constexpr int kRelu = static_cast<int>(activation::Mode::kRelu);
  add_few_channels<Half, sm90::kMatrices, 4, false, true, false, kRelu>(all);
  add_few_channels<Half, sm90::kMatrices, 4, false, true, true, kRelu>(all);
  add_depthwise_lines<Half, 2>(all);
  add_depthwise_lines<Bfloat16, 3>(all);
  add_depthwise_lines<Half, 8>(all);
  add_depthwise_channels<Half, 2>(all);
  add_depthwise_channels<Half, 8>(all);
  add_depthwise_channels<Half, 4, true, 3>(all);
  add_depthwise_channels<Bfloat16, 5>(all);
  add_depthwise_channels<Bfloat16, 6>(all);
  add_depthwise_channels_weights<Half, 1>(all);
  add_depthwise_channels_weights<Bfloat16, 3>(all);
  add_long_filters<Half, 4, 2>(all);
  add_long_filters<Half, 4, 1>(all);
  add_long_filters<Half, 2, 1>(all);
  add_long_filters<Half, 1, 1>(all);
  add_long_filters<Bfloat16, 4, 2>(all);
  add_long_filters<Bfloat16, 2, 1>(all);
  add_long_filters<Half, 8, 1, 8>(all);
  add_long_filters<Bfloat16, 8, 1, 8>(all);
  add_long_filters<SplitFloat, 4, 1>(all);
  add_long_filters<SplitFloat, 2, 1>(all);
  add_long_filters<SplitFloat, 1, 1>(all);
#endif
  return all;
}

}  // namespace

const std::map<std::string, HopperProgram>& hopper_programs() {
  static const auto kPrograms = programs();
  return kPrograms;
}

}  // namespace polymio::convolution
