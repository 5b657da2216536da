// The tiles of tensor_tiles.cl on the GPU that POLYMIO_TEST_DEVICE names. For OpenCL they emulate the matrix units of
// NVIDIA's GPUs: this proves which elements they copy, where the tiles hold them, and which results they write.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>
#include <string>

#include "primitives/convolution/cuda/tensor_tiles.h"
#include "tests/convolution/sample_problem.h"
#include "tests/device.h"
#include "tests/runner/runner.h"

namespace polymio::test {
namespace {

using convolution::Problem;
using convolution::cuda::TensorTiles;

/// Without the solver's check of the device.
class Tiles final : public GpuSolver<Problem> {
 public:
  Tiles() : GpuSolver({.name = "TensorTiles"}) {}
  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override { return TensorTiles::check(d, p); }
  ErrorClass error_class(const Problem& p) const override { return TensorTiles::error_class(p); }
  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    return TensorTiles(d, p, t).predict(d);
  }
  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override { return TensorTiles::tune_space(); }
  bool is_valid(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    return TensorTiles::is_valid(d, p, t);
  }
  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override {
    return TensorTiles::default_point(d, p);
  }
  std::size_t workspace_size(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    return TensorTiles(d, p, t).workspace();
  }
  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    return TensorTiles(d, p, t).kernels();
  }
  Invoker assemble(const DeviceInfo& d, const Problem& p, const TunePoint& t, const Kernels& built) const override {
    return [p, tiles = TensorTiles(d, p, t), built](Stream& s, const Args& a) { tiles.run(s, built, p, a); };
  }
};

/// Every direction of the line at its default point, and at each point if `all`.
void check_line(const std::string& line, bool all = false) {
  if (on_cpu()) GTEST_SKIP() << "no GPU";
  Handle handle(device_name(), nullptr);
  const DeviceInfo& device = handle.device();
  const Tiles tiles;
  for (const auto& c : convolution_cases(line)) {
    SCOPED_TRACE(c->line());
    c->prepare();
    const SolverBase& solver = tiles;
    ASSERT_TRUE(solver.is_applicable(device, c->problem())) << solver.is_applicable(device, c->problem()).text();
    std::vector<TunePoint> points = {solver.default_point(device, c->problem())};
    if (all) points = valid_points(solver, device, c->problem());
    for (const TunePoint& point : points) {
      SCOPED_TRACE(to_text(point));
      check(handle, *c, tiles, point);
    }
  }
}

class TensorTilesOnGpu : public testing::TestWithParam<const char*> {};

