// The steps of a layer on the CPU. The recurrent weights are packed once per call as panels that the products of all
// steps read in order: in fp32, or in bf16 pairs where their products are faster. A task multiplies some panels and
// computes their cells while the products are in the cache: one parallel region per step, both directions at once.
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
using kernels::RnnKernels;
using kernels::RnnProductKernels;

constexpr std::int64_t kPanelColumns = 64;  // or 48 for GRU: a register tile's
constexpr std::int64_t kDepthBlock = 192;   // so deep a panel stays in the first-level cache and is not copied

/// Hidden units of a panel: of all their gates forward, of the state backward.
std::int64_t panel_units(const Network& n, Pass pass) {
  return pass == Pass::kBackwardData || n.gates() == 1 ? kPanelColumns : kPanelColumns / 4;
}

/// The packed weights of one direction: [panel][depth][column], forward [column] is [gate][unit].
struct Panels {
  std::int64_t units = 0, count = 0, columns = 0, depth = 0;
  Panels(const Network& n, Pass pass) {
    const bool backward = pass == Pass::kBackwardData;
    units = panel_units(n, pass);
    count = ceil_div(n.hidden, units);
    columns = units * (backward ? 1 : n.gates());
    depth = n.hidden * (backward ? n.gates() : 1);
  }
  std::int64_t elements() const { return count * depth * columns; }
};

/// Four bytes for each element; packed pairs take half of theirs, states in 16 bits, too.
struct Workspace {
  std::int64_t packed, state, direct;  // elements of one direction
  Workspace(const Network& n, std::int64_t samples, Pass pass)
      : packed(Panels(n, pass).elements()),
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
        panels_(network, pass),
        space_(network, schedule.samples, pass),
        gemm_(&kernels::kernels_of<GemmKernels>(stream.info().isa)),
        cells_(&kernels::kernels_of<RnnKernels>(stream.info().isa)),
        products_(&kernels::kernels_of<RnnProductKernels>(stream.info().isa)),
        pairs_(network.type == DataType::kBFloat16 && network.hidden % 2 == 0 && products_->has_pairs()) {
    constexpr std::int64_t kTasksPerThread = 2;
    const std::int64_t most = ceil_div(kTasksPerThread * stream.threads(), net_.directions());
    panels_per_task_ = ceil_div(panels_.count, std::min(most, panels_.count));
    tasks_ = ceil_div(panels_.count, panels_per_task_);
    product_bytes_ = static_cast<std::size_t>(
        round_up(schedule.samples * panels_per_task_ * panels_.columns * static_cast<std::int64_t>(sizeof(float)), 64));
    scratch_bytes_ = product_bytes_;
    for (const std::int64_t panels : {panels_per_task_, panels_.count - (tasks_ - 1) * panels_per_task_})
      for (std::int64_t t = 0; t < schedule.steps; ++t) reserve(pass, t, panels);
    stream.reserve_scratch(scratch_bytes_);
  }

