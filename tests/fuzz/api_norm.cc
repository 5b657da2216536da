// The API fuzzer's calls of normalizations.
// SPDX-License-Identifier: MIT
#include "fuzz/api.h"
#include "reference/norm.h"

namespace polymio::fuzz {
namespace {

using ref::NormKind;
using Lens = std::vector<std::int64_t>;

/// The tensors of a call, in random layouts, and the arguments that every function has.
struct Call {
  Call(World& world, NormKind kind) : w(world), d(world), p(problem(d.random(), kind)) {
    x.fill(-4, 4);
    x2.fill(-4, 4);
    dy.fill(-3, 3);
    for (Operand* o : {&weight, &bias, &mean}) o->fill(-2, 2);
    rstd.fill(1, 3);
    handle = d.object<miopenHandle_t>(Kind::kHandle);
    const int first = kind == NormKind::kAddLayer ? 2 : kind == NormKind::kRms ? 4 : 0;
    mode = d.enumerator<miopenNormMode_t>({first + (p.affine ? 1 : 0)}, {-1, first == 0 ? 5 : first - 1, first + 2});
    dim = static_cast<std::int32_t>(p.first);
    if (kind != NormKind::kRms && kind != NormKind::kGroup && d.wrong()) {
      dim = d.random().pick({-1, 6, INT_MAX, INT_MIN});
      d.bad();
    }
    epsilon = static_cast<float>(p.epsilon);
  }
  static ref::Norm problem(Random& random, NormKind kind) {
    ref::Norm n;
    n.kind = kind;
    n.affine = random.one_in(2);
    n.epsilon = 0.25;
    const bool group = kind == NormKind::kGroup;
    Lens lens(static_cast<std::size_t>(random.between(group ? 3 : 1, 5)));
    for (auto& size : lens) size = random.between(1, 5);
    if (group) lens[1] *= n.groups = random.between(1, 4);
    n.first = random.between(0, static_cast<std::int64_t>(lens.size()));
    n.parameters = n.statistics = static_cast<ref::Type>(random.pick({0, 1, 5, 6}));
    n.x = ref::Tensor(n.parameters, lens);
    return n;
  }
  TensorModel dense(const ref::Tensor& t) const {
    return {static_cast<miopenDataType_t>(t.type), t.lens, packed_strides(t.lens)};
  }
  TensorModel strided() { return random_tensor(d.random(), static_cast<miopenDataType_t>(p.x.type), p.x.lens); }

  /// The descriptor of a tensor, and its data; `used`: whether it must not be null.
  miopenTensorDescriptor_t desc(Operand& o) { return d.object(Kind::kTensor, o.desc); }
  void* data(Operand& o, bool used = true) { return used ? d.pointer(o.data()) : d.optional(o.data()); }

  bool accepted(Status status) { return d.check(status) && d.clean(); }
  void expect(Operand& o, const ref::Result& want, std::int64_t length, const char* name) {
    expect_result(w, ref::arithmetic(p, o.plain.type, length), o.plain, o.buffer.data(), want,
                  std::vector<unsigned char>(o.buffer.size(), 0xff), name);
  }
  void clear(std::initializer_list<Operand*> outputs) {
    for (Operand* o : outputs) o->buffer.fill(0xff);
  }

