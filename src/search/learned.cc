// File format: a line of text, "polymio-model VERSION CHECKSUM SIZE"; a JSON header of SIZE bytes; then the networks in
// fp16, layer by layer: weights[in][out], bias[out]. CHECKSUM is the 64-bit FNV-1a of everything after the first line.
// Prediction = the solver's estimate * exp(mean output of the networks for that solver).
// SPDX-License-Identifier: MIT
#include "search/learned.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/dtype.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json_tree.h"
#include "base/process_mutex.h"

namespace polymio::search {
namespace {

constexpr int kVersion = 2;
constexpr std::size_t kMostWidth = 256;
constexpr float kMargin = 1;  // accepted distance from the training range in log2: a factor of two
constexpr std::size_t kKept = 256;
constexpr std::size_t kMachineInputs = 4;  // threads, peak, bandwidth, the smallest estimate

constexpr float kKnobScale = 0.25F;
constexpr double kClearly = -0.02;  // log(time of a point / time of the default point) that justifies leaving it

using Vector = std::array<float, kMostWidth>;
using Names = std::map<std::string, std::size_t, std::less<>>;

struct Input {
  std::string name;
  float low = 0, high = 0, mean = 0, scale = 1;
  float normal(float x) const { return (std::clamp(x, low, high) - mean) / scale; }
};

/// A whole number below 2^31: conversions of nlohmann::json do not check the range.
std::size_t count_of(const nlohmann::json& value) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 31;
  require(value.is_number_unsigned() && value.get<std::uint64_t>() < kMost, "{} is no count", value.dump());
  return value.get<std::size_t>();
}

Names names_of(const nlohmann::json& object) {
  Names names;
  for (const auto& [name, slot] : object.items()) names.emplace(name, count_of(slot));
  return names;
}

std::vector<std::size_t> counts_of(const nlohmann::json& array) {
  std::vector<std::size_t> counts;
  for (const auto& value : array) counts.push_back(count_of(value));
  return counts;
}

/// Reads numbers one after another.
class Weights {
 public:
  explicit Weights(std::string_view bytes) : rest_(bytes) {}
  std::vector<float> take(std::size_t count) {
    require(rest_.size() / sizeof(dtype::Half) >= count,
            "weights are missing: {} bytes are left, {} numbers are needed", rest_.size(), count);
    std::vector<float> values(count);
    for (float& value : values) {
      dtype::Half half;
      std::memcpy(&half, rest_.data(), sizeof(half));
      rest_.remove_prefix(sizeof(half));
      value = dtype::to_float(half);
      require(std::isfinite(value), "a weight is not finite");
    }
    return values;
  }
  bool done() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

/// Dense layers with ReLU between them.
class Network {
 public:
  Network(std::size_t inputs, std::vector<std::size_t> widths, std::size_t outputs, Weights& weights) {
    widths.push_back(outputs);
    for (const std::size_t out : widths) {
      require(inputs >= 1 && out >= 1 && std::max(inputs, out) <= kMostWidth, "a layer has {} inputs and {} outputs",
              inputs, out);
      layers_.push_back({inputs, out, weights.take(inputs * out), weights.take(out)});
      inputs = out;
    }
  }

  Vector run(const Vector& x) const {
    Vector one, other;
    const Vector* from = &x;
    for (const Layer& layer : layers_) {
      Vector& to = from == &one ? other : one;
      layer.run(*from, to);
      if (&layer != &layers_.back())
        for (std::size_t j = 0; j < layer.out; ++j) to[j] = std::max(to[j], 0.0F);
      from = &to;
    }
    return *from;
  }

 private:
  struct Layer {
    std::size_t in, out;
    std::vector<float> weights, bias;  // weights[in][out], bias[out]

    void run(const Vector& x, Vector& y) const {
      std::copy(bias.begin(), bias.end(), y.begin());
      std::array<std::size_t, kMostWidth> used;  // nonzero inputs: about half are zero after a ReLU
      std::size_t count = 0, i = 0;
      for (std::size_t j = 0; j < in; ++j)
        if (x[j] != 0) used[count++] = j;
      const auto row = [&](std::size_t n) { return &weights[used[n] * out]; };
      for (; i + 4 <= count; i += 4) {
        const float *a = row(i), *b = row(i + 1), *c = row(i + 2), *d = row(i + 3);
        const float p = x[used[i]], q = x[used[i + 1]], r = x[used[i + 2]], s = x[used[i + 3]];
        for (std::size_t j = 0; j < out; ++j) y[j] += (p * a[j] + q * b[j]) + (r * c[j] + s * d[j]);
      }
      for (; i < count; ++i)
        for (std::size_t j = 0; j < out; ++j) y[j] += x[used[i]] * row(i)[j];
    }
  };
  std::vector<Layer> layers_;
};

/// FNV-1a, as in tools/learn/train.py.
std::uint64_t checksum(std::string_view bytes) {
  std::uint64_t h = 0xcbf29ce484222325u;
  for (const char c : bytes) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return h;
}

/// A direct-mapped cache of predictions; hits compare the whole key.
class Recent {
 public:
  struct Asked {
    const ProblemBase& problem;
    SolverList solvers;
    int threads;
    double gflops, gbs;

