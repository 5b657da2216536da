// Running a recurrent network: checks, the plan, the launch.
// SPDX-License-Identifier: MIT
#include "primitives/rnn/rnn.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "core/aligned_buffer.h"
#include "primitives/rnn/plan.h"

namespace polymio::rnn {

bool Lengths::operator==(const Lengths& o) const { return std::ranges::equal(view_, o.view_); }

std::uint64_t Lengths::hash(std::uint64_t seed) const {
  for (const std::int64_t length : view_) seed = mix(seed, static_cast<std::uint64_t>(length));
  return mix(seed, view_.size());
}

std::uint64_t Sequences::hash(std::uint64_t seed) const {
  return lengths.hash(mix(seed, static_cast<std::uint64_t>(steps)));
}

std::string Problem::key() const {
  constexpr const char* kNames[] = {"relu", "tanh", "lstm", "gru"};
  constexpr const char* kTypes[] = {"inference", "training", "backward data", "backward weights"};
  return base_arg("rnn", network.type, 2) +
         fmt::format(
             " -m {} -k {} -n {} -W {} -H {} -l {} -r {:d} -b {:d} -p {:d} --lengths {} ({}, layouts {}, {}{}{})",
             kNames[static_cast<int>(network.mode)], sequences.steps, sequences.lengths.all().size(), network.input,
             network.hidden, network.layers, network.bidirectional, network.has_bias, network.skips_input,
             fmt::join(sequences.lengths.all(), ","), kTypes[static_cast<int>(pass)], static_cast<int>(x_order),
             static_cast<int>(y_order), hx == Initial::kGiven ? ", hx" : "",
             drops == Drops::kBetweenLayers ? ", dropout" : "");
}

std::string Problem::family() const { return fmt::format("rnn {}", static_cast<int>(network.mode)); }

std::vector<float> Problem::log_sizes() const { return {std::log2(static_cast<float>(work()))}; }

double Problem::work() const {
  double rows = 0;
  for (const std::int64_t length : sequences.lengths.all()) rows += static_cast<double>(length);
  return 2 * rows * static_cast<double>(network.matrix_elements());
}

void validate(const Problem& p) {
  const Network& n = p.network;
  require(static_cast<int>(n.mode) >= 0 && static_cast<int>(n.mode) < kModes,
          "RNN mode {} is unknown: allowed are 0 (ReLU), 1 (tanh), 2 (LSTM), 3 (GRU)", static_cast<int>(n.mode));
  require(n.type == DataType::kFloat || n.type == DataType::kHalf || n.type == DataType::kBFloat16,
          "RNN of {}: allowed are fp32, fp16 and bf16", name_of(n.type));
  require(n.layers >= 1 && n.hidden >= 1 && n.input >= 1,
          "{} layers of {} units and an input of {}: all must be positive", n.layers, n.hidden, n.input);
  require(!n.skips_input || n.input == n.hidden,
          "the input has {} elements, the hidden state {}: without an input matrix they must be equal", n.input,
          n.hidden);
  const auto lengths = p.sequences.lengths.all();
  require(!lengths.empty() && p.sequences.steps >= 1, "{} sequences of up to {} steps: both must be positive",
          lengths.size(), p.sequences.steps);
  for (std::size_t i = 0; i < lengths.size(); ++i)
    require(lengths[i] >= 0 && lengths[i] <= p.sequences.steps, "sequence {} has {} steps: allowed are 0 to {}", i,
            lengths[i], p.sequences.steps);
  if (p.x_order == Order::kPacked || p.y_order == Order::kPacked)
    require(std::is_sorted(lengths.rbegin(), lengths.rend()), "the lengths of packed sequences must not ascend: {}",
            fmt::join(lengths, ","));
}

void require_addressable(double bytes, const char* what) {
  require(bytes < 0x1p62, "{} have {:.3g} bytes, more than 2^62", what, bytes);
}

namespace {

Sizes sizes_of_all_passes(const DeviceInfo& device, const Problem& problem, std::int64_t rows, bool sorted,
                          bool converts_x, bool converts_y) {
  const auto samples = static_cast<std::int64_t>(problem.sequences.lengths.all().size());
  const Network& n = problem.network;
  constexpr double kMostBytes = 64;  // for each unit of a layer, row and gate
  const double units = static_cast<double>(n.all_gates()) * static_cast<double>(n.layers);
  require_addressable(kMostBytes * static_cast<double>(rows + samples) * (units + static_cast<double>(n.input)),
                      "the workspace and reserve space");
  Problem p(problem);
  Sizes most;
  for (const Pass pass : {Pass::kInference, Pass::kTraining, Pass::kBackwardData, Pass::kBackwardWeights}) {
    p.pass = pass;
    const Memory memory(device, p, samples, rows, sorted, converts_x, converts_y);
    most.workspace = std::max(most.workspace, memory.sizes.workspace);
    most.reserve = std::max(most.reserve, memory.sizes.reserve);
  }
  return most;
}

}  // namespace

Sizes sizes(const DeviceInfo& device, const Problem& p) {
  const Schedule s(p.sequences);
  return sizes_of_all_passes(device, p, s.rows, s.sorted, !s.is_packed(p.x_order), !s.is_packed(p.y_order));
}

Sizes largest_sizes(const DeviceInfo& device, const Problem& p) {
  const auto samples = static_cast<std::int64_t>(p.sequences.lengths.all().size());
  const bool packed = p.x_order == Order::kPacked;
  return sizes_of_all_passes(device, p, samples * p.sequences.steps, packed, !packed, true);
}

namespace {

/// The descriptions of all buffers, as flat tensors.
struct Descriptions {
  TensorDesc x, y, state, weights;
  explicit Descriptions(const Problem& p) {
    const Network& n = p.network;
    const auto lengths = p.sequences.lengths.all();
    const auto samples = static_cast<std::int64_t>(lengths.size());
    const auto flat = [&](std::int64_t elements) {
      const std::int64_t lens[] = {std::max<std::int64_t>(elements, 1)};
      return make_tensor(n.type, lens, {});
    };
    const auto rows = [&](Order order) {
      return order == Order::kPacked ? std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0})
                                     : samples * p.sequences.steps;
    };
    x = flat(rows(p.x_order) * n.input);
    y = flat(rows(p.y_order) * n.width());
    state = flat(n.layers * n.width() * samples);
    weights = flat(n.elements());
  }
};

