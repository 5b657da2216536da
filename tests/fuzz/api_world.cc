// The objects, arguments and checks of the API fuzzer.
// SPDX-License-Identifier: MIT
#include <numeric>

#include "fuzz/api.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace polymio::fuzz {
namespace {

/// Whether the text is printable.
bool is_printable(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return c == '\n' || c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
  });
}

std::string names(const Statuses& statuses) {
  std::string text;
  for (const Status s : statuses) text += (text.empty() ? "" : " or ") + std::string(miopenGetErrorString(s));
  return text;
}

bool contains(const Statuses& list, Status s) { return std::find(list.begin(), list.end(), s) != list.end(); }

}  // namespace

std::vector<Entry*>& entries() {
  static std::vector<Entry*> all;
  return all;
}

Wide TensorModel::bytes() const {
  constexpr auto kBeyond = static_cast<Wide>(1) << 100;
  Wide last = vector;
  for (std::size_t i = 0; i < lens.size(); ++i)
    last = std::min(kBeyond, last + static_cast<Wide>(lens[i] - 1) * strides[i]);
  return last * static_cast<Wide>(ref::size_of(static_cast<ref::Type>(type)));
}

World::World(Random& r, const Limits& l) : random(r), limits(l) {}

void World::finish() {
  entry = nullptr;
  const auto end = [&](Kind kind, auto destroy) {
    for (void* p : live_[index(kind)])
      if (destroy(p) != kOk) report(std::string("an object that lives cannot be destroyed: ") + polymioGetLastError());
    live_[index(kind)].clear();
  };
  end(Kind::kPacked, [](void* p) { return polymioDestroyPackedWeights(static_cast<polymioPackedWeights_t>(p)); });
  end(Kind::kSolution, [](void* p) { return miopenDestroySolution(static_cast<miopenSolution_t>(p)); });
  end(Kind::kProblem, [](void* p) { return miopenDestroyProblem(static_cast<miopenProblem_t>(p)); });
  end(Kind::kOptions, [](void* p) { return miopenDestroyFindOptions(static_cast<miopenFindOptions_t>(p)); });
  end(Kind::kActivation,
      [](void* p) { return miopenDestroyActivationDescriptor(static_cast<miopenActivationDescriptor_t>(p)); });
  end(Kind::kConvolution,
      [](void* p) { return miopenDestroyConvolutionDescriptor(static_cast<miopenConvolutionDescriptor_t>(p)); });
  end(Kind::kSequence,
      [](void* p) { return miopenDestroySeqTensorDescriptor(static_cast<miopenSeqTensorDescriptor_t>(p)); });
  end(Kind::kTensor, [](void* p) { return miopenDestroyTensorDescriptor(static_cast<miopenTensorDescriptor_t>(p)); });
  end(Kind::kHandle, [](void* p) { return miopenDestroy(static_cast<miopenHandle_t>(p)); });
}

void* World::live(Kind kind) {
  auto& list = live_[index(kind)];
  if (!list.empty()) return random.pick(list);
  const auto make = [&](auto object, auto create) -> void* {
    if (create(&object) != kOk) report(std::string("an object cannot be created: ") + polymioGetLastError());
    created(kind, object);
    return object;
  };
  switch (kind) {
    case Kind::kHandle: return make(miopenHandle_t{}, miopenCreate);
    case Kind::kTensor: return make(miopenTensorDescriptor_t{}, miopenCreateTensorDescriptor);
    case Kind::kSequence: return make(miopenSeqTensorDescriptor_t{}, miopenCreateSeqTensorDescriptor);
    case Kind::kConvolution: return make(miopenConvolutionDescriptor_t{}, miopenCreateConvolutionDescriptor);
    case Kind::kActivation: return make(miopenActivationDescriptor_t{}, miopenCreateActivationDescriptor);
    case Kind::kOptions: return make(miopenFindOptions_t{}, miopenCreateFindOptions);
    case Kind::kProblem:
      return make(miopenProblem_t{},
                  [](miopenProblem_t* p) { return miopenCreateBiasProblem(p, miopenProblemDirectionForward); });
    default: return nullptr;  // the caller makes solutions and packed weights
  }
}

