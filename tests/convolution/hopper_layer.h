// Executes ConvHopper and ConvCudaLongFilters on the CPU: its plans, launches and kernels on an emulated
// multiprocessor, with values whose sums are exact, against the definition in double.
// SPDX-License-Identifier: MIT
#pragma once
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
#include "kernels/gpu/portable/conv_shapes.h"
#include "primitives/activation/activation.h"
#include "primitives/convolution/cuda/hopper.h"
#include "primitives/convolution/cuda/hopper_plan.h"
#include "primitives/convolution/definition.h"
#include "tests/convolution/hopper_programs.h"
#include "tests/kernels/forwarding_stream.h"
#include "tests/kernels/gpu/multiprocessor.h"

namespace polymio::convolution {

constexpr Direction kForward = Direction::kForward, kData = Direction::kBackwardData,
                    kWeights = Direction::kBackwardWeights;

struct HostKernel final : Kernel {
  explicit HostKernel(const KernelSpec& s) : spec(s) {}
  KernelSpec spec;
};

/// The product that the text before a program defines (kernels/gpu/wgmma.h), if it has one.
inline emulated::Product product_of(const std::string& text) {
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
  explicit HostHopper(Stream& cpu) : ForwardingStream(cpu), info_(usual_device("cuda-sm90")) {}
  const DeviceInfo& info() const override { return info_; }
  void set_units(int units) { info_.units = units; }
  void clear(Buffer dst, std::size_t bytes) override { std::memset(dst.address(), 0, bytes); }
  TensorMap tensor_map(const TensorMapSpec& spec, Buffer tensor) const override {
    return emulated::tensor_map(spec, tensor.address());
  }
  void launch(const Kernel& kernel, const Launch& shape, std::span<const Argument> arguments) override {
    const KernelSpec& spec = static_cast<const HostKernel&>(kernel).spec;
    if (spec.entry == "add_partials") return add_partials(arguments, spec.options);
    if (spec.entry == "widen") return widen(arguments, spec.options.front());
    if (spec.entry == "store_sums") return store_sums(arguments, spec.options);
    if (spec.entry == "swap_channels")
      return spec.options.front() == "-DBYTES=1" ? swap_channels<std::uint8_t>(shape, arguments, 64)
                                                 : swap_channels<float>(shape, arguments, 32);
    if (spec.entry == "merge_groups") return merge_groups(arguments, spec.options.front());
    if (spec.entry == "split_groups") return split_groups(arguments, spec.options);
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

  /// The type of an option -DIN=name or -DOUT=name.
  static DataType type_of(const std::string& option) {
    const std::string name = option.substr(option.find('=') + 1);
    return *std::ranges::find_if(kDataTypes, [&](DataType t) { return name == name_of(t); });
  }

  /// Copies all elements to bf16.
  void widen(std::span<const Argument> arguments, const std::string& option) {
    const void* const from = address(arguments, 0);
    void* const to = address(arguments, 1);
    const auto count = value_of(arguments[2], std::int64_t{});
    const DataType type = type_of(option);
    for (std::int64_t i = 0; i < count; ++i) dtype::store(DataType::kBFloat16, to, i, dtype::load(type, from, i));
    memory.push_back({to, static_cast<std::size_t>(2 * count)});
  }

  /// w = alpha * sums + beta * w.
  void store_sums(std::span<const Argument> arguments, const std::vector<std::string>& options) {
    const auto* const sums = static_cast<const float*>(address(arguments, 0));
    void* const w = address(arguments, 1);
    const auto count = value_of(arguments[2], std::int64_t{});
    const double alpha = value_of(arguments[3], 0.0f), beta = value_of(arguments[4], 0.0f);
    const auto seed = value_of(arguments[5], std::uint64_t{});
    const DataType type = type_of(options.front());
    for (std::int64_t i = 0; i < count; ++i) {
      const double v = alpha * static_cast<double>(sums[i]) + (beta != 0 ? beta * dtype::load(type, w, i) : 0);
      dtype::store(type, w, i, v, options.size() > 1 ? dither(seed, static_cast<std::uint64_t>(i)) : -1);
    }
  }

  /// swapped(group, c, t, k) = w(group, k, t, c). The grid has the tiles of all groups.
  template <class Element>
  void swap_channels(const Launch& shape, std::span<const Argument> arguments, int tile) {
    const Buffer none(nullptr);
    const auto* const w = static_cast<const Element*>(value_of(arguments[0], none).address());
    auto* const swapped = static_cast<Element*>(value_of(arguments[1], none).address());
    const int outputs = value_of(arguments[2], 0), taps = value_of(arguments[3], 0),
              channels = value_of(arguments[4], 0);
    const int groups = static_cast<int>(shape.blocks[0]) / (ceil_div(outputs, tile) * ceil_div(channels, tile) * taps);
    for (int g = 0; g < groups; ++g)
      for (int k = 0; k < outputs; ++k)
        for (int t = 0; t < taps; ++t)
          for (int c = 0; c < channels; ++c)
            swapped[((g * channels + c) * taps + t) * outputs + k] = w[((g * outputs + k) * taps + t) * channels + c];
    memory.push_back({swapped, static_cast<std::size_t>(groups * outputs * taps * channels) * sizeof *swapped});
  }

  /// each(place of the weights, or -1, place of the merged weights), of all elements of the latter.
  template <class Each>
  static void walk_merged(const Argument& argument, const Each& each) {
    const auto s = value_of(argument, kernels::MergedGroupsShape{});
    const int depth = s.channels * s.merged;
    for (int k = 0; k < s.all_outputs; ++k)
      for (int tap = 0; tap < s.taps; ++tap)
        for (int c = 0; c < depth; ++c) {
          const bool own = c / s.channels == k / s.outputs % s.merged;
          const int place = k * s.channels * s.taps + c % s.channels * s.channel_step + tap * s.tap_step;
          each(own ? place : -1, (k * s.taps + tap) * depth + c);
        }
  }

  void merge_groups(std::span<const Argument> arguments, const std::string& option) {
    const std::size_t bytes = std::stoul(option.substr(option.find('=') + 1)) / 8;
    const auto* const from = static_cast<const unsigned char*>(address(arguments, 0));
    auto* const to = static_cast<unsigned char*>(address(arguments, 1));
    std::size_t count = 0;
    walk_merged(arguments[2], [&](int w, int merged) {
      unsigned char* const element = to + static_cast<std::size_t>(merged) * bytes;
      std::memset(element, 0, bytes);
      if (w >= 0) std::memcpy(element, from + static_cast<std::size_t>(w) * bytes, bytes);
      ++count;
    });
    memory.push_back({to, count * bytes});
  }

  /// w = alpha * its elements of the merged gradient + beta * w.
  void split_groups(std::span<const Argument> arguments, const std::vector<std::string>& options) {
    const void* const from = address(arguments, 0);
    void* const to = address(arguments, 1);
    const double alpha = value_of(arguments[3], 0.0f), beta = value_of(arguments[4], 0.0f);
    const DataType in = type_of(options[0]), out = type_of(options[1]);
    walk_merged(arguments[2], [&](int w, int merged) {
      if (w < 0) return;
      dtype::store(out, to, w,
                   alpha * dtype::load(in, from, merged) + (beta != 0 ? beta * dtype::load(out, to, w) : 0));
    });
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

  /// Of a tensor (images, channels, pixels) with pitches, as (images, pixels, channels).
  void split_planes(std::span<const Argument> arguments) {
    const auto* const from = static_cast<const float*>(address(arguments, 0));
    void* const to = address(arguments, 1);
    const int channels = value_of(arguments[2], 0), pixels = value_of(arguments[3], 0);
    const auto image_pitch = value_of(arguments[4], std::int64_t{}),
               plane_pitch = value_of(arguments[5], std::int64_t{}), count = value_of(arguments[6], std::int64_t{});
    memory.push_back({to, static_cast<std::size_t>(count) * 6});
    for (std::int64_t e = 0; e < count; ++e) {
      const std::int64_t pixel = e % pixels, channel = e / pixels % channels, image = e / pixels / channels;
      const float v = from[image * image_pitch + channel * plane_pitch + pixel];
      if (split_float(v, to, (image * pixels + pixel) * channels + channel, count))
        *static_cast<unsigned*>(address(arguments, 7)) = 1;
    }
  }

  /// alpha * the sum of partial results + beta * the old ones, see gpu::add_partials.
  static void add_partials(std::span<const Argument> arguments, const std::vector<std::string>& options) {
    const auto type = *std::ranges::find_if(
        kDataTypes, [&](DataType t) { return std::ranges::count(options, "-DOUT=" + std::string(name_of(t))) > 0; });
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
      dtype::store(type, to, i, alpha * sum + (beta != 0 ? beta * dtype::load(type, to, i) : 0));
    }
  }

  DeviceInfo info_;
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
  const char* solver = "ConvHopper";    // its name without the direction
  std::array<int, 2> parts = {};        // ConvHopperSplit: of bf16 that the operands x or y and w need
  int infinite = -1;                    // which operand has an infinity
  std::int64_t most_bytes = 0;          // ConvHopperSplit: of parts, without slices; 0: as usual
  std::size_t shift = 0;                // bytes by which tensors are off a multiple of 16
  std::int64_t parameter_channels = 0;  // of y, that have a bias and a scale; 0: all
};

/// A problem with its tensors and the expected output.
class Layer {
 public:
  Layer(Direction d, Shape shape, const Options& o) : cpu_("cpu", nullptr), stream_(cpu_.stream()), shift_(o.shift) {
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
    set_type(d == kWeights ? p_.y : p_.w, o.second);
    set_type(d == kForward ? p_.y : d == kData ? p_.x : p_.w, o.out);
    p_.rounding = o.rounding;
    args_.seed = 7;
    p_.epilogue = o.epilogue;
    p_.scalars = o.beta != 0 ? Scalars::kBilinear : o.alpha != 1 ? Scalars::kScale : Scalars::kDefault;
    for (const SolverBase* s : solvers(d, DeviceKind::kCuda))
      if (std::string_view name = s->info().name; name.substr(0, name.size() - 3) == o.solver)
        solver_ = dynamic_cast<const GpuSolver<Problem>*>(s);
    if (o.most_bytes > 0) {
      of_slices_ = cuda::make_hopper_split({136, "ConvHopperSplit"}, d, o.most_bytes);
      solver_ = of_slices_.get();
    }
    const TensorDesc* const tensors[] = {&p_.x, &p_.w, &p_.y, &p_.y};
    for (std::size_t i = 0; i < 4; ++i) data_[i] = random(tensors[i]->type, tensors[i]->space(), 2);
    for (std::size_t i = 0; i < 2 && o.parts[0]; ++i) set_parts(operand(i), o.parts[i]);
    if (o.infinite >= 0)
      dtype::store(o.type, operand(static_cast<std::size_t>(o.infinite)).data(), 5,
                   std::numeric_limits<double>::infinity());
    old_ = output();
    if (o.beta == 0) std::fill(old_.begin(), old_.end(), static_cast<unsigned char>(0xff));  // NaN
    bias_ = random(o.epilogue.scale && !o.epilogue.norm ? DataType::kFloat : p_.y.type, p_.k(), 4);
    scale_ = random(DataType::kFloat, p_.k(), 2);
    for (auto& parameter : norm_) parameter = random(DataType::kFloat, p_.k(), 2);
    args_.x = data_[0].data();
    args_.w = data_[1].data();
    args_.y = data_[2].data();
    args_.alpha = o.alpha;
    args_.beta = o.beta;
    args_.bias = bias_.data();
    args_.scale = scale_.data();
    args_.parameter_channels = o.parameter_channels;
    args_.norm_scale = norm_[0].data();
    args_.norm_bias = norm_[1].data();
    args_.norm_mean = norm_[2].data();
    args_.norm_variance = norm_[3].data();
    for (std::int64_t i = 0; i < p_.k(); ++i) dtype::store(DataType::kFloat, norm_[3].data(), i, i % 3 == 0 ? 1 : 13);
    args_.norm_epsilon = 3;  // square roots are 2 and 4: results are exact
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
    std::vector<unsigned char> shifted[3];
    Problem::Args args = args_;
    for (std::size_t i = 0; shift_ > 0 && i < std::size(shifted); ++i) {
      shifted[i].assign(shift_, 0);
      shifted[i].insert(shifted[i].end(), data_[i].begin(), data_[i].end());
      (i == 0 ? args.x : i == 1 ? args.w : args.y) = shifted[i].data() + shift_;
    }
    try {
      solver_->assemble(d, p_, point, kernels)(stream_, args);
    } catch (const std::exception& e) {
      FAIL() << e.what();
    }
    for (std::size_t i = 0; shift_ > 0 && i < std::size(shifted); ++i)
      std::copy(shifted[i].begin() + static_cast<std::ptrdiff_t>(shift_), shifted[i].end(), data_[i].begin());
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

  double with_parameters(double v, std::int64_t channel) const {
    const Epilogue& e = p_.epilogue;
    if (e.norm) {
      const auto norm = [&](std::size_t i) { return dtype::load(DataType::kFloat, norm_[i].data(), channel); };
      const double before = v + dtype::load(p_.y.type, bias_.data(), channel);
      return (before - norm(2)) * norm(0) / std::sqrt(norm(3) + args_.norm_epsilon) + norm(1);
    }
    if (e.scale) v *= dtype::load(DataType::kFloat, scale_.data(), channel);
    return e.bias ? v + dtype::load(e.scale ? DataType::kFloat : p_.y.type, bias_.data(), channel) : v;
  }

  double finished(double sum, std::int64_t at, std::int64_t channel) const {
    const Epilogue& e = p_.epilogue;
    double v = args_.alpha * sum;
    if (args_.beta != 0) v += args_.beta * dtype::load(p_.output().type, old_.data(), at);
    if (args_.parameter_channels == 0 || channel < args_.parameter_channels) v = with_parameters(v, channel);
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
  std::size_t shift_;
  Problem p_;
  const GpuSolver<Problem>* solver_ = nullptr;
  std::unique_ptr<const GpuSolver<Problem>> of_slices_;
  std::vector<unsigned char> data_[4], old_, bias_, scale_, norm_[4], expected_;  // x, w, y, residual
  Problem::Args args_{};
};

}  // namespace polymio::convolution
