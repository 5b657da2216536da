// A primitive that reads tensors and writes one or more. Memory, random contents, times and verification are here; the
// primitive names its tensors, makes the call and computes the expected values.
// SPDX-License-Identifier: MIT
#pragma once

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "driver/run/operation.h"
#include "driver/run/tensor_args.h"
#include "reference/convolution.h"
#include "reference/tensor.h"
#include "reference/tolerance.h"

namespace polymio::driver {

enum Access { kRead, kWritten, kPassed };  // kPassed: an argument of the call that is not read

// A tensor of the call, with random elements in [-limit, limit), or [0, limit) if `positive`; NaN where the limit is 0.
struct Operand {
  const char* name;
  reference::Tensor tensor;
  double limit;
  Access access = kRead;
  std::string file = {};     // the elements, if not random
  Buffer* shared = nullptr;  // memory with the elements, if there is already
  bool positive = false;
};

using Contents = std::vector<unsigned char>;

struct Memory {
  Operand operand;
  TensorDescriptor owner;
  Buffer own;

  Memory(const Session& session, Operand which, std::uint64_t seed);
  Buffer& buffer() { return operand.shared ? *operand.shared : own; }
  miopenTensorDescriptor_t descriptor() const { return owner.get(); }
  void* device() { return buffer().device(); }
  const void* host() { return buffer().host(); }
  Contents contents();
  void restore(const Contents& contents);
};

// The tensors of one direction, by name.
class Operands {
 public:
  Operands(const Session& session, std::vector<Operand> operands);
  Memory& operator[](std::string_view name);
  Memory* find(std::string_view name);  // null if there is none
  void add(const Session& session, Operand operand) { all_.emplace_back(session, std::move(operand), all_.size() + 1); }
  std::vector<Memory*> written();
  // Memory of so many bytes, which lives as long as the tensors: calls are asynchronous.
  void* workspace(const Session& session, std::size_t bytes);
  double bytes_read() const;
  double bytes_written() const;

  std::shared_ptr<void> kept = {};  // what the primitive keeps between launches on these tensors

 private:
  std::list<Memory> all_;
  Buffer workspace_;
};

// The contents of a written tensor before the call, its elements to compute (all if empty), and its name.
struct Expectation {
  const void* old;
  std::vector<std::int64_t> sample;
  std::string_view name = {};
};

class TensorOperation : public Operation {
 public:
  // `base` is a base argument of `primitive`.
  TensorOperation(const Primitive& primitive, const std::string& base) : primitive_(primitive), base_(base) {
    args_.type = primitive.bases.type_of(base);
  }

  // Overridden together, for tensors that do not have the sizes of one input.
  Flags flags() override;
  void check_flags() override;
  const RunArgs& run_args() const final { return run_; }
  void inherit(const Operation& outer) final;
  std::int64_t directions() const override;
  std::string title(Direction which) const final;
  std::string line(Direction which) override;
  double cost() const final;
  std::vector<OwnedProblem> problems(Direction which) final;
  std::vector<Result> run(const Session& session, Direction which, bool print) final;
  // On memory that operands share; only verifies, and throws errors.
  Result run_once(const Session& session, Direction which, bool verified) const;

 protected:
  // For the constructor of a primitive with a list of sizes: its defaults.
  void use_list(TensorArgs defaults) {
    defaults.type = args_.type;
    args_ = std::move(defaults);
  }

  // What a primitive adds.
  virtual Flags own_flags() = 0;
  virtual std::vector<Operand> operands(Direction which) const = 0;
  virtual void launch(const Session& session, Direction which, Operands& data) const = 0;
  virtual reference::Result expected(Direction which, Operands& data, const Expectation& wanted) const = 0;
  virtual reference::Arithmetic arithmetic(Direction which) const = 0;
  // The same for one of several written tensors.
  virtual reference::Arithmetic arithmetic_of(Direction which, std::string_view /*name*/) const {
    return arithmetic(which);
  }
  // The directions that the primitive has; the flag allows no others.
  virtual std::int64_t available() const { return 3; }
  virtual std::string stats_name() const { return base_; }
  virtual std::vector<std::int64_t> sizes() const { return args_.lens(); }

  Flags with_run_flags(Flags all);
  // Of the forward pass that a first backward call runs before its own.
  static void forget_call(const Session& session);

  // The tensors of -I and -O, and their gradients.
  reference::Tensor in() const { return tensor(args_.x_strides()); }
  reference::Tensor out() const { return tensor(args_.y_strides()); }
  reference::Tensor din() const { return tensor(args_.dx_strides()); }
  reference::Tensor dout() const { return tensor(args_.dy_strides()); }
  Scalars scalars() const { return {args_.scale, args_.keep, args_.type == kDouble}; }
  // The limit of the written tensor: its old elements count if scale_beta is not 0.
  double old_limit() const { return args_.keep == 0 ? 0 : 1; }
  // As the library reads parameters: floats unless the tensors are double.
  double parameter(double value) const { return args_.type == kDouble ? value : static_cast<float>(value); }

  TensorArgs args_;

 private:
  reference::Tensor tensor(const std::vector<std::int64_t>& strides) const {
    return {static_cast<reference::Type>(args_.type), args_.lens(), strides};
  }
  void time_runs(const Session& session, Direction which, Operands& data, Result& result) const;
  void print_times(const Result& result) const;
  void verify(Direction which, Operands& data, const std::vector<Contents>& old, Result& result) const;

  const Primitive& primitive_;
  std::string base_;
  RunArgs run_;
};

}  // namespace polymio::driver
