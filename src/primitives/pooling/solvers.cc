// Every pooling solver, a row each, and the definition of pooling in double; ids 3001 to 3999 are pooling's.
// SPDX-License-Identifier: MIT
#include "primitives/pooling/solvers.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/registry.h"

namespace polymio::pooling {

using Maker = SolverMaker<Direction>;
Maker cpu_window, cpu_scatter, cpu_reference, gpu_window, gpu_scatter;

namespace {

using kernels::elements_of;
using kernels::windows_of;

constexpr SolverInfo info(std::uint64_t id, const char* name, unsigned devices, bool reference = false) {
  return {.id = id, .name = name, .method = "Direct", .devices = devices, .reference = reference};
}

// Order decides between equal times.
constexpr Registration<Direction> kRows[] = {
    {info(3001, "PoolCpuWindowFwd", kCpu), Direction::kForward, cpu_window},
    {info(3002, "PoolCpuWindowBwd", kCpu), Direction::kBackward, cpu_window},
    {info(3007, "PoolCpuScatterBwd", kCpu), Direction::kBackward, cpu_scatter},
    {info(3003, "PoolCpuReferenceFwd", kCpu, true), Direction::kForward, cpu_reference},
    {info(3004, "PoolCpuReferenceBwd", kCpu, true), Direction::kBackward, cpu_reference},
    {info(3005, "PoolGpuWindowFwd", kGpus), Direction::kForward, gpu_window},
    {info(3006, "PoolGpuWindowBwd", kGpus), Direction::kBackward, gpu_window},
    {info(3008, "PoolGpuScatterBwd", kGpus), Direction::kBackward, gpu_scatter},
};

/// Calls body(d, h, w) for all places in three ranges.
template <class Body>
void each(const kernels::Range (&r)[kMostSpatial], const Body& body) {
  for (std::int64_t d = r[0].first; d < r[0].end; ++d)
    for (std::int64_t h = r[1].first; h < r[1].end; ++h)
      for (std::int64_t w = r[2].first; w < r[2].end; ++w) body({d, h, w});
}

}  // namespace

SolverList solvers(Direction direction, DeviceKind kind) { return registered<kRows>().list(direction, kind); }

SolverList all_solvers() { return registered<kRows>().all(); }

double least(DataType t) {
  switch (t) {
    case DataType::kHalf: return -65504;
    case DataType::kBFloat16: return -0x1.fep127;
    case DataType::kInt8: return -128;
    case DataType::kDouble: return std::numeric_limits<double>::lowest();
    default: return std::numeric_limits<float>::lowest();
  }
}

Dims::Dims(const Problem& p) {
  const auto rank = static_cast<std::size_t>(p.window.rank);
  for (std::size_t d = 0; d < rank; ++d)
    dims[d + kMostSpatial - rank] = {p.x.lens[d + 2], p.y.lens[d + 2], p.window.length[d], p.window.stride[d],
                                     p.window.pad[d]};
}

kernels::WindowStrides strides_of(const TensorDesc& t) {
  kernels::WindowStrides s{t.strides[0], t.strides[1], {}};
  const auto rank = static_cast<std::size_t>(t.rank);
  for (std::size_t d = 2; d < rank; ++d) s.dims[d + kMostSpatial - rank] = t.strides[d];
  return s;
}

Geometry::Geometry(const Problem& p)
    : in(strides_of(p.forward() ? p.x : p.dy)),
      out(strides_of(p.output())),
      x(strides_of(p.x)),
      index(strides_of(index_tensor(p.y))) {
  std::ranges::copy(Dims(p).dims, dims);
  merge(p);
  // The stride of a single window has no effect; this one needs few taps per element, and little memory.
  for (kernels::WindowDim& d : dims)
    if (d.windows == 1) d.stride = std::min<std::int64_t>(d.length, 64);
  // Single elements are contiguous.
  (p.forward() ? out : in).dims[2] = dims[2].windows == 1 ? 1 : (p.forward() ? out : in).dims[2];
  (p.forward() ? in : out).dims[2] = dims[2].size == 1 ? 1 : (p.forward() ? in : out).dims[2];
  if (dims[2].windows == 1) index.dims[2] = 1;
  if (dims[2].size == 1) x.dims[2] = 1;
}

void Geometry::merge(const Problem& p) {
  const auto contiguous = [&](const kernels::WindowStrides& s) {
    return dims[1].size == 1 || s.dims[1] == s.dims[2] * dims[2].size;
  };
  for (int merged = 0; merged < 2; ++merged) {
    kernels::WindowDim &d = dims[0], &h = dims[1], &w = dims[2];
    const bool whole = w.windows == 1 && w.pad == 0 && w.length == w.size;
    if (!whole || !contiguous(p.forward() ? in : out) || (p.searches_x() && !contiguous(x))) return;
    if (!p.forward() && h.windows > 1 && h.stride * w.size > kMostGatheredStride) return;
    w = {h.size * w.size, h.windows, h.length * w.length, h.stride * w.size, h.pad * w.size};
    h = d;
    d = {};
    // The strides of elements remain; windows are along the next dimension.
    for (kernels::WindowStrides* s : {&in, &out, &x, &index}) {
      const bool of_windows = s == &index || s == (p.forward() ? &out : &in);
      *s = {s->image, s->channel, {0, s->dims[0], of_windows ? s->dims[1] : s->dims[2]}};
    }
  }
}

Coordinates::Coordinates(const TensorDesc& t, std::int64_t element) : image(0), channel(0), dims{} {
  const auto rank = static_cast<std::size_t>(t.rank);
  for (std::size_t d = rank; d-- > 2; element /= t.lens[d]) dims[d + kMostSpatial - rank] = element % t.lens[d];
  channel = element % t.lens[1];
  image = element / t.lens[1];
}

std::int64_t offset_of(const kernels::WindowStrides& s, const Coordinates& at) {
  return at.image * s.image + at.channel * s.channel + at.dims[0] * s.dims[0] + at.dims[1] * s.dims[1] +
         at.dims[2] * s.dims[2];
}

Definition::Definition(const Problem& p, const Problem::Args& args)
    : p_(p),
      args_(args),
      d_(p),
      x_(strides_of(p.x)),
      dy_(strides_of(p.forward() ? p.y : p.dy)),
      index_at_(strides_of(index_tensor(p.y))) {}

std::uint64_t Definition::index(std::int64_t offset) const {
  const std::size_t size = size_of(p_.index);
  std::uint64_t value = 0;
  std::memcpy(&value, static_cast<const char*>(args_.index) + offset * static_cast<std::int64_t>(size), size);
  return value;
}

std::uint64_t Definition::position(const std::int64_t (&element)[kMostSpatial],
                                   const std::int64_t (&window)[kMostSpatial]) const {
  std::int64_t number = 0;
  for (std::size_t k = 0; k < kMostSpatial; ++k) {
    const kernels::WindowDim& d = d_.dims[k];
    const bool image = p_.position == Position::kImage;
    number = number * (image ? d.size : d.length) + element[k] - (image ? 0 : window[k] * d.stride - d.pad);
  }
  return static_cast<std::uint64_t>(number);
}

Value Definition::forward(const Coordinates& at, std::uint64_t& found) const {
  kernels::Range box[kMostSpatial];
  double count = 1;
  for (std::size_t k = 0; k < kMostSpatial; ++k) {
    box[k] = elements_of(d_.dims[k], at.dims[k]);
    count *= static_cast<double>(p_.mode == Mode::kAverageInclusive ? d_.dims[k].length : box[k].count());
  }
  found = 0;
  bool any = false;
  double sum = 0, magnitude = 0, best = -std::numeric_limits<double>::infinity();
  each(box, [&](const std::int64_t(&e)[kMostSpatial]) {
    const Coordinates from = [&] {
      Coordinates c = at;
      std::copy(e, e + kMostSpatial, c.dims);
      return c;
    }();
    const double x = dtype::load(p_.x.type, args_.x, offset_of(x_, from));
    if (x > best || !any) found = position(e, at.dims);
    if (x > best) best = x;
    any = true;
    sum += x;
    magnitude += std::fabs(x);
  });
  if (p_.mode == Mode::kMax) {
    const double value = any ? best : least(p_.x.type);
    return {value, std::fabs(value)};
  }
  return any ? Value{sum / count, magnitude / count} : Value{};
}

Value Definition::backward(const Coordinates& at) const {
  kernels::Range over[kMostSpatial];
  for (std::size_t k = 0; k < kMostSpatial; ++k) over[k] = windows_of(d_.dims[k], at.dims[k]);
  Value result;
  each(over, [&](const std::int64_t(&o)[kMostSpatial]) {
    Coordinates from = at;
    std::copy(o, o + kMostSpatial, from.dims);
    double weight = 1;
    if (p_.mode == Mode::kMax) {
      std::uint64_t found = 0;
      if (p_.index == Index::kNone)
        forward(from, found);
      else
        found = index(offset_of(index_at_, from));
      weight = found == position(at.dims, o) ? 1 : 0;
    } else {
      for (std::size_t k = 0; k < kMostSpatial; ++k) {
        const kernels::WindowDim& d = d_.dims[k];
        weight /= static_cast<double>(p_.mode == Mode::kAverageInclusive ? d.length : elements_of(d, o[k]).count());
      }
    }
    if (weight == 0) return;
    const double term = weight * dtype::load(p_.dy.type, args_.dy, offset_of(dy_, from));
    result.value += term;
    result.magnitude += std::fabs(term);
  });
  return result;
}

std::int64_t Definition::most_terms() const {
  std::int64_t n = 1;
  for (const kernels::WindowDim& d : d_.dims)
    n *= p_.forward() ? std::min(d.length, d.size) : std::min((d.length - 1) / d.stride + 1, d.windows);
  return n;
}

}  // namespace polymio::pooling
