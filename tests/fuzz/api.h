// Shared by the parts of the API fuzzer: the objects of a sequence of calls, valid and invalid arguments, and the check
// of a status against the expected one.
// SPDX-License-Identifier: MIT
#pragma once
#include <miopen/miopen.h>
#include <miopen/miopen_internal.h>
#include <miopen/polymio.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "fuzz/fuzz.h"
#include "reference/tensor.h"
#include "reference/tolerance.h"

namespace polymio::fuzz {

namespace ref = polymio::reference;

__extension__ using Wide = __int128;
using Status = miopenStatus_t;
using Statuses = std::vector<Status>;
inline constexpr Status kOk = miopenStatusSuccess, kBad = miopenStatusBadParm, kInvalid = miopenStatusInvalidValue;

class World;

/// One function of the API: a call with random arguments, and counts of its results.
struct Entry {
  const char* name;
  void (*call)(World&);
  std::atomic<std::uint64_t> calls{0}, accepted{0};

  Entry(const char* name, void (*call)(World&)) : name(name), call(call) {}
};
/// All functions; each part adds its own.
std::vector<Entry*>& entries();
struct Registration {
  Registration(const char* name, void (*call)(World&)) : entry(name, call) { entries().push_back(&entry); }
  Entry entry;
};

enum class Kind { kHandle, kTensor, kSequence, kConvolution, kActivation, kOptions, kProblem, kSolution, kPacked };
inline constexpr std::size_t kKinds = 9;

/// The expected values of a tensor descriptor.
struct TensorModel {
  miopenDataType_t type = miopenFloat;
  std::vector<std::int64_t> lens, strides;  // as the library reports them; empty until set
  std::int64_t vector = 1;

  Wide bytes() const;
  ref::Tensor plain() const { return {static_cast<ref::Type>(type), lens, strides}; }
  bool operator==(const TensorModel&) const = default;
};

struct ConvolutionModel {
  bool transposed = false;
  std::vector<int> pad{0, 0}, stride{1, 1}, dilation{1, 1}, output_pad{0, 0};
  int groups = 1;
  std::array<int, 4> attributes{-1, 0, 1, miopenMathPedantic};
  int find_mode = 0;  // 0: that of the environment
  int math = polymioMathAccurate;
};

struct ActivationModel {
  int mode = 0;
  double alpha = 0, beta = 0, gamma = 0;
};

/// Restrictions of arguments, for all sequences.
struct Limits {
  bool alone = true;   // no other thread, which could reuse the memory of a destroyed object
  std::string folder;  // for files, of this sequence alone
};

/// The objects of one sequence of calls, with their expected values.
class World {
 public:
  World(Random& random, const Limits& limits);
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World() { finish(); }
  /// Destroys all objects.
  void finish();

  /// A live object of the kind, created if there is none.
  void* live(Kind);
  template <class T>
  T live_as(Kind kind) {
    return static_cast<T>(live(kind));
  }
  bool has(Kind kind) const { return !live_[index(kind)].empty(); }
  std::size_t count(Kind kind) const { return live_[index(kind)].size(); }
  /// A pointer that is not a live object of the kind.
  void* no_object(Kind);
  void created(Kind, void*);
  /// Called when an object of one call was created, which may have the address of a destroyed one.
  template <class T>
  void use(Kind kind, T object) {
    std::erase(dead_[index(kind)], static_cast<void*>(object));
  }
  void destroyed(Kind, void*);
  miopenHandle_t handle() { return live_as<miopenHandle_t>(Kind::kHandle); }

  void report(const std::string& text);
  bool failed() const { return failed_; }

  Random& random;
  const Limits& limits;
  Entry* entry = nullptr;  // being called
  std::map<void*, TensorModel> tensors;
  std::map<void*, ConvolutionModel> convolutions;
  std::map<void*, ActivationModel> activations;

 private:
  static std::size_t index(Kind kind) { return static_cast<std::size_t>(kind); }
  std::array<std::vector<void*>, kKinds> live_, dead_;
  alignas(16) std::array<unsigned char, 128> memory_{};  // zeroes, no object
  bool failed_ = false;
};

/// A descriptor for one call.
template <class T, Status (*kCreate)(T*), Status (*kDestroy)(T)>
struct Owned {
  Owned() { kCreate(&desc); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() { kDestroy(desc); }
  T desc = nullptr;
};

/// The arguments of one call. At most a few are wrong; each wrong one adds the statuses that it allows.
class Draw {
 public:
  explicit Draw(World& w);

