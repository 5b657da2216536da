// The steps of a layer on GPUs: one launch of all steps where that is possible, else a product of the state and a
// kernel of cells per step and direction.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "base/math.h"
#include "core/kernel_builder.h"
#include "primitives/rnn/gpu/persistent.h"
#include "primitives/rnn/gpu/step.h"
#include "primitives/rnn/products.h"
#include "primitives/rnn/steps.h"
#include "primitives/tensor_ops/tensor_ops.h"

namespace polymio::rnn {
namespace {

constexpr std::int64_t kThreads = 256;  // as in rnn.cl

std::vector<KernelSpec> specs(const DeviceInfo& device, DataType type, Mode mode) {
  KernelSpec forward{"primitives/rnn/gpu/rnn.cl", "forward", cell_options(device, type, mode)};
  KernelSpec backward = forward;
  backward.entry = "backward";
  return {std::move(forward), std::move(backward)};
}

/// Whether backward data multiplies by a transposed copy of the weights: measured on an H200, the matrix library is up
/// to twice as fast by it in fp32, and not in 16 bits. Fewer steps do not make up for the copy.
bool copies_weights(const Network& n, std::int64_t steps) { return n.type == DataType::kFloat && steps >= 4; }

/// Parts of the workspace, aligned to 256 bytes: the products, fp32; forward h, backward transposed weights, instead of
/// both what the blocks of one launch for all steps exchange; c, or what is carried backward. Reused for each
/// direction.
struct Workspace {
  std::size_t product, exchange, carried, multiplier, bytes;
  Workspace(const DeviceInfo& d, const Network& n, std::int64_t samples, std::int64_t steps, Pass pass) {
    const auto round = [](std::size_t size) { return (size + 255) / 256 * 256; };
    const std::size_t state = round(static_cast<std::size_t>(4 * samples * n.hidden));
    const bool backward = pass == Pass::kBackwardData;
    const auto weights = static_cast<std::size_t>(n.gates() * n.hidden * n.hidden) * size_of(n.type);
    const std::size_t other = backward ? (copies_weights(n, steps) ? round(weights) : 0) : state;
    product = 0;
    exchange = backward ? state : static_cast<std::size_t>(n.gates()) * state;
    carried = exchange + std::max(other, round(persistent_bytes(d, n, samples, steps, pass)));
    bytes = carried + state;
    multiplier = bytes;
  }
};

class GpuSteps final : public Steps {
 public:
  GpuSteps(Stream& stream, const Network& network, const Schedule& schedule, bool bias_of_first, Pass pass)
      : net_(network),
        schedule_(schedule),
        bias_of_first_(bias_of_first),
        space_(stream.info(), network, schedule.samples, schedule.steps, pass) {
    persistent_ = persistent(stream.info(), net_, schedule_, pass);
    if (persistent_) {
      kernels_ = build_kernels(stream, std::array{persistent_->spec(stream.info(), net_)});
      return;
    }
    kernels_ = build_kernels(stream, specs(stream.info(), net_.type, net_.mode));
    const std::int64_t hidden = net_.hidden, own = net_.gates() * hidden, all = net_.all_gates();
    const auto matrix = [&](DataType type, std::int64_t rows, std::int64_t columns, std::int64_t row,
                            std::int64_t column) { return matmul::matrices(type, rows, columns, row, column); };
    // Products of as many samples as a step has; backward those that begin are apart.
    const auto add = [&](std::map<std::int64_t, Product>& products, std::int64_t rows, bool begins) {
      if (rows == 0 || products.contains(rows)) return;
      if (pass != Pass::kBackwardData) {
        products[rows] =
            make_product(stream, matrix(net_.type, rows, hidden, hidden, 1), matrix(net_.type, hidden, own, 1, hidden),
                         matrix(DataType::kFloat, rows, own, own, 1));
        return;
      }
      products[rows] = make_product(
          stream, matrix(net_.type, rows, own, all, 1),
          copies_weights() ? matrix(net_.type, own, hidden, 1, own) : matrix(net_.type, own, hidden, hidden, 1),
          matrix(begins ? net_.type : DataType::kFloat, rows, hidden, hidden, 1));
    };
    for (std::int64_t d = 0; d < net_.directions(); ++d)
      for (std::int64_t t = 0; t < schedule_.steps; ++t) {
        const std::int64_t samples = schedule_.active[static_cast<std::size_t>(t)], begun = schedule_.begun(d, t);
        add(products_, pass == Pass::kBackwardData ? begun : samples, false);
        if (pass == Pass::kBackwardData) add(first_products_, samples - begun, true);
      }
  }