/// A member of the arguments, and its buffer.
struct Tensor {
  const void* Problem::Args::*in = nullptr;
  void* Problem::Args::*out = nullptr;
  TensorDesc Descriptions::*desc;
  const char* name;
  const void* address(const Problem::Args& a) const { return in ? a.*in : a.*out; }
};
constexpr Tensor kTensors[] = {{&Problem::Args::x, nullptr, &Descriptions::x, "the buffer of x"},
                               {&Problem::Args::w, nullptr, &Descriptions::weights, "the buffer of w"},
                               {&Problem::Args::hx, nullptr, &Descriptions::state, "the buffer of hx"},
                               {&Problem::Args::cx, nullptr, &Descriptions::state, "the buffer of cx"},
                               {&Problem::Args::dy, nullptr, &Descriptions::y, "the buffer of dy"},
                               {&Problem::Args::dhy, nullptr, &Descriptions::state, "the buffer of dhy"},
                               {&Problem::Args::dcy, nullptr, &Descriptions::state, "the buffer of dcy"},
                               {nullptr, &Problem::Args::y, &Descriptions::y, "the buffer of y"},
                               {nullptr, &Problem::Args::hy, &Descriptions::state, "the buffer of hy"},
                               {nullptr, &Problem::Args::cy, &Descriptions::state, "the buffer of cy"},
                               {nullptr, &Problem::Args::dx, &Descriptions::x, "the buffer of dx"},
                               {nullptr, &Problem::Args::dhx, &Descriptions::state, "the buffer of dhx"},
                               {nullptr, &Problem::Args::dcx, &Descriptions::state, "the buffer of dcx"},
                               {nullptr, &Problem::Args::dw, &Descriptions::weights, "the buffer of dw"}};

bool is_aligned(const Problem& p, const Problem::Args& args) {
  return std::ranges::all_of(kTensors,
                             [&](const Tensor& t) { return is_element_aligned(t.address(args), p.network.type); });
}

/// Runs on copies of the buffers whose elements are not aligned.
void run_unaligned(Handle& handle, const Problem& problem, const Problem::Args& given) {
  validate(problem);
  const Descriptions descriptions(problem);
  std::vector<CallerBuffer> buffers;
  for (const Tensor& t : kTensors)
    buffers.push_back({descriptions.*t.desc, t.address(given), t.name, t.out != nullptr});
  run_on_aligned(handle.device(), buffers, [&](void* const* data) {
    Problem::Args args = given;
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const Tensor& t = kTensors[i];
      if (t.in) args.*t.in = data[i];
      if (t.out) args.*t.out = data[i];
    }
    run(handle, problem, args);
  });
}

}  // namespace

void run(Handle& handle, const Problem& problem, const Problem::Args& args) {
  if (!is_aligned(problem, args)) return run_unaligned(handle, problem, args);
  const auto plan = handle.plans().get({&problem, Constraints{}, 0, -1, nullptr}, [&] {
    validate(problem);
    for (const Tensor& t : kTensors)
      if (t.address(args)) handle.stream().check_memory(t.address(args), t.name);
    const auto made = std::make_shared<const NetworkPlan>(handle.stream(), problem);
    Plan p;
    p.invoke = [made](Stream& stream, const void* a) { made->run(stream, *static_cast<const Problem::Args*>(a)); };
    p.bytes = made->bytes_of_plan();
    return p;
  });
  handle.run(*plan, &args);
}

}  // namespace polymio::rnn
