// ConvCpuDirect: forward and backward data without a matrix product; every output is summed in registers over filter
// taps and channels. All float types; int8 forward. Weights are packed once per call into the caller's workspace, or by
// each piece into scratch. Wins for filters larger than 1x1 with 16 or more channels; in bf16 and int8 also for
// pointwise filters and for groups of 4 or more channels.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <memory>

#include "base/math.h"
#include "kernels/cpu/caches.h"
#include "kernels/cpu/direct.h"
#include "kernels/cpu/epilogue.h"
#include "kernels/cpu/kernels_of.h"
#include "primitives/convolution/cpu/direct_cost.h"
#include "primitives/convolution/cpu/epilogue.h"
#include "primitives/convolution/cpu/problem_shape.h"
#include "primitives/convolution/weight_packing.h"

namespace polymio::convolution {
namespace {

using kernels::Direct;
using kernels::DirectCut;
using kernels::kSpatial;

// Values of the tuning knobs "rows" and "channels".
constexpr std::int64_t kRowParts[] = {1, 2, 4, 8, 16};
constexpr int kChannels[] = {32, 64, 128, 256};

/// The values of a tune point. 0: the planner chooses.
struct TuningRequest {
  int row_parts = 0;  // parts that the rows of an image are cut into
  int vectors = 0;    // per panel of output channels
  int channels = 0;   // input channels summed at once
  int packed = 0;     // weights packed into workspace: 1 no, 2 yes
};

TuningRequest read_request(const TunePoint& t) {
  if (t.size() != 4) return {};
  return {t[0], t[1], t[2], t[3]};
}

/// A filter of one column (Rx1) on a narrow image as a filter of one row on one long row, with the row pitch as
/// dilation.
kernels::ConvShape transposed_columns(kernels::ConvShape s) {
  constexpr std::int64_t kNarrow = 32;
  const bool two_dimensional = s.in[0] == 1 && s.taps[0] == 1 && s.pad[0] == 0;
  const bool plain = two_dimensional && s.stride[1] == 1 && s.stride[2] == 1;
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

/// A pointwise convolution on contiguous rows as one long row; with `images` across all images.
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

/// Groups per block-diagonal group (docs/kernels/direct.md): the largest divisor of the number of groups whose channels
/// fit in a row of an AMX tile register, which takes as long with fewer. AMX: at least three, since with two the
/// products with zeros cost more than fewer tiles save. Without AMX their outputs also have to fit in the lanes of one
/// vector (int8: two, since its copies are the most expensive). 1 for other types and for more outputs per group than
/// lanes.
std::int64_t diagonal_groups_of(const kernels::ConvShape& s, bool backward, const kernels::DirectUnit& unit) {
  constexpr std::int64_t kRow = 64;  // bytes
  const std::int64_t from = backward ? s.k : s.c, to = backward ? s.c : s.k;
  const bool has_dot_operands = unit.math == kernels::DirectMath::kBf16 || unit.math == kernels::DirectMath::kInt8;
  if (!has_dot_operands || to > unit.lanes) return 1;
  const std::int64_t lanes = unit.sums_integers() ? 2 * unit.lanes : unit.lanes, row = kRow / (from * unit.element);
  const std::int64_t max_groups = unit.amx ? row : std::min(row, lanes / to);
  std::int64_t count = 1;
  for (std::int64_t n = unit.amx ? 3 : 2; n <= std::min(max_groups, s.groups); ++n)
    if (s.groups % n == 0) count = n;
  return count;
}

/// The job without a cut.
Direct uncut_job(const DeviceInfo& d, const Problem& p) {
  const bool backward = p.direction == Direction::kBackwardData;
  const kernels::DirectUnit unit = kernels::kernels_of<kernels::DirectKernels>(d.isa).unit(p.x.type);
  kernels::ConvShape shape = conv_shape(p);
  // Long rows fill AMX tile registers. No gain for fp32.
  if (unit.amx) shape = transposed_columns(shape);
  const std::int64_t diagonal_groups = diagonal_groups_of(shape, backward, unit);
  shape.groups /= diagonal_groups;
  shape.c *= diagonal_groups;
  shape.k *= diagonal_groups;
  Direct job = kernels::direct_job(flattened(shape, unit.group > 1), backward, p.output().type, unit);
  job.diagonal_groups = diagonal_groups;
  return job;
}

/// Vectors per panel with the fewest cycles of register tiles, for lines of `line` outputs.
int best_vectors(const Direct& job, std::int64_t line) {
  int best = 1;
  double best_cost = INFINITY;
  const std::int64_t depth = ceil_div(job.from.channels, job.unit.group);
  // NHWC results of a 16-bit type: one vector is half a cache line. For non-temporal stores by the register tile (bf16
  // without AMX, pointwise) panels are whole cache lines, as many as possible.
  const bool half_lines = job.to.c == 1 && size_of(job.to.type) == 2;
  const bool tile_stores_bf16 = job.unit.math == kernels::DirectMath::kBf16 && !job.unit.amx;
  const bool exceeds_cache = job.to.n * job.shape.n * 2 > kernels::kResultCaches;
  const bool non_temporal = half_lines && tile_stores_bf16 && job.taps() == 1 && exceeds_cache;
  if (non_temporal && job.vectors % 2 == 0) return job.vectors % 4 == 0 ? 4 : 2;
  const double bytes = row_bytes(job, line);
  const auto panel_cycles = [&](int v) {
    const std::int64_t tiles = ceil_div(line, job.unit.rows[v]);
    double cycles = 0;
    for (std::int64_t t = 0; t < tiles; ++t) {
      const auto r = static_cast<double>(line * (t + 1) / tiles - line * t / tiles);
      // Without AMX: weights from the second-level cache, one cache line per vector at 24 bytes per cycle (kCacheBytes
      // in direct_cost.cc).
      cycles +=
          job.unit.amx ? tile_cycles(job.unit, r, v, depth, bytes) : std::max(Machine::tile_step(r, v), 64.0 * v / 24);
    }
    return cycles;
  };
  for (int v = half_lines && job.unit.amx && job.vectors > 1 ? 2 : 1; v <= 4 && v <= job.vectors; ++v) {
    const std::int64_t panels = kernels::direct_panels(job.vectors, v), wide_panels = job.vectors % panels;
    const int narrow_vectors = static_cast<int>(job.vectors / panels);
    double cycles = static_cast<double>(panels - wide_panels) * panel_cycles(narrow_vectors);
    if (wide_panels > 0) cycles += static_cast<double>(wide_panels) * panel_cycles(narrow_vectors + 1);
    if (cycles < best_cost) {
      best_cost = cycles;
      best = v;
    }
  }
  return best;
}

/// Consecutive pieces share the set-up of a task; enough tasks that all threads end at about the same time.
std::int64_t pieces_per_task(std::int64_t pieces, int threads) {
  constexpr std::int64_t kTasks = 16;  // per thread
  return std::max<std::int64_t>(pieces / (kTasks * threads), 1);
}

/// Cells (outputs of one phase) per piece.
std::int64_t cells_per_piece(const Direct& job) { return job.cut.images * job.cut.rows * job.cut.columns; }

/// Chooses the cut of a problem into pieces.
class Planner {
 public:
  Planner(const DeviceInfo& d, const Problem& p, const TuningRequest& request)
      : device_(d), request_(request), job_(uncut_job(d, p)) {}

  Direct plan(int threads) {
    initial_cut();
    fit_caches();
    balance(threads);
    kernels::split_packing(job_, threads);
    return job_;
  }

 private:
  /// One piece per image, or per several small images.
  void initial_cut() {
    cut_ = {};
    cut_direct(job_, cut_);
    const std::int64_t width = job_.cells[2], half_cache = cache() / 2;
    const int max_tile_rows = job_.unit.rows[2];
    // Narrow images: fold several into one line of outputs, so that a register tile is full. Folding copies the input,
    // so AMX keeps reading in place if more than half of a tile register is filled.
    const bool keep_in_place = job_.unit.amx && width > max_tile_rows / 4 && job_.in_place;
    const bool folds = width <= max_tile_rows / 2 && !keep_in_place;
    cut_.fold = folds ? std::min<std::int64_t>(max_tile_rows / width, job_.shape.n) : 1;
    if (merging_saves(cut_.fold)) cut_.fold = 1;
    // Outputs per line of a piece. Long lines amortize the packing of weights and the AMX configuration, as long as
    // their input stays in half of the second-level cache (docs/kernels/direct.md).
    constexpr std::int64_t kShortLine = kernels::kDirectLine, kLongLine = 2048;
    const std::int64_t cached_pixels = half_cache / std::max<std::int64_t>(job_.from.channels * job_.unit.element, 1);
    const bool results_stay_in_cache =
        job_.sums_are_results() && job_.to.n * job_.shape.n * job_.unit.lane_bytes() <= kernels::kResultCaches;
    const bool finishes_in_parts = job_.phases[2] == 1 && !job_.edges;  // the kernel stores kDirectLine sums at a time
    const bool pointwise = job_.unit.group > 1 && job_.taps() == 1 && job_.in_place && finishes_in_parts;
    const bool long_lines =
        cut_.fold == 1 && (pointwise || (job_.unit.amx && (results_stay_in_cache || finishes_in_parts)));
    const std::int64_t line = long_lines ? std::clamp(cached_pixels, kShortLine, kLongLine) : kShortLine;
    cut_.columns = ceil_div(width, ceil_div(width * job_.phases[2], line));
    cut_.vectors = request_.vectors ? request_.vectors : best_vectors(job_, cut_.columns * cut_.fold);
    cut_.rows = job_.cells[1];
    cut_.images = cut_.fold;
    cut_.panels = INT64_MAX;
    // A panel of packed weights takes at most half of the second-level cache.
    const std::int64_t channel_bytes = job_.taps() * job_.unit.element * cut_.vectors * job_.unit.lanes;
    const std::int64_t blocks = ceil_div(job_.from.channels * channel_bytes, half_cache);
    cut_.channels = request_.channels ? request_.channels : ceil_div(ceil_div(job_.from.channels, blocks), 16) * 16;
    cut_.packed = request_.packed == 2;
    if (request_.row_parts) cut_.rows = ceil_div(job_.cells[1], request_.row_parts);
    cut_direct(job_, cut_);
  }

  /// Whether AMX has at most half the work without folding: then a row of taps is one contiguous run of channels.
  bool merging_saves(std::int64_t fold) {
    if (!job_.unit.amx || fold == 1) return false;
    DirectCut whole;
    whole.channels = job_.from.channels;
    cut_direct(job_, whole);
    constexpr std::int64_t kHeight = 16, kRow = 64;  // rows of a tile register, bytes of a row
    const std::int64_t tap = job_.from.channels * job_.unit.element, width = job_.cells[2], taps = job_.shape.taps[2];
    const std::int64_t folded_products = taps * ceil_div(tap, kRow) * ceil_div(fold * width, kHeight);
    return job_.merged && 2 * ceil_div(taps * tap, kRow) * ceil_div(width, kHeight) * fold <= folded_products;
  }

  /// Bytes of the second-level cache.
  std::int64_t cache() const { return static_cast<std::int64_t>(device_.cache_bytes[1]); }

  /// Whether a piece exceeds the scratch or its input tile 3/8 of the second-level cache.
  bool too_large() const {
    const kernels::InputTile& t = job_.input_tile;
    // First layers that are read in place: only the rows that every panel reads again count.
    const std::int64_t input_bytes =
        (job_.edges && job_.merged ? t.size[1] * t.size[2] * t.pitch : t.total) * job_.unit.element;
    return job_.places.total > kMaxScratch || input_bytes > cache() * 3 / 8;
  }

  /// Shrinks pieces that are too large; grows pieces of small images.
  void fit_caches() {
    while (too_large() && cut_.rows > 1) {
      cut_.rows = ceil_div(cut_.rows, 2);
      cut_direct(job_, cut_);
    }
    // Large dilation: the input tile is much longer than the line of outputs, and shorter lines copy most of it again.
    const bool large_dilation = job_.edges && !job_.in_place;
    while ((large_dilation ? job_.places.total > kMaxScratch : too_large()) && cut_.columns > 1) {
      cut_.columns = ceil_div(cut_.columns, 2);
      cut_direct(job_, cut_);
    }
    if (cut_.rows < job_.cells[1]) {
      cut_.rows = ceil_div(job_.cells[1], ceil_div(job_.cells[1], cut_.rows));
      cut_direct(job_, cut_);
    }
    constexpr std::int64_t kEnough = 1024;  // outputs per piece that amortize packing by each piece
    while (cut_.rows == job_.cells[1] && job_.cut.images < job_.shape.n && cells_per_piece(job_) < kEnough) {
      const DirectCut before = cut_;
      cut_.images = std::min(cut_.images * 2, ceil_div(job_.shape.n, cut_.fold) * cut_.fold);
      cut_direct(job_, cut_);
      if (!too_large()) continue;
      cut_ = before;
      cut_direct(job_, cut_);
      break;
    }
    if (!request_.packed) {
      const std::int64_t pieces_per_group = ceil_div(job_.pieces(), job_.shape.groups);
      constexpr std::size_t kWorthSharing = 8 << 10;  // bytes; smaller weights are packed by each piece, no workspace
      const bool shared =
          pieces_per_group > 1 && cells_per_piece(job_) < 2 * kEnough && job_.packed_bytes() > kWorthSharing;
      cut_.packed = shared || job_.interleaves_panels();
      cut_direct(job_, cut_);
    }
  }

  /// Cuts into enough pieces for all threads: by images, rows, columns, panels, in this order.
  void balance(int threads) {
    const std::int64_t enough = threads > 1 ? 3 * threads : 1;
    while (job_.pieces() < enough && cut_.images > cut_.fold) {
      cut_.images = std::max(cut_.images / 2 / cut_.fold * cut_.fold, cut_.fold);
      cut_direct(job_, cut_);
    }
    while (job_.pieces() < enough && cut_.rows > 8) {
      cut_.rows = ceil_div(cut_.rows, 2);
      cut_direct(job_, cut_);
    }
    // Long lines: whole images as one line, or several images.
    constexpr std::int64_t kShort = 64, kUnit = 16;  // outputs; kUnit fp32 outputs are a cache line
    const bool cuts_lines = job_.unit.amx || (job_.taps() == 1 && job_.in_place);
    while (cuts_lines && job_.pieces() < enough && cut_.columns > kShort) {
      cut_.columns = ceil_div(cut_.columns, 2 * kUnit) * kUnit;
      cut_direct(job_, cut_);
    }
    cut_.panels = job_.panels;
    while (job_.pieces() < enough && cut_.panels > 1) {
      cut_.panels = ceil_div(cut_.panels, 2);
      cut_direct(job_, cut_);
    }
    // Short pieces copy more input rows twice, but idle threads cost more.
    constexpr std::int64_t kSmallestPiece = 1 << 18;  // products
    const auto products = [&] { return cells_per_piece(job_) * job_.taps() * job_.from.channels * job_.unit.lanes; };
    while (job_.pieces() < threads && cut_.rows > 2 && products() > 2 * kSmallestPiece) {
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
      constexpr std::int64_t kMostProducts = (std::int64_t{1} << 31) / (128 * 128) - 1;  // so that sums fit in int32
      if (const Verdict v = check_int8_problem(p, kMostProducts); !v) return v;
    } else if (const Verdict v = check_float_problem(p, direction_, true); !v) {
      return v;
    }
    if (const Verdict v = check_countable(p); !v) return v;
    POLYMIO_REQUIRE(p.epilogue.empty() || p.scalars != Scalars::kBilinear, "fuses an epilogue only without beta");
    constexpr std::int64_t kFewest = 4, kFew = 8;
    const std::int64_t channels = p.groups() == 1 ? kFew : std::min(p.c(), p.k()) / p.groups();
    POLYMIO_REQUIRE(channels >= kFewest && (channels >= kFew || uncut_job(d, p).diagonal_groups > 1),
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
    const Direct job = Planner(d, p, {}).plan(d.threads);
    Knob rows{"rows", {0}}, vectors{"vectors", {0}}, channels{"channels", {0}}, packed{"packed", {0, 1, 2}};
    for (const std::int64_t parts : kRowParts)
      if (parts < job.cells[1]) rows.values.push_back(static_cast<int>(parts));
    for (int v = 1; v <= std::min<std::int64_t>(4, job.vectors); ++v) vectors.values.push_back(v);
    for (const int c : kChannels)
      if (c < job.from.channels) channels.values.push_back(c);
    return {rows, vectors, channels, packed};
  }

  bool is_valid(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    if (t.size() != 4) return false;
    const TuneSpace space = tune_space(d, p);
    int nonzero = 0;  // at most two knobs differ from the planner's choice, to keep the space small
    for (std::size_t i = 0; i < 4; ++i) {
      const auto& values = space[i].values;
      if (std::find(values.begin(), values.end(), t[i]) == values.end()) return false;
      nonzero += t[i] != 0;
    }
    if (nonzero > 2) return false;
    return Planner(d, p, read_request(t)).plan(d.threads).places.total <= kMaxScratch;
  }

  TunePoint default_point(const DeviceInfo&, const Problem&) const override { return {0, 0, 0, 0}; }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    const Machine m(d);
    const Direct job = Planner(d, p, read_request(t)).plan(d.threads);
    return m.loop_us(direct_work(job, m), tensor_bytes(p));
  }

  Invoker build(Stream& stream, const Problem& p, const TunePoint& t) const override {
    return invoker(stream, p, Planner(stream.info(), p, read_request(t)).plan(stream.threads()), kPack | kCompute);
  }

  WeightPacking build_packing(Stream& stream, const Problem& p, const TunePoint& t) const override {
    TuningRequest request = read_request(t);
    request.packed = 2;
    const Direct job = Planner(stream.info(), p, request).plan(stream.threads());
    return {job.packed_bytes(), invoker(stream, p, job, kPack).any(), invoker(stream, p, job, kCompute).any()};
  }

 private:
  enum Stages : unsigned { kPack = 1, kCompute = 2 };

  static Invoker invoker(Stream& stream, const Problem& p, const Direct& job, unsigned stages) {
    const auto& kernels = kernels::kernels_of<kernels::DirectKernels>(stream.info().isa);
    const auto scratch = static_cast<std::size_t>(job.places.total);
    stream.reserve_scratch(scratch);
    return [job, p, &kernels, scratch, stages](Stream& on, const Args& a) {
      kernels::DirectArgs args{job.backward ? a.y : a.x,
                               a.w,
                               job.backward ? a.x : a.y,
                               stages == (kPack | kCompute) ? a.workspace : a.packed,
                               a.alpha,
                               a.beta,
                               nullptr};
      kernels::Epilogue epilogue;
      if (!p.epilogue.empty()) {
        epilogue = epilogue_job(p, a);
        args.epilogue = &epilogue;
      }
      if (job.cut.packed && stages & kPack) {
        on.parallel_for(static_cast<std::size_t>(job.packings()), scratch, [&](std::size_t i, void* s) {
          const auto part = static_cast<std::int64_t>(i);
          kernels.pack(job, args, part, part + 1, s);
        });
      }
      if (stages == kPack) return;
      const std::int64_t pieces = job.pieces(), chunk = pieces_per_task(pieces, on.threads());
      on.parallel_for(static_cast<std::size_t>(ceil_div(pieces, chunk)), scratch, [&](std::size_t i, void* s) {
        const std::int64_t first = static_cast<std::int64_t>(i) * chunk;
        kernels.run(job, args, first, std::min(first + chunk, pieces), s);
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
