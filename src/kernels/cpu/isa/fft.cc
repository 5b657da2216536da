// Convolution by FFT: tiles of 16x16 or 32x32 with channels as lanes, so that a transform is plain arithmetic on
// vectors. Complex matrix products are sums of real ones.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/fft.h"

#include "kernels/cpu/isa/entry_points.h"
#include "kernels/cpu/isa/fft_real.h"
#include "kernels/cpu/isa/micro_kernel.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

using Vector = Vec<float>;
constexpr int kN = kLanes<float>;

/// Index of frequency (u, v) among the stored ones, u along rows and v along columns. Columns u = 0 and u = N / 2 are
/// transforms of real data: half of each is stored.
template <int N>
constexpr int frequency_of(int u, int v) {
  if (u == 0) return v;
  return u == N / 2 ? N / 2 + 1 + v : 2 * (N / 2 + 1) + (u - 1) * N + v;
}

/// One tile or filter of kN channels in the spectra; strides in floats.
struct Spectrum {
  float* data;
  i64 frequency, imaginary;  // between frequencies, from the real to the imaginary part
  bool negative = false;     // the negated real part follows the imaginary part
};

/// One tile or filter of kN channels between the transforms of its rows and of its columns.
template <int N>
class Plane {
 public:
  static constexpr int kHalf = N / 2;

  /// `column`: elements between columns.
  Plane(Complex* memory, i64 column) : memory_(memory), column_(column) {}

  /// Transforms row i from or to N pixels.
  void transform_row(int i, const Vector* line) const {
    transform_real<N>([line](int n) { return line[n]; },
                      [row = memory_ + i, stride = column_](int k, const Complex& v) { row[k * stride] = v; });
  }
  void invert_row(int i, Vector* line) const {
    invert_real<N>([row = memory_ + i, stride = column_](int k) { return row[k * stride]; },
                   [line](int n, Vector v) { line[n] = v; });
  }
  void clear_row(int i) const {
    for (int k = 0; k <= kHalf; ++k) memory_[k * column_ + i] = Complex{};
  }

  /// Transforms column u to or from the spectrum. Local copies of members: compilers assume that stores change members.
  void transform_column(int u, const Spectrum& to) const {
    Complex* const column = memory_ + u * column_;
    float* const data = to.data + frequency_of<N>(u, 0) * to.frequency;
    const auto put = [data, stride = to.frequency, imaginary = to.imaginary, negative = to.negative](
                         int v, const Complex& value) {
      float* out = data + v * stride;
      store(out, value.re);
      store(out + imaginary, value.im);
      if (negative) store(out + 2 * imaginary, -value.re);
    };
    if (u % kHalf != 0) return transform<N, false>([column](int n) { return column[n]; }, put);
    const Vector half = broadcast(0.5f);
    transform_real<N>([column](int n) { return column[n].re; },
                      [put, half](int v, const Complex& value) {
                        put(v, {value.re * half, value.im * half});
                      });
  }
  void invert_column(int u, const Spectrum& from) const {
    Complex* const column = memory_ + u * column_;
    const float* const data = from.data + frequency_of<N>(u, 0) * from.frequency;
    const auto get = [data, stride = from.frequency, imaginary = from.imaginary](int v) {
      const float* in = data + v * stride;
      return Complex{load(in), load(in + imaginary)};
    };
    if (u % kHalf != 0) return transform<N, true>(get, [column](int n, const Complex& value) { column[n] = value; });
    invert_real<N>(get, [column](int n, Vector value) { column[n] = {value, Vector{}}; });
  }

 private:
  Complex* memory_;
  i64 column_;
};

// ---- pixels ----

/// Loads pixels [first, first + kN) of a row of `width` pixels, zero outside.
static inline Vector load_pixels(const float* row, i64 first, i64 width) {
  const int lo = static_cast<int>(first < 0 ? min_of<i64>(-first, kN) : 0);
  const int hi = static_cast<int>(max_of<i64>(min_of<i64>(width - first, kN), 0));
  if (lo == 0 && hi == kN) return load(row + first);
  return lo < hi ? load_lanes(row + first, lo, hi) : Vector{};
}
template <class S>
static inline Vector load_pixels(const S* row, i64 first, i64 width) {
  if (first >= 0 && first + kN <= width) return load_widened(row + first);
  float line[kN] = {};
  for (int i = 0; i < kN; ++i)
    if (first + i >= 0 && first + i < width) line[i] = widen(row[first + i]);
  return load(line);
}

