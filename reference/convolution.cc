// Two evaluations share the geometry: `Whole` computes rows of outputs from dense copies in double,
// `Point` contracts the valid taps of one output and reads the tensors in place or from such
// copies.
// SPDX-License-Identifier: MIT
#include "reference/convolution.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <exception>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace polymio::reference {
namespace {

using Index = std::int64_t;
using Triple = std::array<Index, 3>;

constexpr double kDenseLimit = 2e9;  // bytes of copies in double

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(std::string("reference convolution: ") + what);
}

// Runs body(0 .. tasks-1) on up to `threads` threads, or as many as the system gives; rethrows the first exception.
void parallel_for(Index tasks, int threads, const std::function<void(Index)>& body) {
  if (threads <= 0) threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::atomic<Index> next = 0;
  std::exception_ptr error;
  std::mutex error_mutex;
  const auto work = [&] {
    try {
      for (Index i = next++; i < tasks; i = next++) body(i);
    } catch (...) {
      const std::lock_guard lock(error_mutex);
      if (!error) error = std::current_exception();
    }
  };
  std::vector<std::jthread> others;
  try {
    for (Index i = 1; i < std::min<Index>(threads, tasks); ++i) others.emplace_back(work);
  } catch (const std::system_error&) {  // the system's thread limit: this thread computes the rest
  }
  work();
  others.clear();
  if (error) std::rethrow_exception(error);
}

void check_tensor(const Tensor& tensor, std::size_t rank) {
  require(tensor.lens.size() == rank && tensor.strides.size() == rank, "x, w, y need 2 more dimensions than the pads");
  for (std::size_t d = 0; d < rank; ++d) {
    require(tensor.lens[d] > 0 && tensor.strides[d] > 0, "sizes and strides must be positive");
  }
}

void check(const Convolution& p) {
  const std::size_t spatial = p.pad.size();
  require(spatial >= 1 && spatial <= 3, "1 to 3 spatial dimensions");
  require(p.stride.size() == spatial && p.dilation.size() == spatial, "as many strides and dilations as pads");
  for (const Tensor* tensor : {&p.x, &p.w, &p.y}) check_tensor(*tensor, spatial + 2);
  for (std::size_t d = 0; d < spatial; ++d) {
    require(p.pad[d] >= 0 && p.stride[d] >= 1 && p.dilation[d] >= 1, "pads from 0, strides and dilations from 1");
  }
  require(p.groups >= 1, "at least 1 group");
  require(p.x.lens[0] == p.y.lens[0], "x and y need the same N");
  require(p.x.lens[1] == p.w.lens[1] * p.groups, "C of x must be groups * C of w");
  require(p.w.lens[0] % p.groups == 0, "K must be a multiple of the groups");
  require(p.y.lens[1] == p.w.lens[0], "C of y must be K of w");
}

// The problem with three spatial dimensions, missing ones of size 1 in front.
struct Geometry {
  Index n, c, k, groups;
  Index group_c, group_k;
  Triple in{1, 1, 1}, filter{1, 1, 1}, out{1, 1, 1};
  Triple pad{0, 0, 0}, stride{1, 1, 1}, dilation{1, 1, 1};

  explicit Geometry(const Convolution& p)
      : n(p.x.lens[0]), c(p.x.lens[1]), k(p.w.lens[0]), groups(p.groups), group_c(p.w.lens[1]), group_k(k / p.groups) {
    const std::size_t spatial = p.pad.size();
    for (std::size_t d = 0; d < spatial; ++d) {
      const std::size_t to = 3 - spatial + d;
      in[to] = p.x.lens[d + 2];
      filter[to] = p.w.lens[d + 2];
      out[to] = p.y.lens[d + 2];
      pad[to] = p.pad[d];
      stride[to] = p.stride[d];
      dilation[to] = p.dilation[d];
    }
  }

  // Input position that tap r of output o reads; it may be in the padding.
  Index position(std::size_t d, Index o, Index r) const { return o * stride[d] + r * dilation[d] - pad[d]; }
};

// For 1x1 filters with stride 1 and no padding: merges the spatial dimensions into one long row.
void flatten_pointwise(Geometry& g) {
  for (std::size_t d = 0; d < 3; ++d) {
    if (g.filter[d] != 1 || g.stride[d] != 1 || g.pad[d] != 0 || g.in[d] != g.out[d]) return;
  }
  const Index pixels = g.in[0] * g.in[1] * g.in[2];
  g.in = g.out = {1, 1, pixels};
}

