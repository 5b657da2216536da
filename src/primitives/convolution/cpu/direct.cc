// ConvCpuDirect: forward and backward data without a matrix product; every output is summed in registers over
// filter taps and channels. All float types and int8 forward. Weights are packed once a call into the caller's
// workspace, or piece by piece into scratch. Wins for filters larger than 1x1 with 16 and more channels, in bf16 and
// int8 for pointwise ones and groups of 4 channels and more as well. SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <memory>

#include "base/math.h"
#include "kernels/cpu/caches.h"
#include "primitives/convolution/cpu/direct_cost.h"
#include "primitives/convolution/cpu/epilogue.h"
#include "primitives/convolution/cpu/products.h"
#include "primitives/convolution/weight_packing.h"

namespace polymio::convolution {
namespace {

using kernels::Direct;
using kernels::DirectCut;
using kernels::kSpatial;

constexpr std::int64_t kRowParts[] = {1, 2, 4, 8, 16};
constexpr int kChannels[] = {32, 64, 128, 256};

/// What a tune point says; zeros leave it to the model.
struct TuningRequest {
  int rows = 0, vectors = 0, channels = 0, packed = 0;  // packed: 1 no, 2 yes
};

TuningRequest read_request(const TunePoint& t) {
  if (t.size() != 4) return {};
  return {t[0], t[1], t[2], t[3]};
}

/// Filters of one column on narrow images: one long row whose taps are as far apart as the rows were.
kernels::ConvShape transposed_columns(kernels::ConvShape s) {
  constexpr std::int64_t kNarrow = 32;
  const bool plain = s.in[0] == 1 && s.taps[0] == 1 && s.pad[0] == 0 && s.stride[1] == 1 && s.stride[2] == 1;
  if (!plain || s.taps[1] == 1 || s.taps[2] != 1 || s.pad[2] != 0 || s.in[2] > kNarrow) return s;
  if (s.x_d[1] != s.in[2] * s.x_d[2] || s.y_d[1] != s.out[2] * s.y_d[2]) return s;
  s.taps[2] = s.taps[1];
  s.w_d[2] = s.w_d[1];
  s.dilation[2] = s.dilation[1] * s.in[2];
  s.pad[2] = s.pad[1] * s.in[2];
  s.out[2] *= s.out[1];
  s.in[2] *= s.in[1];
  s.taps[1] = s.dilation[1] = s.in[1] = s.out[1] = 1;
  s.pad[1] = 0;
  return s;
}

/// A pointwise convolution of whole rows, if so requested of whole images, as one long row.
kernels::ConvShape flattened(kernels::ConvShape s, bool images) {
  for (int d = 0; d < kSpatial; ++d)
    if (s.taps[d] != 1 || s.stride[d] != 1 || s.pad[d] != 0) return s;
  std::int64_t x = s.in[kSpatial - 1] * s.x_d[kSpatial - 1], y = s.out[kSpatial - 1] * s.y_d[kSpatial - 1];
  for (int d = kSpatial - 2; d >= 0; --d) {
    if (s.in[d] != 1 && (s.x_d[d] != x || s.y_d[d] != y)) return s;
    x *= s.in[d];
    y *= s.out[d];
  }
  for (int d = 0; d < kSpatial - 1; ++d) {
    s.in[kSpatial - 1] *= s.in[d];
    s.in[d] = s.out[d] = 1;
  }
  if (images && s.x_n == x && s.y_n == y) {
    s.in[kSpatial - 1] *= s.n;
    s.x_n *= s.n;
    s.y_n *= s.n;
    s.n = 1;
  }
  s.out[kSpatial - 1] = s.in[kSpatial - 1];
  return s;
}

/// How many groups are multiplied together. With AMX the largest divisor of their number that fits in a row of a tile
/// register, which takes as long however few channels count: not two, nor where outputs of one group fill more than a
/// vector, since more is multiplied in vain than fewer tiles save. Without it also at most so many that they fill the
/// lanes of a vector, of int8 of two, whose copies take longest.
std::int64_t diagonal_groups_of(const kernels::ConvShape& s, bool backward, const kernels::DirectUnit& unit) {
  constexpr std::int64_t kRow = 64;  // bytes
  const std::int64_t from = backward ? s.k : s.c, to = backward ? s.c : s.k;
  const bool takes = unit.math == kernels::DirectMath::kBf16 || unit.math == kernels::DirectMath::kInt8;
  if (!takes || to > unit.lanes) return 1;
  const std::int64_t lanes = unit.sums_integers() ? 2 * unit.lanes : unit.lanes, row = kRow / (from * unit.element);
  const std::int64_t fit = unit.amx ? row : std::min(row, lanes / to);
  std::int64_t most = 1;
  for (std::int64_t n = unit.amx ? 3 : 2; n <= std::min(fit, s.groups); ++n)
    if (s.groups % n == 0) most = n;
  return most;
}

Direct uncut(const kernels::KernelTable& table, const Problem& p) {
  const bool backward = p.direction == Direction::kBackwardData;
  const kernels::DirectUnit unit = table.direct_unit(p.x.type);
  kernels::ConvShape shape = conv_shape(p);
  // Tile registers are worth filling. For floats neither gains anything.
  if (unit.amx) shape = transposed_columns(shape);
  const std::int64_t diagonal_groups = diagonal_groups_of(shape, backward, unit);
  shape.groups /= diagonal_groups;
  shape.c *= diagonal_groups;
  shape.k *= diagonal_groups;
  Direct job = kernels::direct_job(flattened(shape, unit.group > 1), backward, p.output().type, unit);
  job.diagonal_groups = diagonal_groups;
  return job;
}

/// Vectors of a panel: tiles that waste the least, for lines of so many outputs.
int best_vectors(const Direct& job, std::int64_t line) {
  int best = 1;
  double best_cost = INFINITY;
  const std::int64_t depth = ceil_div(job.from.channels, job.unit.group);
  // One vector would write half lines of the cache, and as many lines as can be are written to memory.
  const bool halves = job.to.c == 1 && size_of(job.to.type) == 2;
  const bool rounds = job.unit.math == kernels::DirectMath::kBf16 && !job.unit.amx;
  const bool far = halves && rounds && job.taps() == 1 && job.to.n * job.shape.n * 2 > kernels::kResultCaches;
  if (far && job.vectors % 2 == 0) return job.vectors % 4 == 0 ? 4 : 2;
  const double bytes = row_bytes(job, line);
  const auto panel_cycles = [&](int v) {
    const std::int64_t tiles = ceil_div(line, job.unit.rows[v]);
    double cycles = 0;
    for (std::int64_t t = 0; t < tiles; ++t) {
      const auto r = static_cast<double>(line * (t + 1) / tiles - line * t / tiles);
      // Weights come from the second-level cache: about 24 bytes a cycle.
      cycles +=
          job.unit.amx ? tile_cycles(job.unit, r, v, depth, bytes) : std::max(Machine::tile_step(r, v), 64.0 * v / 24);
    }
    return cycles;
  };
  for (int v = halves && job.unit.amx && job.vectors > 1 ? 2 : 1; v <= 4 && v <= job.vectors; ++v) {
    const std::int64_t panels = kernels::direct_panels(job.vectors, v), wider = job.vectors % panels;
    const int narrow = static_cast<int>(job.vectors / panels);
    double cycles = static_cast<double>(panels - wider) * panel_cycles(narrow);
    if (wider > 0) cycles += static_cast<double>(wider) * panel_cycles(narrow + 1);
    if (cycles < best_cost) best_cost = cycles, best = v;
  }
  return best;
}

/// Neighbours share what a task prepares; few enough that threads end together.
std::int64_t pieces_per_task(std::int64_t pieces, int threads) {
  constexpr std::int64_t kTasks = 16;  // of a thread
  return std::max<std::int64_t>(pieces / (kTasks * threads), 1);
}

std::int64_t pixels_of(const Direct& job) { return job.cut.images * job.cut.rows * job.cut.columns; }

class Planner {
 public:
  Planner(const DeviceInfo& d, const Problem& p, const TuningRequest& request)
      : device_(d), request_(request), job_(uncut(kernel_table(d), p)) {}

