// Passes over tensors on GPUs. A program serves every shape, so that there are no plans: kernels are found by types.
// SPDX-License-Identifier: MIT
#include "primitives/tensor_ops/passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "core/kernel_builder.h"
#include "kernels/gpu/formula.h"
#include "kernels/gpu/walk.h"

namespace polymio::tensor_ops {
namespace {

using kernels::Nest;
using kernels::Operand;
using kernels::Walk;

constexpr std::int64_t kThreads = 256, kSumThreads = 512, kTile = 64;  // as in the kernels
constexpr std::int64_t kUnits = 4, kVectorUnits = 2;

/// What is computed with; names as kernels have them.
enum class Numbers { kFloat, kDouble, kExact, kBits };
enum class Entry { kElementwise, kElementwiseVectors, kTurn, kTurnX, kTurnY, kTurnXY, kSum, kSumVectors };

struct Program {
  Entry entry;
  DataType in, out;
  Numbers numbers;
};

KernelSpec spec_of(const DeviceInfo& device, const Program& p) {
  static constexpr const char* kNumbers[] = {"float", "double", "exact", "bits"};
  static constexpr const char* kSources[] = {"elementwise", "elementwise", "turn", "turn",
                                             "turn",        "turn",        "bias", "bias"};
  static constexpr const char* kEntries[] = {
      "elementwise",  "elementwise_vectors", "turn", "turn_x", "turn_y", "turn_xy",
      "sum_channels", "sum_channels_vectors"};
  const auto entry = static_cast<std::size_t>(p.entry);
  KernelSpec spec{fmt::format("primitives/tensor_ops/gpu/{}.cl", kSources[entry]), kEntries[entry], {}};
  spec.options = {fmt::format("-DIN={}", name_of(p.in)), fmt::format("-DOUT={}", name_of(p.out)),
                  fmt::format("-DNUM={}", kNumbers[static_cast<int>(p.numbers)])};
  if (device.gpu.fp64) spec.options.emplace_back("-DFP64");
  return spec;
}

const Kernel& kernel(Stream& stream, const Program& p) {
  static SharedKernels& shared = *new SharedKernels;
  const auto number = ((static_cast<std::uint64_t>(p.in) * 16 + static_cast<std::uint64_t>(p.out)) * 4 +
                       static_cast<std::uint64_t>(p.numbers)) *
                          8 +
                      static_cast<std::uint64_t>(p.entry);
  return shared.get(stream, number, [&] { return spec_of(stream.info(), p); });
}

void require_double(const Stream& stream) {
  if (!stream.info().gpu.fp64)
    fail(Status::kNotImplemented, "{} has no double-precision arithmetic, which these data types need",
         stream.info().name);
}

Launch launch_of(std::int64_t blocks, std::int64_t threads) {
  Launch shape;
  shape.blocks[0] = static_cast<std::uint32_t>(blocks);
  shape.threads[0] = static_cast<std::uint32_t>(threads);
  return shape;
}

/// An operand of a kernel in memory; without one it is a constant.
struct Side {
  const void* data;
  DataType type;
  std::size_t operand;  // of the loop
};

/// c = f(a, b) + beta * c with sides a, b, c.
struct Job {
  const Loop& loop;
  std::array<Side, 3> sides;
  Numbers numbers;
  Function function = Function::kFirst;
  double alpha1 = 1, alpha2 = 1, beta = 0;
  const void* constant = nullptr;  // in host memory
};

template <class Scalar>
Scalar constant_of(const Job& job) {
  const DataType type = job.sides[0].type;
  if (!job.constant) return 0;
  if constexpr (std::is_floating_point_v<Scalar>) return static_cast<Scalar>(dtype::load(type, job.constant, 0));
  std::int64_t bits = 0;
  std::memcpy(&bits, job.constant, size_of(type));
  const auto unused = static_cast<int>(64 - 8 * size_of(type));
  return static_cast<Scalar>(std::is_signed_v<Scalar> ? bits << unused >> unused : bits);
}

template <class Scalar>
kernels::Formula<Scalar> formula(const Job& job) {
  const auto scalar = [](double v) { return static_cast<Scalar>(v); };
  const bool plain = job.numbers == Numbers::kBits;
  return {plain ? Scalar{1} : scalar(job.alpha1),
          plain ? Scalar{1} : scalar(job.alpha2),
          plain ? Scalar{0} : scalar(job.beta),
          constant_of<Scalar>(job),
          static_cast<int>(job.function),
          job.sides[0].data != nullptr,
          job.function != Function::kFirst && job.sides[1].data != nullptr};
}

/// Calls body with the formula in the scalars of the job's numbers.
template <class Body>
void with_formula(const Job& job, const Body& body) {
  switch (job.numbers) {
    case Numbers::kFloat:
      return body(formula<float>(job));
    case Numbers::kDouble:
      return body(formula<double>(job));
    case Numbers::kExact:
      return body(formula<std::int64_t>(job));
    case Numbers::kBits:
      return body(formula<std::uint64_t>(job));
  }
}

/// As the kernels: elements that a thread takes together.
int vector_of(DataType in, DataType out) {
  return std::min(16 / static_cast<int>(std::min(size_of(in), size_of(out))), 8);
}

/// Whether runs of `n` elements along a dimension of the loop, where the side is dense, begin at multiples of their
/// bytes or of 16.
bool is_aligned(const Job& job, const Side& side, std::size_t along, std::int64_t n) {
  const auto size = static_cast<std::int64_t>(size_of(side.type)), bytes = std::min<std::int64_t>(16, n * size);
  std::uintptr_t bits =
      reinterpret_cast<std::uintptr_t>(side.data) | static_cast<std::uintptr_t>(job.loop.base[side.operand] * size);
  for (std::size_t d = 0; d < job.loop.rank; ++d)
    if (d != along) bits |= static_cast<std::uintptr_t>(job.loop.dims[d].strides[side.operand] * size);
  return bits % static_cast<std::uintptr_t>(bytes) == 0;
}

bool takes_vectors(const Job& job, int n) {
  const std::size_t inner = job.loop.rank - 1;
  const Loop::Dim& dim = job.loop.dims[inner];
  if (dim.size < n || (inner > 0 && dim.size % n != 0) || dim.strides[job.sides[2].operand] != 1) return false;
  return std::all_of(job.sides.begin(), job.sides.end(), [&](const Side& s) {
    if (!s.data || dim.strides[s.operand] == 0) return true;
    return dim.strides[s.operand] == 1 && is_aligned(job, s, inner, n);
  });
}

Nest nest_of(const Job& job) {
  Nest nest;
  nest.rank = static_cast<int>(job.loop.rank);
  for (std::size_t o = 0; o < job.sides.size(); ++o) {
    const std::size_t from = job.sides[o].operand;
    nest.first[o] = job.loop.base[from];
    for (std::size_t d = 0; d < job.loop.rank; ++d) nest.dims[d].strides[o] = job.loop.dims[d].strides[from];
  }
  for (std::size_t d = 0; d < job.loop.rank; ++d) nest.dims[d].size = job.loop.dims[d].size;
  return nest;
}

void visit(Stream& stream, const Job& job) {
  const DataType in = job.sides[0].type, out = job.sides[2].type;
  const int vector = vector_of(in, out);
  const bool vectors = takes_vectors(job, vector);
  const Kernel& k = kernel(stream, {vectors ? Entry::kElementwiseVectors : Entry::kElementwise, in, out, job.numbers});
  Nest nest = nest_of(job);
  nest.group(vectors ? vector : 1);
  const std::int64_t per_block = kThreads * (vectors ? kVectorUnits : kUnits);
  const Buffer a(job.sides[0].data), b(job.sides[1].data), c(job.sides[2].data);
  with_formula(job, [&](const auto& f) {
    each_part(nest, [&](const Nest& part) {
      const Walk walk = part.walk();
      launch(stream, k, launch_of((walk.count + per_block - 1) / per_block, kThreads), a, b, c, walk, part.operand(0),
             part.operand(1), part.operand(2), f);
    });
  });
}

/// As in turn.cl.
struct Turn {
  std::int64_t rows, columns, x_column, y_row;
};

/// The dimension in which a is dense while c is in the innermost one; that one itself when there is none.
std::size_t turned_dim(const Job& job) {
  constexpr std::int64_t kWorthATile = 8;
  const std::size_t inner = job.loop.rank - 1, x = job.sides[0].operand, y = job.sides[2].operand;
  const auto& dims = job.loop.dims;
  if (!job.sides[0].data || job.function != Function::kFirst || dims[inner].strides[y] != 1 ||
      dims[inner].strides[x] <= 1 || dims[inner].size < kWorthATile)
    return inner;
  for (std::size_t d = 0; d < inner; ++d)
    if (dims[d].strides[x] == 1 && dims[d].size >= kWorthATile) return d;
  return inner;
}

void turn(Stream& stream, const Job& job, std::size_t turned) {
  const Side &x = job.sides[0], &y = job.sides[2];
  const std::size_t inner = job.loop.rank - 1;
  const Loop::Dim &row = job.loop.dims[turned], &column = job.loop.dims[inner];
  const auto vectors = [&](const Side& s, std::size_t along) {
    return is_aligned(job, s, along, 16 / static_cast<std::int64_t>(size_of(s.type)));
  };
  const Turn t{row.size, column.size, column.strides[x.operand], row.strides[y.operand]};
  static constexpr Entry kEntries[] = {Entry::kTurn, Entry::kTurnX, Entry::kTurnY, Entry::kTurnXY};
  const Entry entry = kEntries[(vectors(x, turned) ? 1 : 0) + (vectors(y, inner) ? 2 : 0)];
  // Tiles instead of elements; the third operand says where a tile begins.
  Nest nest;
  nest.first[0] = job.loop.base[x.operand], nest.first[1] = job.loop.base[y.operand];
  const auto add = [&](const Loop::Dim& dim, std::int64_t step, std::int64_t place) {
    nest.dims[nest.rank++] = {(dim.size + step - 1) / step,
                              {dim.strides[x.operand] * step, dim.strides[y.operand] * step, place}};
  };
  for (std::size_t d = 0; d < inner; ++d)
    if (d != turned) add(job.loop.dims[d], 1, 0);
  add(row, kTile, kTile);
  add(column, kTile, kTile << 32);
  const Kernel& k = kernel(stream, {entry, x.type, y.type, job.numbers});
  with_formula(job, [&](const auto& f) {
    each_part(nest, [&](const Nest& part) {
      launch(stream, k, launch_of(part.count(), kThreads), Buffer(x.data), Buffer(y.data), part.walk(), part.operand(0),
             part.operand(1), part.operand(2), t, f);
    });
  });
}

void run(Stream& stream, const Job& job) {
  static constexpr const char* kRoles[] = {"the first input", "the second input", "the output"};
  for (std::size_t i = 0; i < job.sides.size(); ++i)
    if (job.sides[i].data) stream.check_memory(job.sides[i].data, kRoles[i]);
  const std::size_t turned = turned_dim(job);
  turned == job.loop.rank - 1 ? visit(stream, job) : turn(stream, job, turned);
}

void run_elementwise(Stream& stream, const Elementwise& p) {
  const bool unary = p.function == Function::kFirst;
  const std::span<const DataType> types(p.types.data(), unary ? 2 : 3);
  const double scalars[] = {p.alpha1, p.alpha2, p.beta};
  const Numbers numbers = needs_exact(types, scalars) ? Numbers::kExact
                          : needs_double(types)       ? Numbers::kDouble
                                                      : Numbers::kFloat;
  if (numbers == Numbers::kDouble) require_double(stream);
  const void* const b = unary || p.host_b ? nullptr : p.data[2];
  run(stream, {p.loop,
               {Side{p.data[1], p.types[1], 1}, Side{b, p.types[1], 2}, Side{p.out, p.types[0], 0}},
               numbers,
               p.function,
               p.alpha1,
               p.alpha2,
               p.beta,
               p.host_b ? p.data[2] : nullptr});
}

/// A type of so many bytes.
DataType raw(std::size_t size) {
  return size == 1   ? DataType::kInt8
         : size == 2 ? DataType::kBFloat16
         : size == 4 ? DataType::kInt32
                     : DataType::kInt64;
}

void run_copy(Stream& stream, const Loop& loop, std::size_t size, const void* src, void* dst) {
  const DataType t = raw(size);
  run(stream, {loop, {Side{src, t, 1}, Side{nullptr, t, 1}, Side{dst, t, 0}}, Numbers::kBits});
}

void run_fill(Stream& stream, const Loop& loop, std::size_t size, const void* value, void* dst) {
  const DataType t = raw(size);
  Job job{loop, {Side{nullptr, t, 1}, Side{nullptr, t, 1}, Side{dst, t, 0}}, Numbers::kBits};
  job.constant = value;
  run(stream, job);
}

/// As in bias.cl.
struct Channels {
  std::int64_t channels, dy_stride, db_stride;
  int dy_vector, db_vector, together;
};
template <class Real>
struct Scaling {
  Real alpha, beta;
  int exact;
};

/// The elements of one channel: one or more dimensions without it.
Loop loop_of_channel(const TensorDesc& dy) {
  const TensorDesc* const desc = &dy;
  const Loop all = make_loop({&desc, 1});
  Loop loop;
  for (std::size_t d = 0; d < all.rank; ++d)
    if (d != 1 && d != static_cast<std::size_t>(dy.rank)) loop.push(all.dims[d]);
  loop.simplify();
  return loop;
}

/// Channels of a block: those that share cache lines, unless units of the device would idle.
int channels_together(const DeviceInfo& device, const TensorDesc& dy, const Loop& loop) {
  if (dy.vector_length > 1) return dy.vector_length;
  if (dy.strides[1] >= loop.dims[loop.rank - 1].strides[0]) return 1;
  int together = 32;
  while (together > 1 && dy.lens[1] < std::int64_t{together} * device.units) together /= 2;
  return together;
}

void run_bias_backward_gpu(Stream& stream, double alpha, Input dy, double beta, Output db) {
  stream.check_memory(dy.data, "the buffer of dy");
  stream.check_memory(db.data, "the buffer of db");
  const DataType type = dy.desc.type;
  const double scalars[] = {alpha, beta};
  const DataType wide_type[] = {DataType::kInt64};
  const bool wide = type == DataType::kInt32 || type == DataType::kInt64,
             exact = wide && needs_exact(wide_type, scalars);
  if (type == DataType::kDouble || (wide && !exact)) require_double(stream);
  const Loop loop = loop_of_channel(dy.desc);
  const Channels channels{dy.desc.lens[1] * dy.desc.vector_length,
                          dy.desc.strides[1],
                          db.desc.strides[1],
                          dy.desc.vector_length,
                          db.desc.vector_length,
                          channels_together(stream.info(), dy.desc, loop)};
  const Job job{loop, {Side{dy.data, type, 0}, Side{nullptr, type, 0}, Side{dy.data, type, 0}}, Numbers::kBits};
  const int vector = vector_of(type, type);
  const auto channel_bytes = dy.desc.strides[1] * static_cast<std::int64_t>(size_of(type));
  const bool vectors = channels.together == 1 && channel_bytes % 16 == 0 && takes_vectors(job, vector);
  const Numbers numbers = wide ? Numbers::kExact : type == DataType::kDouble ? Numbers::kDouble : Numbers::kFloat;
  const Kernel& k = kernel(stream, {vectors ? Entry::kSumVectors : Entry::kSum, type, type, numbers});
  const Launch shape = launch_of((channels.channels + channels.together - 1) / channels.together, kSumThreads);
  Nest nest = nest_of(job);
  nest.group(vectors ? vector : 1);
  double keep = beta;  // parts beyond the first are added
  each_part(nest, [&](const Nest& part) {
    const auto go = [&]<class Real>(Real) {
      const Scaling<Real> s{static_cast<Real>(alpha), static_cast<Real>(keep), exact};
      launch(stream, k, shape, Buffer(dy.data), Buffer(db.data), part.walk(), part.operand(0), channels, s);
    };
    stream.info().gpu.fp64 ? go(double{}) : go(float{});
    keep = 1;
  });
}

}  // namespace

const Passes kGpuPasses = {run_elementwise, run_copy, run_fill, run_bias_backward_gpu};

}  // namespace polymio::tensor_ops
