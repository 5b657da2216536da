// MhaHopper: attention of 16 bits on the matrix units of NVIDIA's sm90, heads of up to 128 elements. Tokens are loaded
// by the copy engine.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <memory>

#include "base/math.h"
#include "kernels/gpu/sm90/attention_shape.h"
#include "kernels/gpu/wgmma.h"
#include "primitives/mha/gpu/call.h"
#include "primitives/mha/solvers.h"

namespace polymio::mha {
namespace {

constexpr std::int64_t kMostHead = 128, kBox = 64;  // elements of a head; of a box in shared memory

const char* element_of(DataType t) { return t == DataType::kHalf ? "sm90::Half" : "sm90::Bfloat16"; }
const char* wgmma_type(DataType t) { return t == DataType::kHalf ? "f16" : "bf16"; }
int narrow(std::int64_t n) { return static_cast<int>(n); }

kernels::AttentionStrides strides_of(const TensorDesc& t) {
  const auto stride = [&](std::size_t d) { return t.lens[d] == 1 ? 0 : t.strides[d]; };
  return {stride(0), stride(1), stride(2)};
}

/// As tiles of so many tokens of a head are loaded.
TensorMapSpec map_of(const TensorDesc& t, int tokens) {
  TensorMapSpec map;
  map.element = t.type == DataType::kHalf ? TensorMapSpec::Element::kFloat16 : TensorMapSpec::Element::kBfloat16;
  map.rank = 4;
  for (std::size_t d = 0; d < 4; ++d) {
    map.sizes[d] = t.lens[3 - d];
    map.strides[d] = t.lens[3 - d] == 1 ? 16 : t.strides[3 - d] * static_cast<std::int64_t>(size_of(t.type));
  }
  map.box = {kBox, tokens, 1, 1};
  return map;
}

/// Whether the kernels can load or store tokens of this tensor.
Verdict serves(const TensorDesc& t) {
  constexpr std::int64_t kMostStride = std::int64_t{1} << 38;
  for (std::size_t d = 0; d < 3; ++d) {
    if (t.lens[d] == 1) continue;
    POLYMIO_REQUIRE(t.strides[d] > 0 && t.strides[d] % 8 == 0, "tokens that do not start at multiples of 16 bytes");
    POLYMIO_REQUIRE_MOST(t.strides[d], kMostStride, "elements between tokens, heads or batches");
  }
  return {};
}

/// Of the forward pass, see hopper_forward.cu.
struct ForwardTile {
  int consumers, keys, slots;
  bool ping_pong;

  int rows() const { return 64 * consumers; }
};

struct ForwardArguments {
  TensorMap q, k, v;
  kernels::AttentionShape shape;
  kernels::AttentionStrides of_o, of_bias;
  const void *scalars, *bias;
  void *o, *m, *z_inv, *magnitudes, *taken;
  int works;
};

/// Of the passes backward, see hopper_backward.cu.
struct BackwardTile {
  static constexpr int kConsumers = 2, kRows = 64 * kConsumers;
  int tokens, slots;
};

struct BackwardArguments {
  TensorMap q, k, v, dout;
  kernels::AttentionShape shape;
  int term_rows;
  kernels::AttentionStrides of_o, of_dout, of_dq, of_dk, of_dv, of_bias;
  const void *scalars, *bias, *m, *z_inv, *o, *dout_data;
  void *dq, *dk, *dv, *terms, *magnitudes, *taken;
  int works;
};

class Hopper final : public GpuSolver<Problem> {
 public:
  Hopper(const SolverInfo& info, Direction d) : GpuSolver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    constexpr int kCapability = 90;
    constexpr std::int64_t kMostTokens = std::int64_t{1} << 30, kMostWorks = std::int64_t{1} << 30;
    POLYMIO_REQUIRE(d.kind == DeviceKind::kCuda && d.gpu.compute_capability == kCapability, "the device is no sm90");
    POLYMIO_REQUIRE(p.direction == direction_, "computes another direction");
    POLYMIO_REQUIRE(p.q.type == DataType::kHalf || p.q.type == DataType::kBFloat16, "multiplies fp16 and bf16 only");
    POLYMIO_REQUIRE_MOST(p.head_size(), kMostHead, "head size");
    POLYMIO_REQUIRE(p.head_size() % 8 == 0, "head sizes that are no multiple of 8");
    POLYMIO_REQUIRE_MOST(std::max(p.queries(), p.keys()), kMostTokens, "tokens");
    POLYMIO_REQUIRE_MOST(gpu::blocks_of(std::max(p.queries(), p.keys()), 128, p), kMostWorks, "blocks");
    for (const TensorDesc* t : {&p.q, &p.k, &p.v, &p.o})
      if (const Verdict v = serves(*t); !v) return v;
    if (p.forward()) return {};
    for (const TensorDesc* t : {&p.dout, &p.dq, &p.dk, &p.dv})
      if (const Verdict v = serves(*t); !v) return v;
    return {};
  }

