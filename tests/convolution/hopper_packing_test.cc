// The copies of ConvHopperPacked: its launches with the kernels of copies on an OpenCL device of the CPU, and the
// convolution of the copies by its definition, with values whose sums are exact.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "base/math.h"
#include "convolution/sample_problem.h"
#include "core/kernel_builder.h"
#include "core/registry.h"
#include "primitives/convolution/cuda/hopper.h"
#include "primitives/convolution/cuda/hopper_packing.h"
#include "primitives/convolution/cuda/hopper_slices.h"
#include "primitives/convolution/definition.h"
#include "tests/kernels/forwarding_stream.h"

namespace polymio::convolution {
namespace {

/// A kernel of the inner convolution.
struct InnerKernel final : Kernel {};

/// By the reference solver of the CPU.
void convolve(const Problem& p, Problem::Args& a) {
  static Handle& cpu = *new Handle("cpu", nullptr);
  reference_solver(p.direction).build(cpu.stream(), p, {})(cpu.stream(), &a);
  cpu.stream().synchronize();
}

/// An OpenCL device whose memory the host can access, which computes the inner convolution by the reference solver.
class Device final : public ForwardingStream {
 public:
  explicit Device(Stream& opencl) : ForwardingStream(opencl), info_(usual_device("cuda-sm90")) {}
  const DeviceInfo& info() const override { return info_; }
  void clear(Buffer, std::size_t) override {}
  TensorMap tensor_map(const TensorMapSpec&, Buffer) const override { return {}; }
  void launch(const Kernel& kernel, const Launch& shape, std::span<const Argument> arguments) override {
    if (!dynamic_cast<const InnerKernel*>(&kernel)) {
      convolved = false;
      return device_.launch(kernel, shape, arguments);
    }
    device_.synchronize();
    if (std::exchange(convolved, true) || inner.empty()) return;
    ASSERT_LT(next, inner.size());
    convolve(inner[next].problem, inner[next].args);
    ++next;
  }

  /// The convolutions of the copies, between which copies are made; none: only copies are looked at.
  struct Inner {
    Problem problem;
    Problem::Args args;
  };
  std::vector<Inner> inner;
  std::size_t next = 0;
  bool convolved = false;

