// Random activations and gradients: every solver at several tune points, in place or not.
// SPDX-License-Identifier: MIT
#include "primitives/activation/activation.h"

#include <algorithm>

#include "base/error.h"
#include "buffer.h"
#include "differential.h"
#include "reference/activation.h"
#include "tests/convolution/trial.h"

namespace polymio::fuzz {
namespace {

namespace ref = polymio::reference;
using activation::Mode;
using activation::Problem;
constexpr activation::Parameters kParameters{0.75, 1.25, 1.5};  // exact in every type

struct Operand {
  ref::Tensor plain;
  TensorDesc desc;
  std::vector<unsigned char> content;

  Operand(Random& r, DataType type, const std::vector<std::int64_t>& lens, bool overlaps)
      : plain(static_cast<ref::Type>(type), lens, random_strides(r, lens, overlaps)),
        desc(make_tensor(type, lens, plain.strides)),
        content(test::random_tensor(plain, r.bits(), test::Gaps::kNan)) {}
};

struct Case {
  Operand x, y, dy, dx;
  double scale, keep;
  bool in_place;
};

bool run(Handle& handle, Random& r, const Case& c, const Problem& p, const SolverBase& solver, const TunePoint& point) {
  const Operand& out = p.forward() ? c.y : c.dx;
  const std::size_t element = size_of(p.x.type);
  Buffer x(handle, c.x.content.size(), random_alignment(r, element), r),
      dy(handle, c.dy.content.size(), random_alignment(r, element), r),
      result(handle, out.content.size(), random_alignment(r, element), r);
  x.fill(c.x.content);
  dy.fill(c.dy.content);
  if (c.keep != 0) result.fill(out.content);
  for (Buffer* b : {&x, &dy, &result}) b->upload();
  Problem::Args args;
  args.x = x.device();
  args.dy = p.forward() ? nullptr : dy.device();
  args.result = c.in_place ? x.device() : result.device();
  args.parameters = kParameters;
  args.scale = c.scale;
  args.keep = c.keep;
  solver.build(handle.stream(), p, point)(handle.stream(), &args);
  for (Buffer* b : {&x, &dy, &result}) b->download();
  for (Buffer* b : {&x, &dy, &result})
    if (!b->is_intact()) return report("wrote outside a tensor");
  if ((!c.in_place && !x.holds(c.x.content)) || !dy.holds(c.dy.content)) return report("changed an input");

  ref::Activation wanted;
  wanted.mode = static_cast<ref::ActivationMode>(p.mode);
  wanted.backward = !p.forward();
  wanted.alpha = kParameters.alpha;
  wanted.beta = kParameters.beta;
  wanted.gamma = kParameters.gamma;
  wanted.scale = c.scale;
  wanted.keep = c.keep;
  wanted.x = c.x.plain;
  wanted.dy = c.dy.plain;
  wanted.out = out.plain;
  const auto& old = c.in_place ? c.x.content : out.content;
  const auto expected = evaluate(wanted, c.x.content.data(), c.dy.content.data(), old.data());
  const unsigned char* const got = c.in_place ? x.host() : result.host();
  const auto found = ref::compare(arithmetic(wanted), out.plain, got, expected);
  if (!found.ok()) {
    return report("element " + std::to_string(found.index) + " is " + std::to_string(found.got) + ", should be " +
                  std::to_string(found.want) + " +- " + std::to_string(found.tolerance));
  }
  const auto mask = ref::element_bytes(out.plain);
  for (std::size_t i = 0; i < mask.size(); ++i)
    if (!mask[i] && got[i] != kUnused) return report("wrote between the elements of the output");
  return true;
}

}  // namespace

bool activation_case(Handle& handle, Random& r, Tally& tally) {
  const DataType type = r.pick({DataType::kFloat, DataType::kHalf, DataType::kBFloat16, DataType::kDouble});
  const auto lens = random_lens(r, r.between(1, activation::kMostRank));
  const bool backward = r.one_in(2);
  Case c{{r, type, lens, true}, {r, type, lens, backward}, {r, type, lens, true}, {r, type, lens, false}, 1, 0, false};
  c.scale = r.pick({1.0, 1.0, 0.5});
  c.keep = r.pick({0.0, 0.0, -2.0});
  Operand& out = backward ? c.dx : c.y;
  c.in_place = r.one_in(4);
  if (c.in_place) out = c.x;
  const Mode mode = static_cast<Mode>(r.below(activation::kModes));
  const Problem p = backward ? activation::backward_problem(mode, c.x.desc, c.y.desc, c.dy.desc, c.dx.desc)
                             : activation::forward_problem(mode, c.x.desc, c.y.desc);
  set_current(p.key());
  try {
    activation::validate(p);
  } catch (const Error&) {
    ++tally.refused;
    return true;
  }
  ++tally.problems;
  bool ok = true;
  for (const SolverBase* solver : activation::solvers(p.direction, handle.device().kind)) {
    if (!admit(*solver, handle.device(), p, {})) continue;
    std::vector<TunePoint> points = valid_points(*solver, handle.device(), p);
    points.push_back(solver->default_point(handle.device(), p));
    for (const TunePoint& point : {points[r.below(points.size())], points.back()}) {
      set_current(p.key() + " -S " + solver->info().name + " at " + to_text(point));
      ++tally.runs[solver->info().name];
      ok = run(handle, r, c, p, *solver, point) && ok;
    }
  }
  return ok;
}

}  // namespace polymio::fuzz