  std::size_t workspace_size(const DeviceInfo&, const Problem& p, const TunePoint&) const override {
    return gpu::workspace_size(p);
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    constexpr double kLaunchUs = 9;
    const double share_of_peak = p.forward() ? 12 : 9;  // of fp32
    return kLaunchUs + p.work() * 1.4 / (std::max(d.fp32_gflops, 1.0) * 1e3 * share_of_peak);
  }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo&, const Problem& p, const TunePoint&) const override {
    std::vector<KernelSpec> all = gpu::call_specs();
    if (p.forward()) {
      const ForwardTile tile = forward_tile(p);
      all.push_back(spec(p, "primitives/mha/cuda/hopper_forward.cu", "AttentionForward", tile.keys,
                         fmt::format("{}, {}, {}, {}", tile.consumers, tile.keys, tile.slots, tile.ping_pong)));
    } else {
      constexpr const char* kSource = "primitives/mha/cuda/hopper_backward.cu";
      const BackwardTile tile = backward_tile(p);
      const std::string text = fmt::format("{}, {}, {}", BackwardTile::kConsumers, tile.tokens, tile.slots);
      for (const char* kernel : {"AttentionQueryGradient", "AttentionKeyGradient"})
        all.push_back(spec(p, kSource, kernel, tile.tokens, text));
    }
    return all;
  }

  Invoker assemble(const DeviceInfo& d, const Problem& p, const TunePoint&, const Kernels& built) const override {
    return p.forward() ? assemble_forward(d, p, built) : assemble_backward(d, p, built);
  }

 private:
  /// `tokens` are the columns of scores.
  static KernelSpec spec(const Problem& p, const char* source, const char* kernel, int tokens,
                         const std::string& tile) {
    KernelSpec spec{source, "attention", {}};
    spec.generated = kernels::wgmma(tokens, wgmma_type(p.q.type), false, false) +
                     kernels::wgmma_of_registers(narrow(head_of(p)), wgmma_type(p.q.type));
    spec.instantiation =
        fmt::format("sm90::{}<{}, {}, {}, {}>", kernel, element_of(p.q.type), head_of(p), tile, p.has_bias());
    return spec;
  }

  /// A block has `rows` tokens of so many tensors in shared memory, and a ring of tiles with `extra` bytes each.
  static std::uint32_t shared_bytes(const Problem& p, int tensors, int rows, int tokens, int slots, int extra) {
    const int boxes = narrow(ceil_div(head_of(p), kBox));
    return static_cast<std::uint32_t>(boxes * (tensors * rows + slots * tokens) * 128 + slots * extra +
                                      (2 * slots + 2) * 8 + rows / 16 * 8 + 8);
  }

  static Invoker assemble_forward(const DeviceInfo& d, const Problem& p, const Kernels& built) {
    const ForwardTile tile = forward_tile(p);
    const std::int64_t works = gpu::blocks_of(p.queries(), tile.rows(), p),
                       blocks = std::min<std::int64_t>(works, d.units);
    Launch shape = launch_shape(128 * (1 + tile.consumers), blocks);
    shape.shared_bytes = shared_bytes(p, 1, tile.rows(), tile.keys, tile.slots, 0);
    const TensorMapSpec q = map_of(p.q, tile.rows()), k = map_of(p.k, tile.keys), v = map_of(p.v, tile.keys);
    return [p, built, shape, works, blocks, q, k, v](Stream& stream, const Args& a) {
      const gpu::Call call(stream, built, a);
      call.collect();
      const Buffer magnitudes = call.part(0);
      ForwardArguments arguments{stream.tensor_map(q, a.q),
                                 stream.tensor_map(k, a.k),
                                 stream.tensor_map(v, a.v),
                                 shape_of(p, a),
                                 strides_of(p.o),
                                 bias_strides(p),
                                 call.scalars().address(),
                                 a.bias,
                                 a.o,
                                 a.m,
                                 a.z_inv,
                                 magnitudes.address(),
                                 call.taken(0).address(),
                                 narrow(works)};
      launch(stream, *built[2], shape, arguments);
      call.finish(magnitudes, blocks, {Amax::kS, Amax::kO});
    };
  }