 private:
  DeviceInfo info_;
};

class HopperPacking : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto& why = absence(DeviceKind::kOpenCl); !why.empty()) GTEST_SKIP() << why;
    opencl_ = create_stream("opencl:0", nullptr);
    device_ = std::make_unique<Device>(*opencl_);
  }
  void TearDown() override {
    for (void* p : memory_) opencl_->deallocate(p);
  }

  void* filled(DataType type, std::int64_t count) {
    void* const p = opencl_->allocate(static_cast<std::size_t>(count) * size_of(type));
    memory_.push_back(p);
    std::uniform_int_distribution<int> integer(-2, 2);
    for (std::int64_t i = 0; i < count; ++i) dtype::store(type, p, i, integer(engine_));
    return p;
  }

  /// Runs the problem by copies of at most `most_bytes`, and compares with its definition.
  void check(const Problem& p, double alpha = 1, std::int64_t most_bytes = cuda::kMostCopiedBytes, double beta = 0) {
    SCOPED_TRACE(p.key());
    const SolverInfo info{133, "ConvHopperPacked"};
    const auto solver = cuda::make_hopper_packed(info, p.direction, most_bytes);
    const DeviceInfo& d = device_->info();
    const cuda::HopperSlices slices = cuda::hopper_slices(p, most_bytes);
    EXPECT_EQ(solver->is_applicable(d, p).text(), Verdict{}.text());
    const TunePoint point = solver->default_point(d, p);
    EXPECT_TRUE(solver->is_valid(d, p, point));

    Problem::Args args;
    args.x = filled(p.x.type, p.x.space());
    args.w = filled(p.w.type, p.w.space());
    args.y = filled(p.y.type, p.y.space());
    args.alpha = alpha;
    args.beta = beta;
    Problem::Args wanted = args;
    void*& output = p.direction == Direction::kForward        ? wanted.y
                    : p.direction == Direction::kBackwardData ? wanted.x
                                                              : wanted.w;
    output = filled(p.output().type, p.output().space());
    void* const out = output_of(p, args);
    std::memcpy(out, output, p.output().bytes());
    if (beta == 0) std::memset(out, 0xff, p.output().bytes());
    convolve(p, wanted);

    const std::size_t bytes = solver->workspace_size(d, p, point);
    void* const workspace = filled(DataType::kInt8, static_cast<std::int64_t>(bytes) + kGuard);
    std::memset(workspace, 0xff, bytes + kGuard);  // NaN
    args.workspace = workspace;
    args.workspace_bytes = bytes;

    device_->inner.clear();
    device_->next = 0;
    for (const auto& slice : slices.slices) device_->inner.push_back(inner_of(slices, slice, args));
    for (std::size_t i = 1; i < device_->inner.size() && slices.summed(); ++i) device_->inner[i].args.beta = 1;
    device_->convolved = false;

    Kernels kernels;
    const std::vector<KernelSpec> specs = solver->kernel_specs(d, p, point);
    const bool rounds = slices.summed() && size_of(p.w.type) == 2;  // by the last of them
    for (const KernelSpec& spec : specs)
      kernels.push_back(spec.source.find("/fold") != std::string::npos ||
                                spec.source.find("/patches") != std::string::npos || (rounds && &spec == &specs.back())
                            ? build_kernels(*opencl_, {&spec, 1})[0]
                            : std::make_shared<InnerKernel>());
    solver->assemble(d, p, point, kernels)(*device_, args);
    opencl_->synchronize();
    EXPECT_EQ(device_->next, slices.slices.size());
    int wrong = 0;
    for (std::int64_t i = 0; i < p.output().space(); ++i) {
      const double now = dtype::load(p.output().type, out, i), then = dtype::load(p.output().type, output, i);
      if (now != then && ++wrong == 1) ADD_FAILURE() << "element " << i << " is " << now << ", not " << then;
    }
    EXPECT_EQ(wrong, 0) << "elements of " << p.output().space();
    for (std::size_t i = 0; i < kGuard; ++i)
      EXPECT_EQ(static_cast<unsigned char*>(workspace)[bytes + i], 0xff) << "beyond the workspace";
  }

  /// The convolution of a slice's copies, which are in the order w, x, y, after sums.
  static Device::Inner inner_of(const cuda::HopperSlices& slices, const cuda::HopperSlices::Slice& slice,
                                Problem::Args args) {
    const Problem& p = slices.shapes[slice.shape];
    const cuda::HopperPacking plan = cuda::hopper_packing(p, slices.summed());
    char* copy = reinterpret_cast<char*>(
        round_up(reinterpret_cast<std::intptr_t>(args.workspace), std::intptr_t{cuda::HopperPacking::kAlignment}));
    const auto element = static_cast<std::int64_t>(size_of(p.x.type));
    const auto next = [&](const cuda::HopperOperand& o, void* tensor, std::int64_t first) -> void* {
      return o.copied ? std::exchange(copy, copy + o.bytes) : static_cast<char*>(tensor) + element * first;
    };
    char* const sums = std::exchange(copy, copy + plan.sums);
    args.w = next(plan.w, args.w, 0);
    args.x = next(plan.x, args.x, slice.x);
    args.y = next(plan.y, args.y, slice.y);
    if (plan.sums > 0) {
      args.w = sums;
      args.alpha = 1;
      args.beta = 0;
    }
    if (plan.swapped) std::swap(args.x, args.y);
    return {plan.inner, args};
  }

  /// `pieces`: of the copies; 0: those of a solver of the library.
  void check_directions(const Shape& shape, std::int64_t pieces = 0) {
    for (const bool last : {false, true})
      for (const Direction d : kDirections) {
        Shape s = shape;
        s.channels_last = last;
        const Problem p = problem(d, s);
        if (!cuda::hopper_packing_serves(p)) continue;
        check(p, 0.5, pieces > 0 ? cuda::hopper_packing(p).bytes() / pieces : cuda::kMostCopiedBytes);
      }
  }

  static constexpr std::size_t kGuard = 256;
  std::mt19937 engine_{1};
  std::unique_ptr<Stream> opencl_;
  std::unique_ptr<Device> device_;
  std::vector<void*> memory_;
};