template <class S>
static inline Vector load_partial(const S* p, int n) {
  return n == kN ? load_widened(p) : load_widened(p, n);
}
template <class S>
static inline void store_partial(S* p, Vector v, int n) {
  n == kN ? store_narrowed(p, v) : store_narrowed(p, v, n);
}

/// line[i]: pixel first + i of `channels` channels.
template <int N, class S>
void load_line(const S* row, i64 channel, i64 pixel, int channels, i64 first, i64 width, Vector* line) {
  if (channel == 1) {
    for (int i = 0; i < N; ++i) {
      const i64 column = first + i;
      line[i] = column >= 0 && column < width ? load_partial(row + column * pixel, channels) : Vector{};
    }
    return;
  }
  for (int j = 0; j < N; j += kN) {
    Vector block[kN];
    for (int c = 0; c < kN; ++c) block[c] = c < channels ? load_pixels(row + c * channel, first + j, width) : Vector{};
    transpose(block);
    for (int i = 0; i < kN; ++i) line[j + i] = block[i];
  }
}

/// Stores the first `pixels` pixels of a line, scaled.
template <class S>
void store_line(const Fft& job, S* row, int channels, i64 pixels, Vector* line) {
  const ConvShape& s = job.shape;
  const auto put = [&](S* to, Vector v, int n) {
    v *= broadcast(job.alpha);
    if (job.beta != 0) v += broadcast(job.beta) * load_partial(to, n);
    store_partial(to, v, n);
  };
  if (s.y_k == 1) {
    for (i64 i = 0; i < pixels; ++i) put(row + i * s.y_d[2], line[i], channels);
    return;
  }
  for (i64 j = 0; j < pixels; j += kN) {
    Vector block[kN];
    for (int i = 0; i < kN; ++i) block[i] = line[j + i];
    transpose(block);
    const int count = static_cast<int>(min_of<i64>(kN, pixels - j));
    for (int c = 0; c < channels; ++c) put(row + c * s.y_k + j, block[c], count);
  }
}

int channels_at(i64 vector, i64 channels) { return static_cast<int>(min_of<i64>(kN, channels - vector * kN)); }

// ---- the stages ----

/// Transforms the rows of one part of the filter for kN output channels and one input channel.
template <int N, class S>
Spectrum weight_rows(const Fft& job, i64 piece, const Plane<N>& plane, Vector* line) {
  const ConvShape& s = job.shape;
  const i64 depth = job.depthwise ? 1 : s.c, c = piece % depth, parts = job.parts[0] * job.parts[1];
  const i64 part = piece / depth % parts, vector = piece / (depth * parts);
  const int channels = channels_at(vector, s.k);
  const S* w = static_cast<const S*>(job.w) + vector * kN * s.w_k + c * s.w_c;
  const i64 sizes[2] = {job.parts[0] == 1 ? N : N / 2, job.parts[1] == 1 ? N : N / 2};
  const i64 top = part / job.parts[1] * sizes[0], left = part % job.parts[1] * sizes[1];
  constexpr float kScale = 1.0f / (4 * N * N);  // factor of both transforms and the inverse: a power of two
  for (int i = 0; i < N; ++i) {
    const i64 r = (top + i) / s.dilation[1];
    if (i >= sizes[0] || (top + i) % s.dilation[1] != 0 || r >= s.taps[1]) {
      plane.clear_row(i);
      continue;
    }
    for (int j = 0; j < N; ++j) line[j] = Vector{};
    for (i64 t = (left + s.dilation[2] - 1) / s.dilation[2]; t < s.taps[2]; ++t) {
      const i64 column = t * s.dilation[2] - left;
      if (column >= sizes[1]) break;
      const S* tap = w + r * s.w_d[1] + t * s.w_d[2];
      for (int l = 0; l < channels; ++l) line[column][l] = kScale * widen(tap[l * s.w_k]);
    }
    plane.transform_row(i, line);
  }
  const i64 panel = vector / kFftPanel, width = min_of(kFftPanel, job.y_vectors() - panel * kFftPanel);
  const i64 first = part * job.w_part() + 2 * (panel * kFftPanel * depth + c * width) + vector % kFftPanel;
  return {job.w_spectra + first * kN, job.w_frequency() * kN, width * kN};
}