  void forward(Stream& stream, const LayerForward& f) const override {
    char* const space = static_cast<char*>(f.workspace);
    const std::int64_t state = schedule_.samples * net_.hidden;
    for (std::int64_t d = 0; d < net_.directions(); ++d) {
      const std::int64_t weights = recurrent_weights(f.layer, d);
      const void* const hx = at(f.hx, d * state);
      if (persistent_) {
        begin_exchange(stream, hx, space + space_.exchange, Pass::kTraining);
        launch_cells(stream, persistent_->launch, f, d, 0, Buffer(space + space_.exchange),
                     walk(f.layer, d, Pass::kTraining));
        continue;
      }
      begin_state(stream, hx, space + space_.exchange);
      for (std::int64_t s = 0; s < schedule_.steps; ++s) {
        const std::int64_t t = schedule_.step(d, s), samples = schedule_.active[static_cast<std::size_t>(t)];
        products_.at(samples).run(stream, space + space_.exchange, at(f.w, weights), space + space_.product,
                                  space + space_.multiplier);
        launch_cells(stream, shape_of(samples), f, d, t, Buffer(space + space_.exchange),
                     Buffer(space + space_.product));
      }
    }
  }

  void backward(Stream& stream, const LayerBackward& b) const override {
    char* const space = static_cast<char*>(b.workspace);
    const std::int64_t h = net_.hidden, all = net_.all_gates(), own = net_.gates() * h;
    for (std::int64_t d = 0; d < net_.directions(); ++d) {
      if (persistent_) {
        begin_exchange(stream, nullptr, space + space_.exchange, Pass::kBackwardData);
        launch_gradients(stream, persistent_->launch, b, d, 0, Buffer(b.w), Buffer(space + space_.exchange),
                         walk(b.layer, d, Pass::kBackwardData));
        continue;
      }
      const char* w = at(b.w, recurrent_weights(b.layer, d));
      if (copies_weights()) {
        const std::int64_t lens[] = {h, own}, from[] = {1, h};
        tensor_ops::transform(stream, 1, {make_tensor(net_.type, lens, from), w}, 0,
                              {make_tensor(net_.type, lens, {}), space + space_.exchange});
        w = space + space_.exchange;
      }
      for (std::int64_t s = schedule_.steps - 1; s >= 0; --s) {
        const std::int64_t t = schedule_.step(d, s), samples = schedule_.active[static_cast<std::size_t>(t)];
        launch_gradients(stream, shape_of(samples), b, d, t, Buffer(space + space_.product));
        const char* const gradient = at(static_cast<const void*>(b.recurrent_gradient),
                                        schedule_.row[static_cast<std::size_t>(t)] * all + d * own);
        const std::int64_t begun = schedule_.begun(d, t), rest = samples - begun;
        if (begun > 0) products_.at(begun).run(stream, gradient, w, space + space_.product, space + space_.multiplier);
        if (b.dhx && rest > 0)
          first_products_.at(rest).run(stream, gradient + size(begun * all), w,
                                       at(b.dhx, (d * schedule_.samples + begun) * h), space + space_.multiplier,
                                       net_.mode == Mode::kGru ? 1 : 0);
      }
    }
  }

 private:
  std::int64_t size(std::int64_t elements) const { return elements * static_cast<std::int64_t>(size_of(net_.type)); }
  char* at(void* data, std::int64_t elements) const {
    return data ? static_cast<char*>(data) + size(elements) : nullptr;
  }
  const char* at(const void* data, std::int64_t elements) const { return at(const_cast<void*>(data), elements); }