// A run of outputs along the last dimension for which one tap is inside the input.
struct Row {
  Index x, tap, y, count;  // offsets of the first element within a channel
};

struct Range {
  Index begin, end;
};

Range valid_outputs(const Geometry& g, std::size_t d, Index r) {
  const Index shift = g.pad[d] - r * g.dilation[d];  // position = o * stride - shift
  const Index begin = shift > 0 ? (shift + g.stride[d] - 1) / g.stride[d] : 0;
  const Index last = g.in[d] - 1 + shift;
  const Index end = last < 0 ? 0 : std::min(g.out[d], last / g.stride[d] + 1);
  return {begin, std::max(begin, end)};
}

void append_rows(const Geometry& g, const Triple& tap, std::vector<Row>& rows) {
  const Range d = valid_outputs(g, 0, tap[0]);
  const Range h = valid_outputs(g, 1, tap[1]);
  const Range w = valid_outputs(g, 2, tap[2]);
  if (w.begin == w.end) return;
  const Index tap_index = (tap[0] * g.filter[1] + tap[1]) * g.filter[2] + tap[2];
  const Index column = g.position(2, w.begin, tap[2]);
  for (Index od = d.begin; od < d.end; ++od) {
    for (Index oh = h.begin; oh < h.end; ++oh) {
      const Index line = g.position(0, od, tap[0]) * g.in[1] + g.position(1, oh, tap[1]);
      rows.push_back({line * g.in[2] + column, tap_index, (od * g.out[1] + oh) * g.out[2] + w.begin, w.end - w.begin});
    }
  }
}

std::vector<Row> all_rows(const Geometry& g) {
  std::vector<Row> rows;
  for (Index a = 0; a < g.filter[0]; ++a) {
    for (Index b = 0; b < g.filter[1]; ++b) {
      for (Index c = 0; c < g.filter[2]; ++c) append_rows(g, {a, b, c}, rows);
    }
  }
  return rows;
}

double load_input(const Tensor& tensor, const void* data, Index offset) {
  const double value = load(tensor.type, data, offset);
  return tensor.cast == tensor.type ? value : round_to(tensor.cast, value);
}

std::vector<double> to_dense(const Tensor& tensor, const void* data, int threads) {
  std::vector<double> dense(at(tensor.count()));
  std::vector<Index> lens = tensor.lens, steps = tensor.strides;
  lens.insert(lens.begin() + 2, 5 - lens.size(), 1);
  steps.insert(steps.begin() + 2, 5 - steps.size(), 0);
  const Index slice = lens[1] * lens[2] * lens[3] * lens[4];
  parallel_for(lens[0], threads, [&](Index n) {
    double* to = &dense[at(n * slice)];
    for (Index line = 0; line < slice / lens[4]; ++line) {
      const Index h = line % lens[3], d = line / lens[3] % lens[2], c = line / lens[3] / lens[2];
      const Index from = n * steps[0] + c * steps[1] + d * steps[2] + h * steps[3];
      for (Index w = 0; w < lens[4]; ++w) *to++ = load_input(tensor, data, from + w * steps[4]);
    }
  });
  return dense;
}

// value[i] += factor * source[i], with absolute values into magnitude; strides of source and
// result.
void accumulate(double factor, const double* __restrict source, Index source_step, double* __restrict value,
                double* __restrict magnitude, Index step, Index count) {
  if (source_step == 1 && step == 1) {
    for (Index i = 0; i < count; ++i) {
      const double product = factor * source[i];
      value[i] += product;
      magnitude[i] += std::fabs(product);
    }
    return;
  }
  for (Index i = 0; i < count; ++i) {
    const double product = factor * source[i * source_step];
    value[i * step] += product;
    magnitude[i * step] += std::fabs(product);
  }
}

// Four independent sums hide the latency of the additions.
void dot(const double* a, Index a_step, const double* b, Index count, double& value, double& magnitude) {
  double sums[4] = {}, absolute[4] = {};
  Index i = 0;
  for (; i + 4 <= count; i += 4) {
    for (Index j = 0; j < 4; ++j) {
      const double product = a[(i + j) * a_step] * b[i + j];
      sums[j] += product;
      absolute[j] += std::fabs(product);
    }
  }
  for (; i < count; ++i) {
    const double product = a[i * a_step] * b[i];
    sums[0] += product;
    absolute[0] += std::fabs(product);
  }
  value += (sums[0] + sums[1]) + (sums[2] + sums[3]);
  magnitude += (absolute[0] + absolute[1]) + (absolute[2] + absolute[3]);
}

