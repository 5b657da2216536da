// The GPU skeletons map, column and row with functors of several inputs, outputs and accumulators, through every entry
// point, on the GPU that POLYMIO_TEST_DEVICE names. Sums are of small integers, so every order gives the same.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "core/kernel_builder.h"
#include "primitives/common/gpu/skeletons.h"
#include "tests/device.h"

namespace polymio {
namespace {

using kernels::Nest;
using kernels::Sides;
using Floats = std::vector<float>;

constexpr const char* kSum4 = R"(
#define INPUTS 4
#define OUTPUTS 3
#define READS_OUTPUT(f, o) ((o) == 2)
typedef struct { scalar alpha, beta; } Formula;
INLINE void compute(const Formula* f, const num* in, num* out) {
  out[0] = in[0] * in[1] + in[2];
  out[1] = in[3] - in[0];
  out[2] = blend(f->alpha, in[0] + in[1] + in[2] + in[3], f->beta, out[2]);
}
)";

constexpr const char* kTwoSums = R"(
#define INPUTS 2
#define OUTPUTS 2
typedef struct { scalar alpha; } Formula;
typedef struct { num x, xy; } Accumulator;
INLINE Accumulator start(void) { const Accumulator none = {0, 0}; return none; }
INLINE Accumulator combine(Accumulator a, Accumulator b) {
  const Accumulator all = {a.x + b.x, a.xy + b.xy};
  return all;
}
INLINE Accumulator accumulate(Accumulator a, const num* in) {
  const Accumulator one = {in[0], in[0] * in[1]};
  return combine(a, one);
}
INLINE void finish(const Formula* f, GLOBAL u8* const* out, const i64* at, Accumulator a) {
  store_bits(out[0], 4, at[0], encode(OUT_TYPE, f->alpha * a.x));
  store_bits(out[1], 4, at[1], encode(OUT_TYPE, f->alpha * a.xy));
}
)";

/// Online softmax: the sum is relative to the largest element so far.
constexpr const char* kSoftmax = R"(
#define INPUTS 1
#define OUTPUTS 1
#define MAPPED 1
#define READS_OUTPUT(f, o) ((f)->beta != 0)
typedef struct { scalar alpha, beta; } Formula;
typedef struct { num most, sum; } Accumulator;
INLINE Accumulator start(void) { const Accumulator none = {-FLOAT_OF_BITS(0x7f800000u), 0}; return none; }
INLINE Accumulator combine(Accumulator a, Accumulator b) {
  const Accumulator high = a.most > b.most ? a : b;
  const Accumulator low = a.most > b.most ? b : a;
  const Accumulator all = {high.most, low.sum == 0 ? high.sum : high.sum + low.sum * exp_of(low.most - high.most)};
  return all;
}
INLINE Accumulator accumulate(Accumulator a, const num* in, int column) {
  const Accumulator one = {in[0], 1};
  return combine(a, one);
}
INLINE void apply(const Formula* f, Accumulator a, const num* in, num* out) {
  out[0] = blend(f->alpha, exp_of(in[0] - a.most) / a.sum, f->beta, out[0]);
}
INLINE void finish(const Formula* f, GLOBAL u8* const* out, const i64* at, Accumulator a) {}
)";

