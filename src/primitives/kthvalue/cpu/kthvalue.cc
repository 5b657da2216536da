// KthvalueCpu: keys have the order of the elements as unsigned integers; each pass counts one digit of those
// that are left, highest first, and keeps those with the digit of the k-th. Threads take rows, or parts of a long row.
// Many short rows are copied to columns, whose bits a kernel finds together. Tuning knob: elements of a task.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <new>
#include <vector>

#include "base/math.h"
#include "kernels/cpu/kernels_of.h"
#include "kernels/cpu/kthvalue.h"
#include "primitives/common/copy.h"
#include "primitives/kthvalue/solvers.h"

namespace polymio::kthvalue {
namespace {

constexpr int kDigitBits = 8, kDigits = 1 << kDigitBits;

constexpr std::int64_t kVector = kernels::kKthvaluePadding;  // bytes
constexpr std::int64_t kMostColumns = 512;                   // rows that are searched as columns at once
constexpr std::int64_t kMostColumnLength = 1 << 14;          // elements, so that a vector of rows stays in the L2 cache
constexpr std::int64_t kColumnBytes = 1 << 15;               // of several vectors of rows: the L1 cache

/// The key of the element whose bits are `bits`. `exponent`: the bits of infinity; 0 for integers.
template <class Key>
Key key_of(Key bits, Key exponent) {
  constexpr Key kSign = static_cast<Key>(Key{1} << (8 * sizeof(Key) - 1));
  const Key magnitude = static_cast<Key>(bits & ~kSign);
  if (exponent != 0 && magnitude > exponent) return std::numeric_limits<Key>::max();
  if (exponent == 0 || (bits & kSign) == 0) return static_cast<Key>(bits ^ kSign);
  return static_cast<Key>(~bits);
}

template <class Key>
Key exponent_of(DataType type) {
  switch (type) {
    case DataType::kHalf: return static_cast<Key>(0x7c00u);
    case DataType::kBFloat16: return static_cast<Key>(0x7f80u);
    case DataType::kFloat: return static_cast<Key>(0x7f800000u);
    case DataType::kDouble: return static_cast<Key>(std::uint64_t{0x7ff} << 52);
    default: return 0;
  }
}

/// What a chunk of a row has: keys that are left, and how many have each digit. After the search of the position,
/// `left` is that, or -1.
struct Chunk {
  std::int64_t left = 0;
  std::array<std::uint32_t, kDigits> counts;
};

template <class Key>
class Row {
 public:
  /// `keys`: memory for all keys; `chunks`: one for each `chunk` elements.
  Row(const Key* x, std::int64_t stride, std::int64_t length, Key exponent, Key* keys, Chunk* chunks,
      std::int64_t chunk)
      : x_(x), stride_(stride), length_(length), exponent_(exponent), keys_(keys), chunks_(chunks), chunk_(chunk) {}

  /// The position of the first element that equals the k-th. for_each(body) calls body for every number of a chunk.
  template <class ForEach>
  std::int64_t select(std::int64_t k, const ForEach& for_each) const {
    constexpr int kTop = 8 * sizeof(Key) - kDigitBits;
    for_each([&](std::int64_t c) { convert(c); });
    Key found = 0;
    for (int shift = kTop;; shift -= kDigitBits) {
      const auto digit = static_cast<Key>(digit_of(k));
      found = static_cast<Key>(found | static_cast<Key>(digit << shift));
      if (shift == 0) break;
      for_each([&](std::int64_t c) { narrow(c, digit, shift); });
    }
    for_each([&](std::int64_t c) { chunks_[c].left = position_of(found, c); });
    const std::int64_t all = ceil_div(length_, chunk_);
    const auto* const first = std::find_if(chunks_, chunks_ + all, [](const Chunk& c) { return c.left >= 0; });
    return first->left;
  }

 private:
  std::int64_t begin(std::int64_t c) const { return c * chunk_; }
  std::int64_t end(std::int64_t c) const { return std::min(begin(c) + chunk_, length_); }
  Key key(std::int64_t i) const { return key_of(x_[i * stride_], exponent_); }
  static unsigned digit(Key key, int shift) { return static_cast<unsigned>(key >> shift) % kDigits; }

  void convert(std::int64_t c) const {
    Chunk& chunk = chunks_[c];
    chunk.counts.fill(0);
    chunk.left = end(c) - begin(c);
    for (std::int64_t i = begin(c); i < end(c); ++i) {
      keys_[i] = key(i);
      ++chunk.counts[digit(keys_[i], 8 * sizeof(Key) - kDigitBits)];
    }
  }

