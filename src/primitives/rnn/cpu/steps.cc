// The steps of a layer on the CPU. The recurrent weights are packed once per call as panels that the products of all
// steps read in order: in fp32, or in bf16 pairs where their products are faster. Steps of few samples in fp32 read
// them in place. A task multiplies some panels and computes their cells while the products are in the cache: one
// parallel region per step, both directions at once.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstring>

#include "base/math.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/kernels_of.h"
#include "kernels/cpu/rnn.h"
#include "primitives/rnn/steps.h"
#include "primitives/tensor_ops/tensor_ops.h"

namespace polymio::rnn {
namespace {

using kernels::Axis;
using kernels::Gemm;
using kernels::GemmKernels;
using kernels::RnnFloatKernels;
using kernels::RnnKernels;
using kernels::RnnProductKernels;

constexpr std::int64_t kPairColumns = 64;  // of a panel of pairs, or 48 for GRU
constexpr std::int64_t kMostUnits = 64;    // of a panel

/// The packed weights of one direction in panels of hidden units. Pairs: [panel][depth][column], forward [column] is
/// [gate][unit]; floats: [panel][gate][depth][unit]. Backward there is one gate, and all gates are the depth.
struct Panels {
  std::int64_t units = 0, count = 0, columns = 0, depth = 0;
  Panels(const Network& n, Pass pass, std::int64_t lanes, bool pairs) {
    const bool backward = pass == Pass::kBackwardData;
    units = !pairs ? lanes : backward || n.gates() == 1 ? kPairColumns : kPairColumns / 4;
    count = ceil_div(n.hidden, units);
    columns = units * (backward ? 1 : n.gates());
    depth = n.hidden * (backward ? n.gates() : 1);
  }
};

/// Four bytes for each element; packed pairs take half of theirs, states in 16 bits, too.
struct Workspace {
  std::int64_t packed, state, direct;  // elements of one direction
  Workspace(const Network& n, std::int64_t samples, Pass pass)
      : packed(round_up(n.hidden, kMostUnits) * n.gates() * n.hidden),
        state(samples * n.hidden),
        direct(pass != Pass::kBackwardData || n.mode == Mode::kGru ? 2 * state : 0) {}
  std::int64_t elements() const { return packed + state + direct; }
};

Axis axis(std::int64_t size, std::int64_t stride) {
  Axis a;
  a.level[kernels::kLevels - 1] = {size, stride, -1, 0};
  return a;
}

class CpuSteps final : public Steps {
 public:
  CpuSteps(Stream& stream, const Network& network, const Schedule& schedule, bool bias_of_first, Pass pass)
      : net_(network),
        schedule_(schedule),
        bias_of_first_(bias_of_first),
        space_(network, schedule.samples, pass),
        gemm_(&kernels::kernels_of<GemmKernels>(stream.info().isa)),
        cells_(&kernels::kernels_of<RnnKernels>(stream.info().isa)),
        products_(&kernels::kernels_of<RnnProductKernels>(stream.info().isa)),
        floats_(&kernels::kernels_of<RnnFloatKernels>(stream.info().isa)),
        weights_(network.type == DataType::kFloat && schedule.samples <= RnnFloatKernels::kFewRows ? Weights::kInPlace
                 : network.type == DataType::kBFloat16 && network.hidden % 2 == 0 && products_->has_pairs()
                     ? Weights::kPairs
                     : Weights::kFloats),
        panels_(network, pass, floats_->lanes, weights_ == Weights::kPairs) {
    constexpr std::int64_t kTasksPerThread = 2;
    const std::int64_t threads = stream.threads(), tasks = threads > 1 ? kTasksPerThread * threads : 1;
    const std::int64_t most = ceil_div(tasks, net_.directions());
    panels_per_task_ = ceil_div(panels_.count, std::min(most, panels_.count));
    tasks_ = ceil_div(panels_.count, panels_per_task_);
    product_bytes_ = static_cast<std::size_t>(
        round_up(schedule.samples * panels_per_task_ * panels_.columns * static_cast<std::int64_t>(sizeof(float)), 64));
    scratch_bytes_ = product_bytes_;
    if (weights_ == Weights::kFloats) scratch_bytes_ += floats_->scratch(schedule.samples, panels_.depth);
    if (pass == Pass::kBackwardData) reserve_for_begins();
    stream.reserve_scratch(scratch_bytes_);
  }

