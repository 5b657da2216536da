// The API fuzzer's calls of reductions and of kthvalue.
// SPDX-License-Identifier: MIT
#include "fuzz/api.h"
#include "reference/kthvalue.h"
#include "reference/reduce.h"

namespace polymio::fuzz {
namespace {

using Lens = std::vector<std::int64_t>;
using Descriptor = miopenReduceTensorDescriptor_t;

const std::vector<int> kReduced{0, 1, 2, 3, 5, 6};

/// A tensor to reduce, with its result as the functions of one dimension describe it.
struct Call {
  explicit Call(World& world)
      : w(world), d(world), type(static_cast<miopenDataType_t>(d.random().pick(kReduced))), lens(sizes(d.random())) {
    a.fill(-4, 4);
    handle = d.object<miopenHandle_t>(Kind::kHandle);
    dim = static_cast<std::int32_t>(d.random().below(lens.size()));
    if (!d.wrong()) return;
    d.bad();
    dim = d.random().pick({-9, 8, INT_MAX, INT_MIN});
  }
  static Lens sizes(Random& random) {
    Lens lens(static_cast<std::size_t>(random.between(1, 5)));
    for (auto& size : lens) size = random.between(1, 5);
    return lens;
  }
  /// The model of a result without the dimension.
  TensorModel without_dim(miopenDataType_t of) {
    Lens rest = lens;
    if (lens.size() > 1 && dim >= 0 && dim < static_cast<std::int32_t>(lens.size())) rest.erase(rest.begin() + dim);
    if (lens.size() == 1) rest[0] = 1;
    return random_tensor(d.random(), of, rest);
  }
  /// The result with the dimension, for the reference.
  ref::Tensor with_dim(const ref::Tensor& t) const {
    ref::Tensor wide = t;
    if (lens.size() == 1) return wide;
    wide.lens.insert(wide.lens.begin() + dim, 1);
    wide.strides.insert(wide.strides.begin() + dim, 1);
    return wide;
  }
  void expect(Operand& o, ref::Arithmetic how, const ref::Tensor& t, const ref::Result& want, const char* name) {
    expect_result(w, how, t, o.buffer.data(), want, std::vector<unsigned char>(o.buffer.size(), 0xff), name);
  }
  void expect_positions(Operand& o, const ref::Tensor& t, const ref::Result& want) {
    expect(o, {t.type, ref::Type::kInt64, 1, false}, t, want, "indices");
  }
  bool accepted(Status status) { return d.check(status) && d.clean(); }
  miopenTensorDescriptor_t desc(Operand& o) { return d.object(Kind::kTensor, o.desc); }