  std::int64_t recurrent_weights(std::int64_t layer, std::int64_t direction) const {
    return net_.matrix(layer, direction, net_.gates()).offset;
  }

  bool copies_weights() const { return rnn::copies_weights(net_, schedule_.steps); }

  /// Backward the other way.
  Walk walk(std::int64_t layer, std::int64_t direction, Pass pass) const {
    const bool reversed = (direction != 0) != (pass == Pass::kBackwardData);
    return {recurrent_weights(layer, direction), static_cast<int>(schedule_.steps), reversed,
            static_cast<int>(persistent_depth(net_, pass)), static_cast<int>(persistent_->row_samples)};
  }

  Launch shape_of(std::int64_t samples) const {
    return launch_shape(kThreads, ceil_div(samples * net_.hidden, kThreads));
  }

  /// The forward kernel from step t on. `more` are arguments after all others.
  template <class... More>
  void launch_cells(Stream& stream, const Launch& shape, const LayerForward& f, std::int64_t d, std::int64_t t,
                    Buffer h_state, const More&... more) const {
    const std::int64_t h = net_.hidden, all = net_.all_gates(), own = net_.gates() * h, state = schedule_.samples * h;
    const std::int64_t row = schedule_.row[static_cast<std::size_t>(t)], place = row * net_.width() + d * h;
    const std::int64_t x = f.same_for_all_gates ? row * h : row * all + d * own;
    Step step = step_of(d, t);
    step.x_pitch = f.same_for_all_gates ? h : all;
    step.x_gate = f.same_for_all_gates ? 0 : h;
    if (net_.has_bias) {
      step.input_bias = net_.bias(f.layer, d, 0).offset;
      step.recurrent_bias = net_.bias(f.layer, d, net_.gates()).offset;
    }
    step.bias_of_first = bias_of_first_;
    step.has_cx = f.cx != nullptr;
    step.has_hy = f.hy != nullptr;
    step.has_cy = f.cy != nullptr;
    step.keeps = f.gates != nullptr;
    const auto given = [&](const void* data) { return Buffer(data ? data : f.y); };  // not every driver accepts null
    launch(stream, *kernels_[0], shape, step, Buffer(at(f.products, x)), Buffer(f.w), h_state,
           given(at(f.cx, d * state)), Buffer(static_cast<char*>(f.workspace) + space_.carried), Buffer(at(f.y, place)),
           given(at(f.hy, d * state)), given(at(f.cy, d * state)), given(at(f.gates, row * all + d * own)),
           given(at(f.previous_h, place)), given(f.previous_c ? f.previous_c + place : nullptr),
           given(at(f.recurrent_n, place)), more...);
  }

  /// The backward kernel from step t on. `more` are arguments after all others.
  template <class... More>
  void launch_gradients(Stream& stream, const Launch& shape, const LayerBackward& b, std::int64_t d, std::int64_t t,
                        const More&... more) const {
    const std::int64_t h = net_.hidden, state = schedule_.samples * h, all = net_.all_gates();
    const std::int64_t row = schedule_.row[static_cast<std::size_t>(t)];
    const std::int64_t gates = row * all + d * net_.gates() * h, place = row * net_.width() + d * h;
    Step step = step_of(d, t);
    step.has_cx = b.dcy != nullptr;
    step.has_hy = b.dhx != nullptr;
    step.has_cy = b.dcx != nullptr;
    step.keeps = b.dhy != nullptr;
    const auto given = [&](const void* data) { return Buffer(data ? data : b.input_gradient); };
    launch(stream, *kernels_[persistent_ ? 0 : 1], shape, step, Buffer(at(b.dy, place)),
           Buffer(static_cast<char*>(b.workspace) + space_.carried), given(at(b.dhy, d * state)),
           given(at(b.dcy, d * state)), given(at(b.dhx, d * state)), given(at(b.dcx, d * state)),
           Buffer(at(b.gates, gates)), Buffer(at(b.previous_h, place)),
           given(b.previous_c ? b.previous_c + place : nullptr), given(at(b.recurrent_n, place)),
           Buffer(at(b.input_gradient, gates)), Buffer(at(b.recurrent_gradient, gates)), more...);
  }

