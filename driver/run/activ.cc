// SPDX-License-Identifier: MIT
#include "driver/run/activ.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "driver/run/activ_args.h"
#include "driver/run/conv_verify.h"
#include "reference/activation.h"

namespace polymio::driver {
namespace {

using ActivDescriptor = Owned<miopenActivationDescriptor_t, miopenDestroyActivationDescriptor>;

constexpr std::int64_t kFullCount = std::int64_t{1} << 22;  // -V 1 compares a sample of larger tensors
constexpr std::int64_t kSamples = 65536;

ActivDescriptor make_activation(const ActivArgs& args) {
  miopenActivationDescriptor_t raw = nullptr;
  check(miopenCreateActivationDescriptor(&raw), "miopenCreateActivationDescriptor");
  ActivDescriptor descriptor(raw);
  check(miopenSetActivationDescriptor(raw, static_cast<miopenActivationMode_t>(args.mode), args.alpha, args.beta,
                                      args.gamma),
        "miopenSetActivationDescriptor");
  return descriptor;
}

// A tensor with its memory: random elements in [-limit, limit), or NaN where the limit is 0.
struct Data {
  Data(const Session& session, const ActivArgs& args, const std::vector<std::int64_t>& strides, const char* name,
       double limit)
      : plain(static_cast<reference::Type>(args.type), args.lens, strides),
        descriptor(make_tensor(args.type, args.lens, strides, kNoType)),
        buffer(session, plain.bytes(), name) {
    // Repeats a row whose length is prime, so that no tensor dimension is a multiple of it.
    const std::int64_t length = std::min<std::int64_t>(65521, plain.space());
    const std::size_t bytes = static_cast<std::size_t>(length) * reference::size_of(plain.type);
    std::vector<unsigned char> row(bytes, 0xff);
    std::uint32_t state = static_cast<std::uint32_t>(name[0]) * 2654435761u;
    for (std::int64_t i = 0; i < length && limit > 0; ++i) {
      state = state * 1664525u + 1013904223u;
      reference::store(plain.type, row.data(), i, limit * ((state >> 8) * 0x1p-23 - 1));
    }
    auto* host = static_cast<unsigned char*>(buffer.host());
    for (std::size_t offset = 0; offset < plain.bytes(); offset += bytes)
      std::memcpy(host + offset, row.data(), std::min(bytes, plain.bytes() - offset));
    buffer.upload();
  }
  std::vector<unsigned char> copy() {
    const auto* host = static_cast<const unsigned char*>(buffer.host());
    return {host, host + buffer.bytes()};
  }

  reference::Tensor plain;
  TensorDescriptor descriptor;
  Buffer buffer;
};

class ActivRun {
 public:
  ActivRun(const Session& session, const ActivArgs& args, bool backward)
      : session_(session),
        args_(args),
        backward_(backward),
        activation_(make_activation(args)),
        x_(session, args, args.x_strides, "x", 4),
        y_(session, args, args.y_strides, "y", backward || args.keep == 0 ? 0 : 1) {
    if (!backward) return;
    dy_.emplace_back(session, args, args.dy_strides, "dy", 1);
    dx_.emplace_back(session, args, args.dx_strides, "dx", args.keep == 0 ? 0 : 1);
  }

  bool run() {
    check(miopenEnableProfiling(session_.get(), true), "miopenEnableProfiling");
    const std::vector<unsigned char> old = output().copy();
    launch();  // tunes with -s 1, and compiles
    if (args_.time != 0) print_times();
    if (args_.verify == 0) return true;
    std::memcpy(output().buffer.host(), old.data(), old.size());
    output().buffer.upload();
    launch();
    return verify(old);
  }

 private:
  Data& output() { return backward_ ? dx_[0] : y_; }
  const char* title() const { return backward_ ? "Backward" : "Forward"; }