template <class Element>
void expect_swapped(const Problem& p, const Problem::Args& args) {
  const auto* const w = static_cast<const Element*>(args.w);
  const auto* const swapped =
      reinterpret_cast<const Element*>(round_up(reinterpret_cast<std::intptr_t>(args.workspace), std::intptr_t{16}));
  const std::int64_t taps = p.w.count() / p.k() / p.c();
  int wrong = 0;
  for (std::int64_t k = 0; k < p.k(); ++k)
    for (std::int64_t t = 0; t < taps; ++t)
      for (std::int64_t c = 0; c < p.c(); ++c)
        wrong += swapped[(c * taps + t) * p.k() + k] != w[(k * taps + t) * p.c() + c];
  EXPECT_EQ(wrong, 0);
}

TEST_F(HopperPacking, SwapsChannelsOfWeights) {
  for (const DataType type : {DataType::kFloat, DataType::kFloat8E4m3fn}) {
    Shape s{.x = {1, 176, 6, 7}, .w = {144, 176, 3, 2}, .type = type};
    s.channels_last = true;
    const Problem p = problem(Direction::kBackwardData, s);
    const DeviceInfo& d = device_->info();
    const auto& solver = dynamic_cast<const GpuSolver<Problem>&>(*solver_by_name("ConvHopperBwd"));
    const TunePoint point = solver.default_point(d, p);
    const std::vector<KernelSpec> specs = solver.kernel_specs(d, p, point);
    ASSERT_EQ(specs.size(), 2u);
    Problem::Args args;
    args.w = filled(p.w.type, p.w.space());
    args.workspace_bytes = solver.workspace_size(d, p, point);
    args.workspace = filled(DataType::kInt8, static_cast<std::int64_t>(args.workspace_bytes));
    const Kernels kernels = {std::make_shared<InnerKernel>(), build_kernels(*opencl_, {&specs[1], 1})[0]};
    solver.assemble(d, p, point, kernels)(*device_, args);
    opencl_->synchronize();
    type == DataType::kFloat ? expect_swapped<std::uint32_t>(p, args) : expect_swapped<std::uint8_t>(p, args);
  }
}

