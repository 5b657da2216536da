// The interface of a primitive in the driver. A new primitive is a file with an Operation and a row in operation.cc.
// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "driver/base/library.h"
#include "driver/run/common_args.h"
#include "driver/run/result.h"

namespace polymio::driver {

class Operation {
 public:
  virtual ~Operation() = default;

  // The rows are bound to variables of this object.
  virtual Flags flags() = 0;
  // Completes and checks what the flags have set. Throws ArgError.
  virtual void check_flags() = 0;
  virtual const RunArgs& run_args() const = 0;
  // Takes the control of runs from the command line, for a line of a list. `outer` is of the same primitive.
  virtual void inherit(const Operation& outer) = 0;

  virtual std::int64_t directions() const = 0;           // bits of Direction
  virtual std::string title(Direction which) const = 0;  // "Forward Convolution"
  virtual std::string line(Direction which) = 0;         // the key text of the problem
  virtual double cost() const = 0;                       // relative, of one direction

  // What calls of one direction compute, in order; none: the primitive has no solvers.
  virtual std::vector<OwnedProblem> problems(Direction which) = 0;
  // Runs, times and verifies one direction; with `print` writes MIOpenDriver's lines. An error becomes Result::error.
  virtual std::vector<Result> run(const Session& session, Direction which, bool print) = 0;
  // Called with all results at the end.
  virtual void report(const Session&, const std::string& /*title*/, const std::vector<Result>&) const {}
  // Runs instead of what is usual and returns the process exit status, if the flags say so.
  virtual std::optional<int> run_instead() { return std::nullopt; }
};

struct Primitive {
  Bases bases;
  std::string_view label;  // "Convolution"
  std::string_view summary;
  std::unique_ptr<Operation> (*factory)(const Primitive& primitive, const std::string& base);
  bool one_way = false;  // no solvers to choose from

  std::unique_ptr<Operation> make(const std::string& base) const { return factory(*this, base); }
};

// The primitives.
std::unique_ptr<Operation> make_convolution(const Primitive& primitive, const std::string& base);
std::unique_ptr<Operation> make_activation(const Primitive& primitive, const std::string& base);
std::unique_ptr<Operation> make_batch_norm(const Primitive& primitive, const std::string& base);
std::unique_ptr<Operation> make_fusion(const Primitive& primitive, const std::string& base);
std::unique_ptr<Operation> make_bias(const Primitive& primitive, const std::string& base);
std::unique_ptr<Operation> make_reduction(const Primitive& primitive, const std::string& base);
std::unique_ptr<Operation> make_kthvalue(const Primitive& primitive, const std::string& base);
std::unique_ptr<Operation> make_softmax(const Primitive& primitive, const std::string& base);
std::unique_ptr<Operation> make_adam(const Primitive& primitive, const std::string& base);
std::unique_ptr<Operation> make_norm(const Primitive& primitive, const std::string& base);
std::unique_ptr<Operation> make_cat(const Primitive& primitive, const std::string& base);
std::unique_ptr<Operation> make_getitem(const Primitive& primitive, const std::string& base);
std::unique_ptr<Operation> make_pooling(const Primitive& primitive, const std::string& base);
std::unique_ptr<Operation> make_lrn(const Primitive& primitive, const std::string& base);
std::unique_ptr<Operation> make_prelu(const Primitive& primitive, const std::string& base);
std::unique_ptr<Operation> make_rope(const Primitive& primitive, const std::string& base);
std::unique_ptr<Operation> make_tensor_op(const Primitive& primitive, const std::string& base);
std::unique_ptr<Operation> make_soft_margin_loss(const Primitive& primitive, const std::string& base);
std::unique_ptr<Operation> make_multi_margin_loss(const Primitive& primitive, const std::string& base);
std::unique_ptr<Operation> make_ctc(const Primitive& primitive, const std::string& base);
std::unique_ptr<Operation> make_dropout(const Primitive& primitive, const std::string& base);
std::unique_ptr<Operation> make_mha(const Primitive& primitive, const std::string& base);
std::unique_ptr<Operation> make_rnn(const Primitive& primitive, const std::string& base);

// The primitive with this base argument, or null.
const Primitive* find_primitive(std::string_view base);

// The base arguments of all primitives, separated by blanks.
std::string all_bases();
// A line for each primitive: its base arguments and what they run.
std::string help_of_bases();

// The position of the first base argument. Throws ArgError, naming `command`, unless it is one of convolution or there
// is none.
std::span<const std::string>::iterator find_convolution(std::string_view command,
                                                        std::span<const std::string> arguments);

// `arguments` begin with a base argument. Returns the process exit status: 0 if everything ran and verified.
int run_operation(std::span<const std::string> arguments);

}  // namespace polymio::driver
