// A result check that compares samples of the output. A primitive derives from SampledCheck and gives its tensors, the
// results that it accepts, and how its problem shrinks.
// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>
#include <list>
#include <mutex>
#include <span>
#include <vector>

#include "core/random.h"
#include "search/result_check.h"

namespace polymio::search {

/// A tensor of a problem: where Args hold its address, and its random values in a private case, see fill_random.
struct Operand {
  enum class Use {
    kOutput,
    kWhole,     // accepted() reads its memory, which on a GPU is a copy, and every result may depend on all of it
    kElements,  // accepted() reads elements of it by read_element
  };
  template <class Address>
  Operand(Use u, const TensorDesc& t, Address& a, std::uint64_t seed_of_values, double limit_of_values = 1)
      : use(u), desc(t), address(const_cast<const void**>(&a)), seed(seed_of_values), limit(limit_of_values) {}

  Use use;
  TensorDesc desc;
  const void** address;
  std::uint64_t seed;
  double limit;
};

/// The range of right results for an element, and the exact one, before they are rounded to the output's type.
struct Accepted {
  double low = 0, high = 0, want = 0;
  double bound = 0;   // the error bound in the text; 0: the larger distance to low or high
  bool known = true;  // if not, every result is accepted
};

/// The offset of an element, numbered in N, C, [D], H, W order.
std::int64_t offset_of(const TensorDesc&, std::int64_t element);
/// Up to 256 elements of `count`: all, or the first, the last and random ones.
std::vector<std::int64_t> pick_elements(std::int64_t count, std::uint64_t seed);

/// The part that does not depend on the type of the problem.
class SampledCheckBase : public ResultCheck {
 protected:
  virtual std::vector<std::int64_t> pick() const = 0;
  virtual std::int64_t offset(std::int64_t element) const = 0;
  /// The element as the text names it.
  virtual std::string name(std::int64_t element) const = 0;

  static double rounded(DataType, double);
  static double read_element(Stream&, const TensorDesc&, const void* data, std::int64_t offset);

  /// Numbers of elements, picked on first use: on a database hit most checks are never used.
  const std::vector<std::int64_t>& samples() const;
  void poison_samples(Stream&, std::span<const Operand>) const;
  CheckResult compare(Stream&, std::span<const Operand>, std::span<const Accepted>, std::string& text) const;

  /// On a GPU lets the addresses of whole operands refer to copies.
  using HostCopies = std::list<std::vector<unsigned char>>;
  static HostCopies fetch(Stream&, std::span<const Operand>);

 private:
  mutable std::once_flag picked_;
  mutable std::vector<std::int64_t> samples_;
};

template <class Problem>
class SampledCheck : public SampledCheckBase {
 public:
  void poison(Stream& stream, const void* given) const final {
    Args args = *static_cast<const Args*>(given);
    if (*obstacle(args) == 0) poison_samples(stream, operands(args));
  }

  CheckResult check(Stream& stream, const void* given, Tolerance tolerance, std::string& text) const final {
    stream.synchronize();
    Args args = *static_cast<const Args*>(given);
    text = obstacle(args);
    if (!text.empty()) return CheckResult::kInconclusive;
    const auto tensors = operands(args);
    const HostCopies copies = fetch(stream, tensors);
    const auto results = accepted(stream, args, tolerance, text);
    return text.empty() ? compare(stream, tensors, results, text) : CheckResult::kInconclusive;
  }

  std::unique_ptr<PrivateCase> private_case(Handle& handle, std::size_t most_bytes) const final {
    for (Problem p = p_;;) {
      auto check = make(p);
      Args args;
      double bytes = 0;
      for (const Operand& o : check->operands(args)) bytes += static_cast<double>(o.desc.bytes());
      if (bytes <= static_cast<double>(most_bytes)) return std::make_unique<Case>(handle, std::move(check));
      for (TensorDesc* t : with_images(p)) {
        if (t->lens[0] == 1) return nullptr;
        t->lens[0] /= 2;
      }
    }
  }

 protected:
  using Args = typename Problem::Args;
  explicit SampledCheck(const Problem& p) : p_(p) {}

  virtual std::vector<Operand> operands(Args&) const = 0;
  /// Why nothing can be said about a run with these arguments; "" if something can.
  virtual const char* obstacle(const Args&) const { return ""; }
  /// The range for one of samples(); not known either if the result, rounded to the output's type, is not finite.
  virtual Accepted element(Stream&, const Args&, std::int64_t) const { return {}; }
  /// Instead of element(): the ranges for all of samples(), or `why` the inputs make the check inconclusive.
  virtual std::vector<Accepted> accepted(Stream& stream, const Args& args, Tolerance, std::string& why) const {
    std::vector<Accepted> all;
    why = "no result is finite";
    for (const std::int64_t i : samples()) {
      Accepted& e = all.emplace_back(element(stream, args, i));
      e.known = e.known && std::isfinite(rounded(p_.output().type, e.want));
      if (e.known) why = "";
    }
    return all;
  }

  /// The private case: its scalars, its check, and the tensors whose first size is halved until they fit.
  virtual Args private_args() const { return {}; }
  virtual std::unique_ptr<SampledCheck> make(const Problem&) const = 0;
  virtual std::vector<TensorDesc*> with_images(Problem&) const = 0;

  std::vector<std::int64_t> pick() const override { return pick_elements(p_.output().count(), p_.hash()); }
  std::int64_t offset(std::int64_t element) const override { return offset_of(p_.output(), element); }

  const Problem p_;

 private:
  class Case final : public PrivateCase {
   public:
    Case(Handle& handle, std::unique_ptr<const SampledCheck> check)
        : check_(std::move(check)), args_(check_->private_args()) {
      for (const Operand& o : check_->operands(args_))
        *o.address = tensors_.emplace_back(handle, o.desc, o.seed, o.limit).data();
    }
    const ProblemBase& problem() const override { return check_->p_; }
    const ResultCheck& check() const override { return *check_; }
    const void* args(void* workspace, std::size_t bytes) override {
      if constexpr (requires { args_.workspace_bytes; }) {
        args_.workspace = workspace;
        args_.workspace_bytes = bytes;
      }
      return &args_;
    }

   private:
    const std::unique_ptr<const SampledCheck> check_;
    Args args_;
    std::list<RandomTensor> tensors_;
  };
};

}  // namespace polymio::search
