// Direct convolution, forward and backward data: register tiles summed over filter taps and channels. The kernel reads
// padded input tiles (NHWC copies of input rows) or the tensor in place.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/conv_shape.h"

namespace polymio::kernels {

struct Epilogue;

/// Kind of dot operand; values equal those of Dot in isa/micro_kernel.h. kImagePairs: kBf16 in backward weights, where
/// a pair is one pixel of two images or two pixels of one image.
enum class DirectMath : int { kFloat = 0, kDouble = 1, kBf16 = 2, kInt8 = 3, kInt16 = 4, kImagePairs = 5 };

/// Products and register tiles of an instruction set for a data type.
struct DirectUnit {
  DirectMath math = DirectMath::kFloat;
  std::int64_t lanes = 4;         // per vector of sums
  std::int64_t group = 1;         // channels per dot operand
  std::int64_t element = 4;       // bytes per channel in copies of the input and of the weights
  int rows[5] = {0, 1, 1, 1, 1};  // rows[v]: the most rows of a register tile of v vectors
  bool amx = false;               // AMX tile registers
  std::int64_t lane_bytes() const { return math == DirectMath::kDouble ? 8 : 4; }
  /// Whether int8 inputs are multiplied as unsigned values, 128 larger: sums need a zero-point correction.
  bool shifts() const { return math == DirectMath::kInt8 && !amx; }
  bool sums_integers() const { return math == DirectMath::kInt8 || math == DirectMath::kInt16; }
};

/// Outputs of a line whose sums are finished together; they stay in the first-level cache.
inline constexpr std::int64_t kDirectLine = 128;

/// The most panels of Direct::interleaves_panels().
inline constexpr std::int64_t kMaxInterleavedPanels = 64;

/// The channels of a part of a panel (split_packing) are a multiple of this.
inline constexpr std::int64_t kPackChannels = 16;

/// The fewest depths that packing transposes at once.
inline constexpr std::int64_t kDirectTransposeDepth = 64;

/// The tensor that is read (x or dy) or written (y or dx). Strides in elements.
struct DirectSide {
  DataType type = DataType::kFloat;
  std::int64_t channels = 1, size[kSpatial] = {1, 1, 1};  // channels per group
  std::int64_t n = 0, c = 0, d[kSpatial] = {0, 0, 0};
  // kImagePairs: n is the stride between pairs, `partner` the stride between the two elements of a pair. Those are
  // images (`images` in all) or, if half > 0, lines of one image that are `half` lines apart.
  std::int64_t partner = 0, images = 0, half = 0;
  /// Elements of a pair that exist in a line, 1 or 2: the last image or the last lines may have no partner.
  int of_pair(std::int64_t pair, std::int64_t line) const {
    return (half > 0 ? line + half < size[1] : 2 * pair + 1 < images) ? 2 : 1;
  }
};

/// How the work is cut. Only `channels` influences rounding. A cell is an output position; in backward data it is one
/// position of each phase.
struct DirectCut {
  std::int64_t images = 1, rows = 1, columns = 1;  // per piece, in cells
  std::int64_t panels = 1;                         // of output channels, per piece
  std::int64_t channels = 1;                       // summed at once
  std::int64_t fold = 1;                           // images side by side in a register tile
  int vectors = 2;                                 // per panel
  bool packed = false;                             // the caller passes packed weights
  bool copied = false;                             // copies the input even if the kernel could read it in place
};

/// The taps of one dimension that contribute to the outputs of one phase, in the order of packed weights.
struct DirectWindow {
  std::int64_t cells, taps, tap, tap_step;  // packed taps tap + t * tap_step, t < taps
  std::int64_t origin, move;                // input position of cell 0 and tap 0; positions per tap
};

/// The padded input tile of a piece. Strides in elements; position q of a row is at
/// q % split * part + q / split * pixel.
struct InputTile {
  std::int64_t size[kSpatial];  // positions
  std::int64_t split, part, pitch, pixel, row, slab, image, total;
};

/// Byte offsets in a thread's scratch.
struct DirectPlaces {
  std::int64_t input_tile, panel, sums, transposed, lists, total;
};

struct Direct {
  ConvShape shape;
  bool backward = false;
  DirectUnit unit;
  DirectSide from, to;
  DataType weight_type = DataType::kFloat;
  std::int64_t w_lane = 0, w_depth = 0;  // weight strides along the channels of `to` and of `from`
  std::int64_t diagonal_groups = 1;      // block-diagonal grouping: groups of the problem per group of `shape`
  DirectCut cut;
  // Set by cut_direct().
  std::int64_t cells[kSpatial], phases[kSpatial];
  std::int64_t first[kSpatial];               // smallest input position of cell 0
  std::int64_t grain[kSpatial];               // the input tile has every grain-th input position
  std::int64_t step[kSpatial];                // input tile positions between cells; 0: a piece has one cell
  bool in_place = false;                      // the input tile is the tensor itself
  bool edges = false;                         // columns of taps in the padding are skipped
  bool merged = false;                        // the taps of a row are contiguous in the input tile: one run
  std::int64_t vectors = 1, panels = 1;       // per group, for all its output channels
  std::int64_t tap_steps = 1, row_steps = 1;  // depth steps per tap, per row of taps
  std::int64_t panel_bytes = 0;               // of the widest packed panel with its zero-point correction
  std::int64_t pack_parts = 1;                // parts per packed panel of weights, see split_packing
  InputTile input_tile{};
  DirectPlaces places{};

