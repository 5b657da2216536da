// SPDX-License-Identifier: MIT
#include "capi/find2/mha.h"

#include <algorithm>

#include "capi/common/arguments.h"

namespace polymio::capi {
namespace {

using mha::Amax;
using mha::Scalar;
using Args = mha::Problem::Args;

enum class Kind { kTensor, kStatistic, kNumber, kInteger, kMask };

/// A tensor of MhaOperation::kTensors: what it is, and which directions need it.
struct Role {
  miopenTensorArgumentId_t id;
  Kind kind = Kind::kNumber;
  bool forward = true, backward = true;
};

constexpr Role kRoles[] = {
    {miopenTensorMhaK, Kind::kTensor},
    {miopenTensorMhaQ, Kind::kTensor},
    {miopenTensorMhaV, Kind::kTensor},
    {miopenTensorMhaDescaleK},
    {miopenTensorMhaDescaleQ},
    {miopenTensorMhaDescaleV},
    {miopenTensorMhaDescaleS},
    {miopenTensorMhaScaleS},
    {miopenTensorMhaScaleO, Kind::kNumber, true, false},
    {miopenTensorMhaDropoutProbability},
    {miopenTensorMhaDropoutSeed, Kind::kInteger},
    {miopenTensorMhaDropoutOffset, Kind::kInteger},
    {miopenTensorMhaO, Kind::kTensor},
    {miopenTensorMhaAmaxO, Kind::kNumber, true, false},
    {miopenTensorMhaAmaxS, Kind::kNumber, true, false},
    {miopenTensorMhaM, Kind::kStatistic},
    {miopenTensorMhaZInv, Kind::kStatistic},
    {miopenTensorMhaDO, Kind::kTensor, false},
    {miopenTensorMhaDescaleO, Kind::kNumber, false},
    {miopenTensorMhaDescaleDO, Kind::kNumber, false},
    {miopenTensorMhaDescaleDS, Kind::kNumber, false},
    {miopenTensorMhaScaleDS, Kind::kNumber, false},
    {miopenTensorMhaScaleDQ, Kind::kNumber, false},
    {miopenTensorMhaScaleDK, Kind::kNumber, false},
    {miopenTensorMhaScaleDV, Kind::kNumber, false},
    {miopenTensorMhaDQ, Kind::kTensor, false},
    {miopenTensorMhaDK, Kind::kTensor, false},
    {miopenTensorMhaDV, Kind::kTensor, false},
    {miopenTensorMhaAmaxDQ, Kind::kNumber, false},
    {miopenTensorMhaAmaxDK, Kind::kNumber, false},
    {miopenTensorMhaAmaxDV, Kind::kNumber, false},
    {miopenTensorMhaAmaxDS, Kind::kNumber, false},
    {miopenTensorMhaBias, Kind::kTensor, false, false},
    {miopenTensorMhaMask, Kind::kMask, false, false},
};
static_assert(std::size(kRoles) == std::size(MhaOperation::kTensors));

bool is_needed(const Role& role, miopenProblemDirection_t direction) {
  return direction == miopenProblemDirectionForward ? role.forward : role.backward;
}

void check(const Role& role, const TensorDesc& t, const mha::Problem& p) {
  const char* const name = name_of(role.id);
  if (role.kind == Kind::kNumber || role.kind == Kind::kInteger) {
    const DataType type = role.kind == Kind::kNumber ? DataType::kFloat : DataType::kInt64;
    require(t.count() == 1 && t.type == type, "{} must have one element of {}: it has {} of {}", name,
            polymio::name_of(type), t.count(), polymio::name_of(t.type));
  }
  if (role.kind == Kind::kStatistic) {
    const TensorDesc want = p.statistics();
    require(t.type == want.type && t.packed() && std::ranges::equal(t.sizes(), want.sizes()),
            "{} is {} of {}: it must be packed and {} of fp32", name, sizes_text(t), polymio::name_of(t.type),
            sizes_text(want));
  }
}

}  // namespace

MhaCall make_call(const MhaOperation&, const ProblemState& p, Status missing) {
  const auto desc = [&](miopenTensorArgumentId_t id) -> const TensorDesc& { return tensor(p, id, missing); };
  if (p.direction != miopenProblemDirectionForward && p.direction != miopenProblemDirectionBackward)
    fail(Status::kNotImplemented, "direction {} is not one of attention: 0 (forward), 1 (backward)",
         static_cast<int>(p.direction));
  for (const Role& role : kRoles)
    if (is_needed(role, p.direction)) desc(role.id);
  const auto bias = p.tensors.find(miopenTensorMhaBias);
  const TensorDesc none, &of_bias = bias == p.tensors.end() ? none : bias->second;
  const TensorDesc &q = desc(miopenTensorMhaQ), &k = desc(miopenTensorMhaK), &v = desc(miopenTensorMhaV),
                   &o = desc(miopenTensorMhaO);
  MhaCall call{p.direction == miopenProblemDirectionForward
                   ? mha::forward_problem(q, k, v, o, of_bias)
                   : mha::backward_problem(q, k, v, o, desc(miopenTensorMhaDO), desc(miopenTensorMhaDQ),
                                           desc(miopenTensorMhaDK), desc(miopenTensorMhaDV), of_bias)};
  mha::validate(call.problem);
  for (const Role& role : kRoles)
    if (is_needed(role, p.direction)) check(role, desc(role.id), call.problem);
  return call;
}

MhaBuffers tensors_of(const ProblemState& p, const MhaCall& call) {
  MhaBuffers all;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Role& role = kRoles[i];
    const bool has = is_needed(role, p.direction) || (role.id == miopenTensorMhaBias && call.problem.has_bias());
    all[i] = {role.id, has ? &p.tensors.at(role.id) : nullptr};
    all[i].is_optional = role.kind == Kind::kMask;
    if (role.kind == Kind::kNumber) all[i].limit = 0;  // find measures without dropout
  }
  return all;
}