TEST_F(HopperPacking, WidensEveryCodeOf8BitFloats) {
  for (const DataType type : kDataTypes) {
    if (!is_fp8(type)) continue;
    SCOPED_TRACE(name_of(type));
    Shape s{.x = {1, 8, 5, 11}, .w = {16, 8, 3, 2}, .type = type};
    s.channels_last = true;
    const Problem p = problem(Direction::kForward, s);
    const auto& solver = dynamic_cast<const GpuSolver<Problem>&>(*solver_by_name("ConvHopperWidenedFwd"));
    const TunePoint point = solver.default_point(device_->info(), p);
    const std::vector<KernelSpec> specs = solver.kernel_specs(device_->info(), p, point);
    ASSERT_EQ(specs.size(), 3u);
    Problem::Args args;
    args.x = filled(type, p.x.space());
    args.w = filled(type, p.w.space());
    args.workspace_bytes = solver.workspace_size(device_->info(), p, point);
    args.workspace = filled(DataType::kInt8, static_cast<std::int64_t>(args.workspace_bytes));
    for (const auto& [t, data] : {std::pair(&p.x, args.x), std::pair(&p.w, args.w)})
      for (std::int64_t i = 0; i < t->space(); ++i)
        static_cast<unsigned char*>(data)[i] = static_cast<unsigned char>(i);
    Kernels kernels = build_kernels(*opencl_, {specs.data(), 2});
    kernels.push_back(std::make_shared<InnerKernel>());
    solver.assemble(device_->info(), p, point, kernels)(*device_, args);
    opencl_->synchronize();
    const auto* copy =
        reinterpret_cast<const char*>(round_up(reinterpret_cast<std::intptr_t>(args.workspace), std::intptr_t{128}));
    for (const auto& [t, data] : {std::pair(&p.x, args.x), std::pair(&p.w, args.w)}) {
      for (std::int64_t i = 0; i < t->space(); ++i) {
        const double code = dtype::load(type, data, i), wide = dtype::load(DataType::kBFloat16, copy, i);
        EXPECT_TRUE(code == wide || (std::isnan(code) && std::isnan(wide))) << i << ": " << wide << ", not " << code;
      }
      copy += round_up(2 * t->space(), std::int64_t{128});
    }
  }
}

TEST_F(HopperPacking, ReferenceOfGpusRoundsStochasticallyAsThatOfTheCpu) {
  for (const DataType type : kDataTypes) {
    if (!is_fp8(type)) continue;
    SCOPED_TRACE(name_of(type));
    Problem p = problem(Direction::kForward, {.x = {2, 9, 12, 11}, .w = {7, 9, 3, 3}, .type = type});
    p.rounding = Rounding::kStochastic;
    p.scalars = Scalars::kBilinear;
    const auto& solver = dynamic_cast<const GpuSolver<Problem>&>(*solver_by_name("ConvGpuReferenceFwd"));
    ASSERT_EQ(solver.is_applicable(opencl_->info(), p).text(), Verdict{}.text());
    Problem::Args args;
    args.x = filled(type, p.x.space());
    args.w = filled(type, p.w.space());
    args.alpha = 0.0037;  // some results are subnormal
    args.beta = 0.01;
    args.seed = 12345678901234567u;
    Problem::Args wanted = args;
    args.y = filled(type, p.y.space());
    wanted.y = filled(type, p.y.space());
    std::memcpy(args.y, wanted.y, p.y.bytes());
    const Kernels kernels = build_kernels(*opencl_, solver.kernel_specs(opencl_->info(), p, {}));
    solver.assemble(opencl_->info(), p, {}, kernels)(*opencl_, args);
    opencl_->synchronize();
    convolve(p, wanted);
    EXPECT_EQ(std::memcmp(args.y, wanted.y, p.y.bytes()), 0);
  }
}

TEST_F(HopperPacking, CopiesOfAllSizes) {
  constexpr auto kBf16 = DataType::kBFloat16;
  check_directions({.x = {2, 40, 6, 7}, .w = {72, 40, 3, 3}, .pad = {1, 1}, .type = DataType::kHalf});
  check_directions({.x = {3, 65, 5, 4}, .w = {33, 65, 3, 2}, .pad = {1, 0}, .stride = {2, 1}, .type = kBf16});
  check_directions({.x = {2, 100, 3, 3}, .w = {7, 100, 1, 1}, .type = DataType::kHalf});
  check_directions({.x = {2, 36, 90}, .w = {20, 36, 5}, .pad = {4}, .dilation = {2}, .type = kBf16});
  check_directions({.x = {1, 35, 3, 4, 5}, .w = {9, 35, 3, 3, 3}, .pad = {1, 1, 1}, .type = DataType::kHalf});
  check_directions({.x = {1, 65, 9, 40}, .w = {10, 65, 1, 3}, .pad = {0, 1}, .type = DataType::kHalf});
  check_directions({.x = {2, 40, 6, 6}, .w = {36, 40, 3, 3}, .pad = {1, 1}});
  check_directions({.x = {3, 33, 5, 14}, .w = {17, 33, 3, 2}, .pad = {1, 0}, .stride = {2, 1}});
  check_directions({.x = {2, 50, 3, 3}, .w = {7, 50, 1, 1}});
  check_directions({.x = {1, 19, 3, 9, 10}, .w = {66, 19, 3, 3, 3}, .pad = {1, 1, 1}});
}

