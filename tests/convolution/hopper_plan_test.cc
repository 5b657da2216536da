// Executes ConvHopper and ConvCudaLongFilters on the CPU: its plans, launches and kernels on an emulated
// multiprocessor, with values whose sums are exact, against the definition in double.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "convolution/sample_problem.h"
#include "core/kernel_builder.h"
#include "primitives/activation/activation.h"
#include "primitives/convolution/cuda/hopper_plan.h"
#include "primitives/convolution/definition.h"
#include "tests/convolution/hopper_programs.h"
#include "tests/kernels/forwarding_stream.h"
#include "tests/kernels/gpu/multiprocessor.h"

namespace polymio::convolution {
namespace {

constexpr Direction kForward = Direction::kForward, kData = Direction::kBackwardData,
                    kWeights = Direction::kBackwardWeights;

struct HostKernel final : Kernel {
  explicit HostKernel(const KernelSpec& s) : spec(s) {}
  KernelSpec spec;
};

/// The product that the text before a program defines (kernels/gpu/wgmma.h), if it has one.
emulated::Product product_of(const std::string& text) {
  emulated::Product p{};
  if (text.empty()) return p;
  char sum[4] = {}, type[2][8] = {};
  int a = 0, b = 0, depth = 0;
  const auto name = text.find("m64n"), last = text.find(", p");
  if (name == text.npos || last == text.npos ||
      std::sscanf(text.c_str() + name, "m64n%dk%d.%3[fs32].%7[a-z0-9].%7[a-z0-9]", &p.columns, &depth, sum, type[0],
                  type[1]) != 5)
    throw std::runtime_error("a program without a product");
  const std::map<std::string, DataType> types{{"f16", DataType::kHalf},          {"bf16", DataType::kBFloat16},
                                              {"tf32", DataType::kFloat},        {"s8", DataType::kInt8},
                                              {"e4m3", DataType::kFloat8E4m3fn}, {"e5m2", DataType::kFloat8E5m2}};
  p.a = types.at(type[0]);
  p.b = types.at(type[1]);
  const int flags = std::sscanf(text.c_str() + last, ", p, 1, 1, %d, %d", &a, &b);
  const bool integers = p.a == DataType::kInt8, transposes = size_of(p.a) == 2;
  if (depth != 32 / static_cast<int>(size_of(p.a)) || (flags == 2) != transposes || integers != (sum[0] == 's') ||
      (integers ? p.b != p.a || p.columns % 16 != 0 || text.find(", p;") == text.npos
                : text.find(", p, 1, 1") == text.npos) ||
      (size_of(p.a) > 1 && p.a != p.b))
    throw std::runtime_error("a product that does not exist");
  p.transpose_a = a != 0;
  p.transpose_b = b != 0;
  return p;
}

/// A device of `units` multiprocessors that runs the programs of ConvHopper.
class HostHopper final : public ForwardingStream {
 public:
  HostHopper(Stream& cpu, DataType type) : ForwardingStream(cpu), info_(usual_device("cuda-sm90")), type_(type) {}
  const DeviceInfo& info() const override { return info_; }
  void set_units(int units) { info_.units = units; }
  void clear(Buffer dst, std::size_t bytes) override { std::memset(dst.address(), 0, bytes); }
  TensorMap tensor_map(const TensorMapSpec& spec, Buffer tensor) const override {
    return emulated::tensor_map(spec, tensor.address());
  }
  void launch(const Kernel& kernel, const Launch& shape, std::span<const Argument> arguments) override {
    const KernelSpec& spec = static_cast<const HostKernel&>(kernel).spec;
    if (spec.entry == "add_partials") return add_partials(arguments);
    if (spec.entry == "widen") return widen(arguments, spec.options.front());
    if (spec.entry == "swap_channels")
      return spec.options.front() == "-DBYTES=1" ? swap_channels<std::uint8_t>(arguments)
                                                 : swap_channels<float>(arguments);
    if (spec.entry == "split_floats") return split_floats(arguments);
    if (spec.entry == "split_planes") return split_planes(arguments);
    const auto program = hopper_programs().find(spec.instantiation);
    if (program == hopper_programs().end()) throw std::runtime_error("add to the programs " + spec.instantiation);
    const auto& [run, bytes, threads] = program->second;
    if (arguments.size() != 1 || arguments[0].bytes != bytes || shape.threads[0] != threads)
      throw std::runtime_error("the launch does not fit " + spec.instantiation);
    struct alignas(64) Line {
      unsigned char bytes[64];
    };
    std::vector<Line> copy((bytes + sizeof(Line) - 1) / sizeof(Line));
    std::memcpy(copy.data(), arguments[0].data, bytes);
    const emulated::Product product = spec.generated.empty() ? emulated::Product{} : product_of(spec.generated);
    emulated::run_blocks(shape, product, memory, [&, call = run] { call(copy.data()); });
  }

  std::vector<emulated::Extent> memory;  // that tensor maps may reach

 private:
  template <class T>
  static T value_of(const Argument& argument, T v) {
    std::memcpy(&v, argument.data, sizeof v);
    return v;
  }

  /// Copies all elements to bf16.
  void widen(std::span<const Argument> arguments, const std::string& option) {
    const Buffer none(nullptr);
    const void* const from = value_of(arguments[0], none).address();
    void* const to = value_of(arguments[1], none).address();
    const auto count = value_of(arguments[2], std::int64_t{});
    const auto type =
        std::ranges::find_if(kDataTypes, [&](DataType t) { return option == "-DIN=" + std::string(name_of(t)); });
    for (std::int64_t i = 0; i < count; ++i) dtype::store(DataType::kBFloat16, to, i, dtype::load(*type, from, i));
    memory.push_back({to, static_cast<std::size_t>(2 * count)});
  }

  /// swapped(c, t, k) = w(k, t, c).
  template <class Element>
  void swap_channels(std::span<const Argument> arguments) {
    const Buffer none(nullptr);
    const auto* const w = static_cast<const Element*>(value_of(arguments[0], none).address());
    auto* const swapped = static_cast<Element*>(value_of(arguments[1], none).address());
    const int outputs = value_of(arguments[2], 0), taps = value_of(arguments[3], 0),
              channels = value_of(arguments[4], 0);
    for (int k = 0; k < outputs; ++k)
      for (int t = 0; t < taps; ++t)
        for (int c = 0; c < channels; ++c) swapped[(c * taps + t) * outputs + k] = w[(k * taps + t) * channels + c];
    memory.push_back({swapped, static_cast<std::size_t>(outputs * taps * channels) * sizeof *swapped});
  }