/// Transforms the rows of one tile of kN input channels.
template <int N, class S>
Spectrum input_rows(const Fft& job, i64 piece, const Plane<N>& plane, Vector* line) {
  const ConvShape& s = job.shape;
  const i64 vector = piece % job.x_vectors(), place = piece / job.x_vectors();
  const i64 rows = job.rows + job.parts[0] - 1, image = job.image + place / (job.grid[1] * rows);
  const i64 top = (job.row + place / job.grid[1] % rows) * job.step[0] - s.pad[1];
  const i64 left = place % job.grid[1] * job.step[1] - s.pad[2];
  const S* x = static_cast<const S*>(job.x) + image * s.x_n + vector * kN * s.x_c;
  for (int i = 0; i < N; ++i) {
    const i64 h = top + i;
    if (h < 0 || h >= s.in[1]) {
      plane.clear_row(i);
      continue;
    }
    load_line<N>(x + h * s.x_d[1], s.x_c, s.x_d[2], channels_at(vector, s.c), left, s.in[2], line);
    plane.transform_row(i, line);
  }
  return {job.x_spectra + (place * job.x_place() + vector) * kN, job.x_frequency() * kN, job.x_vectors() * kN,
          !job.depthwise};
}

/// A tile of kN output channels.
struct OutputTile {
  i64 vector, image, row, column, place;

  OutputTile(const Fft& job, i64 piece) {
    vector = piece % job.y_vectors();
    column = piece / job.y_vectors() % job.tiles[1];
    const i64 rest = piece / (job.y_vectors() * job.tiles[1]);
    row = rest % job.rows;
    image = rest / job.rows;
    place = (image * (job.rows + job.parts[0] - 1) + row) * job.grid[1] + column;
  }
  Spectrum spectrum(const Fft& job) const {
    return {job.y_spectra + (place * job.y_place() + vector) * kN, job.y_frequency() * kN, job.y_vectors() * kN};
  }
};

template <int N, class S>
void output_rows(const Fft& job, const OutputTile& tile, const Plane<N>& plane, Vector* line) {
  const ConvShape& s = job.shape;
  const i64 top = (job.row + tile.row) * job.step[0], left = tile.column * job.step[1];
  S* y = static_cast<S*>(job.y) + (job.image + tile.image) * s.y_n + tile.vector * kN * s.y_k + top * s.y_d[1] +
         left * s.y_d[2];
  const int rows = static_cast<int>(min_of(job.step[0], s.out[1] - top));
  const i64 columns = min_of(job.step[1], s.out[2] - left);
  for (int i = 0; i < rows; ++i) {
    plane.invert_row(i, line);
    store_line(job, y + i * s.y_d[1], channels_at(tile.vector, s.k), columns, line);
  }
}

/// Blocks of the batch-reduce micro-kernel: per part the products with the real and the imaginary weights.
struct Blocks {
  i64 a[2 * kFftParts * kFftParts], b[2 * kFftParts * kFftParts], count = 0;

  explicit Blocks(const Fft& job, i64 imaginary_w) {
    constexpr i64 kBytes = kVectorBytes;
    for (i64 i = 0; i < job.parts[0]; ++i)
      for (i64 j = 0; j < job.parts[1]; ++j)
        for (i64 plane = 0; plane < 2; ++plane) {
          a[count] = ((i * job.grid[1] + j) * job.x_place() + plane * job.x_vectors()) * kBytes;
          b[count++] = ((i * job.parts[1] + j) * job.w_part() + plane * imaginary_w) * kBytes;
        }
  }
};

/// Multiplies places [first, end) of one frequency: y = x * conj(w). The planes of x are re, im, -re, so that the
/// imaginary part of y is the same sum, one plane further.
void multiply_places(const Fft& job, const float* x, const float* w, float* y, i64 first, i64 end) {
  for (i64 panel = 0; panel < job.y_vectors(); panel += kFftPanel) {
    const i64 width = min_of(kFftPanel, job.y_vectors() - panel);
    const Blocks blocks(job, width);
    Micro m{.b = w + 2 * panel * job.shape.c * kN,
            .a_block = blocks.a,
            .b_block = blocks.b,
            .blocks = blocks.count,
            .depth = job.shape.c,
            .a_row = job.x_place() * kVectorBytes,
            .a_step = sizeof(float),
            .b_step = 2 * width * kVectorBytes,
            .c_row = job.y_place() * kVectorBytes};
    const i64 max_rows = kMicroRows[width], tiles = (end - first + max_rows - 1) / max_rows;
    for (i64 t = 0; t < tiles; ++t) {
      const i64 from = first + (end - first) * t / tiles, to = first + (end - first) * (t + 1) / tiles;
      const MicroKernel kernel = micro_kernel(Dot::kFloat, static_cast<int>(to - from), static_cast<int>(width));
      for (i64 plane = 0; plane < 2; ++plane) {
        m.a = x + (from * job.x_place() + plane * job.x_vectors()) * kN;
        m.c = y + (from * job.y_place() + plane * job.y_vectors() + panel) * kN;
        kernel(m);
      }
    }
  }
}