  Direct plan(int threads) {
    start();
    fit();
    share(threads);
    kernels::split_packing(job_, threads);
    return job_;
  }

 private:
  /// One piece an image, or several small images.
  void start() {
    cut_direct(job_, cut_ = {});
    const std::int64_t width = job_.cells[2], share = cache() / 2;
    const int most = job_.unit.rows[2];
    // Tile registers of half their rows are worth more than copies.
    const bool keep_in_place = job_.unit.amx && width > most / 4 && job_.in_place;
    cut_.fold = width <= most / 2 && !keep_in_place ? std::min<std::int64_t>(most / width, job_.shape.n) : 1;
    if (merging_saves(cut_.fold)) cut_.fold = 1;
    // Outputs of a piece's line: tile registers are worth shaping for many, while panels read their input from the
    // cache.
    constexpr std::int64_t kFew = kernels::kDirectLine, kMany = 2048;
    const std::int64_t fits = share / std::max<std::int64_t>(job_.from.channels * job_.unit.element, 1);
    const bool stay =
        job_.sums_are_results() && job_.to.n * job_.shape.n * job_.unit.lane_bytes() <= kernels::kResultCaches;
    const bool in_parts = job_.phases[2] == 1 && !job_.edges;  // can be finished so
    const bool pointwise = job_.unit.group > 1 && job_.taps() == 1 && job_.in_place && in_parts;
    const bool any = cut_.fold == 1 && (pointwise || (job_.unit.amx && (stay || in_parts)));
    const std::int64_t line = any ? std::clamp(fits, kFew, kMany) : kFew;
    cut_.columns = ceil_div(width, ceil_div(width * job_.phases[2], line));
    cut_.vectors = request_.vectors ? request_.vectors : best_vectors(job_, cut_.columns * cut_.fold);
    cut_.rows = job_.cells[1];
    cut_.images = cut_.fold;
    cut_.panels = INT64_MAX;
    const std::int64_t step = job_.taps() * job_.unit.element * cut_.vectors * job_.unit.lanes;  // bytes a channel
    const std::int64_t blocks = ceil_div(job_.from.channels * step, share);
    cut_.channels = request_.channels ? request_.channels : ceil_div(ceil_div(job_.from.channels, blocks), 16) * 16;
    cut_.packed = request_.packed == 2;
    if (request_.rows) cut_.rows = ceil_div(job_.cells[1], request_.rows);
    cut_direct(job_, cut_);
  }

