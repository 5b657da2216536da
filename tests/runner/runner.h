// Cases of every primitive. A line of tests/cases/<primitive>/*.txt is a driver line, and so a problem's key; one file
// per primitive makes it a Case: tensors, contents, expected result. check() runs a solver on any case.
// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/handle.h"
#include "core/solver.h"
#include "reference/tensor.h"
#include "reference/tolerance.h"

namespace polymio::test {

constexpr unsigned char kPoison = 0xff;  // a NaN or, in FNUZ formats, the least number

enum class Use { kRead, kWritten, kUpdated };  // a written tensor's content before the run has no meaning

/// A tensor that a case reads or writes.
struct Operand {
  reference::Tensor tensor;
  Use use = Use::kRead;
  std::vector<unsigned char> content{};  // before the run
};

/// A problem in one direction. Cheap to make: only prepare() makes contents and the expected result.
class Case {
 public:
  virtual ~Case() = default;
  virtual std::string line() const = 0;  // computes the case again
  virtual const ProblemBase& problem() const = 0;
  virtual SolverList solvers(DeviceKind) const = 0;
  /// Whether the problem is that of `other`, which was made from the key of this one. Scalars are not part of keys.
  virtual bool has_problem_of(const Case& other) const = 0;
  /// Whether a device of this kind must have a solver.
  virtual bool needs_solver(DeviceKind) const { return true; }
  virtual void prepare() = 0;
  /// Calls the invoker with the operands at these addresses, in their order.
  virtual void run(const AnyInvoker&, Stream&, std::span<void* const> data, void* workspace,
                   std::size_t workspace_bytes) const = 0;
  /// Compares what the solver left at `result` in the operand of this number, which it wrote or updated, within the
  /// bound of its error class.
  virtual reference::Comparison compare(const SolverBase&, std::size_t operand, const void* result) const = 0;

  std::vector<Operand> operands;
};
using Cases = std::vector<std::unique_ptr<Case>>;

struct Primitive {
  const char* name;                         // its folder in tests/cases
  Cases (*parse)(const std::string& line);  // one case per direction of the line
};

Cases convolution_cases(const std::string& line);
Cases activation_cases(const std::string& line);
Cases bias_cases(const std::string& line);
Cases softmax_cases(const std::string& line);
Cases optimizer_cases(const std::string& line);
Cases norm_cases(const std::string& line);
Cases reduce_cases(const std::string& line);
Cases kthvalue_cases(const std::string& line);
Cases cat_cases(const std::string& line);
Cases getitem_cases(const std::string& line);
Cases pooling_cases(const std::string& line);
Cases batch_norm_cases(const std::string& line);
Cases lrn_cases(const std::string& line);
Cases prelu_cases(const std::string& line);
Cases rope_cases(const std::string& line);
Cases soft_margin_cases(const std::string& line);
Cases multi_margin_cases(const std::string& line);
Cases dropout_cases(const std::string& line);
Cases rnn_cases(const std::string& line);
Cases matmul_cases(const std::string& line);
Cases ctc_cases(const std::string& line);
Cases mha_cases(const std::string& line);

inline constexpr Primitive kPrimitives[] = {
    {"convolution", convolution_cases},
    {"activation", activation_cases},
    {"bias", bias_cases},
    {"softmax", softmax_cases},
    {"optimizer", optimizer_cases},
    {"norm", norm_cases},
    {"reduce", reduce_cases},
    {"kthvalue", kthvalue_cases},
    {"cat", cat_cases},
    {"getitem", getitem_cases},
    {"pooling", pooling_cases},
    {"batch_norm", batch_norm_cases},
    {"lrn", lrn_cases},
    {"prelu", prelu_cases},
    {"rope", rope_cases},
    {"softmarginloss", soft_margin_cases},
    {"multimarginloss", multi_margin_cases},
    {"dropout", dropout_cases},
    {"rnn", rnn_cases},
    {"matmul", matmul_cases},
    {"ctc", ctc_cases},
    {"mha", mha_cases},
};

/// Runs the solver twice, the second time on buffers that are misaligned by one element and, on a CUDA device whose
/// stream is not the default one, from a graph. Expects: results that the case accepts, equal in both runs if the
/// solver is deterministic; guard bytes before and after every buffer, inputs and gaps of the output unchanged.
void check(Handle&, const Case&, const SolverBase&, const TunePoint&);

}  // namespace polymio::test