  void forward(Stream& stream, const LayerForward& f) const override {
    const std::int64_t directions = net_.directions();
    auto* const space = static_cast<float*>(f.workspace);
    for (std::int64_t d = 0; d < directions; ++d) {
      float* const mine = space + d * space_.elements();
      pack(stream, at(f.w, net_.matrix(f.layer, d, net_.gates()).offset), false, mine);
      begin_state(at(f.hx, d * space_.state), mine + space_.packed);
    }
    for (std::int64_t s = 0; s < schedule_.steps; ++s)
      stream.parallel_for(static_cast<std::size_t>(directions * tasks_), scratch_bytes_,
                          [&](std::size_t task, void* scratch) {
                            const auto i = static_cast<std::int64_t>(task);
                            forward_task(f, i / tasks_, s, i % tasks_, scratch);
                          });
  }

  void backward(Stream& stream, const LayerBackward& b) const override {
    const std::int64_t directions = net_.directions();
    auto* const space = static_cast<float*>(b.workspace);
    for (std::int64_t d = 0; d < directions; ++d)
      pack(stream, at(b.w, net_.matrix(b.layer, d, net_.gates()).offset), true, space + d * space_.elements());
    // From the last step to the first; one more for the initial state.
    for (std::int64_t s = schedule_.steps - 1; s >= (b.dhx ? -1 : 0); --s)
      stream.parallel_for(static_cast<std::size_t>(directions * tasks_), scratch_bytes_,
                          [&](std::size_t task, void* scratch) {
                            const auto i = static_cast<std::int64_t>(task);
                            backward_task(b, i / tasks_, s, i % tasks_, scratch);
                          });
  }

 private:
  enum class Weights { kPairs, kFloats, kInPlace };

  /// Panels of a task, and their units.
  struct Range {
    std::int64_t first, count, unit, units;
  };
  Range range(std::int64_t task) const {
    const std::int64_t first = task * panels_per_task_, count = std::min(panels_per_task_, panels_.count - first);
    const std::int64_t unit = first * panels_.units;
    return {first, count, unit, std::min(count * panels_.units, net_.hidden - unit)};
  }

  /// Products of a task in memory: blocks of units, elements from block to block, row to row and gate to gate.
  struct Products {
    std::int64_t units, block, pitch, gate;
  };
  Products products_of(const Range& range, std::int64_t rows) const {
    const std::int64_t columns = panels_.columns, units = panels_.units;
    switch (weights_) {
      case Weights::kPairs: return {units, columns, range.count * columns, units};
      case Weights::kFloats: return {units, rows * columns, units, rows * units};
      case Weights::kInPlace: return {range.units, 0, columns / units * range.units, range.units};
    }
    return {};
  }

  template <class Data>
  Data* at(Data* data, std::int64_t elements) const {
    using Byte = std::conditional_t<std::is_const_v<Data>, const char, char>;
    return data ? static_cast<Byte*>(data) + elements * static_cast<std::int64_t>(size_of(net_.type)) : nullptr;
  }

