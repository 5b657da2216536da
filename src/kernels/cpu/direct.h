// Direct convolution, forward and backward data: register tiles summed over filter taps and channels, read
// from padded channels-last copies of input rows ("strips") or from the tensor as it lies.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/conv_gemm.h"
#include "kernels/cpu/epilogue.h"

namespace polymio::kernels {

/// How products are formed; numbers equal those of the micro-kernel's kinds. kImagePairs: kBf16 of backward weights,
/// where an element is a pixel of two images, or two of one.
enum class DirectMath : int { kFloat = 0, kDouble = 1, kBf16 = 2, kInt8 = 3, kInt16 = 4, kImagePairs = 5 };

/// What an instruction set has for a data type.
struct DirectUnit {
  DirectMath math = DirectMath::kFloat;
  std::int64_t lanes = 4;         // of a vector of sums
  std::int64_t group = 1;         // neighbouring channels that are multiplied in one step
  std::int64_t element = 4;       // bytes of a channel in copies of the input and of the weights
  int rows[5] = {0, 1, 1, 1, 1};  // the most rows of a tile of so many vectors
  bool amx = false;               // products are made by tile registers
  std::int64_t lane_bytes() const { return math == DirectMath::kDouble ? 8 : 4; }
  /// Whether int8 inputs are multiplied as unsigned values, 128 larger: sums have an excess that is taken away.
  bool shifts() const { return math == DirectMath::kInt8 && !amx; }
  bool sums_integers() const { return math == DirectMath::kInt8 || math == DirectMath::kInt16; }
};

/// Steps of depth that a tile register takes at once, at most 16: equal parts of all, or as many as it can, and a rest.
constexpr std::int64_t amx_steps(std::int64_t depth) {
  constexpr std::int64_t kMost = 16, kFew = 8;
  if (depth <= kMost) return depth;
  std::int64_t parts = (depth + kMost - 1) / kMost;
  while (depth % parts != 0 && depth / parts >= kFew) ++parts;
  return depth / parts < kFew ? kMost : depth / parts;
}

/// Outputs of a line whose sums are finished together: so many stay in the first-level cache.
inline constexpr std::int64_t kDirectLine = 128;

/// Panels that are multiplied in turn, at most.
inline constexpr std::int64_t kMaxInterleavedPanels = 64;

/// Parts in which a panel is packed are of multiples of so many channels.
inline constexpr std::int64_t kPackChannels = 16;

/// Depths that packing transposes at once, at least.
inline constexpr std::int64_t kDirectTransposeDepth = 64;

/// The tensor that is read (x, or dy) or written (y, or dx). Strides in elements.
struct DirectSide {
  DataType type = DataType::kFloat;
  std::int64_t channels = 1, size[kSpatial] = {1, 1, 1};  // channels of a group
  std::int64_t n = 0, c = 0, d[kSpatial] = {0, 0, 0};
  // Of kImagePairs: n is the stride from pair to pair, and `partner` the one inside of it. Partners are images, of
  // which there are so many, or lines of one image that are `half` apart.
  std::int64_t partner = 0, images = 0, half = 0;
  /// How many there are of a pair's line, the last ones of which may be missing.
  int of_pair(std::int64_t pair, std::int64_t line) const {
    return (half > 0 ? line + half < size[1] : 2 * pair + 1 < images) ? 2 : 1;
  }
};

/// How the work is cut. Only `channels` has an influence on rounding. A cell is an output position or, for
/// backward data, one position of each residue modulo the stride.
struct DirectCut {
  std::int64_t images = 1, rows = 1, columns = 1;  // of a piece, in cells
  std::int64_t panels = 1;                         // of output channels, of a piece
  std::int64_t channels = 1;                       // summed at once
  std::int64_t fold = 1;                           // images side by side in a tile
  int vectors = 2;                                 // of a panel
  bool packed = false;                             // weights come packed from the caller
  bool copied = false;                             // strips are copies even where the tensor could be read as it lies
};

/// The taps of one dimension that reach the outputs of one residue ("phase"), in the order of packed weights.
struct DirectWindow {
  std::int64_t cells, taps, tap, tap_step;  // packed taps tap + t * tap_step, t < taps
  std::int64_t origin, move;                // input position of cell 0 and tap 0, and from tap to tap
};

/// The strip of a piece. Strides in elements; position q of a row lies at q % split * part + q / split * pixel.
struct InputTile {
  std::int64_t size[kSpatial];  // positions
  std::int64_t split, part, pitch, pixel, row, slab, image, total;
};

/// Bytes from the start of a thread's scratch.
struct DirectPlaces {
  std::int64_t input_tile, panel, sums, transposed, lists, total;
};

struct Direct {
  ConvShape shape;
  bool backward = false;
  DirectUnit unit;
  DirectSide from, to;
  DataType weight_type = DataType::kFloat;
  std::int64_t w_lane = 0, w_depth = 0;  // strides of weights along channels of `to` and of `from`
  std::int64_t diagonal_groups = 1;      // groups of the problem in one of `shape`, whose weights are zero between them
  DirectCut cut;
  // Set by cut_direct().
  std::int64_t cells[kSpatial], phases[kSpatial];
  std::int64_t first[kSpatial];               // smallest input position of cell 0
  std::int64_t grain[kSpatial];               // the strip holds every so-manieth input position
  std::int64_t step[kSpatial];                // strip positions from cell to cell; 0: a piece has one
  bool in_place = false;                      // the strip is the tensor itself
  bool edges = false;                         // of which columns of taps that lie in the padding are left out
  bool merged = false;                        // the taps of a row are neighbours in the strip: one run of channels
  std::int64_t vectors = 1, panels = 1;       // of all output channels of a group
  std::int64_t tap_steps = 1, row_steps = 1;  // steps of depth of a tap, of a row of taps
  std::int64_t panel_bytes = 0;               // of the widest panel with what belongs to it
  std::int64_t pack_parts = 1;                // in which a panel of weights is packed, see split_packing
  InputTile input_tile{};
  DirectPlaces places{};

