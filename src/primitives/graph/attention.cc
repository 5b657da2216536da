// Whole graphs that are attention, forward or backward, as MIOpen's callers build them: the primitive computes them in
// one step. Such a graph multiplies by the probability of dropout where attention divides by its complement, so that it
// must not be computed node by node.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <map>
#include <string_view>

#include "base/error.h"
#include "primitives/graph/draft.h"
#include "primitives/mha/mha.h"
#include "primitives/reduce/reduce.h"

namespace polymio::graph {
namespace {

/// A node of a pattern: what it is, and names of its tensors.
struct Row {
  Kind kind;
  int what;  // a pointwise mode or an operation of a reduction
  std::string_view in[2];
  std::string_view out;
};

constexpr Row product(std::string_view a, std::string_view b, std::string_view c) {
  return {Kind::kMatmul, 0, {a, b}, c};
}
constexpr Row pointwise(Mode mode, std::string_view x, std::string_view b, std::string_view y) {
  return {Kind::kPointwise, static_cast<int>(mode), {x, b}, y};
}
constexpr Row times(std::string_view x, std::string_view b, std::string_view y) {
  return pointwise(Mode::kMul, x, b, y);
}
constexpr Row scaled(std::string_view x, std::string_view y) { return pointwise(Mode::kIdentity, x, "", y); }
constexpr Row largest(std::string_view x, std::string_view y) {
  return {Kind::kReduction, static_cast<int>(reduce::Op::kMax), {x, ""}, y};
}
constexpr Row sum(std::string_view x, std::string_view y) {
  return {Kind::kReduction, static_cast<int>(reduce::Op::kAdd), {x, ""}, y};
}
constexpr Row transposed(std::string_view x, std::string_view y) { return {Kind::kReshape, 0, {x, ""}, y}; }
constexpr Row kDropout = {Kind::kRandom, static_cast<int>(Distribution::kBernoulli), {"offset", "seed"}, "kept"};

constexpr Row kForward[] = {
    product("q", "k", "qk"),
    scaled("qk", "scaled"),
    times("scaled", "descale_q", "scores_q"),
    times("scores_q", "descale_k", "scores"),
    largest("scores", "m"),
    pointwise(Mode::kSub, "scores", "m", "difference"),
    pointwise(Mode::kExp, "difference", "", "power"),
    sum("power", "sum"),
    pointwise(Mode::kReciprocal, "sum", "", "z_inv"),
    times("power", "z_inv", "softmax"),
    largest("softmax", "amax_s"),
    kDropout,
    times("softmax", "kept", "dropped"),
    times("dropped", "probability", "s"),
    times("s", "scale_s", "scaled_s"),
    product("scaled_s", "v", "sv"),
    times("sv", "descale_s", "sv_s"),
    times("sv_s", "descale_v", "result"),
    largest("result", "amax_o"),
    times("result", "scale_o", "o"),
};

constexpr Row kBackward[] = {
    transposed("k", "kt"),
    product("q", "kt", "qk"),
    scaled("qk", "scaled"),
    times("scaled", "descale_q", "scores_q"),
    times("scores_q", "descale_k", "scores"),
    pointwise(Mode::kSub, "scores", "m", "difference"),
    pointwise(Mode::kExp, "difference", "", "power"),
    times("power", "z_inv", "softmax"),
    kDropout,
    times("softmax", "kept", "dropped"),
    times("dropped", "probability", "s"),
    times("s", "scale_s", "scaled_s"),
    transposed("scaled_s", "st"),
    product("st", "do", "dv_raw"),
    times("dv_raw", "descale_s", "dv_s"),
    times("dv_s", "descale_do", "dv_full"),
    largest("dv_full", "amax_dv"),
    times("dv_full", "scale_dv", "dv"),
    transposed("v", "vt"),
    product("do", "vt", "dov"),
    times("dov", "descale_do", "dov_do"),
    times("dov_do", "descale_v", "dov_full"),
    times("dov_full", "kept", "dov_kept"),
    times("dov_kept", "probability", "ds_raw"),
    times("do", "descale_do", "do_full"),
    times("o", "descale_o", "o_full"),
    times("do_full", "o_full", "doo"),
    times("doo", "probability", "doo_kept"),
    sum("doo_kept", "delta"),
    pointwise(Mode::kSub, "ds_raw", "delta", "ds_difference"),
    scaled("ds_difference", "ds_scaled"),
    times("ds_scaled", "s", "ds_full"),
    largest("ds_full", "amax_ds"),
    times("ds_full", "scale_ds", "ds"),
    product("ds", "k", "dq_raw"),
    times("dq_raw", "descale_ds", "dq_ds"),
    times("dq_ds", "descale_k", "dq_full"),
    largest("dq_full", "amax_dq"),
    times("dq_full", "scale_dq", "dq"),
    transposed("ds", "dst"),
    product("dst", "q", "dk_raw"),
    times("dk_raw", "descale_ds", "dk_ds"),
    times("dk_ds", "descale_q", "dk_full"),
    largest("dk_full", "amax_dk"),
    times("dk_full", "scale_dk", "dk"),
};

/// Finds a node for each row such that names stand for the same tensors everywhere.
class Matcher {
 public:
  Matcher(const Graph& graph, std::span<const Row> rows) : g_(graph), rows_(rows), used_(graph.nodes.size()) {}