/// The same for depthwise convolution, lane by lane.
void multiply_lanes(const Fft& job, const float* x, const float* w, float* y, i64 first, i64 end) {
  const i64 vectors = job.y_vectors(), imaginary = vectors * kN;
  for (i64 vector = 0; vector < vectors; ++vector) {
    const i64 panel = vector / kFftPanel, width = min_of(kFftPanel, vectors - panel * kFftPanel);
    const float* taps = w + (2 * panel * kFftPanel + vector % kFftPanel) * kN;
    for (i64 place = first; place < end; ++place) {
      Complex sum{};
      for (i64 part = 0; part < job.parts[0] * job.parts[1]; ++part) {
        const i64 from = place + part / job.parts[1] * job.grid[1] + part % job.parts[1];
        const float* in = x + (from * job.x_place() + vector) * kN;
        const float* weights = taps + part * job.w_part() * kN;
        const Complex a{load(in), load(in + imaginary)}, b{load(weights), load(weights + width * kN)};
        sum.re += a.re * b.re + a.im * b.im;
        sum.im += a.im * b.re - a.re * b.im;
      }
      float* out = y + (place * job.y_place() + vector) * kN;
      store(out, sum.re);
      store(out + imaginary, sum.im);
    }
  }
}

/// Multiplies one frequency, including the places between output tiles that exist if the filter has parts.
void multiply_piece(const Fft& job, i64 frequency) {
  const float* x = job.x_spectra + frequency * job.x_frequency() * kN;
  const float* w = job.w_spectra + frequency * job.w_frequency() * kN;
  float* y = job.y_spectra + frequency * job.y_frequency() * kN;
  const auto multiply = job.depthwise ? multiply_lanes : multiply_places;
  if (job.parts[0] * job.parts[1] == 1) return multiply(job, x, w, y, 0, job.places());
  const i64 image = (job.rows + job.parts[0] - 1) * job.grid[1], count = (job.rows - 1) * job.grid[1] + job.tiles[1];
  for (i64 i = 0; i < job.images; ++i) multiply(job, x, w, y, i * image, i * image + count);
}

/// Transforms pieces [first, first + count). Adjacent pieces are adjacent in the spectra, whose frequencies are pages
/// apart: the batch transforms the same column of all pieces before the next column.
template <int N, class S>
void run_batch(const Fft& job, FftStage stage, i64 first, i64 count, Vector* scratch) {
  Vector* const line = scratch;
  Spectrum spectra[kFftBatch];
  const auto plane = [&](i64 i) {
    return Plane<N>(reinterpret_cast<Complex*>(scratch + N) + i * N, job.batch() * N + 1);
  };
  const bool output = stage == FftStage::kOutput;
  for (i64 i = 0; i < count; ++i)
    spectra[i] = output                        ? OutputTile(job, first + i).spectrum(job)
                 : stage == FftStage::kWeights ? weight_rows<N, S>(job, first + i, plane(i), line)
                                               : input_rows<N, S>(job, first + i, plane(i), line);
  for (int u = 0; u <= N / 2; ++u)
    for (i64 i = 0; i < count; ++i)
      output ? plane(i).invert_column(u, spectra[i]) : plane(i).transform_column(u, spectra[i]);
  for (i64 i = 0; output && i < count; ++i) output_rows<N, S>(job, OutputTile(job, first + i), plane(i), line);
}

template <int N, class S>
void run(const Fft& job, FftStage stage, i64 first, i64 end, void* scratch) {
  if (stage == FftStage::kMultiply) {
    for (i64 piece = first; piece < end; ++piece) multiply_piece(job, piece);
    return;
  }
  const i64 most = job.batch();
  for (i64 piece = first; piece < end; piece += most)
    run_batch<N, S>(job, stage, piece, min_of(most, end - piece), static_cast<Vector*>(scratch));
}

template <class S>
void run_tile(const Fft& job, FftStage stage, i64 first, i64 end, void* scratch) {
  if (job.tile == 16) return run<16, S>(job, stage, first, end, scratch);
  run<32, S>(job, stage, first, end, scratch);
}

}  // namespace

void fft(const Fft& job, FftStage stage, i64 first, i64 end, void* scratch) {
  if (job.shape.dtype == DataType::kHalf) return run_tile<Half>(job, stage, first, end, scratch);
  if (job.shape.dtype == DataType::kBFloat16) return run_tile<Bfloat16>(job, stage, first, end, scratch);
  run_tile<float>(job, stage, first, end, scratch);
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
