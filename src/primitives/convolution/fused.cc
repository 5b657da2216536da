// SPDX-License-Identifier: MIT
#include "primitives/convolution/fused.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/composite.h"
#include "core/kernel_builder.h"
#include "kernels/cpu/epilogue.h"
#include "kernels/cpu/kernels_of.h"
#include "primitives/activation/activation.h"
#include "primitives/convolution/cpu/epilogue.h"

namespace polymio::convolution {
namespace {

using Args = Problem::Args;

bool on_cpu(const DeviceInfo& d) { return d.kind == DeviceKind::kCpu; }

activation::Epilogue pass_of(const Epilogue& e) {
  return {static_cast<activation::Mode>(e.activation), e.scale, e.bias, e.residual};
}

/// Applies the epilogue to all of y. No solver of the primitive: it is only a step.
class EpiloguePass final : public Solver<Problem> {
 public:
  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    if (const Verdict v = check_epilogue(p); !v) return v;
    return on_cpu(d) ? Verdict{} : activation::check_epilogue(d, p.y.type, pass_of(p.epilogue).mode);
  }
  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint&) const override { return epilogue_us(d, p); }
  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    if (on_cpu(d)) return {};
    return activation::epilogue_kernels(d, p.y.type, pass_of(p.epilogue));
  }
  Invoker build(Stream& stream, const Problem& p, const TunePoint&) const override {
    if (on_cpu(stream.info())) return epilogue_pass(stream, p);
    return [pass = activation::epilogue(stream, p.y, pass_of(p.epilogue))](Stream& on, const Args& a) {
      pass(on, {a.y,
                a.scale,
                a.bias,
                a.residual,
                a.residual_alpha,
                {a.activation_alpha, a.activation_beta, a.activation_gamma}});
    };
  }
};

/// Of the scales or the biases.
std::size_t bytes_of_channels(const Problem& p) {
  return static_cast<std::size_t>(p.k()) * size_of(p.parameter_type());
}

/// Makes a scale and a bias of the batch norm and the bias of an epilogue: writes them to Args::scale, one after the
/// other. Only a step.
class FoldNorm final : public Solver<Problem> {
 public:
  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    POLYMIO_REQUIRE(on_cpu(d) || d.gpu.fp64 || p.y.type != DataType::kDouble,
                    "the device has no double-precision arithmetic");
    return {};
  }
  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    constexpr double kLaunchUs = 3, kChannelUs = 3e-4;
    return on_cpu(d) ? kChannelUs * static_cast<double>(p.k()) : kLaunchUs;
  }
  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    if (on_cpu(d)) return {};
    return norm_programs(d, p);
  }
  Invoker build(Stream& stream, const Problem& p, const TunePoint& point) const override {
    if (!on_cpu(stream.info())) return build_gpu(stream, p, point);
    const auto& kernels = kernels::kernels_of<kernels::EpilogueKernels>(stream.info().isa);
    return [p, &kernels](Stream& on, const Args& a) {
      char* const scale = static_cast<char*>(const_cast<void*>(a.scale));
      on.parallel_for(1, 0, [&](std::size_t, void*) {
        kernels.fold_norm({p.y.type, p.k(), a.norm_scale, a.norm_bias, a.norm_mean, a.norm_variance,
                           p.epilogue.bias ? a.bias : nullptr, a.norm_epsilon, scale, scale + bytes_of_channels(p)});
      });
    };
  }

 private:
  Invoker build_gpu(Stream& stream, const Problem& p, const TunePoint& point) const {
    constexpr std::int64_t kThreads = 256;  // as in fold_norm.cl
    return [p, built = build_kernels(stream, kernel_specs(stream.info(), p, point))](Stream& on, const Args& a) {
      const auto run = [&](auto epsilon) {
        launch(on, *built[0], launch_shape(kThreads, (p.k() + kThreads - 1) / kThreads), Buffer(a.norm_scale),
               Buffer(a.norm_bias), Buffer(a.norm_mean), Buffer(a.norm_variance),
               Buffer(p.epilogue.bias ? a.bias : a.norm_bias), Buffer(a.scale), p.k(), epsilon);
      };
      p.y.type == DataType::kDouble ? run(a.norm_epsilon) : run(static_cast<float>(a.norm_epsilon));
    };
  }
};

