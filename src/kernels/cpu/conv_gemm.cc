// Matrix products of a convolution, and their cut into pieces.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/conv_gemm.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/math.h"
#include "kernels/cpu/im2col.h"
#include "kernels/cpu/stencil.h"

namespace polymio::kernels {
namespace {

using std::int64_t;

/// One spatial dimension of a product: coordinate = origin + pixel * pixel_move + tap * tap_move.
struct Window {
  int64_t pixels, taps;                     // numbers of pixels and taps
  int64_t origin, pixel_move, tap_move;     // in the gathered tensor
  int64_t first_pixel = 0, pixel_step = 1;  // position in the other tensor
  int64_t first_tap = 0, tap_step = 1;      // position in the filter
};

struct Geometry {
  Window window[kSpatial];
};

/// Levels (outer, d0, d1, d2), or (d0, d1, d2, outer) if `outer_last`.
Axis make_axis(const Level& outer, const Level (&dims)[kSpatial], bool outer_last) {
  Axis axis;
  axis.level[outer_last ? kSpatial : 0] = outer;
  for (int d = 0; d < kSpatial; ++d) axis.level[d + (outer_last ? 0 : 1)] = dims[d];
  return axis;
}

/// The im2col view of a tensor: pixels (batch and positions) by taps (channel and filter taps).
struct Gather {
  Axis pixels, taps;
  int64_t offset = 0, origin[kSpatial] = {}, extent[kSpatial] = {};
};

Gather gather_view(const Geometry& g, const Level& batch, const Level& channel, const int64_t (&strides)[kSpatial],
                   const int64_t (&sizes)[kSpatial], bool channels_last) {
  Gather view;
  Level pixels[kSpatial], taps[kSpatial];
  for (int d = 0; d < kSpatial; ++d) {
    const Window& w = g.window[d];
    pixels[d] = {w.pixels, w.pixel_move * strides[d], d, w.pixel_move};
    taps[d] = {w.taps, w.tap_move * strides[d], d, w.tap_move};
    view.offset += w.origin * strides[d];
    view.origin[d] = w.origin;
    view.extent[d] = sizes[d];
  }
  view.pixels = make_axis(batch, pixels, false);
  view.taps = make_axis(channel, taps, channels_last);
  return view;
}

/// Positions in the tensor that is not gathered, in the order of the gather's pixels.
Axis pixel_axis(const Geometry& g, const Level& batch, const int64_t (&strides)[kSpatial]) {
  Level dims[kSpatial];
  for (int d = 0; d < kSpatial; ++d) {
    dims[d] = {g.window[d].pixels, g.window[d].pixel_step * strides[d], -1, 0};
  }
  return make_axis(batch, dims, false);
}

Axis filter_axis(const Geometry& g, const Level& channel, const int64_t (&strides)[kSpatial], bool channels_last) {
  Level dims[kSpatial];
  for (int d = 0; d < kSpatial; ++d) {
    dims[d] = {g.window[d].taps, g.window[d].tap_step * strides[d], -1, 0};
  }
  return make_axis(channel, dims, channels_last);
}

int64_t first_offset(const Geometry& g, const int64_t (&strides)[kSpatial], bool pixels) {
  int64_t offset = 0;
  for (int d = 0; d < kSpatial; ++d) {
    offset += (pixels ? g.window[d].first_pixel : g.window[d].first_tap) * strides[d];
  }
  return offset;
}

Operand gathered(DataType dtype, const Gather& view, bool pixels_are_lanes) {
  Operand operand;
  operand.dtype = dtype;
  operand.offset = view.offset;
  operand.lanes = pixels_are_lanes ? view.pixels : view.taps;
  operand.depth = pixels_are_lanes ? view.taps : view.pixels;
  for (int d = 0; d < kSpatial; ++d) {
    operand.origin[d] = view.origin[d];
    operand.extent[d] = view.extent[d];
  }
  return operand;
}

Operand matrix(DataType dtype, int64_t offset, const Axis& lanes, const Axis& depth) {
  Operand operand;
  operand.dtype = dtype;
  operand.offset = offset;
  operand.lanes = lanes;
  operand.depth = depth;
  return operand;
}

int64_t inner_stride(const Axis& axis) { return axis.level[kLevels - 1].stride; }
int64_t inner_size(const Axis& axis) { return axis.level[kLevels - 1].size; }

bool is_bounded(const Operand& o) { return (o.extent[0] | o.extent[1] | o.extent[2]) != 0; }

/// Cycles per depth: multiplications of whole vectors of columns, the transpose of columns, and stores of a C that is
/// strided along them.
double transposed_cost(const Gemm& g, int64_t rows, int64_t columns, int64_t column_stride) {
  constexpr double kStridedStore = 16;
  const auto m = static_cast<double>(rows), n = static_cast<double>(columns), k = static_cast<double>(g.k);
  const double stores = column_stride == 1 ? 0 : kStridedStore * m * n / k;
  return m * std::ceil(n / 16) / 2 + 0.4 * n + stores;
}

/// Whether both operands are contiguous along the depth and transposing A costs less than transposing B.
bool is_better_transposed(const Gemm& g) {
  constexpr int64_t kDeep = 256;  // the fewest depths that make up for a strided C
  const bool contiguous = inner_stride(g.a.depth) == 1 && inner_stride(g.b.depth) == 1 && !is_bounded(g.a) &&
                          !is_bounded(g.b) && inner_size(g.a.depth) == inner_size(g.b.depth);
  return contiguous && g.k >= kDeep &&
         transposed_cost(g, g.n, g.m, inner_stride(g.c.rows)) < transposed_cost(g, g.m, g.n, inner_stride(g.c.columns));
}

/// Whether C is one vector wide, so that tiles load nearly as much as they multiply, and its transpose has wide tiles.
bool is_thin(const Gemm& g) {
  constexpr int64_t kVector = 16, kRows = 32, kDeep = 256;  // kDeep makes up for a strided C
  return g.n <= kVector && g.m >= kRows && g.k >= kDeep && inner_stride(g.b.lanes) == 1 && !is_bounded(g.b) &&
         !is_bounded(g.a);
}

void orient(ConvProduct& p) {
  if (!transpose_if_faster(p.gemm)) return;
  std::swap(p.a, p.b);
  std::swap(p.a_group, p.b_group);
}

Geometry forward_geometry(const ConvShape& s) {
  Geometry g;
  for (int d = 0; d < kSpatial; ++d) {
    g.window[d] = {s.out[d], s.taps[d], -s.pad[d], s.stride[d], s.dilation[d]};
  }
  return g;
}

/// dx at positions phase + i * stride.
Window data_window(const ConvShape& s, int d, int64_t phase) {
  const PhaseWindow w = phase_window(s, d, phase);
  return {w.pixels, w.taps, w.origin, 1, w.tap_move, phase, s.stride[d], w.first_tap, w.tap_step};
}

/// The part of a window with these pixels and taps.
Window part_of(const Window& w, int64_t pixel0, int64_t pixels, int64_t tap0, int64_t taps) {
  Window part = w;
  part.pixels = pixels;
  part.taps = taps;
  part.origin += pixel0 * w.pixel_move + tap0 * w.tap_move;
  part.first_pixel += pixel0 * w.pixel_step;
  part.first_tap += tap0 * w.tap_step;
  return part;
}

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }  // b > 0

/// Numbers [first, end) of 0 to `count` for which origin + number * move is in [0, size).
struct Inside {
  int64_t first, end;
  Inside(int64_t origin, int64_t move, int64_t count, int64_t size) {
    if (move < 0) origin = size - 1 - origin;
    const int64_t step = std::abs(move);
    first = std::clamp<int64_t>(-floor_div(origin, step), 0, count);
    end = std::clamp<int64_t>(floor_div(size - 1 - origin, step) + 1, 0, count);
  }
  bool operator==(const Inside&) const = default;
  int64_t count() const { return std::max<int64_t>(end - first, 0); }
};

/// Cuts a window of a dimension of `size` positions into parts whose pixels (if `by_taps` whose taps) all read the same
/// taps (pixels) within the dimension, without the others; as it is if few parts do not save a tenth of the work.
std::vector<Window> without_padding(const Window& w, int64_t size, bool by_taps) {
  constexpr std::ptrdiff_t kMostParts = 8;
  constexpr double kMostWork = 0.9;
  if (std::abs(w.tap_move) < 2) return {w};  // padding is narrow
  const int64_t count = by_taps ? w.taps : w.pixels, others = by_taps ? w.pixels : w.taps;
  const auto inside = [&](int64_t i) {
    return by_taps ? Inside(w.origin + i * w.tap_move, w.pixel_move, others, size)
                   : Inside(w.origin + i * w.pixel_move, w.tap_move, others, size);
  };
  std::vector<Window> parts;
  double work = 0;
  for (int64_t begin = 0; begin < count;) {
    const Inside range = inside(begin);
    int64_t same = begin, other = count;  // the ends of ranges move one way: search where one changes
    while (other - same > 1) {
      const int64_t middle = same + (other - same) / 2;
      (inside(middle) == range ? same : other) = middle;
    }
    const int64_t n = other - begin, used = range.count(), first = used > 0 ? range.first : 0;
    work += static_cast<double>(n) * static_cast<double>(used);
    parts.push_back(by_taps ? part_of(w, first, used, begin, n) : part_of(w, begin, n, first, used));
    if (std::ssize(parts) > kMostParts) return {w};
    begin = other;
  }
  const double all = static_cast<double>(count) * static_cast<double>(others);
  return work > kMostWork * all ? std::vector{w} : parts;
}

/// All combinations of the parts of the dimensions of the gathered tensor. With columns innermost it remains whole: a
/// copy of shorter lines and of runs of fewer taps takes what products save.
std::vector<Geometry> parts_of(const Geometry& g, const int64_t (&sizes)[kSpatial], const int64_t (&strides)[kSpatial],
                               bool by_taps) {
  std::vector<Geometry> all{g};
  if (strides[kSpatial - 1] == 1) return all;
  for (int d = 0; d < kSpatial; ++d) {
    std::vector<Geometry> cut;
    for (const Window& part : without_padding(g.window[d], sizes[d], by_taps))
      for (Geometry one : all) {
        one.window[d] = part;
        cut.push_back(one);
      }
    all = std::move(cut);
  }
  return all;
}

ConvProduct forward_product(const ConvShape& s, const Geometry& g) {
  const bool channels_last = s.x_c <= s.x_d[kSpatial - 1] && s.w_c <= s.w_d[kSpatial - 1];
  const Gather x = gather_view(g, {s.n, s.x_n}, {s.c, s.x_c}, s.x_d, s.in, channels_last);
  ConvProduct p;
  p.gemm.m = s.k;
  p.gemm.n = x.pixels.size();
  p.gemm.k = x.taps.size();
  const Axis filters = make_axis({s.k, s.w_k}, {}, false);
  p.gemm.a =
      matrix(s.dtype, first_offset(g, s.w_d, false), filters, filter_axis(g, {s.c, s.w_c}, s.w_d, channels_last));
  p.gemm.b = gathered(s.dtype, x, true);
  p.gemm.c = {s.dtype, nullptr, first_offset(g, s.y_d, true), make_axis({s.k, s.y_k}, {}, false),
              pixel_axis(g, {s.n, s.y_n}, s.y_d)};
  p.a = ConvTensor::kW;
  p.b = ConvTensor::kX;
  p.a_group = s.k * s.w_k;
  p.b_group = s.c * s.x_c;
  p.c_group = s.k * s.y_k;
  return p;
}

ConvProduct data_product(const ConvShape& s, const Geometry& g) {
  const bool channels_last = s.y_k <= s.y_d[kSpatial - 1];
  const Gather y = gather_view(g, {s.n, s.y_n}, {s.k, s.y_k}, s.y_d, s.out, channels_last);
  ConvProduct p;
  p.gemm.m = s.c;
  p.gemm.n = y.pixels.size();
  p.gemm.k = y.taps.size();
  p.gemm.a = matrix(s.dtype, first_offset(g, s.w_d, false), make_axis({s.c, s.w_c}, {}, false),
                    filter_axis(g, {s.k, s.w_k}, s.w_d, channels_last));
  p.gemm.b = gathered(s.dtype, y, true);
  p.gemm.c = {s.dtype, nullptr, first_offset(g, s.x_d, true), make_axis({s.c, s.x_c}, {}, false),
              pixel_axis(g, {s.n, s.x_n}, s.x_d)};
  p.a = ConvTensor::kW;
  p.b = ConvTensor::kY;
  p.a_group = s.k * s.w_k;
  p.b_group = s.k * s.y_k;
  p.c_group = s.c * s.x_c;
  return p;
}

/// Whether each element of dx has exactly one tap, as in patch embeddings.
bool is_tiled(const ConvShape& s) {
  for (int d = 0; d < kSpatial; ++d) {
    const bool dense = s.taps[d] == 1 || s.dilation[d] == 1;
    if (!dense || s.taps[d] != s.stride[d] || s.pad[d] != 0 || s.in[d] != s.out[d] * s.stride[d]) return false;
  }
  return true;
}

/// All of dx as one product, taps by pixels. Contiguous runs of dx have the width of the filter.
ConvProduct tiled_product(const ConvShape& s) {
  const Geometry g = forward_geometry(s);
  const bool channels_last = s.x_c <= s.x_d[kSpatial - 1];
  Level taps[kSpatial], pixels[kSpatial];
  for (int d = 0; d < kSpatial; ++d) {
    taps[d] = {s.taps[d], s.x_d[d]};
    pixels[d] = {s.out[d], s.stride[d] * s.x_d[d]};
  }
  const Axis rows = make_axis({s.c, s.x_c}, taps, channels_last);
  ConvProduct p;
  p.gemm.m = rows.size();
  p.gemm.n = s.n * s.out[0] * s.out[1] * s.out[2];
  p.gemm.k = s.k;
  p.gemm.a = matrix(s.dtype, 0, filter_axis(g, {s.c, s.w_c}, s.w_d, channels_last), make_axis({s.k, s.w_k}, {}, false));
  p.gemm.b = matrix(s.dtype, 0, pixel_axis(g, {s.n, s.y_n}, s.y_d), make_axis({s.k, s.y_k}, {}, false));
  p.gemm.c = {s.dtype, nullptr, 0, rows, make_axis({s.n, s.x_n}, pixels, false)};
  p.a = ConvTensor::kW;
  p.b = ConvTensor::kY;
  p.a_group = s.k * s.w_k;
  p.b_group = s.k * s.y_k;
  p.c_group = s.c * s.x_c;
  orient(p);
  return p;
}

ConvProduct weights_product(const ConvShape& s, const Geometry& g) {
  const bool channels_last = s.w_c <= s.w_d[kSpatial - 1];
  const Gather x = gather_view(g, {s.n, s.x_n}, {s.c, s.x_c}, s.x_d, s.in, channels_last);
  ConvProduct p;
  p.gemm.m = s.k;
  p.gemm.n = x.taps.size();
  p.gemm.k = x.pixels.size();
  p.gemm.a = matrix(s.dtype, first_offset(g, s.y_d, true), make_axis({s.k, s.y_k}, {}, false),
                    pixel_axis(g, {s.n, s.y_n}, s.y_d));
  p.gemm.b = gathered(s.dtype, x, false);
  p.gemm.c = {s.dtype, nullptr, first_offset(g, s.w_d, false), make_axis({s.k, s.w_k}, {}, false),
              filter_axis(g, {s.c, s.w_c}, s.w_d, channels_last)};
  p.a = ConvTensor::kY;
  p.b = ConvTensor::kX;
  p.a_group = s.k * s.y_k;
  p.b_group = s.c * s.x_c;
  p.c_group = s.k * s.w_k;
  return p;
}

// Cycles of the cost model, per element: two vectors of 16 multiply-adds per cycle.
constexpr double kPackCost = 0.5, kMultiplyCost = 1.0 / 32, kPieceCost = 2000;

double piece_cost(const Gemm& g, const Cut& cut, const TileShape& tile) {
  const double k = static_cast<double>(g.k), scale = 16.0 / static_cast<double>(tile.lanes);
  const auto rows = static_cast<double>(ceil_div(cut.rows, tile.rows) * tile.rows);
  const auto columns = static_cast<double>(ceil_div(cut.columns, tile.lanes) * tile.lanes);
  return k * (rows * columns * kMultiplyCost * scale + (rows + columns) * kPackCost) + kPieceCost;
}

/// Whether AMX tile registers load rows of A in place over the whole depth: the scratch of a piece then hardly depends
/// on its rows and columns.
bool reads_rows_in_place(const Gemm& g, const TileShape& tile) {
  return tile.amx && inner_stride(g.a.depth) == 1 && inner_size(g.a.depth) == g.k && inner_size(g.a.lanes) == g.m &&
         !is_bounded(g.a) && g.k % 2 == 0 && g.k <= kGemmDepthBlock;
}

/// Most columns per piece. Pieces are smaller if scratch holds their sums: 16-bit operands or results, and strided
/// results.
int64_t column_limit(const Gemm& g, const Cut& cut, const TileShape& tile) {
  if (reads_rows_in_place(g, tile)) return g.n;
  const bool narrow = std::min(size_of(g.a.dtype), size_of(g.c.dtype)) < sizeof(float);
  const bool in_scratch = narrow || inner_stride(g.c.columns) != 1;
  return in_scratch ? std::max<int64_t>(131072 / cut.rows, 64) : g.n;
}

/// Most rows per piece: their packed block has at most the size of kGemmRowBlock rows of fp32 and a full depth block.
/// If A is read in place, enough rows that packing B per piece costs little.
int64_t row_limit(const Gemm& g, const TileShape& tile) {
  if (reads_rows_in_place(g, tile)) return 4 * kGemmRowBlock;
  const auto bytes = static_cast<int64_t>(std::max(size_of(g.c.dtype), sizeof(float)));
  const int64_t step = std::max(g.depth_step(), kGemmDepthBlock);
  return kGemmRowBlock * kGemmDepthBlock * static_cast<int64_t>(sizeof(float)) / (step * bytes);
}

}  // namespace

