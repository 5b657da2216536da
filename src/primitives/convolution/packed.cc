// SPDX-License-Identifier: MIT
#include "primitives/convolution/packed.h"

#include <cstring>

#include "base/error.h"
#include "primitives/convolution/weight_packing.h"
#include "search/measure.h"

namespace polymio::convolution {
namespace {

constexpr double kHopeless = 4;   // candidates predicted this many times slower than the best are not measured
constexpr std::size_t kMost = 6;  // most measured candidates

Problem::Args arguments(void* x, void* w, void* y, void* packed) {
  Problem::Args args;
  args.x = x;
  args.w = w;
  args.y = y;
  args.packed = packed;
  return args;
}

}  // namespace

struct PackedWeights::Choice {
  search::Candidate candidate;
  std::size_t bytes = 0;
  AnyInvoker pack{}, run{};
  std::unique_ptr<Memory> memory{};
};

/// The candidates: all solvers that pack, and the best one that reads the weights in place without workspace.
std::vector<PackedWeights::Choice> PackedWeights::choices(const search::Request& rq) {
  Stream& stream = rq.handle.stream();
  std::vector<Choice> list;
  bool reads = false;
  for (const search::Candidate& c : search::rank(rq)) {
    if (list.size() == kMost || (!list.empty() && c.us > kHopeless * list[0].candidate.us)) break;
    if (const auto* packs = dynamic_cast<const PacksWeights*>(c.solver)) {
      WeightPacking packing = packs->build_packing(stream, static_cast<const Problem&>(rq.problem), c.point);
      if (packing.bytes <= rq.handle.workspace_limit())
        list.push_back({c, packing.bytes, std::move(packing.pack), std::move(packing.run)});
    }
    if (c.workspace == 0 && !reads) {
      list.push_back({c, 0, {}, c.solver->build(stream, rq.problem, c.point)});
      reads = true;
    }
  }
  return list;
}

PackedWeights::PackedWeights(Handle& handle, const Problem& problem, const Constraints& allowed, void* w)
    : owner_(&handle), problem_((validate(problem), problem)), w_(handle.device(), problem_.w, w, "the buffer of w") {
  require(problem.direction != Direction::kBackwardWeights, "weights are packed for forward and backward data only");
  require(problem.epilogue.empty(), "weights are packed for a convolution alone, without fused operations");
  handle.stream().check_memory(w, "the buffer of w");
  const search::Call call = make_call(handle, problem, allowed);
  auto list = choices(call.request());
  if (list.empty()) {
    search::Request without = call.request();
    without.constraints.workspace_limit = 0;
    const auto ranking = search::rank(without);
    if (ranking.empty()) search::fail_refused(without);
    const search::Candidate& c = ranking[0];
    list.push_back({c, 0, {}, c.solver->build(handle.stream(), problem, c.point)});
  }
  choose(call.request(), list);
}

void PackedWeights::choose(const search::Request& rq, std::vector<Choice>& list) {
  Stream& stream = rq.handle.stream();
  for (Choice& c : list) {
    if (!c.pack) continue;
    c.memory = std::make_unique<Memory>(rq.handle, c.bytes);
    const Problem::Args args = arguments(nullptr, w_.data(), nullptr, c.memory->data());
    c.pack(stream, &args);
  }
  std::size_t best = 0;
  if (list.size() > 1) {
    const Memory x(rq.handle, problem_.x.bytes()), y(rq.handle, problem_.y.bytes());
    std::memset(x.data(), 0, problem_.x.bytes());  // host memory: only CPU solvers pack
    std::memset(y.data(), 0, problem_.y.bytes());
    std::vector<search::Trial> trials;
    for (const Choice& c : list) {
      const auto run = [&](double) {
        const Problem::Args args = arguments(x.data(), w_.data(), y.data(), c.memory ? c.memory->data() : nullptr);
        c.run(stream, &args);
        stream.synchronize();
        return search::Run::kDone;
      };
      trials.push_back({[run](double most, double&) { return run(most); }, run, c.candidate.us});
    }
    const auto timings = search::measure(*rq.clock, trials, {});
    for (std::size_t i = 1; i < list.size(); ++i) {
      const bool counts = timings[i].state == search::Timing::State::kMeasured;
      if (counts && timings[i].us < timings[best].us) best = i;
    }
  }
  Choice& chosen = list[best];
  solver_ = chosen.candidate.solver;
  bytes_ = chosen.bytes;
  memory_ = std::move(chosen.memory);
  run_ = std::move(chosen.run);
}

void PackedWeights::run(Handle& handle, void* input, void* output) const {
  require(&handle == owner_, "the packed weights belong to another handle");
  handle.stream().check_memory(input, "the input");
  handle.stream().check_memory(output, "the output");
  const bool forward = problem_.direction == Direction::kForward;
  const DeviceInfo& device = handle.device();
  const AlignedBuffer from(device, forward ? problem_.x : problem_.y, input, "the input"),
      to(device, problem_.output(), output, "the output");
  const AlignedBuffer &x = forward ? from : to, &y = forward ? to : from;
  const Problem::Args args = arguments(x.data(), w_.data(), y.data(), memory_ ? memory_->data() : nullptr);
  handle.run([&](Stream& stream) { run_(stream, &args); });
  to.write_back();
}

}  // namespace polymio::convolution
