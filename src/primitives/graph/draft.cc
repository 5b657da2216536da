// Steps of nodes: calls of other primitives, with copies where those need another type or layout.
// SPDX-License-Identifier: MIT
#include "primitives/graph/draft.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "core/kernel_builder.h"
#include "core/problem_text.h"
#include "core/tensor_checks.h"
#include "primitives/convolution/convolution.h"
#include "primitives/matmul/matmul.h"
#include "primitives/reduce/reduce.h"
#include "primitives/softmax/softmax.h"
#include "primitives/tensor_ops/tensor_ops.h"

namespace polymio::graph {
namespace {

bool on_cpu(const DeviceInfo& d) { return d.kind == DeviceKind::kCpu; }

bool is_plain_float(DataType t) {
  return t == DataType::kFloat || t == DataType::kHalf || t == DataType::kBFloat16 || t == DataType::kDouble;
}

/// fp64 if values of one of the types may not fit fp32.
DataType common_type(std::initializer_list<DataType> types) {
  return std::ranges::any_of(types, is_wide) ? DataType::kDouble : DataType::kFloat;
}

TensorDesc dense_desc(const TensorDesc& t, DataType type) { return make_tensor(type, t.sizes(), {}); }

/// With dimensions of size 1 before its own.
TensorDesc with_rank(const TensorDesc& t, int rank) {
  TensorDesc wide = t;
  wide.rank = rank;
  const auto added = static_cast<std::size_t>(rank - t.rank);
  for (std::size_t d = 0; d < static_cast<std::size_t>(rank); ++d) {
    wide.lens[d] = d < added ? 1 : t.lens[d - added];
    wide.strides[d] = d < added ? t.space() : t.strides[d - added];
  }
  return wide;
}

TensorDesc with_last_exchanged(TensorDesc t) {
  const auto last = static_cast<std::size_t>(t.rank - 1);
  std::swap(t.lens[last], t.lens[last - 1]);
  std::swap(t.strides[last], t.strides[last - 1]);
  return t;
}

/// The same memory with other sizes in row-major order.
TensorDesc reshaped(const TensorDesc& t, const TensorDesc& sizes) { return make_tensor(t.type, sizes.sizes(), {}); }

bool is_row_major(const TensorDesc& t) {
  std::int64_t expected = 1;
  for (std::size_t d = static_cast<std::size_t>(t.rank); d-- > 0;) {
    if (t.lens[d] != 1 && t.strides[d] != expected) return false;
    expected *= t.lens[d];
  }
  return true;
}

double elements(const Operand& o) { return static_cast<double>(o.desc.count()); }

}  // namespace

Operand Draft::tensor(int number) {
  buffer_of_tensor_.resize(graph_.tensors.size(), -1);
  int& buffer = buffer_of_tensor_[static_cast<std::size_t>(number)];
  const Tensor& t = graph_.tensors[static_cast<std::size_t>(number)];
  if (buffer < 0) {
    buffer = static_cast<int>(buffers.size());
    buffers.push_back({t.is_virtual ? -1 : number, t.desc.bytes()});
  }
  return {t.desc, buffer};
}

Operand Draft::temporary(const TensorDesc& desc) {
  buffers.push_back({-1, desc.bytes()});
  return {desc, static_cast<int>(buffers.size()) - 1};
}

Operand Draft::dense(const TensorDesc& sizes, DataType type) { return temporary(dense_desc(sizes, type)); }

void Draft::push(std::string name, const std::vector<Operand>& operands, double operations,
                 std::function<Built(Handle&)> build) {
  // Microseconds of a launch or of a parallel loop, then those of the slower of memory and arithmetic.
  const double start = on_cpu(device_) ? 1 : 4;
  double bytes = 0;
  Step step{std::move(name), {}, start, std::move(build)};
  for (const Operand& o : operands) {
    bytes += elements(o) * static_cast<double>(size_of(o.desc.type));
    step.buffers.push_back(o.buffer);
  }
  step.us +=
      std::max(bytes / std::max(device_.bandwidth_gbs, 1.0), operations / std::max(device_.fp32_gflops, 1.0)) / 1e3;
  steps.push_back(std::move(step));
}

void Draft::push_chain(std::string name, const std::vector<Operand>& in, const std::vector<Operand>& out, Chain chain) {
  std::vector<Operand> all = in;
  all.insert(all.end(), out.begin(), out.end());
  // An instruction on a block in the L1 cache takes about as long as four operations.
  const double operations = 4 * elements(out[0]) * static_cast<double>(chain.code.size());
  push(std::move(name), all, operations, [in, out, chain = std::move(chain)](Handle& handle) -> Built {
    Stream& stream = handle.stream();
    const bool cpu = on_cpu(stream.info());
    return {[in, out, run = cpu ? build_on_cpu(stream, chain) : build_on_gpu(stream, chain)](const Running& on) {
      std::array<void*, kChainOutputs> results{};
      std::array<const void*, kChainInputs> inputs{};
      for (std::size_t o = 0; o < out.size(); ++o) results[o] = on.address(out[o]);
      for (std::size_t i = 0; i < in.size(); ++i) inputs[i] = on.address(in[i]);
      run(on.stream, results.data(), inputs.data());
    }};
  });
}

void Draft::copy(const Operand& from, const Operand& to) {
  Chain chain;
  chain.in = {from.desc};
  chain.out = {to.desc};
  chain.results = {0};
  chain.in_double = is_wide(from.desc.type) || is_wide(to.desc.type);
  push_chain("copy", {from}, {to}, std::move(chain));
}

Operand Draft::in_type(const Operand& o, DataType type) {
  if (o.desc.type == type) return o;
  const Operand converted = dense(o.desc, type);
  copy(o, converted);
  return converted;
}

Chain make_chain(const Graph& graph, const std::vector<const Node*>& nodes, const std::vector<int>& results,
                 std::vector<int>& inputs) {
  std::vector<int> made;
  for (const Node* n : nodes) {
    for (const int in : n->in)
      if (std::ranges::find(made, in) == made.end() && std::ranges::find(inputs, in) == inputs.end())
        inputs.push_back(in);
    made.push_back(n->out);
  }
  Chain chain;
  for (const int in : inputs) chain.in.push_back(graph.tensors[static_cast<std::size_t>(in)].desc);
  std::vector<int> values(graph.tensors.size(), -1);
  for (std::size_t i = 0; i < inputs.size(); ++i) values[static_cast<std::size_t>(inputs[i])] = static_cast<int>(i);
  for (const Node* n : nodes) {
    std::vector<int> operands;
    for (const int in : n->in) operands.push_back(values[static_cast<std::size_t>(in)]);
    values[static_cast<std::size_t>(n->out)] = lower(chain, n->pointwise, operands);
    chain.in_double = chain.in_double || n->pointwise.precision == DataType::kDouble ||
                      is_wide(graph.tensors[static_cast<std::size_t>(n->out)].desc.type);
  }
  for (const TensorDesc& t : chain.in) chain.in_double = chain.in_double || is_wide(t.type);
  for (const int result : results) {
    chain.out.push_back(graph.tensors[static_cast<std::size_t>(result)].desc);
    chain.results.push_back(values[static_cast<std::size_t>(result)]);
  }
  return chain;
}

void Draft::add_chain(const std::vector<const Node*>& nodes, const std::vector<int>& results) {
  std::vector<int> inputs;
  Chain chain = make_chain(graph_, nodes, results, inputs);
  std::vector<Operand> in, out;
  for (const int i : inputs) in.push_back(tensor(i));
  for (const int o : results) {
    out.push_back(tensor(o));
    require_separate(out.back().desc, "the result of an operation");
  }
  const std::string name = nodes.size() == 1 ? "pointwise" : fmt::format("chain({})", nodes.size());
  push_chain(name, in, out, std::move(chain));
}

void Draft::add(const Node& n) {
  require_separate(tensor(n.out).desc, "the result of an operation");
  switch (n.kind) {
    case Kind::kPointwise: return add_chain({&n}, {n.out});
    case Kind::kConvolution: return add_convolution(n, {});
    case Kind::kMatmul: return add_product(n, {});
    case Kind::kReduction: return add_reduction(n);
    case Kind::kReshape: return add_reshape(n);
    case Kind::kRandom: return add_random(n);
    case Kind::kIndex: return add_index(n);
  }
}

void Draft::add_product(const Node& n, const Epilogue& fused) {
  const bool is_fused = fused.y >= 0;
  const Operand c = tensor(is_fused ? fused.y : n.out);
  Operand a = tensor(n.in[0]), b = tensor(n.in[1]);
  const std::int64_t k = a.desc.lens[static_cast<std::size_t>(a.desc.rank - 1)];
  const bool plain =
      b.desc.lens[static_cast<std::size_t>(b.desc.rank - 2)] == k &&
      b.desc.lens[static_cast<std::size_t>(b.desc.rank - 1)] == c.desc.lens[static_cast<std::size_t>(c.desc.rank - 1)];
  if (!plain) b.desc = with_last_exchanged(b.desc);
  a.desc = with_rank(a.desc, c.desc.rank);
  b.desc = with_rank(b.desc, c.desc.rank);
  const bool same = a.desc.type == b.desc.type && is_plain_float(a.desc.type);
  const DataType type = same ? a.desc.type : common_type({a.desc.type, b.desc.type});
  a = in_type(a, type);
  b = in_type(b, type);
  const bool fits = c.desc.type == type || (c.desc.type == DataType::kFloat && type != DataType::kDouble);
  const Operand result = fits ? c : dense(c.desc, type == DataType::kDouble ? type : DataType::kFloat);
  matmul::Problem problem;
  problem.a = a.desc;
  problem.b = b.desc;
  problem.c = result.desc;
  problem.epilogue = {fused.bias >= 0, fused.activation};
  matmul::validate(problem);
  const Operand bias = fused.bias >= 0 ? tensor(fused.bias) : result;
  std::vector<Operand> operands = {a, b, result};
  if (problem.epilogue.bias) operands.push_back(bias);
  push(is_fused ? "matmul+" : "matmul", operands, problem.work(), [=](Handle& handle) -> Built {
    const search::Call call = matmul::search_call(handle, problem, {});
    const auto plan = std::make_shared<const polymio::Plan>(call.first_plan());
    return {[=](const Running& on) {
              matmul::Problem::Args args;
              args.a = on.address(a);
              args.b = on.address(b);
              args.c = on.address(result);
              if (problem.epilogue.bias) args.bias = on.address(bias);
              args.activation_alpha = fused.alpha;
              args.workspace = on.scratch;
              args.workspace_bytes = plan->workspace;
              plan->invoke(on.stream, &args);
            },
            plan->workspace};
  });
  if (!fits) copy(result, c);
}

void Draft::add_reduction(const Node& n) {
  Operand x = tensor(n.in[0]);
  const Operand given = tensor(n.out);
  Operand y = given;
  const auto takes = [](DataType t) { return is_plain_float(t) || t == DataType::kInt32 || t == DataType::kInt8; };
  if (!takes(x.desc.type)) x = in_type(x, common_type({x.desc.type}));
  if (!takes(y.desc.type)) y = dense(y.desc, common_type({y.desc.type}));
  reduce::Problem problem;
  problem.op = static_cast<reduce::Op>(n.reduction);
  problem.nan = reduce::Nan::kPropagate;
  problem.a.type = problem.a.cast = x.desc.type;
  problem.c.type = problem.c.cast = y.desc.type;
  // A size that divides that of the input: neighbours are reduced, as a dimension of their own.
  const auto push_dim = [](TensorDesc& t, std::int64_t size, std::int64_t stride) {
    if (t.rank == kMaxRank)
      fail(Status::kNotImplemented, "a reduction of groups of neighbours needs more than {} dimensions", kMaxRank);
    t.lens[static_cast<std::size_t>(t.rank)] = size;
    t.strides[static_cast<std::size_t>(t.rank++)] = stride;
  };
  for (std::size_t d = 0; d < static_cast<std::size_t>(x.desc.rank); ++d) {
    const std::int64_t size = x.desc.lens[d], kept = y.desc.lens[d], stride = x.desc.strides[d];
    const bool splits = kept != 1 && kept != size;
    push_dim(problem.a, splits ? kept : size, splits ? size / kept * stride : stride);
    push_dim(problem.c, kept, y.desc.strides[d]);
    if (!splits) continue;
    push_dim(problem.a, size / kept, stride);
    push_dim(problem.c, 1, y.desc.strides[d]);
  }
  reduce::validate(problem);
  if (!reduce::is_supported(device_, problem))
    fail(Status::kNotImplemented, "{} has no arithmetic in fp64, which a reduction of {} needs", device_.name,
         name_of(x.desc.type));
  push("reduction", {x, y}, elements(x), [x, y, problem](Handle& handle) -> Built {
    const search::Call call = reduce::search_call(handle, problem, {});
    const auto plan = std::make_shared<const polymio::Plan>(call.first_plan());
    return {[=](const Running& on) {
              reduce::Problem::Args args;
              args.a = on.address(x);
              args.c = on.address(y);
              args.workspace = on.scratch;
              args.workspace_bytes = plan->workspace;
              plan->invoke(on.stream, &args);
            },
            plan->workspace};
  });
  if (y.buffer != given.buffer) copy(y, given);
}

void Draft::add_reshape(const Node& n) {
  const Operand x = tensor(n.in[0]), y = tensor(n.out);
  Operand from = x, to = y;
  if (x.desc.rank >= 2 && x.desc.rank == y.desc.rank) {
    const TensorDesc transposed = with_last_exchanged(x.desc);
    const auto last = static_cast<std::size_t>(x.desc.rank - 1);
    if (transposed.lens == y.desc.lens && transposed.strides[last] == y.desc.strides[last] &&
        transposed.strides[last - 1] == y.desc.strides[last - 1]) {
      from.desc = transposed;
      return copy(from, to);
    }
  }
  if (is_row_major(x.desc)) {
    from.desc = reshaped(x.desc, y.desc);
  } else if (is_row_major(y.desc)) {
    to.desc = reshaped(y.desc, x.desc);
  } else {
    const Operand middle = dense(x.desc, x.desc.type);
    copy(x, middle);
    from = middle;
    from.desc = reshaped(middle.desc, y.desc);
  }
  copy(from, to);
}

void Draft::add_random(const Node& n) {
  const Operand y = tensor(n.out), offset = tensor(n.in[0]);
  const bool has_seed = n.in.size() > 1;
  const Operand seed = has_seed ? tensor(n.in[1]) : offset;
  for (const Operand* o : {&offset, &seed})
    require(o->desc.type == DataType::kInt64, "the seed and offset of random numbers are int64, {} was given",
            name_of(o->desc.type));
  push("random", {offset, seed, y}, 64 * elements(y), [=, random = n.random](Handle& handle) -> Built {
    return {[=, run = build_random(handle.stream(), random, y.desc)](const Running& on) {
      run(on.stream, on.address(y), on.address(offset), has_seed ? on.address(seed) : nullptr);
    }};
  });
}

void Draft::add_index(const Node& n) {
  const Operand y = tensor(n.out);
  push("index", {y}, 4 * elements(y), [y, axis = n.axis](Handle& handle) -> Built {
    return {
        [y, run = build_index(handle.stream(), axis, y.desc)](const Running& on) { run(on.stream, on.address(y)); }};
  });
}

void Draft::add_softmax(int from, int to) {
  const Operand x = tensor(from), y = tensor(to);
  const std::int64_t length = x.desc.lens[static_cast<std::size_t>(x.desc.rank - 1)];
  const std::int64_t sizes[] = {x.desc.count() / length, length, 1, 1};
  const softmax::Problem problem =
      softmax::forward_problem(softmax::Algorithm::kAccurate, softmax::Mode::kChannel,
                               make_tensor(x.desc.type, sizes, {}), make_tensor(y.desc.type, sizes, {}));
  softmax::validate(problem);
  push("softmax", {x, y}, 16 * elements(x), [=](Handle& handle) -> Built {
    const search::Call call = softmax::search_call(handle, problem, {});
    const auto plan = std::make_shared<const polymio::Plan>(call.first_plan());
    return {[=](const Running& on) {
      softmax::Problem::Args args;
      args.in = on.address(x);
      args.result = on.address(y);
      plan->invoke(on.stream, &args);
    }};
  });
}

}  // namespace polymio::graph
