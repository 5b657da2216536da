// Tensors of more than 2^31 elements: every solver is correct at both ends and where 32-bit offsets would
// wrap, or refuses. Runs only with POLYMIO_TEST_LARGE=1: 10 GB of memory and some minutes.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "core/handle.h"
#include "primitives/convolution/convolution.h"

namespace polymio::convolution {
namespace {

constexpr std::int64_t kTwo31 = std::int64_t{1} << 31;
constexpr std::size_t kWorkspaceLimit = std::size_t{5} << 30;

/// Zeroed memory; untouched pages are not allocated.
class Sparse {
 public:
  explicit Sparse(std::size_t bytes)
      : bytes_(bytes),
        memory_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    EXPECT_NE(memory_, MAP_FAILED) << bytes << " bytes";
  }
  Sparse(const Sparse&) = delete;
  Sparse& operator=(const Sparse&) = delete;
  ~Sparse() { munmap(memory_, bytes_); }
  void* data() const { return memory_; }
  std::int8_t* int8() const { return static_cast<std::int8_t*>(memory_); }

 private:
  std::size_t bytes_;
  void* memory_;
};

class LargeTensors : public testing::Test {
 protected:
  void SetUp() override {
    const char* on = std::getenv("POLYMIO_TEST_LARGE");
    if (!on || std::string(on) != "1") GTEST_SKIP() << "set POLYMIO_TEST_LARGE=1 to run it";
  }

  /// Runs every solver that accepts the problem; `check` sees the output after each.
  template <class Check>
  void run_all(const Problem& p, const Problem::Args& args, Check check) {
    validate(p);
    Constraints allowed;
    allowed.math = MathMode::kAny;
    allowed.workspace_limit = kWorkspaceLimit;
    int ran = 0;
    for (const SolverBase* solver : solvers(p.direction)) {
      SCOPED_TRACE(solver->info().name);
      const Verdict verdict = admit(*solver, handle_.device(), p, allowed);
      if (!verdict) continue;
      const auto point = solver->default_point(handle_.device(), p);
      Problem::Args with = args;
      with.workspace_bytes = solver->workspace_size(handle_.device(), p, point);
      const Sparse workspace(with.workspace_bytes + 1);
      with.workspace = with.workspace_bytes ? workspace.data() : nullptr;
      solver->build(handle_.stream(), p, point)(handle_.stream(), &with);
      check();
      std::printf("  %s\n", solver->info().name);
      std::fflush(stdout);
      ++ran;
    }
    EXPECT_GE(ran, 1) << "no solver accepts " << p.key();
  }

  Handle handle_{"cpu", nullptr};
};

/// 2^31 + 2^16 elements in three shapes, with a filter of three columns.
struct Cut {
  const char* name;
  std::vector<std::int64_t> lens;
  std::int64_t groups;
};

class LargeInt8 : public LargeTensors, public testing::WithParamInterface<Cut> {
 protected:
  std::int64_t count() const { return kTwo31 + (1 << 16); }
  std::int64_t width() const { return GetParam().lens[3]; }
  std::int64_t plane() const { return GetParam().lens[2] * width(); }
  std::int64_t channel(std::int64_t i) const { return i / plane() % GetParam().groups; }

  Problem problem(Direction d) const {
    const Cut& cut = GetParam();
    Problem p;
    p.direction = d;
    p.x = p.y = make_tensor(DataType::kInt8, cut.lens, {});
    p.w = make_tensor(DataType::kInt8, std::vector<std::int64_t>{cut.groups, 1, 1, 3}, {});
    p.geometry.pad = {0, 1, 0};
    p.geometry.groups = cut.groups;
    EXPECT_EQ(p.x.count(), count());
    return p;
  }
  static int pattern(std::int64_t i) { return static_cast<int>((i * 7 + (i >> 16)) % 11) - 5; }
  static int tap(std::int64_t channel, std::int64_t s) { return static_cast<int>((channel + s) % 3) + 1; }

  /// Element i of the result: the row's neighbours times the taps; `step` is 1 forward, -1 backward.
  int expected(std::int64_t i, int step) const {
    int sum = 0;
    for (std::int64_t s = 0; s < 3; ++s) {
      const std::int64_t column = i % width() + step * (s - 1);
      if (column >= 0 && column < width()) sum += pattern(i + step * (s - 1)) * tap(channel(i), s);
    }
    return sum;
  }

  /// Indices near both ends, near the plane borders next to them, and near 2^31.
  std::vector<std::int64_t> places() const {
    std::vector<std::int64_t> list;
    for (const std::int64_t center : {std::int64_t{100}, width(), plane(), kTwo31, count() - plane(), count() - 101})
      for (std::int64_t i = center - 100; i <= center + 100; ++i)
        if (i >= 0 && i < count()) list.push_back(i);
    return list;
  }