  /// c = a [rows, depth] x weights of a task: of its panels in `packed`, or of the matrix in place.
  void multiply(const void* a, std::int64_t pitch, std::int64_t rows, const Range& range, const float* packed,
                const void* matrix, bool backward, float* c, void* scratch) const {
    const std::int64_t panel = panels_.depth * panels_.columns, h = net_.hidden;
    const Products layout = products_of(range, rows);
    if (weights_ == Weights::kPairs)
      return products_->multiply({.a = a,
                                  .panels = packed + range.first * panel / 2,
                                  .c = c,
                                  .rows = rows,
                                  .depth = panels_.depth,
                                  .a_pitch = pitch,
                                  .c_pitch = layout.pitch,
                                  .count = range.count,
                                  .columns = panels_.columns});
    kernels::RnnFloatProduct p{
        .a = a, .type = net_.type, .c = c, .rows = rows, .depth = panels_.depth, .a_pitch = pitch};
    if (weights_ == Weights::kFloats) {
      p.b = packed + range.first * panel;
      p.columns = range.count * panels_.columns;
      return floats_->multiply(p, static_cast<char*>(scratch) + product_bytes_);
    }
    p.columns = range.units;
    p.b_pitch = h;
    p.c_pitch = layout.pitch;
    const auto* const w = static_cast<const float*>(matrix);
    if (backward) {
      p.b = w + range.unit;
      return floats_->multiply_columns(p);
    }
    for (std::int64_t gate = 0; gate < net_.gates(); ++gate, p.c += layout.gate) {
      p.b = w + (gate * h + range.unit) * h;
      floats_->multiply_rows(p);
    }
  }

  /// dhx of samples that begin: gradients of gates x weights.
  Gemm begins_gemm(std::int64_t samples) const {
    Gemm g;
    g.m = samples;
    g.n = net_.hidden;
    g.k = panels_.depth;
    g.a.dtype = g.b.dtype = g.c.dtype = net_.type;
    g.a.lanes = axis(samples, net_.all_gates());
    g.a.depth = axis(g.k, 1);
    g.b.lanes = axis(g.n, 1);
    g.b.depth = axis(g.k, net_.hidden);
    g.c.rows = axis(samples, net_.hidden);
    g.c.columns = axis(g.n, 1);
    g.beta = net_.mode == Mode::kGru ? 1 : 0;
    return g;
  }

  /// Enlarges the scratch memory to what they need.
  void reserve_for_begins() {
    for (const std::int64_t task : {std::int64_t{0}, tasks_ - 1})
      for (std::int64_t t = 0; t < schedule_.steps; ++t)
        for (std::int64_t d = 0; d < net_.directions(); ++d) {
          const std::int64_t samples = schedule_.active[static_cast<std::size_t>(t)];
          const std::int64_t rows = samples - schedule_.begun(d, t);
          if (rows > 0)
            scratch_bytes_ = std::max(scratch_bytes_,
                                      product_bytes_ + gemm_->scratch(begins_gemm(samples), rows, range(task).units));
        }
  }

  void pack(Stream& stream, const void* weights, bool backward, float* packed) const {
    if (weights_ == Weights::kInPlace) return;
    if (weights_ == Weights::kPairs && !backward) return pack_pairs(stream, weights, packed);
    const std::int64_t h = net_.hidden, u = panels_.units, depth = panels_.depth, gates = backward ? 1 : net_.gates();
    stream.parallel_for(static_cast<std::size_t>(panels_.count * gates), 0, [&](std::size_t task, void*) {
      const auto i = static_cast<std::int64_t>(task), unit = i / gates * u, units = std::min(u, h - unit);
      if (weights_ == Weights::kPairs)
        return products_->pack(at(weights, unit), h, depth, units, u, packed + i * depth * u / 2);
      float* const panel = packed + i * depth * u;
      backward ? floats_->pack_columns(net_.type, at(weights, unit), h, depth, units, panel)
               : floats_->pack_rows(net_.type, at(weights, (i % gates * h + unit) * h), h, depth, units, panel);
    });
  }

  /// weights: [gate][unit][depth], neighbouring depths become pairs.
  void pack_pairs(Stream& stream, const void* weights, float* packed) const {
    const std::int64_t u = panels_.units, columns = panels_.columns, depth = net_.hidden / 2;
    const std::int64_t whole = net_.hidden / u, rest = net_.hidden % u;
    const auto some = [&](std::int64_t first, std::int64_t count, std::int64_t units) {
      const std::int64_t lens[] = {count, depth, net_.gates(), units};
      const std::int64_t from[] = {u * depth, 1, net_.hidden * depth, depth}, to[] = {depth * columns, columns, u, 1};
      tensor_ops::transform(stream, 1,
                            {make_tensor(DataType::kInt32, lens, from), at(weights, first * u * net_.hidden)}, 0,
                            {make_tensor(DataType::kInt32, lens, to), packed + first * depth * columns});
    };
    if (rest > 0) std::fill_n(packed + whole * depth * columns, depth * columns, 0.0f);
    if (whole > 0) some(0, whole, u);
    if (rest > 0) some(whole, 1, rest);
  }

