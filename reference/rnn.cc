// SPDX-License-Identifier: MIT
#include "reference/rnn.h"

#include <algorithm>
#include <cmath>

namespace polymio::reference {
namespace {

using Cell = Rnn::Cell;

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

// What a step keeps for the backward pass.
struct Kept {
  Doubles gates, h_before, c_before, c, recurrent_new;  // recurrent_new: h Rn + bRn of GRU
  bool first = false;
};

// One sample: layers forward, then backward.
class Sample {
 public:
  Sample(const Rnn& n, const RnnInputs& in, RnnResults& out, std::int64_t sample)
      : n_(n), in_(in), out_(out), b_(sample), length_(n.lengths[index(sample)]) {
    std::int64_t row = 0;
    for (std::int64_t t = 0; t < length_; ++t) {
      std::int64_t before = 0;
      for (std::int64_t s = 0; s < n.samples(); ++s) {
        const std::int64_t other = n.lengths[index(s)];
        if (other <= t) continue;
        before += other > length_ || (other == length_ && s < b_) ? 1 : 0;
        ++present_;
      }
      rows_.push_back(row + before);
      row += present_;
      present_ = 0;
    }
  }

  void run() {
    std::vector<Doubles> values;
    for (std::int64_t t = 0; t < length_; ++t) values.push_back(slice(in_.x, t * n_.samples() + b_, n_.input));
    kept_.resize(index(n_.layers * n_.directions()));
    for (std::int64_t l = 0; l < n_.layers; ++l) {
      inputs_.push_back(values);
      std::vector<Doubles> next(index(length_), Doubles(index(n_.width())));
      for (std::int64_t d = 0; d < n_.directions(); ++d) forward(l, d, next);
      if (l + 1 < n_.layers) drop(l, next);
      values = next;
    }
    for (std::int64_t t = 0; t < length_; ++t) put(out_.y, t * n_.samples() + b_, values[index(t)]);
    if (in_.dy.empty()) return;
    std::vector<Doubles> gradients;
    for (std::int64_t t = 0; t < length_; ++t) gradients.push_back(slice(in_.dy, t * n_.samples() + b_, n_.width()));
    for (std::int64_t l = n_.layers - 1; l >= 0; --l) {
      std::vector<Doubles> below(index(length_), Doubles(index(l > 0 ? n_.width() : n_.input)));
      for (std::int64_t d = 0; d < n_.directions(); ++d) backward(l, d, gradients, below);
      if (l > 0) drop(l - 1, below);
      gradients = below;
    }
    for (std::int64_t t = 0; t < length_; ++t) put(out_.dx, t * n_.samples() + b_, gradients[index(t)]);
  }

 private:
  static std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }
  static Doubles slice(const Doubles& all, std::int64_t row, std::int64_t width) {
    if (all.empty()) return Doubles(index(width));
    return {all.begin() + row * width, all.begin() + (row + 1) * width};
  }
  static void put(Doubles& all, std::int64_t row, const Doubles& values) {
    std::copy(values.begin(), values.end(), all.begin() + row * static_cast<std::int64_t>(values.size()));
  }
  std::int64_t state_row(std::int64_t l, std::int64_t d) const { return (l * n_.directions() + d) * n_.samples() + b_; }
  std::int64_t step(std::int64_t d, std::int64_t s) const { return d == 0 ? s : length_ - 1 - s; }
  double w(std::int64_t at) const { return in_.w[index(at)]; }
  double& dw(std::int64_t at) { return out_.dw[index(at)]; }

  void drop(std::int64_t l, std::vector<Doubles>& values) const {
    if (n_.masks.empty()) return;
    for (std::int64_t t = 0; t < length_; ++t)
      for (std::int64_t u = 0; u < n_.width(); ++u)
        values[index(t)][index(u)] *= n_.masks[index(l)][index(rows_[index(t)] * n_.width() + u)] ? n_.kept_scale : 0;
  }

