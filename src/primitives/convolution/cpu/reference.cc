// ConvCpuReference: the definition of convolution, one output element at a time, threaded over outputs.
// Any data type, layout, strides, groups, scalars and 1 to 3 spatial dimensions; integers accumulate in
// int64, everything else in double, rounded once.
// SPDX-License-Identifier: MIT
#include <algorithm>

#include "base/hash.h"
#include "primitives/convolution/solvers.h"

namespace polymio::convolution {
namespace {

/// 23 random bits for element `i`: a counter-based generator (two rounds of the mixer), so that results
/// depend on the seed and the position only.
std::int64_t dither(std::uint64_t seed, std::uint64_t i) {
  return static_cast<std::int64_t>(mix(mix(seed, i), 0x94d049bb133111ebull) & 0x7fffff);
}

/// Reads elements as accumulator values, rounded to the cast type if there is one.
struct Reader {
  const TensorDesc& desc;
  const void* data;
  bool stochastic;
  std::uint64_t seed;

  double operator()(std::int64_t offset) const {
    const double v = dtype::load(desc.type, data, offset);
    if (!desc.has_cast()) return v;
    double rounded = 0;
    dtype::store(desc.cast, &rounded, 0, v, stochastic ? dither(seed, static_cast<std::uint64_t>(offset)) : -1);
    return dtype::load(desc.cast, &rounded, 0);
  }
};

/// The three spatial dimensions, missing ones filled with size 1 and stride 0.
struct Dims {
  std::int64_t in[3], out[3], filter[3], pad[3], stride[3], dilation[3], sx[3], sw[3], sy[3];

  explicit Dims(const Problem& p) {
    const int missing = 3 - p.spatial();
    for (int i = 0; i < 3; ++i) {
      const int s = i - missing;
      const auto d = static_cast<std::size_t>(std::max(s, 0));
      const bool real = s >= 0;
      in[i] = real ? p.in(s) : 1;
      out[i] = real ? p.out(s) : 1;
      filter[i] = real ? p.filter(s) : 1;
      pad[i] = real ? p.geometry.pad[d] : 0;
      stride[i] = real ? p.geometry.stride[d] : 1;
      dilation[i] = real ? p.geometry.dilation[d] : 1;
      sx[i] = real ? p.x.strides[d + 2] : 0;
      sw[i] = real ? p.w.strides[d + 2] : 0;
      sy[i] = real ? p.y.strides[d + 2] : 0;
    }
  }
};

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }

/// Calls visit(offset_a, offset_b) for every pair (a, b) of taps along three dimensions. Dimension d has
/// count[d] taps from first[d]; both offsets step linearly.
struct Walk {
  std::int64_t count[3], a0 = 0, b0 = 0, da[3], db[3];
};

template <class Acc>
Acc dot(const Reader& a, const Reader& b, const Walk& walk) {
  Acc sum = 0;
  for (std::int64_t i = 0; i < walk.count[0]; ++i)
    for (std::int64_t j = 0; j < walk.count[1]; ++j) {
      std::int64_t oa = walk.a0 + i * walk.da[0] + j * walk.da[1];
      std::int64_t ob = walk.b0 + i * walk.db[0] + j * walk.db[1];
      for (std::int64_t k = 0; k < walk.count[2]; ++k, oa += walk.da[2], ob += walk.db[2])
        sum += static_cast<Acc>(a(oa)) * static_cast<Acc>(b(ob));
    }
  return sum;
}

/// Output position o in dimension d of the forward result: the taps r with 0 <= o*stride + r*dil - pad < in.
void forward_taps(const Dims& d, int i, std::int64_t o, Walk& walk) {
  const std::int64_t base = o * d.stride[i] - d.pad[i];
  const std::int64_t first = base < 0 ? ceil_div(-base, d.dilation[i]) : 0;
  const std::int64_t end = std::min(d.filter[i], base >= d.in[i] ? 0 : (d.in[i] - 1 - base) / d.dilation[i] + 1);
  walk.count[i] = std::max<std::int64_t>(0, end - first);
  walk.a0 += (base + first * d.dilation[i]) * d.sx[i];
  walk.b0 += first * d.sw[i];
  walk.da[i] = d.dilation[i] * d.sx[i];
  walk.db[i] = d.sw[i];
}

/// Input position h: the taps r with h + pad - r*dil divisible by stride and a valid output row. Valid
/// taps form an arithmetic sequence with step stride / gcd(stride, dilation).
void backward_taps(const Dims& d, int i, std::int64_t h, Walk& walk) {
  std::int64_t count = 0, first_r = 0, first_o = 0, step_r = 0, step_o = 0;
  for (std::int64_t r = 0; r < d.filter[i]; ++r) {
    const std::int64_t t = h + d.pad[i] - r * d.dilation[i];
    if (t < 0 || t % d.stride[i] != 0 || t / d.stride[i] >= d.out[i]) continue;
    const std::int64_t o = t / d.stride[i];
    if (count == 0) first_r = r, first_o = o;
    if (count == 1) step_r = r - first_r, step_o = o - first_o;
    ++count;
  }
  walk.count[i] = count;
  walk.a0 += first_o * d.sy[i];
  walk.b0 += first_r * d.sw[i];
  walk.da[i] = step_o * d.sy[i];
  walk.db[i] = step_r * d.sw[i];
}

/// Filter tap r: the outputs o with 0 <= o*stride + r*dil - pad < in.
void weight_taps(const Dims& d, int i, std::int64_t r, Walk& walk) {
  const std::int64_t base = r * d.dilation[i] - d.pad[i];
  const std::int64_t first = base < 0 ? ceil_div(-base, d.stride[i]) : 0;
  const std::int64_t end = std::min(d.out[i], base >= d.in[i] ? 0 : (d.in[i] - 1 - base) / d.stride[i] + 1);
  walk.count[i] = std::max<std::int64_t>(0, end - first);
  walk.a0 += (base + first * d.stride[i]) * d.sx[i];
  walk.b0 += first * d.sy[i];
  walk.da[i] = d.stride[i] * d.sx[i];
  walk.db[i] = d.sy[i];
}

/// One run: the problem, its dimensions and the readers of the two inputs.
struct Job {
  const Problem& p;
  const Dims d;
  const Problem::Args& args;
  Reader a, b;