  /// Both copies of the state: steps read one and write the other. Samples that begin later read either.
  void begin_state(const void* hx, float* states) const {
    const std::size_t bytes = static_cast<std::size_t>(space_.state) * size_of(net_.type);
    for (float* const state : {states, states + space_.state})
      hx ? std::memcpy(state, hx, bytes) : std::memset(state, 0, bytes);
  }

  kernels::RnnStep step_of(std::int64_t direction, std::int64_t t) const {
    kernels::RnnStep step;
    step.cell = static_cast<kernels::RnnCell>(net_.mode);
    step.type = net_.type;
    step.samples = schedule_.active[static_cast<std::size_t>(t)];
    step.begun = schedule_.begun(direction, t);
    step.continued = schedule_.continued(direction, t);
    return step;
  }

  void forward_task(const LayerForward& f, std::int64_t d, std::int64_t s, std::int64_t task, void* scratch) const {
    const Range panels = range(task);
    const std::int64_t h = net_.hidden, t = schedule_.step(d, s), row = schedule_.row[static_cast<std::size_t>(t)];
    const std::int64_t all = net_.all_gates(), own = net_.gates() * h, width = net_.width();
    float* const mine = static_cast<float*>(f.workspace) + d * space_.elements();
    void* const before = mine + space_.packed + s % 2 * space_.state;
    void* const after = mine + space_.packed + (1 - s % 2) * space_.state;
    kernels::RnnForward step;
    static_cast<kernels::RnnStep&>(step) = step_of(d, t);
    auto* const products = static_cast<float*>(scratch);
    const Products layout = products_of(panels, step.samples);
    if (!f.hx && s == 0) {
      std::fill_n(products, step.samples * panels.count * panels_.columns, 0.0f);
    } else {
      multiply(before, h, step.samples, panels, mine, at(f.w, net_.matrix(f.layer, d, net_.gates()).offset), false,
               products, scratch);
    }
    step.bias_of_first = bias_of_first_;
    for (std::int64_t first = 0; first < panels.units; first += layout.units) {
      const std::int64_t unit = panels.unit + first, place = row * width + d * h + unit;
      const auto state = [&](auto* data) { return at(data, d * space_.state + unit); };
      step.units = std::min(layout.units, panels.units - first);
      step.x = {at(f.products, f.same_for_all_gates ? row * h + unit : row * all + d * own + unit),
                f.same_for_all_gates ? h : all, f.same_for_all_gates ? 0 : h};
      step.recurrent = {products + first / layout.units * layout.block, layout.pitch, layout.gate};
      if (net_.has_bias) {
        step.input_bias = {at(f.w, net_.bias(f.layer, d, 0).offset + unit), 0, h};
        step.recurrent_bias = {at(f.w, net_.bias(f.layer, d, net_.gates()).offset + unit), 0, h};
      }
      step.h_before = {at(before, unit), h};
      step.h_after = {at(after, unit), h};
      step.cx = {state(f.cx), h};
      step.c = {mine + space_.packed + space_.direct + unit, h};
      step.y = {at(f.y, place), width};
      step.hy = {state(f.hy), h};
      step.cy = {state(f.cy), h};
      step.gates = {at(f.gates, row * all + d * own + unit), all, h};
      step.previous_h = {at(f.previous_h, place), width};
      step.recurrent_n = {at(f.recurrent_n, place), width};
      step.previous_c = {f.previous_c ? f.previous_c + place : nullptr, width};
      cells_->forward(step);
    }
  }