  void forward(std::int64_t l, std::int64_t d, std::vector<Doubles>& outputs) {
    const std::int64_t hidden = n_.hidden, columns = n_.columns(l);
    Doubles h = slice(in_.hx, state_row(l, d), hidden), c = slice(in_.cx, state_row(l, d), hidden);
    for (std::int64_t s = 0; s < length_; ++s) {
      const std::int64_t t = step(d, s);
      const Doubles& x = inputs_[index(l)][index(t)];
      Kept k;
      k.first = s == 0;
      k.h_before = h;
      k.c_before = c;
      for (std::int64_t u = 0; u < hidden; ++u) {
        double from_input[4] = {}, from_state[4] = {};
        for (std::int64_t g = 0; g < n_.gates(); ++g) {
          if (columns == 0) from_input[g] = x[index(u)];
          for (std::int64_t i = 0; i < columns; ++i)
            from_input[g] += w(n_.matrix(l, d, g, false) + u * columns + i) * x[index(i)];
          for (std::int64_t i = 0; i < hidden; ++i)
            from_state[g] += w(n_.matrix(l, d, g, true) + u * hidden + i) * k.h_before[index(i)];
          if (!n_.has_bias) continue;
          from_input[g] += w(n_.bias(l, d, g, false) + u);
          if (!k.first || n_.bias_of_first) from_state[g] += w(n_.bias(l, d, g, true) + u);
        }
        const auto sum = [&](int g) { return from_input[g] + from_state[g]; };
        const double before = k.h_before[index(u)];
        switch (n_.cell) {
          case Cell::kRelu: h[index(u)] = sum(0) > 0 ? sum(0) : 0; break;
          case Cell::kTanh: h[index(u)] = std::tanh(sum(0)); break;
          case Cell::kLstm: {
            const double i = logistic(sum(0)), f = logistic(sum(1)), o = logistic(sum(2)), g = std::tanh(sum(3));
            c[index(u)] = f * k.c_before[index(u)] + i * g;
            h[index(u)] = o * std::tanh(c[index(u)]);
            k.gates.insert(k.gates.end(), {i, f, o, g});
            break;
          }
          case Cell::kGru: {
            const double z = logistic(sum(0)), r = logistic(sum(1)), n = std::tanh(from_input[2] + r * from_state[2]);
            h[index(u)] = (1 - z) * n + z * before;
            k.gates.insert(k.gates.end(), {z, r, n});
            k.recurrent_new.push_back(from_state[2]);
            break;
          }
        }
        if (n_.gates() == 1) k.gates.push_back(h[index(u)]);
      }
      k.c = c;
      kept_[index(l * n_.directions() + d)].push_back(k);
      std::copy(h.begin(), h.end(), outputs[index(t)].begin() + d * hidden);
    }
    put(out_.hy, state_row(l, d), h);
    if (n_.cell == Cell::kLstm) put(out_.cy, state_row(l, d), c);
  }

  void backward(std::int64_t l, std::int64_t d, const std::vector<Doubles>& gradients, std::vector<Doubles>& below) {
    const std::int64_t hidden = n_.hidden, columns = n_.columns(l);
    Doubles dh = slice(in_.dhy, state_row(l, d), hidden), dc = slice(in_.dcy, state_row(l, d), hidden);
    for (std::int64_t s = length_ - 1; s >= 0; --s) {
      const std::int64_t t = step(d, s);
      const Kept& k = kept_[index(l * n_.directions() + d)][index(s)];
      const Doubles& x = inputs_[index(l)][index(t)];
      Doubles dh_before(index(hidden)), dc_before(index(hidden));
      for (std::int64_t u = 0; u < hidden; ++u) {
        const double total = dh[index(u)] + gradients[index(t)][index(d * hidden + u)];
        const double* const gate = &k.gates[index(u * n_.gates())];
        double of_input[4] = {}, of_state[4] = {};
        switch (n_.cell) {
          case Cell::kRelu: of_input[0] = gate[0] > 0 ? total : 0; break;
          case Cell::kTanh: of_input[0] = total * (1 - gate[0] * gate[0]); break;
          case Cell::kLstm: {
            const double i = gate[0], f = gate[1], o = gate[2], g = gate[3], tanh_c = std::tanh(k.c[index(u)]);
            const double of_c = dc[index(u)] + total * o * (1 - tanh_c * tanh_c);
            of_input[0] = of_c * g * i * (1 - i);
            of_input[1] = of_c * k.c_before[index(u)] * f * (1 - f);
            of_input[2] = total * tanh_c * o * (1 - o);
            of_input[3] = of_c * i * (1 - g * g);
            dc_before[index(u)] = of_c * f;
            break;
          }
          case Cell::kGru: {
            const double z = gate[0], r = gate[1], n = gate[2];
            of_input[0] = total * (k.h_before[index(u)] - n) * z * (1 - z);
            of_input[2] = total * (1 - z) * (1 - n * n);
            of_input[1] = of_input[2] * k.recurrent_new[index(u)] * r * (1 - r);
            dh_before[index(u)] += total * z;
            break;
          }
        }
        for (std::int64_t g = 0; g < n_.gates(); ++g) {
          of_state[g] = of_input[g] * (n_.cell == Cell::kGru && g == 2 ? gate[1] : 1);
          if (columns == 0) below[index(t)][index(u)] += of_input[g];
          for (std::int64_t i = 0; i < columns; ++i) {
            const std::int64_t at = n_.matrix(l, d, g, false) + u * columns + i;
            below[index(t)][index(i)] += of_input[g] * w(at);
            dw(at) += of_input[g] * x[index(i)];
          }
          for (std::int64_t i = 0; i < hidden; ++i) {
            const std::int64_t at = n_.matrix(l, d, g, true) + u * hidden + i;
            dh_before[index(i)] += of_state[g] * w(at);
            dw(at) += of_state[g] * k.h_before[index(i)];
          }
          if (!n_.has_bias) continue;
          dw(n_.bias(l, d, g, false) + u) += of_input[g];
          if (!k.first || n_.bias_of_first) dw(n_.bias(l, d, g, true) + u) += of_state[g];
        }
      }
      dh = dh_before;
      dc = dc_before;
    }
    put(out_.dhx, state_row(l, d), dh);
    if (n_.cell == Cell::kLstm) put(out_.dcx, state_row(l, d), dc);
  }