// All outputs, from dense inputs. A task is one channel plane of the output.
class Whole {
 public:
  Whole(const Convolution& problem, const Operands& data, int threads)
      : direction_(problem.direction), geometry_(problem), threads_(threads) {
    flatten_pointwise(geometry_);
    rows_ = all_rows(geometry_);
    x_plane_ = geometry_.in[0] * geometry_.in[1] * geometry_.in[2];
    taps_ = geometry_.filter[0] * geometry_.filter[1] * geometry_.filter[2];
    y_plane_ = geometry_.out[0] * geometry_.out[1] * geometry_.out[2];
    if (direction_ != Direction::kBackwardData) x_ = to_dense(problem.x, data.x, threads);
    if (direction_ != Direction::kBackwardWeights) w_ = to_dense(problem.w, data.w, threads);
    if (direction_ != Direction::kForward) y_ = to_dense(problem.y, data.y, threads);
  }

  Result sums(Index outputs) {
    result_.value.assign(at(outputs), 0.0);
    result_.magnitude.assign(at(outputs), 0.0);
    switch (direction_) {
      case Direction::kForward:
        parallel_for(geometry_.n * geometry_.k, threads_,
                     [this](Index i) { forward(i / geometry_.k, i % geometry_.k); });
        break;
      case Direction::kBackwardData:
        parallel_for(geometry_.n * geometry_.c, threads_,
                     [this](Index i) { backward_data(i / geometry_.c, i % geometry_.c); });
        break;
      case Direction::kBackwardWeights:
        parallel_for(geometry_.k * geometry_.group_c, threads_,
                     [this](Index i) { backward_weights(i / geometry_.group_c, i % geometry_.group_c); });
        break;
    }
    return std::move(result_);
  }

 private:
  Index x_at(Index n, Index c) const { return (n * geometry_.c + c) * x_plane_; }
  Index w_at(Index k, Index c) const { return (k * geometry_.group_c + c) * taps_; }
  Index y_at(Index n, Index k) const { return (n * geometry_.k + k) * y_plane_; }

  void forward(Index n, Index k) {
    const Index first_c = k / geometry_.group_k * geometry_.group_c;
    double* value = &result_.value[at(y_at(n, k))];
    double* magnitude = &result_.magnitude[at(y_at(n, k))];
    for (Index c = 0; c < geometry_.group_c; ++c) {
      const double* x = &x_[at(x_at(n, first_c + c))];
      const double* w = &w_[at(w_at(k, c))];
      for (const Row& row : rows_) {
        accumulate(w[row.tap], x + row.x, geometry_.stride[2], value + row.y, magnitude + row.y, 1, row.count);
      }
    }
  }

  void backward_data(Index n, Index c) {
    const Index first_k = c / geometry_.group_c * geometry_.group_k;
    double* value = &result_.value[at(x_at(n, c))];
    double* magnitude = &result_.magnitude[at(x_at(n, c))];
    for (Index k = first_k; k < first_k + geometry_.group_k; ++k) {
      const double* y = &y_[at(y_at(n, k))];
      const double* w = &w_[at(w_at(k, c % geometry_.group_c))];
      for (const Row& row : rows_) {
        accumulate(w[row.tap], y + row.y, 1, value + row.x, magnitude + row.x, geometry_.stride[2], row.count);
      }
    }
  }

  void backward_weights(Index k, Index c) {
    const Index x_channel = k / geometry_.group_k * geometry_.group_c + c;
    double* value = &result_.value[at(w_at(k, c))];
    double* magnitude = &result_.magnitude[at(w_at(k, c))];
    for (Index n = 0; n < geometry_.n; ++n) {
      const double* x = &x_[at(x_at(n, x_channel))];
      const double* y = &y_[at(y_at(n, k))];
      for (const Row& row : rows_) {
        dot(x + row.x, geometry_.stride[2], y + row.y, row.count, value[row.tap], magnitude[row.tap]);
      }
    }
  }

  Direction direction_;
  Geometry geometry_;
  int threads_;
  std::vector<Row> rows_;
  Index x_plane_, taps_, y_plane_;
  std::vector<double> x_, w_, y_;
  Result result_;
};

// An input, read in place or from a dense copy when that is faster.
struct Input {
  Tensor tensor;
  const void* data;
  std::vector<double> copy;

  Input(const Tensor& original, const void* original_data, bool dense, int threads)
      : tensor(original), data(original_data) {
    if (!dense) return;
    copy = to_dense(original, original_data, threads);
    tensor = Tensor(Type::kDouble, original.lens);
    data = copy.data();
  }

