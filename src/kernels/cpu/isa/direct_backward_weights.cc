// Direct convolution, backward weights. For a row of filter taps, a register tile is output channels (rows) x (tap,
// input channel), summed over the outputs of a step. Neighbouring taps read the padded input tile shifted by a pixel,
// so that one run of lanes covers them all.
// Instruction sets: also those that add dot products.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/direct_backward_weights.h"
#include "kernels/cpu/isa/direct_stages.h"
#include "kernels/cpu/isa/dot_operands.h"
#include "kernels/cpu/isa/row_tiles.h"
#include "kernels/cpu/isa/transpose.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

template <>
const DirectGradientKernels& entry_points<DirectGradientKernels>();

namespace {

/// A block of weights of a group: ks output channels from k on, cs input channels from c on.
struct Block {
  i64 group, k, c, ks, cs;
};

Block block_at(const DirectGradient& g, i64 index) {
  Block b;
  b.c = index % g.c_blocks * g.c_block;
  index /= g.c_blocks;
  b.k = index % g.k_blocks * g.k_block;
  b.group = index / g.k_blocks;
  b.ks = min_of(g.k_block, g.x.shape.k - b.k);
  b.cs = min_of(g.c_block, g.x.shape.c - b.c);
  return b;
}

/// The stride between taps if it is the same for the whole filter, else 0. Dimensions with one tap do not count.
i64 uniform_tap_stride(const ConvShape& s) {
  i64 distance = 0, next = 0;
  for (int d = kSpatial - 1; d >= 0; --d) {
    if (s.taps[d] == 1) continue;
    if (next == 0) {
      distance = s.w_d[d];
    } else if (s.w_d[d] != next) {
      return 0;
    }
    next = s.w_d[d] * s.taps[d];
  }
  return distance;
}

/// Scales, converts and stores the sums of output channels [first, end) of a block.
void store_block(const DirectGradient& g, const GradientArgs& args, const Block& b, char* sums, i64 first, i64 end) {
  const ConvShape& s = g.x.shape;
  const i64* d = s.w_d;
  const i64 pixel = uniform_tap_stride(s);
  const i64 count = pixel > 0 ? g.x.taps() : 1, size = g.x.unit.element;
  DirectArgs scale;
  scale.alpha = args.alpha;
  scale.beta = args.beta;
  char* const dw = static_cast<char*>(args.dw);
  for (i64 k = first; k < end; ++k) {
    const i64 to = (b.group * s.k + b.k + k) * s.w_k + b.c * s.w_c;
    for (i64 tap = 0; tap < g.x.taps(); tap += count) {
      const i64 t2 = tap % s.taps[2], t1 = tap / s.taps[2] % s.taps[1], t0 = tap / s.taps[2] / s.taps[1];
      const i64 at = to + t0 * d[0] + t1 * d[1] + t2 * d[2];
      store_line(g.x, scale,
                 {sums + (k * g.k_row + tap * b.cs) * size, b.cs * size, count, b.cs, dw + bytes_of(g.x.to.type, at),
                  pixel, s.w_c});
    }
  }
}

/// dy of a step: read in place if it is contiguous vectors of output channels, else copied. E: the elements that are
/// multiplied; S: the type of dy.
template <class E, class S>
class GradientDy {
  static constexpr bool kPairs = __is_same(E, ImagePair);
  using T = std::conditional_t<kPairs, float, E>;

 public:
  GradientDy(const DirectGradient& g, const GradientArgs& args, const Block& block, char* copy)
      : g_(g),
        block_(block),
        from_(static_cast<const S*>(args.dy) + (block.group * g.x.shape.k + block.k) * g.dy.c),
        copy_(reinterpret_cast<E*>(copy)),
        is_in_place_(__is_same(E, S) && g.dy.c == 1 && block.ks == g.transposed_row) {}

  /// Whether the channels of an output are contiguous in the copy, else its outputs.
  bool is_nhwc() const { return g_.transposed_row > 0 || (!kPairs && g_.dy.c == 1); }