/// A solver, and the pass if the solver refuses the epilogue.
class Composed final : public Composite {
 public:
  explicit Composed(const SolverBase* solver) : Composite(solver->info()), solver_(*solver) {}

  ErrorClass error_class(const ProblemBase& p) const override {
    // The pass reads a rounded y, so that the result is not exact; the reference solver stays in double.
    const bool exact = info().reference && !static_cast<const Problem&>(p).epilogue.norm;
    return exact ? solver_.error_class(p) : std::max(ErrorClass::kAccurate, solver_.error_class(p));
  }

 private:
  Verdict steps(const DeviceInfo& d, const ProblemBase& problem, Steps& to) const override {
    const Problem& p = static_cast<const Problem&>(problem);
    if (!p.epilogue.norm) return add(d, p, to, [](const Args& a) { return a; });
    Problem scaled = p;
    scaled.epilogue.scale = scaled.epilogue.bias = true;
    if (solver_.is_applicable(d, scaled)) {
      to.add<Args>(
          solver_, scaled,
          [has_bias = p.epilogue.bias](const Args& a) {
            Args own = a;
            if (!has_bias) own.bias = nullptr;
            return own;
          },
          kAllKnobs);
      return {};
    }
    static const FoldNorm fold;
    if (const Verdict v = fold.is_applicable(d, p); !v) return v;
    const std::size_t bytes = bytes_of_channels(p);
    const WorkspaceBuffer folded = to.buffer(2 * bytes);
    const auto with_scale = [folded](const Args& a) {
      Args own = a;
      own.scale = folded.in(a.workspace);
      return own;
    };
    to.add<Args>(fold, p, with_scale);
    scaled.epilogue.norm = false;
    return add(d, scaled, to, [with_scale, bytes](const Args& a) {
      Args own = with_scale(a);
      own.bias = static_cast<const char*>(own.scale) + bytes;
      return own;
    });
  }

  template <class Arguments>
  Verdict add(const DeviceInfo& d, const Problem& p, Steps& to, const Arguments& arguments) const {
    static const EpiloguePass pass;
    if (solver_.is_applicable(d, p)) {
      to.add<Args>(solver_, p, arguments, kAllKnobs);
      return {};
    }
    if (const Verdict v = pass.is_applicable(d, p); !v) return v;
    Problem plain = p;
    plain.epilogue = {};
    to.add<Args>(solver_, plain, arguments, kAllKnobs);
    to.add<Args>(pass, p, arguments);
    return {};
  }

  const SolverBase& solver_;
};

/// The solvers of the forward direction, composed; both vectors have the same order.
struct ComposedList {
  std::vector<Composed> objects;
  std::vector<const SolverBase*> pointers;
  explicit ComposedList(DeviceKind kind) {
    for (const SolverBase* s : solvers(Direction::kForward, kind)) objects.emplace_back(s);
    for (const Composed& c : objects) pointers.push_back(&c);
  }
};

}  // namespace

std::vector<KernelSpec> norm_programs(const DeviceInfo& d, const Problem& p) {
  KernelSpec spec{"primitives/convolution/gpu/fold_norm.cl", "fold_norm", {}};
  spec.options = {fmt::format("-DIN={}", name_of(p.y.type)), fmt::format("-DOUT={}", name_of(p.parameter_type())),
                  fmt::format("-DNUM={}", p.y.type == DataType::kDouble ? "double" : "float"),
                  fmt::format("-DHAS_BIAS={:d}", p.epilogue.bias)};
  if (d.gpu.fp64) spec.options.emplace_back("-DFP64");
  return {spec};
}

SolverList solvers(const Problem& p, DeviceKind kind) {
  if (p.epilogue.empty() || p.direction != Direction::kForward) return solvers(p.direction, kind);
  static const ComposedList composed(DeviceKind::kCpu), composed_gpu(DeviceKind::kCuda);
  return (kind == DeviceKind::kCpu ? composed : composed_gpu).pointers;
}

}  // namespace polymio::convolution