  double load(Index offset) const { return copy.empty() ? load_input(tensor, data, offset) : copy[at(offset)]; }
  // Stride of spatial dimension d of three; missing ones have only position 0.
  Index stride(std::size_t d) const {
    const std::size_t missing = 5 - tensor.strides.size();
    return d < missing ? 0 : tensor.strides[2 + d - missing];
  }
};

struct Pair {
  Index a, b;  // offsets of the two factors
};

// One output as a contraction: the sum over one channel-like list and three spatial lists.
struct Contraction {
  Pair base{0, 0};
  Pair step{0, 0};  // along the channel-like dimension
  Index count = 0;
  std::array<std::vector<Pair>, 3> spatial;
};

// Selected outputs. The factors a and b are (x, w), (y, w) or (x, y).
class Point {
 public:
  Point(const Convolution& problem, const Operands& data, bool dense, int threads)
      : direction_(problem.direction),
        geometry_(problem),
        lens_(problem.output().lens),
        a_(direction_ == Direction::kBackwardData ? Input(problem.y, data.y, dense, threads)
                                                  : Input(problem.x, data.x, dense, threads)),
        b_(direction_ == Direction::kBackwardWeights ? Input(problem.y, data.y, dense, threads)
                                                     : Input(problem.w, data.w, dense, threads)) {}

  void sum(Index dense, double& value, double& magnitude) const {
    thread_local Contraction terms;
    prepare(dense, terms);
    value = magnitude = 0;
    for (Index i = 0; i < terms.count; ++i) {
      for (const Pair& d : terms.spatial[0]) {
        for (const Pair& h : terms.spatial[1]) {
          const Index a = terms.base.a + i * terms.step.a + d.a + h.a;
          const Index b = terms.base.b + i * terms.step.b + d.b + h.b;
          add_line(terms.spatial[2], a, b, value, magnitude);
        }
      }
    }
  }

 private:
  void add_line(const std::vector<Pair>& line, Index a, Index b, double& value, double& magnitude) const {
    for (const Pair& w : line) {
      const double product = a_.load(a + w.a) * b_.load(b + w.b);
      value += product;
      magnitude += std::fabs(product);
    }
  }

  void prepare(Index dense, Contraction& terms) const {
    Triple where{0, 0, 0};
    for (std::size_t d = lens_.size(); d-- > 2;) {
      where[d + 3 - lens_.size()] = dense % lens_[d];
      dense /= lens_[d];
    }
    set_channels(dense / lens_[1], dense % lens_[1], terms);
    for (std::size_t d = 0; d < 3; ++d) set_spatial(d, where[d], terms.spatial[d]);
  }

  void set_channels(Index first, Index second, Contraction& terms) const {
    const Geometry& g = geometry_;
    const auto& a = a_.tensor.strides;
    const auto& b = b_.tensor.strides;
    switch (direction_) {
      case Direction::kForward:  // first = n, second = k, sum over c of the group
        terms.base = {first * a[0] + second / g.group_k * g.group_c * a[1], second * b[0]};
        terms.step = {a[1], b[1]};
        terms.count = g.group_c;
        return;
      case Direction::kBackwardData: {  // first = n, second = c, sum over k of the group
        const Index first_k = second / g.group_c * g.group_k;
        terms.base = {first * a[0] + first_k * a[1], first_k * b[0] + second % g.group_c * b[1]};
        terms.step = {a[1], b[0]};
        terms.count = g.group_k;
        return;
      }
      case Direction::kBackwardWeights:  // first = k, second = c in the group, sum over n
        terms.base = {(first / g.group_k * g.group_c + second) * a[1], first * b[1]};
        terms.step = {a[0], b[0]};
        terms.count = g.n;
        return;
    }
  }

  void set_spatial(std::size_t d, Index where, std::vector<Pair>& pairs) const {
    const Geometry& g = geometry_;
    const Index a = a_.stride(d);
    const Index b = b_.stride(d);
    pairs.clear();
    if (direction_ == Direction::kBackwardWeights) {  // where = tap
      const Range range = valid_outputs(g, d, where);
      for (Index o = range.begin; o < range.end; ++o) {
        pairs.push_back({g.position(d, o, where) * a, o * b});
      }
      return;
    }
    for (Index r = 0; r < g.filter[d]; ++r) {
      if (direction_ == Direction::kForward) {  // where = output position
        const Index i = g.position(d, where, r);
        if (i >= 0 && i < g.in[d]) pairs.push_back({i * a, r * b});
      } else {  // where = input position
        const Index scaled = where + g.pad[d] - r * g.dilation[d];
        const Index o = scaled / g.stride[d];
        if (scaled >= 0 && scaled % g.stride[d] == 0 && o < g.out[d]) pairs.push_back({o * a, r * b});
      }
    }
  }