  void dense(Direction d, int step) {
    const Problem p = problem(d);
    const auto n = static_cast<std::size_t>(count());
    const Sparse in(n), out(n), w(static_cast<std::size_t>(3 * GetParam().groups));
    for (std::int64_t i = 0; i < count(); ++i) in.int8()[i] = static_cast<std::int8_t>(pattern(i));
    for (std::int64_t i = 0; i < 3 * GetParam().groups; ++i) w.int8()[i] = static_cast<std::int8_t>(tap(i / 3, i % 3));
    const bool forward = d == Direction::kForward;
    const Problem::Args args{
        .x = forward ? in.data() : out.data(), .w = w.data(), .y = forward ? out.data() : in.data()};
    const auto poison = [&] {
      for (const std::int64_t i : places()) out.int8()[i] = 99;  // larger than every result
    };
    poison();
    run_all(p, args, [&] {
      for (const std::int64_t i : places())
        ASSERT_EQ(static_cast<int>(out.int8()[i]), expected(i, step)) << "element " << i;
      poison();
    });
  }
};

TEST_P(LargeInt8, Forward) { dense(Direction::kForward, 1); }
TEST_P(LargeInt8, BackwardData) { dense(Direction::kBackwardData, -1); }

TEST_P(LargeInt8, BackwardWeights) {
  const Problem p = problem(Direction::kBackwardWeights);
  const auto n = static_cast<std::size_t>(count());
  const Sparse x(n), dy(n), dw(static_cast<std::size_t>(3 * GetParam().groups));
  // Zero except for one pixel at each end and one next to 2^31, so that every product can be listed.
  std::vector<int> wanted(static_cast<std::size_t>(3 * GetParam().groups), 0);
  const std::int64_t pixels[] = {5, kTwo31 - 9, kTwo31 + 9, count() - 6};
  int value = 2;
  for (const std::int64_t i : pixels) {
    dy.int8()[i] = static_cast<std::int8_t>(value++);
    for (std::int64_t s = 0; s < 3; ++s) {
      x.int8()[i - 1 + s] = static_cast<std::int8_t>(s + 1);
      wanted[static_cast<std::size_t>(3 * channel(i) + s)] += dy.int8()[i] * static_cast<int>(s + 1);
    }
  }
  run_all(p, {.x = x.data(), .w = dw.data(), .y = dy.data()}, [&] {
    for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_EQ(static_cast<int>(dw.int8()[i]), wanted[i]) << i;
    std::memset(dw.data(), 99, wanted.size());
  });
}

INSTANTIATE_TEST_SUITE_P(Cuts, LargeInt8,
                         testing::Values(Cut{"rows", {1, 1, 32769, 65536}, 1}, Cut{"images", {32769, 1, 256, 256}, 1},
                                         Cut{"channels", {1, 32769, 256, 256}, 32769}),
                         [](const auto& info) { return std::string(info.param.name); });

/// Small tensors with strides beyond 2^31 elements, in every type: the same offsets in little memory.
class LargeStrides : public LargeTensors, public testing::WithParamInterface<DataType> {};

TEST_P(LargeStrides, EveryDirection) {
  const DataType t = GetParam();
  const auto tensor = [&](std::vector<std::int64_t> lens, std::size_t far) {
    std::vector<std::int64_t> strides = {lens[1] * lens[2] * lens[3], lens[2] * lens[3], lens[3], 1};
    strides[far] = kTwo31 + 7;
    if (far == 1) strides[0] = lens[2] * lens[3];  // images interleave within a channel
    return make_tensor(t, lens, strides);
  };
  for (const std::size_t far : {0u, 1u})
    for (const Direction d : {Direction::kForward, Direction::kBackwardData, Direction::kBackwardWeights}) {
      SCOPED_TRACE(testing::Message() << "direction " << static_cast<int>(d) << ", far dimension " << far);
      Problem p;
      p.direction = d;
      p.x = tensor({2, 2, 5, 6}, far);
      p.w = tensor({2, 2, 3, 3}, far);
      p.y = tensor({2, 2, 3, 4}, far);
      const Sparse x(p.x.bytes()), w(p.w.bytes()), y(p.y.bytes());
      const TensorDesc* descs[] = {&p.x, &p.w, &p.y};
      void* const data[] = {x.data(), w.data(), y.data()};
      const auto offset = [](const TensorDesc& desc, std::int64_t i) {
        std::int64_t at = 0;
        for (std::size_t k = 4; k-- > 0; i /= desc.lens[k]) at += i % desc.lens[k] * desc.strides[k];
        return at;
      };
      for (int k = 0; k < 3; ++k)
        for (std::int64_t i = 0; i < descs[k]->count(); ++i)
          dtype::store(t, data[k], offset(*descs[k], i), static_cast<double>(i * (k + 3) % 3 - 1));
      std::vector<double> sums[3];
      for (int k = 0; k < 3; ++k) sums[k].assign(static_cast<std::size_t>(descs[k]->count()), 0);
      const auto value = [&](int k, std::int64_t i) { return dtype::load(t, data[k], offset(*descs[k], i)); };
      for (std::int64_t i = 0; i < p.y.count(); ++i)
        for (std::int64_t j = 0; j < 18; ++j) {
          const std::int64_t q = i % 4, row = i / 4 % 3, k = i / 12 % 2, n = i / 24, s = j % 3, r = j / 3 % 3,
                             c = j / 9;
          const std::int64_t xi = ((n * 2 + c) * 5 + row + r) * 6 + q + s, wi = k * 18 + j;
          sums[0][static_cast<std::size_t>(xi)] += value(1, wi) * value(2, i);
          sums[1][static_cast<std::size_t>(wi)] += value(0, xi) * value(2, i);
          sums[2][static_cast<std::size_t>(i)] += value(0, xi) * value(1, wi);
        }
      const int out = d == Direction::kForward ? 2 : d == Direction::kBackwardData ? 0 : 1;
      run_all(p, {.x = x.data(), .w = w.data(), .y = y.data()}, [&] {
        for (std::int64_t i = 0; i < descs[out]->count(); ++i) {
          ASSERT_EQ(value(out, i), sums[out][static_cast<std::size_t>(i)]) << "element " << i;
          dtype::store(t, data[out], offset(*descs[out], i), 77);
        }
      });
    }
}

INSTANTIATE_TEST_SUITE_P(Types, LargeStrides,
                         testing::Values(DataType::kFloat, DataType::kHalf, DataType::kBFloat16, DataType::kDouble,
                                         DataType::kInt8),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace polymio::convolution