bool transpose_if_faster(Gemm& g) {
  simplify(g.a);
  simplify(g.b);
  simplify(g.c);
  const bool rows_unit = inner_stride(g.c.rows) == 1, columns_unit = inner_stride(g.c.columns) == 1;
  const bool ragged = columns_unit && g.n < 64 && g.n % 16 != 0 && g.m >= 128 && g.k >= 64;
  const bool thin = columns_unit && is_thin(g);
  const bool swap = is_better_transposed(g)     ? true
                    : rows_unit && columns_unit ? inner_size(g.c.rows) > inner_size(g.c.columns)
                    : rows_unit                 ? g.m > 4
                                                : (ragged || thin) && inner_stride(g.a.lanes) == 1;
  if (!swap) return false;
  std::swap(g.a, g.b);
  std::swap(g.c.rows, g.c.columns);
  std::swap(g.m, g.n);
  return true;
}

Cut cut_of(const Gemm& g, int64_t copies, const TileShape& tile, int64_t threads, const CutRequest& request) {
  const int64_t max_rows = request.rows > 0 ? std::min(request.rows, row_limit(g, tile)) : row_limit(g, tile);
  const int64_t max_m_parts = request.rows > 0 ? ceil_div(g.m, max_rows) : ceil_div(g.m, tile.rows);
  constexpr int64_t kFewRows = 6;  // B is read once, and fastest in long lines
  const int64_t requested = request.pieces > 0 ? request.pieces : g.m <= kFewRows ? 1 : 0;
  Cut best{std::min(g.m, max_rows), g.n};
  double best_cost = -1;
  for (int64_t m_parts = ceil_div(g.m, max_rows); m_parts <= max_m_parts; m_parts *= 2) {
    const int64_t rows = ceil_div(ceil_div(g.m, m_parts), tile.rows) * tile.rows;
    int64_t first = ceil_div(g.n, column_limit(g, {rows, g.n}, tile));
    int64_t last = std::max(first, ceil_div(g.n, tile.lanes));
    if (requested > 0) {
      first = std::clamp(ceil_div(requested * threads, ceil_div(g.m, rows) * copies), first, last);
      last = first;
    }
    for (int64_t n_parts = first; n_parts <= last; n_parts += 1 + n_parts / 8) {
      const Cut cut{rows, ceil_div(ceil_div(g.n, n_parts), tile.lanes) * tile.lanes};
      const int64_t pieces = ceil_div(g.m, cut.rows) * ceil_div(g.n, cut.columns) * copies;
      const double waves = static_cast<double>(ceil_div(pieces, threads)) + 0.05;
      const double cost = waves * piece_cost(g, cut, tile);
      if (best_cost >= 0 && cost >= best_cost) continue;
      best_cost = cost;
      best = cut;
    }
  }
  return best;
}

