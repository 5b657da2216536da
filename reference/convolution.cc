// Three evaluations share the geometry: `Whole` computes rows of outputs from dense copies in double, `Gradients` does
// so for weights, all or some of them, and `Point` contracts the valid taps of one output and reads the tensors in
// place or from such copies. Images are copied a block at a time, so that memory does not grow with their number.
// SPDX-License-Identifier: MIT
#include "reference/convolution.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <exception>
#include <functional>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace polymio::reference {
namespace {

using Index = std::int64_t;
using Triple = std::array<Index, 3>;

constexpr double kMostCopyBytes = 4e9;  // inputs are read in place if copies of the filters and one image exceed it

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(std::string("reference convolution: ") + what);
}

Index thread_count(int threads) {
  return threads > 0 ? threads : static_cast<Index>(std::max(1u, std::thread::hardware_concurrency()));
}

// Runs body(0 .. tasks-1) on up to `threads` threads, or as many as the system gives; rethrows the first exception.
void parallel_for(Index tasks, int threads, const std::function<void(Index)>& body) {
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
    for (Index i = 1; i < std::min(thread_count(threads), tasks); ++i) others.emplace_back(work);
  } catch (const std::system_error&) {  // the system's thread limit: this thread computes the rest
  }
  work();
  others.clear();
  if (error) std::rethrow_exception(error);
}