  void forward(Stream& stream, const LayerForward& f) const override {
    const std::int64_t directions = net_.directions();
    auto* const space = static_cast<float*>(f.workspace);
    for (std::int64_t d = 0; d < directions; ++d) {
      float* const mine = space + d * space_.elements();
      pack_forward(stream, at(f.w, net_.matrix(f.layer, d, net_.gates()).offset), mine);
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
      pack_backward(stream, at(b.w, net_.matrix(b.layer, d, net_.gates()).offset), space + d * space_.elements());
    // From the last step to the first; one more for the initial state.
    for (std::int64_t s = schedule_.steps - 1; s >= (b.dhx ? -1 : 0); --s)
      stream.parallel_for(static_cast<std::size_t>(directions * tasks_), scratch_bytes_,
                          [&](std::size_t task, void* scratch) {
                            const auto i = static_cast<std::int64_t>(task);
                            backward_task(b, i / tasks_, s, i % tasks_, scratch);
                          });
  }

 private:
  struct Range {
    std::int64_t first, count;  // panels
  };
  Range range(std::int64_t task) const {
    const std::int64_t first = task * panels_per_task_;
    return {first, std::min(panels_per_task_, panels_.count - first)};
  }

  template <class Data>
  Data* at(Data* data, std::int64_t elements) const {
    using Byte = std::conditional_t<std::is_const_v<Data>, const char, char>;
    return data ? static_cast<Byte*>(data) + elements * static_cast<std::int64_t>(size_of(net_.type)) : nullptr;
  }

  /// The panels from `first` on.
  const float* panel(const float* packed, std::int64_t first) const {
    return packed + first * panels_.depth * panels_.columns / (pairs_ ? 2 : 1);
  }

  /// c [rows, columns of the panels] = a [rows, depth] x panels, in fp32.
  Gemm gemm(std::int64_t rows, std::int64_t panels, const float* packed) const {
    Gemm g;
    g.m = rows;
    g.n = panels * panels_.columns;
    g.k = panels_.depth;
    g.depth_block = kDepthBlock;
    g.a.dtype = net_.type;
    g.a.lanes = axis(rows, net_.hidden);
    g.a.depth = axis(panels_.depth, 1);
    g.b.data = packed;
    g.b.lanes = axis(panels_.columns, 1);
    g.b.lanes.level[kernels::kLevels - 2] = {panels, panels_.depth * panels_.columns, -1, 0};
    g.b.depth = axis(panels_.depth, panels_.columns);
    g.c.rows = axis(rows, g.n);
    g.c.columns = axis(g.n, 1);
    return g;
  }

  /// The backward product; of samples that begin its result is dhx. Pairs are for the steps: these read `weights`.
  Gemm backward_gemm(std::int64_t samples, std::int64_t panels, const float* packed, const void* weights,
                     bool begins) const {
    Gemm g = gemm(samples, panels, packed);
    g.a.lanes = axis(samples, net_.all_gates());
    if (!begins) return g;
    if (pairs_) {
      g.b.dtype = net_.type;
      g.b.data = weights;
      g.b.lanes = axis(g.n, 1);
      g.b.depth = axis(g.k, net_.hidden);
    }
    g.c.dtype = net_.type;
    g.c.rows = axis(samples, net_.hidden);
    g.beta = net_.mode == Mode::kGru ? 1 : 0;
    return g;
  }

  /// Enlarges the scratch memory to what step t needs.
  void reserve(Pass pass, std::int64_t t, std::int64_t panels) {
    const std::int64_t samples = schedule_.active[static_cast<std::size_t>(t)];
    const auto add = [&](const Gemm& g, std::int64_t rows) {
      if (rows > 0) scratch_bytes_ = std::max(scratch_bytes_, product_bytes_ + gemm_->scratch(g, rows, g.n));
    };
    if (pass != Pass::kBackwardData) return pairs_ ? void() : add(gemm(samples, panels, nullptr), samples);
    for (std::int64_t d = 0; d < net_.directions(); ++d) {
      const std::int64_t begun = schedule_.begun(d, t);
      if (!pairs_) add(backward_gemm(samples, panels, nullptr, nullptr, false), begun);
      add(backward_gemm(samples, panels, nullptr, nullptr, true), samples - begun);
    }
  }

  /// The weights in fp32, or pairs of them as they are.
  void transform(Stream& stream, std::initializer_list<std::int64_t> lens, const void* from,
                 std::initializer_list<std::int64_t> from_strides, float* to,
                 std::initializer_list<std::int64_t> to_strides) const {
    const std::span<const std::int64_t> sizes(lens.begin(), lens.size());
    const DataType in = pairs_ ? DataType::kInt32 : net_.type, out = pairs_ ? in : DataType::kFloat;
    tensor_ops::transform(stream, 1, {make_tensor(in, sizes, {from_strides.begin(), from_strides.size()}), from}, 0,
                          {make_tensor(out, sizes, {to_strides.begin(), to_strides.size()}), to});
  }

  /// weights: [gate][unit][depth], depths that become pairs are neighbours.
  void pack_forward(Stream& stream, const void* weights, float* packed) const {
    const std::int64_t h = net_.hidden, u = panels_.units, columns = panels_.columns, whole = h / u, rest = h % u;
    const std::int64_t depth = pairs_ ? h / 2 : h;
    const auto pack = [&](std::int64_t first, std::int64_t count, std::int64_t units) {
      transform(stream, {count, depth, net_.gates(), units}, at(weights, first * u * h),
                {u * depth, 1, h * depth, depth}, packed + first * depth * columns, {depth * columns, columns, u, 1});
    };
    if (rest > 0) std::fill_n(packed + whole * depth * columns, depth * columns, 0.0f);
    if (net_.type == DataType::kFloat) return pack_floats(stream, static_cast<const float*>(weights), packed);
    if (whole > 0) pack(0, whole, u);
    if (rest > 0) pack(whole, 1, rest);
  }

  /// The same for fp32. A task reads a cache line of each row of its panel after another; the lines of the panel that
  /// it writes them to stay in the first-level cache.
  void pack_floats(Stream& stream, const float* weights, float* packed) const {
    constexpr std::int64_t kLine = 16;
    const std::int64_t h = net_.hidden, u = panels_.units, columns = panels_.columns;
    stream.parallel_for(static_cast<std::size_t>(panels_.count), 0, [&](std::size_t task, void*) {
      const std::int64_t unit = static_cast<std::int64_t>(task) * u, units = std::min(u, h - unit);
      float* const panel = packed + unit * h * net_.gates();
      for (std::int64_t first = 0; first < h; first += kLine)
        for (std::int64_t row = 0; row < net_.gates() * units; ++row) {
          const std::int64_t gate = row / units, column = row % units;
          const float* const from = weights + (gate * h + unit + column) * h + first;
          float* const to = panel + first * columns + gate * u + column;
          for (std::int64_t d = 0; d < std::min(kLine, h - first); ++d) to[d * columns] = from[d];
        }
    });
  }

  /// weights: [depth][unit].
  void pack_backward(Stream& stream, const void* weights, float* packed) const {
    const std::int64_t h = net_.hidden, u = panels_.units, depth = panels_.depth, whole = h / u, rest = h % u;
    if (pairs_)
      return stream.parallel_for(static_cast<std::size_t>(panels_.count), 0, [&](std::size_t task, void*) {
        const auto p = static_cast<std::int64_t>(task);
        products_->pack(at(weights, p * u), h, depth, std::min(u, h - p * u), u, packed + p * depth * u / 2);
      });
    const auto pack = [&](std::int64_t first, std::int64_t count, std::int64_t units) {
      transform(stream, {count, depth, units}, at(weights, first * u), {u, h, 1}, packed + first * depth * u,
                {depth * u, u, 1});
    };
    if (rest > 0) std::fill_n(packed + whole * depth * u, depth * u, 0.0f);
    if (whole > 0) pack(0, whole, u);
    if (rest > 0) pack(whole, 1, rest);
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

  /// Rows [first, end) of a product. Those of pairs have their operands in place.
  void multiply(Gemm g, const void* a, std::int64_t first, std::int64_t end, std::int64_t columns, void* c,
                void* scratch) const {
    if (pairs_ && g.b.dtype == DataType::kFloat) {
      const std::int64_t pitch = g.a.lanes.level[kernels::kLevels - 1].stride;
      return products_->multiply({.a = a,
                                  .panels = g.b.data,
                                  .c = static_cast<float*>(c),
                                  .rows = end,
                                  .depth = g.k,
                                  .a_pitch = pitch,
                                  .c_pitch = g.n,
                                  .count = g.n / panels_.columns,
                                  .columns = panels_.columns});
    }
    g.a.data = a;
    g.c.data = c;
    gemm_->run(g, first, end, 0, columns, static_cast<char*>(scratch) + product_bytes_);
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
    const std::int64_t pitch = panels.count * panels_.columns;
    if (!f.hx && s == 0) {
      std::fill_n(products, step.samples * pitch, 0.0f);
    } else {
      multiply(gemm(step.samples, panels.count, panel(mine, panels.first)), before, 0, step.samples, pitch, products,
               scratch);
    }
    step.bias_of_first = bias_of_first_;
    for (std::int64_t p = 0; p < panels.count; ++p) {
      const std::int64_t unit = (panels.first + p) * panels_.units, place = row * width + d * h + unit;
      const auto state = [&](auto* data) { return at(data, d * space_.state + unit); };
      step.units = std::min(panels_.units, h - unit);
      step.x = {at(f.products, f.same_for_all_gates ? row * h + unit : row * all + d * own + unit),
                f.same_for_all_gates ? h : all, f.same_for_all_gates ? 0 : h};
      step.recurrent = {products + p * panels_.columns, pitch, panels_.units};
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
    const std::int64_t unit = panels.first * panels_.units, units = std::min(panels.count * panels_.units, h - unit);
    float* const mine = static_cast<float*>(b.workspace) + d * space_.elements();
    auto* const product = static_cast<float*>(scratch);
    const std::int64_t pitch = panels.count * panels_.columns;
    const auto state = [&](auto* data) { return at(data, d * space_.state + unit); };
    if (s + 1 < schedule_.steps) {
      const std::int64_t t = schedule_.step(d, s + 1), row = schedule_.row[static_cast<std::size_t>(t)];
      const std::int64_t samples = schedule_.active[static_cast<std::size_t>(t)], begun = schedule_.begun(d, t);
      const void* const weights = at(b.w, net_.matrix(b.layer, d, net_.gates()).offset + unit);
      const auto add = [&](bool begins, void* to, std::int64_t first, std::int64_t end, std::int64_t columns) {
        multiply(backward_gemm(samples, panels.count, panel(mine, panels.first), weights, begins),
                 at(b.recurrent_gradient, row * all + d * own), first, end, columns, to, scratch);
      };
      if (begun > 0) add(false, product, 0, begun, pitch);
      if (b.dhx && begun < samples) add(true, state(b.dhx), begun, samples, units);
    }
    if (s < 0) return;
    const std::int64_t t = schedule_.step(d, s), row = schedule_.row[static_cast<std::size_t>(t)];
    const std::int64_t place = row * width + d * h + unit, gate = row * all + d * own + unit;
    kernels::RnnBackward step;
    static_cast<kernels::RnnStep&>(step) = step_of(d, t);
    step.units = units;
    step.dy = {at(b.dy, place), width};
    step.product = {product, pitch};
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

  const Network net_;
  const Schedule& schedule_;
  const bool bias_of_first_;
  const Panels panels_;
  const Workspace space_;
  const GemmKernels* gemm_;
  const RnnKernels* cells_;
  const RnnProductKernels* products_;
  const bool pairs_;                              // whether the weights are packed as pairs
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
