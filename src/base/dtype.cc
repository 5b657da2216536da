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

void store_many(DataType t, void* base, std::int64_t first, std::int64_t n, const double* values) {
  const auto each = [&](const auto& one) {
    for (std::int64_t i = 0; i < n; ++i) one(first + i, values[i]);
  };
  switch (t) {  // once for all
    case DataType::kFloat: return each([&](std::int64_t i, double v) { store(DataType::kFloat, base, i, v); });
    case DataType::kBFloat16: return each([&](std::int64_t i, double v) { store(DataType::kBFloat16, base, i, v); });
    case DataType::kHalf: return each([&](std::int64_t i, double v) { store(DataType::kHalf, base, i, v); });
    default: return each([&](std::int64_t i, double v) { store(t, base, i, v); });
  }
}

}  // namespace polymio::dtype