  /// Whether tile registers have half the work if a row of taps is one run of channels, which it is not in folded
  /// images.
  bool merging_saves(std::int64_t fold) {
    if (!job_.unit.amx || fold == 1) return false;
    DirectCut whole;
    whole.channels = job_.from.channels;
    cut_direct(job_, whole);
    constexpr std::int64_t kHeight = 16, kRow = 64;  // rows of a tile register, bytes of a row
    const std::int64_t tap = job_.from.channels * job_.unit.element, width = job_.cells[2], taps = job_.shape.taps[2];
    const std::int64_t folded = taps * ceil_div(tap, kRow) * ceil_div(fold * width, kHeight);
    return job_.merged && 2 * ceil_div(taps * tap, kRow) * ceil_div(width, kHeight) * fold <= folded;
  }

  std::int64_t cache() const { return static_cast<std::int64_t>(device_.cache_bytes[1]); }

  bool too_large() const {
    const kernels::InputTile& s = job_.input_tile;
    // Of a first layer that is read in place, what the panels read in turn.
    const std::int64_t input_tile =
        (job_.edges && job_.merged ? s.size[1] * s.size[2] * s.pitch : s.total) * job_.unit.element;
    return job_.places.total > kMaxScratch || input_tile > cache() * 3 / 8;
  }

