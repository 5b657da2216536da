// Random convolutions as driver lines, so that a finding is a line of a case file.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <stdexcept>

#include "base/error.h"
#include "buffer.h"
#include "differential.h"
#include "tests/convolution/trial.h"

namespace polymio::fuzz {
namespace {

using convolution::Problem;
using test::Trial;
using Sizes = std::vector<std::int64_t>;

/// A size that is mostly small, sometimes close to a multiple of the vector length.
std::int64_t random_size(Random& r, std::int64_t most) {
  const std::int64_t size =
      r.one_in(3) ? r.pick<std::int64_t>({7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 64, 65, 96, 130}) : r.between(1, 6);
  return std::min(size, most);
}

void draw_channels(Random& r, driver::ConvArgs& args) {
  const std::uint64_t kind = r.below(6);
  if (kind == 0) {  // depthwise
    args.groups = args.in_channels = random_size(r, 70);
    args.out_channels = args.in_channels * r.pick<std::int64_t>({1, 1, 1, 2, 3});
  } else if (kind == 1) {
    args.groups = r.between(2, 6);
    args.in_channels = args.groups * random_size(r, 33);
    args.out_channels = args.groups * random_size(r, 33);
  } else {
    args.groups = 1;
    args.in_channels = random_size(r, 130);
    args.out_channels = random_size(r, 130);
  }
}

void draw_axis(Random& r, std::int64_t& in, std::int64_t& filter, std::int64_t& pad, std::int64_t& stride,
               std::int64_t& dilation) {
  in = random_size(r, 130);
  filter = r.pick<std::int64_t>({1, 1, 2, 3, 3, 3, 4, 5, 7, r.between(1, 14)});
  pad = r.one_in(3) ? 0 : r.one_in(6) ? r.between(0, filter + 2) : r.below(2) ? filter / 2 : r.between(0, filter - 1);
  stride = r.pick<std::int64_t>({1, 1, 1, 2, 2, 3, filter, r.between(1, 6)});
  dilation = r.pick<std::int64_t>({1, 1, 1, 1, 2, 3});
}

void draw_types(Random& r, driver::ConvArgs& args) {
  args.base = r.pick<const char*>(
      {"conv", "conv", "conv", "convfp16", "convfp16", "convbfp16", "convbfp16", "convint8", "convint8", "convfp64"});
  if (args.base == "convint8") {
    args.directions = driver::kForward;
    args.out_type = r.pick({int{driver::kNoType}, int{driver::kInt8}, int{driver::kFloat}});
    args.alpha = r.pick({1.0, 1.0, 0.25});
  } else {
    args.directions = r.pick({int{driver::kForward}, int{driver::kBackwardData}, int{driver::kBackwardWeights}});
    args.alpha = r.pick({1.0, 1.0, 1.0, 0.5, -2.0, 0.0});
  }
  args.beta = r.pick({0.0, 0.0, 0.0, 1.0, -0.5});
}

double products(const driver::ConvArgs& args, const Sizes& lens) {
  double count = static_cast<double>(args.in_channels) / static_cast<double>(args.groups);
  for (const std::int64_t size : lens) count *= static_cast<double>(size);
  for (int i = 0; i < args.spatial_dim; ++i)
    count *= static_cast<double>(i == 0 ? args.fil_w : i == 1 ? args.fil_h : args.fil_d);
  return count;
}

/// 3x3, 5x5 and 7x7 filters of dense tensors, which have the most solvers.
driver::ConvArgs draw_usual(Random& r) {
  driver::ConvArgs args;
  draw_types(r, args);
  if (r.below(2) && args.base != "convint8") args.base = "conv";
  args.batch = r.between(1, 3);
  args.in_channels = random_size(r, 70);
  args.out_channels = random_size(r, 70);
  args.in_h = r.between(3, 30);
  args.in_w = r.between(3, 30);
  args.fil_h = args.fil_w = r.pick<std::int64_t>({3, 3, 3, 5, 7});
  args.pad_h = args.pad_w = r.pick<std::int64_t>({args.fil_h / 2, 0, 1});
  args.stride_h = args.stride_w = r.pick<std::int64_t>({1, 1, 1, 2});
  return args;
}

driver::ConvArgs draw(Random& r) {
  if (r.one_in(4)) return draw_usual(r);
  driver::ConvArgs args;
  draw_types(r, args);
  args.spatial_dim = r.pick<std::int64_t>({1, 2, 2, 2, 2, 3});
  args.batch = r.pick<std::int64_t>({1, 1, 2, 2, 3, 5, 8, 33});
  draw_channels(r, args);
  draw_axis(r, args.in_w, args.fil_w, args.pad_w, args.stride_w, args.dilation_w);
  if (args.spatial_dim > 1) draw_axis(r, args.in_h, args.fil_h, args.pad_h, args.stride_h, args.dilation_h);
  if (args.spatial_dim > 2) draw_axis(r, args.in_d, args.fil_d, args.pad_d, args.stride_d, args.dilation_d);
  if (args.spatial_dim == 2 && r.one_in(2)) {  // square, the most frequent case
    args.fil_h = args.fil_w;
    args.pad_h = args.pad_w;
    args.stride_h = args.stride_w;
    args.dilation_h = args.dilation_w;
  }
  args.transpose = args.base != "convint8" && r.one_in(10);
  return args;
}

/// A problem of at most `most` products, or null after too many attempts.
std::unique_ptr<driver::Problem> draw_problem(Random& r) {
  const double most = r.one_in(8) ? 6e6 : 5e5;
  for (int tries = 0; tries < 1000; ++tries) {
    driver::ConvArgs args = draw(r);
    const auto direction = static_cast<driver::Direction>(args.directions);
    try {
      const driver::Problem plain(args, direction);
      if (products(args, plain.tensors[driver::kY].lens) > most) continue;
      const bool x = direction != driver::kBackwardData, w = direction != driver::kBackwardWeights;
      if (r.one_in(4)) {
        args.in_layout = args.wei_layout = args.out_layout = args.spatial_dim == 1   ? "NWC"
                                                             : args.spatial_dim == 2 ? "NHWC"
                                                                                     : "NDHWC";
      } else if (!r.one_in(4)) {
        args.in_strides = random_strides(r, plain.tensors[driver::kX].lens, x);
        args.wei_strides = random_strides(r, plain.tensors[driver::kW].lens, w);
        args.out_strides = random_strides(r, plain.tensors[driver::kY].lens, direction != driver::kForward);
      }
      auto problem = std::make_unique<driver::Problem>(args, direction);
      test::translate(*problem);
      return problem;
    } catch (const driver::RunError&) {
    } catch (const Error&) {
    }
  }
  return nullptr;
}

bool gaps_untouched(const Trial& t, const unsigned char* result) {
  const auto mask = reference::element_bytes(t.source.math.output());
  const bool kept = t.source.args.beta != 0;
  for (std::size_t i = 0; i < mask.size(); ++i)
    if (!mask[i] && result[i] != (kept ? t.output_before()[i] : kUnused)) return false;
  return true;
}

/// Runs one solver at one point and compares.
bool run(Handle& handle, Random& r, const Trial& t, const SolverBase& solver, const TunePoint& point) {
  const Problem& p = t.problem;
  const std::size_t bytes = solver.workspace_size(handle.device(), p, point);
  Buffer x(handle, t.x.size(), random_alignment(r, size_of(p.x.type)), r),
      w(handle, t.w.size(), random_alignment(r, size_of(p.w.type)), r),
      y(handle, t.y.size(), random_alignment(r, size_of(p.y.type)), r),
      space(handle, bytes, random_alignment(r, sizeof(double)), r);
  Buffer& out = p.direction == convolution::Direction::kForward        ? y
                : p.direction == convolution::Direction::kBackwardData ? x
                                                                       : w;
  const auto load = [&](Buffer& b, const std::vector<unsigned char>& content) {
    if (&b != &out || t.source.args.beta != 0) b.fill(content);
  };
  load(x, t.x);
  load(w, t.w);
  load(y, t.y);
  for (Buffer* b : {&x, &w, &y, &space}) b->upload();
  const Problem::Args args{.x = x.device(),
                           .w = w.device(),
                           .y = y.device(),
                           .alpha = t.source.args.alpha,
                           .beta = t.source.args.beta,
                           .workspace = space.device(),
                           .workspace_bytes = bytes,
                           .seed = 7};
  solver.build(handle.stream(), p, point)(handle.stream(), &args);
  for (Buffer* b : {&x, &w, &y, &space}) b->download();
  for (Buffer* b : {&x, &w, &y, &space})
    if (!b->is_intact()) return report("wrote outside a tensor or its workspace");
  const auto untouched = [&](Buffer& b, const auto& content) { return &b == &out || b.holds(content); };
  if (!untouched(x, t.x) || !untouched(w, t.w) || !untouched(y, t.y)) return report("changed an input");
  const auto c = t.compare(solver, out.host());
  if (!c.ok()) {
    return report(std::to_string(c.failures) + " outputs are wrong; the worst is " + std::to_string(c.index) + ": " +
                  std::to_string(c.got) + ", should be " + std::to_string(c.want) + " +- " +
                  std::to_string(c.tolerance));
  }
  return gaps_untouched(t, out.host()) || report("wrote between the elements of the output");
}

}  // namespace

bool convolution_case(Handle& handle, Random& r, Tally& tally) {
  constexpr std::size_t kPoints = 3;  // tune points of a solver beside the default
  const auto source = draw_problem(r);
  if (!source) {
    ++tally.refused;
    return true;
  }
  const std::string line = source->line();
  set_current(line);
  const Trial trial(*source, test::Gaps::kNan, r.bits());
  ++tally.problems;
  Constraints any;
  any.math = MathMode::kAny;
  bool ok = true;
  for (const SolverBase* solver : convolution::solvers(trial.problem.direction, handle.device().kind)) {
    if (!admit(*solver, handle.device(), trial.problem, any)) continue;
    std::vector<TunePoint> points = valid_points(*solver, handle.device(), trial.problem);
    for (std::size_t i = 0; i < std::min(points.size(), kPoints); ++i)
      std::swap(points[i], points[i + r.below(points.size() - i)]);
    points.resize(std::min(points.size(), kPoints));
    points.push_back(solver->default_point(handle.device(), trial.problem));
    for (const TunePoint& point : points) {
      set_current(line + " -S " + solver->info().name + " at " + to_text(point) + " with " +
                  std::to_string(handle.stream().threads()) + " threads");
      ++tally.runs[solver->info().name];
      ok = run(handle, r, trial, *solver, point) && ok;
    }
  }
  return ok;
}

}  // namespace polymio::fuzz