  /// Elements between outputs that are contiguous in channels.
  i64 pixel() const { return is_in_place_ ? g_.dy.d[2] : g_.pitch; }
  /// The first row of the step.
  const char* rows() const { return rows_; }

  /// Elements from rows() to row `row` of image `image` of the step.
  i64 row_offset(i64 image, i64 row) const {
    if (is_in_place_) return image * g_.dy.n + row * g_.dy.d[1];
    const i64 output = (image * piece_.count[1] + row) * piece_.count[2];
    return is_nhwc() ? output * g_.pitch : output;
  }

  /// Selects the outputs of a step.
  void select(const DirectPiece& piece) {
    const DirectSide& dy = g_.dy;
    piece_ = piece;
    const S* from = from_ + piece.image * dy.n + piece.start[0] * dy.d[0] + piece.start[1] * dy.d[1];
    from += piece.start[2] * dy.d[2];
    rows_ = is_in_place_ ? reinterpret_cast<const char*>(from) : reinterpret_cast<const char*>(copy_);
    if (is_in_place_) return;
    for (i64 image = 0; image < piece.images; ++image)
      for (i64 row = 0; row < piece.count[1]; ++row)
        copy_row(from + image * dy.n + row * dy.d[1], dy.of_pair(piece.image + image, piece.start[1] + row),
                 copy_ + row_offset(image, row));
  }

 private:
  /// Copies a row of outputs; images: how many halves its pairs have.
  void copy_row(const S* from, [[maybe_unused]] int images, E* to) const {
    if constexpr (kPairs) {
      return g_.transposed_row > 0 ? pair_outputs(from, images, to) : pair_row(from, images, to);
    } else {
      copy_row(from, to);
    }
  }

  /// to[channel][output], whatever dy's layout is: the steps of A are contiguous.
  void pair_row(const S* from, int images, ImagePair* to) const {
    constexpr i64 kN = kLanes<std::int32_t>;
    const DirectSide& dy = g_.dy;
    const i64 columns = piece_.count[2];
    if (dy.d[2] == 1) {
      for (i64 k = 0; k < block_.ks; ++k) pair_run(from + k * dy.c, dy.partner, images, columns, to + k * g_.pitch);
      return;
    }
    for (i64 k = 0; k < block_.ks; k += kN) {
      const int lanes = static_cast<int>(min_of(kN, block_.ks - k));
      for (i64 i = 0; i < columns; i += kN) {
        const int width = static_cast<int>(min_of(kN, columns - i));
        Vec<std::int32_t> block[kN] = {};
        for (int j = 0; j < width; ++j) {
          const S* pixel = from + (i + j) * dy.d[2] + k * dy.c;
          if (dy.c == 1) {
            block[j] = load_dot_operands<Bfloat16>(pixel, dy.partner, images, 1, lanes);
            continue;
          }
          for (int l = 0; l < lanes; ++l, pixel += dy.c) {
            block[j][l] = load_dot_operands<Bfloat16>(pixel, dy.partner, images, 1, 1)[0];
          }
        }
        transpose(block);
        for (int l = 0; l < lanes; ++l) store_lanes(&to[(k + l) * g_.pitch + i].bits, block[l], width);
      }
    }
  }

  /// to[output][channel].
  void pair_outputs(const S* from, int images, ImagePair* to) const {
    constexpr i64 kN = kLanes<std::int32_t>;
    const DirectSide& dy = g_.dy;
    const i64 columns = piece_.count[2];
    if (dy.c == 1) {
      for (i64 i = 0; i < columns; ++i) pair_run(from + i * dy.d[2], dy.partner, images, block_.ks, to + i * g_.pitch);
      return;
    }
    for (i64 k = 0; k < block_.ks; k += kN) {
      const i64 lanes = min_of(kN, block_.ks - k);
      for (i64 i = 0; i < columns; i += kN) {
        const int width = static_cast<int>(min_of(kN, columns - i));
        Vec<std::int32_t> block[kN] = {};
        for (i64 l = 0; l < lanes; ++l) {
          block[l] = load_dot_operands<Bfloat16>(from + (k + l) * dy.c + i, dy.partner, images, 1, width);
        }
        transpose(block);
        for (int j = 0; j < width; ++j) store(&to[(i + j) * g_.pitch + k].bits, block[j]);
      }
    }
  }

