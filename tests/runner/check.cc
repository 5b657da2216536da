// The checks that every solver of every primitive must pass.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>

#include "bench/gpu_graph.h"
#include "tests/device.h"
#include "tests/runner/runner.h"
#include "tests/runner/tensors.h"

namespace polymio::test {
namespace {

constexpr std::size_t kGuard = 256;

/// A buffer with guard bytes before and after, its data `shift` bytes off the 64-byte boundary; and on a GPU a copy in
/// the device's memory.
class Guarded {
 public:
  Guarded(Handle& handle, std::size_t bytes, std::size_t shift)
      : handle_(handle),
        bytes_(bytes),
        memory_(bytes + shift + 2 * kGuard + kLine),
        first_(kGuard + shift + (on_cpu() ? -reinterpret_cast<std::uintptr_t>(memory_.data()) % kLine : 0)),
        on_device_(handle, on_cpu() ? 0 : memory_.size()) {
    std::memset(memory_.data(), kPoison, memory_.size());
  }
  unsigned char* data() { return memory_.data() + first_; }
  void* device() { return on_cpu() ? data() : static_cast<unsigned char*>(on_device_.data()) + first_; }
  void upload() {
    if (!on_cpu()) handle_.stream().upload(on_device_.data(), memory_.data(), memory_.size());
  }
  void download() {
    if (!on_cpu()) handle_.stream().download(memory_.data(), on_device_.data(), memory_.size());
  }
  bool are_guards_intact() const {
    const auto poisoned = [](unsigned char c) { return c == kPoison; };
    const auto* p = memory_.data();
    return std::all_of(p, p + first_, poisoned) && std::all_of(p + first_ + bytes_, p + memory_.size(), poisoned);
  }

 private:
  static constexpr std::size_t kLine = 64;
  Handle& handle_;
  std::size_t bytes_;
  std::vector<unsigned char> memory_;
  std::size_t first_;  // offset of the data in bytes
  Memory on_device_;
};

using Bytes = std::vector<unsigned char>;

/// Runs the solver on fresh buffers, `shift` elements off their alignment; returns the bytes of each operand. With
/// `recorded`, on a CUDA device, they are those of a replay of a graph, recorded after a run.
std::vector<Bytes> run(Handle& handle, const Case& c, const SolverBase& solver, const TunePoint& point,
                       std::size_t shift, bool recorded) {
  std::deque<Guarded> buffers;
  std::vector<void*> data;
  std::size_t widest = sizeof(float);
  for (std::size_t i = 0; i < c.operands.size(); ++i) {
    const Operand& operand = c.operands[i];
    const std::size_t element = reference::size_of(operand.tensor.type);
    widest = std::max(widest, element);
    Guarded& buffer = buffers.emplace_back(handle, operand.content.size(), shift * element);
    if (operand.use != Use::kWritten) std::memcpy(buffer.data(), operand.content.data(), operand.content.size());
    data.push_back(buffer.device());
  }
  const std::size_t bytes = solver.workspace_size(handle.device(), c.problem(), point);
  Guarded workspace(handle, bytes, shift * widest);
  const AnyInvoker invoke = solver.build(handle.stream(), c.problem(), point);
  const auto upload = [&] {
    for (Guarded& buffer : buffers) buffer.upload();
    workspace.upload();
  };
  const auto call = [&] { c.run(invoke, handle.stream(), data, bytes ? workspace.device() : nullptr, bytes); };
  upload();
  call();
  if (const Graphs graphs(handle.stream()); graphs && recorded && handle.stream().native()) {
    const std::shared_ptr<void> graph = graphs.record(call);
    upload();
    graphs.replay(graph.get());
    handle.stream().synchronize();
  }
  for (Guarded& buffer : buffers) buffer.download();
  workspace.download();
  EXPECT_TRUE(workspace.are_guards_intact()) << "wrote outside the workspace";
  std::vector<Bytes> results;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_TRUE(buffers[i].are_guards_intact()) << "wrote outside operand " << i;
    const unsigned char* const result = buffers[i].data();
    results.emplace_back(result, result + c.operands[i].content.size());
  }
  return results;
}

void check_gaps(const Operand& output, const Bytes& result) {
  const Bytes mask = reference::element_bytes(output.tensor);
  for (std::size_t i = 0; i < mask.size(); ++i)
    if (!mask[i] && result[i] != (output.use == Use::kUpdated ? output.content[i] : kPoison)) {
      ADD_FAILURE() << "wrote into the gap at byte " << i;
      return;
    }
}

void expect_right(const Case& c, const SolverBase& solver, const std::vector<Bytes>& results) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Operand& operand = c.operands[i];
    if (operand.use == Use::kRead) {
      EXPECT_TRUE(results[i] == operand.content) << "changed input " << i;
      continue;
    }
    const reference::Comparison found = c.compare(solver, i, results[i].data());
    EXPECT_TRUE(found.ok()) << found.failures << " of " << operand.tensor.count() << " elements of operand " << i
                            << " are wrong; worst: index " << found.index << " is " << found.got << ", should be "
                            << found.want << " +- " << found.tolerance;
    check_gaps(operand, results[i]);
  }
}

}  // namespace

void check(Handle& handle, const Case& c, const SolverBase& solver, const TunePoint& point) {
  const std::vector<Bytes> results = run(handle, c, solver, point, 0, false);
  expect_right(c, solver, results);
  const char* const runs = std::getenv("POLYMIO_TEST_RUNS");
  for (int i = 1; i < (runs ? std::atoi(runs) : 2); ++i) {
    // As many elements as the solver needs bytes of alignment.
    const std::vector<Bytes> again =
        run(handle, c, solver, point, static_cast<std::size_t>(solver.info().alignment), true);
    if (solver.info().deterministic) {
      EXPECT_TRUE(results == again) << "run " << i + 1 << ", at other addresses, differs";
    } else {
      expect_right(c, solver, again);
    }
  }
}

}  // namespace polymio::test