void World::created(Kind kind, void* object) {
  live_[index(kind)].push_back(object);
  use(kind, object);
  if (kind == Kind::kTensor) tensors[object] = {};
  if (kind == Kind::kConvolution) convolutions[object] = {};
  if (kind == Kind::kActivation) activations[object] = {};
}

void World::destroyed(Kind kind, void* object) {
  std::erase(live_[index(kind)], object);
  if (limits.alone) dead_[index(kind)].push_back(object);
  tensors.erase(object);
  convolutions.erase(object);
  activations.erase(object);
}

void* World::no_object(Kind kind) {
  switch (random.below(5)) {
    case 0: return nullptr;
    case 1: return memory_.data() + random.below(3) * 8;
    case 2: return memory_.data() + 1 + random.below(7);
    case 3:
      if (!dead_[index(kind)].empty()) return random.pick(dead_[index(kind)]);
      [[fallthrough]];
    default: {
      const auto other = static_cast<Kind>((index(kind) + 1 + random.below(kKinds - 1)) % kKinds);
      const auto& list = random.one_in(4) ? dead_[index(other)] : live_[index(other)];
      return list.empty() ? nullptr : random.pick(list);
    }
  }
}

void World::report(const std::string& text) {
  failed_ = true;
  std::printf("%s: %s\n", entry ? entry->name : "end", text.c_str());
}

Draw::Draw(World& w) : world_(w), dirty_(!w.random.one_in(2)), rate_(w.random.pick({2, 4, 8})) {
  if (!w.random.one_in(4)) return;
  const char* name = nullptr;
  polymioGetSolutionName(w.random.bits() | 1ull << 63, &name);
  primed_ = polymioGetLastError();
}

bool Draw::check(Status got, const std::string& what) {
  world_.entry->calls++;
  const std::string text = polymioGetLastError();
  if (got == kOk) world_.entry->accepted++;
  if (got != kOk && (!is_printable(text) || text == primed_))
    world_.report(what + ": " + miopenGetErrorString(got) + " without a text of its own: '" + text + "'");
  bool right = refusals_.empty() ? got == kOk : false;
  for (const Statuses& s : refusals_) right = right || contains(s, got);
  if (right || contains(allowed_, got)) return got == kOk;
  std::string wanted = refusals_.empty() ? names({kOk}) : "";
  for (const Statuses& s : refusals_) wanted += (wanted.empty() ? "" : " or ") + names(s);
  world_.report(what + ": " + miopenGetErrorString(got) + ", should be " + wanted + (got == kOk ? "" : ": " + text));
  return got == kOk && refusals_.empty();
}

Buffer::Buffer(World& w, std::size_t bytes, std::size_t alignment)
    : world_(w), begin_(kGuard), bytes_(bytes), memory_(bytes + 2 * kGuard + 128, kGuardValue) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
  begin_ += (64 - address % 64) % 64;
  const std::uint64_t offset = w.random.below(64);
  begin_ += offset / alignment * alignment;
#if defined(__SANITIZE_ADDRESS__)
  __asan_poison_memory_region(data() + bytes_, memory_.size() - begin_ - bytes_);
  __asan_poison_memory_region(memory_.data(), begin_);
#endif
}

Buffer::~Buffer() {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(memory_.data(), memory_.size());
#endif
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    if ((i >= begin_ && i < begin_ + bytes_) || memory_[i] == kGuardValue) continue;
    world_.report("wrote " + std::to_string(static_cast<long>(i) - static_cast<long>(begin_)) +
                  " bytes from the beginning of a buffer of " + std::to_string(bytes_));
    break;
  }
}

