// SPDX-License-Identifier: MIT
#include "primitives/rnn/products.h"

#include "base/error.h"

namespace polymio::rnn {

std::size_t multiplier_bytes(const DeviceInfo& device) {
  return device.kind == DeviceKind::kCpu ? 0 : std::size_t{8} << 20;
}

Product make_product(Stream& stream, const TensorDesc& a, const TensorDesc& b, const TensorDesc& c) {
  matmul::Problem p;
  p.a = a;
  p.b = b;
  p.c = c;
  const DeviceInfo& device = stream.info();
  const SolverBase* best = nullptr;
  TunePoint best_point;
  double least = 0;
  for (const SolverBase* solver : matmul::solvers(device.kind)) {
    if (!solver->is_applicable(device, p)) continue;
    auto point = starting_point(*solver, device, p, multiplier_bytes(device));
    if (!point) continue;
    const double us = solver->estimate(device, p, *point);
    if (best && us >= least) continue;
    best = solver;
    best_point = std::move(*point);
    least = us;
  }
  if (!best) fail(Status::kNotImplemented, "no solver on {} can do: {}", device.name, p.key());
  return {best->build(stream, p, best_point)};
}

void Product::run(Stream& stream, const void* a, const void* b, void* c, void* workspace, double beta) const {
  matmul::Problem::Args args;
  args.a = a;
  args.b = b;
  args.c = c;
  args.beta = beta;
  args.workspace = workspace;
  args.workspace_bytes = workspace ? multiplier_bytes(stream.info()) : 0;
  invoke(stream, &args);
}

}  // namespace polymio::rnn
