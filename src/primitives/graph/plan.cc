// Plans: prediction, the workspace of steps, and runs.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <atomic>

#include "base/error.h"
#include "base/math.h"
#include "core/aligned_buffer.h"
#include "primitives/graph/draft.h"

namespace polymio::graph {
namespace {

constexpr std::size_t kPart = 256;  // parts of the workspace start at multiples

/// Offsets of parts of the workspace such that parts that are used by the same step, or across one, do not overlap.
class Layout {
 public:
  struct Life {
    std::size_t first, last;  // steps
    std::size_t bytes, offset = 0;
  };

  void place(Life& life) {
    std::size_t offset = 0;
    bool moved = true;
    while (moved) {
      moved = false;
      for (const Life& other : placed_) {
        const bool together = life.first <= other.last && other.first <= life.last;
        if (!together || offset + life.bytes <= other.offset || other.offset + other.bytes <= offset) continue;
        offset = round_up(other.offset + other.bytes, kPart);
        moved = true;
      }
    }
    life.offset = offset;
    placed_.push_back(life);
    end_ = std::max(end_, offset + life.bytes);
  }
  std::size_t bytes() const { return round_up(end_, kPart); }

 private:
  std::vector<Life> placed_;
  std::size_t end_ = 0;
};

bool on_cpu(const Handle& h) { return h.device().kind == DeviceKind::kCpu; }

}  // namespace

struct Plan::Parts {
  Graph graph;
  Engine engine = Engine::kFused;
  const void* context = nullptr;
  std::vector<PlanBuffer> buffers;
  struct Part {
    std::string name;
    StepRun run;
    std::size_t scratch = 0;  // offset in the workspace
  };
  std::vector<Part> steps;
  std::vector<bool> used;  // by tensor: whether a step reads or writes it
  std::size_t workspace = 0;
  mutable std::atomic<bool> checked{false};  // that buffers are memory of the device
};

Predictions predict(const DeviceInfo& device, const Graph& graph) {
  Predictions found;
  std::vector<std::string> names;
  for (const Engine engine : {Engine::kFused, Engine::kNodes}) {
    try {
      Draft draft(device, graph);
      schedule(draft, engine);
      double us = 0;
      std::vector<std::string> steps;
      for (const Step& s : draft.steps) {
        us += s.us;
        steps.push_back(s.name);
      }
      if (engine == Engine::kNodes && steps == names) break;  // the same steps
      names = std::move(steps);
      found.engines.push_back({engine, us});
    } catch (const Error& e) {
      if (e.status == Status::kAllocFailed) throw;
      found.reason = e.what();
    }
  }
  if (found.engines.size() == 2 && found.engines[1].us < found.engines[0].us)
    std::swap(found.engines[0], found.engines[1]);
  return found;
}

Plan::Plan(Handle& handle, const Graph& graph, Engine engine) : parts_(std::make_unique<Parts>()) {
  parts_->graph = graph;
  parts_->engine = engine;
  parts_->context = handle.stream().context();
  Draft draft(handle.device(), parts_->graph);
  schedule(draft, engine);
  Layout layout;
  parts_->used.resize(graph.tensors.size());
  std::vector<std::size_t> scratch;
  for (const Step& step : draft.steps) {
    Built built = step.build(handle);
    scratch.push_back(built.scratch);
    parts_->steps.push_back({step.name, std::move(built.run)});
  }
  for (std::size_t b = 0; b < draft.buffers.size(); ++b) {
    PlanBuffer& buffer = draft.buffers[b];
    Layout::Life life{draft.steps.size(), 0, buffer.bytes};
    for (std::size_t s = 0; s < draft.steps.size(); ++s) {
      if (std::ranges::find(draft.steps[s].buffers, static_cast<int>(b)) == draft.steps[s].buffers.end()) continue;
      life.first = std::min(life.first, s);
      life.last = s;
    }
    if (buffer.tensor >= 0) {
      parts_->used[static_cast<std::size_t>(buffer.tensor)] = true;
    } else {
      layout.place(life);
      buffer.offset = life.offset;
    }
  }
  for (std::size_t s = 0; s < scratch.size(); ++s) {
    if (scratch[s] == 0) continue;
    Layout::Life life{s, s, scratch[s]};
    layout.place(life);
    parts_->steps[s].scratch = life.offset;
  }
  parts_->buffers = std::move(draft.buffers);
  parts_->workspace = layout.bytes();
}

Plan::~Plan() = default;

std::size_t Plan::workspace_bytes() const { return parts_->workspace; }
const Graph& Plan::graph() const { return parts_->graph; }
Engine Plan::engine() const { return parts_->engine; }

std::vector<std::string> Plan::steps() const {
  std::vector<std::string> names;
  for (const auto& s : parts_->steps) names.push_back(s.name);
  return names;
}

void Plan::run(Handle& handle, void* const* data, void* workspace) const {
  constexpr std::size_t kGpuAlignment = 16;
  require(handle.stream().context() == parts_->context,
          "the plan was made for another device than that of the handle, {}", handle.device().name);
  const auto& tensors = parts_->graph.tensors;
  const bool check = !parts_->checked && !on_cpu(handle) && !handle.stream().capturing();
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (tensors[t].is_virtual || !parts_->used[t]) continue;
    require(data[t] != nullptr, "the variant pack has no buffer for tensor {}", tensors[t].id);
    const std::size_t alignment = on_cpu(handle) ? size_of(tensors[t].desc.type) : kGpuAlignment;
    require(reinterpret_cast<std::uintptr_t>(data[t]) % alignment == 0,
            "the buffer of tensor {} starts at {}: it must be a multiple of {} bytes", tensors[t].id, data[t],
            alignment);
    if (check) handle.stream().check_memory(data[t], "a buffer of the variant pack");
  }
  require(workspace || parts_->workspace == 0, "the workspace is null, but the plan needs {} bytes", parts_->workspace);
  require(reinterpret_cast<std::uintptr_t>(workspace) % kGpuAlignment == 0,
          "the workspace starts at {}: it must be a multiple of {} bytes", workspace, kGpuAlignment);
  if (check) parts_->checked = true;
  handle.run([&](Stream& stream) {
    Running on{handle, stream, parts_->buffers, data, static_cast<char*>(workspace)};
    for (const auto& step : parts_->steps) {
      on.scratch = on.workspace ? on.workspace + step.scratch : nullptr;
      step.run(on);
    }
  });
}

}  // namespace polymio::graph