  /// Keeps the keys with the digit and counts their next one.
  void narrow(std::int64_t c, Key kept, int shift) const {
    Chunk& chunk = chunks_[c];
    chunk.counts.fill(0);
    Key* const keys = keys_ + begin(c);
    std::int64_t left = 0;
    for (std::int64_t i = 0; i < chunk.left; ++i) {
      const Key key = keys[i];
      if (digit(key, shift) != kept) continue;
      keys[left++] = key;
      ++chunk.counts[digit(key, shift - kDigitBits)];
    }
    chunk.left = left;
  }

  /// The digit of the k-th key that is left; k becomes its number among those with the digit.
  int digit_of(std::int64_t& k) const {
    const std::int64_t all = ceil_div(length_, chunk_);
    for (int d = 0;; ++d) {
      std::int64_t count = 0;
      for (std::int64_t c = 0; c < all; ++c) count += chunks_[c].counts[static_cast<std::size_t>(d)];
      if (k <= count) return d;
      k -= count;
    }
  }

  /// -1 if the chunk has no such key.
  std::int64_t position_of(Key found, std::int64_t c) const {
    for (std::int64_t i = begin(c); i < end(c); ++i)
      if (key(i) == found) return i;
    return -1;
  }

  const Key* x_;
  std::int64_t stride_, length_;
  Key exponent_;
  Key* keys_;
  Chunk* chunks_;
  std::int64_t chunk_;
};

/// Whether rows take less time as columns, of which a vector takes about as long as a row of digits for each byte.
bool has_columns(const Problem& p, std::int64_t rows, std::int64_t task, int threads) {
  const auto size = static_cast<std::int64_t>(size_of(p.x.type));
  const std::int64_t length = p.length();
  if (length == 1) return true;
  if (length > (size == 1 ? std::numeric_limits<std::int8_t>::max() : kMostColumnLength)) return false;
  const std::int64_t tasks = ceil_div(rows, std::clamp<std::int64_t>(task / length, 1, rows));
  const std::int64_t busy = std::min<std::int64_t>(tasks, threads);
  return ceil_div(ceil_div(rows * size, kVector), busy) * size <= ceil_div(rows, busy);
}

/// Copies n rows to columns that are `pitch` apart.
void copy_to_columns(const common::MatrixCopy& copy, const Problem& p, const Loop& rows, Cursor at, std::int64_t n,
                     const void* x, char* columns, std::int64_t pitch) {
  const auto bytes = static_cast<std::int64_t>(size_of(p.x.type));
  const std::int64_t length = p.length(), stride = p.x.strides[static_cast<std::size_t>(p.selection.dim)];
  for (std::int64_t c = 0, m; c < n; c += m, at.advance(m)) {
    m = std::min(at.run(), n - c);
    char* const from = static_cast<char*>(const_cast<void*>(x)) + at.offset(0) * bytes;
    copy({from, rows.inner().strides[0], stride}, {columns + c * bytes, 1, pitch}, m, length);
  }
}

/// Writes the results of n rows, in the order of the loop, from the positions of their k-th elements.
template <class Key>
void write_rows(const Problem& p, const Loop& rows, Cursor at, std::int64_t n, const Problem::Args& args,
                const std::int32_t* positions) {
  const std::int64_t stride = p.x.strides[static_cast<std::size_t>(p.selection.dim)];
  const auto& strides = rows.inner().strides;
  for (std::int64_t done = 0, m; done < n; done += m, at.advance(m)) {
    m = std::min(at.run(), n - done);
    const Key* const x = static_cast<const Key*>(args.x) + at.offset(0);
    Key* const y = static_cast<Key*>(args.y) + at.offset(1);
    auto* const indices = static_cast<std::uint64_t*>(args.indices) + at.offset(2);
    for (std::int64_t r = 0; r < m; ++r) {
      const std::int64_t position = positions[done + r];
      y[r * strides[1]] = x[r * strides[0] + position * stride];
      indices[r * strides[2]] = static_cast<std::uint64_t>(position);
    }
  }
}

template <class Key>
void run_columns(Stream& stream, const Problem& p, const Loop& rows, const Problem::Args& args, std::int64_t task) {
  const common::MatrixCopy copy(stream.info().isa, sizeof(Key));
  const auto select = kernels::kernels_of<kernels::KthvalueKernels>(stream.info().isa).select;
  constexpr std::int64_t kSize = sizeof(Key), kLanes = kVector / kSize;
  const std::int64_t length = p.length(), count = rows.count();
  const std::int64_t pitch = round_up(std::min({kColumnBytes / (length * kSize) + 1, kMostColumns, count}), kLanes);
  const std::int64_t part = round_up(task / length + 1, pitch);
  const auto scratch = static_cast<std::size_t>(length * pitch * kSize);
  stream.parallel_for(static_cast<std::size_t>(ceil_div(count, part)), scratch, [&](std::size_t i, void* memory) {
    const std::int64_t first = static_cast<std::int64_t>(i) * part, end = std::min(first + part, count);
    std::int32_t positions[kMostColumns] = {};
    Cursor at(rows, first);
    for (std::int64_t row = first, n; row < end; row += n) {
      n = std::min(pitch, end - row);
      if (length > 1) {
        copy_to_columns(copy, p, rows, at, n, args.x, static_cast<char*>(memory), pitch);
        select({p.x.type, memory, length, n, pitch}, p.selection.k, positions);
      }
      write_rows<Key>(p, rows, at, n, args, positions);
      at = Cursor(rows, row + n);
    }
  });
}

/// `task`: elements of a task.
template <class Key>
void run_as(Stream& stream, const Problem& p, const Loop& rows, const Problem::Args& args, std::int64_t task) {
  const auto* const x = static_cast<const Key*>(args.x);
  const std::int64_t length = p.length(), stride = p.x.strides[static_cast<std::size_t>(p.selection.dim)],
                     count = rows.count();
  if (has_columns(p, count, task, stream.threads())) return run_columns<Key>(stream, p, rows, args, task);
  const Key exponent = exponent_of<Key>(p.x.type);
  const auto write = [&](const Cursor& at, std::int64_t position) {
    static_cast<Key*>(args.y)[at.offset(1)] = x[at.offset(0) + position * stride];
    static_cast<std::uint64_t*>(args.indices)[at.offset(2)] = static_cast<std::uint64_t>(position);
  };
  if (length <= task || count >= stream.threads()) {
    const std::size_t scratch = sizeof(Chunk) + static_cast<std::size_t>(length) * sizeof(Key);
    const std::int64_t part = std::clamp<std::int64_t>(task / length, 1, count);
    stream.parallel_for(static_cast<std::size_t>(ceil_div(count, part)), scratch, [&](std::size_t i, void* memory) {
      const std::int64_t first = static_cast<std::int64_t>(i) * part, end = std::min(first + part, count);
      auto* const chunk = ::new (memory) Chunk;
      auto* const keys = reinterpret_cast<Key*>(chunk + 1);
      Cursor at(rows, first);
      for (std::int64_t row = first; row < end; ++row, at.advance(1)) {
        const Row<Key> one(x + at.offset(0), stride, length, exponent, keys, chunk, length);
        write(at, one.select(p.selection.k, [](const auto& body) { body(0); }));
      }
    });
    return;
  }
  std::vector<Key> keys(static_cast<std::size_t>(length));
  std::vector<Chunk> chunks(static_cast<std::size_t>(ceil_div(length, task)));
  Cursor at(rows, 0);
  for (std::int64_t row = 0; row < count; ++row, at.advance(1)) {
    const Row<Key> one(x + at.offset(0), stride, length, exponent, keys.data(), chunks.data(), task);
    write(at, one.select(p.selection.k, [&](const auto& body) {
      stream.parallel_for(chunks.size(), 0, [&](std::size_t c, void*) { body(static_cast<std::int64_t>(c)); });
    }));
  }
}

class CpuDigits final : public Solver<Problem> {
 public:
  using Solver::Solver;

