// Random tensor operations and biases, by the functions behind the C API.
// SPDX-License-Identifier: MIT
#include "primitives/tensor_ops/tensor_ops.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "buffer.h"
#include "differential.h"
#include "reference/tensor_ops.h"
#include "tests/convolution/trial.h"

namespace polymio::fuzz {
namespace {

namespace ref = polymio::reference;
using Sizes = std::vector<std::int64_t>;

/// A tensor, its contents before the call, and its memory.
struct Operand {
  Operand(Handle& handle, Random& r, DataType type, const Sizes& lens, bool overlaps)
      : plain(static_cast<ref::Type>(type), lens, random_strides(r, lens, overlaps)),
        desc(make_tensor(type, lens, plain.strides)),
        content(test::random_tensor(plain, r.bits(), test::Gaps::kNan)),
        buffer(handle, content.size(), random_alignment(r, size_of(type)), r) {}

  tensor_ops::Input input() { return {desc, buffer.device()}; }
  tensor_ops::Output output() { return {desc, buffer.device()}; }

  ref::Tensor plain;
  TensorDesc desc;
  std::vector<unsigned char> content;
  Buffer buffer;
};

bool is_wide(DataType t) { return t == DataType::kDouble || t == DataType::kInt32 || t == DataType::kInt64; }

/// Runs `call`, which reads `inputs` and writes `out`, and compares.
bool check(const std::vector<Operand*>& inputs, Operand& out, bool reads_out, std::int64_t reduction,
           const ref::Result& expected, const std::function<void()>& call) {
  for (Operand* o : inputs) {
    o->buffer.fill(o->content);
    o->buffer.upload();
  }
  if (reads_out) out.buffer.fill(out.content);
  out.buffer.upload();
  call();
  ref::Arithmetic how;
  how.output = out.plain.type;
  how.reduction_length = reduction;
  bool wide = is_wide(out.desc.type);
  for (Operand* o : inputs) {
    wide = wide || is_wide(o->desc.type);
    o->buffer.download();
    if (!o->buffer.is_intact() || !o->buffer.holds(o->content)) return report("changed an input");
  }
  how.accumulate = wide ? ref::Type::kDouble : ref::Type::kFloat;
  out.buffer.download();
  if (!out.buffer.is_intact()) return report("wrote outside the output");
  const auto found = ref::compare(how, out.plain, out.buffer.host(), expected);
  if (!found.ok()) {
    return report("element " + std::to_string(found.index) + " is " + std::to_string(found.got) + ", should be " +
                  std::to_string(found.want) + " +- " + std::to_string(found.tolerance));
  }
  const auto mask = ref::element_bytes(out.plain);
  for (std::size_t i = 0; i < mask.size(); ++i)
    if (!mask[i] && out.buffer.host()[i] != (reads_out ? out.content[i] : kUnused))
      return report("wrote between the elements of the output");
  return true;
}

std::string name(const char* operation, const std::vector<const Operand*>& operands, double alpha, double beta) {
  std::string text = operation;
  for (const Operand* o : operands) {
    text += std::string(" ") + name_of(o->desc.type) + " sizes";
    for (const auto size : o->plain.lens) text += " " + std::to_string(size);
    text += " strides";
    for (const auto stride : o->plain.strides) text += " " + std::to_string(stride);
    text += ";";
  }
  return text + " alpha " + std::to_string(alpha) + " beta " + std::to_string(beta);
}

DataType random_type(Random& r) { return r.one_in(11) ? DataType::kFloat : kDataTypes[r.below(std::size(kDataTypes))]; }

struct Draw {
  Handle& handle;
  Random& r;
  Sizes lens;
  DataType type;
  double alpha, beta;
};

bool op_tensor(const Draw& d) {
  Sizes b_lens = d.lens;
  for (auto& size : b_lens)
    if (d.r.one_in(3)) size = 1;
  Operand a(d.handle, d.r, d.type, d.lens, true), b(d.handle, d.r, d.type, b_lens, true),
      c(d.handle, d.r, d.type, d.lens, false);
  const int op = static_cast<int>(d.r.below(4));
  const double alpha2 = d.r.pick({1.0, -0.5});
  set_current(name(("op " + std::to_string(op)).c_str(), {&a, &b, &c}, d.alpha, d.beta));
  const auto expected =
      ref::op_tensor({static_cast<ref::TensorOp>(op), d.alpha, alpha2, d.beta, a.plain, b.plain, c.plain},
                     a.content.data(), b.content.data(), c.content.data());
  return check({&a, &b}, c, d.beta != 0, 1, expected, [&] {
    tensor_ops::op_tensor(d.handle.stream(), static_cast<tensor_ops::Op>(op), d.alpha, a.input(), alpha2, b.input(),
                          d.beta, c.output());
  });
}

bool transform(const Draw& d) {
  Operand x(d.handle, d.r, random_type(d.r), d.lens, true), y(d.handle, d.r, d.type, d.lens, false);
  set_current(name("transform", {&x, &y}, d.alpha, d.beta));
  const auto expected = ref::transform_tensor(d.alpha, x.plain, x.content.data(), d.beta, y.plain, y.content.data());
  return check({&x}, y, d.beta != 0, 1, expected,
               [&] { tensor_ops::transform(d.handle.stream(), d.alpha, x.input(), d.beta, y.output()); });
}

bool set_or_scale(const Draw& d, bool set) {
  Operand y(d.handle, d.r, d.type, d.lens, false);
  unsigned char factor[8];
  ref::store(y.plain.type, factor, 0, 3);
  set_current(name(set ? "set" : "scale", {&y}, 3, 0));
  const auto expected = set ? ref::set_tensor(y.plain, 3) : ref::scale_tensor(y.plain, 3, y.content.data());
  return check({}, y, !set, 1, expected, [&] {
    if (set)
      tensor_ops::set(d.handle.stream(), y.output(), factor);
    else
      tensor_ops::scale(d.handle.stream(), y.output(), factor);
  });
}

bool bias(const Draw& d, bool backward) {
  const Sizes b_lens = [&] {
    Sizes s(d.lens.size(), 1);
    s[1] = d.lens[1];
    return s;
  }();
  Operand b(d.handle, d.r, d.type, b_lens, !backward), y(d.handle, d.r, d.type, d.lens, backward);
  std::int64_t pixels = y.plain.count() / d.lens[1];
  set_current(name(backward ? "bias backward" : "bias forward", {&b, &y}, d.alpha, backward ? d.beta : 0));
  if (backward) {
    const auto expected = ref::bias_backward(d.alpha, y.plain, y.content.data(), d.beta, b.plain, b.content.data());
    return check({&y}, b, d.beta != 0, pixels, expected,
                 [&] { tensor_ops::bias_backward(d.handle.stream(), d.alpha, y.input(), d.beta, b.output()); });
  }
  // The operation adds the bias to the contents of y.
  const ref::OpTensor sum{ref::TensorOp::kAdd, d.alpha, d.alpha, 0, y.plain, b.plain, y.plain};
  const auto expected = ref::op_tensor(sum, y.content.data(), b.content.data(), nullptr);
  return check({&b}, y, true, 1, expected,
               [&] { tensor_ops::bias_forward(d.handle.stream(), d.alpha, b.input(), 0, y.output()); });
}

}  // namespace

bool tensor_ops_case(Handle& handle, Random& r, Tally& tally) {
  Draw d{handle,
         r,
         random_lens(r, r.between(1, tensor_ops::kMaxOpRank)),
         random_type(r),
         r.pick({1.0, 1.0, 0.5, -2.0}),
         r.pick({0.0, 0.0, 1.0, -0.5})};
  const std::uint64_t kind = d.lens.size() > 1 ? r.below(6) : r.below(4);
  const bool floats = !is_integer(d.type);
  static constexpr const char* kNames[] = {"op tensor", "transform", "set", "scale", "bias forward", "bias backward"};
  try {
    const bool ok = kind == 0   ? op_tensor(d)
                    : kind == 1 ? transform(d)
                    : kind <= 3 ? set_or_scale(d, kind == 2)
                    : floats    ? bias(d, kind == 5)
                                : true;
    ++tally.problems;
    ++tally.runs[kNames[kind]];
    return ok;
  } catch (const Error& e) {
    if (e.status != Status::kNotImplemented && e.status != Status::kBadParm) throw;
    ++tally.refused;
    return true;
  }
}

}  // namespace polymio::fuzz