  void launch() {
    const double scalars[] = {args_.scale, args_.keep};
    const float float_scalars[] = {static_cast<float>(args_.scale), static_cast<float>(args_.keep)};
    const bool is_double = args_.type == kDouble;
    const void* alpha = is_double ? static_cast<const void*>(&scalars[0]) : &float_scalars[0];
    const void* beta = is_double ? static_cast<const void*>(&scalars[1]) : &float_scalars[1];
    if (!backward_) {
      check(miopenActivationForward(session_.get(), activation_.get(), alpha, x_.descriptor.get(), x_.buffer.device(),
                                    beta, y_.descriptor.get(), y_.buffer.device()),
            "miopenActivationForward");
      return;
    }
    check(miopenActivationBackward(session_.get(), activation_.get(), alpha, y_.descriptor.get(), y_.buffer.device(),
                                   dy_[0].descriptor.get(), dy_[0].buffer.device(), x_.descriptor.get(),
                                   x_.buffer.device(), beta, dx_[0].descriptor.get(), dx_[0].buffer.device()),
          "miopenActivationBackward");
  }

  void print_times() {
    double sum = 0;
    for (std::int64_t i = 0; i < args_.iterations; ++i) {
      launch();
      float ms = 0;
      check(miopenGetKernelTime(session_.get(), &ms), "miopenGetKernelTime");
      if (i > 0 || args_.iterations == 1) sum += ms;
    }
    const double ms = sum / static_cast<double>(std::max<std::int64_t>(1, args_.iterations - 1));
    const double tensors = (backward_ ? 3 : 2) + (args_.keep != 0 ? 1 : 0);
    const double bytes =
        tensors * static_cast<double>(x_.plain.count()) * static_cast<double>(reference::size_of(x_.plain.type));
    fmt::print("GPU Kernel Time {} Activation Elapsed: {:.6f} ms (average)\n", title(), ms);
    fmt::print("stats: name, sizes, bytes, GB/s, timeMs\nstats: {}-activ-{}, {}, {:.0f}, {:.2f}, {:.6f}\n",
               backward_ ? "bwd" : "fwd", activ_mode_name(args_.mode), fmt::join(args_.lens, "x"), bytes,
               bytes / ms * 1e-6, ms);
  }

  bool verify(const std::vector<unsigned char>& old) {
    reference::Activation problem;
    problem.mode = static_cast<reference::ActivationMode>(args_.mode);
    problem.backward = backward_;
    problem.alpha = parameter(args_.alpha);
    problem.beta = parameter(args_.beta);
    problem.gamma = parameter(args_.gamma);
    problem.scale = parameter(args_.scale);
    problem.keep = parameter(args_.keep);
    problem.x = x_.plain;
    if (backward_) problem.dy = dy_[0].plain;
    problem.out = output().plain;
    output().buffer.download();
    std::vector<std::int64_t> sample;
    if (args_.verify == 1 && problem.out.count() > kFullCount) sample = sample_indices(problem.out, kSamples);
    const auto expected =
        evaluate(problem, x_.buffer.host(), backward_ ? dy_[0].buffer.host() : nullptr, old.data(), sample);
    const auto comparison =
        reference::compare(arithmetic(problem), problem.out, output().buffer.host(), expected, sample);
    fmt::print("{}\n", verify_line(fmt::format("{} Activation", title()), comparison));
    return comparison.ok();
  }

  // Rounded as in the library: parameters are floats unless the tensors are double.
  double parameter(double value) const { return args_.type == kDouble ? value : static_cast<float>(value); }

  const Session& session_;
  const ActivArgs& args_;
  bool backward_;
  ActivDescriptor activation_;
  Data x_, y_;
  std::vector<Data> dy_, dx_;  // one element each in the backward direction, else empty
};

}  // namespace

int run_activ(std::span<const std::string> arguments) {
  const ActivArgs args = parse_activ(arguments);
  if (args.help) {
    fmt::print("{}", activ_help());
    return 0;
  }
  // Activations have no find call and no immediate mode: the environment controls the first run.
  if (args.search != 0) setenv("MIOPEN_FIND_ENFORCE", "SEARCH", 0);
  if (!args.solver.empty()) setenv("MIOPEN_DEBUG_FIND_ONLY_SOLVER", args.solver.c_str(), 1);
  fmt::print("MIOpenDriver {}\n", fmt::join(arguments, " "));
  const Session session(args.device);
  bool ok = true;
  for (const bool backward : {false, true})
    if (args.directions & (backward ? 2 : 1)) ok = ActivRun(session, args, backward).run() && ok;
  return ok ? 0 : 1;
}

}  // namespace polymio::driver