  const Rnn& n_;
  const RnnInputs& in_;
  RnnResults& out_;
  const std::int64_t b_, length_;
  std::int64_t present_ = 0;
  std::vector<std::int64_t> rows_;            // of the packed form
  std::vector<std::vector<Doubles>> inputs_;  // of each layer
  std::vector<std::vector<Kept>> kept_;       // of each layer and direction, in its order
};

}  // namespace

std::int64_t Rnn::matrix(std::int64_t layer, std::int64_t direction, std::int64_t gate, bool recurrent) const {
  std::int64_t at = 0;
  for (std::int64_t l = 0; l < layer; ++l) at += directions() * gates() * hidden * (columns(l) + hidden);
  if (recurrent) at += directions() * gates() * hidden * columns(layer);
  return at + (direction * gates() + gate) * hidden * (recurrent ? hidden : columns(layer));
}

std::int64_t Rnn::bias(std::int64_t layer, std::int64_t direction, std::int64_t gate, bool recurrent) const {
  const std::int64_t vector = ((2 * layer + (recurrent ? 1 : 0)) * directions() + direction) * gates() + gate;
  return matrix(layers, 0, 0, false) + vector * hidden;
}

std::int64_t Rnn::weights() const { return has_bias ? bias(layers, 0, 0, false) : matrix(layers, 0, 0, false); }

RnnResults evaluate(const Rnn& network, const RnnInputs& inputs) {
  const std::int64_t rows = network.steps * network.samples();
  const auto zeros = [](std::int64_t count) { return Doubles(static_cast<std::size_t>(count)); };
  const std::int64_t state = network.layers * network.width() * network.samples();
  RnnResults r{zeros(rows * network.width()), zeros(state), zeros(state),
               zeros(rows * network.input),   zeros(state), zeros(state),
               zeros(network.weights())};
  for (std::int64_t s = 0; s < network.samples(); ++s) Sample(network, inputs, r, s).run();
  return r;
}

namespace {

// Calls body(index in [steps, samples], row of the tensor) for each row of the tensor that a sample has.
template <class Body>
void each_row(const Rnn& n, RnnOrder order, const Body& body) {
  std::int64_t row = 0;
  for (std::int64_t t = 0; t < n.steps; ++t)
    for (std::int64_t s = 0; s < n.samples(); ++s) {
      const std::int64_t dense = t * n.samples() + s;
      if (n.lengths[static_cast<std::size_t>(s)] <= t) continue;
      body(dense, order == RnnOrder::kPacked ? row : order == RnnOrder::kTimeMajor ? dense : s * n.steps + t);
      ++row;
    }
}

}  // namespace

Tensor rnn_tensor(const Rnn& network, RnnOrder order, Type type, std::int64_t width) {
  std::int64_t rows = network.steps * network.samples();
  if (order == RnnOrder::kPacked) {
    rows = 0;
    for (const std::int64_t length : network.lengths) rows += length;
  }
  return {type, {rows, width}};
}

Doubles from_sequence(const Rnn& network, RnnOrder order, const Tensor& tensor, const void* data) {
  const std::int64_t width = tensor.lens[1];
  Doubles values(static_cast<std::size_t>(network.steps * network.samples() * width));
  each_row(network, order, [&](std::int64_t to, std::int64_t from) {
    for (std::int64_t i = 0; i < width; ++i)
      values[static_cast<std::size_t>(to * width + i)] = load(tensor.type, data, from * width + i);
  });
  return values;
}

Result to_sequence(const Rnn& network, RnnOrder order, const Tensor& tensor, const Doubles& values) {
  const std::int64_t width = tensor.lens[1];
  Doubles rows(static_cast<std::size_t>(tensor.count()));
  each_row(network, order, [&](std::int64_t from, std::int64_t to) {
    std::copy_n(values.begin() + from * width, width, rows.begin() + to * width);
  });
  return to_result(rows);
}

Result to_result(const Doubles& values) {
  double most = 0;
  for (const double v : values) most = std::max(most, std::fabs(v));
  return {values, Doubles(values.size(), most)};
}

Arithmetic arithmetic(const Rnn& network, Type type) {
  constexpr double kRoundings = 16;
  constexpr std::int64_t kOperations = 64;  // of a cell and its gradient, at each step
  Arithmetic how;
  how.output = type;
  const std::int64_t terms = network.gates() * (network.input + network.hidden);
  how.reduction_length = (terms + kOperations * network.steps) * network.layers;
  if (type != Type::kFloat) how.input_rounding = kRoundings * unit_roundoff(type);
  return how;
}

}  // namespace polymio::reference