  /// Smaller blocks until the strip has its share of the second-level cache.
  void fit() {
    while (too_large() && cut_.rows > 1) {
      cut_.rows = ceil_div(cut_.rows, 2);
      cut_direct(job_, cut_);
    }
    // Between taps that lie far apart is more than outputs are: shorter lines would copy most of it again.
    const bool wide = job_.edges && !job_.in_place;
    while ((wide ? job_.places.total > kMaxScratch : too_large()) && cut_.columns > 1) {
      cut_.columns = ceil_div(cut_.columns, 2);
      cut_direct(job_, cut_);
    }
    if (cut_.rows < job_.cells[1]) {
      cut_.rows = ceil_div(job_.cells[1], ceil_div(job_.cells[1], cut_.rows));
      cut_direct(job_, cut_);
    }
    constexpr std::int64_t kEnough = 1024;  // outputs that share what each piece packs
    while (cut_.rows == job_.cells[1] && job_.cut.images < job_.shape.n && pixels_of(job_) < kEnough) {
      const DirectCut before = cut_;
      cut_.images = std::min(cut_.images * 2, ceil_div(job_.shape.n, cut_.fold) * cut_.fold);
      cut_direct(job_, cut_);
      if (!too_large()) continue;
      cut_ = before;
      cut_direct(job_, cut_);
      break;
    }
    if (!request_.packed) {
      const std::int64_t sharing = ceil_div(job_.pieces(), job_.shape.groups);
      constexpr std::size_t kWorthSharing = 8 << 10;  // bytes: less is packed by each piece, without workspace
      const bool shared = sharing > 1 && pixels_of(job_) < 2 * kEnough && job_.packed_bytes() > kWorthSharing;
      cut_.packed = shared || job_.interleaves_panels();
      cut_direct(job_, cut_);
    }
  }

  /// Pieces for every thread, evenly.
  void share(int threads) {
    const std::int64_t enough = threads > 1 ? 3 * threads : 1;
    while (job_.pieces() < enough && cut_.images > cut_.fold) {
      cut_.images = std::max(cut_.images / 2 / cut_.fold * cut_.fold, cut_.fold);
      cut_direct(job_, cut_);
    }
    while (job_.pieces() < enough && cut_.rows > 8) {
      cut_.rows = ceil_div(cut_.rows, 2);
      cut_direct(job_, cut_);
    }
    // Lines that are images or more.
    constexpr std::int64_t kShort = 64, kUnit = 16;  // outputs; those of whole lines of the cache
    const bool cuts = job_.unit.amx || (job_.taps() == 1 && job_.in_place);
    while (cuts && job_.pieces() < enough && cut_.columns > kShort) {
      cut_.columns = ceil_div(cut_.columns, 2 * kUnit) * kUnit;
      cut_direct(job_, cut_);
    }
    cut_.panels = job_.panels;
    while (job_.pieces() < enough && cut_.panels > 1) {
      cut_.panels = ceil_div(cut_.panels, 2);
      cut_direct(job_, cut_);
    }
    // Rather short pieces, which copy more of their input twice, than idle threads.
    constexpr std::int64_t kWorthAPiece = 1 << 18;  // products
    const auto products = [&] { return pixels_of(job_) * job_.taps() * job_.from.channels * job_.unit.lanes; };
    while (job_.pieces() < threads && cut_.rows > 2 && products() > 2 * kWorthAPiece) {
      cut_.rows = ceil_div(cut_.rows, 2);
      cut_direct(job_, cut_);
    }
  }

  const DeviceInfo& device_;
  const TuningRequest request_;
  Direct job_;
  DirectCut cut_;
};

class CpuDirect final : public Solver<Problem>, public PacksWeights {
 public:
  CpuDirect(const SolverInfo& info, Direction d) : Solver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    POLYMIO_REQUIRE(p.direction == direction_, "computes another direction");
    if (p.x.type == DataType::kInt8) {
      constexpr std::int64_t kMostProducts = (std::int64_t{1} << 31) / (128 * 128) - 1;  // whose sum fits 32 bits
      if (const Verdict v = check_int8_problem(p, kMostProducts); !v) return v;
    } else if (const Verdict v = check_float_problem(p, direction_, true); !v) {
      return v;
    }
    if (const Verdict v = check_countable(p); !v) return v;
    POLYMIO_REQUIRE(p.epilogue.empty() || p.scalars != Scalars::kBilinear, "fuses an epilogue only without beta");
    constexpr std::int64_t kFewest = 4, kFew = 8;
    const std::int64_t channels = p.groups() == 1 ? kFew : std::min(p.c(), p.k()) / p.groups();
    POLYMIO_REQUIRE(channels >= kFewest && (channels >= kFew || uncut(kernel_table(d), p).diagonal_groups > 1),
                    "groups must have 8 or more channels, or 4 if several groups can be multiplied at once");
    const Direct job = Planner(d, p, {}).plan(d.threads);
    POLYMIO_REQUIRE_MOST(job.places.total, kMaxScratch, "bytes of scratch for one row of an image");
    return {};
  }