  void* address(std::span<const Argument> arguments, std::size_t i) const {
    return value_of(arguments[i], Buffer(nullptr)).address();
  }

  /// Low, high and middle parts of bf16, as element `to` of each part; true for an infinity.
  static bool split_float(float v, void* parts, std::int64_t to, std::int64_t count) {
    double left = static_cast<double>(v);
    for (const std::int64_t part : {1, 2, 0}) {
      dtype::store(DataType::kBFloat16, parts, part * count + to, left);
      left -= dtype::load(DataType::kBFloat16, parts, part * count + to);
    }
    return std::isinf(v);
  }

  /// Of two tensors.
  void split_floats(std::span<const Argument> arguments) {
    for (std::size_t i = 0; i < 6; i += 3) {
      const auto* const from = static_cast<const float*>(address(arguments, i));
      void* const to = address(arguments, i + 1);
      const auto count = value_of(arguments[i + 2], std::int64_t{});
      if (count > 0) memory.push_back({to, static_cast<std::size_t>(count) * 6});
      for (std::int64_t e = 0; e < count; ++e)
        if (split_float(from[e], to, e, count)) *static_cast<unsigned*>(address(arguments, 6)) = 1;
    }
  }

  /// Of a tensor (images, channels, pixels), as (images, pixels, channels).
  void split_planes(std::span<const Argument> arguments) {
    const auto* const from = static_cast<const float*>(address(arguments, 0));
    void* const to = address(arguments, 1);
    const int channels = value_of(arguments[2], 0), pixels = value_of(arguments[3], 0);
    const auto count = value_of(arguments[4], std::int64_t{});
    memory.push_back({to, static_cast<std::size_t>(count) * 6});
    for (std::int64_t e = 0; e < count; ++e) {
      const std::int64_t pixel = e % pixels, channel = e / pixels % channels, image = e / pixels / channels;
      if (split_float(from[e], to, (image * pixels + pixel) * channels + channel, count))
        *static_cast<unsigned*>(address(arguments, 5)) = 1;
    }
  }

  /// alpha * the sum of partial results + beta * the old ones, see gpu::add_partials.
  void add_partials(std::span<const Argument> arguments) const {
    const auto value = [&](std::size_t i, auto v) { return value_of(arguments[i], v); };
    const Buffer none(nullptr);
    const auto from = reinterpret_cast<std::uintptr_t>(value(0, none).address());
    const auto* const sums = reinterpret_cast<const float*>((from + 15) / 16 * 16);
    void* const to = value(1, none).address();
    const auto count = value(3, std::int64_t{});
    const int parts = value(4, 0);
    const float alpha = value(7, 0.0f), beta = value(8, 0.0f);
    for (std::int64_t i = 0; i < count; ++i) {
      double sum = 0;
      for (int part = 0; part < parts; ++part) sum += static_cast<double>(sums[part * count + i]);
      dtype::store(type_, to, i, alpha * sum + (beta != 0 ? beta * dtype::load(type_, to, i) : 0));
    }
  }

  DeviceInfo info_;
  DataType type_;
};

struct Options {
  double alpha = 1, beta = 0;
  int units = 2;
  DataType type = DataType::kHalf;
  Epilogue epilogue = {};
  Sizes x_strides = {}, y_strides = {};           // of views
  bool planes = false;                            // the output's channels are not innermost; of parts no tensor's
  std::optional<DataType> second = {}, out = {};  // types of weights and output that differ from `type`
  Rounding rounding = Rounding::kStandard;
  const char* solver = "ConvHopper";  // its name without the direction
  std::array<int, 2> parts = {};      // ConvHopperSplit: of bf16 that the operands x or y and w need
  int infinite = -1;                  // which operand has an infinity
};

/// A problem with its tensors and the expected output.
class Layer {
 public:
  Layer(Direction d, Shape shape, const Options& o) : cpu_("cpu", nullptr), stream_(cpu_.stream(), o.type) {
    stream_.set_units(o.units);
    shape.channels_last = true;
    shape.type = o.type;
    p_ = problem(d, shape);
    const auto set_type = [](TensorDesc& t, std::optional<DataType> type) { t.type = t.cast = type.value_or(t.type); };
    if (!o.x_strides.empty()) p_.x = make_tensor(shape.type, shape.x, o.x_strides);
    if (!o.y_strides.empty())
      p_.y = make_tensor(shape.type, Sizes(p_.y.lens.begin(), p_.y.lens.begin() + p_.y.rank), o.y_strides);
    if (o.planes && o.parts[0]) {
      for (TensorDesc* t : {&p_.x, &p_.w, &p_.y}) *t = make_tensor(shape.type, t->sizes(), {});
    } else if (o.planes) {
      TensorDesc& output = d == kForward ? p_.y : p_.x;
      output = make_tensor(shape.type, output.sizes(), {});
    }
    set_type(p_.w, o.second);
    set_type(d == kForward ? p_.y : p_.x, o.out);
    p_.rounding = o.rounding;
    args_.seed = 7;
    p_.epilogue = o.epilogue;
    p_.scalars = o.beta != 0 ? Scalars::kBilinear : o.alpha != 1 ? Scalars::kScale : Scalars::kDefault;
    for (const SolverBase* s : solvers(d, DeviceKind::kCuda))
      if (std::string_view name = s->info().name; name.substr(0, name.size() - 3) == o.solver)
        solver_ = dynamic_cast<const GpuSolver<Problem>*>(s);
    const TensorDesc* const tensors[] = {&p_.x, &p_.w, &p_.y, &p_.y};
    for (std::size_t i = 0; i < 4; ++i) data_[i] = random(tensors[i]->type, tensors[i]->space(), 2);
    for (std::size_t i = 0; i < 2 && o.parts[0]; ++i) set_parts(operand(i), o.parts[i]);
    if (o.infinite >= 0)
      dtype::store(o.type, operand(static_cast<std::size_t>(o.infinite)).data(), 5,
                   std::numeric_limits<double>::infinity());
    old_ = output();
    if (o.beta == 0) std::fill(old_.begin(), old_.end(), static_cast<unsigned char>(0xff));  // NaN
    const DataType parameter = o.epilogue.scale ? DataType::kFloat : p_.y.type;
    bias_ = random(parameter, p_.k(), 4);
    scale_ = random(DataType::kFloat, p_.k(), 2);
    args_.x = data_[0].data();
    args_.w = data_[1].data();
    args_.y = data_[2].data();
    args_.alpha = o.alpha;
    args_.beta = o.beta;
    args_.bias = bias_.data();
    args_.scale = scale_.data();
    args_.residual = data_[3].data();
    args_.residual_alpha = 0.5;
    for (auto& bytes : data_) stream_.memory.push_back({bytes.data(), bytes.size()});
    expect();
  }