  void copy_row(const S* from, T* to) const {
    const DirectSide& dy = g_.dy;
    const i64 columns = piece_.count[2];
    if (dy.c == 1) {
      for (i64 i = 0; i < columns; ++i) convert_run(from + i * dy.d[2], block_.ks, to + i * g_.pitch);
    } else if (g_.transposed_row > 0) {
      transpose_row(from, to);
    } else if (dy.d[2] == 1) {
      for (i64 k = 0; k < block_.ks; ++k) convert_run(from + k * dy.c, columns, to + k * g_.pitch);
    } else {
      for (i64 k = 0; k < block_.ks; ++k)
        for (i64 i = 0; i < columns; ++i) to[k * g_.pitch + i] = convert<T>(from[k * dy.c + i * dy.d[2]]);
    }
  }

  void transpose_row(const S* from, T* to) const {
    if constexpr (__is_same(T, float)) {
      constexpr int kN = kLanes<float>;
      for (i64 k = 0; k < block_.ks; k += kN) {
        const int lanes = static_cast<int>(min_of<i64>(kN, block_.ks - k));
        transpose_in(from + k * g_.dy.c, g_.dy.c, lanes, piece_.count[2], to + k, g_.pitch);
      }
    }
  }

  const DirectGradient& g_;
  const Block& block_;
  const S* const from_;  // the block's channels
  E* const copy_;
  const bool is_in_place_;
  DirectPiece piece_{};
  const char* rows_ = nullptr;
};

/// Computes one slice of a block. E: the elements that are multiplied; S: the type of dy.
template <class E, class S>
class Worker {
  static constexpr bool kPairs = __is_same(E, ImagePair);
  using T = std::conditional_t<kPairs, float, E>;  // the type of sums

 public:
  Worker(const DirectGradient& g, const GradientArgs& args, i64 index, char* scratch)
      : g_(g),
        args_(args),
        block_(block_at(g, index / g.slices)),
        slice_(index % g.slices),
        x_(g.x),
        dy_(g, args, block_, scratch + g.places.dy) {
    x_.from.channels = block_.cs;
    x_.merged = g.x.merged && block_.cs == g.c_block;
    input_tile_ = scratch + g.places.input_tile;
    sums_ = g.slices == 1 ? scratch + g.places.sums : static_cast<char*>(args.sums) + index * g.sum_bytes;
    transposed_ = scratch + g.places.transposed;
    dy_offsets_ = reinterpret_cast<i64*>(scratch + g.places.lists);
    x_offsets_ = dy_offsets_ + g.x.cut.images * g.x.cut.rows;
  }

  void run() {
    T* const sums = reinterpret_cast<T*>(sums_);
    T* const transposed = reinterpret_cast<T*>(transposed_);
    for (i64 i = 0; i < g_.k_row * g_.transposed_row; ++i) transposed[i] = 0;
    for (i64 i = 0; i < block_.ks * g_.k_row; ++i) sums[i] = 0;
    const ConvShape& s = x_.shape;
    const char* x = static_cast<const char*>(args_.x);
    x += bytes_of(x_.from.type, (block_.group * s.c + block_.c) * s.x_c);
    for (i64 step = g_.steps * slice_ / g_.slices; step < g_.steps * (slice_ + 1) / g_.slices; ++step) {
      locate(step);
      fill_input_tile(x_, piece_, x, input_tile_);
      dy_.select(piece_);
      for (i64 t0 = 0; t0 < s.taps[0]; ++t0)
        for (i64 t1 = 0; t1 < s.taps[1]; ++t1) add_tap_row(t0, t1);
    }
    for (i64 i = 0; g_.transposed_row > 0 && i < g_.k_row; ++i) {
      for (i64 k = 0; k < block_.ks; ++k) sums[k * g_.k_row + i] = transposed[i * g_.transposed_row + k];
    }
    if (g_.slices == 1) store_block(g_, args_, block_, sums_, 0, block_.ks);
  }