  std::int64_t pieces() const;
  /// Input positions between cells.
  std::int64_t input_step(int d) const { return backward ? 1 : shape.stride[d]; }
  /// Outputs that are summed before they are finished: of one line of a piece, or of merged lines.
  std::int64_t line() const;
  /// Whether AMX computes the lines of a copied input tile as one long line and drops the outputs between them.
  bool merges_lines() const;
  /// Whether the kernel computes a block of outputs for all panels before the next block: pointwise, with packed
  /// weights that fit the cache.
  bool interleaves_panels() const;
  std::int64_t taps() const { return shape.taps[0] * shape.taps[1] * shape.taps[2]; }
  /// The first vector of a panel; panels are of nearly equal width.
  std::int64_t panel_start(std::int64_t panel) const { return vectors * panel / panels; }
  /// Whether register tiles can store unscaled results directly into the tensor; AMX: whole vectors only.
  bool sums_are_results() const;
  /// Number of items of DirectKernels::pack.
  std::int64_t packings() const { return shape.groups * panels * pack_parts; }
  std::size_t packed_bytes() const { return static_cast<std::size_t>(shape.groups * panels * panel_bytes) + 64; }
};

/// Arguments of one call.
struct DirectArgs {
  const void* from = nullptr;
  const void* w = nullptr;
  void* to = nullptr;
  void* packed = nullptr;
  double alpha = 1, beta = 0;          // beta == 0: `to` is never read
  const Epilogue* epilogue = nullptr;  // without its y; requires beta == 0
};

/// The job without a cut. int8 problems: `to_type` is int8, int32 or float.
Direct direct_job(const ConvShape& shape, bool backward, DataType to_type, const DirectUnit& unit);

/// Sets the cut, clamped to the sizes of the problem, and lays out the scratch.
void cut_direct(Direct& job, const DirectCut& cut);

/// Splits panels by input channels so that `threads` threads share the packing of few panels.
void split_packing(Direct& job, std::int64_t threads);

/// Number of panels of about `wide` vectors each.
std::int64_t direct_panels(std::int64_t vectors, std::int64_t wide);

DirectWindow direct_window(const Direct& job, int dim, std::int64_t phase);

struct DirectKernels {
  static constexpr bool kHasDotProducts = true;
  /// Products and register tiles for an input type.
  DirectUnit (*unit)(DataType type);
  /// Pieces [first, end); scratch holds job.places.total bytes.
  void (*run)(const Direct& job, const DirectArgs& args, std::int64_t first, std::int64_t end, void* scratch);
  /// Packs panels [first, end) of job.packings() into args.packed; scratch as above.
  void (*pack)(const Direct& job, const DirectArgs& args, std::int64_t first, std::int64_t end, void* scratch);
};

}  // namespace polymio::kernels