  ErrorClass error_class(const Problem& p) const override {
    return p.x.type == DataType::kInt8 ? ErrorClass::kExact : ErrorClass::kAccurate;
  }

  std::size_t workspace_size(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    const Direct job = Planner(d, p, read_request(t)).plan(d.threads);
    return job.cut.packed ? job.packed_bytes() : 0;
  }

  TuneSpace tune_space(const DeviceInfo& d, const Problem& p) const override {
    const Direct usual = Planner(d, p, {}).plan(d.threads);
    Knob rows{"rows", {0}}, vectors{"vectors", {0}}, channels{"channels", {0}}, packed{"packed", {0, 1, 2}};
    for (const std::int64_t parts : kRowParts)
      if (parts < usual.cells[1]) rows.values.push_back(static_cast<int>(parts));
    for (int v = 1; v <= std::min<std::int64_t>(4, usual.vectors); ++v) vectors.values.push_back(v);
    for (const int c : kChannels)
      if (c < usual.from.channels) channels.values.push_back(c);
    return {rows, vectors, channels, packed};
  }

  bool is_valid(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    if (t.size() != 4) return false;
    const TuneSpace space = tune_space(d, p);
    int set = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const auto& values = space[i].values;
      if (std::find(values.begin(), values.end(), t[i]) == values.end()) return false;
      set += t[i] != 0;
    }
    if (set > 2) return false;
    return Planner(d, p, read_request(t)).plan(d.threads).places.total <= kMaxScratch;
  }

  TunePoint default_point(const DeviceInfo&, const Problem&) const override { return {0, 0, 0, 0}; }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    const Machine m(d);
    const Direct job = Planner(d, p, read_request(t)).plan(d.threads);
    return m.loop_us(direct_work(job, m), tensor_bytes(p));
  }

  Invoker build(Stream& stream, const Problem& p, const TunePoint& t) const override {
    return invoker(stream, p, Planner(stream.info(), p, read_request(t)).plan(stream.threads()), kPacks | kRuns);
  }

  WeightPacking build_packing(Stream& stream, const Problem& p, const TunePoint& t) const override {
    TuningRequest request = read_request(t);
    request.packed = 2;
    const Direct job = Planner(stream.info(), p, request).plan(stream.threads());
    return {job.packed_bytes(), invoker(stream, p, job, kPacks).any(), invoker(stream, p, job, kRuns).any()};
  }

 private:
  enum Stages : unsigned { kPacks = 1, kRuns = 2 };

  static Invoker invoker(Stream& stream, const Problem& p, const Direct& job, unsigned stages) {
    const kernels::KernelTable& table = kernel_table(stream.info());
    const auto scratch = static_cast<std::size_t>(job.places.total);
    stream.reserve_scratch(scratch);
    return [job, p, &table, scratch, stages](Stream& on, const Args& a) {
      kernels::DirectArgs args{job.backward ? a.y : a.x,
                               a.w,
                               job.backward ? a.x : a.y,
                               stages == (kPacks | kRuns) ? a.workspace : a.packed,
                               a.alpha,
                               a.beta,
                               nullptr};
      kernels::Epilogue epilogue;
      if (!p.epilogue.empty()) {
        epilogue = epilogue_job(p, a);
        args.epilogue = &epilogue;
      }
      if (job.cut.packed && stages & kPacks) {
        on.parallel_for(static_cast<std::size_t>(job.packings()), scratch, [&](std::size_t i, void* s) {
          const auto part = static_cast<std::int64_t>(i);
          table.direct_pack(job, args, part, part + 1, s);
        });
      }
      if (stages == kPacks) return;
      const std::int64_t pieces = job.pieces(), some = pieces_per_task(pieces, on.threads());
      on.parallel_for(static_cast<std::size_t>(ceil_div(pieces, some)), scratch, [&](std::size_t i, void* s) {
        const std::int64_t first = static_cast<std::int64_t>(i) * some;
        table.direct(job, args, first, std::min(first + some, pieces), s);
      });
    };
  }

  Direction direction_;
};

}  // namespace

std::unique_ptr<const SolverBase> cpu_direct(const SolverInfo& info, Direction d) {
  return std::make_unique<CpuDirect>(info, d);
}

}  // namespace polymio::convolution
