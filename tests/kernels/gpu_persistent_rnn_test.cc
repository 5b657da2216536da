// Where all steps of a recurrent layer are one launch, on models of devices; and whether many steps give the same bits
// each time, on the GPU that POLYMIO_TEST_DEVICE names.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "core/handle.h"
#include "primitives/rnn/gpu/persistent.h"
#include "tests/device.h"
#include "tests/runner/runner.h"
#include "tests/runner/tensors.h"

namespace polymio::rnn {
namespace {

Network network(Mode mode, DataType type, std::int64_t hidden) {
  Network n;
  n.mode = mode;
  n.type = type;
  n.hidden = hidden;
  return n;
}

std::optional<Persistent> chosen(const DeviceInfo& device, const Network& n, const std::vector<std::int64_t>& lengths,
                                 Pass pass = Pass::kInference) {
  Sequences s;
  s.lengths.view(lengths);
  s.steps = 50;
  return persistent(device, n, Schedule(s), pass);
}
std::optional<Persistent> chosen(const Network& n, std::size_t samples, Pass pass = Pass::kInference) {
  return chosen(usual_device("cuda-sm90"), n, std::vector<std::int64_t>(samples, 50), pass);
}

constexpr std::size_t kSharedBytes = 227u << 10;  // of a block on sm90

TEST(PersistentRnn, WeightsFitTheMultiprocessors) {
  for (const Mode mode : {Mode::kTanh, Mode::kLstm, Mode::kGru})
    for (const DataType type : {DataType::kFloat, DataType::kHalf, DataType::kBFloat16})
      for (const std::int64_t hidden : {1, 64, 333, 512, 1024})
        for (const std::size_t samples : {1, 5, 8})
          for (const Pass pass : {Pass::kTraining, Pass::kBackwardData}) {
            const auto p = chosen(network(mode, type, hidden), samples, pass);
            ASSERT_TRUE(p) << hidden << " " << samples;
            EXPECT_LE(p->launch.blocks[0] * p->launch.blocks[1], 132u);
            EXPECT_LE(p->launch.shared_bytes, kSharedBytes);
            EXPECT_EQ(p->launch.cooperative, p->launch.blocks[0] > 1);
            EXPECT_TRUE(p->by_matrix_units || type == DataType::kFloat);
            const std::int64_t weights = (mode == Mode::kLstm ? 4 : mode == Mode::kGru ? 3 : 1) * hidden * hidden;
            EXPECT_GE(p->launch.blocks[0] * p->local_bytes, static_cast<std::size_t>(weights) * size_of(type));
          }
}

TEST(PersistentRnn, IsLeftToStepsWhereItCannotRun) {
  const Network lstm = network(Mode::kLstm, DataType::kHalf, 1024);
  EXPECT_TRUE(chosen(lstm, 32));
  EXPECT_FALSE(chosen(network(Mode::kLstm, DataType::kHalf, 2048), 16)) << "32 MiB";
  EXPECT_FALSE(chosen(network(Mode::kLstm, DataType::kFloat, 1536), 16)) << "36 MiB";
  EXPECT_FALSE(chosen(lstm, 128)) << "a product of all multiprocessors is faster";
  EXPECT_TRUE(chosen(network(Mode::kLstm, DataType::kHalf, 256), 128));
  EXPECT_FALSE(chosen(network(Mode::kLstm, DataType::kHalf, 256), 129));
  DeviceInfo device = usual_device("cuda-sm90");
  EXPECT_FALSE(chosen(device, lstm, {50, 50, 49}));
  EXPECT_FALSE(chosen(device, lstm, {50, 0}));
  device.units = 16;
  EXPECT_FALSE(chosen(device, lstm, {50, 50}));
  EXPECT_TRUE(chosen(device, network(Mode::kLstm, DataType::kHalf, 256), {50, 50}));
  EXPECT_FALSE(chosen(usual_device("hip-gfx90a"), lstm, {50, 50}));
}

/// One block needs no other.
TEST(PersistentRnn, OtherDevicesRunOneBlock) {
  DeviceInfo device = usual_device("hip-gfx90a");
  device.kind = DeviceKind::kOpenCl;
  for (const Pass pass : {Pass::kTraining, Pass::kBackwardData}) {
    const auto p = chosen(device, network(Mode::kGru, DataType::kHalf, 40), {50, 50, 50}, pass);
    ASSERT_TRUE(p);
    EXPECT_EQ(p->launch.blocks[0], 1u);
    EXPECT_EQ(p->launch.shared_bytes, 0u) << "OpenCL kernels declare their memory";
    EXPECT_LE(p->local_bytes, device.gpu.shared_bytes);
  }
  EXPECT_FALSE(chosen(device, network(Mode::kGru, DataType::kHalf, 500), {50, 50, 50}));
}

/// A state that a block read too early shows in few runs.
TEST(PersistentRnn, ManyStepsGiveTheSameBits) {
  if (test::on_cpu()) GTEST_SKIP() << "no GPU is named";
  Handle handle(test::device_name(), nullptr);
  Stream& stream = handle.stream();
  if (stream.info().kind != DeviceKind::kCuda) GTEST_SKIP() << "blocks exchange states on CUDA only";
  constexpr int kTimes = 20;
  for (const char* const line :
       {"rnnfp16 -m lstm -k 500 -n 16 -H 256", "rnnbfp16 -m gru -k 500 -n 3 -H 1000",
        "rnnfp16 -m tanh -k 300 -n 128 -H 100", "rnn -m lstm -k 300 -n 16 -H 512", "rnn -m gru -k 200 -n 70 -H 250"}) {
    SCOPED_TRACE(line);
    const test::Cases cases = test::rnn_cases(std::string(line) + " -l 1 -W 16 -b 1");
    const test::Case& c = *cases.front();
    const SolverBase& solver = *c.solvers(DeviceKind::kCuda).front();
    const std::size_t bytes = solver.workspace_size(stream.info(), c.problem(), {});
    const AnyInvoker invoke = solver.build(stream, c.problem(), {});
    std::vector<std::shared_ptr<void>> memory;
    std::vector<void*> data;
    std::vector<std::vector<unsigned char>> first;
    for (const test::Operand& o : c.operands) {
      const std::vector<unsigned char> content =
          test::random_tensor(o.tensor, memory.size() + 1, test::Gaps::kNumbers, test::Data::kUniform);
      data.push_back(memory.emplace_back(handle.keep(content.size())).get());
      stream.upload(data.back(), content.data(), content.size());
      first.push_back(content);
    }
    const std::shared_ptr<void> workspace = handle.keep(bytes);
    for (int time = 0; time < kTimes; ++time) {
      c.run(invoke, stream, data, workspace.get(), bytes);
      for (std::size_t i = 0; i < data.size(); ++i) {
        std::vector<unsigned char> result(first[i].size());
        stream.download(result.data(), data[i], result.size());
        EXPECT_TRUE(time == 0 || result == first[i]) << "operand " << i << ", time " << time;
        first[i] = std::move(result);
      }
    }
  }
}

}  // namespace
}  // namespace polymio::rnn