  World& w;
  Draw d;
  ref::Norm p;
  Operand x{w, strided()}, x2{w, strided()}, y{w, strided()}, dy{w, strided()}, dx{w, strided()};
  Operand weight{w, dense(p.parameter())}, bias{w, dense(p.parameter())}, dw{w, dense(p.parameter())},
      db{w, dense(p.parameter())}, mean{w, dense(p.statistic())}, rstd{w, dense(p.statistic())};
  miopenHandle_t handle;
  miopenNormMode_t mode;
  std::int32_t dim;
  float epsilon;
};

template <NormKind kKind>
void forward(World& w) {
  Call c(w, kKind);
  c.clear({&c.y, &c.mean, &c.rstd});
  const bool affine = c.p.affine;
  void *const x = c.data(c.x), *const y = c.data(c.y), *const weight = c.data(c.weight, affine);
  const auto of_x = c.desc(c.x), of_y = c.desc(c.y), of_weight = c.desc(c.weight), of_rstd = c.desc(c.rstd);
  void* const rstd = c.data(c.rstd, false);
  Status status = kOk;
  void* mean = nullptr;
  if constexpr (kKind == NormKind::kRms) {
    status = miopenT5LayerNormForward(c.handle, c.mode, of_x, x, of_weight, weight, c.epsilon, of_y, y, of_rstd, rstd);
  } else {
    void* const bias = c.data(c.bias, affine);
    const auto of_bias = c.desc(c.bias), of_mean = c.desc(c.mean);
    mean = c.data(c.mean, false);
    if constexpr (kKind == NormKind::kLayer) {
      status = miopenLayerNormForward(c.handle, c.mode, of_x, x, of_weight, weight, of_bias, bias, c.epsilon, c.dim,
                                      of_y, y, of_mean, mean, of_rstd, rstd);
    } else if constexpr (kKind == NormKind::kAddLayer) {
      const auto of_x2 = c.desc(c.x2);
      void* const x2 = c.data(c.x2);
      status = miopenAddLayerNormForward(c.handle, c.mode, of_x, x, of_x2, x2, of_weight, weight, of_bias, bias,
                                         c.epsilon, c.dim, of_y, y, of_mean, mean, of_rstd, rstd);
    } else {
      const auto groups = c.d.wrong() ? c.p.x.lens[1] + 1 : c.p.groups;
      if (groups != c.p.groups) c.d.bad();
      status =
          miopenGroupNormForward(c.handle, c.mode, of_x, x, of_weight, weight, of_bias, bias,
                                 static_cast<std::uint64_t>(groups), c.epsilon, of_y, y, of_mean, mean, of_rstd, rstd);
    }
  }
  if (!c.accepted(status)) return;
  c.p.x = c.x.plain;
  c.p.x2 = c.x2.plain;
  const auto want = norm_forward(c.p, {c.x.data(), c.x2.data(), c.weight.data(), c.bias.data()});
  c.expect(c.y, want[0], c.p.length(), "y");
  if (mean) c.expect(c.mean, want[1], c.p.length(), "mean");
  if (rstd) c.expect(c.rstd, want[2], c.p.length(), "rstd");
}

template <NormKind kKind>
void backward(World& w) {
  Call c(w, kKind);
  c.clear({&c.dx, &c.dw, &c.db});
  void *const x = c.data(c.x), *const dy = c.data(c.dy), *const weight = c.data(c.weight, c.p.affine);
  void *const rstd = c.data(c.rstd), *const dx = c.data(c.dx), *const dw = c.data(c.dw);
  const auto of_x = c.desc(c.x), of_dy = c.desc(c.dy), of_weight = c.desc(c.weight), of_rstd = c.desc(c.rstd);
  const auto of_dx = c.desc(c.dx), of_dw = c.desc(c.dw);
  Status status = kOk;
  if constexpr (kKind == NormKind::kRms) {
    status = miopenT5LayerNormBackward(c.handle, c.mode, nullptr, 0, of_dy, dy, of_x, x, of_weight, weight, of_rstd,
                                       rstd, of_dx, dx, of_dw, dw);
  } else {
    void *const mean = c.data(c.mean), *const db = c.data(c.db);
    const auto of_mean = c.desc(c.mean), of_db = c.desc(c.db);
    status = miopenLayerNormBackward(c.handle, c.mode, nullptr, 0, of_dy, dy, of_x, x, of_weight, weight, of_mean, mean,
                                     of_rstd, rstd, c.dim, of_dx, dx, of_dw, dw, of_db, db);
  }
  if (!c.accepted(status)) return;
  c.p.x = c.x.plain;
  c.p.dy = c.dy.plain;
  const auto want = norm_backward(
      c.p,
      {.x = c.x.data(), .weight = c.weight.data(), .dy = c.dy.data(), .mean = c.mean.data(), .rstd = c.rstd.data()});
  c.expect(c.dx, want[0], c.p.length(), "dx");
  c.expect(c.dw, want[1], c.p.rows(), "dw");
  if (kKind != NormKind::kRms) c.expect(c.db, want[2], c.p.rows(), "db");
}

template <NormKind kKind>
void workspace(World& w) {
  Call c(w, kKind);
  const auto of_x = c.desc(c.x), of_dy = c.desc(c.dy), of_weight = c.desc(c.weight), of_rstd = c.desc(c.rstd);
  const auto of_dx = c.desc(c.dx), of_dw = c.desc(c.dw);
  std::size_t bytes = 99;
  std::size_t* const size = c.d.pointer(&bytes);
  Status status = kOk;
  if constexpr (kKind == NormKind::kRms) {
    status = miopenGetT5LayerNormBackwardWorkspaceSize(c.handle, c.mode, of_dy, of_x, of_weight, of_rstd, of_dx, of_dw,
                                                       size);
  } else {
    const auto of_mean = c.desc(c.mean), of_db = c.desc(c.db);
    status = miopenGetLayerNormBackwardWorkspaceSize(c.handle, c.mode, of_dy, of_x, of_weight, of_mean, of_rstd, c.dim,
                                                     of_dx, of_dw, of_db, size);
  }
  if (c.accepted(status) && bytes != 0) w.report("the workspace of a normalization is not 0");
}

Registration g_entries[] = {
    {"miopenLayerNormForward", forward<NormKind::kLayer>},
    {"miopenAddLayerNormForward", forward<NormKind::kAddLayer>},
    {"miopenT5LayerNormForward", forward<NormKind::kRms>},
    {"miopenGroupNormForward", forward<NormKind::kGroup>},
    {"miopenLayerNormBackward", backward<NormKind::kLayer>},
    {"miopenT5LayerNormBackward", backward<NormKind::kRms>},
    {"miopenGetLayerNormBackwardWorkspaceSize", workspace<NormKind::kLayer>},
    {"miopenGetT5LayerNormBackwardWorkspaceSize", workspace<NormKind::kRms>},
};

}  // namespace
}  // namespace polymio::fuzz