 private:
  /// Sets piece_ to the outputs of a step.
  void locate(i64 step) {
    piece_.image = locate_cells(x_, step, piece_) * x_.cut.images;
    piece_.images = min_of(x_.cut.images, x_.shape.n - piece_.image);
  }

  /// Whether a tap of an output reads the input: padding adds nothing.
  bool is_inside(int d, i64 output, i64 tap) const {
    const ConvShape& s = x_.shape;
    const i64 position = output * s.stride[d] - s.pad[d] + tap * s.dilation[d];
    const i64 half = d == 1 ? x_.from.half : 0;
    return position + half >= 0 && position < s.in[d];
  }

  /// The position of a tap of the piece's first output in the input tile.
  i64 input_tile_position(int d, i64 tap) const {
    return (tap * x_.shape.dilation[d] - x_.shape.pad[d] - x_.first[d]) / x_.grain[d];
  }

  /// Adds the products of the step to the sums of a row of taps.
  void add_tap_row(i64 t0, i64 t1) {
    if (!is_inside(0, piece_.start[0], t0)) return;
    const InputTile& input_tile = x_.input_tile;
    Micro m;
    m.blocks = 0;
    for (i64 image = 0; image < piece_.images; ++image) {
      for (i64 row = 0; row < piece_.count[1]; ++row) {
        if (!is_inside(1, piece_.start[1] + row, t1)) continue;
        const i64 b = image * input_tile.image + input_tile_position(0, t0) * input_tile.slab +
                      (row * x_.step[1] + input_tile_position(1, t1)) * input_tile.row;
        dy_offsets_[m.blocks] = dy_.row_offset(image, row) * kSize;
        x_offsets_[m.blocks++] = b * kSize;
      }
    }
    if (m.blocks == 0) return;
    m.a_block = dy_offsets_;
    m.b_block = x_offsets_;
    m.depth = piece_.count[2];
    m.a_row = (dy_.is_nhwc() ? 1 : g_.pitch) * kSize;
    m.a_step = (dy_.is_nhwc() ? g_.pitch : 1) * kSize;
    m.b_step = x_.step[2] * input_tile.pitch * kSize;
    m.c_row = g_.k_row * kSize;
    m.add = true;
    const i64 taps = x_.shape.taps[2], row = (t0 * x_.shape.taps[1] + t1) * taps;
    const i64 together = x_.merged ? taps : 1;
    for (i64 t2 = 0; t2 < taps; t2 += together) {
      const char* x = input_tile_ + input_tile_position(2, t2) * input_tile.pixel * kSize;
      const i64 first = (row + t2) * block_.cs, count = together * block_.cs;
      if (g_.transposed_row > 0) {
        add_tiles(transposed_tile(m), x, dy_.rows(), transposed_ + first * g_.transposed_row * kSize, count,
                  g_.transposed_row);
      } else {
        add_tiles(m, dy_.rows(), x, sums_ + first * kSize, block_.ks, count);
      }
    }
  }

  /// The transposed product: the channels of dy are lanes.
  Micro transposed_tile(Micro m) const {
    m.a_block = x_offsets_;
    m.b_block = dy_offsets_;
    m.a_step = m.b_step;
    m.a_row = kSize;
    m.b_step = dy_.pixel() * kSize;
    m.c_row = g_.transposed_row * kSize;
    return m;
  }

  /// sums += a * b, of `rows` rows and `lanes` lanes.
  void add_tiles(Micro m, const char* a, const char* b, char* sums, i64 rows, i64 lanes) {
    constexpr int kN = kLanes<T>;
    constexpr Dot kDot = kPairs ? Dot::kBf16 : sizeof(T) == 8 ? Dot::kDouble : Dot::kFloat;
    const i64 vectors = ceil_div(lanes, kN);
    const i64 max_vectors = !(kPairs && kHasAmx) ? (vectors % 3 == 0 ? 3 : 2) : AmxCut(m.depth).rest > 0 ? 1 : 2;
    const i64 panels = ceil_div(vectors, max_vectors);
    for (i64 p = 0; p < panels; ++p) {
      const i64 start = vectors * p / panels, end = vectors * (p + 1) / panels;
      m.b = b + start * kVectorBytes;
      m.tail = end == vectors ? static_cast<int>(lanes % kN) : 0;
      m.a = a;
      m.c = sums + start * kVectorBytes;
      multiply_rows(amx_, kDot, rows, end - start, m);
    }
  }

