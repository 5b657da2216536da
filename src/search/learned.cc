// A file is a line of text, "polymio-model VERSION CHECKSUM BYTES", a JSON header of so many bytes, and the networks'
// weights as 16-bit floats: member after member, layer after layer, a row for each input and then the biases. The
// checksum is the 64-bit FNV-1a of all behind the first line. A prediction is the estimate of a solver times the
// exponential of the networks' mean output for it. SPDX-License-Identifier: MIT
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
#include "base/process_mutex.h"

namespace polymio::search {
namespace {

constexpr int kVersion = 1;
constexpr std::size_t kMostWidth = 512;
constexpr float kMargin = 0.5F;  // of a power of two beyond the training range
constexpr std::size_t kKept = 64;
constexpr std::size_t kMachineInputs = 4;  // threads, peak, bandwidth, the least estimate

using Vector = std::array<float, kMostWidth>;

struct Input {
  std::string name;
  float low = 0, high = 0, mean = 0, scale = 1;
};

struct Layer {
  std::size_t in = 0, out = 0;
  std::vector<float> weights, bias;  // a row for each input

  void run(const Vector& x, Vector& y, bool last) const {
    std::copy(bias.begin(), bias.end(), y.begin());
    for (std::size_t i = 0; i < in; ++i) {
      const float value = x[i];
      const float* row = &weights[i * out];
      if (value == 0) continue;
      for (std::size_t j = 0; j < out; ++j) y[j] += value * row[j];
    }
    if (last) return;
    for (std::size_t j = 0; j < out; ++j) y[j] = std::max(y[j], 0.0F);
  }
};

/// FNV-1a; short enough to be written in the tool's language too.
std::uint64_t checksum(std::string_view bytes) {
  std::uint64_t h = 0xcbf29ce484222325u;
  for (const char c : bytes) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return h;
}

/// Predictions that were asked for lately, each compared in full.
class Recent {
 public:
  struct Asked {
    const ProblemBase& problem;
    SolverList solvers;
    int threads;
    double gflops, gbs;

    std::uint64_t hash() const { return mix(problem.hash(), static_cast<std::uint64_t>(threads)); }
  };

  std::shared_ptr<const Prediction> find(const Asked& a) {
    const std::scoped_lock lock(mutex_);
    const Kept& k = kept_[a.hash() % kKept];
    const bool same = k.problem && k.problem->equals(a.problem) && k.solvers.data() == a.solvers.data() &&
                      k.solvers.size() == a.solvers.size() && k.threads == a.threads && k.gflops == a.gflops &&
                      k.gbs == a.gbs;
    return same ? k.prediction : nullptr;
  }

