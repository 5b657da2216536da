// The map, row and column skeletons and their drivers, for every instruction set that this CPU has, against evaluation
// in double: lengths that are no multiple of a vector, strides, broadcast, long rows that are cut into chunks.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "core/handle.h"
#include "kernels/cpu/kernels_of.h"
#include "kernels/isa/skeleton_functors.h"
#include "primitives/common/map.h"
#include "primitives/common/reduce.h"

namespace polymio {
namespace {

using kernels::Reduction;

using test::SkeletonJob;
using test::SkeletonKernels;

struct Named {
  const char* isa;
  const SkeletonKernels* kernels;
};

std::vector<Named> all_kernels() {
  std::vector<Named> all;
  const auto add = [&](const char* name, CpuIsa isa) {
    if (devices()[0].isa >= isa) all.push_back({name, &kernels::kernels_of<SkeletonKernels>(isa)});
  };
  add("generic", CpuIsa::kGeneric);
  add("avx2", CpuIsa::kAvx2);
  add("avx512", CpuIsa::kAvx512);
  return all;
}

/// A tensor and its values, which depend on the element's place in memory.
struct Tensor {
  explicit Tensor(const TensorDesc& d, unsigned seed = 1, double shift = 0)
      : desc(d), bytes(static_cast<std::size_t>(d.space()) * size_of(d.type), 0xa5) {
    unsigned state = seed;
    for (std::int64_t i = 0; i < d.space(); ++i) {
      state = state * 1664525u + 1013904223u;
      dtype::store(d.type, bytes.data(), i, static_cast<double>(state >> 16) / 8192 - 4 + shift);
    }
  }
  double at(std::int64_t offset) const { return dtype::load(desc.type, bytes.data(), offset); }
  TensorDesc desc;
  std::vector<unsigned char> bytes;
};

TensorDesc desc_of(DataType type, std::vector<std::int64_t> lens, std::vector<std::int64_t> strides = {}) {
  return make_tensor(type, lens, strides);
}

/// A tensor that is broadcast along the dimensions where its stride is 0.
TensorDesc repeated(DataType type, const TensorDesc& like, std::vector<std::int64_t> strides) {
  TensorDesc t = like;
  t.type = t.cast = type;
  for (std::size_t d = 0; d < strides.size(); ++d) {
    t.strides[d] = strides[d];
    if (strides[d] == 0) t.lens[d] = 1;
  }
  return t;
}

/// The offsets of every row's elements, rows and elements in the order of the sizes.
std::vector<std::vector<std::int64_t>> offsets(const TensorDesc& t, const TensorDesc& sizes, unsigned reduced) {
  std::vector<std::vector<std::int64_t>> rows;
  const std::int64_t count = sizes.count();
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i, offset = 0, row = 0, unit = 1;
    for (auto d = static_cast<std::size_t>(sizes.rank); d-- > 0; rest /= sizes.lens[d]) {
      const std::int64_t index = rest % sizes.lens[d];
      if (t.lens[d] > 1) offset += index * t.strides[d];
      if ((reduced >> d & 1) != 0) continue;
      row += index * unit;
      unit *= sizes.lens[d];
    }
    rows.resize(std::max(rows.size(), static_cast<std::size_t>(row) + 1));
    rows[static_cast<std::size_t>(row)].push_back(offset);
  }
  return rows;
}

struct Case {
  std::vector<std::int64_t> lens, strides;
  unsigned reduced;  // bit d: dimension d
};

const std::vector<Case>& row_cases() {
  static const std::vector<Case> cases = {
      {{3, 1}, {}, 2},        {{2, 2}, {}, 2},        {{5, 7}, {}, 2},          {{4, 16}, {}, 2},
      {{3, 31}, {}, 2},       {{2, 100}, {}, 2},      {{3, 513}, {514, 1}, 2},  {{2, 5000}, {}, 2},
      {{2, 70001}, {}, 2},    {{3, 9}, {1, 3}, 2},    {{37, 50}, {1, 40}, 2},   {{2, 3, 40}, {}, 5},
      {{2, 3, 5, 4}, {}, 12}, {{3, 50}, {101, 2}, 2}, {{2, 40, 4}, {}, 1 | 4},  {{600, 3}, {}, 3},
      {{300, 64, 2}, {}, 1},  {{7, 33}, {}, 1},       {{1000, 70}, {71, 1}, 1}, {{5, 6, 20}, {120, 20, 1}, 3},
      {{40, 600}, {}, 1},     {{9000, 16}, {}, 1},    {{4, 1}, {}, 1},          {{40, 3, 5}, {20, 6, 1}, 6},
      {{100, 40}, {}, 2},
  };
  return cases;
}

common::RowLoops loops_of(const Case& c, std::span<const TensorDesc* const> operands) {
  return common::row_loops(make_loop(operands), [&](std::size_t d) { return (c.reduced >> d & 1) != 0; });
}

std::string text(const Named& k, const Case& c, DataType type) {
  std::string s = std::string(k.isa) + " " + name_of(type) + " reduced " + std::to_string(c.reduced) + " sizes";
  for (const auto n : c.lens) s += " " + std::to_string(n);
  return s;
}

double units(DataType type) {
  return type == DataType::kHalf ? 0x1p-10 : type == DataType::kBFloat16 ? 0x1p-7 : 0x1p-21;
}

/// Reduces a case and checks every row with check(values of the row, elements of the row).
template <class Check>
void reduce_each(const Reduction<>* (*SkeletonKernels::*kernel)(DataType), DataType type, Check check,
                 double shift = 0) {
  Handle handle("cpu", nullptr);
  for (const Named& named : all_kernels())
    for (const Case& c : row_cases()) {
      const Tensor x(desc_of(type, c.lens, c.strides), 7, shift);
      const TensorDesc* const desc = &x.desc;
      const common::RowLoops loops = loops_of(c, {&desc, 1});
      common::Operands operands;
      operands.outputs = 0;
      operands.push(x.bytes.data(), size_of(type));
      const auto rows = offsets(x.desc, x.desc, c.reduced);
      std::size_t seen = 0;
      common::reduce<double>(handle.stream(), loops, operands, *(named.kernels->*kernel)(type), nullptr,
                             [&](std::int64_t row, const double* values) {
                               SCOPED_TRACE(text(named, c, type) + " row " + std::to_string(row));
                               std::vector<double> elements;
                               for (const auto o : rows[static_cast<std::size_t>(row)]) elements.push_back(x.at(o));
                               check(values, elements);
                               ++seen;
                             });
      EXPECT_EQ(seen, rows.size()) << text(named, c, type);
    }
}

TEST(Skeletons, MomentsOfRowsAndColumns) {
  for (const DataType type : {DataType::kFloat, DataType::kBFloat16, DataType::kDouble})
    reduce_each(
        &SkeletonKernels::moments, type,
        [&](const double* values, const std::vector<double>& x) {
          double mean = 0, squares = 0;
          for (const double v : x) mean += v;
          mean /= static_cast<double>(x.size());
          for (const double v : x) squares += (v - mean) * (v - mean);
          const double tolerance = type == DataType::kDouble ? 1e-12 : 2e-6;
          EXPECT_EQ(values[0], static_cast<double>(x.size()));
          EXPECT_NEAR(values[1], mean, 104 * tolerance);
          EXPECT_NEAR(values[2], squares, (104 * std::sqrt(squares) + squares + 1e-3) * 10 * tolerance);
        },
        100);
}

TEST(Skeletons, ArgmaxIsTheFirstLargest) {
  for (const DataType type : {DataType::kFloat, DataType::kHalf, DataType::kInt32})
    reduce_each(&SkeletonKernels::argmax, type, [](const double* values, const std::vector<double>& x) {
      const auto largest = std::max_element(x.begin(), x.end());
      EXPECT_EQ(values[0], *largest);
      EXPECT_EQ(values[1], static_cast<double>(largest - x.begin()));
    });
}

TEST(Skeletons, TwoInputsAreReducedTogether) {
  Handle handle("cpu", nullptr);
  for (const Named& named : all_kernels())
    for (const DataType type : {DataType::kFloat, DataType::kHalf, DataType::kBFloat16})
      for (const Case& c : row_cases()) {
        SCOPED_TRACE(text(named, c, type));
        const Tensor x(desc_of(type, c.lens, c.strides), 3), y(desc_of(DataType::kFloat, c.lens), 5);
        const TensorDesc* const descs[] = {&x.desc, &y.desc};
        common::Operands operands;
        operands.outputs = 0;
        operands.push(x.bytes.data(), size_of(type));
        operands.push(y.bytes.data(), 4);
        const auto x_rows = offsets(x.desc, x.desc, c.reduced), y_rows = offsets(y.desc, y.desc, c.reduced);
        const SkeletonJob job{0.5};
        std::vector<double> results[2];
        for (auto& result : results) {
          handle.stream().set_threads(&result == results ? 1 : 0);
          common::reduce<double>(handle.stream(), loops_of(c, descs), operands, *named.kernels->sum_and_largest(type),
                                 &job, [&](std::int64_t row, const double* values) {
                                   double sum = 0, largest = 0;
                                   for (const auto o : x_rows[static_cast<std::size_t>(row)]) sum += x.at(o) / 2;
                                   for (const auto o : y_rows[static_cast<std::size_t>(row)])
                                     largest = std::max(largest, std::fabs(y.at(o)));
                                   EXPECT_NEAR(values[0], sum, 1e-9);
                                   EXPECT_EQ(values[1], largest);
                                   result.push_back(values[0]);
                                 });
        }
        EXPECT_EQ(results[0], results[1]) << "depends on threads";
      }
}

TEST(Skeletons, SoftmaxOfRows) {
  Handle handle("cpu", nullptr);
  for (const Named& named : all_kernels())
    for (const DataType type : {DataType::kFloat, DataType::kHalf, DataType::kBFloat16})
      for (const Case& c : row_cases()) {
        SCOPED_TRACE(text(named, c, type));
        const DataType out_type = type == DataType::kHalf ? DataType::kFloat : type;
        const Tensor x(desc_of(type, c.lens, c.strides), 11);
        Tensor y(desc_of(out_type, c.lens, c.strides));
        const TensorDesc* const descs[] = {&y.desc, &x.desc};
        common::Operands operands;
        operands.push(y.bytes.data(), size_of(out_type));
        operands.push(x.bytes.data(), size_of(type));
        common::reduce_and_apply(handle.stream(), loops_of(c, descs), operands, *named.kernels->softmax(type), nullptr,
                                 [](std::int64_t, const double*) {});
        for (const auto& row : offsets(x.desc, x.desc, c.reduced)) {
          double largest = -1e300, sum = 0;
          for (const auto o : row) largest = std::max(largest, x.at(o));
          for (const auto o : row) sum += std::exp(x.at(o) - largest);
          for (const auto o : row) {
            const double expected = std::exp(x.at(o) - largest) / sum;
            ASSERT_NEAR(y.at(o), expected, 8 * units(out_type) * expected) << "offset " << o;
          }
        }
      }
}

TEST(Skeletons, ApplyReadsMoreInputsThanTheReduction) {
  Handle handle("cpu", nullptr);
  for (const Named& named : all_kernels())
    for (const DataType type : {DataType::kFloat, DataType::kBFloat16, DataType::kDouble})
      for (const std::int64_t n : {5, 64, 333, 40000}) {
        const TensorDesc x_desc = desc_of(type, {3, n});
        const Tensor x(x_desc, 13), w(repeated(DataType::kFloat, x_desc, {0, 1}), 17);
        Tensor y(desc_of(type, {3, n}, {n + 3, 1}));
        const TensorDesc* const descs[] = {&y.desc, &x.desc, &w.desc};
        common::Operands operands;
        operands.push(y.bytes.data(), size_of(type));
        operands.push(x.bytes.data(), size_of(type));
        operands.push(w.bytes.data(), 4);
        std::vector<double> means(3);
        common::reduce_and_apply(
            handle.stream(), loops_of({{}, {}, 2}, descs), operands, *named.kernels->moments(type), nullptr,
            [&](std::int64_t row, double* values) { means[static_cast<std::size_t>(row)] = values[1]; });
        for (std::int64_t row = 0; row < 3; ++row) {
          double mean = 0;
          for (std::int64_t i = 0; i < n; ++i) mean += x.at(row * n + i) / static_cast<double>(n);
          EXPECT_NEAR(means[static_cast<std::size_t>(row)], mean, 1e-5);
          for (std::int64_t i = 0; i < n; ++i)
            ASSERT_NEAR(y.at(row * (n + 3) + i), (x.at(row * n + i) - mean) * w.at(i), 16 * units(type) + 5e-5)
                << named.isa << " n " << n << " row " << row << " element " << i;
        }
        EXPECT_EQ(y.bytes[static_cast<std::size_t>(n) * size_of(type)],
                  Tensor(y.desc).bytes[static_cast<std::size_t>(n) * size_of(type)]);
      }
}

TEST(Skeletons, RowsOfColumnsHaveNumbers) {
  Handle handle("cpu", nullptr);
  for (const Named& named : all_kernels())
    for (const Case& c : row_cases()) {
      SCOPED_TRACE(text(named, c, DataType::kHalf));
      // y is constant along the kept dimensions: in columns it has one element per row.
      std::vector<std::int64_t> strides;
      for (std::size_t d = 0; d < c.lens.size(); ++d)
        strides.push_back((c.reduced >> d & 1) != 0 ? static_cast<std::int64_t>(d) + 1 : 0);
      const Tensor x(desc_of(DataType::kHalf, c.lens, c.strides), 3), y(repeated(DataType::kFloat, x.desc, strides), 5);
      const TensorDesc* const descs[] = {&x.desc, &y.desc};
      common::Operands operands;
      operands.outputs = 0;
      operands.push(x.bytes.data(), 2);
      operands.push(y.bytes.data(), 4);
      const auto x_rows = offsets(x.desc, x.desc, c.reduced), y_rows = offsets(y.desc, x.desc, c.reduced);
      const SkeletonJob job{0.5};
      common::reduce<double>(handle.stream(), loops_of(c, descs), operands, *named.kernels->weighted(), &job,
                             [&](std::int64_t row, const double* values) {
                               const auto& at = x_rows[static_cast<std::size_t>(row)];
                               double sum = 0;
                               for (std::size_t i = 0; i < at.size(); ++i)
                                 sum += x.at(at[i]) * y.at(y_rows[static_cast<std::size_t>(row)][i]) / 2;
                               EXPECT_NEAR(values[0], sum, 1e-9);
                             });
    }
}

TEST(Skeletons, MapsOfEveryLengthWriteTheirElementsOnly) {
  constexpr std::int64_t kMost = 70;
  for (const Named& named : all_kernels())
    for (const DataType type :
         {DataType::kFloat, DataType::kHalf, DataType::kBFloat16, DataType::kInt8, DataType::kDouble})
      for (std::int64_t n = 0; n <= kMost; ++n) {
        const Tensor a(desc_of(type, {kMost + 4}), 19), b(desc_of(DataType::kFloat, {kMost + 4}), 23);
        Tensor y(desc_of(DataType::kFloat, {kMost + 4})), z(desc_of(type, {kMost + 4}));
        const Tensor y_before = y, z_before = z;
        const auto size = size_of(type);
        const kernels::Run run{
            {a.bytes.data() + size, b.bytes.data() + 8}, {y.bytes.data() + 4, z.bytes.data() + 2 * size}, n};
        named.kernels->two_outputs(type, {2}, run);
        for (std::int64_t i = 0; i < kMost + 4; ++i) {
          SCOPED_TRACE(std::string(named.isa) + " " + name_of(type) + " n " + std::to_string(n) + " element " +
                       std::to_string(i));
          const bool in_y = i >= 1 && i < n + 1, in_z = i >= 2 && i < n + 2;
          ASSERT_NEAR(y.at(i), in_y ? a.at(i) * 2 + b.at(i + 1) : y_before.at(i), in_y ? 1e-5 : 0);
          double expected = z_before.at(i);
          if (in_z) {
            unsigned char stored[8];
            dtype::store(type, stored, 0, std::max(a.at(i - 1), b.at(i)));
            expected = dtype::load(type, stored, 0);
          }
          ASSERT_EQ(z.at(i), expected);
        }
      }
}

/// Each upper half of a float, with lower halves at a tie, beside it and far from it.
std::vector<float> floats_to_round() {
  std::vector<float> all;
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper)
    for (const std::uint32_t lower : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      all.push_back(std::bit_cast<float>(upper << 16 | lower));
  return all;
}

TEST(Skeletons, MapsRoundToNearestEvenWithEveryStore) {
  const std::vector<float> in = floats_to_round();
  for (const Named& named : all_kernels())
    for (const DataType type : {DataType::kHalf, DataType::kBFloat16})
      for (const bool non_temporal : {false, true})
        for (std::size_t begin = 0, n = 0; begin + n < in.size(); begin += n, n = (n + 7) % 101) {
          const std::size_t first = begin % 37 + 1;  // any alignment
          std::vector<std::uint16_t> out(first + n + 1, 0x1234);
          named.kernels->round(type, non_temporal,
                               kernels::Run{{&in[begin]}, {&out[first]}, static_cast<std::int64_t>(n)});
          ASSERT_EQ(out[first - 1], 0x1234);
          ASSERT_EQ(out[first + n], 0x1234);
          for (std::size_t i = 0; i < n; ++i) {
            std::uint16_t expected;
            dtype::store(type, &expected, 0, in[begin + i]);
            const double stored = dtype::load(type, &out[first], static_cast<std::int64_t>(i));
            const bool same_nan = type == DataType::kHalf && std::isnan(in[begin + i]) && std::isnan(stored);
            ASSERT_TRUE(same_nan || out[first + i] == expected)
                << named.isa << " " << name_of(type) << " " << begin + i;
          }
        }
}

TEST(Skeletons, IntegersRoundToNearestEvenAndSaturate) {
  const std::vector<std::int32_t> in = {0,   1,          3,    5,    -1,   -3,          254, 255,
                                        256, 2147483647, -255, -256, -257, -2147483647, 7};
  const std::vector<std::int8_t> expected = {0, 0, 2, 2, 0, -2, 127, 127, 127, 127, -128, -128, -128, -128, 4};
  for (const Named& named : all_kernels()) {
    std::vector<std::int8_t> out(in.size());
    named.kernels->quantize({0.5}, kernels::Run{{in.data()}, {out.data()}, static_cast<std::int64_t>(in.size())});
    EXPECT_EQ(out, expected) << named.isa;
    named.kernels->quantize({std::numeric_limits<double>::quiet_NaN()},
                            kernels::Run{{in.data()}, {out.data()}, static_cast<std::int64_t>(in.size())});
    EXPECT_EQ(out, std::vector<std::int8_t>(in.size(), 0)) << named.isa;
  }
}

TEST(Skeletons, MapDriverBroadcastsAndWalksAnyStrides) {
  struct Shape {
    std::vector<std::int64_t> lens, y, z, a, b;
  };
  const std::vector<Shape> shapes = {
      {{2, 3, 4, 5, 6}, {360, 120, 30, 6, 1}, {360, 120, 30, 6, 1}, {360, 120, 30, 6, 1}, {0, 1, 0, 0, 0}},
      {{2, 3, 4, 5, 6}, {360, 120, 30, 6, 1}, {1, 2, 6, 24, 120}, {360, 1, 90, 18, 3}, {0, 0, 1, 0, 4}},
      {{70, 90}, {90, 1}, {180, 2}, {1, 70}, {0, 1}},
      {{3, 700}, {701, 1}, {700, 1}, {700, 1}, {1, 0}},
      {{300, 400}, {400, 1}, {1, 300}, {1, 300}, {400, 1}},
  };
  Handle handle("cpu", nullptr);
  for (const Named& named : all_kernels())
    for (const Shape& s : shapes) {
      const TensorDesc a_desc = desc_of(DataType::kHalf, s.lens, s.a);
      const Tensor a(a_desc, 29), b(repeated(DataType::kFloat, a_desc, s.b), 31);
      Tensor y(desc_of(DataType::kFloat, s.lens, s.y)), z(desc_of(DataType::kHalf, s.lens, s.z));
      const TensorDesc* const descs[] = {&y.desc, &z.desc, &a.desc, &b.desc};
      common::Operands operands;
      operands.outputs = 2;
      for (const Tensor* t : {&y, static_cast<Tensor*>(&z)}) operands.push(t->bytes.data(), size_of(t->desc.type));
      for (const Tensor* t : {&a, &b}) operands.push(t->bytes.data(), size_of(t->desc.type));
      common::map(handle.stream(), Tiles(simplified_loop(descs)), operands,
                  [&](const kernels::Run& run) { named.kernels->two_outputs(DataType::kHalf, {3}, run); });
      const auto at_y = offsets(y.desc, y.desc, 0xff)[0], at_z = offsets(z.desc, y.desc, 0xff)[0],
                 at_a = offsets(a.desc, y.desc, 0xff)[0], at_b = offsets(b.desc, y.desc, 0xff)[0];
      for (std::size_t i = 0; i < at_y.size(); ++i) {
        const double x = a.at(at_a[i]), w = b.at(at_b[i]);
        ASSERT_NEAR(y.at(at_y[i]), 3 * x + w, 1e-5) << named.isa << " element " << i;
        ASSERT_NEAR(z.at(at_z[i]), std::max(x, w), 4e-3) << named.isa << " element " << i;
      }
    }
}

}  // namespace
}  // namespace polymio