    std::uint64_t hash() const { return mix(problem.hash(), static_cast<std::uint64_t>(threads)); }
  };

  std::shared_ptr<const Prediction> find(const Asked& key) {
    const std::scoped_lock lock(mutex_);
    const Kept& k = kept_[key.hash() % kKept];
    const bool same = k.problem && k.problem->equals(key.problem) && k.solvers.data() == key.solvers.data() &&
                      k.solvers.size() == key.solvers.size() && k.threads == key.threads && k.gflops == key.gflops &&
                      k.gbs == key.gbs;
    return same ? k.prediction : nullptr;
  }

  void keep(const Asked& key, std::shared_ptr<const Prediction> prediction) {
    Kept fresh{key.problem.clone(), key.solvers, key.threads, key.gflops, key.gbs, std::move(prediction)};
    const std::scoped_lock lock(mutex_);
    std::swap(kept_[key.hash() % kKept], fresh);
  }

 private:
  struct Kept {
    std::unique_ptr<const ProblemBase> problem{};
    SolverList solvers{};
    int threads = 0;
    double gflops = 0, gbs = 0;
    std::shared_ptr<const Prediction> prediction{};
  };
  ProcessMutex mutex_;
  std::array<Kept, kKept> kept_;
};

class LearnedModel final : public Model {
 public:
  LearnedModel(const nlohmann::json& header, std::string_view weights);

  std::shared_ptr<const Prediction> predict(const DeviceInfo& device, const ProblemBase& problem,
                                            SolverList solvers) const override {
    const Recent::Asked asked{problem, solvers, device.threads, device.fp32_gflops, device.bandwidth_gbs};
    if (auto known = recent_.find(asked)) return known;
    auto fresh = std::make_shared<const Prediction>(compute(device, problem, solvers));
    recent_.keep(asked, fresh);
    return fresh;
  }

  std::optional<TunePoint> point(const DeviceInfo&, const ProblemBase&, const SolverBase&,
                                 std::size_t workspace_limit) const override;

 private:
  struct Estimates {
    std::vector<double> of;    // log of the estimate per solver of the list; NaN where it does not apply
    std::vector<double> slot;  // the same per output of the networks
    double least = INFINITY;   // the smallest
  };

  static std::size_t at(const Names& names, std::string_view name) {
    const auto it = names.find(name);
    return it == names.end() ? SIZE_MAX : it->second;
  }
  const Input& threads_input() const { return inputs_[known_]; }
  DeviceInfo as_trained(DeviceInfo) const;
  Estimates estimate(const DeviceInfo&, const ProblemBase&, SolverList) const;
  std::string decline(const DeviceInfo&, const std::vector<float>& features) const;
  Vector normal(const DeviceInfo&, const std::vector<float>& features, const Estimates&) const;
  Prediction compute(const DeviceInfo&, const ProblemBase&, SolverList) const;

