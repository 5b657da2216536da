// SPDX-License-Identifier: MIT
#include "tests/kernels/gpu/multiprocessor.h"

#include <fmt/format.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <memory>
#include <stdexcept>
#include <vector>

#include "base/dtype.h"

ThreadIndex threadIdx, blockIdx, gridDim;
namespace sm90 {
alignas(1024) unsigned char bytes[kMostSharedBytes];
}

namespace polymio::emulated {
namespace {

constexpr std::uint32_t kSharedBase = 1024;
constexpr unsigned kWarp = 32, kWarpgroup = 128;
constexpr int kRows = 64, kMostDepth = 32;  // of a product

template <class... T>
void require(bool condition, fmt::format_string<T...> text, T&&... values) {
  if (!condition) throw std::runtime_error(fmt::format(text, std::forward<T>(values)...));
}

/// Switches of stacks without system calls.
using Registers = void* [5];

struct Thread {
  unsigned index = 0;
  bool done = true;
  FunctionRef<bool()>* condition = nullptr;  // that it waits for
  Registers registers;
  bool has_registers = false;
  std::unique_ptr<char[]> stack;
  ucontext_t start;
};

/// Threads that wait for each other.
struct Group {
  int arrived = 0;
  unsigned generation = 0;
};

struct Warp {
  Group group;
  std::uint32_t values[2][kWarp];
};

struct Warpgroup {
  Group group;
  std::uint64_t a = 0, b = 0;                 // descriptors
  alignas(16) float rows[kRows][kMostDepth];  // the first operand in registers
  std::vector<float> sums;
};

struct Block {
  std::uint32_t rank = 0;
  std::vector<std::unique_ptr<Thread>> threads;
  std::vector<Warp> warps;
  std::vector<Warpgroup> warpgroups;
  std::array<Group, 16> barriers{};
  std::vector<unsigned char> shared;  // while another block of the cluster runs
};

struct Machine {
  Launch shape;
  Product product;
  std::span<const Extent> memory;
  FunctionRef<void()>* code = nullptr;
  std::vector<Block> blocks;  // of a cluster
  Group cluster;
  Block* block = nullptr;  // that runs
  Thread* thread = nullptr;
  Registers scheduler;
  std::uint64_t progress = 0;
  std::exception_ptr error;
};
Machine machine;

[[noreturn, gnu::noinline]] void jump(Registers& to) { __builtin_longjmp(to, 1); }
[[gnu::noinline]] void switch_stack(Registers& from, Registers& to) {
  if (__builtin_setjmp(from) == 0) jump(to);
}
[[gnu::noinline]] void start_stack(Registers& from, const ucontext_t& to) {
  if (__builtin_setjmp(from) == 0) setcontext(&to);
}

/// What the stack of a thread runs: the thread of one block after the other.
void run_threads() {
  while (true) {
    Thread& self = *machine.thread;
    try {
      (*machine.code)();
    } catch (...) {
      machine.error = std::current_exception();
    }
    self.done = true;
    note_progress();
    switch_stack(self.registers, machine.scheduler);
  }
}

void resume(Thread& t) {
  machine.thread = &t;
  threadIdx.x = t.index;
  if (t.has_registers) {
    switch_stack(machine.scheduler, t.registers);
    return;
  }
  constexpr std::size_t kStack = 128 << 10;
  t.stack.reset(new char[kStack]);
  getcontext(&t.start);
  t.start.uc_stack.ss_sp = t.stack.get();
  t.start.uc_stack.ss_size = kStack;
  t.start.uc_link = nullptr;
  makecontext(&t.start, run_threads, 0);
  t.has_registers = true;
  start_stack(machine.scheduler, t.start);
}

/// Until no thread of the block can go on; whether all are done.
bool run_block(Block& block) {
  machine.block = &block;
  if (machine.blocks.size() > 1) std::copy(block.shared.begin(), block.shared.end(), sm90::bytes);
  bool done = false;
  for (std::uint64_t before = machine.progress - 1; before != machine.progress && !done;) {
    before = machine.progress;
    done = true;
    for (const auto& t : block.threads) {
      if (t->done || (t->condition && !(*t->condition)())) {
        done = done && t->done;
        continue;
      }
      t->condition = nullptr;
      resume(*t);
      if (machine.error) std::rethrow_exception(machine.error);
      done = done && t->done;
    }
  }
  if (machine.blocks.size() > 1) block.shared.assign(std::begin(sm90::bytes), std::end(sm90::bytes));
  return done;
}

void run_cluster(unsigned first) {
  machine.cluster = {};
  for (Block& block : machine.blocks) {
    block.barriers = {};
    block.warps.assign(machine.shape.threads[0] / kWarp, {});
    block.warpgroups.assign(machine.shape.threads[0] / kWarpgroup, {});
    for (const auto& t : block.threads) t->done = false;
    if (machine.blocks.size() > 1) block.shared.assign(sm90::kMostSharedBytes, 0xff);
  }
  std::fill(std::begin(sm90::bytes), std::end(sm90::bytes), 0xff);  // NaN
  for (bool done = false; !done;) {
    const std::uint64_t before = machine.progress;
    done = true;
    for (Block& block : machine.blocks) {
      blockIdx.x = first + block.rank;
      done = run_block(block) && done;
    }
    require(done || machine.progress != before, "all threads of block {} wait", first);
  }
}

void join(Group& group, int threads, FunctionRef<void()> last) {
  const unsigned now = group.generation;
  if (++group.arrived < threads) {
    wait_until([&] { return group.generation != now; });
    return;
  }
  last();
  group.arrived = 0;
  ++group.generation;
  note_progress();
}
void join(Group& group, int threads) {
  join(group, threads, [] {});
}

/// Elements of 32 bytes.
int depth_of_product() { return 32 / static_cast<int>(size_of(machine.product.a)); }

/// The numbers of all codes of a type of 8 or 16 bits.
const float* numbers_of(DataType t) {
  if (t == DataType::kFloat) return nullptr;
  static std::map<DataType, std::vector<float>> tables;
  std::vector<float>& table = tables[t];
  for (std::uint32_t bits = static_cast<std::uint32_t>(table.size()); bits < 1u << 8 * size_of(t); ++bits)
    table.push_back(static_cast<float>(dtype::load(t, &bits, 0)));
  return table.data();
}

/// A piece of 16 bytes, of fp32 without `numbers`.
void read_piece(float* to, std::int64_t step, std::uint32_t address, int size, const float* numbers) {
  if (numbers == nullptr) {
    const float4 v = read_shared<float4>(address);
    const float values[] = {v.x, v.y, v.z, v.w};
    for (int i = 0; i < 4; ++i) to[i * step] = values[i];
    return;
  }
  unsigned char piece[16];
  std::memcpy(piece, at_shared(address, sizeof piece), sizeof piece);
  if (size == 1) {
    for (int i = 0; i < 16; ++i) to[i * step] = numbers[piece[i]];
    return;
  }
  for (int i = 0; i < 8; ++i) to[i * step] = numbers[piece[2 * i] | piece[2 * i + 1] << 8];
}

std::uint32_t swizzled(std::uint32_t address, int bytes) {
  const std::uint32_t pieces = static_cast<std::uint32_t>(bytes) / 16;
  return pieces < 2 ? address : address ^ ((address >> 7 & (pieces - 1)) << 4);
}

/// An operand of `size` rows of a or columns of b: to[i * step + k * depth_step].
void read_operand(float* to, std::int64_t step, std::int64_t depth_step, std::uint64_t descriptor, int size,
                  DataType type, bool transposed) {
  const auto field = [&](int bit) { return static_cast<std::uint32_t>(descriptor >> bit & 0x3fff) << 4; };
  const std::uint32_t start = field(0), box = field(16), eight = field(32);
  const int swizzle = descriptor >> 62 == 2 ? 64 : 128;
  require((swizzle == 64 ? !transposed : descriptor >> 62 == 1) && (descriptor >> 49 & 7) == 0,
          "operand {:#x}: only a swizzle of 128 bytes, or of 64 if it is not transposed, is emulated", descriptor);
  const auto rest = [&](int i) { return static_cast<std::uint32_t>(i % 8 * swizzle); };
  const auto group = [](int i) { return static_cast<std::uint32_t>(i / 8); };
  const int depth = depth_of_product(), piece = depth / 2, bytes = static_cast<int>(size_of(type));
  const float* const numbers = numbers_of(type);
  if (transposed) {
    require(bytes == 2, "a transposed operand of {}", name_of(type));
    for (int i = 0; i < size; i += 8)
      for (int k = 0; k < depth; ++k) {
        const std::uint32_t at = group(i) % 8 * 16 + group(i) / 8 * box + rest(k) + group(k) * eight;
        read_piece(to + i * step + k * depth_step, step, swizzled(start + at, swizzle), bytes, numbers);
      }
  } else {
    for (int i = 0; i < size; ++i)
      for (int k = 0; k < depth; k += piece)
        read_piece(to + i * step + k * depth_step, depth_step,
                   swizzled(start + rest(i) + group(i) * eight + static_cast<std::uint32_t>(k / piece) * 16, swizzle),
                   bytes, numbers);
  }
}

/// The product of a warpgroup. Finite numbers times zero need no time.
void multiply_rows(Warpgroup& w, const float (&a)[kRows][kMostDepth], int columns, bool transpose_b) {
  using Floats [[gnu::vector_size(16), gnu::may_alias]] = float;
  constexpr int kMost = 256;
  const Product& p = machine.product;
  alignas(16) static float b[kMostDepth][kMost];
  read_operand(b[0], 1, kMost, w.b, columns, p.b, transpose_b);
  w.sums.assign(static_cast<std::size_t>(kRows * columns), 0);
  const int quads = columns / 4;
  for (int k = 0; k < depth_of_product(); ++k) {
    const auto begin = b[k], end = begin + columns;
    const bool finite = std::all_of(begin, end, [](float v) { return std::isfinite(v); }),
               zero = std::all_of(begin, end, [](float v) { return v == 0; });
    for (int i = 0; i < kRows; ++i) {
      const float v = a[i][k];
      if ((v == 0 && finite) || (zero && std::isfinite(v))) continue;
      auto* const sums = reinterpret_cast<Floats*>(w.sums.data() + i * columns);
      const auto* const row = reinterpret_cast<const Floats*>(b[k]);
      for (int j = 0; j < quads; ++j) sums[j] += v * row[j];
    }
  }
}

/// With both operands in shared memory.
void multiply_operands(Warpgroup& w) {
  const Product& p = machine.product;
  alignas(16) static float a[kRows][kMostDepth];
  read_operand(a[0], kMostDepth, 1, w.a, kRows, p.a, p.transpose_a);
  multiply_rows(w, a, p.columns, p.transpose_b);
}

/// This thread's part of the product.
void take_sums(std::span<float> d, const Warpgroup& w, bool accumulate) {
  const unsigned warp = threadIdx.x % kWarpgroup / kWarp, lane = threadIdx.x % kWarp;
  for (unsigned h = 0; h < 2; ++h) {
    const float* const row = w.sums.data() + (16 * warp + lane / 4 + 8 * h) * 2 * d.size();
    for (std::size_t j = 0; j < d.size() / 4; ++j)
      for (unsigned e = 0; e < 2; ++e) {
        float& sum = d[4 * j + 2 * h + e];
        sum = row[8 * j + 2 * (lane % 4) + e] + (accumulate ? sum : 0);
      }
  }
}

const TensorMapSpec& spec_of(const TensorMap& map) {
  const TensorMapSpec* spec;
  std::memcpy(&spec, &map.bits[0], sizeof spec);
  return *spec;
}

int element_bytes(const TensorMapSpec& s) {
  using enum TensorMapSpec::Element;
  return s.element == kBytes ? 1 : s.element == kFloat16 || s.element == kBfloat16 ? 2 : 4;
}

/// A row of a box, of the channels from `channel` on. `coordinate` is that of the other dimensions.
struct Row {
  std::uint32_t shared;
  int number, channel;
  const std::int64_t* coordinate;
};

/// Copies a row of a box; outside of the tensor loads are zero and stores do nothing.
void copy_row(const TensorMap& map, const Row& row, bool store) {
  const TensorMapSpec& s = spec_of(map);
  constexpr int kPiece = 16;
  const int size = element_bytes(s);
  bool inside = true;
  std::int64_t at = row.channel * size;
  for (int i = 1; i < s.rank; ++i) {
    const auto d = static_cast<std::size_t>(i);
    inside = inside && row.coordinate[i] >= 0 && row.coordinate[i] < s.sizes[d];
    at += row.coordinate[i] * s.strides[d];
  }
  const int pitch = s.box[0] * size;
  for (int i = 0; i < pitch; i += kPiece) {
    const auto place = row.shared + static_cast<std::uint32_t>(row.number * pitch + i);
    unsigned char* const here = at_shared(swizzled(place, s.swizzle), kPiece);
    const std::int64_t left = inside ? (s.sizes[0] - row.channel) * size - i : 0;
    const auto bytes = static_cast<std::size_t>(std::clamp<std::int64_t>(left, 0, kPiece));
    if (!store) std::fill(here + bytes, here + kPiece, 0);
    if (bytes == 0) continue;
    auto* const there = reinterpret_cast<unsigned char*>(map.bits[1]) + at + i;
    const bool known = std::any_of(machine.memory.begin(), machine.memory.end(), [&](const Extent& e) {
      const auto* const begin = static_cast<const unsigned char*>(e.begin);
      return begin <= there && there + bytes <= begin + e.bytes;
    });
    require(known, "a tensor map reaches beyond its tensor");
    if (store)
      std::memcpy(there, here, bytes);
    else
      std::memcpy(here, there, bytes);
  }
}

std::uint32_t copy_pixels(const TensorMap& map, std::uint32_t shared, const Coordinates& first,
                          std::span<const int> offset, bool store) {
  const TensorMapSpec& s = spec_of(map);
  const int spatial = s.rank - 2;
  require(s.im2col && (store || offset.size() == static_cast<std::size_t>(spatial)), "a map of another kind");
  std::int64_t at[5], low[5], high[5];
  for (int i = 1; i <= spatial; ++i) {
    const auto d = static_cast<std::size_t>(i);
    const int shift = store ? 0 : offset[d - 1], most = spatial == 1 ? 65535 : spatial == 2 ? 255 : 31;
    require(shift >= 0 && shift <= most, "an offset of {}, at most {}", shift, most);
    at[i] = first[d] + shift;
    low[i] = s.lower[d - 1] + shift;
    high[i] = s.sizes[d] - 1 + s.upper[d - 1] + shift;
  }
  at[spatial + 1] = first[static_cast<std::size_t>(spatial) + 1];
  for (int pixel = 0; pixel < s.box[1]; ++pixel) {
    copy_row(map, {shared, pixel, first[0], at}, store);
    int i = 1;
    for (; i <= spatial; ++i) {
      at[i] += s.steps[static_cast<std::size_t>(i)];
      if (at[i] <= high[i]) break;
      at[i] = low[i];
    }
    if (i > spatial) ++at[i];
  }
  return static_cast<std::uint32_t>(s.box[0] * s.box[1] * element_bytes(s));
}

std::uint32_t copy_box(const TensorMap& map, std::uint32_t shared, int rank, const Coordinates& first, bool store) {
  const TensorMapSpec& s = spec_of(map);
  require(!s.im2col && s.rank == rank, "a map of another kind");
  const auto count = [&](std::size_t d) { return (s.box[d] + s.steps[d] - 1) / s.steps[d]; };
  int rows = 1;
  for (int i = 1; i < rank; ++i) rows *= count(static_cast<std::size_t>(i));
  for (int row = 0; row < rows; ++row) {
    std::int64_t at[5];
    int rest = row;
    for (int i = 1; i < rank; ++i) {
      const auto d = static_cast<std::size_t>(i);
      at[i] = first[d] + rest % count(d) * s.steps[d];
      rest /= count(d);
    }
    copy_row(map, {shared, row, first[0], at}, store);
  }
  return static_cast<std::uint32_t>(rows * s.box[0] * element_bytes(s));
}

}  // namespace

void run_blocks(const Launch& shape, const Product& product, std::span<const Extent> memory,
                FunctionRef<void()> thread) {
  require(shape.shared_bytes <= sm90::kMostSharedBytes, "{} bytes of shared memory", shape.shared_bytes);
  require(shape.blocks[0] % shape.cluster == 0, "{} blocks in clusters of {}", shape.blocks[0], shape.cluster);
  machine.shape = shape;
  machine.product = product;
  machine.memory = memory;
  machine.code = &thread;
  machine.blocks.resize(shape.cluster);
  for (std::uint32_t rank = 0; rank < shape.cluster; ++rank) {
    machine.blocks[rank].rank = rank;
    machine.blocks[rank].threads.resize(shape.threads[0]);
    for (unsigned i = 0; i < shape.threads[0]; ++i) {
      auto& t = machine.blocks[rank].threads[i];
      if (!t) t = std::make_unique<Thread>();
      t->index = i;
    }
  }
  gridDim.x = shape.blocks[0];
  try {
    for (unsigned first = 0; first < shape.blocks[0]; first += shape.cluster) run_cluster(first);
  } catch (...) {
    machine.blocks.clear();  // threads have stopped in between
    machine.error = nullptr;
    throw;
  }
}

TensorMap tensor_map(const TensorMapSpec& s, const void* tensor) {
  const auto address = reinterpret_cast<std::uintptr_t>(tensor);
  require(address % 16 == 0, "a tensor that is not aligned to 16 bytes");
  require(s.rank >= (s.im2col ? 3 : 1) && s.rank <= 5, "rank {}", s.rank);
  require(s.box[0] * element_bytes(s) <= s.swizzle, "a box of {} channels, swizzled by {} bytes", s.box[0], s.swizzle);
  for (int i = 0; i < s.rank; ++i) {
    const auto d = static_cast<std::size_t>(i);
    require(s.sizes[d] > 0, "size {} of dimension {}", s.sizes[d], i);
    require(i == 0 || (s.strides[d] > 0 && s.strides[d] % 16 == 0), "stride {} of dimension {}", s.strides[d], i);
    require(s.steps[d] >= 1 && s.steps[d] <= 8, "step {} of dimension {}", s.steps[d], i);
    const int most = s.im2col && i == 1 ? 1024 : 256, corner = s.rank == 3 ? 32768 : s.rank == 4 ? 128 : 16;
    require((s.im2col && i > 1) || (s.box[d] >= 1 && s.box[d] <= most), "a box of {} in dimension {}", s.box[d], i);
    if (!s.im2col || i == 0 || i > s.rank - 2) continue;
    for (const int c : {s.lower[d - 1], s.upper[d - 1]})
      require(c >= -corner && c < corner, "corner {} of dimension {}", c, i);
  }
  TensorMap map;
  const TensorMapSpec* const spec = &s;
  std::memcpy(&map.bits[0], &spec, sizeof spec);
  map.bits[1] = address;
  return map;
}

void wait_until(FunctionRef<bool()> condition) {
  if (condition()) return;
  machine.thread->condition = &condition;
  switch_stack(machine.thread->registers, machine.scheduler);
}
void note_progress() { ++machine.progress; }

void meet(int number, int threads) {
  join(machine.block->barriers[static_cast<std::size_t>(number)],
       number == 0 ? static_cast<int>(machine.shape.threads[0]) : threads);
}
void signal(int number, int threads) {
  Group& group = machine.block->barriers[static_cast<std::size_t>(number)];
  if (++group.arrived < threads) return;
  group.arrived = 0;
  ++group.generation;
  note_progress();
}

std::span<const std::uint32_t, kWarp> exchange(std::uint32_t value) {
  Warp& warp = machine.block->warps[threadIdx.x / kWarp];
  auto& values = warp.values[warp.group.generation % 2];
  values[threadIdx.x % kWarp] = value;
  join(warp.group, kWarp);
  return values;
}

std::uint32_t cluster_rank() { return machine.block->rank; }
void meet_cluster() { join(machine.cluster, static_cast<int>(machine.shape.cluster * machine.shape.threads[0])); }

std::uint32_t shared_address(const void* p) {
  return kSharedBase + static_cast<std::uint32_t>(static_cast<const unsigned char*>(p) - sm90::bytes);
}
unsigned char* at_shared(std::uint32_t address, std::size_t bytes) {
  require(address >= kSharedBase && address - kSharedBase + bytes <= machine.shape.shared_bytes,
          "{} bytes at {} of {} of shared memory", bytes, static_cast<std::int64_t>(address) - kSharedBase,
          machine.shape.shared_bytes);
  return sm90::bytes + (address - kSharedBase);
}
const unsigned char* at_shared_of(std::uint32_t address, std::size_t bytes, std::uint32_t rank) {
  unsigned char* const here = at_shared(address, bytes);
  require(rank < machine.blocks.size(), "block {} of a cluster of {}", rank, machine.blocks.size());
  return rank == machine.block->rank ? here : machine.blocks[rank].shared.data() + (here - sm90::bytes);
}

std::uint32_t load_pixels(std::uint32_t shared, const TensorMap& map, const Coordinates& first,
                          std::span<const int> offset) {
  return copy_pixels(map, shared, first, offset, false);
}
void store_pixels(const TensorMap& map, std::uint32_t shared, const Coordinates& first) {
  copy_pixels(map, shared, first, {}, true);
}
std::uint32_t load_box(std::uint32_t shared, const TensorMap& map, int rank, const Coordinates& first) {
  return copy_box(map, shared, rank, first, false);
}
void store_box(const TensorMap& map, std::uint32_t shared, int rank, const Coordinates& first) {
  copy_box(map, shared, rank, first, true);
}

void load_bulk(std::uint32_t shared, const void* global, std::uint32_t bytes) {
  require(shared % 16 == 0 && reinterpret_cast<std::uintptr_t>(global) % 16 == 0 && bytes % 16 == 0,
          "a copy of {} bytes that is not aligned", bytes);
  std::memcpy(at_shared(shared, bytes), global, bytes);
}

void multiply(std::span<float> d, std::uint64_t a, std::uint64_t b, bool accumulate) {
  Warpgroup& w = machine.block->warpgroups[threadIdx.x / kWarpgroup];
  const int columns = machine.product.columns;
  require(static_cast<int>(d.size()) * 2 == columns, "sums of {} columns of {}", d.size() * 2, columns);
  if (w.group.arrived == 0) {
    w.a = a;
    w.b = b;
  }
  require(w.a == a && w.b == b, "threads of a warpgroup multiply different operands");
  join(w.group, kWarpgroup, [&] { multiply_operands(w); });
  take_sums(d, w, accumulate);
}

void multiply(std::span<float> d, const std::uint32_t (&a)[4], std::uint64_t b, bool accumulate) {
  Warpgroup& w = machine.block->warpgroups[threadIdx.x / kWarpgroup];
  if (w.group.arrived == 0) w.b = b;
  require(w.b == b, "threads of a warpgroup multiply different operands");
  const unsigned warp = threadIdx.x % kWarpgroup / kWarp, lane = threadIdx.x % kWarp;
  for (unsigned i = 0; i < 4; ++i)  // 8x8 matrices: top left, bottom left, top right, bottom right
    for (unsigned e = 0; e < 2; ++e)
      w.rows[16 * warp + lane / 4 + 8 * (i % 2)][2 * (lane % 4) + e + 8 * (i / 2)] =
          numbers_of(machine.product.a)[a[i] >> 16 * e & 0xffff];
  join(w.group, kWarpgroup, [&] { multiply_rows(w, w.rows, static_cast<int>(2 * d.size()), true); });
  take_sums(d, w, accumulate);
}

void store_matrices(std::uint32_t shared, const std::uint32_t (&m)[4], bool transposed) {
  const unsigned lane = threadIdx.x % kWarp;
  const auto rows = exchange(shared);
  for (unsigned i = 0; i < 4; ++i)
    for (unsigned e = 0; e < 2; ++e) {
      const unsigned pair = 2 * (lane % 4) + e, row = transposed ? pair : lane / 4,
                     column = transposed ? lane / 4 : pair;
      const auto bits = static_cast<std::uint16_t>(m[i] >> 16 * e);
      std::memcpy(at_shared(rows[8 * i + row] + column * 2, sizeof bits), &bits, sizeof bits);
    }
}

}  // namespace polymio::emulated