  bool run() { return g_.nodes.size() == rows_.size() && match(0); }
  int tensor(std::string_view name) const { return bound_.at(name); }
  double scale() const { return scale_; }

 private:
  bool match(std::size_t row) {
    if (row == rows_.size()) return true;
    const Row& r = rows_[row];
    for (std::size_t i = 0; i < g_.nodes.size(); ++i) {
      const Node& n = g_.nodes[i];
      if (used_[i] || !is(n, r)) continue;
      const bool commutes = n.kind == Kind::kPointwise && n.pointwise.mode == Mode::kMul;
      for (const bool exchanged : {false, true}) {
        if (exchanged && !commutes) continue;
        const auto before = bound_;
        used_[i] = true;
        bool fits = bind(r.out, n.out);
        for (std::size_t k = 0; fits && k < n.in.size(); ++k)
          fits = bind(r.in[k], n.in[exchanged ? n.in.size() - 1 - k : k]);
        if (fits && r.what == static_cast<int>(Mode::kIdentity) && r.kind == Kind::kPointwise)
          scale_ = n.pointwise.alpha1;
        if (fits && match(row + 1)) return true;
        used_[i] = false;
        bound_ = before;
      }
    }
    return false;
  }

  static bool is(const Node& n, const Row& r) {
    if (n.kind != r.kind || n.in.size() != (r.in[1].empty() ? 1u : 2u)) return false;
    switch (n.kind) {
      case Kind::kPointwise:
        return static_cast<int>(n.pointwise.mode) == r.what && n.pointwise.alpha2 == 1 &&
               (n.pointwise.alpha1 == 1 || n.pointwise.mode == Mode::kIdentity);
      case Kind::kReduction: return n.reduction == r.what;
      case Kind::kRandom: return static_cast<int>(n.random.distribution) == r.what;
      default: return true;
    }
  }

  bool bind(std::string_view name, int tensor) {
    for (const auto& [other, t] : bound_)
      if (t == tensor) return other == name;
    return bound_.try_emplace(name, tensor).second;
  }

  const Graph& g_;
  const std::span<const Row> rows_;
  std::vector<bool> used_;
  std::map<std::string_view, int> bound_;
  double scale_ = 1;
};

template <class Enum>
struct Named {
  std::string_view name;
  Enum what;
};
using mha::Amax;
using mha::Scalar;
constexpr Named<Scalar> kScalars[] = {
    {"descale_q", Scalar::kDescaleQ},   {"descale_k", Scalar::kDescaleK}, {"descale_v", Scalar::kDescaleV},
    {"descale_s", Scalar::kDescaleS},   {"descale_o", Scalar::kDescaleO}, {"descale_do", Scalar::kDescaleDO},
    {"descale_ds", Scalar::kDescaleDS}, {"scale_s", Scalar::kScaleS},     {"scale_o", Scalar::kScaleO},
    {"scale_ds", Scalar::kScaleDS},     {"scale_dq", Scalar::kScaleDQ},   {"scale_dk", Scalar::kScaleDK},
    {"scale_dv", Scalar::kScaleDV},
};
constexpr Named<Amax> kAmaxes[] = {{"amax_o", Amax::kO},   {"amax_s", Amax::kS},   {"amax_dq", Amax::kDQ},
                                   {"amax_dk", Amax::kDK}, {"amax_dv", Amax::kDV}, {"amax_ds", Amax::kDS}};

/// Operands by role; those that are not in the pattern, or virtual, have no buffer.
class Roles {
 public:
  Roles(Draft& draft, std::span<const Row> rows, const Matcher& m) : draft_(draft), rows_(rows), matched_(m) {}

