// The whole solver interface. A solver is stateless, const and thread-safe; state goes into the Invoker that it builds.
// Search and databases use the non-template base classes only.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/device.h"

namespace polymio {

/// How close a result is to the exact one, closest first. A math mode admits every class up to its own
/// number: strict, accurate, tf32, any.
enum class ErrorClass : int {
  kExact = 0,        // integer arithmetic, or fp64 accumulation rounded once
  kAccurate = 1,     // fp32 accumulation (fp64 for fp64 tensors)
  kReduced = 2,      // tf32 or bf16 products
  kApproximate = 3,  // transforms that amplify rounding, as large Winograd tiles
};
enum class MathMode : int { kStrict = 0, kAccurate = 1, kTf32 = 2, kAny = 3 };

/// Limits of a call. They filter solvers and stored records; part of the plan key, never of a database key.
struct Constraints {
  std::size_t workspace_limit = SIZE_MAX;
  MathMode math = MathMode::kAccurate;
  bool deterministic = false;
  unsigned algorithms = ~0u;  // bit i: solvers of algorithm i may be used
  int alignment = 16;         // smallest alignment of the data pointers, in bytes
  bool operator==(const Constraints&) const = default;
  std::uint64_t hash(std::uint64_t seed) const;
};

/// Acceptance, or the reason for refusal: a literal, and the two numbers that it compares, if any.
struct Verdict {
  const char* reason = nullptr;
  std::int64_t need = 0, have = 0;
  bool numbers = false;
  explicit operator bool() const { return reason == nullptr; }
  std::string text() const;
};
#define POLYMIO_REQUIRE(condition, why)               \
  do {                                                \
    if (!(condition)) return ::polymio::Verdict{why}; \
  } while (0)
#define POLYMIO_REQUIRE_MOST(value, limit, why)                            \
  do {                                                                     \
    const std::int64_t have_ = (value), need_ = (limit);                   \
    if (have_ > need_) return ::polymio::Verdict{why, need_, have_, true}; \
  } while (0)

struct SolverInfo {
  std::uint64_t id = 0;   // frozen, never reused: users hold it (immediate mode)
  const char* name = "";  // frozen: the database key, never derived from a type name
  int algorithm = 0;      // number of a method among the primitive's: callers choose by it, find lists the best of each
  const char* method = "";  // the algorithm's name
  int version = 1;          // bumped when stored times no longer describe the solver
  unsigned devices = 0;     // OR of DeviceKind
  int alignment = 1;        // of the tensors in memory, in bytes, that it needs: at most 16
  bool dynamic = true;      // not specialised on N, H, W
  bool deterministic = true;
  bool capture_safe = true;
  bool reference = false;   // simple and slow: chosen only if no other solver applies
  bool transforms = false;  // an element's rounding error reaches neighbouring results
};

struct Knob {
  const char* name;
  std::vector<int> values;
};
using TuneSpace = std::vector<Knob>;             // empty: nothing to tune
using TunePoint = std::vector<int>;              // one value per knob, in order
std::string to_text(const TunePoint&);           // "4,2"; "" for none
TunePoint parse_tune_point(const std::string&);  // the inverse; unreadable text gives an empty point

/// What is computed: a value type with equality, a hash for the hot path and one canonical text.
class ProblemBase {
 public:
  virtual ~ProblemBase() = default;
  virtual std::string key() const = 0;
  virtual std::uint64_t hash() const = 0;
  virtual bool equals(const ProblemBase&) const = 0;
  virtual std::unique_ptr<ProblemBase> clone() const = 0;
  /// Problems of one family differ in sizes only (direction, types, layouts, filter, strides and the kind of grouping
  /// are equal): records of one predict times of the others.
  virtual std::string family() const = 0;
  /// Base-2 logarithms of the sizes in which members of a family differ, always in the same order.
  virtual std::vector<float> log_sizes() const = 0;
  /// Operations, or bytes for memory-bound problems; times are scaled by it within a family.
  virtual double work() const = 0;
  /// Inputs of the learned model, in the order of its training; none: no model applies.
  virtual std::vector<float> features() const { return {}; }
};

/// A function of a GPU program, and the source and options that the program is compiled from.
struct KernelSpec {
  std::string source;                // path below src/
  std::string entry;                 // the function
  std::vector<std::string> options;  // "-DTILE=64"
  std::string instantiation = "";    // of a C++ template in the source, "Tile<64, 4>": becomes the function `entry`
  std::string generated = "";        // text before the source: macros that a generator made
};

/// Ready to launch: holds all it needs; never looks up, allocates, logs or reads the environment.
using AnyInvoker = std::function<void(Stream&, const void* args)>;

class SolverBase {
 public:
  virtual ~SolverBase() = default;
  virtual SolverInfo info() const = 0;
  virtual Verdict is_applicable(const DeviceInfo&, const ProblemBase&) const = 0;
  virtual ErrorClass error_class(const ProblemBase&) const = 0;
  virtual std::size_t workspace_size(const DeviceInfo&, const ProblemBase&, const TunePoint&) const = 0;
  virtual double estimate(const DeviceInfo&, const ProblemBase&, const TunePoint&) const = 0;
  virtual TuneSpace tune_space(const DeviceInfo&, const ProblemBase&) const = 0;
  virtual bool is_valid(const DeviceInfo&, const ProblemBase&, const TunePoint&) const = 0;
  virtual TunePoint default_point(const DeviceInfo&, const ProblemBase&) const = 0;
  /// What build() compiles for a GPU; none on the CPU.
  virtual std::vector<KernelSpec> kernel_specs(const DeviceInfo&, const ProblemBase&, const TunePoint&) const = 0;
  virtual AnyInvoker build(Stream&, const ProblemBase&, const TunePoint&) const = 0;
};
using SolverList = std::span<const SolverBase* const>;

/// Gives a primitive's solvers their types back: a solver overrides the methods that take its Problem, which derives
/// from ProblemBase and has an Args; search and databases call those of SolverBase.
template <class Problem>
class Solver : public SolverBase {
 public:
  using Args = typename Problem::Args;

