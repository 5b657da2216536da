// Dropout: the interface of this folder. A pass over memory, without find; RNN and attention use it, too.
//   y = x / (1 - rate) where an element is kept, else 0
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

#include "core/solver.h"
#include "core/tensor.h"
#include "runtime/device.h"

namespace polymio::dropout {

/// Generators whose states MIOpen's callers keep, and bytes of one: five numbers and the counter of xorwow.
inline constexpr std::int64_t kSlots = 16384;
inline constexpr std::size_t kStateBytes = 24;

/// Generators that a tensor of `count` elements uses. Element e, in row-major order of the sizes, uses generator e mod
/// slots_for(count), whose numbers the elements take in ascending order.
std::int64_t slots_for(std::int64_t count);

/// Starts as many generators as have space in `states`, device memory, at most kSlots: as rocRAND starts subsequence s
/// of `seed` in generator s. The states are complete when the call returns.
void seed(Stream&, void* states, std::size_t bytes, std::uint64_t seed);

/// How an element is chosen. Device memory; states may be null if nothing is drawn.
struct Choice {
  float rate = 0;                // the probability that an element is dropped, from 0 to 1
  bool stored = false;           // the mask is read, else it is drawn and, unless the mask is null, stored
  bool advances = false;         // leave the states behind the numbers that were drawn
  void* states = nullptr;        // of the generators
  std::size_t states_bytes = 0;  // at least kStateBytes * slots_for(elements) if drawn
  std::uint8_t* mask = nullptr;  // a byte for each element in row-major order of the sizes, not 0: kept
};

/// Any strides, ranks 1 to 8, fp32, fp16, bf16 and fp64; y may be x. Asynchronous. Without `advances` equal states give
/// equal masks: backward passes need no mask. Throws UnknownError, as MIOpen, for a rate that is no probability, x and
/// y of different sizes or types, and too few states; BadParm for types it does not take and overlapping buffers.
void apply(Stream&, const Choice&, const TensorDesc& x_desc, const void* x, const TensorDesc& y_desc, void* y);

/// The GPU kernels for this type.
std::vector<KernelSpec> programs(const DeviceInfo&, DataType);

}  // namespace polymio::dropout
