// MhaGpu: tiles of 64 queries by 64 keys in fp32, any type and head size. MhaCudaMatrix: the same tiles by matrix
// units, 16 bits and heads of up to 128 elements. Backward stores a sum for each query in the workspace.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "primitives/mha/gpu/call.h"
#include "primitives/mha/solvers.h"

namespace polymio::mha {
namespace {

constexpr std::int64_t kRows = 64, kThreads = 256, kMatrixThreads = 128;  // of a block, as in the kernels
constexpr std::int64_t kMostMatrixHead = 128;

/// As in the kernels.
struct Strides {
  std::int64_t step[5][3] = {};

  void set(int number, const TensorDesc& t) {
    for (std::size_t d = 0; d < 3; ++d) step[number][d] = t.lens[d] == 1 ? 0 : t.strides[d];
  }
};
struct Shape {
  int heads, queries, keys, head_size, causal, has_bias, has_statistics, is_aligned;
  float scale;
};

std::int64_t blocks_of(std::int64_t tokens, const Problem& p) { return gpu::blocks_of(tokens, kRows, p); }

std::vector<KernelSpec> specs(DataType type, DataType dout, std::int64_t head_size, Direction direction,
                              bool by_matrix_units = false) {
  const std::vector<std::string> options = {
      fmt::format("-DIN={}", polymio::name_of(type)), fmt::format("-DOUT={}", polymio::name_of(type)),
      fmt::format("-DDOUT={}", polymio::name_of(dout)), "-DNUM=float",
      fmt::format("-DHEAD={}", (std::min(head_size, gpu::kPartOfHead) + 15) / 16 * 16)};
  std::vector<KernelSpec> all = gpu::call_specs();
  if (direction == Direction::kForward) {
    all.push_back({by_matrix_units ? "primitives/mha/cuda/forward_matrix.cl" : "primitives/mha/gpu/forward.cl",
                   "forward", options});
  } else {
    for (const char* entry : {"gradient_q", "gradient_kv"})
      all.push_back({by_matrix_units ? "primitives/mha/cuda/backward_matrix.cl" : "primitives/mha/gpu/backward.cl",
                     entry, options});
  }
  return all;
}

/// A call on a stream.
class Run {
 public:
  Run(Stream& stream, const Problem& p, const Kernels& kernels, const Problem::Args& a)
      : stream_(stream), p_(p), kernels_(kernels), a_(a), call_(stream, kernels, a) {
    const auto number = [](std::int64_t n) { return static_cast<int>(n); };
    shape_ = {number(p.heads()),
              number(p.queries()),
              number(p.keys()),
              number(p.head_size()),
              a.mask == Mask::kCausal ? 1 : 0,
              p.has_bias() ? 1 : 0,
              a.m && a.z_inv ? 1 : 0,
              is_aligned() ? 1 : 0,
              static_cast<float>(a.scale)};
    strides_.set(0, p.q);
    strides_.set(1, p.k);
    strides_.set(2, p.v);
    strides_.set(3, p.o);
    if (p.has_bias()) strides_.set(4, p.bias);
  }

  void forward(std::int64_t threads) {
    call_.collect();
    const std::int64_t blocks = blocks_of(p_.queries(), p_), parts = gpu::parts_of_head(p_);
    const Buffer magnitudes = call_.part(0);
    launch(stream_, *kernels_[2], launch_shape(threads, blocks, parts), Buffer(a_.q), Buffer(a_.k), Buffer(a_.v),
           Buffer(a_.o), call_.given(a_.bias), call_.given(a_.m), call_.given(a_.z_inv), call_.scalars(), magnitudes,
           strides_, shape_);
    call_.finish(magnitudes, blocks * parts, {Amax::kS, Amax::kO});
  }

  void backward(std::int64_t threads) {
    call_.collect();
    Strides more;
    more.set(0, p_.dout);
    more.set(1, p_.dq);
    more.set(2, p_.dk);
    more.set(3, p_.dv);
    const std::int64_t q_blocks = blocks_of(p_.queries(), p_), k_blocks = blocks_of(p_.keys(), p_);
    const std::int64_t parts = gpu::parts_of_head(p_);
    const Buffer deltas = call_.part(0), of_q = call_.part(p_.rows()),
                 of_k = call_.part(p_.rows() + 2 * q_blocks * parts);
    launch(stream_, *kernels_[2], launch_shape(threads, q_blocks, parts), Buffer(a_.q), Buffer(a_.k), Buffer(a_.v),
           Buffer(a_.o), call_.given(a_.bias), Buffer(a_.m), Buffer(a_.z_inv), Buffer(a_.dout), Buffer(a_.dq),
           call_.scalars(), deltas, of_q, strides_, more, shape_);
    launch(stream_, *kernels_[3], launch_shape(threads, k_blocks, parts), Buffer(a_.q), Buffer(a_.k), Buffer(a_.v),
           call_.given(a_.bias), Buffer(a_.m), Buffer(a_.z_inv), Buffer(a_.dout), Buffer(a_.dk), Buffer(a_.dv),
           call_.scalars(), deltas, of_k, strides_, more, shape_);
    call_.finish(of_q, q_blocks * parts, {Amax::kDQ, Amax::kDS});
    call_.finish(of_k, k_blocks * parts, {Amax::kDK, Amax::kDV});
  }