  void set_units(int units) { stream_.set_units(units); }
  bool takes(const TunePoint& point) const { return solver_->is_valid(stream_.info(), p_, point); }

  void check(const TunePoint& point) {
    SCOPED_TRACE(fmt::format("{}, point {}, {} units", p_.key(), to_string(point), stream_.info().units));
    const DeviceInfo& d = stream_.info();
    ASSERT_EQ(solver_->is_applicable(d, p_).text(), Verdict{}.text());
    ASSERT_TRUE(takes(point));
    output() = old_;
    stream_.memory.resize(std::size(data_));  // without earlier workspaces
    // Workspace is not aligned, and ends where the solver says.
    constexpr std::size_t kOffset = 4;
    const std::size_t bytes = solver_->workspace_size(d, p_, point);
    std::vector<float> workspace((bytes + kOffset) / sizeof(float) + 64, std::nanf(""));
    const std::vector<float> untouched(64, std::nanf(""));
    args_.workspace = reinterpret_cast<unsigned char*>(workspace.data()) + kOffset;
    args_.workspace_bytes = bytes;
    Kernels kernels;
    for (const KernelSpec& spec : solver_->kernel_specs(d, p_, point))
      kernels.push_back(std::make_shared<HostKernel>(spec));
    try {
      solver_->assemble(d, p_, point, kernels)(stream_, args_);
    } catch (const std::exception& e) {
      FAIL() << e.what();
    }
    EXPECT_EQ(std::memcmp(&*workspace.end() - 64, untouched.data(), 64 * sizeof(float)), 0) << "beyond the workspace";
    compare();
  }

  /// Checks all points with these splits that the solver accepts; their tiles, of `some` or of all.
  std::set<int> check_tiles(const std::vector<int>& splits, const std::vector<int>& orders = {0},
                            const std::set<int>& some = {}) {
    std::set<int> tiles;
    const TuneSpace space = solver_->tune_space(stream_.info(), p_);
    for (const int tile : space[0].values)
      for (const int split : splits)
        for (const int order : orders) {
          TunePoint point = {tile, split};
          if (space.size() > 2) point.push_back(order);
          if (!some.empty() && !some.contains(tile)) continue;
          if (cuda::hopper_has_halo(p_, point) || !takes(point)) continue;
          check(point);
          tiles.insert(tile);
        }
    return tiles;
  }

 private:
  static std::string to_string(const TunePoint& point) {
    std::string text;
    for (const int v : point) text += fmt::format("{} ", v);
    return text;
  }

  std::vector<unsigned char> random(DataType type, std::int64_t count, int most) {
    std::vector<unsigned char> bytes(static_cast<std::size_t>(count) * size_of(type));
    std::uniform_int_distribution<int> integer(-most, most);
    for (std::int64_t i = 0; i < count; ++i) dtype::store(type, bytes.data(), i, integer(engine_));
    return bytes;
  }

  /// x or dy; w or, for its gradient, dy.
  std::vector<unsigned char>& operand(std::size_t i) {
    return i == 0 ? data_[p_.direction == kData ? 2 : 0] : data_[p_.direction == kWeights ? 2 : 1];
  }

  /// Sums of these with whole numbers, or of their products if they have two parts, are exact.
  void set_parts(std::vector<unsigned char>& tensor, int parts) {
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(tensor.size() / sizeof(float)); ++i) {
      double v = 0;
      for (int part = parts - 1; part >= 0; --part)
        v = v * 0x1p-9 + std::uniform_int_distribution<int>(-2, 2)(engine_) / 2;
      dtype::store(DataType::kFloat, tensor.data(), i, v);
    }
  }

  std::vector<unsigned char>& output() { return data_[p_.direction == kForward ? 2 : p_.direction == kData ? 0 : 1]; }

  static std::vector<double> widened(const TensorDesc& t, const std::vector<unsigned char>& from) {
    std::vector<double> to(static_cast<std::size_t>(t.space()));
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = dtype::load(t.type, from.data(), static_cast<std::int64_t>(i));
    return to;
  }

  double finished(double sum, std::int64_t at, std::int64_t channel) const {
    const Epilogue& e = p_.epilogue;
    double v = args_.alpha * sum;
    if (args_.beta != 0) v += args_.beta * dtype::load(p_.output().type, old_.data(), at);
    if (e.scale) v *= dtype::load(DataType::kFloat, scale_.data(), channel);
    if (e.bias) v += dtype::load(e.scale ? DataType::kFloat : p_.y.type, bias_.data(), channel);
    if (e.residual) v += args_.residual_alpha * dtype::load(p_.y.type, data_[3].data(), at);
    return e.activation != 0 && v < 0 ? 0 : v;
  }

  void expect() {
    expected_ = old_;
    const auto a = widened(p_.first_input(), data_[p_.direction == kData ? 2 : 0]);
    const auto b = widened(p_.second_input(), data_[p_.direction == kWeights ? 2 : 1]);
    const Points points(p_);
    const auto& n = points.sizes();
    Position at{};
    for (at.i[0] = 0; at.i[0] < n[0]; ++at.i[0])
      for (at.i[1] = 0; at.i[1] < n[1]; ++at.i[1])
        for (at.s[0] = 0; at.s[0] < n[2]; ++at.s[0])
          for (at.s[1] = 0; at.s[1] < n[3]; ++at.s[1])
            for (at.s[2] = 0; at.s[2] < n[4]; ++at.s[2]) {
              double sum = 0;
              points.walk(at).each([&](std::int64_t i, std::int64_t j) {
                sum += a[static_cast<std::size_t>(i)] * b[static_cast<std::size_t>(j)];
              });
              const std::int64_t to = points.offset(at);
              const bool dithers = p_.rounding == Rounding::kStochastic;
              dtype::store(p_.output().type, expected_.data(), to, finished(sum, to, at.i[1]),
                           dithers ? dither(args_.seed, static_cast<std::uint64_t>(to)) : -1);
            }
  }

  /// Gaps of views must be as they were.
  void compare() {
    const DataType t = p_.output().type;
    int wrong = 0;
    for (std::int64_t i = 0; i < p_.output().space(); ++i) {
      const auto size = size_of(t), at = static_cast<std::size_t>(i) * size;
      const double now = dtype::load(t, output().data(), i), wanted = dtype::load(t, expected_.data(), i);
      if (now == wanted || std::memcmp(&output()[at], &expected_[at], size) == 0) continue;
      if (std::isnan(now) && std::isnan(wanted)) continue;
      if (++wrong == 1) ADD_FAILURE() << "element " << i << " is " << now << ", not " << wanted;
    }
    EXPECT_EQ(wrong, 0) << "elements of " << p_.output().space();
  }