TEST_F(HopperPacking, SpaceToDepthAlongAStride) {
  constexpr auto kBf16 = DataType::kBFloat16;
  const Shape slices{
      .x = {2, 32, 5, 6, 8}, .w = {40, 32, 3, 3, 3}, .pad = {1, 1, 1}, .stride = {2, 2, 2}, .type = kBf16};
  const Shape four{
      .x = {3, 16, 2, 6, 44}, .w = {24, 16, 1, 2, 7}, .pad = {0, 0, 3}, .stride = {1, 1, 4}, .type = kBf16};
  const Shape line{.x = {2, 32, 132}, .w = {16, 32, 5}, .pad = {2}, .stride = {2}, .type = kBf16};
  const Shape fp32{.x = {2, 16, 3, 9, 20}, .w = {32, 16, 1, 3, 3}, .pad = {0, 1, 1}, .stride = {1, 2, 2}};
  for (Shape s : {slices, four, line, fp32}) {
    s.channels_last = true;
    for (const Direction d : {Direction::kForward, Direction::kBackwardData}) {
      const cuda::HopperPacking plan = cuda::hopper_packing(problem(d, s));
      EXPECT_FALSE(plan.x.copied);
      EXPECT_EQ(plan.inner.c(), s.x[1] * s.stride.back());
    }
    check_directions(s);
    check_directions(s, 2);
  }
}

TEST_F(HopperPacking, FoldsThatCostLessThanSpaceToDepth) {
  Shape first{.x = {2, 8, 20, 20}, .w = {16, 8, 7, 7}, .pad = {3, 3}, .stride = {2, 2}, .type = DataType::kBFloat16};
  first.channels_last = true;
  for (const Direction d : {Direction::kForward, Direction::kBackwardData})
    EXPECT_TRUE(cuda::hopper_packing(problem(d, first)).x.copied);
}

TEST_F(HopperPacking, SlicesOfImagesAndRows) {
  constexpr auto kBf16 = DataType::kBFloat16;
  const Shape images{.x = {7, 40, 6, 8}, .w = {72, 40, 3, 3}, .pad = {1, 1}, .type = DataType::kHalf};
  const Shape planes{.x = {2, 16, 50, 6, 8}, .w = {24, 16, 3, 1, 3}, .pad = {1, 0, 1}, .type = kBf16};
  const Shape strided{.x = {1, 40, 67, 5}, .w = {24, 40, 5, 2}, .pad = {2, 1}, .stride = {3, 1}, .type = kBf16};
  const Shape dilated{.x = {1, 33, 70}, .w = {20, 33, 5}, .pad = {4}, .dilation = {3}, .type = kBf16};
  const Shape fp32{.x = {3, 24, 33, 5}, .w = {24, 24, 3, 2}, .pad = {1, 1}};
  const Shape blocks{
      .x = {1, 32, 50, 6, 8}, .w = {24, 32, 3, 3, 3}, .pad = {1, 1, 1}, .stride = {1, 2, 2}, .type = kBf16};
  const Shape folded{.x = {5, 3, 20, 20}, .w = {16, 3, 7, 7}, .pad = {3, 3}, .stride = {2, 2}, .type = kBf16};
  for (const Shape& s : {images, planes, strided, dilated, fp32, blocks, folded})
    for (const std::int64_t pieces : {2, 5}) check_directions(s, pieces);

  const Problem p = problem(Direction::kForward, planes);
  const std::int64_t bytes = cuda::hopper_packing(p).bytes();
  EXPECT_EQ(cuda::hopper_slices(p, bytes).slices.size(), 1);
  EXPECT_EQ(cuda::hopper_slices(p, bytes / 2 + 4096).slices.size(), 2) << "an image each, and the weights";
  EXPECT_EQ(cuda::hopper_slices(p, bytes / 4).shapes.size(), 3) << "the first, the next and the last rows";
}