Args arguments(const ProblemState& p, const MhaCall& call, std::span<const TensorBuffer, MhaBuffers{}.size()> tensors,
               void* workspace, std::size_t bytes) {
  const auto at = [&](miopenTensorArgumentId_t id) { return std::ranges::find(tensors, id, &TensorBuffer::id)->data; };
  Args a;
  a.k = at(miopenTensorMhaK);
  a.q = at(miopenTensorMhaQ);
  a.v = at(miopenTensorMhaV);
  a.o = at(miopenTensorMhaO);
  a.bias = at(miopenTensorMhaBias);
  a.m = at(miopenTensorMhaM);
  a.z_inv = at(miopenTensorMhaZInv);
  a.dout = at(miopenTensorMhaDO);
  a.dq = at(miopenTensorMhaDQ);
  a.dk = at(miopenTensorMhaDK);
  a.dv = at(miopenTensorMhaDV);
  const std::pair<Scalar, miopenTensorArgumentId_t> scalars[] = {
      {Scalar::kDescaleQ, miopenTensorMhaDescaleQ},   {Scalar::kDescaleK, miopenTensorMhaDescaleK},
      {Scalar::kDescaleV, miopenTensorMhaDescaleV},   {Scalar::kDescaleS, miopenTensorMhaDescaleS},
      {Scalar::kDescaleO, miopenTensorMhaDescaleO},   {Scalar::kDescaleDO, miopenTensorMhaDescaleDO},
      {Scalar::kDescaleDS, miopenTensorMhaDescaleDS}, {Scalar::kScaleS, miopenTensorMhaScaleS},
      {Scalar::kScaleO, miopenTensorMhaScaleO},       {Scalar::kScaleDS, miopenTensorMhaScaleDS},
      {Scalar::kScaleDQ, miopenTensorMhaScaleDQ},     {Scalar::kScaleDK, miopenTensorMhaScaleDK},
      {Scalar::kScaleDV, miopenTensorMhaScaleDV}};
  for (const auto& [scalar, id] : scalars) a.scalar(scalar) = at(id);
  const std::pair<Amax, miopenTensorArgumentId_t> amaxes[] = {
      {Amax::kO, miopenTensorMhaAmaxO},   {Amax::kS, miopenTensorMhaAmaxS},   {Amax::kDQ, miopenTensorMhaAmaxDQ},
      {Amax::kDK, miopenTensorMhaAmaxDK}, {Amax::kDV, miopenTensorMhaAmaxDV}, {Amax::kDS, miopenTensorMhaAmaxDS}};
  for (const auto& [amax, id] : amaxes) a.largest(amax) = at(id);
  a.probability = at(miopenTensorMhaDropoutProbability);
  a.seed = at(miopenTensorMhaDropoutSeed);
  a.offset = at(miopenTensorMhaDropoutOffset);
  a.scale = p.find<MhaOperation>()->descriptor.scale;
  if (const void* const mask = at(miopenTensorMhaMask)) a.mask = static_cast<mha::Mask>(dtype::read<int>(mask, 0));
  require(!a.bias || call.problem.has_bias(),
          "a buffer for miopenTensorMhaBias was given, but the problem has no descriptor for it");
  a.workspace = workspace;
  a.workspace_bytes = bytes;
  return a;
}

}  // namespace polymio::capi