  /// The gradient of the state from the step that was processed before, then the cells of step s.
  void backward_task(const LayerBackward& b, std::int64_t d, std::int64_t s, std::int64_t task, void* scratch) const {
    const Range panels = range(task);
    const std::int64_t h = net_.hidden, all = net_.all_gates(), own = net_.gates() * h, width = net_.width();
    float* const mine = static_cast<float*>(b.workspace) + d * space_.elements();
    auto* const product = static_cast<float*>(scratch);
    Products layout{panels.units, 0, 0, 0};
    if (s + 1 < schedule_.steps) {
      const std::int64_t t = schedule_.step(d, s + 1), row = schedule_.row[static_cast<std::size_t>(t)];
      const std::int64_t samples = schedule_.active[static_cast<std::size_t>(t)], begun = schedule_.begun(d, t);
      const void* const weights = at(b.w, net_.matrix(b.layer, d, net_.gates()).offset);
      const void* const gradients = at(b.recurrent_gradient, row * all + d * own);
      if (begun > 0) {
        layout = products_of(panels, begun);
        multiply(gradients, all, begun, panels, mine, weights, true, product, scratch);
      }
      if (b.dhx && begun < samples) {
        Gemm g = begins_gemm(samples);
        g.a.data = gradients;
        g.b.data = weights;
        g.c.data = at(b.dhx, d * space_.state);
        gemm_->run(g, begun, samples, panels.unit, panels.unit + panels.units,
                   static_cast<char*>(scratch) + product_bytes_);
      }
    }
    if (s < 0) return;
    const std::int64_t t = schedule_.step(d, s), row = schedule_.row[static_cast<std::size_t>(t)];
    kernels::RnnBackward step;
    static_cast<kernels::RnnStep&>(step) = step_of(d, t);
    for (std::int64_t first = 0; first < panels.units; first += layout.units) {
      const std::int64_t unit = panels.unit + first;
      const std::int64_t place = row * width + d * h + unit, gate = row * all + d * own + unit;
      const auto state = [&](auto* data) { return at(data, d * space_.state + unit); };
      step.units = std::min(layout.units, panels.units - first);
      step.dy = {at(b.dy, place), width};
      step.product = {product + first / layout.units * layout.block, layout.pitch};
      step.direct = {mine + space_.packed + space_.state + unit, h};
      step.dc = {mine + space_.packed + unit, h};
      step.dhy = {state(b.dhy), h};
      step.dcy = {state(b.dcy), h};
      step.dhx = {state(b.dhx), h};
      step.dcx = {state(b.dcx), h};
      step.gates = {at(b.gates, gate), all, h};
      step.previous_h = {at(b.previous_h, place), width};
      step.recurrent_n = {at(b.recurrent_n, place), width};
      step.previous_c = {b.previous_c ? const_cast<float*>(b.previous_c) + place : nullptr, width};
      step.input_gradient = {at(b.input_gradient, gate), all, h};
      step.recurrent_gradient = {at(b.recurrent_gradient, gate), all, h};
      cells_->backward(step);
    }
  }

  const Network net_;
  const Schedule& schedule_;
  const bool bias_of_first_;
  const Workspace space_;
  const GemmKernels* gemm_;
  const RnnKernels* cells_;
  const RnnProductKernels* products_;
  const RnnFloatKernels* floats_;
  const Weights weights_;
  const Panels panels_;
  std::int64_t panels_per_task_ = 1, tasks_ = 1;  // of a direction
  std::size_t product_bytes_ = 0, scratch_bytes_ = 0;
};

}  // namespace

std::unique_ptr<const Steps> make_cpu_steps(Stream& stream, const Network& network, const Schedule& schedule,
                                            bool bias_of_first, Pass pass) {
  return std::make_unique<CpuSteps>(stream, network, schedule, bias_of_first, pass);
}

std::size_t cpu_steps_workspace(const Network& network, std::int64_t samples, Pass pass) {
  return static_cast<std::size_t>(network.directions() * Workspace(network, samples, pass).elements()) * sizeof(float);
}

}  // namespace polymio::rnn