// 16 bits are summed in fp32, which is rounded once; fp32 where the result is.
TEST_F(HopperPacking, SlicesOfGradientsOfWeightsAddUp) {
  for (const DataType type : {DataType::kBFloat16, DataType::kHalf, DataType::kFloat})
    for (const Sizes& x : {Sizes{7, 64, 8, 16}, Sizes{1, 64, 35, 16}}) {
      Problem p = problem(Direction::kBackwardWeights, {.x = x, .w = {72, 64, 3, 1}, .pad = {1, 0}, .type = type});
      std::int64_t bytes = cuda::hopper_packing(p).bytes();
      EXPECT_TRUE(cuda::hopper_slices(p, bytes).summed());
      EXPECT_FALSE(cuda::hopper_slices(p, 2 * bytes).summed());
      check(p, 0.5, bytes);
      p.w = cuda::channels_last(p.w, p.k(), p.c());  // not copied
      p.scalars = Scalars::kBilinear;
      bytes = cuda::hopper_packing(p).bytes();
      EXPECT_TRUE(cuda::hopper_slices(p, bytes).summed());
      check(p, 0.5, bytes, 2);
    }
}

TEST_F(HopperPacking, FoldsOfFewChannels) {
  constexpr auto kBf16 = DataType::kBFloat16;
  // channels, outputs, height, width, filter, pads, strides
  const int cases[][10] = {
      {3, 8, 13, 15, 7, 7, 3, 3, 2, 2}, {3, 12, 23, 21, 11, 11, 2, 2, 4, 4}, {1, 8, 9, 10, 3, 3, 1, 1, 1, 1},
      {3, 16, 9, 10, 3, 3, 1, 1, 1, 1}, {4, 9, 11, 12, 3, 3, 1, 1, 2, 2},    {32, 8, 11, 17, 5, 10, 0, 0, 2, 2},
      {16, 8, 8, 9, 3, 3, 1, 1, 1, 1},  {8, 8, 7, 9, 5, 4, 2, 1, 1, 1},      {20, 8, 9, 9, 3, 3, 1, 1, 1, 1},
      {6, 8, 10, 9, 4, 3, 1, 2, 3, 2},  {3, 8, 12, 12, 2, 2, 0, 0, 2, 2},    {5, 8, 8, 40, 1, 9, 0, 4, 1, 3},
      {2, 8, 10, 11, 5, 5, 4, 4, 1, 1}, {3, 8, 16, 16, 4, 4, 0, 0, 4, 4}};
  for (const DataType type : {kBf16, DataType::kFloat})
    for (const auto& v : cases)
      check_directions({.x = {2, v[0], v[2], v[3]},
                        .w = {v[1], v[0], v[4], v[5]},
                        .pad = {v[6], v[7]},
                        .stride = {v[8], v[9]},
                        .type = type});
  check_directions({.x = {2, 3, 50}, .w = {8, 3, 9}, .pad = {4}, .stride = {2}, .type = kBf16});
}