  World& w;
  Draw d;
  miopenDataType_t type;
  Lens lens;
  Operand a{w, random_tensor(w.random, type, lens)};
  miopenHandle_t handle;
  std::int32_t dim;
};

/// A descriptor of one call.
struct Own {
  Own() { miopenCreateReduceTensorDescriptor(&object); }
  ~Own() { miopenDestroyReduceTensorDescriptor(object); }
  Descriptor in(Draw& d) const { return d.pointer(object); }
  Descriptor object = nullptr;
};

void create(World& w) {
  Draw d(w);
  Descriptor object = nullptr;
  if (d.check(miopenCreateReduceTensorDescriptor(d.pointer(&object)))) miopenDestroyReduceTensorDescriptor(object);
}

void destroy(World& w) {
  Draw d(w);
  Descriptor object = nullptr;
  miopenCreateReduceTensorDescriptor(&object);
  if (!d.check(miopenDestroyReduceTensorDescriptor(d.pointer(object)))) miopenDestroyReduceTensorDescriptor(object);
}

void set_and_get(World& w) {
  Draw d(w);
  const Own own;
  const auto op = d.enumerator<miopenReduceTensorOp_t>(up_to(7), {8, -1, INT_MAX, INT_MIN});
  const auto nan = d.enumerator<miopenNanPropagation_t>(up_to(1), {2, -1, INT_MAX});
  const auto indices = d.enumerator<miopenReduceTensorIndices_t>(up_to(1), {2, -1, INT_MAX});
  const auto bits = d.enumerator<miopenIndicesType_t>(up_to(3), {4, -1, INT_MAX});
  if (d.clean() && indices != 0 && bits != 0) d.refuse({miopenStatusUnknownError});
  if (!d.check(miopenSetReduceTensorDescriptor(own.in(d), op, miopenDouble, nan, indices, bits)) || !d.clean()) return;
  auto got_op = MIOPEN_REDUCE_TENSOR_ADD;
  auto type = miopenHalf;
  auto got_nan = MIOPEN_PROPAGATE_NAN;
  auto got_indices = MIOPEN_REDUCE_TENSOR_NO_INDICES;
  auto got_bits = MIOPEN_8BIT_INDICES;
  miopenGetReduceTensorDescriptor(own.object, &got_op, &type, &got_nan, &got_indices, &got_bits);
  if (got_op != op || type != miopenDouble || got_nan != nan || got_indices != indices || got_bits != bits)
    w.report("the values are not what was set");
}

void get(World& w) {
  Draw d(w);
  const Own own;
  miopenReduceTensorOp_t op;
  miopenDataType_t type;
  miopenNanPropagation_t nan;
  miopenReduceTensorIndices_t indices;
  miopenIndicesType_t bits;
  d.check(miopenGetReduceTensorDescriptor(own.in(d), d.pointer(&op), d.pointer(&type), d.pointer(&nan),
                                          d.pointer(&indices), d.pointer(&bits)));
}

enum class What { kIndices, kWorkspace, kRun };

template <What kWhat>
void reduce(World& w) {
  Call c(w);
  Draw& d = c.d;
  const Own own;
  ref::Reduction p;
  p.op = static_cast<ref::ReduceOp>(d.random().between(0, 7));
  p.alpha = d.random().pick({1.0, 0.5, -2.0});
  p.beta = d.random().pick({0.0, 0.0, 3.0});
  Lens lens = c.lens;
  for (auto& size : lens)
    if (d.random().one_in(2)) size = 1;
  if (!(c.dim >= 0 && c.dim < 8)) return;  // reductions of any dimensions name none
  Operand out(w, random_tensor(w.random, static_cast<miopenDataType_t>(d.random().pick(kReduced)), lens));
  out.buffer.fill(0xff);
  if (p.beta != 0) out.fill(-4, 4);
  const bool indices = d.random().one_in(2), extreme = p.op >= ref::ReduceOp::kMin && p.op <= ref::ReduceOp::kAmax;
  if (miopenSetReduceTensorDescriptor(own.object, static_cast<miopenReduceTensorOp_t>(p.op), miopenFloat,
                                      MIOPEN_NOT_PROPAGATE_NAN, static_cast<miopenReduceTensorIndices_t>(indices),
                                      MIOPEN_32BIT_INDICES) != kOk)
    return w.report("a descriptor cannot be set");
  const auto of_a = c.desc(c.a), of_c = c.desc(out);
  const std::size_t wanted = indices && extreme ? 4 * static_cast<std::size_t>(out.plain.count()) : 0;
  if constexpr (kWhat != What::kRun) {
    std::size_t bytes = 99;
    constexpr auto kSize = kWhat == What::kIndices ? miopenGetReductionIndicesSize : miopenGetReductionWorkspaceSize;
    const Status status = kSize(c.handle, own.in(d), of_a, of_c, d.pointer(&bytes));
    if (c.accepted(status) && bytes != (kWhat == What::kIndices ? wanted : 0)) w.report("a size is wrong");
    return;
  }
  Buffer positions(w, wanted, 4);
  const std::vector<unsigned char> before = out.buffer.copy();
  const Scalar alpha(out.model.type, p.alpha), beta(out.model.type, p.beta);
  void* const at = wanted > 0 ? d.pointer(positions.data()) : d.optional(positions.data());
  const Status status = miopenReduceTensor(c.handle, own.in(d), at, wanted, nullptr, 0, d.pointer(alpha.get()), of_a,
                                           d.pointer(c.a.data()), d.pointer(beta.get()), of_c, d.pointer(out.data()));
  if (!c.accepted(status)) return;
  p.a = c.a.plain;
  p.c = out.plain;
  const ref::Reduced want = evaluate(p, c.a.data(), before.data());
  expect_result(w, arithmetic(p), p.c, out.buffer.data(), want.values, before, "c");
}

void calculate(World& w) {
  Call c(w);
  Operand y(w, c.without_dim(c.type));
  y.buffer.fill(0xff);
  const auto op = c.d.enumerator<miopenReduceCalculationOp_t>({1, 2}, {0, 3, -1, INT_MAX});
  const auto nan = c.d.enumerator<miopenReduceCalculationNanPropagation_t>(up_to(1), {2, -1, INT_MAX});
  const auto of_a = c.desc(c.a), of_y = c.desc(y);
  const Status status = miopenReduceCalculationForward(c.handle, nan, nullptr, 0, of_a, c.d.pointer(c.a.data()), c.dim,
                                                       op, of_y, c.d.pointer(y.data()));
  if (!c.accepted(status)) return;
  ref::Reduction p;
  p.op = op == MIOPEN_REDUCE_CALCULATION_PROD ? ref::ReduceOp::kMul : ref::ReduceOp::kAdd;
  p.a = c.a.plain;
  p.c = c.with_dim(y.plain);
  c.expect(y, arithmetic(p), p.c, evaluate(p, c.a.data(), nullptr).values, "y");
}

void calculation_size(World& w) {
  Call c(w);
  Operand y(w, c.without_dim(c.type));
  const auto op = c.d.enumerator<miopenReduceCalculationOp_t>({1, 2}, {0, 3, -1, INT_MAX});
  const auto of_a = c.desc(c.a), of_y = c.desc(y);
  std::size_t bytes = 99;
  const Status status = miopenGetReduceCalculationWorkspaceSize(c.handle, of_a, c.dim, op, of_y, c.d.pointer(&bytes));
  if (c.accepted(status) && bytes != 0) w.report("a size is wrong");
}

void extreme(World& w) {
  Call c(w);
  Operand y(w, c.without_dim(c.type)), at(w, c.without_dim(miopenInt32));
  y.buffer.fill(0xff);
  at.buffer.fill(0xff);
  const auto op = c.d.enumerator<miopenReduceExtremeOp_t>({1, 2, 3, 4}, {0, 5, -1, INT_MAX});
  const bool values = op == MIOPEN_REDUCE_EXTREME_MIN || op == MIOPEN_REDUCE_EXTREME_MAX;
  const auto of_a = c.desc(c.a), of_at = c.desc(at);
  const auto of_y = values ? c.desc(y) : nullptr;
  void* const y_data = values ? c.d.pointer(y.data()) : c.d.optional(y.data());
  const Status status = miopenReduceExtremeForward(c.handle, of_a, c.d.pointer(c.a.data()), c.dim, op, of_y, y_data,
                                                   of_at, c.d.pointer(at.data()));
  if (!c.accepted(status)) return;
  ref::Reduction p;
  p.op = op % 2 == 1 ? ref::ReduceOp::kMin : ref::ReduceOp::kMax;
  p.nan = ref::ReduceNan::kFirst;
  p.a = c.a.plain;
  p.c = c.with_dim(y.plain);
  const ref::Reduced want = evaluate(p, c.a.data(), nullptr);
  if (values) c.expect(y, arithmetic(p), p.c, want.values, "y");
  c.expect_positions(at, c.with_dim(at.plain), want.positions);
}

void kthvalue(World& w) {
  Call c(w);
  const bool keeps = c.d.random().one_in(2);
  const auto result = [&](miopenDataType_t type) {
    TensorModel m = c.without_dim(type);
    if (!keeps || c.lens.size() == 1 || c.dim < 0 || c.dim > 7) return m;
    const ref::Tensor wide = c.with_dim(m.plain());
    return TensorModel{type, wide.lens, wide.strides};
  };
  Operand y(w, result(c.type)), at(w, result(miopenInt64));
  y.buffer.fill(0xff);
  at.buffer.fill(0xff);
  const bool is_dim = c.dim >= 0 && c.dim < static_cast<std::int32_t>(c.lens.size());
  const std::int64_t length = is_dim ? c.lens[static_cast<std::size_t>(c.dim)] : 1;
  std::int64_t k = c.d.random().between(1, length);
  if (c.d.wrong()) {
    k = c.d.random().pick({std::int64_t{0}, length + 1, std::int64_t{-1}});
    c.d.bad();
  }
  const auto of_a = c.desc(c.a), of_y = c.desc(y), of_at = c.desc(at);
  const Status status = miopenKthvalueForward(c.handle, of_a, c.d.pointer(c.a.data()), of_y, c.d.pointer(y.data()),
                                              of_at, static_cast<std::size_t*>(c.d.pointer(at.data())),
                                              static_cast<std::size_t>(k), c.dim, keeps);
  if (!c.accepted(status)) return;
  ref::Kthvalue p;
  p.x = c.a.plain;
  p.y = keeps ? y.plain : c.with_dim(y.plain);
  p.dim = c.dim;
  p.k = k;
  const ref::Selected want = evaluate(p, c.a.data());
  c.expect(y, {p.y.type, ref::Type::kInt64, 1, false}, p.y, want.values, "y");
  c.expect_positions(at, keeps ? at.plain : c.with_dim(at.plain), want.positions);
}

Registration g_entries[] = {
    {"miopenCreateReduceTensorDescriptor", create},
    {"miopenDestroyReduceTensorDescriptor", destroy},
    {"miopenSetReduceTensorDescriptor", set_and_get},
    {"miopenGetReduceTensorDescriptor", get},
    {"miopenGetReductionIndicesSize", reduce<What::kIndices>},
    {"miopenGetReductionWorkspaceSize", reduce<What::kWorkspace>},
    {"miopenReduceTensor", reduce<What::kRun>},
    {"miopenGetReduceCalculationWorkspaceSize", calculation_size},
    {"miopenReduceCalculationForward", calculate},
    {"miopenReduceExtremeForward", extreme},
    {"miopenKthvalueForward", kthvalue},
};

}  // namespace
}  // namespace polymio::fuzz