/// Mean and variance by Welford's method; y = (x - mean) * weight.
constexpr const char* kWelford = R"(
#define INPUTS 2
#define OUTPUTS 3
#define MAPPED 1
#define REDUCES(i) ((i) == 0)
typedef struct { scalar alpha; } Formula;
typedef struct { num count, mean, squares; } Accumulator;
INLINE Accumulator start(void) { const Accumulator none = {0, 0, 0}; return none; }
INLINE Accumulator combine(Accumulator a, Accumulator b) {
  const num count = a.count + b.count;
  const num share = count > 0 ? b.count / count : 0;
  const num distance = b.mean - a.mean;
  const num squares = a.squares + b.squares + distance * distance * a.count * share;
  const Accumulator all = {count, a.mean + distance * share, squares};
  return all;
}
INLINE Accumulator accumulate(Accumulator a, const num* in, int column) {
  const Accumulator one = {1, in[0], 0};
  return combine(a, one);
}
INLINE void apply(const Formula* f, Accumulator a, const num* in, num* out) {
  out[0] = f->alpha * (in[0] - a.mean) * in[1];
}
INLINE void finish(const Formula* f, GLOBAL u8* const* out, const i64* at, Accumulator a) {
  store_bits(out[1], 4, at[1], encode(OUT_TYPE, a.mean));
  store_bits(out[2], 4, at[2], encode(OUT_TYPE, a.squares / a.count));
}
)";

/// The position of the first of the largest elements, an int32.
constexpr const char* kArgmax = R"(
#define INPUTS 1
#define OUTPUTS 1
#define MAPPED 0
typedef struct { scalar unused; } Formula;
typedef struct { num most; int at; } Accumulator;
INLINE Accumulator start(void) { const Accumulator none = {0, -1}; return none; }
INLINE Accumulator combine(Accumulator a, Accumulator b) {
  if (a.at < 0) return b;
  if (b.at < 0) return a;
  return b.most > a.most || (b.most == a.most && b.at < a.at) ? b : a;
}
INLINE Accumulator accumulate(Accumulator a, const num* in, int column) {
  const Accumulator one = {in[0], column};
  return combine(a, one);
}
INLINE void finish(const Formula* f, GLOBAL u8* const* out, const i64* at, Accumulator a) {
  store_bits(out[0], 4, at[0], (u32)a.at);
}
)";

