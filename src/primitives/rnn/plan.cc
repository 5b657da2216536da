// A pass of a network: products of all steps at once, then the steps, layer by layer.
// SPDX-License-Identifier: MIT
#include "primitives/rnn/plan.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "core/loop.h"
#include "primitives/tensor_ops/tensor_ops.h"

namespace polymio::rnn {
namespace {

TensorDesc tensor(DataType type, std::initializer_list<std::int64_t> lens,
                  std::initializer_list<std::int64_t> strides = {}) {
  return make_tensor(type, {lens.begin(), lens.size()}, {strides.begin(), strides.size()});
}

void set_zero(Stream& stream, DataType type, std::int64_t elements, void* to) {
  const double zero = 0;  // of every type
  tensor_ops::set(stream, {tensor(type, {elements}), to}, &zero);
}

void copy(Stream& stream, const TensorDesc& from_desc, const void* from, const TensorDesc& to_desc, void* to,
          double beta = 0) {
  tensor_ops::transform(stream, 1, {from_desc, from}, beta, {to_desc, to});
}

Memory memory_of(const DeviceInfo& device, const Problem& p, const Schedule& s) {
  return {device, p, s.samples, s.rows, s.sorted, !s.is_packed(p.x_order), !s.is_packed(p.y_order)};
}

}  // namespace

NetworkPlan::NetworkPlan(Stream& stream, const Problem& problem)
    : problem_(problem),
      net_(problem_.network),
      schedule_(problem_.sequences),
      memory_(memory_of(stream.info(), problem_, schedule_)) {
  if (schedule_.rows == 0) return;
  const std::int64_t rows = schedule_.rows, all = net_.all_gates();
  for (std::int64_t l = 0; l < std::min<std::int64_t>(net_.layers, 2); ++l) {
    const std::int64_t columns = net_.columns(l);
    if (columns == 0) continue;
    const TensorDesc in = matrix(rows, columns, columns, 1), gates = matrix(rows, all, all, 1);
    Product& made = layer_products_[l];
    switch (problem_.pass) {
      case Pass::kBackwardData: made = make_product(stream, gates, matrix(all, columns, columns, 1), in); break;
      case Pass::kBackwardWeights:
        made = make_product(stream, matrix(all, rows, 1, all), in, matrix(all, columns, columns, 1));
        break;
      default:
        transposes_[l] = transposes_weights(stream.info(), net_, l, rows);
        made = make_product(stream, in,
                            transposes_[l] ? matrix(columns, all, all, 1) : matrix(columns, all, 1, columns), gates);
    }
  }
  if (problem_.pass == Pass::kBackwardWeights) {
    const std::int64_t hidden = net_.hidden, own = net_.gates() * hidden, directions[] = {net_.directions()};
    const auto matrices = [&](std::int64_t m, std::int64_t n, std::int64_t row, std::int64_t column,
                              std::int64_t step) {
      const std::int64_t steps[] = {step};
      return matmul::matrices(net_.type, m, n, row, column, directions, steps);
    };
    state_product_ =
        make_product(stream, matrices(own, rows, 1, all, own), matrices(rows, hidden, net_.width(), 1, hidden),
                     matrices(own, hidden, hidden, 1, own * hidden));
    return;
  }
  const auto make = stream.info().kind == DeviceKind::kCpu ? make_cpu_steps : make_gpu_steps;
  steps_ = make(stream, net_, schedule_, problem_.hx == Problem::Initial::kGiven, problem_.pass);
}

std::size_t NetworkPlan::bytes_of_plan() const {
  constexpr std::size_t kFixed = 16384, kStep = 64, kLayer = 512;
  const auto steps = static_cast<std::size_t>(schedule_.steps + schedule_.samples);
  return kFixed + kStep * steps + kLayer * static_cast<std::size_t>(net_.layers);
}

TensorDesc NetworkPlan::matrix(std::int64_t rows, std::int64_t columns, std::int64_t row_stride,
                               std::int64_t column_stride) const {
  return matmul::matrices(net_.type, rows, columns, row_stride, column_stride);
}

void NetworkPlan::run(Stream& stream, const Problem::Args& args) const {
  const auto require_bytes = [](const void* memory, std::size_t bytes, std::size_t needed, const char* name) {
    const std::size_t have = memory ? bytes : 0;
    if (have < needed) fail(Status::kUnknownError, "the {} has {} bytes, {} are required", name, have, needed);
  };
  require_bytes(args.workspace, args.workspace_bytes, memory_.sizes.workspace, "workspace");
  require_bytes(args.reserve, args.reserve_bytes, memory_.sizes.reserve, "reserve space");
  void* const workspace = aligned_start(args.workspace);
  void* const reserve = aligned_start(args.reserve);
  switch (problem_.pass) {
    case Pass::kBackwardData: return backward_data(stream, args, workspace, reserve);
    case Pass::kBackwardWeights: return backward_weights(stream, args, workspace, reserve);
    default: return forward(stream, args, workspace, reserve);
  }
}

void NetworkPlan::forward(Stream& stream, const Problem::Args& args, void* workspace, void* reserve) const {
  const bool trains = problem_.pass == Pass::kTraining;
  pass_state(stream, args.hx, args.hy);
  if (net_.mode == Mode::kLstm) pass_state(stream, args.cx, args.cy);
  if (schedule_.rows == 0) return unpack(stream, problem_.y_order, net_.width(), args.y, args.padding, args.y);
  const void* in = packed(stream, problem_.x_order, net_.input, args.x, memory_.x, workspace);
  const std::size_t state = bytes(state_elements());
  const auto layer_of = [&](auto* states, std::int64_t l) {
    return states ? states + static_cast<std::size_t>(l) * state : nullptr;
  };
  const auto* const hx = static_cast<const char*>(sorted_state(stream, args.hx, memory_.states[0], workspace));
  const auto* const cx = static_cast<const char*>(sorted_state(stream, args.cx, memory_.states[1], workspace));
  auto* const hy = static_cast<char*>(state_target(args.hy, memory_.states[2], workspace));
  auto* const cy = static_cast<char*>(state_target(args.cy, memory_.states[3], workspace));
  void* const y = memory_.y.bytes ? memory_.y.in(workspace) : args.y;
  for (std::int64_t l = 0; l < net_.layers; ++l) {
    const auto index = static_cast<std::size_t>(l);
    const bool last = l + 1 == net_.layers;
    LayerForward f;
    f.layer = l;
    f.w = args.w;
    f.hx = layer_of(hx, l);
    f.cx = layer_of(cx, l);
    f.hy = layer_of(hy, l);
    f.cy = layer_of(cy, l);
    f.y = last ? y : trains ? memory_.kept[index].output.in(reserve) : memory_.outputs[index % 2].in(workspace);
    if (trains) {
      const Memory::Kept& kept = memory_.kept[index];
      f.gates = kept.gates.in(reserve);
      f.previous_h = kept.previous_h.in(reserve);
      f.previous_c = reinterpret_cast<float*>(kept.previous_c.in(reserve));
      f.recurrent_n = kept.recurrent_n.in(reserve);
    }
    f.products = in;
    f.same_for_all_gates = net_.columns(l) == 0;
    if (!f.same_for_all_gates) {
      void* const products = trains ? f.gates : memory_.products.in(workspace);
      const void* const w = input_weights(stream, l, args.w, workspace);
      layer_products_[std::min<std::size_t>(index, 1)].run(stream, in, w, products, memory_.multiplier.in(workspace));
      f.products = products;
    }
    f.workspace = memory_.steps.in(workspace);
    steps_->forward(stream, f);
    if (trains && !last) drop(stream, args, l, f.y, reserve, false);
    in = f.y;
  }
  unsort_state(stream, args.hy, memory_.states[2], workspace);
  unsort_state(stream, args.cy, memory_.states[3], workspace);
  unpack(stream, problem_.y_order, net_.width(), y, args.padding, args.y);
}

/// The input matrices of a layer, as its product takes them.
const void* NetworkPlan::input_weights(Stream& stream, std::int64_t layer, const void* w, void* workspace) const {
  const void* const given = static_cast<const char*>(w) + bytes(net_.matrix(layer, 0, 0).offset);
  if (!transposes_[std::min<std::int64_t>(layer, 1)]) return given;
  const std::int64_t columns = net_.columns(layer), all = net_.all_gates();
  void* const transposed = memory_.weights.in(workspace);
  copy(stream, tensor(net_.type, {columns, all}, {1, columns}), given, tensor(net_.type, {columns, all}), transposed);
  return transposed;
}

void NetworkPlan::backward_data(Stream& stream, const Problem::Args& args, void* workspace, void* reserve) const {
  pass_state(stream, args.dhy, args.dhx);
  if (net_.mode == Mode::kLstm) pass_state(stream, args.dcy, args.dcx);
  if (schedule_.rows == 0) return unpack(stream, problem_.x_order, net_.input, args.dx, args.padding, args.dx);
  const void* dy = packed(stream, problem_.y_order, net_.width(), args.dy, memory_.y, workspace);
  const std::size_t state = bytes(state_elements());
  const auto layer_of = [&](auto* states, std::int64_t l) {
    return states ? states + static_cast<std::size_t>(l) * state : nullptr;
  };
  const auto* const dhy = static_cast<const char*>(sorted_state(stream, args.dhy, memory_.states[0], workspace));
  const auto* const dcy = static_cast<const char*>(sorted_state(stream, args.dcy, memory_.states[1], workspace));
  auto* const dhx = static_cast<char*>(state_target(args.dhx, memory_.states[2], workspace));
  auto* const dcx = static_cast<char*>(state_target(args.dcx, memory_.states[3], workspace));
  void* const dx = memory_.x.bytes ? memory_.x.in(workspace) : args.dx;
  for (std::int64_t l = net_.layers - 1; l >= 0; --l) {
    const auto index = static_cast<std::size_t>(l);
    const Memory::Kept& kept = memory_.kept[index];
    LayerBackward b;
    b.layer = l;
    b.w = args.w;
    b.dy = dy;
    b.dhy = layer_of(dhy, l);
    b.dcy = layer_of(dcy, l);
    b.dhx = layer_of(dhx, l);
    b.dcx = layer_of(dcx, l);
    b.gates = kept.gates.in(reserve);
    b.previous_h = kept.previous_h.in(reserve);
    b.previous_c = reinterpret_cast<const float*>(kept.previous_c.in(reserve));
    b.recurrent_n = kept.recurrent_n.in(reserve);
    b.input_gradient = memory_.gradients[index].input.in(workspace);
    b.recurrent_gradient = memory_.gradients[index].recurrent.in(workspace);
    b.workspace = memory_.steps.in(workspace);
    steps_->backward(stream, b);
    void* const below = l == 0 ? dx : memory_.outputs[0].in(workspace);
    if (net_.columns(l) == 0) {
      add_gates(stream, static_cast<const char*>(b.input_gradient), below);
    } else {
      const void* const w = static_cast<const char*>(args.w) + bytes(net_.matrix(l, 0, 0).offset);
      layer_products_[std::min<std::size_t>(index, 1)].run(stream, b.input_gradient, w, below,
                                                           memory_.multiplier.in(workspace));
    }
    if (l > 0) drop(stream, args, l - 1, below, reserve, true);
    dy = below;
  }
  unsort_state(stream, args.dhx, memory_.states[2], workspace);
  unsort_state(stream, args.dcx, memory_.states[3], workspace);
  unpack(stream, problem_.x_order, net_.input, dx, args.padding, args.dx);
}

void NetworkPlan::backward_weights(Stream& stream, const Problem::Args& args, void* workspace, void* reserve) const {
  if (schedule_.rows == 0) return set_zero(stream, net_.type, net_.elements(), args.dw);
  const void* in = packed(stream, problem_.x_order, net_.input, args.x, memory_.x, workspace);
  void* const multiplier = memory_.multiplier.in(workspace);
  const auto target = [&](const Part& part) { return static_cast<char*>(args.dw) + bytes(part.offset); };
  for (std::int64_t l = 0; l < net_.layers; ++l) {
    const auto index = static_cast<std::size_t>(l);
    const Memory::Kept& kept = memory_.kept[index];
    const char* const input = memory_.gradients[index].input.in(workspace);
    const char* const recurrent = memory_.gradients[index].recurrent.in(workspace);
    if (net_.columns(l) > 0)
      layer_products_[std::min<std::size_t>(index, 1)].run(stream, input, in, target(net_.matrix(l, 0, 0)), multiplier);
    state_product_.run(stream, recurrent, kept.previous_h.in(reserve), target(net_.matrix(l, 0, net_.gates())),
                       multiplier);
    if (net_.has_bias) sum_biases(stream, l, input, recurrent, args.dw);
    in = kept.output.in(reserve);
  }
}

/// Without hx the recurrent biases of the first step of each sequence are not used.
void NetworkPlan::sum_biases(Stream& stream, std::int64_t layer, const char* input, const char* recurrent,
                             void* dw) const {
  const std::int64_t all = net_.all_gates(), own = net_.gates() * net_.hidden, rows = schedule_.rows;
  const auto target = [&](std::int64_t direction, std::int64_t id) {
    return static_cast<char*>(dw) + bytes(net_.bias(layer, direction, id).offset);
  };
  sum_rows(stream, input, all, all, 0, rows, 0, target(0, 0));
  void* const of_recurrent = target(0, net_.gates());
  if (problem_.hx == Problem::Initial::kGiven && input == recurrent) {
    const TensorDesc biases = tensor(net_.type, {all});
    return copy(stream, biases, target(0, 0), biases, of_recurrent);
  }
  if (problem_.hx == Problem::Initial::kGiven) return sum_rows(stream, recurrent, all, all, 0, rows, 0, of_recurrent);
  const std::int64_t first = schedule_.active.front();
  if (first == rows) return set_zero(stream, net_.type, all, of_recurrent);
  sum_rows(stream, recurrent, all, own, first, rows - first, 0, of_recurrent);
  if (!net_.bidirectional) return;
  double beta = 0;
  for (std::size_t i = 0; i < schedule_.runs.size(); ++i) {
    const StepRun& run = schedule_.runs[i];
    const std::int64_t after = i + 1 < schedule_.runs.size() ? schedule_.runs[i + 1].samples : 0;
    const std::int64_t count = (run.count - 1) * run.samples + after;
    if (count == 0) continue;
    sum_rows(stream, recurrent + bytes(own), all, own, run.row, count, beta, target(1, net_.gates()));
    beta = 1;
  }
}

/// The sums over rows [first, first + count) of so many columns.
void NetworkPlan::sum_rows(Stream& stream, const char* from, std::int64_t pitch, std::int64_t columns,
                           std::int64_t first, std::int64_t count, double beta, void* to) const {
  const TensorDesc rows = tensor(net_.type, {count, columns}, {pitch, 1}), sums = tensor(net_.type, {1, columns});
  tensor_ops::bias_backward(stream, 1, {rows, from + bytes(first * pitch)}, beta, {sums, to});
}

/// The gradient of an input that is added to all gates.
void NetworkPlan::add_gates(Stream& stream, const char* gradients, void* dx) const {
  const std::int64_t hidden = net_.hidden, count = net_.all_gates() / hidden;
  const TensorDesc gate = tensor(net_.type, {schedule_.rows, hidden}, {net_.all_gates(), 1});
  const TensorDesc sum = tensor(net_.type, {schedule_.rows, hidden});
  const auto of = [&](std::int64_t g) { return gradients + bytes(g * hidden); };
  copy(stream, gate, of(0), sum, dx);
  for (std::int64_t g = 1; g < count; ++g) copy(stream, gate, of(g), sum, dx, 1);
}

void NetworkPlan::drop(Stream& stream, const Problem::Args& args, std::int64_t layer, void* data, void* reserve,
                       bool stored) const {
  const Region& mask = memory_.kept[static_cast<std::size_t>(layer)].mask;
  if (mask.bytes == 0) return;
  dropout::Choice choice = args.dropout;
  choice.mask = reinterpret_cast<std::uint8_t*>(mask.in(reserve));
  choice.stored = stored;
  choice.advances = choice.advances && !stored;
  const TensorDesc rows = tensor(net_.type, {schedule_.rows, net_.width()});
  dropout::apply(stream, choice, rows, data, rows, data);
}

const void* NetworkPlan::packed(Stream& stream, Order order, std::int64_t width, const void* given,
                                const Region& region, void* workspace) const {
  if (region.bytes == 0) return given;
  copy_rows(stream, order, width, const_cast<void*>(given), region.in(workspace), true);
  return region.in(workspace);
}

void NetworkPlan::unpack(Stream& stream, Order order, std::int64_t width, const void* rows, const void* padding,
                         void* result) const {
  if (schedule_.is_packed(order)) return;
  const std::int64_t all = schedule_.samples * schedule_.padded_steps;
  if (schedule_.rows < all) {
    const double zero = 0;
    tensor_ops::set(stream, {tensor(net_.type, {all, width}), result}, padding ? padding : &zero);
  }
  if (schedule_.rows > 0) copy_rows(stream, order, width, result, const_cast<void*>(rows), false);
}

/// Between a tensor of all samples and steps and the rows of the internal form.
void NetworkPlan::copy_rows(Stream& stream, Order order, std::int64_t width, void* padded, void* rows,
                            bool to_rows) const {
  const bool time_major = order == Order::kTimeMajor;
  const std::int64_t step = (time_major ? schedule_.samples : 1) * width;
  const std::int64_t sample = (time_major ? 1 : schedule_.padded_steps) * width;
  const std::size_t size = bytes(width);
  auto* const internal = static_cast<char*>(rows);
  auto* const external = static_cast<char*>(padded);
  if (stream.info().kind == DeviceKind::kCpu) {
    const std::int64_t part = std::max<std::int64_t>(1, 65536 / (schedule_.samples * static_cast<std::int64_t>(size)));
    return for_ranges(stream, schedule_.steps, part, [&](std::int64_t first, std::int64_t end) {
      for (std::int64_t t = first; t < end; ++t) {
        const auto index = static_cast<std::size_t>(t);
        for (std::int64_t s = 0; s < schedule_.active[index]; ++s) {
          char* const inside = internal + static_cast<std::size_t>(schedule_.row[index] + s) * size;
          char* const outside = external + bytes(t * step + schedule_.order[static_cast<std::size_t>(s)] * sample);
          to_rows ? std::memcpy(inside, outside, size) : std::memcpy(outside, inside, size);
        }
      }
    });
  }
  for (const StepRun& run : schedule_.runs) {
    const std::int64_t together = schedule_.sorted ? run.samples : 1;
    const TensorDesc inside = tensor(net_.type, {run.count, together, width}, {run.samples * width, width, 1});
    const TensorDesc outside = tensor(net_.type, {run.count, together, width}, {step, sample, 1});
    for (std::int64_t s = 0; s < run.samples; s += together) {
      char* const in = internal + bytes((run.row + s) * width);
      char* const out = external + bytes(run.first * step + schedule_.order[static_cast<std::size_t>(s)] * sample);
      to_rows ? copy(stream, outside, out, inside, in) : copy(stream, inside, in, outside, out);
    }
  }
}

const void* NetworkPlan::sorted_state(Stream& stream, const void* given, const Region& region, void* workspace) const {
  if (schedule_.sorted || !given) return given;
  copy_state(stream, given, region.in(workspace), true);
  return region.in(workspace);
}

void* NetworkPlan::state_target(void* given, const Region& region, void* workspace) const {
  return schedule_.sorted || !given ? given : region.in(workspace);
}

void NetworkPlan::unsort_state(Stream& stream, void* given, const Region& region, void* workspace) const {
  if (!schedule_.sorted && given) copy_state(stream, region.in(workspace), given, false);
}

/// Of the samples that have a step.
void NetworkPlan::copy_state(Stream& stream, const void* from, void* to, bool sorts) const {
  const std::int64_t hidden = net_.hidden, samples = schedule_.samples;
  const TensorDesc sample = tensor(net_.type, {net_.layers * net_.directions(), hidden}, {samples * hidden, 1});
  for (std::int64_t s = 0; s < schedule_.active.front(); ++s) {
    const std::size_t inside = bytes(s * hidden);
    const std::size_t outside = bytes(schedule_.order[static_cast<std::size_t>(s)] * hidden);
    copy(stream, sample, static_cast<const char*>(from) + (sorts ? outside : inside), sample,
         static_cast<char*>(to) + (sorts ? inside : outside));
  }
}

void NetworkPlan::pass_state(Stream& stream, const void* from, void* to) const {
  if (!to || schedule_.lengths.back() > 0) return;
  const std::int64_t elements = net_.layers * state_elements();
  if (!from) return set_zero(stream, net_.type, elements, to);
  const TensorDesc all = tensor(net_.type, {elements});
  copy(stream, all, from, all, to);
}

}  // namespace polymio::rnn
