// Elements are processed in blocks. A block that is one dense run of the arithmetic's own type is computed in place,
// any other is gathered into a buffer, computed and scattered: contiguous fp32 and fp64 run at memory bandwidth, all
// other cases share one path.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstring>

#include "primitives/tensor_ops/cpu/rows.h"
#include "primitives/tensor_ops/passes.h"

namespace polymio::tensor_ops {
namespace {

constexpr std::int64_t kBlock = 512;                           // elements; all buffers of a pass fit the L1 cache
constexpr std::int64_t kLongRun = 32;                          // shortest run that is a block of its own
constexpr std::int64_t kTaskElements = std::int64_t{1} << 15;  // about 10 us: well above the overhead of a task
constexpr std::int64_t kTasksPerThread = 4;                    // balances threads of unequal speed

template <class D>
struct Scalars {
  D alpha1, alpha2, beta;
};

template <Function kFunction, class D>
D combine(D a, D b) {
  if constexpr (kFunction == Function::kAdd) return a + b;
  if constexpr (kFunction == Function::kMul) return a * b;
  if constexpr (kFunction == Function::kMin) return b < a ? b : a;
  if constexpr (kFunction == Function::kMax) return a < b ? b : a;
  return a;
}

template <class D>
using Kernel = void (*)(const Scalars<D>& s, const D* a, const D* b, const D* old, D* out, std::int64_t n);

/// The output may alias an input: a step is computed completely before it is stored, which also lets the compiler
/// vectorize it.
template <Function kFunction, bool kBeta, class D>
void compute(const Scalars<D>& s, const D* a, const D* b, const D* old, D* out, std::int64_t n) {
  constexpr bool kBinary = kFunction != Function::kFirst;
  const auto value = [&](std::int64_t i) {
    D v = s.alpha1 * a[i];
    if constexpr (kBinary) v = combine<kFunction>(v, s.alpha2 * b[i]);
    if constexpr (kBeta) v += s.beta * old[i];
    return v;
  };
  constexpr std::int64_t kStep = 16;
  std::int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    D step[kStep];
    for (std::int64_t j = 0; j < kStep; ++j) step[j] = value(i + j);
    std::memcpy(out + i, step, sizeof step);
  }
  for (; i < n; ++i) out[i] = value(i);
}

template <Function kFunction, class D>
Kernel<D> with_beta(bool beta) {
  return beta ? &compute<kFunction, true, D> : &compute<kFunction, false, D>;
}

template <class D>
Kernel<D> kernel(Function f, bool beta) {
  switch (f) {
    case Function::kAdd: return with_beta<Function::kAdd, D>(beta);
    case Function::kMul: return with_beta<Function::kMul, D>(beta);
    case Function::kMin: return with_beta<Function::kMin, D>(beta);
    case Function::kMax: return with_beta<Function::kMax, D>(beta);
    case Function::kFirst: break;
  }
  return with_beta<Function::kFirst, D>(beta);
}

template <class D>
class Pass {
 public:
  Pass(const Elementwise& p, const Loop& loop)
      : p_(p),
        loop_(loop),
        scalars_{static_cast<D>(p.alpha1), static_cast<D>(p.alpha2), static_cast<D>(p.beta)},
        kernel_(kernel<D>(p.function, p.beta != 0)),
        write_(writer<D>(p.types[0])) {
    reads_[0] = p.beta != 0;
    reads_[2] = p.function != Function::kFirst;
    for (std::size_t o = 0; o < kOperands; ++o) {
      if (reads_[o]) read_[o] = reader<D>(p.types[o]);
      in_place_[o] = is_native<D>(p.types[o]) && inner().strides[o] == 1;
    }
  }

  void run(std::int64_t begin, std::int64_t end) const {
    Buffers buffers;
    const bool direct = in_place_[0] && in_place_[1] && (in_place_[2] || !reads_[2]);
    Cursor cursor(loop_, begin);
    for (std::int64_t i = begin; i < end;) {
      const std::int64_t run = std::min(cursor.run(), end - i);
      const bool dense = run >= kLongRun;
      const std::int64_t n = !dense ? std::min(end - i, kBlock) : direct ? run : std::min(run, kBlock);
      block(cursor, n, dense, buffers);
      i += n;
    }
  }

 private:
  struct Buffers {
    alignas(64) D rows[kOperands + 1][kBlock];
    std::array<std::int64_t, kOperands> repeated{-1, -1, -1};  // offset of the element that fills the row
  };

  const Loop::Dim& inner() const { return loop_.dims[loop_.rank - 1]; }

  /// Moves the cursor over n elements, which are one run if `dense`.
  void block(Cursor& cursor, std::int64_t n, bool dense, Buffers& buffers) const {
    std::array<const D*, kOperands> in{};
    for (std::size_t o = 0; o < kOperands; ++o) {
      if (!reads_[o]) continue;
      const void* start = at(p_.data[o], p_.types[o], cursor.offset(o));
      in[o] = dense && in_place_[o] ? static_cast<const D*>(start) : gather(o, cursor, n, dense, buffers);
    }
    if (dense && in_place_[0]) {
      kernel_(scalars_, in[1], in[2], in[0], static_cast<D*>(at(p_.out, p_.types[0], cursor.offset(0))), n);
      cursor.advance(n);
      return;
    }
    D* result = buffers.rows[kOperands];
    kernel_(scalars_, in[1], in[2], in[0], result, n);
    for (std::int64_t done = 0; done < n;) {
      const std::int64_t m = std::min(cursor.run(), n - done);
      write_(result + done, m, at(p_.out, p_.types[0], cursor.offset(0)), inner().strides[0]);
      cursor.advance(m);
      done += m;
    }
  }