/// Elements in device memory.
template <class T>
class Array {
 public:
  Array(Stream& stream, const std::vector<T>& values)
      : stream_(stream), size_(values.size()), data_(stream.allocate(bytes())) {
    stream.upload(Buffer(data_), values.data(), bytes());
  }
  ~Array() { stream_.deallocate(data_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  kernels::Side side() const { return {data_, sizeof(T)}; }
  void* data() const { return data_; }
  std::vector<T> values() const {
    std::vector<T> host(size_);
    stream_.download(host.data(), Buffer(data_), bytes());
    return host;
  }

 private:
  std::size_t bytes() const { return size_ * sizeof(T); }

  Stream& stream_;
  std::size_t size_;
  void* data_;
};

/// Small integers.
Floats numbers(std::size_t count, int seed) {
  Floats values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>((static_cast<int>(i) * 7 + static_cast<int>(i / 5) * 3 + seed * 11) % 17 - 8);
  return values;
}

class GpuSkeletons : public testing::Test {
 protected:
  void SetUp() override {
    if (test::on_cpu()) GTEST_SKIP() << "POLYMIO_TEST_DEVICE names no GPU";
    stream_ = create_stream(test::device_name(), nullptr);
  }

  /// Compiles a functor with the skeleton in this header, fp32.
  void compile(const std::string& functor, const std::string& skeleton) {
    std::string source;
    for (const char* header : {"portable", "elements", "walk", "functions"}) source += text_of(header);
    std::string log;
    const std::string program = stream_->compiler().compile(source + functor + text_of(skeleton),
                                                            {"-DIN=fp32", "-DOUT=fp32", "-DNUM=float"}, log);
    module_ = stream_->load(program);
    ASSERT_TRUE(module_) << log;
  }
  std::shared_ptr<const Kernel> kernel(const char* entry) { return module_->kernel(entry); }

  Stream& stream() { return *stream_; }
  /// The device as if it had as many multiprocessors.
  DeviceInfo device(int units) const {
    DeviceInfo device = stream_->info();
    device.units = units;
    return device;
  }

 private:
  static std::string text_of(const std::string& header) {
    return kernel_source("kernels/gpu/portable/" + header + ".h");
  }

  std::unique_ptr<Stream> stream_;
  std::shared_ptr<Module> module_;
};

/// A nest of these sizes with strides per operand.
Nest nest_of(const std::vector<std::int64_t>& sizes, int inputs,
             const std::vector<std::vector<std::int64_t>>& strides) {
  Nest nest;
  nest.rank = static_cast<int>(sizes.size());
  nest.inputs = inputs;
  nest.operands = static_cast<int>(strides.size());
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    nest.dims[d].size = sizes[d];
    for (std::size_t o = 0; o < strides.size(); ++o) nest.dims[d].strides[o] = strides[o][d];
  }
  return nest;
}

std::vector<std::int64_t> packed(const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> strides(sizes.size(), 1);
  for (std::size_t d = sizes.size() - 1; d-- > 0;) strides[d] = strides[d + 1] * sizes[d + 1];
  return strides;
}

/// Offset of element `index` of the nest in an operand.
std::size_t offset_of(const Nest& nest, std::size_t operand, std::int64_t index) {
  std::int64_t offset = 0;
  for (int d = nest.rank - 1; d >= 0; --d) {
    offset += index % nest.dim(d).size * nest.dim(d).strides[operand];
    index /= nest.dim(d).size;
  }
  return static_cast<std::size_t>(offset);
}

class GpuMap : public GpuSkeletons {
 protected:
  void check(const Nest& nest, gpu_skeletons::MapEntry entry) {
    const auto count = static_cast<std::size_t>(nest.count());
    struct {
      float alpha = 2, beta = 3;
    } formula;
    std::vector<Floats> host;
    std::vector<std::unique_ptr<Array<float>>> arrays;
    Sides sides;
    for (std::size_t o = 0; o < 7; ++o) {
      host.push_back(numbers(2 * count, static_cast<int>(o)));
      arrays.push_back(std::make_unique<Array<float>>(stream(), host[o]));
      sides[o] = arrays[o]->side();
    }
    const auto plan = gpu_skeletons::plan_map(nest, sides);
    EXPECT_EQ(plan.entry, entry);
    launch_map(stream(), *kernel(gpu_skeletons::kMapEntries[static_cast<std::size_t>(plan.entry)]), plan, sides,
               gpu_skeletons::value_argument(formula));
    for (std::int64_t i = 0; i < nest.count(); ++i) {
      const auto at = [&](std::size_t o) -> float& { return host[o][offset_of(nest, o, i)]; };
      at(4) = at(0) * at(1) + at(2);
      at(5) = at(3) - at(0);
      at(6) = 2 * (at(0) + at(1) + at(2) + at(3)) + 3 * at(6);
    }
    for (std::size_t o = 4; o < 7; ++o) EXPECT_EQ(arrays[o]->values(), host[o]) << "output " << o - 4;
  }
};

TEST_F(GpuMap, TakesFourInputsAndThreeOutputsOfAnyStrides) {
  compile(kSum4, "map");
  using gpu_skeletons::MapEntry;
  const std::vector<std::int64_t> even = {3, 5, 16}, odd = {4, 9, 7}, five = {2, 3, 2, 5, 3};
  const auto e = packed(even), o = packed(odd), f = packed(five);
  check(nest_of(even, 4, {e, {0, 16, 1}, {5, 1, 0}, e, e, e, e}), MapEntry::kVectors);
  check(nest_of(odd, 4, {o, {1, 4, 0}, o, {0, 1, 0}, o, o, o}), MapEntry::kRows);
  check(nest_of(five, 4, {f, {1, 2, 6, 12, 60}, {0, 1, 0, 3, 15}, f, f, {1, 2, 6, 12, 60}, f}), MapEntry::kElements);
  check(nest_of({1003}, 4, {{1}, {0}, {1}, {1}, {1}, {1}, {1}}), MapEntry::kVectors);
  check(nest_of(even, 4, {e, {85, 17, 1}, e, e, e, e, e}), MapEntry::kVectors);
}

class GpuColumn : public GpuSkeletons {
 protected:
  /// Columns of x and y, each of these sizes, by strides of their elements and of the columns.
  void check(std::int64_t count, const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& strides,
             std::int64_t stride, int units, gpu_skeletons::ColumnEntry entry, bool in_parts = true) {
    const std::vector<std::int64_t> none(sizes.size(), 0);
    gpu_skeletons::Columns columns{nest_of(sizes, 2, {strides, strides, none, none}), {}, {}};
    const std::size_t elements =
        static_cast<std::size_t>(count * stride) + offset_of(columns.nest, 0, columns.nest.count() - 1);
    const Floats x = numbers(elements, 1), y = numbers(elements, 2);
    const Array<float> in_x(stream(), x), in_y(stream(), y);
    const Array<float> out_x(stream(), Floats(static_cast<std::size_t>(count)));
    const Array<float> out_xy(stream(), Floats(static_cast<std::size_t>(2 * count)));
    columns.sides = {in_x.side(), in_y.side(), out_x.side(), out_xy.side()};
    columns.shape = {count, {stride, stride, 1, 2}, {1, 1, 1, 1}, 1, 1};
    run(columns, units, entry, in_parts);
    const Floats got_x = out_x.values(), got_xy = out_xy.values();
    for (std::int64_t c = 0; c < count; ++c) {
      float sum_x = 0, sum_xy = 0;
      for (std::int64_t i = 0; i < columns.nest.count(); ++i) {
        const std::size_t at = static_cast<std::size_t>(c * stride) + offset_of(columns.nest, 0, i);
        sum_x += x[at];
        sum_xy += x[at] * y[at];
      }
      ASSERT_EQ(got_x[static_cast<std::size_t>(c)], 2 * sum_x) << "column " << c;
      ASSERT_EQ(got_xy[static_cast<std::size_t>(2 * c)], 2 * sum_xy) << "column " << c;
    }
  }