  Operand find(std::string_view name) {
    for (const Row& r : rows_)
      for (const std::string_view n : {r.in[0], r.in[1], r.out})
        if (n == name) {
          const int t = matched_.tensor(name);
          if (draft_.graph().tensors[static_cast<std::size_t>(t)].is_virtual) return {};
          operands.push_back(draft_.tensor(t));
          return operands.back();
        }
    return {};
  }
  Operand scalar(std::string_view name, DataType type) {
    const Operand o = find(name);
    require(o.buffer < 0 || (o.desc.type == type && o.desc.count() == 1),
            "the tensor that has the role {} in attention must be one element of {}", name, name_of(type));
    return o;
  }

  std::vector<Operand> operands;

 private:
  Draft& draft_;
  const std::span<const Row> rows_;
  const Matcher& matched_;
};

void add_attention(Draft& draft, std::span<const Row> rows, const Matcher& matched, bool forward) {
  Roles roles(draft, rows, matched);
  const Operand q = roles.find("q"), k = roles.find("k"), v = roles.find("v"), o = roles.find("o"), m = roles.find("m"),
                z_inv = roles.find("z_inv"), dout = roles.find("do"), dq = roles.find("dq"), dk = roles.find("dk"),
                dv = roles.find("dv"), seed = roles.scalar("seed", DataType::kInt64),
                offset = roles.scalar("offset", DataType::kInt64),
                probability = roles.scalar("probability", DataType::kFloat);
  std::array<Operand, mha::kScalars> scalars;
  std::array<Operand, mha::kAmaxes> amaxes;
  for (const auto& [name, what] : kScalars)
    scalars[static_cast<std::size_t>(what)] = roles.scalar(name, DataType::kFloat);
  for (const auto& [name, what] : kAmaxes)
    amaxes[static_cast<std::size_t>(what)] = roles.scalar(name, DataType::kFloat);
  for (const Operand* needed : {&q, &k, &v, &o, forward ? &q : &dq, forward ? &q : &dk, forward ? &q : &dv})
    require(needed->buffer >= 0, "a tensor of attention that the caller must give is virtual");
  const mha::Problem problem =
      forward ? mha::forward_problem(q.desc, k.desc, v.desc, o.desc)
              : mha::backward_problem(q.desc, k.desc, v.desc, o.desc, dout.desc, dq.desc, dk.desc, dv.desc);
  mha::validate(problem);
  for (const Operand* row : {&m, &z_inv})
    require(row->buffer < 0 || (row->desc.type == DataType::kFloat && row->desc.lens == problem.statistics().lens &&
                                row->desc.packed()),
            "the statistics of attention must be dense fp32 tensors of one element per query");
  const double scale = matched.scale();
  draft.push("attention", roles.operands, problem.work(), [=](Handle& handle) -> Built {
    const search::Call call = mha::search_call(handle, problem, {});
    const auto plan = std::make_shared<const polymio::Plan>(call.first_plan());
    return {[=](const Running& on) {
              const auto at = [&](const Operand& operand) {
                return operand.buffer < 0 ? nullptr : on.address(operand);
              };
              mha::Problem::Args args;
              args.q = at(q);
              args.k = at(k);
              args.v = at(v);
              args.o = at(o);
              args.m = at(m);
              args.z_inv = at(z_inv);
              args.dout = at(dout);
              args.dq = at(dq);
              args.dk = at(dk);
              args.dv = at(dv);
              for (std::size_t i = 0; i < scalars.size(); ++i) args.scalars[i] = at(scalars[i]);
              for (std::size_t i = 0; i < amaxes.size(); ++i) args.amax[i] = at(amaxes[i]);
              args.probability = at(probability);
              args.seed = at(seed);
              args.offset = at(offset);
              args.scale = scale;
              args.workspace = on.scratch;
              args.workspace_bytes = plan->workspace;
              plan->invoke(on.stream, &args);
            },
            plan->workspace};
  });
}

}  // namespace

bool add_attention(Draft& draft, Engine engine) {
  for (const bool forward : {true, false}) {
    const std::span<const Row> rows = forward ? std::span<const Row>(kForward) : kBackward;
    Matcher matcher(draft.graph(), rows);
    if (!matcher.run()) continue;
    if (engine == Engine::kNodes)
      fail(Status::kNotImplemented, "attention with dropout is computed in one step only, not node by node");
    add_attention(draft, rows, matcher, forward);
    return true;
  }
  return false;
}

}  // namespace polymio::graph
