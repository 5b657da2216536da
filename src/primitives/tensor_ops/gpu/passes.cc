// Passes over tensors on GPUs. A program serves every shape, so there are no plans: kernels are cached by types.
// SPDX-License-Identifier: MIT
#include "primitives/tensor_ops/passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "core/kernel_builder.h"
#include "kernels/gpu/formula.h"
#include "kernels/gpu/walk.h"

namespace polymio::tensor_ops {
namespace {

using kernels::Nest;
using kernels::Walk;

constexpr std::int64_t kThreads = 256, kSumThreads = 512, kTile = 64,
                       kMaxCluster = 8;  // as in the kernels
constexpr std::int64_t kUnits = 4, kVectorUnits = 1;

/// Arithmetic of a pass, -DNUM.
enum class Numbers { kFloat, kDouble, kExact, kBits };
enum class Entry {
  kElementwise,
  kElementwiseVectors,
  kElementwiseRows,
  kTranspose,
  kTransposeX,
  kTransposeY,
  kTransposeXY,
  kSum,
  kSumUnits,
  kSumVectors,
  kSumAcross,
  kSumPlanes
};

struct Program {
  Entry entry;
  DataType in, out;
  Numbers numbers;
};

KernelSpec spec_of(const DeviceInfo& device, const Program& p) {
  static constexpr const char* kNumbers[] = {"float", "double", "exact", "bits"};
  static constexpr struct {
    const char *source, *name;
  } kEntries[] = {{"elementwise", "elementwise"},      {"elementwise", "elementwise_vectors"},
                  {"elementwise", "elementwise_rows"}, {"transpose", "transpose"},
                  {"transpose", "transpose_x"},        {"transpose", "transpose_y"},
                  {"transpose", "transpose_xy"},       {"bias", "sum_channels"},
                  {"bias", "sum_channels_units"},      {"bias", "sum_channels_vectors"},
                  {"bias", "sum_channels_across"},     {"bias", "sum_channels_planes"}};
  const auto& entry = kEntries[static_cast<std::size_t>(p.entry)];
  KernelSpec spec{fmt::format("primitives/tensor_ops/gpu/{}.cl", entry.source), entry.name, {}};
  spec.options = {fmt::format("-DIN={}", name_of(p.in)), fmt::format("-DOUT={}", name_of(p.out)),
                  fmt::format("-DNUM={}", kNumbers[static_cast<int>(p.numbers)])};
  if (device.gpu.fp64) spec.options.emplace_back("-DFP64");
  return spec;
}

SharedKernels& shared = *new SharedKernels;

const Kernel& kernel(Stream& stream, const Program& p) {
  std::uint64_t number = static_cast<std::uint64_t>(p.entry);
  for (const int part : {static_cast<int>(p.in), static_cast<int>(p.out), static_cast<int>(p.numbers)})
    number = number * 16 + static_cast<std::uint64_t>(part);
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

/// c = f(a, b) + beta * c; sides a, b, c are operands 1, 2 and 0 of the loop.
struct Job {
  Nest nest;
  kernels::Sides sides;
  DataType in, out;
  Numbers numbers;
  Function function = Function::kFirst;
  double alpha1 = 1, alpha2 = 1, beta = 0;
  const void* constant = nullptr;  // in host memory: the value of absent sides
};

Nest nest_of(const Loop& loop, const std::array<std::size_t, 3>& operands) {
  Nest nest;
  nest.rank = static_cast<int>(loop.rank);
  for (std::size_t o = 0; o < operands.size(); ++o) {
    nest.first[o] = loop.base[operands[o]];
    for (std::size_t d = 0; d < loop.rank; ++d) nest.dims[d].strides[o] = loop.dims[d].strides[operands[o]];
  }
  for (std::size_t d = 0; d < loop.rank; ++d) nest.dims[d].size = loop.dims[d].size;
  return nest;
}
constexpr std::array<std::size_t, 3> kInOrder = {1, 2, 0};

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

/// Whether an operand is contiguous and its first element is aligned to 16 bytes.
bool is_flat(const Nest& nest, int o, const kernels::Side& side) {
  std::int64_t expected = 1;
  for (int d = nest.rank - 1; d >= 0; expected *= nest.dims[d--].size)
    if (nest.dims[d].strides[o] != expected) return false;
  const auto first =
      reinterpret_cast<std::uintptr_t>(side.data) + static_cast<std::uintptr_t>(nest.first[o]) * side.size;
  return first % 16 == 0;
}

/// Whether b is constant along each row of contiguous a and c, as elementwise_rows requires.
bool has_rows(const Job& job, int vector) {
  constexpr std::int64_t kMax = std::int64_t{1} << 30;
  const auto& [a, b, c] = job.sides;
  return job.function != Function::kFirst && b.data && job.nest.inner().strides[1] == 0 &&
         job.nest.inner().size >= vector && job.nest.count() <= kMax && is_flat(job.nest, 2, c) &&
         (!a.data || is_flat(job.nest, 0, a));
}

void run_units(Stream& stream, const Job& job) {
  const int vector = kernels::vector_of(size_of(job.in), size_of(job.out));
  const bool vectors = takes_vectors(job.nest, job.sides, vector), rows = !vectors && has_rows(job, vector);
  const Entry entry = vectors ? Entry::kElementwiseVectors : rows ? Entry::kElementwiseRows : Entry::kElementwise;
  const Kernel& k = kernel(stream, {entry, job.in, job.out, job.numbers});
  Nest nest = job.nest;
  nest.group(vectors ? vector : 1);
  const std::int64_t per_block = kThreads * (vectors ? kVectorUnits : rows ? vector : kUnits);
  const void* const c = job.sides[2].data;
  const Buffer in_a(job.sides[0].data_or(c)), in_b(job.sides[1].data_or(c));
  with_formula(job, [&](const auto& f) {
    each_part(nest, [&](const Nest& part) {
      const Walk walk = part.walk();
      const std::int64_t blocks = (walk.count + per_block - 1) / per_block;
      launch(stream, k, launch_of(blocks, kThreads), in_a, in_b, Buffer(c), walk, part.strides(0), part.strides(1),
             part.strides(2), f);
    });
  });
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
    if (job.nest.dims[d].strides[0] == 1 && job.nest.dims[d].size >= kMinTileSide) return d;
  return last;
}

void transpose(Stream& stream, const Job& job, int transposed) {
  const int last = job.nest.rank - 1;
  const Nest::Dim &row = job.nest.dims[transposed], &column = job.nest.inner();
  const auto vectors = [&](int o, int along) {
    return is_aligned(job.nest, o, job.sides[o], along, kernels::vector_of(job.sides[o].size, job.sides[o].size));
  };
  // Whether tiles are contiguous and aligned to 16 bytes.
  const auto flat = [&](int o, int along, int across) {
    Nest lines = job.nest;
    const Nest::Dim line = std::exchange(lines.dims[across], {});
    return job.in == job.out && line.strides[o] == lines.dims[along].size && line.strides[o] <= kTile &&
           is_aligned(lines, o, job.sides[o], along, kernels::vector_of(job.sides[o].size, job.sides[o].size));
  };
  const bool x_whole = vectors(0, transposed), y_whole = vectors(2, last);
  const bool x_flat = !x_whole && flat(0, transposed, last), y_flat = !y_whole && !x_flat && flat(2, last, transposed);
  static constexpr Entry kEntries[] = {Entry::kTranspose, Entry::kTransposeX, Entry::kTransposeY, Entry::kTransposeXY};
  const Entry entry = kEntries[(x_whole || x_flat ? 1 : 0) + (y_whole || y_flat ? 2 : 0)];
  const TransposeShape t{row.size, column.size, column.strides[0], row.strides[2], x_flat, y_flat};
  // Iterates over tiles; the third operand encodes the origin of a tile.
  Nest nest;
  nest.first[0] = job.nest.first[0];
  nest.first[1] = job.nest.first[2];
  const auto add = [&](const Nest::Dim& dim, std::int64_t step, std::int64_t origin_step) {
    nest.dims[nest.rank++] = {(dim.size + step - 1) / step,
                              {dim.strides[0] * step, dim.strides[2] * step, origin_step}};
  };
  for (int d = 0; d < last; ++d)
    if (d != transposed) add(job.nest.dims[d], 1, 0);
  add(row, kTile, kTile);
  add(column, kTile, kTile << 32);
  const Kernel& k = kernel(stream, {entry, job.in, job.out, job.numbers});
  with_formula(job, [&](const auto& f) {
    each_part(nest, [&](const Nest& part) {
      launch(stream, k, launch_of(part.count(), kThreads), Buffer(job.sides[0].data), Buffer(job.sides[2].data),
             part.walk(), part.strides(0), part.strides(1), part.strides(2), t, f);
    });
  });
}

void run(Stream& stream, const Job& job) {
  static constexpr const char* kRoles[] = {"the first input", "the second input", "the output"};
  for (std::size_t i = 0; i < std::size(kRoles); ++i)
    if (job.sides[i].data) stream.check_memory(job.sides[i].data, kRoles[i]);
  const int transposed = transposed_dim(job);
  transposed == job.nest.rank - 1 ? run_units(stream, job) : transpose(stream, job, transposed);
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
  run(stream, {nest_of(p.loop, kInOrder),
               {{p.data[1], in}, {b, in}, {p.out, out}},
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
  run(stream, {nest_of(loop, kInOrder), {{src, size}, {}, {dst, size}}, t, t, Numbers::kBits});
}

void run_fill(Stream& stream, const Loop& loop, std::size_t size, const void* value, void* dst) {
  const DataType t = raw(size);
  Job job{nest_of(loop, kInOrder), {{}, {}, {dst, size}}, t, t, Numbers::kBits};
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

/// Channels per block: those that share cache lines, fewer if multiprocessors would idle.
int channels_together(const DeviceInfo& device, const TensorDesc& dy, const Loop& loop) {
  if (dy.vector_length > 1) return dy.vector_length;
  if (dy.strides[1] >= loop.dims[loop.rank - 1].strides[0]) return 1;
  int together = 32;
  while (together > 1 && dy.lens[1] < std::int64_t{together} * device.units) together /= 2;
  return together;
}

/// NHWC with aligned vectors: vectors of channels per block; otherwise 0.
int vectors_together(const DeviceInfo& device, const Input& dy, const Nest& nest, int vector) {
  const auto size = size_of(dy.desc.type);
  if (dy.desc.strides[1] != 1 || dy.desc.vector_length > 1 || dy.desc.lens[1] % vector != 0 ||
      !is_aligned(nest, 2, {dy.data, size}, -1, vector))
    return 0;
  int together = 8;
  while (together > 1 && dy.desc.lens[1] / (vector * together) * 2 * kMaxCluster < device.units) together /= 2;
  return together;
}

/// Plan of sum_channels_planes for contiguous NCHW planes: planes per block, vectors (one per thread), blocks that
/// share the images, iteration space over images. vectors is 0 if the kernel does not apply.
struct Planes {
  int together = 1, vectors = 0, parts = 1;
  Nest images{};
  std::int64_t blocks(std::int64_t channels) const {
    return (channels / together * parts + kMaxCluster - 1) / kMaxCluster * kMaxCluster;
  }
};

Planes planes_of(const DeviceInfo& device, const Input& dy, const Nest& nest, int vector) {
  const Nest::Dim& plane = nest.inner();
  Planes p;
  p.together = static_cast<int>(vector / std::gcd(plane.size, std::int64_t{vector}));
  const std::int64_t channels = dy.desc.lens[1], groups = channels / p.together;
  if (dy.desc.vector_length > 1 || nest.rank > 2 || plane.strides[2] != 1 || plane.size < vector ||
      dy.desc.strides[1] != plane.size || channels % p.together != 0 || 2 * groups * kMaxCluster < device.units ||
      !is_aligned(nest, 2, {dy.data, size_of(dy.desc.type)}, nest.rank - 1, vector))
    return p;
  const std::int64_t vectors = p.together * plane.size / vector;
  const std::int64_t least = (vectors + kSumThreads - 1) / kSumThreads;
  std::int64_t pieces = least;
  while (vectors % pieces != 0 && pieces < 8 * least) ++pieces;
  if (vectors % pieces != 0 || (pieces > 1 && p.together > 1)) return p;
  p.vectors = static_cast<int>(vectors / pieces);
  while (p.parts < kMaxCluster && groups * p.parts < 2 * device.units) p.parts *= 2;
  p.images = nest;
  p.images.inner() = {pieces, {}};
  for (auto& stride : p.images.inner().strides) stride = vectors / pieces * vector;
  if (nest.rank > 1 && pieces == 1) --p.images.rank;
  return p;
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
  const Loop loop = loop_of_channel(dy.desc);
  Channels channels{dy.desc.lens[1] * dy.desc.vector_length,
                    dy.desc.strides[1],
                    db.desc.strides[1],
                    dy.desc.vector_length,
                    db.desc.vector_length,
                    channels_together(stream.info(), dy.desc, loop)};
  Nest nest = nest_of(loop, {0, 0, 0});
  const kernels::Sides sides = {{}, {}, {dy.data, size_of(type)}};
  const int vector = kernels::vector_of(size_of(type), size_of(type));
  const auto channel_bytes = dy.desc.strides[1] * static_cast<std::int64_t>(size_of(type));
  const bool units = channels.together == 1 && has_units(nest, sides, vector);
  const bool vectors = units && channel_bytes % 16 == 0 && takes_vectors(nest, sides, vector);
  const Numbers numbers = sum_numbers(type);
  const int across = vectors_together(stream.info(), dy, nest, vector);
  const Planes planes = across ? Planes{} : planes_of(stream.info(), dy, nest, vector);
  const Kernel& k = kernel(stream, {across               ? Entry::kSumAcross
                                    : planes.vectors > 0 ? Entry::kSumPlanes
                                    : vectors            ? Entry::kSumVectors
                                    : units              ? Entry::kSumUnits
                                                         : Entry::kSum,
                                    type, type, numbers});
  if (across) channels.together = across;
  const std::int64_t channels_per_block = across ? across * vector : channels.together;
  std::int64_t blocks = (channels.channels + channels_per_block - 1) / channels_per_block * (across ? kMaxCluster : 1);
  if (planes.vectors > 0) {
    channels.together = planes.together;
    blocks = planes.blocks(channels.channels);
    nest = planes.images;
  } else {
    nest.group(units && !across ? vector : 1);
  }
  const Launch shape = launch_of(blocks, kSumThreads);
  double part_beta = beta;  // parts after the first accumulate
  each_part(nest, [&](const Nest& part) {
    const auto launch_part = [&]<class Real>(Real) {
      const Scaling<Real> s{static_cast<Real>(alpha), static_cast<Real>(part_beta), exact};
      const auto with = [&](const auto&... extra) {
        launch(stream, k, shape, Buffer(dy.data), Buffer(db.data), part.walk(), part.strides(0), channels, s, extra...);
      };
      planes.vectors > 0 ? with(planes.vectors, planes.parts) : with();
    };
    stream.info().gpu.fp64 ? launch_part(double{}) : launch_part(float{});
    part_beta = 1;
  });
}

}  // namespace

std::vector<KernelSpec> programs(const DeviceInfo& device, std::span<const DataType> types) {
  std::vector<KernelSpec> specs;
  const auto add = [&](DataType in, DataType out, Numbers numbers, Entry first, Entry last) {
    if (device.kind == DeviceKind::kCpu || (numbers == Numbers::kDouble && !device.gpu.fp64)) return;
    for (int e = static_cast<int>(first); e <= static_cast<int>(last); ++e)
      specs.push_back(spec_of(device, {static_cast<Entry>(e), in, out, numbers}));
  };
  for (const DataType in : types) {
    for (const DataType out : types) {
      const DataType pair[] = {in, out};
      add(in, out, needs_double(pair) ? Numbers::kDouble : Numbers::kFloat, Entry::kElementwise, Entry::kTransposeXY);
      if (needs_exact(pair, {})) add(in, out, Numbers::kExact, Entry::kElementwise, Entry::kTransposeXY);
    }
    add(raw(size_of(in)), raw(size_of(in)), Numbers::kBits, Entry::kElementwise, Entry::kTransposeXY);
    add(in, in, sum_numbers(in), Entry::kSum, Entry::kSumPlanes);
  }
  return specs;
}

const Passes kGpuPasses = {run_elementwise, run_copy, run_fill, run_bias_backward_gpu};

}  // namespace polymio::tensor_ops