  const D* gather(std::size_t o, Cursor cursor, std::int64_t n, bool dense, Buffers& buffers) const {
    D* buffer = buffers.rows[o];
    const bool repeats = dense && inner().strides[o] == 0;
    if (repeats && buffers.repeated[o] == cursor.offset(o)) return buffer;
    buffers.repeated[o] = repeats ? cursor.offset(o) : -1;
    if (repeats) {
      read_[o](at(p_.data[o], p_.types[o], cursor.offset(o)), 0, kBlock, buffer);
      return buffer;
    }
    for (std::int64_t done = 0; done < n;) {
      const std::int64_t m = std::min(cursor.run(), n - done);
      read_[o](at(p_.data[o], p_.types[o], cursor.offset(o)), inner().strides[o], m, buffer + done);
      cursor.advance(m);
      done += m;
    }
    return buffer;
  }

  const Elementwise& p_;
  const Loop& loop_;
  Scalars<D> scalars_;
  Kernel<D> kernel_;
  WriteRow<D> write_;
  std::array<ReadRow<D>, kOperands> read_{};
  std::array<bool, kOperands> reads_{false, true, false}, in_place_{};
};

/// Calls body(begin, end) for parts of the loop on all threads, on one thread if outputs may share memory.
template <class Body>
void split(Stream& stream, const Loop& loop, Body body) {
  const std::int64_t count = loop.count();
  const std::int64_t most = loop.separate ? kTasksPerThread * stream.threads() : 1;
  const std::int64_t tasks = std::clamp<std::int64_t>(count / kTaskElements, 1, most);
  const std::int64_t part = ((count + tasks - 1) / tasks + kBlock - 1) / kBlock * kBlock;
  stream.parallel_for(static_cast<std::size_t>((count + part - 1) / part), 0, [&](std::size_t i, void*) {
    const std::int64_t begin = static_cast<std::int64_t>(i) * part;
    body(begin, std::min(begin + part, count));
  });
}

template <class D>
void run_in(Stream& stream, const Elementwise& p) {
  const Tiles tiles(p.loop);
  for (std::size_t i = 0; i < tiles.count; ++i) {
    const Pass<D> pass(p, tiles.loops[i]);
    split(stream, tiles.loops[i], [&](std::int64_t begin, std::int64_t end) { pass.run(begin, end); });
  }
}

template <class T>
void copy_row(const T* src, std::int64_t from, T* dst, std::int64_t to, std::int64_t n) {
  if (from == 1 && to == 1) {
    std::memmove(dst, src, static_cast<std::size_t>(n) * sizeof(T));
  } else if (from == 0 && to == 1) {
    std::fill_n(dst, n, *src);
  } else {
    for (std::int64_t i = 0; i < n; ++i) dst[i * to] = src[i * from];
  }
}

template <class T>
void copy_elements(Stream& stream, const Loop& loop, const T* src, T* dst) {
  const auto& strides = loop.dims[loop.rank - 1].strides;
  split(stream, loop, [&](std::int64_t begin, std::int64_t end) {
    Cursor cursor(loop, begin);
    for (std::int64_t i = begin; i < end;) {
      const std::int64_t n = std::min(cursor.run(), end - i);
      copy_row(src + cursor.offset(1), strides[1], dst + cursor.offset(0), strides[0], n);
      cursor.advance(n);
      i += n;
    }
  });
}

template <class T>
void copy_as(Stream& stream, const Loop& loop, const void* src, void* dst) {
  const Tiles tiles(loop);
  for (std::size_t i = 0; i < tiles.count; ++i)
    copy_elements(stream, tiles.loops[i], static_cast<const T*>(src), static_cast<T*>(dst));
}

/// Dispatches on the arithmetic.
void run_elementwise(Stream& stream, const Elementwise& p) {
  const std::span<const DataType> types(p.types.data(), p.function == Function::kFirst ? 2 : 3);
  const double scalars[] = {p.alpha1, p.alpha2, p.beta};
  if (needs_exact(types, scalars))
    run_in<Wide>(stream, p);
  else if (needs_double(types))
    run_in<double>(stream, p);
  else
    run_in<float>(stream, p);
}

void run_copy(Stream& stream, const Loop& loop, std::size_t size, const void* src, void* dst) {
  switch (size) {
    case 1: return copy_as<std::uint8_t>(stream, loop, src, dst);
    case 2: return copy_as<std::uint16_t>(stream, loop, src, dst);
    case 4: return copy_as<std::uint32_t>(stream, loop, src, dst);
    default: return copy_as<std::uint64_t>(stream, loop, src, dst);
  }
}

}  // namespace

const Passes kCpuPasses = {run_elementwise, run_copy, run_copy, run_bias_backward};

}  // namespace polymio::tensor_ops