 private:
  void run(const gpu_skeletons::Columns& columns, int units, gpu_skeletons::ColumnEntry entry, bool in_parts) {
    struct {
      float alpha = 2;
    } formula;
    const auto value = gpu_skeletons::value_argument(formula);
    const bool two_stages = entry >= gpu_skeletons::ColumnEntry::kPartialElements;
    const auto plan = two_stages ? plan_column_partials(device(units), columns) : plan_column(device(units), columns);
    ASSERT_EQ(plan.entry, entry);
    const auto first = kernel(gpu_skeletons::kColumnEntries[static_cast<std::size_t>(entry)]);
    if (!two_stages) return launch_column(stream(), *first, plan, columns.sides, [&](bool) { return value; });
    EXPECT_EQ(plan.is_whole(), !in_parts);
    const Array<float> workspace(stream(), Floats(plan.workspace(8) / sizeof(float) + 1));
    launch_column_partials(stream(), *first, *kernel("column_finish"), plan, columns.sides, value,
                           Buffer(workspace.data()));
    stream().synchronize();
  }
};

TEST_F(GpuColumn, ReducesTwoInputsToTwoAccumulatorsInOneStage) {
  compile(kTwoSums, "column");
  using gpu_skeletons::ColumnEntry;
  check(24, {2, 35}, {35 * 24, 24}, 1, 4, ColumnEntry::kAcross);
  check(24, {200, 35}, {35 * 24, 24}, 1, 132, ColumnEntry::kAcrossClusters);
  check(64, {3, 49}, {49 * 64, 1}, 49, 4, ColumnEntry::kPlanes);
  check(3, {2, 64}, {64 * 3, 1}, 64, 200, ColumnEntry::kVectors);
  check(3, {2, 64}, {64 * 3 + 3, 1}, 65, 200, ColumnEntry::kUnits);
  check(7, {3, 33}, {33 * 7, 7}, 1, 4, ColumnEntry::kElements);
}

TEST_F(GpuColumn, DistributesLongColumnsOverBlocksInTwoStages) {
  compile(kTwoSums, "column_partials");
  using gpu_skeletons::ColumnEntry;
  check(8, {2, 5001}, {5001 * 8, 8}, 1, 132, ColumnEntry::kPartialAcross);
  check(3, {2, 16384}, {16384 * 3, 1}, 16384, 132, ColumnEntry::kPartialVectors);
  check(3, {9001}, {3}, 1, 132, ColumnEntry::kPartialElements);
  check(96, {2, 40}, {40 * 96, 96}, 1, 4, ColumnEntry::kPartialAcross, false);
  check(3, {2, 64}, {64 * 3, 1}, 64, 4, ColumnEntry::kPartialVectors, false);
}

class GpuRow : public GpuSkeletons {
 protected:
  template <class Formula>
  void run(const gpu_skeletons::Rows& rows, const Formula& formula, std::size_t accumulator_bytes,
           const gpu_skeletons::RowPlan& plan) {
    const Array<float> workspace(stream(), Floats(plan.workspace(accumulator_bytes) / sizeof(float) + 1));
    std::vector<std::shared_ptr<const Kernel>> used;
    const auto kernel_of = [&](gpu_skeletons::RowEntry entry) -> const Kernel& {
      used.push_back(kernel(gpu_skeletons::kRowEntries[static_cast<std::size_t>(entry)]));
      return *used.back();
    };
    launch_row(stream(), kernel_of, plan, rows.sides, gpu_skeletons::value_argument(formula), Buffer(workspace.data()));
    stream().synchronize();
  }
};

struct RowCase {
  std::int64_t rows, columns;
  bool transposed;  // rows are neighbours in memory
  int units, lanes, parts;
};
// Rows in one thread, part of a subgroup, a subgroup, a block, several blocks; with neighbouring rows.
const RowCase kRowCases[] = {{5, 1, false, 4, 1, 1},         {9, 7, false, 4, 8, 1},        {6, 64, false, 4, 16, 1},
                             {5, 4000, false, 4, 256, 1},    {40, 1000, false, 4, 64, 1},   {3, 3001, false, 1, 256, 1},
                             {2, 40000, false, 132, 256, 9}, {1, 9001, false, 132, 256, 8}, {300, 12, true, 1, 4, 1},
                             {40, 33, true, 132, 16, 1}};

std::vector<std::int64_t> strides_of(const RowCase& c) {
  return c.transposed ? std::vector<std::int64_t>{1, c.rows} : std::vector<std::int64_t>{c.columns, 1};
}

TEST_F(GpuRow, ComputesSoftmaxOnline) {
  compile(kSoftmax, "row");
  for (const RowCase& c : kRowCases) {
    SCOPED_TRACE(testing::Message() << c.rows << " rows of " << c.columns);
    const Floats x = numbers(static_cast<std::size_t>(c.rows * c.columns), 1), old = numbers(x.size(), 2);
    const Array<float> in(stream(), x), out(stream(), old);
    gpu_skeletons::Rows rows{
        nest_of({c.rows, c.columns}, 1, {strides_of(c), strides_of(c)}), {in.side(), out.side()}, 1, 1};
    const auto plan = plan_row(device(c.units), rows);
    EXPECT_EQ(plan.shape.lanes, c.lanes);
    EXPECT_EQ(plan.shape.parts, c.parts);
    EXPECT_EQ(plan.shape.neighbours, c.transposed);
    struct {
      float alpha = 3, beta = 0.5;
    } formula;
    run(rows, formula, 8, plan);
    const Floats got = out.values();
    for (std::int64_t r = 0; r < c.rows; ++r) {
      const auto at = [&](std::int64_t i) { return offset_of(rows.nest, 0, r * c.columns + i); };
      double sum = 0;
      for (std::int64_t i = 0; i < c.columns; ++i) sum += std::exp(static_cast<double>(x[at(i)]));
      for (std::int64_t i = 0; i < c.columns; ++i) {
        const double want = 3 * std::exp(static_cast<double>(x[at(i)])) / sum + 0.5 * static_cast<double>(old[at(i)]);
        ASSERT_NEAR(static_cast<double>(got[at(i)]), want, 1e-5) << "row " << r << " column " << i;
      }
    }
  }
}

TEST_F(GpuRow, ComputesMeanAndVarianceByWelford) {
  compile(kWelford, "row");
  for (const RowCase& c : kRowCases) {
    SCOPED_TRACE(testing::Message() << c.rows << " rows of " << c.columns);
    const Floats x = numbers(static_cast<std::size_t>(c.rows * c.columns), 1);
    const Floats weight = numbers(static_cast<std::size_t>(c.columns), 2);
    const Array<float> in(stream(), x), weights(stream(), weight), out(stream(), x);
    const Array<float> means(stream(), Floats(static_cast<std::size_t>(c.rows)));
    const Array<float> variances(stream(), Floats(static_cast<std::size_t>(c.rows)));
    gpu_skeletons::Rows rows{nest_of({c.rows, c.columns}, 2, {strides_of(c), {0, 1}, strides_of(c), {1, 0}, {1, 0}}),
                             {in.side(), weights.side(), out.side(), means.side(), variances.side()},
                             1,
                             1};
    struct {
      float alpha = 2;
    } formula;
    run(rows, formula, 12, plan_row(device(c.units), rows));
    const Floats y = out.values(), mean = means.values(), variance = variances.values();
    for (std::int64_t r = 0; r < c.rows; ++r) {
      const auto at = [&](std::int64_t i) { return offset_of(rows.nest, 0, r * c.columns + i); };
      double sum = 0, squares = 0;
      for (std::int64_t i = 0; i < c.columns; ++i) sum += static_cast<double>(x[at(i)]);
      const double want = sum / static_cast<double>(c.columns);
      for (std::int64_t i = 0; i < c.columns; ++i) squares += std::pow(static_cast<double>(x[at(i)]) - want, 2);
      const auto row = static_cast<std::size_t>(r);
      ASSERT_NEAR(static_cast<double>(mean[row]), want, 1e-4);
      ASSERT_NEAR(static_cast<double>(variance[row]), squares / static_cast<double>(c.columns), 1e-3);
      for (std::int64_t i = 0; i < c.columns; ++i)
        ASSERT_NEAR(
            static_cast<double>(y[at(i)]),
            2 * (static_cast<double>(x[at(i)]) - want) * static_cast<double>(weight[static_cast<std::size_t>(i)]),
            4e-3);
    }
  }
}

TEST_F(GpuRow, FindsTheFirstLargestElement) {
  compile(kArgmax, "row");
  for (const RowCase& c : kRowCases) {
    SCOPED_TRACE(testing::Message() << c.rows << " rows of " << c.columns);
    const Floats x = numbers(static_cast<std::size_t>(c.rows * c.columns), 1);
    const Array<float> in(stream(), x);
    const Array<int> out(stream(), std::vector<int>(static_cast<std::size_t>(c.rows), -7));
    gpu_skeletons::Rows rows{nest_of({c.rows, c.columns}, 1, {strides_of(c), {1, 0}}), {in.side(), out.side()}, 1, 0};
    struct {
      float unused = 0;
    } formula;
    run(rows, formula, 8, plan_row(device(c.units), rows));
    const std::vector<int> got = out.values();
    for (std::int64_t r = 0; r < c.rows; ++r) {
      std::int64_t first = 0;
      for (std::int64_t i = 1; i < c.columns; ++i)
        if (x[offset_of(rows.nest, 0, r * c.columns + i)] > x[offset_of(rows.nest, 0, r * c.columns + first)])
          first = i;
      ASSERT_EQ(got[static_cast<std::size_t>(r)], first) << "row " << r;
    }
  }
}

}  // namespace
}  // namespace polymio