  /// Draws whether the next argument is wrong.
  bool wrong() { return dirty_ && world_.random.one_in(rate_); }
  /// The same for a descriptor that does not match the others: at most one per call, since two could match.
  bool misfit() { return !has_misfit_ && (has_misfit_ = wrong()); }
  /// Reports a wrong argument, for which any of these statuses is correct.
  void refuse(Statuses statuses) { refusals_.push_back(std::move(statuses)); }
  void bad() { refuse({kBad}); }
  /// Adds a status that is correct for any arguments.
  void allow(Status status) { allowed_.push_back(status); }
  bool clean() const { return refusals_.empty(); }

  template <class T>
  T object(Kind kind) {
    if (!wrong()) return world_.live_as<T>(kind);
    bad();
    return static_cast<T>(world_.no_object(kind));
  }
  /// A live object, or an invalid pointer instead.
  template <class T>
  T object(Kind kind, T right) {
    if (!wrong()) return right;
    bad();
    return static_cast<T>(world_.no_object(kind));
  }
  /// A pointer that must not be null.
  template <class T>
  T* pointer(T* right) {
    if (!wrong()) return right;
    bad();
    return nullptr;
  }
  /// A pointer that may be null.
  template <class T>
  T* optional(T* right) {
    return world_.random.one_in(8) ? nullptr : right;
  }
  /// An enumerator, or an invalid number.
  template <class E>
  E enumerator(const std::vector<int>& right, const std::vector<int>& numbers) {
    int value = world_.random.pick(right);
    if (wrong()) {
      value = world_.random.pick(numbers);
      bad();
    }
    E result;
    std::memcpy(&result, &value, sizeof result);
    return result;
  }
  /// Checks the status and the text of a refusal; true for Success.
  bool check(Status got) { return check(got, world_.entry->name); }
  bool check(Status got, const std::string& what);

  World& world() { return world_; }
  Random& random() { return world_.random; }

 private:
  World& world_;
  bool dirty_, has_misfit_ = false;
  std::uint64_t rate_;
  std::vector<Statuses> refusals_;
  Statuses allowed_;
  std::string primed_;  // the text of the last error before the call
};

/// Data of a call between guards that must not change; the sanitizer detects reads of them, too.
class Buffer {
 public:
  Buffer(World&, std::size_t bytes, std::size_t alignment);
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();
  unsigned char* data() { return memory_.data() + begin_; }
  const unsigned char* data() const { return memory_.data() + begin_; }
  std::size_t size() const { return bytes_; }
  std::vector<unsigned char> copy() const { return {data(), data() + bytes_}; }
  void fill(unsigned char value) { std::fill_n(data(), bytes_, value); }

 private:
  static constexpr std::size_t kGuard = 64;
  static constexpr unsigned char kGuardValue = 0xa5;
  World& world_;
  std::size_t begin_, bytes_;
  std::vector<unsigned char> memory_;
};

/// A tensor for one call: a descriptor of its own with data.
struct Operand {
  Operand(World&, const TensorModel&);
  Operand(const Operand&) = delete;
  Operand& operator=(const Operand&) = delete;
  ~Operand();
  /// Small integers, which every type holds.
  void fill(int least, int most);
  void* data() { return buffer.data(); }

  World& world;
  TensorModel model;
  ref::Tensor plain;
  miopenTensorDescriptor_t desc = nullptr;
  Buffer buffer;
};

/// alpha or beta in the type that the API expects for an output of the type.
struct Scalar {
  Scalar(miopenDataType_t type, double value)
      : as_double(value), as_float(static_cast<float>(value)), is_double(type == miopenDouble) {}
  const void* get() const { return is_double ? static_cast<const void*>(&as_double) : &as_float; }
  double as_double;
  float as_float;
  bool is_double;
};

/// Strides of `lens`: any order of dimensions, with or without gaps; arbitrary for dimensions of size 1.
std::vector<std::int64_t> random_strides(Random&, const std::vector<std::int64_t>& lens);
/// Packed strides, last dimension innermost.
std::vector<std::int64_t> packed_strides(const std::vector<std::int64_t>& lens);
TensorModel random_tensor(Random&, miopenDataType_t, const std::vector<std::int64_t>& lens);
/// Sets a live descriptor by one of the functions that set descriptors.
Status describe(World&, miopenTensorDescriptor_t, const TensorModel&);

/// Reports a result that is not `want`, or bytes between the elements that are not `before`.
void expect_result(World&, const ref::Arithmetic&, const ref::Tensor&, const unsigned char* data,
                   const ref::Result& want, const std::vector<unsigned char>& before, const std::string& what);

inline const std::vector<int> kTypes{0, 1, 2, 3, 5, 6, 7, 8, 9, 0x100, 0x101}, kNoTypes{4, 10, -1, INT_MAX, INT_MIN};
inline std::vector<int> up_to(int last) {
  std::vector<int> all;
  for (int i = 0; i <= last; ++i) all.push_back(i);
  return all;
}

}  // namespace polymio::fuzz
