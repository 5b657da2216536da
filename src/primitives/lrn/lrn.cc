// The problem of local response normalisation: text, validation, and running it on top of the solvers.
// SPDX-License-Identifier: MIT
#include "primitives/lrn/lrn.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "core/aligned_buffer.h"
#include "core/tensor_checks.h"
#include "search/runner.h"

namespace polymio::lrn {
namespace {

class Lrn final : public search::Primitive {
 public:
  void validate(const ProblemBase& p) const override { lrn::validate(static_cast<const Problem&>(p)); }
  SolverList solvers(const ProblemBase& p, DeviceKind kind) const override {
    return lrn::solvers(static_cast<const Problem&>(p).direction, kind);
  }
  SolverList all_solvers() const override { return lrn::all_solvers(); }
  std::unique_ptr<const search::ResultCheck> make_check(const ProblemBase& p) const override {
    return lrn::make_check(static_cast<const Problem&>(p));
  }
  bool has_find() const override { return false; }
};
constexpr Lrn kLrn;

/// Dimensions that the window extends over.
int window_rank(const Problem& p) { return p.mode == Mode::kCrossChannel ? 1 : std::max(p.x.rank - 2, 0); }

struct Named {
  const TensorDesc& desc;
  const void* data;
  const char* name;
};

void require_apart(const Named& in, const Named& out) {
  if (!in.data || !out.data) return;
  require(in.data != out.data, "{} and {} are one buffer: a result depends on neighbours, so use another one", out.name,
          in.name);
  require_no_overlap(in.desc, in.data, in.name, out.desc, out.data);
}

void check_memory(const Problem& p, const Problem::Args& args) {
  const Named result{p.output(), args.result, p.forward() ? "y" : "dx"}, scale{p.y, args.scale, "the workspace"};
  const Named x{p.x, args.x, "x"};
  require_apart(x, result);
  require_apart(scale, result);
  if (p.forward()) return require_apart(x, scale);
  require_apart({p.y, args.y, "y"}, result);
  require_apart({p.dy, args.dy, "dy"}, result);
}

}  // namespace

std::string Problem::key() const {
  std::string text = base_arg("lrn", x.type, x.rank - 2) + size_flags(x);
  text += fmt::format(" -m {} -N {} --workspace {} -F {}", static_cast<int>(mode), window.n, static_cast<int>(scale),
                      forward() ? 1 : 2);
  text += layout_flags(x, "-I", "--in_strides") + layout_flags(y, "-O", "--out_strides");
  if (forward()) return text;
  if (!same_strides(dx, x)) text += strides_flag(dx, "--din_strides");
  if (!same_strides(dy, y)) text += strides_flag(dy, "--dout_strides");
  return text;
}

std::string Problem::family() const {
  return fmt::format("lrn {} {} {} {} {} {}", forward() ? "fwd" : "bwd", polymio::name_of(x.type),
                     mode == Mode::kCrossChannel ? "cross" : "within", window.n, static_cast<int>(scale),
                     output().is_channels_first()  ? "first"
                     : output().is_channels_last() ? "last"
                                                   : "strided");
}

std::vector<float> Problem::log_sizes() const { return {std::log2(static_cast<float>(count()))}; }

double Problem::work() const {
  const double tensors = (forward() ? 2 : 4) + (has_scale() ? 1 : 0);
  return tensors * static_cast<double>(count()) * static_cast<double>(size_of(x.type));
}

void validate(const Problem& p) {
  const int mode = static_cast<int>(p.mode);
  require(mode == 0 || mode == 1, "LRN mode {} is unknown: allowed are 0 (within a channel) and 1 (across channels)",
          mode);
  require(p.window.n >= 1, "the window has 0 elements: at least 1 is allowed");
  const auto check = [&](const TensorDesc& t, const char* name) {
    require(t.rank >= 2 && t.rank <= kMostRank, "{} has rank {}: 2 to {} are allowed", name, t.rank, kMostRank);
    require_float_tensor(t, name, kMostRank, "LRN functions");
    require_same_type(p.x, "x", t, name);
    require_same_sizes(p.x, "x", t, name);
  };
  check(p.x, "x");
  check(p.y, "y");
  if (!p.forward()) {
    check(p.dy, "dy");
    check(p.dx, "dx");
  }
  require_separate(p.output(), p.forward() ? "y" : "dx");
}

Loop loop_of(const Problem& p) {
  if (p.forward()) {
    const TensorDesc* const all[] = {&p.y, &p.y, &p.x};
    return make_loop(p.has_scale() ? std::span(all) : std::span(all).subspan(1));
  }
  const TensorDesc* const all[] = {&p.dx, &p.x, &p.dy, &p.y, &p.y};
  return make_loop({all, p.has_scale() ? 5u : 4u});
}

Reach reach_of(const Problem& p, std::int64_t size) {
  const std::int64_t n = p.window.n;
  return {std::min((n - 1) / 2, size - 1), std::min(n / 2, size - 1)};
}

Factors factors_of(const Problem& p, const Parameters& parameters) {
  const double share = parameters.alpha / std::pow(static_cast<double>(p.window.n), window_rank(p));
  // MIOpen's rule for a window of one element within a channel.
  const bool single = p.mode == Mode::kWithinChannel && p.window.n == 1;
  return {single ? 1 : share, 2 * share * parameters.beta};
}

// A cached plan belongs to exactly this problem, so that a warm call skips validation.
void run(Handle& handle, const Problem& problem, const Problem::Args& given) {
  if (given.parameters.k == 0)
    fail(Status::kUnknownError, "k is 0: it must differ from 0, or windows of zeros divide by 0");
  const bool forward = problem.forward();
  const CallerBuffer buffers[] = {
      {problem.x, given.x, "the buffer of x"},
      {problem.y, given.y, "the buffer of y"},
      {problem.dy, given.dy, "the buffer of dy"},
      {problem.y, given.scale, "the workspace", forward},
      {problem.output(), given.result, forward ? "the buffer of y" : "the buffer of dx", true}};
  if (!are_aligned(buffers)) {
    validate(problem);
    check_memory(problem, given);
    return run_on_aligned(handle.device(), buffers, [&](void* const* data) {
      run(handle, problem, {data[0], data[1], data[2], data[3], data[4], given.parameters});
    });
  }
  const auto plan = handle.plans().get({&problem, Constraints{}}, [&] {
    for (const CallerBuffer& b : buffers)
      if (b.data) handle.stream().check_memory(b.data, b.name);
    return search::Call(handle, kLrn, problem, {}).first_plan();
  });
  check_memory(problem, given);
  handle.run(*plan, &given);
}

}  // namespace polymio::lrn