  /// Launch-ready, as AnyInvoker. Made from anything that can be called with (Stream&, const Args&).
  class Invoker {
   public:
    template <class Invoke>
    Invoker(Invoke invoke)
        : any_([invoke = std::move(invoke)](Stream& s, const void* args) {
            invoke(s, *static_cast<const Args*>(args));
          }) {}
    Invoker(const Invoker&) = default;
    Invoker(Invoker&) = default;
    Invoker(Invoker&&) = default;
    Invoker& operator=(const Invoker&) = default;
    Invoker& operator=(Invoker&&) = default;
    void operator()(Stream& stream, const Args& args) const { any_(stream, &args); }
    const AnyInvoker& any() const { return any_; }

   private:
    AnyInvoker any_;
  };

  explicit Solver(const SolverInfo& info = {}) : info_(info) {}

  SolverInfo info() const override { return info_; }
  virtual Verdict is_applicable(const DeviceInfo&, const Problem&) const = 0;  // under 1 us, no allocation
  virtual ErrorClass error_class(const Problem&) const { return ErrorClass::kAccurate; }
  virtual std::size_t workspace_size(const DeviceInfo&, const Problem&, const TunePoint&) const { return 0; }
  virtual double estimate(const DeviceInfo&, const Problem&, const TunePoint&) const = 0;  // microseconds
  virtual TuneSpace tune_space(const DeviceInfo&, const Problem&) const { return {}; }
  virtual bool is_valid(const DeviceInfo&, const Problem&, const TunePoint&) const { return true; }
  virtual TunePoint default_point(const DeviceInfo&, const Problem&) const { return {}; }
  virtual std::vector<KernelSpec> kernel_specs(const DeviceInfo&, const Problem&, const TunePoint&) const { return {}; }
  virtual Invoker build(Stream&, const Problem&, const TunePoint&) const = 0;

  Verdict is_applicable(const DeviceInfo& d, const ProblemBase& p) const final { return is_applicable(d, typed(p)); }
  ErrorClass error_class(const ProblemBase& p) const final { return error_class(typed(p)); }
  std::size_t workspace_size(const DeviceInfo& d, const ProblemBase& p, const TunePoint& t) const final {
    return workspace_size(d, typed(p), t);
  }
  double estimate(const DeviceInfo& d, const ProblemBase& p, const TunePoint& t) const final {
    return estimate(d, typed(p), t);
  }
  TuneSpace tune_space(const DeviceInfo& d, const ProblemBase& p) const final { return tune_space(d, typed(p)); }
  bool is_valid(const DeviceInfo& d, const ProblemBase& p, const TunePoint& t) const final {
    return is_valid(d, typed(p), t);
  }
  TunePoint default_point(const DeviceInfo& d, const ProblemBase& p) const final { return default_point(d, typed(p)); }
  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const ProblemBase& p, const TunePoint& t) const final {
    return kernel_specs(d, typed(p), t);
  }
  AnyInvoker build(Stream& s, const ProblemBase& p, const TunePoint& t) const final {
    return build(s, typed(p), t).any();
  }

 private:
  static const Problem& typed(const ProblemBase& p) { return static_cast<const Problem&>(p); }

  SolverInfo info_;
};

/// Every combination of the knobs' values that the solver accepts; empty if it has no knobs.
std::vector<TunePoint> valid_points(const SolverBase&, const DeviceInfo&, const ProblemBase&);

/// The first of the points with the least estimate; empty if there is none.
TunePoint least_estimate(const SolverBase&, const DeviceInfo&, const ProblemBase&, std::span<const TunePoint>);

/// Whether a point from outside (a record, a saved solution) is valid for the solver: its default point, or a
/// combination of its knobs' values that it accepts. Call this before using such a point otherwise.
bool takes(const SolverBase&, const DeviceInfo&, const ProblemBase&, const TunePoint&);

/// The default point, or, if that needs more workspace than `limit`, the fastest by estimate of those that do not.
std::optional<TunePoint> starting_point(const SolverBase&, const DeviceInfo&, const ProblemBase&, std::size_t limit);

/// Whether `constraints` and the device admit the solver for the problem, with the reason if not.
Verdict admit(const SolverBase&, const DeviceInfo&, const ProblemBase&, const Constraints&);

}  // namespace polymio