  Direction direction_;
  Geometry geometry_;
  std::vector<Index> lens_;
  Input a_, b_;
};

const void* old_output(const Convolution& p, const Operands& data) {
  if (p.direction == Direction::kForward) return data.y;
  return p.direction == Direction::kBackwardData ? data.x : data.w;
}

double input_count(const Convolution& p) {
  return static_cast<double>(p.x.count() + p.w.count() + p.y.count() - p.output().count());
}

Result evaluate_points(const Convolution& problem, const Operands& data, Index count, bool dense, int threads,
                       const std::function<Index(Index)>& index_of) {
  const Point point(problem, data, dense, threads);
  Result result;
  result.value.resize(at(count));
  result.magnitude.resize(at(count));
  constexpr Index kBlock = 64;
  parallel_for((count + kBlock - 1) / kBlock, threads, [&](Index block) {
    const Index end = std::min(count, (block + 1) * kBlock);
    for (Index i = block * kBlock; i < end; ++i) {
      point.sum(index_of(i), result.value[at(i)], result.magnitude[at(i)]);
    }
  });
  return result;
}

void apply_scalars(const Convolution& p, const void* old, Result& result, const std::function<Index(Index)>& index_of) {
  if (p.alpha == 1 && p.beta == 0) return;
  const Tensor& output = p.output();
  for (std::size_t i = 0; i < result.value.size(); ++i) {
    result.value[i] *= p.alpha;
    result.magnitude[i] *= std::fabs(p.alpha);
    if (p.beta == 0) continue;
    const Index offset = output.offset(index_of(static_cast<Index>(i)));
    const double kept = p.beta * load(output.type, old, offset);
    result.value[i] += kept;
    result.magnitude[i] += std::fabs(kept);
  }
}

void check_data(const Convolution& p, const Operands& data) {
  const void* old = old_output(p, data);
  require(p.beta == 0 || old != nullptr, "beta needs the old output");
  const Direction d = p.direction;
  require((data.x || d == Direction::kBackwardData) && (data.y || d == Direction::kForward) &&
              (data.w || d == Direction::kBackwardWeights),
          "an input is null");
}

}  // namespace

const Tensor& Convolution::output() const {
  if (direction == Direction::kForward) return y;
  return direction == Direction::kBackwardData ? x : w;
}

std::int64_t Convolution::reduction_length() const {
  const Geometry g(*this);
  const Index taps = g.filter[0] * g.filter[1] * g.filter[2];
  if (direction == Direction::kForward) return g.group_c * taps;
  if (direction == Direction::kBackwardData) return g.group_k * taps;
  return g.n * g.out[0] * g.out[1] * g.out[2];
}

double Convolution::flops() const {
  return 2.0 * static_cast<double>(y.count()) * static_cast<double>(w.count() / w.lens[0]);
}

Result evaluate(const Convolution& problem, const Operands& data, int threads) {
  check(problem);
  check_data(problem, data);
  const Index outputs = problem.output().count();
  const auto identity = [](Index i) { return i; };
  const bool dense = 8 * (input_count(problem) + 2.0 * static_cast<double>(outputs)) <= kDenseLimit;
  Result result = dense ? Whole(problem, data, threads).sums(outputs)
                        : evaluate_points(problem, data, outputs, false, threads, identity);
  apply_scalars(problem, old_output(problem, data), result, identity);
  return result;
}

Result evaluate(const Convolution& problem, const Operands& data, std::span<const Index> sample, int threads) {
  check(problem);
  check_data(problem, data);
  for (const Index i : sample) {
    require(i >= 0 && i < problem.output().count(), "a sample index is outside the output");
  }
  const auto nth = [sample](Index i) { return sample[at(i)]; };
  const double reads = static_cast<double>(sample.size()) * static_cast<double>(problem.reduction_length());
  const double inputs = input_count(problem);
  const bool dense = 8 * inputs <= kDenseLimit && reads > inputs;
  Result result = evaluate_points(problem, data, static_cast<Index>(sample.size()), dense, threads, nth);
  apply_scalars(problem, old_output(problem, data), result, nth);
  return result;
}

}  // namespace polymio::reference