// Runs body over parts of [begin, end). `products`: the work of an element; less than kTaskProducts are not worth a
// task.
void for_each(Index begin, Index end, Index products, int threads, const std::function<void(Index, Index)>& body) {
  constexpr Index kTaskProducts = 65536, kMostElements = 64;
  const Index least = std::clamp<Index>(kTaskProducts / products, 1, kMostElements);
  const Index run = std::clamp<Index>((end - begin) / (8 * thread_count(threads)), least, kMostElements);
  parallel_for((end - begin + run - 1) / run, threads,
               [&](Index task) { body(begin + task * run, std::min(end, begin + (task + 1) * run)); });
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

// Images [first, first + count) of a tensor, packed in the order N, C, D, H, W.
void to_dense(const Tensor& tensor, const void* data, Index first, Index count, int threads,
              std::vector<double>& dense) {
  std::vector<Index> lens = tensor.lens, steps = tensor.strides;
  lens.insert(lens.begin() + 2, 5 - lens.size(), 1);
  steps.insert(steps.begin() + 2, 5 - steps.size(), 0);
  const Index lines = lens[2] * lens[3], plane = lines * lens[4];
  dense.resize(at(count * lens[1] * plane));
  const auto copy_line = [&](Index n, Index line) {
    const Index from = (first + n) * steps[0] + line / lens[3] * steps[2] + line % lens[3] * steps[3];
    for (Index c = 0; c < lens[1]; ++c) {
      double* to = &dense[at((n * lens[1] + c) * plane + line * lens[4])];
      for (Index w = 0; w < lens[4]; ++w) to[w] = load_input(tensor, data, from + c * steps[1] + w * steps[4]);
    }
  };
  // A line holds all channels, which are neighbours in memory if the layout has them last.
  constexpr Index kTaskElements = 16384;
  const Index run = std::clamp<Index>(kTaskElements / (lens[1] * lens[4]), 1, count * lines);
  parallel_for((count * lines + run - 1) / run, threads, [&](Index task) {
    const Index end = std::min(count * lines, (task + 1) * run);
    for (Index i = task * run; i < end; ++i) copy_line(i / lines, i % lines);
  });
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

// The geometry of dense copies: rows, and the sizes of a channel in x, w and y.
struct Planes : Geometry {
  std::vector<Row> rows;
  Index x, taps, y;

  explicit Planes(const Convolution& p) : Geometry(p) {
    flatten_pointwise(*this);
    rows = all_rows(*this);
    x = in[0] * in[1] * in[2];
    taps = filter[0] * filter[1] * filter[2];
    y = out[0] * out[1] * out[2];
  }
};

// The dense copies that an evaluation may make.
struct Copies {
  bool possible = false;  // within kMostCopyBytes
  Index images = 1;       // in a block

  Copies(const Convolution& p, double block_bytes) {
    const auto bytes = [](const Tensor& tensor) { return 8 * static_cast<double>(tensor.count()); };
    const double n = static_cast<double>(p.x.lens[0]);
    const double x = p.direction == Direction::kBackwardData ? 0 : bytes(p.x) / n;
    const double y = p.direction == Direction::kForward ? 0 : bytes(p.y) / n;
    const double filters = p.direction == Direction::kBackwardWeights ? 0 : bytes(p.w);
    possible = x + y + filters <= kMostCopyBytes;
    images = static_cast<Index>(std::clamp(block_bytes / (x + y), 1.0, n));
  }
};

// All outputs of the directions other than backward weights. A task is one channel plane of the output.
class Whole {
 public:
  Whole(const Convolution& problem, const Operands& data, int threads)
      : forward_(problem.direction == Direction::kForward),
        planes_(problem),
        input_(forward_ ? problem.x : problem.y),
        input_data_(forward_ ? data.x : data.y),
        threads_(threads) {
    to_dense(problem.w, data.w, 0, planes_.k, threads, filters_);
  }

  Result sums(Index outputs, Index images) {
    Result result;
    result.value.assign(at(outputs), 0.0);
    result.magnitude.assign(at(outputs), 0.0);
    result.loads = static_cast<Index>(filters_.size());
    const Index channels = forward_ ? planes_.k : planes_.c;
    for (Index first = 0; first < planes_.n; first += images) {
      const Index count = std::min(images, planes_.n - first);
      to_dense(input_, input_data_, first, count, threads_, images_);
      result.loads += static_cast<Index>(images_.size());
      parallel_for(count * channels, threads_, [&](Index i) {
        const Index plane = (first * channels + i) * (forward_ ? planes_.y : planes_.x);
        double* value = &result.value[at(plane)];
        double* magnitude = &result.magnitude[at(plane)];
        forward_ ? forward(i / channels, i % channels, value, magnitude)
                 : backward_data(i / channels, i % channels, value, magnitude);
      });
    }
    return result;
  }

 private:
  const double* filter(Index k, Index c) const { return &filters_[at((k * planes_.group_c + c) * planes_.taps)]; }

  // n counts from the first image of the block.
  void forward(Index n, Index k, double* value, double* magnitude) const {
    const Index first_c = k / planes_.group_k * planes_.group_c;
    for (Index c = 0; c < planes_.group_c; ++c) {
      const double* x = &images_[at((n * planes_.c + first_c + c) * planes_.x)];
      const double* w = filter(k, c);
      for (const Row& row : planes_.rows) {
        accumulate(w[row.tap], x + row.x, planes_.stride[2], value + row.y, magnitude + row.y, 1, row.count);
      }
    }
  }

  void backward_data(Index n, Index c, double* value, double* magnitude) const {
    const Index first_k = c / planes_.group_c * planes_.group_k;
    for (Index k = first_k; k < first_k + planes_.group_k; ++k) {
      const double* y = &images_[at((n * planes_.k + k) * planes_.y)];
      const double* w = filter(k, c % planes_.group_c);
      for (const Row& row : planes_.rows) {
        accumulate(w[row.tap], y + row.y, 1, value + row.x, magnitude + row.x, planes_.stride[2], row.count);
      }
    }
  }

  bool forward_;
  Planes planes_;
  const Tensor& input_;
  const void* input_data_;
  int threads_;
  std::vector<double> filters_, images_;
};

// Selected outputs of backward weights: each adds up its rows of all images.
class Gradients {
 public:
  Gradients(const Convolution& problem, const Operands& data, int threads)
      : problem_(problem), data_(data), planes_(problem), threads_(threads) {
    first_row_.assign(at(planes_.taps + 1), 0);
    for (const Row& row : planes_.rows) ++first_row_[at(row.tap + 1)];
    for (Index tap = 0; tap < planes_.taps; ++tap) first_row_[at(tap + 1)] += first_row_[at(tap)];
  }

  Result sums(std::span<const Index> outputs, Index images) {
    const Index count = static_cast<Index>(outputs.size());
    Result result;
    result.value.assign(outputs.size(), 0.0);
    result.magnitude.assign(outputs.size(), 0.0);
    const std::vector<Index> order = by_channel(outputs);
    for (Index first = 0; first < planes_.n; first += images) {
      const Index block = std::min(images, planes_.n - first);
      to_dense(problem_.x, data_.x, first, block, threads_, x_);
      to_dense(problem_.y, data_.y, first, block, threads_, y_);
      result.loads += static_cast<Index>(x_.size() + y_.size());
      for_each(0, count, block * planes_.y, threads_, [&](Index begin, Index end) {
        for (Index n = 0; n < block; ++n) {
          for (Index i = begin; i < end; ++i) {
            const std::size_t to = at(order[at(i)]);
            add_image(n, outputs[to], result.value[to], result.magnitude[to]);
          }
        }
      });
    }
    return result;
  }

 private:
  Index x_channel(Index output) const {
    const Index k = output / planes_.taps / planes_.group_c;
    return k / planes_.group_k * planes_.group_c + output / planes_.taps % planes_.group_c;
  }

  // Outputs of one channel of x follow each other, as the taps of all outputs do: its plane is still in the cache.
  std::vector<Index> by_channel(std::span<const Index> outputs) const {
    std::vector<Index> order(outputs.size());
    std::iota(order.begin(), order.end(), Index{0});
    if (static_cast<Index>(outputs.size()) == problem_.w.count()) return order;
    std::stable_sort(order.begin(), order.end(),
                     [&](Index a, Index b) { return x_channel(outputs[at(a)]) < x_channel(outputs[at(b)]); });
    return order;
  }

  // n counts from the first image of the block.
  void add_image(Index n, Index output, double& value, double& magnitude) const {
    const Index tap = output % planes_.taps, k = output / planes_.taps / planes_.group_c;
    const double* x = &x_[at((n * planes_.c + x_channel(output)) * planes_.x)];
    const double* y = &y_[at((n * planes_.k + k) * planes_.y)];
    for (Index i = first_row_[at(tap)]; i < first_row_[at(tap + 1)]; ++i) {
      const Row& row = planes_.rows[at(i)];
      dot(x + row.x, planes_.stride[2], y + row.y, row.count, value, magnitude);
    }
  }

  const Convolution& problem_;
  Operands data_;
  Planes planes_;
  int threads_;
  std::vector<Index> first_row_;  // of each tap
  std::vector<double> x_, y_;
};

// An input, read in place or from a dense copy of some images.
struct Input {
  const Tensor& original;
  const void* data;
  std::vector<Index> strides;  // in what is read
  std::vector<double> copy;
  Index first = 0;  // image where the copy begins

  Input(const Tensor& tensor, const void* tensor_data) : original(tensor), data(tensor_data), strides(tensor.strides) {}

  // The number of elements copied.
  Index hold(Index image, Index count, int threads) {
    to_dense(original, data, image, count, threads, copy);
    strides = packed_strides(original.lens);
    first = image;
    return static_cast<Index>(copy.size());
  }

  double load(Index offset) const { return copy.empty() ? load_input(original, data, offset) : copy[at(offset)]; }
  // Stride of spatial dimension d of three; missing ones have only position 0.
  Index stride(std::size_t d) const {
    const std::size_t missing = 5 - strides.size();
    return d < missing ? 0 : strides[2 + d - missing];
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
  Point(const Convolution& problem, const Operands& data)
      : direction_(problem.direction),
        geometry_(problem),
        lens_(problem.output().lens),
        a_(direction_ == Direction::kBackwardData ? Input(problem.y, data.y) : Input(problem.x, data.x)),
        b_(direction_ == Direction::kBackwardWeights ? Input(problem.y, data.y) : Input(problem.w, data.w)) {}

  // Copies the filters, for directions other than backward weights. Returns the number of elements.
  Index hold_filters(int threads) { return b_.hold(0, geometry_.k, threads); }
  // From now on outputs are of these images, and the input is read from a copy. Returns the number of elements.
  Index hold_images(Index first, Index count, int threads) { return a_.hold(first, count, threads); }

  // Returns the number of products.
  Index sum(Index dense, double& value, double& magnitude) const {
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
    const auto taps = terms.spatial[0].size() * terms.spatial[1].size() * terms.spatial[2].size();
    return terms.count * static_cast<Index>(taps);
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
    const auto& a = a_.strides;
    const auto& b = b_.strides;
    switch (direction_) {
      case Direction::kForward:  // first = n, second = k, sum over c of the group
        terms.base = {(first - a_.first) * a[0] + second / g.group_k * g.group_c * a[1], second * b[0]};
        terms.step = {a[1], b[1]};
        terms.count = g.group_c;
        return;
      case Direction::kBackwardData: {  // first = n, second = c, sum over k of the group
        const Index first_k = second / g.group_c * g.group_k;
        terms.base = {(first - a_.first) * a[0] + first_k * a[1], first_k * b[0] + second % g.group_c * b[1]};
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

// Positions of `sample` in the order of its values.
std::vector<Index> ascending(std::span<const Index> sample) {
  std::vector<Index> order(sample.size());
  std::iota(order.begin(), order.end(), Index{0});
  if (!std::ranges::is_sorted(sample)) {
    std::ranges::sort(order, [&](Index a, Index b) { return sample[at(a)] < sample[at(b)]; });
  }
  return order;
}

// `images`: of a block of copies, for directions other than backward weights; 0: all inputs are read in place.
Result evaluate_points(const Convolution& problem, const Operands& data, std::span<const Index> sample, Index images,
                       int threads) {
  Point point(problem, data);
  Result result;
  result.value.resize(sample.size());
  result.magnitude.resize(sample.size());
  if (images > 0) result.loads = point.hold_filters(threads);
  const Index n = problem.x.lens[0], per_image = problem.output().count() / problem.output().lens[0];
  const std::vector<Index> order = ascending(sample);
  const auto output = [&](Index i) { return sample[at(order[at(i)])]; };
  std::atomic<Index> products = 0;
  const Index count = static_cast<Index>(order.size());
  for (Index begin = 0, end = count; begin < count; begin = end, end = count) {
    if (images > 0) {
      const Index first = output(begin) / per_image, last = std::min(n, first + images);
      for (end = begin; end < count && output(end) < last * per_image;) ++end;
      result.loads += point.hold_images(first, last - first, threads);
    }
    for_each(begin, end, problem.reduction_length(), threads, [&](Index from, Index to) {
      Index done = 0;
      for (Index i = from; i < to; ++i) {
        const std::size_t slot = at(order[at(i)]);
        done += point.sum(sample[slot], result.value[slot], result.magnitude[slot]);
      }
      products += done;
    });
  }
  if (images == 0) result.loads = 2 * products;
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

Result evaluate(const Convolution& problem, const Operands& data, int threads, double copy_bytes) {
  check(problem);
  check_data(problem, data);
  const Index outputs = problem.output().count();
  const Copies copies(problem, copy_bytes);
  Result result;
  if (copies.possible && problem.direction != Direction::kBackwardWeights) {
    result = Whole(problem, data, threads).sums(outputs, copies.images);
  } else {
    std::vector<Index> all(at(outputs));
    std::iota(all.begin(), all.end(), Index{0});
    result = copies.possible ? Gradients(problem, data, threads).sums(all, copies.images)
                             : evaluate_points(problem, data, all, 0, threads);
  }
  apply_scalars(problem, old_output(problem, data), result, [](Index i) { return i; });
  return result;
}

Result evaluate(const Convolution& problem, const Operands& data, std::span<const Index> sample, int threads,
                double copy_bytes) {
  check(problem);
  check_data(problem, data);
  for (const Index i : sample) {
    require(i >= 0 && i < problem.output().count(), "a sample index is outside the output");
  }
  const double reads = static_cast<double>(sample.size()) * static_cast<double>(problem.reduction_length());
  const Copies copies(problem, copy_bytes);
  const bool dense = copies.possible && reads > input_count(problem);
  Result result = dense && problem.direction == Direction::kBackwardWeights
                      ? Gradients(problem, data, threads).sums(sample, copies.images)
                      : evaluate_points(problem, data, sample, dense ? copies.images : 0, threads);
  apply_scalars(problem, old_output(problem, data), result, [sample](Index i) { return sample[at(i)]; });
  return result;
}

}  // namespace polymio::reference