Operand::Operand(World& w, const TensorModel& m)
    : world(w),
      model(m),
      plain(m.plain()),
      // Data may be at any address.
      buffer(w, static_cast<std::size_t>(m.bytes()),
             w.random.one_in(4) ? 1 : ref::size_of(static_cast<ref::Type>(m.type))) {
  if (miopenCreateTensorDescriptor(&desc) != kOk || describe(w, desc, m) != kOk)
    w.report(std::string("a tensor cannot be described: ") + polymioGetLastError());
  w.use(Kind::kTensor, desc);
}

Operand::~Operand() {
  miopenDestroyTensorDescriptor(desc);
  world.destroyed(Kind::kTensor, desc);
}

void Operand::fill(int least, int most) {
  for (std::int64_t i = 0; i < plain.count(); ++i)
    ref::store(plain.type, data(), plain.offset(i), static_cast<double>(world.random.between(least, most)));
}

std::vector<std::int64_t> packed_strides(const std::vector<std::int64_t>& lens) {
  std::vector<std::int64_t> strides(lens.size());
  std::uint64_t step = 1;  // wraps for sizes that no tensor may have
  for (std::size_t d = lens.size(); d-- > 0; step *= static_cast<std::uint64_t>(lens[d]))
    strides[d] = static_cast<std::int64_t>(step);
  return strides;
}

std::vector<std::int64_t> random_strides(Random& random, const std::vector<std::int64_t>& lens) {
  std::vector<std::int64_t> strides(lens.size());
  std::vector<std::size_t> order(lens.size());
  std::iota(order.begin(), order.end(), 0u);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  std::int64_t step = 1 + static_cast<std::int64_t>(random.one_in(4));
  for (const std::size_t d : order) {
    strides[d] = lens[d] == 1 && random.one_in(2) ? random.between(1, 40) : step;
    step *= lens[d];
    if (random.one_in(6)) step += random.between(1, 3);
  }
  return strides;
}

TensorModel random_tensor(Random& random, miopenDataType_t type, const std::vector<std::int64_t>& lens) {
  return {type, lens, random.one_in(2) ? packed_strides(lens) : random_strides(random, lens), 1};
}

Status describe(World& w, miopenTensorDescriptor_t desc, const TensorModel& m) {
  const std::vector<int> lens(m.lens.begin(), m.lens.end()), strides(m.strides.begin(), m.strides.end());
  const std::vector<std::size_t> wide_lens(m.lens.begin(), m.lens.end()), wide(m.strides.begin(), m.strides.end());
  const bool packed = m.strides == packed_strides(m.lens) && w.random.one_in(2);
  const int rank = static_cast<int>(lens.size());
  if (w.random.one_in(2))
    return miopenSetTensorDescriptorV2(desc, m.type, rank, wide_lens.data(), packed ? nullptr : wide.data());
  if (rank == 4 && !packed && w.random.one_in(2))
    return miopenSet4dTensorDescriptorEx(desc, m.type, lens[0], lens[1], lens[2], lens[3], strides[0], strides[1],
                                         strides[2], strides[3]);
  return miopenSetTensorDescriptor(desc, m.type, rank, lens.data(), packed ? nullptr : strides.data());
}

void expect_result(World& w, const ref::Arithmetic& how, const ref::Tensor& t, const unsigned char* data,
                   const ref::Result& want, const std::vector<unsigned char>& before, const std::string& what) {
  const auto found = ref::compare(how, t, data, want);
  if (!found.ok())
    w.report(what + ": " + std::to_string(found.failures) + " wrong, at " + std::to_string(found.index) + " got " +
             std::to_string(found.got) + " want " + std::to_string(found.want) + " +- " +
             std::to_string(found.tolerance));
  std::vector<unsigned char> owned = ref::element_bytes(t);
  owned.resize(before.size());
  for (std::size_t i = 0; i < before.size(); ++i)
    if (!owned[i] && data[i] != before[i]) return w.report(what + ": byte " + std::to_string(i) + " is no element");
}

}  // namespace polymio::fuzz