  Job(const Problem& problem, const Problem::Args& arguments)
      : p(problem), d(problem), args(arguments), a(reader(p.first_input(), 1)), b(reader(p.second_input(), 2)) {}

  Reader reader(const TensorDesc& t, std::uint64_t salt) const {
    const void* data = &t == &p.x ? args.x : &t == &p.w ? args.w : args.y;
    return {t, data, p.rounding == Rounding::kStochastic, args.seed + salt};
  }

  template <class Acc>
  Acc element(const std::int64_t (&i)[2], const std::int64_t (&s)[3]) const {
    const std::int64_t g = p.groups(), cg = p.c() / g, kg = p.k() / g;
    Walk walk{};
    Acc sum = 0;
    if (p.direction == Direction::kForward) {
      for (int t = 0; t < 3; ++t) forward_taps(d, t, s[t], walk);
      walk.a0 += i[0] * p.x.strides[0] + i[1] / kg * cg * p.x.strides[1];
      walk.b0 += i[1] * p.w.strides[0];
      for (std::int64_t c = 0; c < cg; ++c, walk.a0 += p.x.strides[1], walk.b0 += p.w.strides[1])
        sum += dot<Acc>(a, b, walk);
    } else if (p.direction == Direction::kBackwardData) {
      for (int t = 0; t < 3; ++t) backward_taps(d, t, s[t], walk);
      walk.a0 += i[0] * p.y.strides[0] + i[1] / cg * kg * p.y.strides[1];
      walk.b0 += i[1] / cg * kg * p.w.strides[0] + i[1] % cg * p.w.strides[1];
      for (std::int64_t k = 0; k < kg; ++k, walk.a0 += p.y.strides[1], walk.b0 += p.w.strides[0])
        sum += dot<Acc>(a, b, walk);
    } else {
      for (int t = 0; t < 3; ++t) weight_taps(d, t, s[t], walk);
      walk.a0 += (i[0] / kg * cg + i[1]) * p.x.strides[1];
      walk.b0 += i[0] * p.y.strides[1];
      for (std::int64_t n = 0; n < p.n(); ++n, walk.a0 += p.x.strides[0], walk.b0 += p.y.strides[0])
        sum += dot<Acc>(a, b, walk);
    }
    return sum;
  }

