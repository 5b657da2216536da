// Encodes tensor maps by the CUDA driver.
// SPDX-License-Identifier: MIT
#include "base/error.h"
#include "runtime/gpu/driver.h"

namespace polymio::gpu {
namespace {

// Values of the driver's enumerators.
constexpr int kPromoteTo256Bytes = 3;
int driver_element(TensorMapSpec::Element element) {
  constexpr int kNumbers[] = {0, 6, 9, 7, 11};
  return kNumbers[static_cast<int>(element)];
}
/// A number that is none of the driver's for widths that do not exist.
int driver_swizzle(int bytes) { return bytes == 0 ? 0 : bytes == 32 ? 1 : bytes == 64 ? 2 : bytes == 128 ? 3 : -1; }

int element_bytes(TensorMapSpec::Element element) {
  constexpr int kBytes[] = {1, 2, 2, 4, 4};
  return kBytes[static_cast<int>(element)];
}

/// From the first to the last byte of the tensor.
std::int64_t span_bytes(const TensorMapSpec& s) {
  std::int64_t bytes = s.sizes[0] * element_bytes(s.element);
  for (std::size_t d = 1; d < static_cast<std::size_t>(s.rank); ++d) bytes += (s.sizes[d] - 1) * s.strides[d];
  return bytes;
}

TensorMap encode(const Driver& driver, const TensorMapSpec& s, Address address) {
  TensorMap map;  // not the caller's object: GCC 12 does not align every temporary that functions return
  std::array<std::uint64_t, 5> sizes{}, strides{};
  std::array<unsigned, 5> box{}, steps{};
  for (std::size_t d = 0; d < 5; ++d) {
    sizes[d] = static_cast<std::uint64_t>(s.sizes[d]);
    strides[d] = static_cast<std::uint64_t>(s.strides[d]);
    box[d] = static_cast<unsigned>(s.box[d]);
    steps[d] = static_cast<unsigned>(s.steps[d]);
  }
  const int element = driver_element(s.element), swizzle = driver_swizzle(s.swizzle);
  const auto rank = static_cast<unsigned>(s.rank);
  auto* const tensor = reinterpret_cast<void*>(address);
  const std::uint64_t* const outer_strides = strides.data() + 1;
  const int code = s.im2col ? driver.tensor_maps.im2col(&map, element, rank, tensor, sizes.data(), outer_strides,
                                                        s.lower.data(), s.upper.data(), box[0], box[1], steps.data(), 0,
                                                        swizzle, kPromoteTo256Bytes, 0)
                            : driver.tensor_maps.tiled(&map, element, rank, tensor, sizes.data(), outer_strides,
                                                       box.data(), steps.data(), 0, swizzle, kPromoteTo256Bytes, 0);
  if (code != 0)
    fail(Status::kInternalError,
         "the driver refuses {} tensor map of rank {}, sizes {}, strides {} bytes, box {}, steps {}, swizzle {} at "
         "address {:#x} (error {} of the device)",
         s.im2col ? "an im2col" : "a tiled", s.rank, fmt::join(s.sizes, " "), fmt::join(s.strides, " "),
         fmt::join(s.box, " "), fmt::join(s.steps, " "), s.swizzle, address, code);
  // Drivers to 13.1 set a bit of the maps of small tensors that makes them read wrongly.
  constexpr std::int64_t kSmall = 128 << 10;
  constexpr std::uint64_t kWrongBit = std::uint64_t{1} << 21;
  if (driver.tensor_maps.small_are_wrong && span_bytes(s) < kSmall) map.bits[1] &= ~kWrongBit;
  return TensorMap{map.bits};
}

}  // namespace

TensorMap tensor_map(const Driver& driver, const TensorMapSpec& spec, Address address) {
  struct Encoded {
    const Driver* driver = nullptr;
    Address address = 0;
    TensorMapSpec spec;
    std::array<std::uint64_t, 16> bits{};
  };
  static thread_local std::array<Encoded, 64> recent;
  std::uint64_t hash = address >> 4;
  const auto mix = [&](auto value) { hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x9E3779B97F4A7C15u; };
  for (const int size : spec.box) mix(size);
  for (const int corner : spec.lower) mix(corner);
  mix(spec.swizzle);
  Encoded& e = recent[hash >> 58];
  if (e.driver != &driver || e.address != address || e.spec != spec)
    e = {&driver, address, spec, encode(driver, spec, address).bits};
  return TensorMap{e.bits};
}

}  // namespace polymio::gpu
