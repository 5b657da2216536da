// ActivCpuStrided: any strides. Rows that are contiguous in every tensor are computed in place; other
// elements are gathered into a block, computed on and scattered.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstring>
#include <memory>

#include "kernels/cpu/kernels_of.h"
#include "primitives/activation/grid.h"
#include "primitives/activation/solvers.h"

namespace polymio::activation {
namespace {

constexpr std::int64_t kBlock = 512;     // elements; the buffers of a block stay in the L1 cache
constexpr std::int64_t kLongRun = 64;    // the shortest run that is computed in place by a kernel call of its own
constexpr std::int64_t kPart = 1 << 14;  // elements per task

template <class T>
void gather(const void* from, Cursor at, std::size_t operand, std::int64_t stride, std::int64_t n, void* to) {
  const T* src = static_cast<const T*>(from);
  T* dst = static_cast<T*>(to);
  for (std::int64_t done = 0; done < n;) {
    const std::int64_t m = std::min(at.run(), n - done), base = at.offset(operand);
    for (std::int64_t i = 0; i < m; ++i) dst[done + i] = src[base + i * stride];
    at.advance(m);
    done += m;
  }
}

template <class T>
void scatter(const void* from, Cursor at, std::int64_t stride, std::int64_t n, void* to) {
  const T* src = static_cast<const T*>(from);
  T* dst = static_cast<T*>(to);
  for (std::int64_t done = 0; done < n;) {
    const std::int64_t m = std::min(at.run(), n - done), base = at.offset(0);
    for (std::int64_t i = 0; i < m; ++i) dst[base + i * stride] = src[done + i];
    at.advance(m);
    done += m;
  }
}

/// T is an unsigned integer of the size of an element.
template <class T>
class Pass {
 public:
  Pass(const Grid& grid, const kernels::ActivationKernels& kernels, const kernels::Activation& job)
      : grid_(grid), kernels_(kernels), job_(job), in_place_(grid.contiguous()) {}

  void run(std::int64_t first, std::int64_t end) const {
    Cursor at(grid_, first);
    for (std::int64_t i = first; i < end;) {
      const std::int64_t run = std::min(at.run(), end - i);
      const bool row = in_place_ && run >= kLongRun;
      const std::int64_t n = row ? run : std::min(end - i, kBlock);
      row ? compute_row(at, n) : compute_block(at, n);
      i += n;
    }
  }

 private:
  void compute_row(Cursor& at, std::int64_t n) const {
    kernels::Activation job = job_;
    job.result = static_cast<T*>(job_.result) + at.offset(0);
    job.x = static_cast<const T*>(job_.x) + at.offset(1);
    if (job_.dy) job.dy = static_cast<const T*>(job_.dy) + at.offset(2);
    kernels_.run(job, 0, n);
    at.advance(n);
  }

  void compute_block(Cursor& at, std::int64_t n) const {
    alignas(64) T result[kBlock], x[kBlock], dy[kBlock];
    const auto& strides = grid_.inner().strides;
    kernels::Activation job = job_;
    gather<T>(job_.x, at, 1, strides[1], n, x);
    if (job_.dy) gather<T>(job_.dy, at, 2, strides[2], n, dy);
    if (job_.keep != 0) gather<T>(job_.result, at, 0, strides[0], n, result);
    job.x = x;
    job.dy = dy;
    job.result = result;
    kernels_.run(job, 0, n);
    scatter<T>(result, at, strides[0], n, job_.result);
    for (std::int64_t done = 0; done < n;) {
      const std::int64_t m = std::min(at.run(), n - done);
      at.advance(m);
      done += m;
    }
  }

  const Grid& grid_;
  const kernels::ActivationKernels& kernels_;
  const kernels::Activation& job_;
  bool in_place_;
};

template <class T>
void run_as(Stream& stream, const Grid& grid, const kernels::ActivationKernels& kernels,
            const kernels::Activation& job) {
  const Pass<T> pass(grid, kernels, job);
  for_parts(stream, grid.count(), kPart, [&](std::int64_t first, std::int64_t end) { pass.run(first, end); });
}

class CpuStrided final : public Solver<Problem> {
 public:
  CpuStrided(const SolverInfo& info, Direction d) : Solver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo&, const Problem& p) const override {
    POLYMIO_REQUIRE(p.direction == direction_, "computes another direction");
    return {};
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    // Elements are copied one by one, and each may load a cache line.
    const double copies = 1e-3 * static_cast<double>(p.count()) / d.threads;
    return copies + 3 * p.work() / std::max(d.bandwidth_gbs, 1.0) * 1e-3 + arithmetic_us(d, p) + 2;
  }

  Invoker build(Stream& stream, const Problem& p, const TunePoint&) const override {
    const auto& kernels = kernels::kernels_of<kernels::ActivationKernels>(stream.info().isa);
    return [p, grid = grid_of(p), &kernels](Stream& on, const Args& args) {
      run_strided(on, grid, kernels, kernel_job(p, args));
    };
  }

 private:
  Direction direction_;
};

}  // namespace

void run_strided(Stream& stream, const Grid& grid, const kernels::ActivationKernels& kernels,
                 const kernels::Activation& job) {
  switch (size_of(job.type)) {
    case 2: return run_as<std::uint16_t>(stream, grid, kernels, job);
    case 4: return run_as<std::uint32_t>(stream, grid, kernels, job);
    default: return run_as<std::uint64_t>(stream, grid, kernels, job);
  }
}

std::unique_ptr<const SolverBase> cpu_strided(const SolverInfo& info, Direction d) {
  return std::make_unique<CpuStrided>(info, d);
}

}  // namespace polymio::activation