  void keep(const Asked& a, std::shared_ptr<const Prediction> prediction) {
    Kept fresh{a.problem.clone(), a.solvers, a.threads, a.gflops, a.gbs, std::move(prediction)};
    const std::scoped_lock lock(mutex_);
    std::swap(kept_[a.hash() % kKept], fresh);
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

 private:
  struct Estimates {
    std::vector<double> of;    // logarithm for each solver of the list; NaN where it does not apply
    std::vector<double> slot;  // for each output
    double least = INFINITY;
  };

  void read_weights(std::string_view bytes, std::size_t members);
  std::size_t slot_of(const char* solver) const {
    const auto it = slots_.find(std::string_view(solver));
    return it == slots_.end() ? outputs_ : it->second;
  }
  Estimates estimate(const DeviceInfo&, const ProblemBase&, SolverList) const;
  Prediction compute(const DeviceInfo&, const ProblemBase&, SolverList) const;
  std::string outside(const std::vector<float>& problem_inputs, double threads) const;

  std::string architecture_;
  int isa_;
  std::vector<Input> inputs_;
  std::map<std::string, std::size_t, std::less<>> slots_;
  std::size_t outputs_;
  double far_, spread_;
  std::vector<std::size_t> widths_;
  std::vector<std::vector<Layer>> members_;
  mutable Recent recent_;
};

LearnedModel::LearnedModel(const nlohmann::json& header, std::string_view weights)
    : architecture_(header.at("architecture")),
      isa_(header.at("isa")),
      slots_(header.at("solvers").get<decltype(slots_)>()),
      outputs_(header.at("outputs")),
      far_(header.at("far")),
      spread_(header.at("spread")),
      widths_(header.at("widths").get<std::vector<std::size_t>>()) {
  for (const auto& i : header.at("inputs")) inputs_.push_back({i.at(0), i.at(1), i.at(2), i.at(3), i.at(4)});
  widths_.insert(widths_.begin(), inputs_.size());
  widths_.push_back(outputs_);
  require(inputs_.size() > outputs_ + kMachineInputs, "it has {} inputs and {} outputs", inputs_.size(), outputs_);
  for (const std::size_t w : widths_)
    require(w >= 1 && w <= kMostWidth, "a layer is {} wide, at most {}", w, kMostWidth);
  for (const auto& [name, slot] : slots_) require(slot < outputs_, "{} has output {} of {}", name, slot, outputs_);
  for (const Input& i : inputs_) require(i.scale > 0, "the scale of {} is {}", i.name, i.scale);
  read_weights(weights, header.at("members"));
}

void LearnedModel::read_weights(std::string_view bytes, std::size_t members) {
  std::size_t all = 0;
  for (std::size_t i = 0; i + 1 < widths_.size(); ++i) all += (widths_[i] + 1) * widths_[i + 1];
  require(members >= 1 && bytes.size() % sizeof(dtype::Half) == 0 &&
              bytes.size() / sizeof(dtype::Half) / all == members && bytes.size() / sizeof(dtype::Half) % all == 0,
          "it has {} bytes of weights, not {} of {} numbers", bytes.size(), members, all);
  const char* at = bytes.data();
  const auto take = [&](std::vector<float>& to, std::size_t count) {
    to.resize(count);
    for (float& value : to) {
      dtype::Half half;
      std::memcpy(&half, at, sizeof(half));
      at += sizeof(half);
      value = dtype::to_float(half);
      require(std::isfinite(value), "a weight is not finite");
    }
  };
  members_.resize(members);
  for (auto& layers : members_)
    for (std::size_t i = 0; i + 1 < widths_.size(); ++i) {
      Layer& layer = layers.emplace_back(Layer{widths_[i], widths_[i + 1], {}, {}});
      take(layer.weights, layer.in * layer.out);
      take(layer.bias, layer.out);
    }
}

LearnedModel::Estimates LearnedModel::estimate(const DeviceInfo& d, const ProblemBase& p, SolverList solvers) const {
  Estimates e{std::vector<double>(solvers.size(), NAN), std::vector<double>(outputs_, NAN)};
  for (std::size_t i = 0; i < solvers.size(); ++i) {
    const SolverBase& s = *solvers[i];
    const SolverInfo info = s.info();
    const std::size_t slot = info.reference ? outputs_ : slot_of(info.name);
    if (slot == outputs_ || !(info.devices & static_cast<unsigned>(d.kind)) || !s.is_applicable(d, p)) continue;
    e.of[i] = e.slot[slot] = std::log(s.estimate(d, p, s.default_point(d, p)));
    e.least = std::min(e.least, e.of[i]);
  }
  return e;
}

/// Which size is outside what the model was trained on; empty when all are inside.
std::string LearnedModel::outside(const std::vector<float>& problem_inputs, double threads) const {
  std::string text;
  const auto check = [&](const Input& i, float value) {
    if (text.empty() && !(value >= i.low - kMargin && value <= i.high + kMargin))
      text = fmt::format("input {} is {:.3g}, the model was trained on {:.3g} to {:.3g}", i.name, value, i.low, i.high);
  };
  for (std::size_t i = 0; i < problem_inputs.size(); ++i) check(inputs_[i], problem_inputs[i]);
  check(inputs_[problem_inputs.size()], static_cast<float>(std::log2(threads)));
  return text;
}

Prediction LearnedModel::compute(const DeviceInfo& device, const ProblemBase& problem, SolverList solvers) const {
  Prediction result;
  result.spread = spread_;
  if (device.architecture != architecture_ || static_cast<int>(device.isa) != isa_) {
    result.declined = fmt::format("the model is for {} with instruction set {}, this is {} with {}", architecture_,
                                  isa_, device.architecture, static_cast<int>(device.isa));
    return result;
  }
  const std::vector<float> features = problem.features();
  const std::size_t known = inputs_.size() - outputs_ - kMachineInputs;
  result.declined =
      features.size() != known ? "the model does not know this kind of problem" : outside(features, device.threads);
  if (!result.declined.empty()) return result;
  const Estimates e = estimate(device, problem, solvers);
  Vector x{};
  std::copy(features.begin(), features.end(), x.begin());
  const auto machine = std::array{std::log2(1.0 * device.threads), std::log2(device.fp32_gflops / device.threads),
                                  std::log2(device.bandwidth_gbs), e.least};
  for (std::size_t i = 0; i < kMachineInputs; ++i) x[known + i] = static_cast<float>(machine[i]);
  for (std::size_t i = 0; i < outputs_; ++i) {
    const double ratio = std::isnan(e.slot[i]) ? far_ : std::min(e.slot[i] - e.least, far_);
    x[known + kMachineInputs + i] = static_cast<float>(ratio);
  }
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    x[i] = (std::clamp(x[i], inputs_[i].low, inputs_[i].high) - inputs_[i].mean) / inputs_[i].scale;
  Vector sum{}, in{}, out{};
  for (const auto& layers : members_) {
    in = x;
    for (const Layer& layer : layers) {
      layer.run(in, out, &layer == &layers.back());
      std::swap(in, out);
    }
    for (std::size_t i = 0; i < outputs_; ++i) sum[i] += in[i];
  }
  for (std::size_t i = 0; i < solvers.size(); ++i) {
    const std::size_t slot = slot_of(solvers[i]->info().name);
    const float correction = slot < outputs_ ? sum[slot] / static_cast<float>(members_.size()) : 0;
    result.us.push_back(std::exp(e.of[i] + static_cast<double>(correction)));
  }
  return result;
}

}  // namespace

std::unique_ptr<const Model> parse_model(std::string_view file) {
  const std::size_t end = file.substr(0, 256).find('\n');
  require(end != std::string_view::npos && file.starts_with("polymio-model "), "it is no model file");
  std::istringstream line{std::string(file.substr(0, end))};
  const std::vector<std::string> words{std::istream_iterator<std::string>(line), {}};
  require(words.size() == 4 && words[1] == std::to_string(kVersion), "its format is version {}, this library reads {}",
          words.size() > 1 ? words[1] : "", kVersion);
  const std::string_view body = file.substr(end + 1);
  require(words[2] == fmt::format("{:016x}", checksum(body)), "its checksum is wrong: it is damaged or cut off");
  std::size_t bytes = 0;
  const auto [rest, error] = std::from_chars(words[3].data(), words[3].data() + words[3].size(), bytes);
  require(error == std::errc() && bytes <= body.size(), "its header has {} of {} bytes", words[3], body.size());
  try {
    return std::make_unique<const LearnedModel>(nlohmann::json::parse(body.substr(0, bytes)), body.substr(bytes));
  } catch (const nlohmann::json::exception& problem) {
    fail(Status::kBadParm, "its header is wrong: {}", problem.what());
  }
}

}  // namespace polymio::search