  Verdict is_applicable(const DeviceInfo&, const Problem&) const override { return {}; }
  ErrorClass error_class(const Problem&) const override { return ErrorClass::kExact; }

  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override { return {{"task", {16384, kUsual, 262144}}}; }
  bool is_valid(const DeviceInfo&, const Problem& p, const TunePoint& t) const override {
    return t[0] == kUsual || p.x.count() > std::min(t[0], kUsual);
  }
  TunePoint default_point(const DeviceInfo&, const Problem&) const override { return {kUsual}; }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    constexpr double kOperations = 20;  // per element, not vectorised
    const double operations = kOperations * static_cast<double>(p.x.count());
    const double busy = std::clamp(static_cast<double>(p.x.count()) / t[0] / std::max(d.threads, 1), 0.05, 1.0);
    return operations / std::max(d.fp32_gflops / 16, 0.1) / busy * 1e-3 + 1;
  }

  Invoker build(Stream&, const Problem& p, const TunePoint& t) const override {
    return [p, rows = rows_of(p), task = t[0]](Stream& stream, const Args& args) {
      switch (size_of(p.x.type)) {
        case 1: return run_as<std::uint8_t>(stream, p, rows, args, task);
        case 2: return run_as<std::uint16_t>(stream, p, rows, args, task);
        case 4: return run_as<std::uint32_t>(stream, p, rows, args, task);
        default: return run_as<std::uint64_t>(stream, p, rows, args, task);
      }
    };
  }

 private:
  static constexpr int kUsual = 1 << 16;
};

}  // namespace

std::unique_ptr<const SolverBase> cpu_digits(const SolverInfo& info, Direction) {
  return std::make_unique<CpuDigits>(info);
}

}  // namespace polymio::kthvalue