TEST_P(TensorTilesOnGpu, ComputesTheLine) { check_line(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    Gpu, TensorTilesOnGpu,
    testing::Values(
        // Units of 16, 8 and 4 bytes and of an element, NHWC
        "convbfp16 -n 2 -c 16 -H 7 -W 6 -k 24 -y 3 -x 3 -p 1 -q 1 -F 0 -I NHWC -f NHWC -O NHWC --alpha 0.5 --beta 2",
        "convfp16 -n 1 -c 12 -H 6 -W 7 -k 20 -y 3 -x 2 -p 0 -q 1 -u 2 -v 1 -F 0 -I NHWC -f NHWC -O NHWC",
        "convfp16 -n 2 -c 6 -H 8 -W 9 -k 10 -y 3 -x 3 -p 2 -q 2 -u 1 -v 1 -l 2 -j 2 -F 0 -I NHWC -f NHWC -O NHWC",
        "convbfp16 -n 1 -c 3 -H 9 -W 10 -k 5 -y 3 -x 3 -p 1 -q 1 -u 2 -v 3 -F 0 -I NHWC -f NHWC -O NHWC",
        // Planes: gathered by elements, or pointwise
        "convfp16 -n 2 -c 5 -H 7 -W 6 -k 9 -y 3 -x 3 -p 1 -q 1 -u 1 -v 2 -F 0 --alpha 1 --beta 1",
        "convbfp16 -n 2 -c 16 -H 4 -W 6 -k 24 -y 1 -x 1 -p 0 -q 0 -F 0",
        // Groups, one and three spatial dimensions
        "convfp16 -n 2 -c 24 -H 5 -W 6 -k 12 -y 3 -x 3 -p 1 -q 1 -g 3 -F 0 -I NHWC -f NHWC -O NHWC",
        "convbfp16 -_ 1 -n 2 -c 10 -W 30 -k 8 -x 5 -q 4 -v 3 -j 2 -g 1 -F 0",
        // 8-bit floats: units of 16 bytes and of an element, planes, mixed types
        "convfp8_e4m3fn -n 2 -c 16 -H 7 -W 6 -k 32 -y 3 -x 3 -p 1 -q 1 -F 0 -I NHWC -f NHWC -O NHWC --out_type half",
        "convfp8_e5m2 -n 1 -c 6 -H 8 -W 9 -k 10 -y 3 -x 2 -p 1 -q 1 -u 2 -v 1 -F 0 --second_type fp8_e4m3fn --out_type "
        "float --alpha 0.5 --beta 2",
        "convfp8_e4m3fn -n 1 -c 24 -H 7 -W 6 -k 8 -y 1 -x 1 -F 0 -g 2 --second_type fp8_e5m2 --fp8_rounding standard",
        // FNUZ formats: units of 8, 4 and 2 elements and of one, pairs with formats of the OCP, results of every type
        "convfp8 -n 2 -c 16 -H 7 -W 6 -k 32 -y 3 -x 3 -p 1 -q 1 -F 0 -I NHWC -f NHWC -O NHWC --out_type half",
        "convbfp8 -n 1 -c 6 -H 8 -W 9 -k 12 -y 3 -x 2 -p 1 -q 1 -u 2 -v 1 -F 0 --second_type fp8 --out_type float -I "
        "NHWC -f NHWC -O NHWC --alpha 0.5 --beta 2",
        "convfp8 -n 1 -c 5 -H 8 -W 9 -k 10 -y 3 -x 3 -p 1 -q 1 -F 0 --second_type fp8_e5m2 --out_type bfloat16",
        "convfp8_e4m3fn -n 1 -c 24 -H 6 -W 6 -k 16 -y 1 -x 1 -F 0 -g 2 --second_type bfp8 --out_type fp8 "
        "--fp8_rounding stochastic --alpha 0.5 --beta 2",
        "convfp16 -_ 3 -n 1 -c 8 -! 4 -H 5 -W 4 -k 6 -@ 3 -y 2 -x 3 -$ 1 -p 0 -q 1 -# 2 -u 1 -v 2 -F 0 -I NDHWC -f "
        "NDHWC -O NDHWC"));

TEST(GpuTensorTiles, EveryTile) {
  check_line("convbfp16 -n 1 -c 72 -H 9 -W 8 -k 80 -y 2 -x 2 -p 1 -q 0 -u 1 -v 1 -F 0 -I NHWC -f NHWC -O NHWC", true);
}

/// A case whose sums are exact in fp32, so that results equal those of the CPU's reference solver.
class Exact : public Case {
 public:
  explicit Exact(std::unique_ptr<Case> c) : case_(std::move(c)) { operands = case_->operands; }
  std::string line() const override { return case_->line(); }
  const ProblemBase& problem() const override { return case_->problem(); }
  SolverList solvers(DeviceKind kind) const override { return case_->solvers(kind); }
  bool has_problem_of(const Case& other) const override { return case_->has_problem_of(other); }
  void prepare() override {
    case_->prepare();
    operands = case_->operands;
    for (std::size_t i = 0; i < operands.size(); ++i) fill(i);
    std::vector<void*> data;
    std::vector<std::vector<unsigned char>> memory;
    for (const Operand& operand : operands) memory.push_back(operand.content);
    for (auto& bytes : memory) data.push_back(bytes.data());
    Handle cpu("cpu", nullptr);
    const auto& p = static_cast<const Problem&>(problem());
    run(convolution::reference_solver(p.direction).build(cpu.stream(), p, {}), cpu.stream(), data, nullptr, 0);
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (operands[i].use != Use::kRead) wanted_ = memory[i];
  }
  void run(const AnyInvoker& invoke, Stream& stream, std::span<void* const> data, void* workspace,
           std::size_t bytes) const override {
    case_->run(invoke, stream, data, workspace, bytes);
  }
  reference::Comparison compare(const SolverBase&, std::size_t operand, const void* result) const override {
    const DataType type = tensor(operand).type;
    reference::Comparison found;
    for (std::int64_t i = 0; i < tensor(operand).space(); ++i) {
      const double got = dtype::load(type, result, i), want = dtype::load(type, wanted_.data(), i);
      if (got == want || (std::isnan(got) && std::isnan(want))) continue;
      ++found.failures;
      found.index = i;
      found.got = got;
      found.want = want;
    }
    return found;
  }

 protected:
  const TensorDesc& tensor(std::size_t operand) const {
    const auto& p = static_cast<const Problem&>(problem());
    return operand == 0 ? p.x : operand == 1 ? p.w : p.y;
  }
  virtual void fill(std::size_t operand) = 0;

  std::vector<unsigned char> wanted_;

 private:
  std::unique_ptr<Case> case_;
};

std::set<double> numbers(DataType type, const std::vector<unsigned char>& elements) {
  std::set<double> found;
  for (std::size_t i = 0; i < elements.size() / size_of(type); ++i)
    if (const double v = dtype::load(type, elements.data(), static_cast<std::int64_t>(i)); !std::isnan(v))
      found.insert(v);
  return found;
}

/// One operand of a 1x1 filter's problem has all codes, the other a 1 for each sum of products.
class EveryCode final : public Exact {
 public:
  EveryCode(std::unique_ptr<Case> c, std::size_t codes) : Exact(std::move(c)), codes_(codes) {}
  /// NaN reaches sums of other codes, too: each must be in a sum without one.
  bool shows_every_number() const {
    return numbers(DataType::kFloat, wanted_) == numbers(tensor(codes_).type, all_codes());
  }

 private:
  void fill(std::size_t operand) override {
    const TensorDesc& t = tensor(operand);
    auto& content = operands[operand].content;
    const std::int64_t rows = operand == 1 ? t.lens[0] : t.count() / t.lens[1], columns = t.lens[1];
    const std::int64_t depth = std::min(rows, columns);
    std::vector<unsigned char> codes = all_codes();
    std::mt19937 engine(1);
    for (std::int64_t i = 0; operands[operand].use == Use::kRead && i < t.count(); ++i) {
      if (operand == codes_) {
        if (i % 256 == 0) std::shuffle(codes.begin(), codes.end(), engine);
        content[i] = codes[i % 256];
      } else {
        dtype::store(t.type, content.data(), i, i / columns % depth == i % columns % depth ? 1 : 0);
      }
    }
  }

  static std::vector<unsigned char> all_codes() {
    std::vector<unsigned char> codes(256);
    std::iota(codes.begin(), codes.end(), static_cast<unsigned char>(0));
    return codes;
  }

  std::size_t codes_;
};

class TensorTilesWiden : public testing::TestWithParam<const char*> {};

TEST_P(TensorTilesWiden, EveryCodeOfEitherOperand) {
  if (on_cpu()) GTEST_SKIP() << "no GPU";
  Handle handle(device_name(), nullptr);
  const Tiles tiles;
  const SolverBase& solver = tiles;
  const std::string line = std::string(GetParam()) + " -y 1 -x 1 --out_type float -I NHWC -f NHWC -O NHWC";
  for (std::size_t operand = 0; operand < 3; ++operand) {
    EveryCode c(std::move(convolution_cases(line).front()), operand);
    if (c.operands[operand].use != Use::kRead) continue;
    SCOPED_TRACE(c.line() + ", codes in operand " + std::to_string(operand));
    c.prepare();
    EXPECT_TRUE(c.shows_every_number());
    check(handle, c, solver, solver.default_point(handle.device(), c.problem()));
  }
}

INSTANTIATE_TEST_SUITE_P(Gpu, TensorTilesWiden,
                         testing::Values("convfp8 -n 1 -c 8 -H 16 -W 17 -k 264 -F 1 --second_type bfp8",
                                         "convbfp8 -n 1 -c 8 -H 16 -W 17 -k 264 -F 1 --second_type fp8",
                                         "convfp8 -n 1 -c 264 -H 16 -W 17 -k 8 -F 2 --second_type bfp8",
                                         "convbfp8 -n 1 -c 264 -H 16 -W 17 -k 8 -F 2 --second_type fp8",
                                         "convfp8 -n 1 -c 264 -H 2 -W 3 -k 264 -F 4 --second_type bfp8",
                                         "convbfp8 -n 1 -c 264 -H 2 -W 3 -k 264 -F 4 --second_type fp8",
                                         "convfp8_e5m2 -n 1 -c 4 -H 16 -W 17 -k 264 -F 1 --second_type fp8",
                                         "convbfp8 -n 1 -c 6 -H 16 -W 17 -k 264 -F 1 --second_type fp8_e4m3fn"));

/// Small integers; scaled sums of them are subnormal as well as normal numbers of results.
class Dithered final : public Exact {
 public:
  using Exact::Exact;

 private:
  void fill(std::size_t operand) override {
    const TensorDesc& t = tensor(operand);
    for (std::int64_t i = 0; i < t.space(); ++i)
      dtype::store(t.type, operands[operand].content.data(), i, static_cast<double>(i * i % 7 - 3));
  }
};

TEST(GpuTensorTiles, RoundStochasticallyAsTheReference) {
  if (on_cpu()) GTEST_SKIP() << "no GPU";
  Handle handle(device_name(), nullptr);
  const Tiles tiles;
  const SolverBase& solver = tiles;
  bool splits = false;
  // Two columns of tiles in each group, and few results of deep sums, which are split.
  const std::string tiles_of_groups = " -n 4 -k 264 -y 3 -x 3 -p 1 -q 1 -g 2 -F 0 --out_type ";
  const std::string deep = " -n 128 -k 18 -y 1 -x 1 -F 4 --out_type ";
  for (const std::string& line : {"fp8_e4m3fn" + tiles_of_groups + "fp8_e5m2", "fp8_e5m2" + deep + "fp8_e4m3fn",
                                  "bfp8" + tiles_of_groups + "fp8", "fp8" + deep + "bfp8"})
    for (auto& source : convolution_cases("conv" + line +
                                          " -c 24 -H 9 -W 10 -u 2 -I NHWC -f NHWC -O NHWC --fp8_rounding stochastic "
                                          "--alpha 0.0009765625 --beta 0.125")) {
      Dithered c(std::move(source));
      SCOPED_TRACE(c.line());
      c.prepare();
      const TunePoint point = solver.default_point(handle.device(), c.problem());
      splits = splits || solver.workspace_size(handle.device(), c.problem(), point) > 0;
      check(handle, c, solver, point);
    }
  EXPECT_TRUE(splits) << "a sum of partial sums is rounded too";
}

}  // namespace
}  // namespace polymio::test