  std::mt19937 engine_{1};
  Handle cpu_;
  HostHopper stream_;
  Problem p_;
  const GpuSolver<Problem>* solver_ = nullptr;
  std::vector<unsigned char> data_[4], old_, bias_, scale_, expected_;  // x, w, y, residual
  Problem::Args args_{};
};

std::set<int> numbers(std::size_t count) {
  std::set<int> all;
  for (std::size_t i = 0; i < count; ++i) all.insert(static_cast<int>(i));
  return all;
}

class HopperPlan : public testing::Test {
  void SetUp() override {
    if (hopper_programs().empty()) GTEST_SKIP() << "no programs with sanitizers";
  }
};

// Tails of every tile: of channels that are read and written, of pixels.
const Shape kTails{.x = {2, 72, 9, 10}, .w = {136, 72, 2, 3}, .pad = {1, 1}},
    kBackwardTails{.x = {2, 136, 9, 10}, .w = {72, 136, 2, 3}, .pad = {1, 1}};

TEST_F(HopperPlan, EveryTileForward) {
  EXPECT_EQ(Layer(kForward, kTails, {}).check_tiles({1}, {0, 1}), numbers(std::size(cuda::kProductTiles)));
}

TEST_F(HopperPlan, EveryTileBackward) {
  EXPECT_EQ(Layer(kData, kBackwardTails, {}).check_tiles({1}, {0, 1}), numbers(std::size(cuda::kProductTiles)));
}

// 12 and 27 steps: the last blocks of a cluster have fewer, or none.
TEST_F(HopperPlan, BlocksOfAClusterShareTiles) {
  for (const int split : {2, 4})
    EXPECT_FALSE(Layer(kForward, kTails, {.units = 132}).check_tiles({split}, {0, 1}).empty());
  const Shape long_sums{.x = {1, 40, 7, 9}, .w = {136, 40, 3, 3}, .pad = {1, 1}};
  EXPECT_FALSE(Layer(kData, long_sums, {.units = 132}).check_tiles({8}, {0, 1}).empty());
}

// Strides, dilation, padding beyond the filter's reach, an input that the last window does not end at.
TEST_F(HopperPlan, Windows) {
  for (const Shape& s :
       {Shape{.x = {2, 24, 12, 11}, .w = {40, 24, 3, 2}, .pad = {1, 0}, .stride = {2, 3}, .dilation = {1, 2}},
        Shape{.x = {2, 64, 5, 6}, .w = {64, 64, 2, 3}, .pad = {4, 3}, .dilation = {1, 2}},
        Shape{.x = {3, 8, 7, 9}, .w = {8, 8, 1, 1}, .pad = {1, 1}, .stride = {2, 2}},
        Shape{.x = {1, 8, 20, 19}, .w = {16, 8, 5, 7}, .pad = {2, 3}, .stride = {8, 1}}}) {
    EXPECT_FALSE(Layer(kForward, s, {.units = 1}).check_tiles({1}).empty());
    EXPECT_FALSE(Layer(kWeights, s, {}).check_tiles({0, 1}).empty());
    const bool few_phases = s.stride.empty() || s.stride[0] < 8;
    if (few_phases) Layer(kData, s, {.units = 1}).check_tiles({1});
  }
}

// All phases have taps; those of some dimensions, or all but one, have none; dilation.
TEST_F(HopperPlan, PhasesOfStridedData) {
  for (const Shape& s :
       {Shape{.x = {2, 72, 9, 11}, .w = {72, 72, 3, 3}, .pad = {1, 1}, .stride = {2, 2}},
        Shape{.x = {1, 40, 10, 9}, .w = {24, 40, 2, 2}, .stride = {3, 3}},
        Shape{.x = {2, 136, 7, 8}, .w = {72, 136, 1, 1}, .stride = {2, 2}},
        Shape{.x = {2, 64, 9, 12}, .w = {72, 64, 3, 3}, .pad = {2, 3}, .stride = {2, 3}, .dilation = {1, 2}}}) {
    EXPECT_FALSE(Layer(kData, s, {}).check_tiles({1}, {0, 1}).empty());
    const bool long_sums = s.w[2] > 1;
    EXPECT_EQ(!Layer(kData, s, {.alpha = 0.5, .beta = 2, .units = 132}).check_tiles({2}).empty(), long_sums);
  }
}

TEST_F(HopperPlan, OneAndThreeDimensions) {
  const std::set<int> kSome = {8, 11, 12}, kSomeOfWeights = {3, 4};
  std::set<int> products, gradients, weights;
  for (const Shape& s : {Shape{.x = {3, 88, 101}, .w = {136, 88, 3}, .pad = {1}},
                         Shape{.x = {2, 64, 75}, .w = {64, 64, 3}, .pad = {40}, .dilation = {40}},
                         Shape{.x = {2, 24, 50}, .w = {40, 24, 80}, .pad = {20}},
                         Shape{.x = {1, 24, 90}, .w = {40, 24, 3}, .pad = {1}, .stride = {4}},
                         Shape{.x = {1, 88, 5, 7, 9}, .w = {72, 88, 2, 3, 2}, .pad = {1, 1, 1}},
                         Shape{.x = {1, 40, 5, 7, 9}, .w = {72, 40, 3, 3, 3}, .pad = {1, 1, 1}, .stride = {2, 2, 1}},
                         Shape{.x = {2, 8, 4, 6, 5},
                         .w = {16, 8, 2, 1, 3},
                         .pad = {0, 1, 2},
                         .stride = {1, 2, 2},
                         .dilation = {2, 1, 1}}}) {
    const Options o{.type = DataType::kBFloat16};
    products.merge(Layer(kForward, s, o).check_tiles({1}, {0}, kSome));
    gradients.merge(Layer(kData, s, o).check_tiles({1}, {0}, kSome));
    weights.merge(Layer(kWeights, s, o).check_tiles({0, 1}, {0}, kSomeOfWeights));
  }
  EXPECT_EQ(products, kSome);
  EXPECT_EQ(gradients, kSome);
  EXPECT_EQ(weights, kSomeOfWeights);
}

// Rows of 96 channels with 64 of them, and rows and images that do not follow each other.
TEST_F(HopperPlan, Views) {
  for (const std::int64_t stride : {1, 2}) {
    const Shape s{.x = {2, 64, 9, 10}, .w = {72, 64, 3, 3}, .pad = {1, 1}, .stride = {stride, 1}};
    const Options o{
        .alpha = 2, .beta = 1, .units = 132, .x_strides = {10000, 1, 968, 96}, .y_strides = {9600, 1, 960, 80}};
    for (const TunePoint& point : {TunePoint{12, 1, 0}, TunePoint{10, 2, 0}}) {
      Layer(kForward, s, o).check(point);
      Layer(kData, s, o).check(point);
    }
    Layer(kWeights, s, o).check({3, 1});
  }
  const Shape halo{.x = {2, 64, 9, 10}, .w = {72, 64, 3, 3}, .pad = {1, 1}};
  const Options o{.alpha = 2, .beta = 1, .x_strides = {10000, 1, 968, 96}, .y_strides = {9600, 1, 960, 80}};
  for (const Direction d : kDirections) Layer(d, halo, o).check(cuda::hopper_halo_point(d));
}

TEST_F(HopperPlan, Epilogues) {
  const Epilogue bias{.bias = true, .activation = static_cast<int>(activation::Mode::kRelu)};
  const Epilogue all{
      .bias = true, .activation = static_cast<int>(activation::Mode::kRelu), .residual = true, .scale = true};
  const Options options[] = {{.alpha = 2, .beta = 0.5}, {.alpha = 0.5, .epilogue = bias}, {.epilogue = all}};
  for (const Options& o : options) {
    Layer layer(kForward, kTails, o);
    for (const TunePoint& point : {TunePoint{0, 1, 0}, TunePoint{8, 1, 0}, TunePoint{5, 1, 0}}) layer.check(point);
    if (!(o.epilogue == bias)) layer.check(cuda::hopper_halo_point(kForward));
    layer.set_units(132);
    layer.check({1, 2, 0});
  }
}

// One tile and several per row and column of an image, weights that stay in shared memory and that do not, several
// tiles and works per block, parts.
TEST_F(HopperPlan, TilesWithHalo) {
  for (const Shape& s : {Shape{.x = {3, 64, 11, 29}, .w = {64, 64, 3, 3}, .pad = {1, 1}},
                         Shape{.x = {2, 136, 9, 10}, .w = {72, 136, 2, 3}, .pad = {1, 0}},
                         Shape{.x = {1, 8, 4, 300}, .w = {24, 8, 3, 3}, .pad = {1, 1}},
                         Shape{.x = {2, 40, 13, 12}, .w = {8, 40, 3, 3}, .pad = {2, 3}, .dilation = {2, 3}},
                         Shape{.x = {1, 24, 21, 22}, .w = {40, 24, 5, 7}, .pad = {2, 3}},
                         Shape{.x = {2, 72, 3, 9, 10}, .w = {80, 72, 2, 3, 3}, .pad = {1, 1, 1}, .dilation = {2, 1, 1}},
                         Shape{.x = {2, 96, 230}, .w = {96, 96, 3}, .pad = {1}}})
    for (const Direction d : kDirections) {
      if (d == kWeights && (s.w.size() != 4 || s.w[3] > 3)) continue;
      Layer layer(d, s, {.alpha = 2, .beta = 1});
      for (const int units : {1, 2, 5}) {
        layer.set_units(units);
        layer.check(cuda::hopper_halo_point(d));
      }
    }
}

// Images whose pixels are multiples of 8, of 4, and odd; phases; clusters; three dimensions; parts of rows.
TEST_F(HopperPlan, Planes) {
  const std::set<int> kSome = {0, 1, 5, 8, 10, 12};
  const Options o{.alpha = 0.5, .planes = true};
  for (const Shape& s : {Shape{.x = {2, 72, 9, 12}, .w = {136, 72, 2, 3}, .pad = {0, 1}},
                         Shape{.x = {3, 40, 7, 14}, .w = {72, 40, 2, 3}, .pad = {1, 2}, .dilation = {2, 2}},
                         Shape{.x = {3, 64, 7, 7}, .w = {64, 64, 3, 3}, .pad = {1, 1}}}) {
    EXPECT_FALSE(Layer(kForward, s, o).check_tiles({1}, {0}, kSome).empty());
    EXPECT_FALSE(Layer(kData, s, o).check_tiles({1}, {0}, kSome).empty());
  }
  Layer(kForward, kTails, {.units = 132, .planes = true}).check({1, 2, 0});
  const Shape strided{.x = {2, 72, 9, 11}, .w = {72, 72, 3, 3}, .pad = {1, 1}, .stride = {2, 2}};
  Layer(kData, strided, o).check({12, 1, 0});
  const Shape volume{.x = {2, 24, 3, 5, 6}, .w = {72, 24, 2, 3, 3}, .pad = {1, 1, 1}};
  Layer(kForward, volume, o).check({11, 1, 0});
  Epilogue bias{.bias = true, .activation = static_cast<int>(activation::Mode::kRelu)};
  Layer(kForward, kTails, {.epilogue = bias, .planes = true}).check({8, 1, 0});
  for (const Shape& s : {Shape{.x = {3, 64, 11, 29}, .w = {64, 64, 3, 3}, .pad = {1, 1}},
                         Shape{.x = {2, 136, 9, 10}, .w = {72, 136, 2, 3}, .pad = {1, 0}},
                         Shape{.x = {1, 8, 4, 300}, .w = {24, 8, 3, 3}, .pad = {1, 1}},
                         Shape{.x = {1, 24, 21, 22}, .w = {40, 24, 5, 7}, .pad = {2, 3}},
                         Shape{.x = {2, 24, 3, 9, 10}, .w = {72, 24, 2, 3, 3}, .pad = {1, 1, 1}}})
    for (const Direction d : {kForward, kData}) Layer(d, s, o).check(cuda::hopper_halo_point(d));
}

// fp32: tails of steps and tiles, phases, clusters, one to three dimensions, views, what is added and fused.
TEST_F(HopperPlan, Tf32) {
  const Options plain{.type = DataType::kFloat}, adds{.alpha = 0.5, .beta = 2, .units = 132, .type = DataType::kFloat};
  const auto all = numbers(std::size(cuda::kProductTiles));
  const Shape tails{.x = {2, 36, 9, 10}, .w = {140, 36, 2, 3}, .pad = {1, 1}},
      data_tails{.x = {2, 140, 9, 10}, .w = {36, 140, 2, 3}, .pad = {1, 1}},
      strided{.x = {2, 68, 9, 11}, .w = {44, 68, 3, 3}, .pad = {1, 1}, .stride = {2, 2}, .dilation = {1, 2}},
      series{.x = {3, 44, 101}, .w = {132, 44, 3}, .pad = {1}, .stride = {2}},
      volume{.x = {2, 12, 4, 6, 5}, .w = {68, 12, 2, 3, 3}, .pad = {1, 1, 0}, .stride = {1, 2, 1}};
  EXPECT_EQ(Layer(kForward, tails, plain).check_tiles({1}, {0, 1}), all);
  EXPECT_EQ(Layer(kData, data_tails, plain).check_tiles({1}, {0, 1}), all);
  EXPECT_FALSE(Layer(kData, strided, plain).check_tiles({1}).empty());
  EXPECT_FALSE(Layer(kForward, strided, plain).check_tiles({1}).empty());
  EXPECT_FALSE(Layer(kForward, tails, adds).check_tiles({2}).empty());
  EXPECT_FALSE(Layer(kData, data_tails, adds).check_tiles({2}).empty());
  for (const Shape& s : {series, volume})
    for (const Direction d : {kForward, kData}) EXPECT_FALSE(Layer(d, s, plain).check_tiles({1}, {0}, {8, 12}).empty());
  Options view = adds;
  view.x_strides = {10000, 1, 968, 84};
  for (const Direction d : {kForward, kData}) Layer(d, strided, view).check({12, 1, 0});
  Options planes = plain;
  planes.planes = true;
  for (const Shape& s : {Shape{.x = {2, 36, 9, 12}, .w = {140, 36, 2, 3}, .pad = {0, 1}},
                         Shape{.x = {3, 20, 7, 7}, .w = {36, 20, 3, 3}, .pad = {1, 1}}})
    for (const Direction d : {kForward, kData}) Layer(d, s, planes).check({12, 1, 0});
  Layer(kForward, tails, planes).check({0, 1, 0});
  planes.units = 132;
  Layer(kForward, tails, planes).check({1, 2, 0});
  const int relu = static_cast<int>(activation::Mode::kRelu);
  for (const Epilogue& e : {Epilogue{.bias = true, .activation = relu},
                            Epilogue{.bias = true, .activation = relu, .residual = true, .scale = true}})
    for (const TunePoint& point : {TunePoint{0, 1, 0}, TunePoint{8, 1, 0}, TunePoint{1, 2, 0}})
      Layer(kForward, tails, {.units = 132, .type = DataType::kFloat, .epilogue = e}).check(point);
}

// By warps: tails of boxes and tiles, windows, one to three dimensions, shares and parts of tiles, what is added.
TEST_F(HopperPlan, Tf32Weights) {
  const Options plain{.type = DataType::kFloat}, adds{.alpha = 0.5, .beta = 2, .type = DataType::kFloat};
  const auto all = numbers(std::size(cuda::kWeightTiles));
  const Shape tails{.x = {2, 68, 9, 12}, .w = {164, 68, 2, 1}, .pad = {1, 1}},
      strided{.x = {2, 100, 9, 11}, .w = {44, 100, 3, 2}, .pad = {2, 1}, .stride = {2, 3}, .dilation = {1, 2}};
  EXPECT_EQ(Layer(kWeights, tails, plain).check_tiles({0, 1}), all);
  Layer layer(kWeights, tails, adds);
  for (const int units : {1, 40}) {
    layer.set_units(units);
    EXPECT_EQ(layer.check_tiles({0, 1}, {0}, {0, 4}), (std::set<int>{0, 4}));
  }
  EXPECT_FALSE(Layer(kWeights, strided, plain).check_tiles({1}).empty());
  for (const Shape& s : {Shape{.x = {3, 44, 101}, .w = {132, 44, 3}, .pad = {1}, .stride = {2}},
                         Shape{.x = {2, 12, 4, 6, 5}, .w = {68, 12, 2, 3, 3}, .pad = {1, 1, 0}, .stride = {1, 2, 1}}})
    EXPECT_FALSE(Layer(kWeights, s, plain).check_tiles({0, 1}, {0}, {3}).empty());
  Options view = adds;
  view.x_strides = {20000, 1, 1232, 112};
  Layer(kWeights, strided, view).check({4, 0});
}

// Outputs that do not fill a tile, or only half of it; weights that stay in shared memory; several tiles per block.
TEST_F(HopperPlan, Tf32TilesWithHalo) {
  const int relu = static_cast<int>(activation::Mode::kRelu);
  const Epilogue all{.bias = true, .activation = relu, .residual = true, .scale = true};
  for (const Shape& s : {Shape{.x = {3, 32, 11, 29}, .w = {64, 32, 3, 3}, .pad = {1, 1}},
                         Shape{.x = {2, 68, 9, 10}, .w = {100, 68, 2, 3}, .pad = {1, 0}},
                         Shape{.x = {1, 4, 4, 300}, .w = {28, 4, 3, 3}, .pad = {1, 1}},
                         Shape{.x = {2, 20, 13, 12}, .w = {136, 20, 3, 3}, .pad = {2, 3}, .dilation = {2, 3}},
                         Shape{.x = {1, 36, 2, 9, 10}, .w = {40, 36, 2, 3, 3}, .pad = {1, 1, 1}}}) {
    for (const Direction d : kDirections)
      for (const double beta : {0.0, 1.0}) {
        if (d == kWeights && s.w.size() > 4) continue;
        Layer layer(d, s, {.alpha = 2, .beta = beta, .type = DataType::kFloat});
        for (const int units : {1, 5}) {
          layer.set_units(units);
          layer.check(cuda::hopper_halo_point(d));
        }
      }
    Layer(kForward, s, {.type = DataType::kFloat, .epilogue = all}).check(cuda::hopper_halo_point(kForward));
  }
}

// int8 forward: tails of steps and tiles, clusters, one to three dimensions, results as they are, scaled and saturated.
TEST_F(HopperPlan, Int8) {
  const Shape tails{.x = {2, 144, 9, 10}, .w = {276, 144, 2, 3}, .pad = {1, 1}};
  const auto with = [](DataType out, double alpha = 1, double beta = 0, int units = 2) {
    return Options{.alpha = alpha, .beta = beta, .units = units, .type = DataType::kInt8, .out = out};
  };
  EXPECT_EQ(Layer(kForward, tails, with(DataType::kInt32)).check_tiles({1}, {0, 1}),
            numbers(std::size(cuda::kProductTiles)));
  EXPECT_FALSE(Layer(kForward, tails, with(DataType::kInt32, 0.5, 2, 132)).check_tiles({2}).empty());
  Layer(kForward, tails, with(DataType::kInt32, 0.5, 2)).check({1, 1, 0});
  for (const int tile : {0, 12}) Layer(kForward, tails, with(DataType::kFloat)).check({tile, 1, 0});
  Layer(kForward, tails, with(DataType::kFloat, 0.3, 1)).check({1, 1, 0});
  Layer(kForward, tails, with(DataType::kFloat, 0.3, 1, 132)).check({10, 2, 0});
  const Shape bytes{.x = {2, 144, 9, 10}, .w = {272, 144, 2, 3}, .pad = {1, 1}};  // whole rows of results
  for (const int tile : {0, 3, 8, 12}) Layer(kForward, bytes, with(DataType::kInt8)).check({tile, 1, 0});
  for (const int tile : {1, 3}) Layer(kForward, bytes, with(DataType::kInt8, 0.25, 1)).check({tile, 1, 0});
  Layer(kForward, bytes, with(DataType::kInt8, 0.25)).check({8, 1, 0});
  Layer(kForward, bytes, with(DataType::kInt8, 0.25, 1, 132)).check({10, 2, 0});
  for (const Shape& s : {Shape{.x = {3, 48, 101}, .w = {132, 48, 3}, .pad = {1}, .stride = {2}},
                         Shape{.x = {2, 16, 4, 6, 5}, .w = {84, 16, 2, 3, 3}, .pad = {1, 1, 0}, .stride = {1, 2, 1}}})
    Layer(kForward, s, with(DataType::kInt32)).check({8, 1, 0});
}

// Floats of 8 bits in pairs: tails, phases, clusters, one to three dimensions, every type of results.
TEST_F(HopperPlan, Float8) {
  constexpr DataType kE4 = DataType::kFloat8E4m3fn, kE5 = DataType::kFloat8E5m2;
  const Shape tails{.x = {2, 144, 9, 10}, .w = {208, 144, 2, 3}, .pad = {1, 1}},
      data_tails{.x = {2, 208, 9, 10}, .w = {144, 208, 2, 3}, .pad = {1, 1}},
      strided{.x = {2, 80, 9, 11}, .w = {144, 80, 3, 3}, .pad = {1, 1}, .stride = {2, 2}, .dilation = {1, 2}};
  const auto with = [](DataType type, DataType second, DataType out, double alpha = 1, double beta = 0, int units = 2) {
    return Options{.alpha = alpha, .beta = beta, .units = units, .type = type, .second = second, .out = out};
  };
  const std::set<int> fit = {1, 3, 4, 5, 10, 11, 12};
  const Options mixed = with(kE4, kE5, DataType::kHalf), adds = with(kE5, kE4, DataType::kHalf, 0.5, 2, 132);
  EXPECT_EQ(Layer(kForward, tails, mixed).check_tiles({1}, {0, 1}), fit);
  EXPECT_EQ(Layer(kData, data_tails, mixed).check_tiles({1}, {0, 1}), fit);
  EXPECT_FALSE(Layer(kData, strided, mixed).check_tiles({1}).empty());
  EXPECT_FALSE(Layer(kForward, tails, adds).check_tiles({2}).empty());
  EXPECT_FALSE(Layer(kData, data_tails, adds).check_tiles({2}).empty());
  for (const Direction d : {kForward, kData}) {
    Layer(d, strided, with(kE5, kE5, DataType::kFloat)).check({1, 1, 0});
    Layer(d, strided, with(kE4, kE4, kE4)).check({4, 1, 0});
    Layer(d, strided, with(kE4, kE4, kE5)).check({1, 1, 0});
    for (const Shape& s : {Shape{.x = {3, 48, 101}, .w = {144, 48, 3}, .pad = {1}, .stride = {2}},
                           Shape{.x = {2, 16, 4, 6, 5}, .w = {80, 16, 2, 3, 3}, .pad = {1, 1, 0}, .stride = {1, 2, 1}}})
      Layer(d, s, mixed).check({10, 1, 0});
  }
  Layer(kForward, tails, with(kE4, kE4, kE4, 0.25, 1)).check({3, 1, 0});
  Layer(kForward, tails, with(kE4, kE4, DataType::kFloat, 2, 1)).check({1, 1, 0});
  Options dithers = with(kE4, kE4, kE4);
  dithers.rounding = Rounding::kStochastic;
  Layer(kForward, tails, dithers).check({4, 1, 0});
  dithers = with(kE4, kE4, kE4, 0.25, 1, 132);
  dithers.rounding = Rounding::kStochastic;
  Layer(kData, data_tails, dithers).check({10, 2, 0});
}

// 8-bit floats of all formats by copies in bf16.
TEST_F(HopperPlan, WidenedFloat8) {
  constexpr DataType kF4 = DataType::kFloat8Fnuz, kF5 = DataType::kBFloat8Fnuz, kE4 = DataType::kFloat8E4m3fn;
  const Shape tails{.x = {2, 144, 9, 10}, .w = {208, 144, 2, 3}, .pad = {1, 1}},
      strided{.x = {2, 80, 9, 11}, .w = {144, 80, 3, 3}, .pad = {1, 1}, .stride = {2, 2}, .dilation = {1, 2}};
  const auto with = [](DataType type, DataType second, DataType out, double alpha = 1, double beta = 0, int units = 2) {
    return Options{.alpha = alpha,
                   .beta = beta,
                   .units = units,
                   .type = type,
                   .second = second,
                   .out = out,
                   .solver = "ConvHopperWidened"};
  };
  Layer(kForward, tails, with(kF4, kF5, kF4)).check({3, 1, 0});
  Layer(kData, tails, with(kF4, kF4, kF4, 0.25, 1)).check({4, 1, 0});
  Layer(kData, tails, with(kF5, kE4, kF5)).check({8, 1, 0});
  Layer(kForward, tails, with(kE4, kE4, DataType::kHalf, 1, 0, 132)).check({10, 2, 0});
  Layer(kData, strided, with(kE4, kF5, DataType::kFloat)).check({1, 1, 0});
  Options dithers = with(kE4, kF5, kF5);
  dithers.rounding = Rounding::kStochastic;
  Layer(kData, strided, dithers).check({1, 1, 0});
}

const Shape kStrided{.x = {2, 72, 9, 11}, .w = {72, 72, 3, 3}, .pad = {1, 1}, .stride = {2, 2}, .dilation = {1, 2}},
    kSeries{.x = {3, 88, 101}, .w = {136, 88, 3}, .pad = {1}, .stride = {2}},
    kVolume{.x = {1, 24, 4, 6, 5}, .w = {72, 24, 2, 3, 3}, .pad = {1, 1, 0}, .stride = {1, 2, 1}};

/// fp32 in as many parts of bf16, or in fp32 arithmetic because of an infinity in the operand `infinite`.
Options in_parts(std::array<int, 2> parts, int infinite = -1) {
  return {.type = DataType::kFloat, .solver = "ConvHopperSplit", .parts = parts, .infinite = infinite};
}

// Every pair of parts that matters; tails of steps and tiles.
TEST_F(HopperPlan, PairsOfParts) {
  for (const auto& parts : {std::array{3, 1}, std::array{1, 3}, std::array{2, 2}}) {
    EXPECT_EQ(Layer(kForward, kTails, in_parts(parts)).check_tiles({1}), (std::set<int>{3, 4, 10, 11, 12}));
    EXPECT_EQ(Layer(kData, kBackwardTails, in_parts(parts)).check_tiles({1}, {1}), (std::set<int>{3, 4, 10, 11, 12}));
    EXPECT_EQ(Layer(kWeights, kTails, in_parts(parts)).check_tiles({1}), (std::set<int>{1, 3}));
  }
}

// Phases, clusters, parts of the pixels, views of the output, what is added and fused, one and three dimensions; by
// parts and in fp32.
TEST_F(HopperPlan, Parts) {
  const int relu = static_cast<int>(activation::Mode::kRelu);
  for (const int infinite : {-1, 0, 1}) {
    Options o = in_parts({2, 2}, infinite);
    for (const Shape& s : {kTails, kStrided, kSeries, kVolume}) {
      Layer(kForward, s, o).check({12, 1, 0});
      Layer(kData, s, o).check({10, 1, 0});
      Layer(kWeights, s, o).check({3, 1});
    }
    if (infinite == 1) continue;
    o.units = 132;
    Layer(kWeights, kTails, o).check({3, 1});
    Options fused = o;
    fused.epilogue = {.bias = true, .activation = relu, .residual = true, .scale = true};
    for (const TunePoint& point : {TunePoint{4, 1, 0}, TunePoint{12, 1, 0}, TunePoint{4, 2, 0}})
      Layer(kForward, kTails, fused).check(point);
    o.alpha = 0.5;
    o.beta = 2;
    for (const int split : {2, 4}) Layer(kForward, kTails, o).check({10, split, 0});
    for (const int split : {1, 2}) Layer(kData, kBackwardTails, o).check({4, split, 0});
    Layer(kWeights, kTails, o).check({3, 1});
    o.x_strides = {10000, 1, 968, 88};
    Layer(kData, kStrided, o).check({10, 1, 0});
    Options planes = in_parts({2, 2}, infinite);
    planes.planes = true;
    planes.alpha = 0.5;
    const Shape quads{.x = {3, 40, 6, 14}, .w = {72, 40, 2, 3}, .pad = {1, 2}, .dilation = {2, 2}};
    for (const Shape& s : {kTails, quads}) {
      for (const int tile : {4, 12}) Layer(kForward, s, planes).check({tile, 1, 0});
      Layer(kData, s, planes).check({10, 1, 0});
    }
    Layer(kData, kStrided, planes).check({10, 1, 0});
    planes.units = 132;
    Layer(kForward, kTails, planes).check({4, 2, 0});
  }
}

// Whole tiles; shares that begin and end within tiles, more and fewer of them than tiles; parts of tiles.
TEST_F(HopperPlan, SharesAndPartsOfWeights) {
  const Shape tails{.x = {2, 72, 19, 30}, .w = {136, 72, 2, 1}, .pad = {1, 1}};
  for (const double beta : {0.0, 0.5}) {
    Layer layer(kWeights, tails, {.alpha = 2, .beta = beta});
    for (const int units : {1, 3, 40}) {
      layer.set_units(units);
      EXPECT_EQ(layer.check_tiles({0, 1}), numbers(std::size(cuda::kWeightTiles)));
    }
  }
}

// Tails of tiles and chunks, padding beyond the filter's reach, images that add up, both types, every tile; views, what
// is added; results shorter than a row of a tile.
TEST_F(HopperPlan, LongFilters) {
  const auto layer = [](Direction d, std::int64_t n, std::int64_t w, std::int64_t taps, std::int64_t pad, Options o) {
    o.solver = "ConvCudaLongFilters";
    return Layer(d, {.x = {n, 3, w}, .w = {3, 1, taps}, .pad = {pad}, .groups = 3}, o);
  };
  const Options half{}, bfloat16{.alpha = 0.5, .beta = 2, .type = DataType::kBFloat16};
  for (const Direction d : kDirections) {
    const bool weights = d == kWeights;
    for (int tile = 0; tile < 4; ++tile)
      layer(d, 2, weights ? 60 : 1100, weights ? 33 : 47, weights ? 16 : 46, half).check({tile});
    layer(d, 1, weights ? 190 : 1500, weights ? 180 : 150, weights ? 90 : 149, bfloat16).check({0});
    layer(d, 2, 300, weights ? 90 : 330, weights ? 100 : 340, bfloat16).check({2});
    layer(d, 2, weights ? 1900 : 1030, weights ? 40 : 1300, weights ? 0 : 1299, half).check({3});
    const Options view{.alpha = 2, .beta = 1, .x_strides = {1200, 1, 9}, .y_strides = {3100, 1030, 5}};
    layer(d, 2, 60, 60, 30, view).check({3});
  }
}

// Eight channels at once; of views, more than a chunk and than a tile, what is added.
TEST_F(HopperPlan, LongFiltersOfChannels) {
  for (const Direction d : kDirections) {
    Options o{.solver = "ConvCudaLongFilters"};
    Layer(d, {.x = {2, 16, 300}, .w = {16, 1, 75}, .pad = {74}, .groups = 16}, o).check({4});
    Layer(d, {.x = {1, 8, 1090}, .w = {8, 1, 1050}, .pad = {1049}, .groups = 8}, o).check({4});
    o = {.alpha = 2, .beta = 1, .x_strides = {9000, 1, 24}, .y_strides = {9600, 1, 16}, .solver = o.solver};
    Layer(d, {.x = {2, 8, 131}, .w = {8, 1, 40}, .pad = {20}, .groups = 8}, o).check({4});
    o.type = DataType::kBFloat16;
    Layer(d, {.x = {2, 8, 131}, .w = {8, 1, 60}, .pad = {59}, .groups = 8}, o).check({4});
  }
}

// Infinities reach the results that depend on them, and no others.
TEST_F(HopperPlan, LongFiltersOfInfinities) {
  for (const Direction d : kDirections) {
    const Shape s{.x = {2, 8, d == kWeights ? 60 : 200}, .w = {8, 1, 40}, .pad = {20}, .groups = 8};
    for (const int tile : {0, 3, 4}) Layer(d, s, {.solver = "ConvCudaLongFilters", .infinite = 0}).check({tile});
  }
}

}  // namespace
}  // namespace polymio::convolution
