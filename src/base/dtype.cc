// SPDX-License-Identifier: MIT
#include "base/dtype.h"

namespace polymio::dtype {

double load(DataType t, const void* base, std::int64_t i) {
  switch (t) {
    case DataType::kHalf: return to_float(read<Half>(base, i));
    case DataType::kFloat: return read<float>(base, i);
    case DataType::kInt32: return read<std::int32_t>(base, i);
    case DataType::kInt8: return read<std::int8_t>(base, i);
    case DataType::kBFloat16: return to_float(read<BFloat16>(base, i));
    case DataType::kDouble: return read<double>(base, i);
    case DataType::kFloat8Fnuz: return to_float(read<Float8Fnuz>(base, i));
    case DataType::kBFloat8Fnuz: return to_float(read<BFloat8Fnuz>(base, i));
    case DataType::kInt64: return static_cast<double>(read<std::int64_t>(base, i));
    case DataType::kFloat8E4m3fn: return to_float(read<Float8E4m3fn>(base, i));
    case DataType::kFloat8E5m2: return to_float(read<Float8E5m2>(base, i));
  }
  return 0;
}

void store(DataType t, void* base, std::int64_t i, double v, std::int64_t dither) {
  const auto f = static_cast<float>(v);
  switch (t) {
    case DataType::kHalf: write(base, i, to_small<Half>(f)); break;
    case DataType::kFloat: write<float>(base, i, f); break;
    case DataType::kInt32: write<std::int32_t>(base, i, to_integer<std::int32_t>(v)); break;
    case DataType::kInt8: write<std::int8_t>(base, i, to_integer<std::int8_t>(v)); break;
    case DataType::kBFloat16: write<BFloat16>(base, i, to_bfloat16(f)); break;
    case DataType::kDouble: write<double>(base, i, v); break;
    case DataType::kFloat8Fnuz: write(base, i, to_small<Float8Fnuz>(f, dither)); break;
    case DataType::kBFloat8Fnuz: write(base, i, to_small<BFloat8Fnuz>(f, dither)); break;
    case DataType::kInt64: write<std::int64_t>(base, i, to_integer<std::int64_t>(v)); break;
    case DataType::kFloat8E4m3fn: write(base, i, to_small<Float8E4m3fn>(f, dither)); break;
    case DataType::kFloat8E5m2: write(base, i, to_small<Float8E5m2>(f, dither)); break;
  }
}

namespace {

/// Calls put(i, get(i)) for i < n; most in loops of constant length without aliases, which compilers vectorize.
template <class Get, class Put>
void each(std::int64_t n, const Get& get, const Put& put) {
  constexpr std::int64_t kLength = 8;
  std::int64_t i = 0;
  for (; i + kLength <= n; i += kLength) {
    double some[kLength];
    for (std::int64_t j = 0; j < kLength; ++j) some[j] = get(i + j);
    for (std::int64_t j = 0; j < kLength; ++j) put(i + j, some[j]);
  }
  for (; i < n; ++i) put(i, get(i));
}

/// Calls body(type), where the most usual types are constants.
template <class Body>
void with_type(DataType t, const Body& body) {
  switch (t) {
    case DataType::kFloat: return body([] { return DataType::kFloat; });
    case DataType::kBFloat16: return body([] { return DataType::kBFloat16; });
    case DataType::kHalf: return body([] { return DataType::kHalf; });
    default: return body([t] { return t; });
  }
}

}  // namespace

void load_many(DataType t, const void* base, std::int64_t first, std::int64_t n, double* values) {
  const auto put = [=](std::int64_t i, double v) { values[i] = v; };
  with_type(t, [&](const auto& type) {
    each(
        n, [=](std::int64_t i) { return load(type(), base, first + i); }, put);
  });
}

void store_many(DataType t, void* base, std::int64_t first, std::int64_t n, const double* values) {
  const auto get = [=](std::int64_t i) { return values[i]; };
  with_type(
      t, [&](const auto& type) { each(n, get, [=](std::int64_t i, double v) { store(type(), base, first + i, v); }); });
}

}  // namespace polymio::dtype