ConvProduct column_product(const ConvShape& s, DataType type) {
  const Geometry g = forward_geometry(s);
  const bool channels_last = columns_are_channels_last(s);
  const Axis taps = filter_axis(g, {s.c, s.w_c}, s.w_d, channels_last);
  const Axis pixels = pixel_axis(g, {s.n, s.y_n}, s.y_d);
  ConvProduct p;
  p.gemm.m = taps.size();
  p.gemm.n = pixels.size();
  p.gemm.k = s.k;
  p.gemm.a = matrix(s.dtype, 0, taps, make_axis({s.k, s.w_k}, {}, false));
  p.gemm.b = matrix(s.dtype, 0, pixels, make_axis({s.k, s.y_k}, {}, false));
  const int64_t tap_stride = channels_last ? 1 : p.gemm.n, pixel_stride = channels_last ? p.gemm.m : 1;
  p.gemm.c = {type, nullptr, 0, make_axis({p.gemm.m, tap_stride}, {}, false),
              make_axis({p.gemm.n, pixel_stride}, {}, false)};
  p.a = ConvTensor::kW;
  p.b = ConvTensor::kY;
  p.a_group = s.k * s.w_k;
  p.b_group = s.k * s.y_k;
  p.c_group = p.gemm.m * p.gemm.n;
  orient(p);
  return p;
}

