// The attention problem: its text, hash and validation.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <cmath>
#include <span>

#include "base/error.h"
#include "core/tensor_checks.h"
#include "primitives/mha/mha.h"

namespace polymio::mha {
namespace {

struct Named {
  const TensorDesc& desc;
  const char* name;
  bool of_keys = false, is_result = false;
};

template <class Body>
void for_tensors(const Problem& p, const Body& body) {
  const bool forward = p.forward();
  const Named all[] = {
      {p.q, "q"},       {p.k, "k", true},          {p.v, "v", true},         {p.o, "o", false, forward},
      {p.dout, "dout"}, {p.dq, "dq", false, true}, {p.dk, "dk", true, true}, {p.dv, "dv", true, true}};
  for (const Named& t : std::span(all).first(forward ? 4 : std::size(all))) body(t);
}

void check(const Problem& p, const Named& t) {
  require(t.desc.rank == 4, "{} has {} dimensions: attention takes 4, batch, heads, tokens and head size", t.name,
          t.desc.rank);
  require(t.desc.vector_length == 1 && !t.desc.has_cast(), "{} has vectors of channels or a cast type", t.name);
  const DataType type = t.desc.type;
  require(type == DataType::kFloat || type == DataType::kHalf || type == DataType::kBFloat16 || is_fp8(type),
          "{} is {}: attention takes fp32, fp16, bf16 and 8-bit floats", t.name, polymio::name_of(type));
  const bool is_dout = &t.desc == &p.dout && is_fp8(p.q.type) && is_fp8(type);
  require(type == p.q.type || is_dout, "{} is {} but q is {}: they must have the same type", t.name,
          polymio::name_of(type), polymio::name_of(p.q.type));
  const std::int64_t want[] = {p.batch(), p.heads(), t.of_keys ? p.keys() : p.queries(), p.head_size()};
  for (std::size_t d = 0; d < 4; ++d)
    require(t.desc.lens[d] == want[d], "{} is {}, but {} and k {} need size {} in dimension {}", t.name,
            sizes_text(t.desc), "q " + std::string(sizes_text(p.q)), sizes_text(p.k), want[d], d);
  require(t.desc.lens[3] == 1 || t.desc.strides[3] == 1,
          "{} has stride {} between the elements of a head: 1 is allowed", t.name, t.desc.strides[3]);
  if (t.is_result) require_separate(t.desc, t.name);
}

void check_bias(const Problem& p) {
  const TensorDesc& b = p.bias;
  require(b.rank == 4 && b.type == DataType::kFloat && !b.has_cast() && b.vector_length == 1,
          "bias must be an fp32 tensor of 4 dimensions: batch, heads, queries and keys");
  const std::int64_t want[] = {p.batch(), p.heads(), p.queries(), p.keys()};
  for (std::size_t d = 0; d < 4; ++d)
    require(b.lens[d] == want[d] || (d < 2 && b.lens[d] == 1), "bias is {}: size {} is needed in dimension {}{}",
            sizes_text(b), want[d], d, d < 2 ? ", or 1" : "");
  require(b.lens[3] == 1 || b.strides[3] == 1, "bias has stride {} between keys: 1 is allowed", b.strides[3]);
}

}  // namespace

Problem forward_problem(const TensorDesc& q, const TensorDesc& k, const TensorDesc& v, const TensorDesc& o,
                        const TensorDesc& bias) {
  Problem p;
  p.q = q;
  p.k = k;
  p.v = v;
  p.o = o;
  p.bias = bias;
  return p;
}

Problem backward_problem(const TensorDesc& q, const TensorDesc& k, const TensorDesc& v, const TensorDesc& o,
                         const TensorDesc& dout, const TensorDesc& dq, const TensorDesc& dk, const TensorDesc& dv,
                         const TensorDesc& bias) {
  Problem p = forward_problem(q, k, v, o, bias);
  p.direction = Direction::kBackward;
  p.dout = dout;
  p.dq = dq;
  p.dk = dk;
  p.dv = dv;
  return p;
}

TensorDesc Problem::statistics() const {
  const std::int64_t sizes[] = {batch(), heads(), queries(), 1};
  return make_tensor(DataType::kFloat, sizes, {});
}

std::string Problem::key() const {
  std::string text = base_arg("mha", q.type, 2) + fmt::format(" -n {} -c {} -H {}", batch(), heads(), queries());
  if (keys() != queries()) text += fmt::format(" --keys {}", keys());
  text += fmt::format(" -W {} -F {}", head_size(), forward() ? 1 : 2);
  for_tensors(*this, [&](const Named& t) {
    text += strides_unless_dense(t.desc, fmt::format("--{}_strides", t.name).c_str());
    if (t.desc.type != q.type) text += fmt::format(" --{}_type {}", t.name, polymio::name_of(t.desc.type));
  });
  if (has_bias()) {
    const bool has_batch = bias.lens[0] == batch(), has_heads = bias.lens[1] == heads();
    text += std::string(" --bias ") + (has_batch ? has_heads ? "full" : "batch" : has_heads ? "heads" : "one");
    text += strides_unless_dense(bias, "--bias_strides");
  }
  return text;
}

std::string Problem::family() const {
  return fmt::format("mha {} {}{}", forward() ? "fwd" : "bwd", polymio::name_of(q.type), has_bias() ? " bias" : "");
}

std::vector<float> Problem::log_sizes() const {
  const auto log = [](std::int64_t size) { return std::log2(static_cast<float>(size)); };
  return {log(batch() * heads()), log(queries()), log(keys()), log(head_size())};
}

double Problem::work() const {
  return (forward() ? 4.0 : 10.0) * static_cast<double>(rows()) * static_cast<double>(keys()) *
         static_cast<double>(head_size());
}

void validate(const Problem& p) {
  require(p.q.rank == 4 && p.k.rank == 4,
          "q has {} and k {} dimensions: attention takes 4, batch, heads, tokens and head size", p.q.rank, p.k.rank);
  for_tensors(p, [&](const Named& t) { check(p, t); });
  if (p.has_bias()) check_bias(p);
}

}  // namespace polymio::mha