  Step step_of(std::int64_t direction, std::int64_t t) const {
    Step step;
    step.gates = net_.all_gates();
    step.width = net_.width();
    step.samples = static_cast<int>(schedule_.active[static_cast<std::size_t>(t)]);
    step.begun = static_cast<int>(schedule_.begun(direction, t));
    step.continued = static_cast<int>(schedule_.continued(direction, t));
    step.hidden = static_cast<int>(net_.hidden);
    return step;
  }

  void begin_state(Stream& stream, const void* hx, void* h) const {
    const std::int64_t lens[] = {schedule_.samples * net_.hidden};
    const TensorDesc state = make_tensor(net_.type, lens, {});
    const double zero = 0;
    if (!hx) return tensor_ops::set(stream, {state, h}, &zero);
    tensor_ops::transform(stream, 1, {state, hx}, 0, {state, h});
  }

  /// What the blocks exchange: the initial state, then nothing that any state is.
  void begin_exchange(Stream& stream, const void* hx, char* exchange, Pass pass) const {
    const std::int64_t depth = persistent_depth(net_, pass), numbers = schedule_.samples * depth;
    const std::int64_t later[] = {schedule_.steps * size(numbers) / 4};
    const std::uint32_t ones = ~0u;
    tensor_ops::set(stream, {make_tensor(DataType::kFloat, later, {}), exchange + size(numbers)}, &ones);
    if (pass == Pass::kBackwardData) return;
    stream.clear(Buffer(exchange), static_cast<std::size_t>(size(numbers)));
    if (!hx) return;
    const std::int64_t lens[] = {schedule_.samples, net_.hidden}, strides[] = {depth, 1};
    tensor_ops::transform(stream, 1, {make_tensor(net_.type, lens, {}), hx}, 0,
                          {make_tensor(net_.type, lens, strides), exchange});
  }

  const Network net_;
  const Schedule& schedule_;
  const bool bias_of_first_;
  const Workspace space_;
  std::optional<Persistent> persistent_;
  Kernels kernels_;
  std::map<std::int64_t, Product> products_, first_products_;  // by samples
};

}  // namespace

std::unique_ptr<const Steps> make_gpu_steps(Stream& stream, const Network& network, const Schedule& schedule,
                                            bool bias_of_first, Pass pass) {
  return std::make_unique<GpuSteps>(stream, network, schedule, bias_of_first, pass);
}

std::size_t gpu_steps_workspace(const DeviceInfo& device, const Network& network, std::int64_t samples,
                                std::int64_t steps, Pass pass) {
  return Workspace(device, network, samples, steps, pass).bytes + multiplier_bytes(device);
}

std::vector<KernelSpec> programs(const DeviceInfo& device, DataType type) {
  std::vector<KernelSpec> all;
  for (const Mode mode : {Mode::kRelu, Mode::kTanh, Mode::kLstm, Mode::kGru})
    for (KernelSpec& spec : specs(device, type, mode)) all.push_back(std::move(spec));
  for (const Mode mode : {Mode::kTanh, Mode::kLstm, Mode::kGru})
    for (const std::int64_t samples : {1, 32}) {
      const Network network{.mode = mode, .type = type, .hidden = 64};
      Sequences sequences;
      const std::vector<std::int64_t> lengths(static_cast<std::size_t>(samples), 1);
      sequences.lengths.view(lengths);
      sequences.steps = 1;
      for (const Pass pass : {Pass::kInference, Pass::kBackwardData})
        if (const auto p = persistent(device, network, Schedule(sequences), pass))
          all.push_back(p->spec(device, network));
    }
  return all;
}

}  // namespace polymio::rnn
