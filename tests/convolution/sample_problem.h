// Problems and buffers for tests that run solvers directly.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstring>
#include <random>
#include <vector>

#include "../random.h"
#include "primitives/convolution/convolution.h"

namespace polymio::convolution {

using Sizes = std::vector<std::int64_t>;

inline constexpr Direction kDirections[] = {Direction::kForward, Direction::kBackwardData, Direction::kBackwardWeights};

struct Shape {
  Sizes x, w, pad = {}, stride = {}, dilation = {};
  std::int64_t groups = 1;
  DataType type = DataType::kFloat, out = DataType::kFloat;  // `out` is used for int8 only
  bool channels_last = false;
  std::int64_t gap = 1;  // distance of neighbours in the innermost dimension
};

inline TensorDesc tensor(const Shape& s, DataType type, const Sizes& lens) {
  Sizes strides(lens.size());
  std::int64_t step = s.gap;
  const auto place = [&](std::size_t d) {
    strides[d] = step;
    step *= lens[d];
  };
  if (s.channels_last) place(1);
  for (std::size_t d = lens.size() - 1; d > 1; --d) place(d);
  if (!s.channels_last) place(1);
  place(0);
  return make_tensor(type, lens, strides);
}

inline Problem problem(Direction direction, const Shape& s) {
  Problem p;
  p.direction = direction;
  p.geometry.spatial = static_cast<int>(s.x.size()) - 2;
  p.geometry.groups = s.groups;
  Sizes y = {s.x[0], s.w[0]};
  for (std::size_t i = 0; i + 2 < s.x.size(); ++i) {
    if (!s.pad.empty()) p.geometry.pad[i] = s.pad[i];
    if (!s.stride.empty()) p.geometry.stride[i] = s.stride[i];
    if (!s.dilation.empty()) p.geometry.dilation[i] = s.dilation[i];
    y.push_back(forward_size(s.x[i + 2], s.w[i + 2], p.geometry.pad[i], p.geometry.stride[i], p.geometry.dilation[i]));
  }
  const DataType out = s.type == DataType::kInt8 ? s.out : s.type;
  const auto type = [&](Direction d) { return direction == d ? out : s.type; };
  p.x = tensor(s, type(Direction::kBackwardData), s.x);
  p.w = tensor(s, type(Direction::kBackwardWeights), s.w);
  p.y = tensor(s, type(Direction::kForward), y);
  validate(p);
  return p;
}

/// Three tensors of random values, and a workspace.
struct Data {
  std::vector<unsigned char> x, w, y, workspace;
  Problem::Args args{};

  explicit Data(const Problem& p) : x(p.x.bytes()), w(p.w.bytes()), y(p.y.bytes()) {
    fill(p.x, x, 1);
    fill(p.w, w, 2);
    fill(p.y, y, 3);
    args.x = x.data();
    args.w = w.data();
    args.y = y.data();
  }
  std::vector<unsigned char>& output(const Problem& p) {
    return p.direction == Direction::kForward ? y : p.direction == Direction::kBackwardData ? x : w;
  }
  void provide_workspace(std::size_t bytes) {
    workspace.resize(bytes);
    args.workspace = bytes ? workspace.data() : nullptr;
    args.workspace_bytes = bytes;
  }
  static void fill(const TensorDesc& t, std::vector<unsigned char>& to, std::uint64_t seed) {
    std::mt19937_64 engine(seed);
    std::uniform_int_distribution<int> integer(-100, 100);
    const std::int64_t count = t.space();
    for (std::int64_t i = 0; i < count; ++i)
      dtype::store(t.type, to.data(), i, is_integer(t.type) ? integer(engine) : test::random_unit(engine));
  }
};

/// Runs the solver once at its default point.
inline void run_solver(Handle& handle, const SolverBase& solver, const Problem& p, Data& data) {
  const TunePoint point = solver.default_point(handle.device(), p);
  data.provide_workspace(solver.workspace_size(handle.device(), p, point));
  solver.build(handle.stream(), p, point)(handle.stream(), &data.args);
}

inline const SolverBase& reference_solver(Direction d) {
  for (const SolverBase* s : solvers(d))
    if (s->info().reference) return *s;
  throw std::logic_error("there is no reference solver");
}

}  // namespace polymio::convolution
