// Passes over tensors on GPUs. A program serves every shape, so there are no plans: kernels are cached by types.
// SPDX-License-Identifier: MIT
#include "primitives/tensor_ops/passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/math.h"
#include "core/kernel_builder.h"
#include "kernels/gpu/portable/formula.h"
#include "primitives/common/gpu/skeletons.h"

namespace polymio::tensor_ops {
namespace {

using gpu_skeletons::nest_of;
using gpu_skeletons::value_argument;
using kernels::Nest;

constexpr std::int64_t kThreads = 256, kTile = 64;  // as in transpose.cl

/// Arithmetic of a pass, -DNUM.
enum class Numbers { kFloat, kDouble, kExact, kBits };

/// A kernel source of this folder with its entry points.
struct Source {
  const char* name;
  std::span<const char* const> entries;
};
constexpr std::array kTransposeEntries = {"transpose", "transpose_x", "transpose_y", "transpose_xy"};
constexpr Source kElementwise{"elementwise", gpu_skeletons::kMapEntries}, kTranspose{"transpose", kTransposeEntries},
    kBias{"bias", std::span(gpu_skeletons::kColumnEntries).first(gpu_skeletons::kWholeColumnEntries)};
constexpr const Source* kSources[] = {&kElementwise, &kTranspose, &kBias};

struct Program {
  const Source* source;
  DataType in, out;
  Numbers numbers;
};

KernelSpec spec_of(const DeviceInfo& device, const Program& p, std::size_t entry) {
  static constexpr const char* kNumbers[] = {"float", "double", "exact", "bits"};
  KernelSpec spec{fmt::format("primitives/tensor_ops/gpu/{}.cl", p.source->name), p.source->entries[entry], {}};
  spec.options = {fmt::format("-DIN={}", name_of(p.in)), fmt::format("-DOUT={}", name_of(p.out)),
                  fmt::format("-DNUM={}", kNumbers[static_cast<int>(p.numbers)])};
  if (device.gpu.fp64) spec.options.emplace_back("-DFP64");
  return spec;
}

SharedKernels& shared = *new SharedKernels;

const Kernel& kernel(Stream& stream, const Program& p, std::size_t entry) {
  std::uint64_t number = 0;  // 9 bits for each part: the largest data type is 0x101
  for (const std::size_t part :
       {static_cast<std::size_t>(std::ranges::find(kSources, p.source) - kSources), entry,
        static_cast<std::size_t>(p.in), static_cast<std::size_t>(p.out), static_cast<std::size_t>(p.numbers)})
    number = number << 9 | part;
  return shared.get(stream, number, [&] { return spec_of(stream.info(), p, entry); });
}

void require_double(const Stream& stream) {
  if (!stream.info().gpu.fp64)
    fail(Status::kNotImplemented, "{} has no double-precision arithmetic, which these data types need",
         stream.info().name);
}

/// c = f(a, b) + beta * c; operands a, b, c are operands 1, 2 and 0 of the loop.
struct Job {
  Nest nest;
  kernels::Sides sides;
  DataType in, out;
  Numbers numbers;
  Function function = Function::kFirst;
  double alpha1 = 1, alpha2 = 1, beta = 0;
  const void* constant = nullptr;  // in host memory: the value of absent sides
};

template <class Scalar>
Scalar constant_of(const Job& job) {
  const DataType type = job.in;
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

/// Calls body with the formula in the scalar type of the job's arithmetic.
template <class Body>
void with_formula(const Job& job, const Body& body) {
  switch (job.numbers) {
    case Numbers::kFloat: return body(formula<float>(job));
    case Numbers::kDouble: return body(formula<double>(job));
    case Numbers::kExact: return body(formula<std::int64_t>(job));
    case Numbers::kBits: return body(formula<std::uint64_t>(job));
  }
}

void run_map(Stream& stream, const Job& job) {
  const auto plan = gpu_skeletons::plan_map(job.nest, job.sides);
  const Kernel& k = kernel(stream, {&kElementwise, job.in, job.out, job.numbers}, static_cast<std::size_t>(plan.entry));
  with_formula(job, [&](const auto& f) { launch_map(stream, k, plan, job.sides, value_argument(f)); });
}

/// As in transpose.cl.
struct TransposeShape {
  std::int64_t rows, columns, x_column, y_row;
  int x_flat, y_flat;
};

/// The dimension in which a is dense if c is dense in the innermost one; the innermost one if there is no such
/// dimension.
int transposed_dim(const Job& job) {
  constexpr std::int64_t kMinTileSide = 8;
  const Nest::Dim& inner = job.nest.inner();
  const int last = job.nest.rank - 1;
  if (!job.sides[0].data || job.function != Function::kFirst || inner.strides[2] != 1 || inner.strides[0] <= 1 ||
      inner.size < kMinTileSide)
    return last;
  for (int d = 0; d < last; ++d)
    if (job.nest.dim(d).strides[0] == 1 && job.nest.dim(d).size >= kMinTileSide) return d;
  return last;
}

/// How the two tensors of a transpose are accessed.
struct TransposeAccess {
  bool x_vectors, y_vectors;  // 16 bytes at a time
  bool x_flat, y_flat;        // as in TransposeShape
};

TransposeAccess access_of(const Job& job, int transposed) {
  const int last = job.nest.rank - 1;
  const auto is_whole = [&](const Nest& nest, std::size_t o, int along) {
    const kernels::Side& side = job.sides[o];
    return is_aligned(nest, static_cast<int>(o), side, along, kernels::vector_of(side.size, side.size));
  };
  // Whether tiles are contiguous and aligned to 16 bytes.
  const auto is_flat_tile = [&](std::size_t o, int along, int across) {
    Nest lines = job.nest;
    const Nest::Dim line = std::exchange(lines.dim(across), {});
    return job.in == job.out && line.strides[o] == lines.dim(along).size && line.strides[o] <= kTile &&
           is_whole(lines, o, along);
  };
  const bool x_whole = is_whole(job.nest, 0, transposed);
  const bool y_whole = is_whole(job.nest, 2, last);
  const bool x_flat = !x_whole && is_flat_tile(0, transposed, last);
  const bool y_flat = !y_whole && !x_flat && is_flat_tile(2, last, transposed);
  return {x_whole || x_flat, y_whole || y_flat, x_flat, y_flat};
}

/// Iterates over tiles: the origin of a tile in x, in y, and encoded as transpose.cl has it.
Nest nest_of_tiles(const Nest& elements, int transposed) {
  const int last = elements.rank - 1;
  Nest tiles;
  tiles.operands = 3;
  tiles.first[0] = elements.first[0];
  tiles.first[1] = elements.first[2];
  const auto add = [&](const Nest::Dim& dim, std::int64_t step, std::int64_t origin_step) {
    tiles.dim(tiles.rank++) = {ceil_div(dim.size, step), {dim.strides[0] * step, dim.strides[2] * step, origin_step}};
  };
  for (int d = 0; d < last; ++d)
    if (d != transposed) add(elements.dim(d), 1, 0);
  add(elements.dim(transposed), kTile, kTile);
  add(elements.inner(), kTile, kTile << 32);
  return tiles;
}

void transpose(Stream& stream, const Job& job, int transposed) {
  const Nest::Dim& row = job.nest.dim(transposed);
  const Nest::Dim& column = job.nest.inner();
  const TransposeAccess access = access_of(job, transposed);
  const TransposeShape shape{row.size, column.size, column.strides[0], row.strides[2], access.x_flat, access.y_flat};
  const std::size_t entry = (access.x_vectors ? 1 : 0) + (access.y_vectors ? 2 : 0);
  const Kernel& k = kernel(stream, {&kTranspose, job.in, job.out, job.numbers}, entry);
  with_formula(job, [&](const auto& f) {
    each_part(nest_of_tiles(job.nest, transposed), [&](const Nest& part) {
      launch(stream, k, launch_shape(kThreads, part.count()), Buffer(job.sides[0].data), Buffer(job.sides[2].data),
             part.walk(), part.strides(0), part.strides(1), part.strides(2), shape, f);
    });
  });
}

void run(Stream& stream, const Job& job) {
  static constexpr const char* kRoles[] = {"the first input", "the second input", "the output"};
  for (std::size_t i = 0; i < std::size(kRoles); ++i)
    if (job.sides[i].data) stream.check_memory(job.sides[i].data, kRoles[i]);
  const int transposed = transposed_dim(job);
  transposed == job.nest.rank - 1 ? run_map(stream, job) : transpose(stream, job, transposed);
}

/// Threads write in any order: elements must not share memory.
void require_separate(const Loop& loop) {
  if (!loop.separate)
    fail(Status::kNotImplemented, "the output overlaps itself: elements of it that share memory run on the CPU only");
}

void run_elementwise(Stream& stream, const Elementwise& p) {
  require_separate(p.loop);
  const bool unary = p.function == Function::kFirst;
  const std::span<const DataType> types(p.types.data(), unary ? 2 : 3);
  const double scalars[] = {p.alpha1, p.alpha2, p.beta};
  const Numbers numbers = needs_exact(types, scalars) ? Numbers::kExact
                          : needs_double(types)       ? Numbers::kDouble
                                                      : Numbers::kFloat;
  if (numbers == Numbers::kDouble) require_double(stream);
  const void* const b = unary || p.host_b ? nullptr : p.data[2];
  const std::size_t in = size_of(p.types[1]), out = size_of(p.types[0]);
  run(stream, {nest_of(p.loop, 2, {1, 2, 0}),
               {{{p.data[1], in}, {b, in}, {p.out, out}}},
               p.types[1],
               p.types[0],
               numbers,
               p.function,
               p.alpha1,
               p.alpha2,
               p.beta,
               p.host_b ? p.data[2] : nullptr});
}

/// A type of `size` bytes.
DataType raw(std::size_t size) {
  return size == 1   ? DataType::kInt8
         : size == 2 ? DataType::kBFloat16
         : size == 4 ? DataType::kInt32
                     : DataType::kInt64;
}

void run_copy(Stream& stream, const Loop& loop, std::size_t size, const void* src, void* dst) {
  require_separate(loop);
  const DataType t = raw(size);
  run(stream, {nest_of(loop, 2, {1, 2, 0}), {{{src, size}, {}, {dst, size}}}, t, t, Numbers::kBits});
}

void run_fill(Stream& stream, const Loop& loop, std::size_t size, const void* value, void* dst) {
  const DataType t = raw(size);
  Job job{nest_of(loop, 2, {1, 2, 0}), {{{nullptr, size}, {}, {dst, size}}}, t, t, Numbers::kBits};
  job.constant = value;
  run(stream, job);
}

/// Formula of bias.cl.
template <class Real>
struct Scaling {
  Real alpha, beta;
  int exact;
};

Numbers sum_numbers(DataType t) {
  if (t == DataType::kInt32 || t == DataType::kInt64) return Numbers::kExact;
  return t == DataType::kDouble ? Numbers::kDouble : Numbers::kFloat;
}

/// Iterates over the elements of one channel.
Loop loop_of_channel(const TensorDesc& dy) {
  const TensorDesc* const desc = &dy;
  const Loop all = make_loop({&desc, 1});
  Loop loop;
  loop.operands = all.operands;
  for (std::size_t d = 0; d < all.rank; ++d)
    if (d != 1 && d != static_cast<std::size_t>(dy.rank)) loop.push(all.dims[d]);
  loop.simplify();
  return loop;
}

gpu_skeletons::Columns columns_of(const Input& dy, const Output& db) {
  const std::size_t size = size_of(dy.desc.type);
  gpu_skeletons::Columns columns{
      nest_of(loop_of_channel(dy.desc), 1, {0, 1}), {{{dy.data, size}, {db.data, size}}}, {}};
  columns.shape.columns = dy.desc.lens[1] * dy.desc.vector_length;
  columns.shape.stride[0] = dy.desc.strides[1];
  columns.shape.stride[1] = db.desc.strides[1];
  columns.shape.vector[0] = dy.desc.vector_length;
  columns.shape.vector[1] = db.desc.vector_length;
  return columns;
}

void run_bias_backward_gpu(Stream& stream, double alpha, Input dy, double beta, Output db) {
  stream.check_memory(dy.data, "the buffer of dy");
  stream.check_memory(db.data, "the buffer of db");
  const DataType type = dy.desc.type;
  const double scalars[] = {alpha, beta};
  const DataType wide_type[] = {DataType::kInt64};
  const bool is_wide_integer = sum_numbers(type) == Numbers::kExact,
             exact = is_wide_integer && needs_exact(wide_type, scalars);
  if (type == DataType::kDouble || (is_wide_integer && !exact)) require_double(stream);
  const gpu_skeletons::Columns columns = columns_of(dy, db);
  const auto plan = gpu_skeletons::plan_column(stream.info(), columns);
  const Kernel& k = kernel(stream, {&kBias, type, type, sum_numbers(type)}, static_cast<std::size_t>(plan.entry));
  const auto launch_in = [&]<class Real>(Real) {
    Scaling<Real> scaling{static_cast<Real>(alpha), 0, exact};
    launch_column(stream, k, plan, columns.sides, [&](bool first) {
      scaling.beta = first ? static_cast<Real>(beta) : 1;
      return value_argument(scaling);
    });
  };
  stream.info().gpu.fp64 ? launch_in(double{}) : launch_in(float{});
}

}  // namespace

std::vector<KernelSpec> programs(const DeviceInfo& device, std::span<const DataType> types) {
  std::vector<KernelSpec> specs;
  const auto add = [&](const Program& program) {
    if (device.kind == DeviceKind::kCpu || (program.numbers == Numbers::kDouble && !device.gpu.fp64)) return;
    for (std::size_t e = 0; e < program.source->entries.size(); ++e) specs.push_back(spec_of(device, program, e));
  };
  const auto add_passes = [&](DataType in, DataType out, Numbers numbers) {
    add({&kElementwise, in, out, numbers});
    add({&kTranspose, in, out, numbers});
  };
  for (const DataType in : types) {
    for (const DataType out : types) {
      const DataType pair[] = {in, out};
      add_passes(in, out, needs_double(pair) ? Numbers::kDouble : Numbers::kFloat);
      if (needs_exact(pair, {})) add_passes(in, out, Numbers::kExact);
    }
    add_passes(raw(size_of(in)), raw(size_of(in)), Numbers::kBits);
    add({&kBias, in, in, sum_numbers(in)});
  }
  return specs;
}

const Passes kGpuPasses = {run_elementwise, run_copy, run_fill, run_bias_backward_gpu};

}  // namespace polymio::tensor_ops
