// Direct backward weights: a block of dw is summed in the cache over padded input tiles of x and copies of dy.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/direct.h"

namespace polymio::kernels {

/// Byte offsets in a thread's scratch.
struct GradientPlaces {
  std::int64_t input_tile, dy, sums, transposed, lists, total;
};

/// A piece is a block of output channels times a block of input channels, summed over a slice of the steps. A step
/// is the images, rows and columns of one padded input tile. Results do not depend on the number of threads.
struct DirectGradient {
  Direct x;  // reads x as forward does, one block of channels; `to` has the type of dw
  DirectSide dy;
  std::int64_t k_block = 1, c_block = 1, k_blocks = 1, c_blocks = 1, steps = 1, slices = 1;
  std::int64_t pitch = 1;           // elements between channels, or between outputs, of dy's copy
  std::int64_t k_row = 1;           // elements between output channels of the sums
  std::int64_t sum_bytes = 0;       // per piece
  std::int64_t transposed_row = 0;  // output channels as lanes: elements per row of the sums; else 0
  GradientPlaces places{};

  std::int64_t blocks() const { return x.shape.groups * k_blocks * c_blocks; }
  std::int64_t pieces() const { return blocks() * slices; }
  /// Output channels per item of DirectGradientKernels::sum.
  static constexpr std::int64_t kChannels = 8;
  std::int64_t results() const { return slices == 1 ? 0 : blocks() * ((k_block + kChannels - 1) / kChannels); }
  std::size_t workspace() const { return slices == 1 ? 0 : static_cast<std::size_t>(pieces() * sum_bytes); }
};

struct GradientArgs {
  const void* x = nullptr;
  const void* dy = nullptr;
  void* dw = nullptr;
  void* sums = nullptr;        // job.workspace() bytes
  double alpha = 1, beta = 0;  // beta == 0: dw is never read
};

/// Cuts the work for a second-level cache of `cache` bytes. `unit` is that of fp32, or of fp64 for fp64. For bf16 it
/// may be the bf16 unit; a pair is then one pixel of two images or two pixels of one image.
DirectGradient gradient_job(const ConvShape& shape, DataType dw_type, const DirectUnit& unit, std::int64_t cache);

struct DirectGradientKernels {
  static constexpr bool kHasDotProducts = true;
  /// Pieces [first, end); scratch holds job.places.total bytes.
  void (*run)(const DirectGradient& job, const GradientArgs& args, std::int64_t first, std::int64_t end, void* scratch);
  /// Adds the slices of results [first, end) of job.results() and writes dw; scratch as above.
  void (*sum)(const DirectGradient& job, const GradientArgs& args, std::int64_t first, std::int64_t end, void* scratch);
};

}  // namespace polymio::kernels