  std::int64_t pieces() const;
  /// Input positions from cell to cell.
  std::int64_t input_step(int d) const { return backward ? 1 : shape.stride[d]; }
  /// Outputs that are summed before they are finished: of a piece's line, or of lines that are joined.
  std::int64_t line() const;
  /// Whether lines of a copy lie as one long line, for tile registers; outputs between them are not wanted.
  bool merges_lines() const;
  /// Whether some outputs are summed for all panels before the next ones: pointwise, and packed weights stay near.
  bool interleaves_panels() const;
  std::int64_t taps() const { return shape.taps[0] * shape.taps[1] * shape.taps[2]; }
  /// The first vector of a panel; panels are of nearly equal width.
  std::int64_t panel_start(std::int64_t panel) const { return vectors * panel / panels; }
  /// Whether register tiles can write unscaled results where they belong: of tile registers, whole vectors.
  bool sums_are_results() const;
  /// How many calls of direct_pack there are.
  std::int64_t packings() const { return shape.groups * panels * pack_parts; }
  std::size_t packed_bytes() const { return static_cast<std::size_t>(shape.groups * panels * panel_bytes) + 64; }
};

/// What one call works on.
struct DirectArgs {
  const void* from = nullptr;
  const void* w = nullptr;
  void* to = nullptr;
  void* packed = nullptr;
  double alpha = 1, beta = 0;          // beta == 0: `to` is never read
  const Epilogue* epilogue = nullptr;  // its y is not used; needs beta == 0
};

/// The job without its cut. int8 problems: `to_type` is int8, int32 or float.
Direct direct_job(const ConvShape& shape, bool backward, DataType to_type, const DirectUnit& unit);

/// Takes over a cut, bounded by the sizes there are, and lays out the scratch memory.
void cut_direct(Direct& job, const DirectCut& cut);

/// Lets `threads` threads share the packing of few panels: of a panel, parts of the input channels.
void split_packing(Direct& job, std::int64_t threads);

/// How many panels so many vectors make that are to be about `wide` vectors each.
std::int64_t direct_panels(std::int64_t vectors, std::int64_t wide);

DirectWindow direct_window(const Direct& job, int dim, std::int64_t phase);

}  // namespace polymio::kernels