TEST_F(HopperPacking, PatchesAreChannelsInTheOrderOfWeights) {
  // channels, outputs, height, width, filter, strides; of 16 bits steps are 64, and half of the last one may be missing
  const int cases[][8] = {{3, 24, 32, 48, 16, 16, 16, 16}, {2, 16, 17, 26, 8, 8, 8, 8},
                          {2, 8, 17, 20, 4, 4, 5, 6},      {3, 24, 44, 42, 14, 14, 14, 14},
                          {1, 9, 24, 25, 11, 11, 12, 11},  {3, 24, 10, 72, 3, 24, 3, 24}};
  for (const DataType type : {DataType::kHalf, DataType::kFloat})
    for (const auto& v : cases) {
      const Shape s{.x = {5, v[0], v[2], v[3]}, .w = {v[1], v[0], v[4], v[5]}, .stride = {v[6], v[7]}, .type = type};
      const cuda::HopperPacking plan = cuda::hopper_packing(problem(Direction::kForward, s));
      const std::int64_t elements = v[0] * v[4] * v[5], half_step = type == DataType::kHalf ? 32 : 16;
      EXPECT_TRUE(plan.patches && plan.x.copied);
      EXPECT_EQ(plan.inner.c(), round_up(elements, half_step));
      EXPECT_EQ(plan.w.copied, elements % half_step != 0) << "forward, w is copied if it is padded";
      for (const Direction d : kDirections)
        EXPECT_EQ(cuda::hopper_packing_serves(problem(d, s)).text(), Verdict{}.text());
      check_directions(s);
      check_directions(s, 2);
    }
  check_directions({.x = {3, 2, 6, 16, 24}, .w = {16, 2, 2, 8, 8}, .stride = {2, 8, 8}, .type = DataType::kBFloat16});
}

TEST_F(HopperPacking, PatchesOfWholeUnitsAreNotCopied) {
  const Shape pairs{
      .x = {2, 32, 8, 8}, .w = {64, 32, 2, 2}, .stride = {2, 2}, .type = DataType::kHalf, .channels_last = true};
  const Shape line{.x = {2, 4, 64}, .w = {64, 4, 16}, .stride = {16}, .type = DataType::kHalf, .channels_last = true};
  const Shape small{.x = {2, 3, 16, 16}, .w = {64, 3, 4, 4}, .stride = {4, 4}, .type = DataType::kHalf};
  for (const Shape& s : {pairs, line}) EXPECT_FALSE(cuda::hopper_packing(problem(Direction::kForward, s)).x.copied);
  EXPECT_FALSE(cuda::hopper_packing(problem(Direction::kForward, small)).patches) << "a quarter would be padding";
}

TEST_F(HopperPacking, JoinsRowsAndTapsOfAFirstLayer) {
  Shape s{.x = {2, 3, 32, 32}, .w = {64, 3, 7, 7}, .pad = {3, 3}, .stride = {2, 2}, .type = DataType::kHalf};
  s.channels_last = true;
  const Problem forward = cuda::hopper_packing(problem(Direction::kForward, s)).inner;
  EXPECT_EQ(forward.c(), 56) << "seven taps of two rows of four channels";
  EXPECT_EQ(forward.filter(0), 4);
  EXPECT_EQ(forward.filter(1), 1);
  const Problem data = cuda::hopper_packing(problem(Direction::kBackwardData, s)).inner;
  EXPECT_EQ(data.direction, Direction::kForward);
  EXPECT_EQ(data.k(), 48) << "blocks of four rows and columns";
}

TEST_F(HopperPacking, RefusesWhatCopiesDoNotHelp) {
  const Shape last{
      .x = {2, 64, 6, 6}, .w = {64, 64, 3, 3}, .pad = {1, 1}, .type = DataType::kHalf, .channels_last = true};
  EXPECT_STREQ(cuda::hopper_packing_serves(problem(Direction::kForward, last)).reason, "needs no copies");
  const Shape first{.x = {2, 64, 6, 6}, .w = {64, 64, 3, 3}, .pad = {1, 1}, .type = DataType::kHalf};
  Problem p = problem(Direction::kForward, first);
  EXPECT_TRUE(cuda::hopper_packing_serves(p));
  p.scalars = Scalars::kBilinear;
  EXPECT_STREQ(cuda::hopper_packing_serves(p).reason, "does not add to a copy");
}

}  // namespace
}  // namespace polymio::convolution