  /// One row of the output: everything at (i0, i1, s0, s1, *).
  template <class Acc>
  void row(std::int64_t index) const {
    const TensorDesc& o = p.output();
    std::int64_t size[3];
    const std::int64_t* dims = p.direction == Direction::kForward        ? d.out
                               : p.direction == Direction::kBackwardData ? d.in
                                                                         : d.filter;
    const std::int64_t* so = p.direction == Direction::kForward        ? d.sy
                             : p.direction == Direction::kBackwardData ? d.sx
                                                                       : d.sw;
    std::copy(dims, dims + 3, size);
    std::int64_t s[3], i[2];
    std::int64_t rest = index;
    s[1] = rest % size[1], rest /= size[1];
    s[0] = rest % size[0], rest /= size[0];
    i[1] = rest % o.lens[1], i[0] = rest / o.lens[1];
    const std::int64_t base = i[0] * o.strides[0] + i[1] * o.strides[1] + s[0] * so[0] + s[1] * so[1];
    void* out = p.direction == Direction::kForward ? args.y : p.direction == Direction::kBackwardData ? args.x : args.w;
    const bool stochastic = p.rounding == Rounding::kStochastic && is_fp8(o.type);
    for (s[2] = 0; s[2] < size[2]; ++s[2]) {
      const std::int64_t offset = base + s[2] * so[2];
      double v = args.alpha * static_cast<double>(element<Acc>(i, s));
      if (args.beta != 0) v += args.beta * dtype::load(o.type, out, offset);
      dtype::store(o.type, out, offset, v, stochastic ? dither(args.seed, static_cast<std::uint64_t>(offset)) : -1);
    }
  }
};

class CpuReference final : public Solver<Problem> {
 public:
  constexpr explicit CpuReference(Direction d) : direction_(d) {}

  SolverInfo info() const override {
    static constexpr const char* kNames[] = {"ConvCpuReferenceFwd", "ConvCpuReferenceBwd", "ConvCpuReferenceWrw"};
    const auto i = static_cast<std::size_t>(direction_);
    SolverInfo info = cpu_info(1 + i, kNames[i], Algorithm::kDirect);
    info.reference = true;
    return info;
  }

  Verdict check(const DeviceInfo&, const Problem& p) const override {
    POLYMIO_REQUIRE(p.direction == direction_, "computes another direction");
    POLYMIO_REQUIRE(p.epilogue.empty(), "has no fused epilogue");
    return {};
  }

  ErrorClass accuracy(const Problem&) const override { return ErrorClass::kExact; }

  double predict(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    return p.flops() / (d.units * 300.0);  // about 0.3 GFLOP/s a core
  }

  Invoker make(Stream&, const Problem& p, const TunePoint&) const override {
    return [p](Stream& stream, const Args& args) {
      const Job job(p, args);
      const TensorDesc& o = p.output();
      const std::int64_t rows = o.count() / o.lens[static_cast<std::size_t>(o.rank - 1)];
      const bool integer = p.first_input().type == DataType::kInt8;
      // Enough tasks to balance, few enough to be cheap: a task is at least about 16,000 multiply-adds.
      const double work_a_row = p.flops() / 2 / static_cast<double>(rows);
      const auto chunk = std::max<std::int64_t>(
          {1, rows / (16 * stream.threads()), static_cast<std::int64_t>(16000 / std::max(work_a_row, 1.0))});
      stream.parallel_for(static_cast<std::size_t>((rows + chunk - 1) / chunk), 0, [&](std::size_t t, void*) {
        const std::int64_t first = static_cast<std::int64_t>(t) * chunk;
        for (std::int64_t r = first; r < std::min(rows, first + chunk); ++r)
          integer ? job.row<std::int64_t>(r) : job.row<double>(r);
      });
    };
  }

 private:
  Direction direction_;
};

}  // namespace

const Solver<Problem>& cpu_reference(Direction d) {
  static constexpr CpuReference kSolvers[] = {CpuReference(Direction::kForward), CpuReference(Direction::kBackwardData),
                                              CpuReference(Direction::kBackwardWeights)};
  return kSolvers[static_cast<int>(d)];
}

}  // namespace polymio::convolution