  static Invoker assemble_backward(const DeviceInfo& d, const Problem& p, const Kernels& built) {
    constexpr int kRows = BackwardTile::kRows, kTermBytes = 16;  // of a query
    const BackwardTile tile = backward_tile(p);
    const std::int64_t q_works = gpu::blocks_of(p.queries(), kRows, p), k_works = gpu::blocks_of(p.keys(), kRows, p);
    const std::int64_t q_blocks = std::min<std::int64_t>(q_works, d.units),
                       k_blocks = std::min<std::int64_t>(k_works, d.units);
    Launch q_shape = launch_shape(128 * (1 + BackwardTile::kConsumers), q_blocks), k_shape = q_shape;
    k_shape.blocks[0] = static_cast<std::uint32_t>(k_blocks);
    q_shape.shared_bytes = shared_bytes(p, 2, kRows, tile.tokens, tile.slots, 0);
    k_shape.shared_bytes = shared_bytes(p, 2, kRows, tile.tokens, tile.slots, tile.tokens * kTermBytes);
    const TensorMapSpec q = map_of(p.q, kRows), dout = map_of(p.dout, kRows);
    const TensorMapSpec k_tile = map_of(p.k, tile.tokens), v_tile = map_of(p.v, tile.tokens);
    const TensorMapSpec k = map_of(p.k, kRows), v = map_of(p.v, kRows);
    const TensorMapSpec q_tile = map_of(p.q, tile.tokens), dout_tile = map_of(p.dout, tile.tokens);
    return [=](Stream& stream, const Args& a) {
      const gpu::Call call(stream, built, a);
      call.collect();
      const std::int64_t rows = gpu::padded_rows(p);
      const Buffer of_q = call.part(4 * rows), of_k = call.part(4 * rows + 2 * q_blocks);
      BackwardArguments arguments{stream.tensor_map(q, a.q),
                                  stream.tensor_map(k_tile, a.k),
                                  stream.tensor_map(v_tile, a.v),
                                  stream.tensor_map(dout, a.dout),
                                  shape_of(p, a),
                                  narrow(round_up(p.queries(), std::int64_t{kRows})),
                                  strides_of(p.o),
                                  strides_of(p.dout),
                                  strides_of(p.dq),
                                  strides_of(p.dk),
                                  strides_of(p.dv),
                                  bias_strides(p),
                                  call.scalars().address(),
                                  a.bias,
                                  a.m,
                                  a.z_inv,
                                  a.o,
                                  a.dout,
                                  a.dq,
                                  a.dk,
                                  a.dv,
                                  call.part(0).address(),
                                  of_q.address(),
                                  call.taken(0).address(),
                                  narrow(q_works)};
      launch(stream, *built[2], q_shape, arguments);
      arguments.q = stream.tensor_map(q_tile, a.q);
      arguments.k = stream.tensor_map(k, a.k);
      arguments.v = stream.tensor_map(v, a.v);
      arguments.dout = stream.tensor_map(dout_tile, a.dout);
      arguments.magnitudes = of_k.address();
      arguments.taken = call.taken(1).address();
      arguments.works = narrow(k_works);
      launch(stream, *built[3], k_shape, arguments);
      call.finish(of_q, q_blocks, {Amax::kDQ, Amax::kDS});
      call.finish(of_k, k_blocks, {Amax::kDK, Amax::kDV});
    };
  }

  /// The head size that the kernels compute with.
  static std::int64_t head_of(const Problem& p) { return round_up(p.head_size(), std::int64_t{16}); }
  static ForwardTile forward_tile(const Problem& p) {
    return head_of(p) > kBox ? ForwardTile{2, 128, 4, true} : ForwardTile{3, 128, 6, false};
  }
  static BackwardTile backward_tile(const Problem& p) {
    return head_of(p) > kBox ? BackwardTile{64, 8} : BackwardTile{128, 6};
  }
  static kernels::AttentionStrides bias_strides(const Problem& p) {
    return p.has_bias() ? strides_of(p.bias) : kernels::AttentionStrides{};
  }
  static kernels::AttentionShape shape_of(const Problem& p, const Args& a) {
    return {narrow(p.heads()),
            narrow(p.queries()),
            narrow(p.keys()),
            narrow(p.head_size()),
            a.mask == Mask::kCausal ? 1 : 0,
            a.m && a.z_inv ? 1 : 0,
            static_cast<float>(a.scale)};
  }

  Direction direction_;
};

}  // namespace

std::unique_ptr<const SolverBase> cuda_hopper(const SolverInfo& info, Direction d) {
  return std::make_unique<Hopper>(info, d);
}

}  // namespace polymio::mha