  std::string architecture_;
  int isa_;
  std::vector<Input> inputs_;  // features of the problem, of the machine, one estimate per output
  Names slots_;
  std::size_t outputs_, known_ = 0;
  double far_, log_error_;
  std::vector<std::array<double, 3>> machines_;  // threads, peak, bandwidth of the training data
  std::vector<Network> members_;
  Names point_slots_;
  std::size_t point_inputs_ = 0;  // one-hot inputs, one per kind of solver
  std::vector<std::string> knobs_;
  std::vector<Network> points_;
  mutable Recent recent_;
};

LearnedModel::LearnedModel(const nlohmann::json& header, std::string_view bytes)
    : architecture_(header.at("architecture")),
      isa_(static_cast<int>(count_of(header.at("isa")))),
      slots_(names_of(header.at("solvers"))),
      outputs_(count_of(header.at("outputs"))),
      far_(header.at("far")),
      log_error_(header.at("spread")),
      machines_(header.at("machines").get<std::vector<std::array<double, 3>>>()) {
  const std::size_t estimates = header.contains("estimates") ? count_of(header["estimates"]) : 1;
  require(estimates == kEstimates, "it corrects estimates of version {}, this library has {}: train it again",
          estimates, kEstimates);
  for (const auto& machine : machines_)
    for (const double value : machine)
      require(value > 0, "a machine of its training has no threads, peak or bandwidth");
  for (const auto& i : header.at("inputs")) {
    inputs_.push_back({i.at(0), i.at(1), i.at(2), i.at(3), i.at(4)});
    require(inputs_.back().scale > 0 && inputs_.back().low <= inputs_.back().high, "input {} has no range or scale",
            inputs_.back().name);
  }
  require(outputs_ < kMostWidth && inputs_.size() > outputs_ + kMachineInputs, "it has {} inputs and {} outputs",
          inputs_.size(), outputs_);
  known_ = inputs_.size() - outputs_ - kMachineInputs;
  for (const auto& [name, slot] : slots_) require(slot < outputs_, "{} has output {} of {}", name, slot, outputs_);
  Weights weights(bytes);
  const std::size_t members = count_of(header.at("members"));
  require(members >= 1, "it has no network");
  for (std::size_t i = 0; i < members; ++i)
    members_.emplace_back(inputs_.size(), counts_of(header.at("widths")), outputs_, weights);
  if (const auto p = header.find("points"); p != header.end()) {
    point_slots_ = names_of(p->at("solvers"));
    knobs_ = p->at("knobs").get<std::vector<std::string>>();
    point_inputs_ = count_of(p->at("slots"));
    for (const auto& [name, slot] : point_slots_)
      require(slot < point_inputs_, "{} has input {} of {}", name, slot, point_inputs_);
    for (std::size_t i = 0, count = count_of(p->at("members")); i < count; ++i)
      points_.emplace_back(known_ + 1 + point_inputs_ + knobs_.size(), counts_of(p->at("widths")), 1, weights);
  }
  require(weights.done(), "it has more weights than its networks");
}

LearnedModel::Estimates LearnedModel::estimate(const DeviceInfo& d, const ProblemBase& p, SolverList solvers) const {
  Estimates e{std::vector<double>(solvers.size(), NAN), std::vector<double>(outputs_, NAN)};
  for (std::size_t i = 0; i < solvers.size(); ++i) {
    const SolverBase& s = *solvers[i];
    const SolverInfo info = s.info();
    const std::size_t slot = info.reference ? SIZE_MAX : at(slots_, info.name);
    if (slot == SIZE_MAX || !(info.devices & static_cast<unsigned>(d.kind)) || !s.is_applicable(d, p)) continue;
    e.of[i] = e.slot[slot] = std::log(s.estimate(d, p, s.default_point(d, p)));
    e.least = std::min(e.least, e.of[i]);
  }
  return e;
}

/// The device with peak and bandwidth of the nearest machine of the training data, preferably one with as many threads:
/// a peak measured under load says nothing about solvers.
DeviceInfo LearnedModel::as_trained(DeviceInfo d) const {
  constexpr double kThreads = 8;  // weight of a factor of two in threads against one in speed
  double nearest = INFINITY;
  DeviceInfo seen = d;
  for (const auto& [threads, gflops, gbs] : machines_) {
    const double far = kThreads * std::abs(std::log2(threads / d.threads)) +
                       std::abs(std::log2(gflops / threads * d.threads / d.fp32_gflops)) +
                       std::abs(std::log2(gbs / d.bandwidth_gbs));
    if (far >= nearest) continue;
    nearest = far;
    seen.fp32_gflops = gflops / threads * d.threads;
    seen.bandwidth_gbs = gbs;
  }
  return seen;
}

/// Why the model does not apply; empty when it does.
std::string LearnedModel::decline(const DeviceInfo& device, const std::vector<float>& features) const {
  // AMX only makes bf16 and int8 faster.
  const bool adds_amx = device.isa == CpuIsa::kAvx512Amx && isa_ == static_cast<int>(CpuIsa::kAvx512Bf16);
  if (device.architecture != architecture_ || (static_cast<int>(device.isa) != isa_ && !adds_amx))
    return fmt::format("the model is for {} with instruction set {}, this is {} with {}", architecture_, isa_,
                       device.architecture, static_cast<int>(device.isa));
  if (features.size() != known_) return "the model does not know this kind of problem";
  for (std::size_t i = 0; i < known_ && adds_amx; ++i)
    if (features[i] > 0 && (inputs_[i].name == "bfloat16" || inputs_[i].name == "int8"))
      return fmt::format("the model was trained without AMX, which multiplies {}", inputs_[i].name);
  std::string text;
  const auto check = [&](const Input& i, float value) {
    if (text.empty() && !(value >= i.low - kMargin && value <= i.high + kMargin))
      text = fmt::format("input {} is {:.3g}, the model was trained on {:.3g} to {:.3g}", i.name, value, i.low, i.high);
  };
  for (std::size_t i = 0; i < known_; ++i) check(inputs_[i], features[i]);
  check(threads_input(), std::log2(static_cast<float>(device.threads)));
  return text;
}

Vector LearnedModel::normal(const DeviceInfo& d, const std::vector<float>& features, const Estimates& e) const {
  Vector x{};
  std::copy(features.begin(), features.end(), x.begin());
  float* machine = &x[known_];
  machine[0] = static_cast<float>(std::log2(d.threads));
  machine[1] = static_cast<float>(std::log2(d.fp32_gflops / d.threads));
  machine[2] = static_cast<float>(std::log2(d.bandwidth_gbs));
  machine[3] = static_cast<float>(e.least);
  for (std::size_t i = 0; i < e.slot.size(); ++i)
    machine[kMachineInputs + i] =
        static_cast<float>(std::isnan(e.slot[i]) ? far_ : std::min(e.slot[i] - e.least, far_));
  for (std::size_t i = 0; i < inputs_.size(); ++i) x[i] = inputs_[i].normal(x[i]);
  return x;
}

Prediction LearnedModel::compute(const DeviceInfo& device, const ProblemBase& problem, SolverList solvers) const {
  Prediction result;
  const std::vector<float> features = problem.features();
  result.log_error = log_error_;
  result.declined = decline(device, features);
  if (!result.declined.empty()) return result;
  const DeviceInfo d = as_trained(device);
  const Estimates e = estimate(d, problem, solvers);
  const Vector x = normal(d, features, e);
  Vector sum{};
  for (const Network& member : members_) {
    const Vector out = member.run(x);
    for (std::size_t i = 0; i < outputs_; ++i) sum[i] += out[i];
  }
  for (std::size_t i = 0; i < solvers.size(); ++i) {
    const std::size_t slot = at(slots_, solvers[i]->info().name);
    const float correction = slot < outputs_ ? sum[slot] / static_cast<float>(members_.size()) : 0;
    result.us.push_back(std::exp(e.of[i] + static_cast<double>(correction)));
  }
  return result;
}

std::optional<TunePoint> LearnedModel::point(const DeviceInfo& device, const ProblemBase& problem,
                                             const SolverBase& solver, std::size_t workspace_limit) const {
  const std::size_t slot = at(point_slots_, solver.info().name);
  const std::vector<float> features = problem.features();
  if (slot == SIZE_MAX || !decline(device, features).empty()) return std::nullopt;
  Vector x{};
  for (std::size_t i = 0; i < known_; ++i) x[i] = inputs_[i].normal(features[i]);
  x[known_] = threads_input().normal(std::log2(static_cast<float>(device.threads)));
  x[known_ + 1 + slot] = 1;
  const TuneSpace space = solver.tune_space(device, problem);
  const auto predicted = [&](const TunePoint& point) {
    Vector all = x;
    float* values = &all[known_ + 1 + point_inputs_];
    for (std::size_t i = 0; i < space.size(); ++i) {
      const auto knob = std::find(knobs_.begin(), knobs_.end(), space[i].name);
      if (knob != knobs_.end())
        values[knob - knobs_.begin()] = kKnobScale * std::log2(1 + static_cast<float>(point[i]));
    }
    double sum = 0;
    for (const Network& member : points_) sum += static_cast<double>(member.run(all)[0]);
    return sum / static_cast<double>(points_.size());
  };
  const TunePoint standard = solver.default_point(device, problem);
  double best = predicted(standard) + kClearly;
  std::optional<TunePoint> found;
  for (TunePoint& p : valid_points(solver, device, problem)) {
    if (p == standard || solver.workspace_size(device, problem, p) > workspace_limit) continue;
    if (const double us = predicted(p); us < best) {
      best = us;
      found = std::move(p);
    }
  }
  return found;
}

}  // namespace

std::unique_ptr<const Model> parse_model(std::string_view file) {
  const std::size_t end = file.substr(0, 256).find('\n');
  require(end != std::string_view::npos && file.starts_with("polymio-model "), "it is no model file");
  std::istringstream line{std::string(file.substr(0, end))};
  const std::vector<std::string> fields{std::istream_iterator<std::string>(line), {}};
  require(fields.size() == 4 && fields[1] == std::to_string(kVersion),
          "its format is version {}, this library reads {}", fields.size() > 1 ? fields[1] : "", kVersion);
  const std::string_view body = file.substr(end + 1);
  require(fields[2] == fmt::format("{:016x}", checksum(body)), "its checksum is wrong: it is damaged or cut off");
  std::size_t bytes = 0;
  const auto [rest, error] = std::from_chars(fields[3].data(), fields[3].data() + fields[3].size(), bytes);
  require(error == std::errc() && bytes <= body.size(), "its header has {} of {} bytes", fields[3], body.size());
  try {
    const JsonTree header(body.substr(0, bytes), "its header");
    return std::make_unique<const LearnedModel>(header.root(), body.substr(bytes));
  } catch (const nlohmann::json::exception& problem) {
    fail(Status::kBadParm, "its header is wrong: {}", problem.what());
  }
}

}  // namespace polymio::search