/// 1x1 filters with stride 2: of the four phases only the first has taps, and its product writes the others' zeros too.
void share_zeros(const ConvShape& s, std::vector<ConvProduct>& products) {
  ConvProduct& first = products.front();
  Output& c = first.gemm.c;
  bool is_even = s.in[0] == 1 && s.dtype == DataType::kFloat && first.gemm.k > 0 && s.x_d[kSpatial - 1] == 1;
  for (int d = 1; d < kSpatial; ++d)
    is_even = is_even && s.taps[d] == 1 && s.pad[d] == 0 && s.stride[d] == 2 && s.in[d] % 2 == 0;
  if (!is_even || inner_stride(c.columns) != 2) return;
  c.gap = s.x_d[1];
  for (std::size_t i = 1; i < products.size(); ++i) products[i].fills_gap = true;
}

std::vector<ConvProduct> conv_products(const ConvShape& s, ConvDirection direction, bool skips_padding) {
  constexpr int64_t kRun = 8;  // the fewest contiguous elements that one product may write
  std::vector<ConvProduct> products;
  if (direction == ConvDirection::kBackwardData && is_tiled(s)) {
    const ConvProduct p = tiled_product(s);
    if (inner_stride(p.gemm.c.columns) == 1 && inner_size(p.gemm.c.columns) >= kRun) return {p};
  }
  const bool forward = direction == ConvDirection::kForward, weights = direction == ConvDirection::kBackwardWeights;
  const auto parts = [&](const Geometry& g) {
    if (!skips_padding) return std::vector{g};
    return forward || weights ? parts_of(g, s.in, s.x_d, weights) : parts_of(g, s.out, s.y_d, false);
  };
  if (forward || weights) {
    for (const Geometry& g : parts(forward_geometry(s)))
      products.push_back(forward ? forward_product(s, g) : weights_product(s, g));
  } else {
    int64_t phases[kSpatial], total = 1;
    for (int d = 0; d < kSpatial; ++d) {
      phases[d] = std::min(s.stride[d], s.in[d]);
      total *= phases[d];
    }
    for (int64_t i = 0; i < total; ++i) {
      Geometry g;
      int64_t rest = i;
      for (int d = kSpatial - 1; d >= 0; --d) {
        g.window[d] = data_window(s, d, rest % phases[d]);
        rest /= phases[d];
      }
      for (const Geometry& part : parts(g)) products.push_back(data_product(s, part));
    }
  }
  for (ConvProduct& p : products) orient(p);
  if (direction == ConvDirection::kBackwardData) share_zeros(s, products);
  return products;
}

std::vector<ConvPiece> cut_products(const std::vector<ConvProduct>& products, int64_t groups, const TileShape& tile,
                                    int64_t threads, const CutRequest& request) {
  std::vector<ConvPiece> pieces;
  for (std::size_t i = 0; i < products.size(); ++i) {
    const Gemm& g = products[i].gemm;
    const Cut cut = cut_of(g, groups, tile, threads, request);
    for (int64_t group = 0; group < groups; ++group) {
      for (int64_t n = 0; n < g.n; n += cut.columns) {
        for (int64_t m = 0; m < g.m; m += cut.rows) {
          pieces.push_back(
              {static_cast<int64_t>(i), group, m, std::min(m + cut.rows, g.m), n, std::min(n + cut.columns, g.n)});
        }
      }
    }
  }
  return pieces;
}

}  // namespace polymio::kernels