 private:
  /// Whether all tokens of q, k, v and dout start at multiples of 16 bytes and heads end at them.
  bool is_aligned() const {
    const std::pair<const TensorDesc&, const void*> inputs[] = {
        {p_.q, a_.q}, {p_.k, a_.k}, {p_.v, a_.v}, {p_.dout, a_.dout}};
    const auto unit = static_cast<std::int64_t>(16 / size_of(p_.q.type));
    for (const auto& [t, data] : inputs) {
      if (reinterpret_cast<std::uintptr_t>(data) % 16 != 0) return false;
      for (std::size_t d = 0; d < 3; ++d)  // no dout: no sizes
        if (t.lens[d] > 1 && t.strides[d] % unit != 0) return false;
    }
    return p_.head_size() % unit == 0;
  }

  Stream& stream_;
  const Problem& p_;
  const Kernels& kernels_;
  const Problem::Args& a_;
  const gpu::Call call_;
  Shape shape_;
  Strides strides_;
};

class GpuTiles final : public GpuSolver<Problem> {
 public:
  GpuTiles(const SolverInfo& info, Direction d, bool by_matrix_units)
      : GpuSolver(info), direction_(d), by_matrix_units_(by_matrix_units) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    constexpr std::int64_t kMostBlocks = (std::int64_t{1} << 31) - 1, kMostTokens = kMostBlocks - kRows;
    constexpr std::int64_t kMostParts = 65535;  // of a grid's second dimension
    POLYMIO_REQUIRE(d.kind != DeviceKind::kCpu, "does not run on this kind of device");
    POLYMIO_REQUIRE(p.direction == direction_, "computes another direction");
    if (by_matrix_units_) {
      const bool is_16_bit = p.q.type == DataType::kHalf || p.q.type == DataType::kBFloat16;
      POLYMIO_REQUIRE(d.kind == DeviceKind::kCuda && d.gpu.compute_capability >= 80,
                      "the device has no such matrix units");
      POLYMIO_REQUIRE(is_16_bit, "multiplies fp16 and bf16 only");
      POLYMIO_REQUIRE_MOST(p.head_size(), kMostMatrixHead, "head size");
    }
    POLYMIO_REQUIRE(d.gpu.block_threads >= kThreads, "the device has too few threads per block");
    POLYMIO_REQUIRE_MOST(gpu::parts_of_head(p), kMostParts, "parts of a head");
    POLYMIO_REQUIRE_MOST(p.queries(), kMostTokens, "queries");
    POLYMIO_REQUIRE_MOST(p.keys(), kMostTokens, "keys");
    const std::int64_t blocks = std::max(blocks_of(p.queries(), p), blocks_of(p.keys(), p));
    POLYMIO_REQUIRE_MOST(blocks, kMostBlocks / 2 / gpu::parts_of_head(p), "blocks");
    return {};
  }

  std::size_t workspace_size(const DeviceInfo&, const Problem& p, const TunePoint&) const override {
    return gpu::workspace_size(p);
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    constexpr double kLaunchUs = 9;
    const double share_of_peak = by_matrix_units_ ? p.forward() ? 1.4 : 1.1 : 0.3;  // of fp32
    return kLaunchUs + p.work() * 1.4 / (std::max(d.fp32_gflops, 1.0) * 1e3 * share_of_peak);
  }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo&, const Problem& p, const TunePoint&) const override {
    return specs(p.q.type, p.forward() ? p.q.type : p.dout.type, p.head_size(), p.direction, by_matrix_units_);
  }

  Invoker assemble(const DeviceInfo&, const Problem& p, const TunePoint&, const Kernels& built) const override {
    return [p, built, threads = by_matrix_units_ ? kMatrixThreads : kThreads](Stream& stream, const Args& a) {
      Run run(stream, p, built, a);
      p.forward() ? run.forward(threads) : run.backward(threads);
    };
  }

 private:
  Direction direction_;
  bool by_matrix_units_;
};

}  // namespace

std::unique_ptr<const SolverBase> gpu_tiles(const SolverInfo& info, Direction d) {
  return std::make_unique<GpuTiles>(info, d, false);
}
std::unique_ptr<const SolverBase> cuda_matrix_tiles(const SolverInfo& info, Direction d) {
  return std::make_unique<GpuTiles>(info, d, true);
}

}  // namespace polymio::mha