  static constexpr i64 kSize = sizeof(T);
  const DirectGradient& g_;
  const GradientArgs& args_;
  const Block block_;
  const i64 slice_;
  Direct x_;  // g_.x with the block's number of channels
  DirectPiece piece_{};
  char *input_tile_, *sums_, *transposed_;
  GradientDy<E, S> dy_;
  i64 *dy_offsets_, *x_offsets_;  // bytes, per block of the batch-reduce
  Amx amx_;
};

/// Adds up the slices of some output channels of a block and stores them.
template <class T>
void sum_slices(const DirectGradient& g, const GradientArgs& args, i64 index, char* scratch) {
  const i64 parts = ceil_div(g.k_block, DirectGradient::kChannels);
  const Block b = block_at(g, index / parts);
  const i64 first = index % parts * DirectGradient::kChannels;
  const i64 end = min_of(first + DirectGradient::kChannels, b.ks);
  if (first >= end) return;
  const char* from = static_cast<const char*>(args.sums) + index / parts * g.slices * g.sum_bytes;
  char* const sums = scratch + g.places.sums;
  T* const to = reinterpret_cast<T*>(sums);
  for (i64 slice = 0; slice < g.slices; ++slice) {
    const T* part = reinterpret_cast<const T*>(from + slice * g.sum_bytes);
    for (i64 i = first * g.k_row; i < end * g.k_row; ++i) to[i] = slice > 0 ? to[i] + part[i] : part[i];
  }
  store_block(g, args, b, sums, first, end);
}

[[maybe_unused]] void of_type(const DirectGradient& job, const GradientArgs& args, i64 index, char* scratch) {
  switch (job.dy.type) {
    case DataType::kDouble: Worker<double, double>(job, args, index, scratch).run(); break;
    case DataType::kHalf: Worker<float, Half>(job, args, index, scratch).run(); break;
    case DataType::kBFloat16: Worker<float, Bfloat16>(job, args, index, scratch).run(); break;
    default: Worker<float, float>(job, args, index, scratch).run(); break;
  }
}

void gradient(const DirectGradient& job, const GradientArgs& args, i64 first, i64 end, void* scratch) {
  char* const memory = static_cast<char*>(scratch);
  const bool pairs = job.x.unit.math == DirectMath::kImagePairs;
  if (kAddsProducts && !pairs)
    return POLYMIO_SHARED_NAMESPACE::entry_points<DirectGradientKernels>().run(job, args, first, end, scratch);
  for (i64 piece = first; piece < end; ++piece) {
    if constexpr (kHasBf16Dot) {
      if (pairs) {
        Worker<ImagePair, Bfloat16>(job, args, piece, memory).run();
        continue;
      }
    }
    if constexpr (!kAddsProducts) of_type(job, args, piece, memory);
  }
}

void gradient_sum(const DirectGradient& job, const GradientArgs& args, i64 first, i64 end, void* scratch) {
  if constexpr (kAddsProducts)
    return POLYMIO_SHARED_NAMESPACE::entry_points<DirectGradientKernels>().sum(job, args, first, end, scratch);
  for (i64 i = first; i < end; ++i) {
    if (job.dy.type == DataType::kDouble) {
      sum_slices<double>(job, args, i, static_cast<char*>(scratch));
    } else {
      sum_slices<float>(job, args, i, static_cast<char*>(scratch));
    }
  }
}

}  // namespace

template <>
const DirectGradientKernels& entry_points<DirectGradientKernels>() {
  static constexpr DirectGradientKernels kKernels{.run = gradient, .sum = gradient_sum};
  return kKernels;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
