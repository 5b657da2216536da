// Cases of batched matrix products. No command of the driver takes their lines.
// SPDX-License-Identifier: MIT
#include "reference/matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "primitives/matmul/matmul.h"
#include "reference/activation.h"
#include "tests/runner/line.h"
#include "tests/runner/runner.h"
#include "tests/runner/tensors.h"

namespace polymio::test {
namespace {

using matmul::Problem;

constexpr std::int64_t kRelu = 3, kSwish = 11;
constexpr double kSwishAlpha = 0.5;
constexpr driver::Choice kResultTypes[] = {{"", driver::kNoType}, {"fp32", driver::kFloat}};

struct Args {
  driver::DataType type = driver::kFloat;
  std::int64_t m = 1, n = 1, k = 1, transpose_a = 0, transpose_b = 0, offset = 0, bias = 0, activation = 0;
  std::vector<std::int64_t> batch, a_batch, b_batch, a_strides, b_strides, c_strides;
  int result_type = driver::kNoType;
  double alpha = 1, beta = 0;

  driver::Flags rows() {
    using driver::Integer;
    using driver::Integers;
    constexpr std::int64_t kMost = 1 << 20;
    return {{"m", "rows", Integer{&m, 1, kMost}, "of c"},
            {"n", "columns", Integer{&n, 1, kMost}, "of c"},
            {"k", "depth", Integer{&k, 0, kMost}, "columns of a"},
            {"b", "batch", Integers{&batch}, "sizes of c's batch"},
            {"", "a_batch", Integers{&a_batch}, "of a, if they differ"},
            {"", "b_batch", Integers{&b_batch}, "of b, if they differ"},
            {"u", "transpose_a", Integer{&transpose_a, 0, 1}, "a is stored as k x m"},
            {"v", "transpose_b", Integer{&transpose_b, 0, 1}, "b is stored as n x k"},
            {"o", "result", driver::Name{&result_type, kResultTypes}, "type of c"},
            {"", "a_strides", Integers{&a_strides}, "of a"},
            {"", "b_strides", Integers{&b_strides}, "of b"},
            {"", "c_strides", Integers{&c_strides}, "of c"},
            {"", "offset", Integer{&offset, 0, kMost}, "elements before the matrices in their buffers"},
            {"", "bias", Integer{&bias, 0, 1}, "an element per column is added"},
            {"", "activation", Integer{&activation, 0, kSwish}, "0: none, 3: ReLU, 11: swish"},
            {"A", "alpha", driver::Real{&alpha}, "scale of the product"},
            {"B", "beta", driver::Real{&beta}, "scale of the old c"}};
  }

  reference::Tensor tensor(int of_type, std::vector<std::int64_t> lens, std::int64_t rows, std::int64_t columns,
                           bool is_transposed, std::vector<std::int64_t> strides) const {
    lens.push_back(rows);
    lens.push_back(columns);
    if (is_transposed) {
      std::swap(lens[lens.size() - 1], lens[lens.size() - 2]);
      strides = reference::packed_strides(lens);
      std::swap(lens[lens.size() - 1], lens[lens.size() - 2]);
      std::swap(strides[lens.size() - 1], strides[lens.size() - 2]);
    }
    return {static_cast<reference::Type>(of_type), lens, strides};
  }

  reference::Matmul problem() const {
    const std::int64_t depth = std::max<std::int64_t>(k, 1);
    return {alpha,
            beta,
            k,
            tensor(type, a_batch.empty() ? batch : a_batch, m, depth, transpose_a != 0, a_strides),
            tensor(type, b_batch.empty() ? batch : b_batch, depth, n, transpose_b != 0, b_strides),
            tensor(result_type == driver::kNoType ? type : result_type, batch, m, n, false, c_strides)};
  }
};

class MatmulCase final : public Case {
 public:
  explicit MatmulCase(const Args& args) : args_(args), wanted_(args.problem()) {
    problem_.a = describe(wanted_.a);
    problem_.b = describe(wanted_.b);
    problem_.c = describe(wanted_.c);
    if (wanted_.k == 0) {
      problem_.a.lens[problem_.column()] = 0;
      problem_.b.lens[problem_.row()] = 0;
    }
    if (args.activation != 0 && args.activation != kRelu && args.activation != kSwish)
      throw std::invalid_argument(
          fmt::format("--activation {}: allowed are 0, {} and {}", args.activation, kRelu, kSwish));
    problem_.epilogue = {args.bias != 0, static_cast<int>(args.activation)};
    matmul::validate(problem_);
    operands = {{wanted_.a}, {wanted_.b}, {wanted_.c, args.beta != 0 ? Use::kUpdated : Use::kWritten}};
    if (args.bias != 0) operands.push_back({{wanted_.c.type, {wanted_.c.lens.back()}, {1}}});
  }
  std::string line() const override {
    return fmt::format("{} -A {} -B {} --offset {}", problem_.key(), args_.alpha, args_.beta, args_.offset);
  }
  const ProblemBase& problem() const override { return problem_; }
  SolverList solvers(DeviceKind kind) const override { return matmul::solvers(kind); }
  bool has_problem_of(const Case& other) const override {
    Problem same = static_cast<const MatmulCase&>(other).problem_, mine = problem_;
    for (Problem* p : {&same, &mine})
      for (TensorDesc* t : {&p->a, &p->b, &p->c}) *t = without_idle_strides(*t);
    return mine == same;
  }
  void prepare() override {
    for (std::size_t i = 0; i < operands.size(); ++i)
      operands[i].content = random_tensor(operands[i].tensor, i + 1, Gaps::kNan);
    expected_ = evaluate(wanted_, operands[0].content.data(), operands[1].content.data(), operands[2].content.data());
    const auto columns = static_cast<std::size_t>(wanted_.c.lens.back());
    reference::Activation swish;
    swish.mode = reference::ActivationMode::kSwish;
    swish.alpha = kSwishAlpha;
    for (std::size_t i = 0; i < expected_.value.size(); ++i) {
      double &value = expected_.value[i], &magnitude = expected_.magnitude[i];
      // The sum may be rounded to c's type before the rest is applied.
      if (!problem_.epilogue.empty()) magnitude += rounding_of(wanted_.c.type) * std::fabs(value);
      if (args_.bias != 0) {
        const double bias =
            reference::load(wanted_.c.type, operands[3].content.data(), static_cast<std::int64_t>(i % columns));
        value += bias;
        magnitude += std::fabs(bias);
      }
      if (args_.activation == kRelu) value = std::max(value, 0.0);
      if (args_.activation == kSwish) {
        value = reference::activate(swish, value);
        // Its slope is at most 1.1, and it has about eight roundings, where a sum of one product has four.
        magnitude = 1.1 * magnitude + 2 * std::fabs(value);
      }
    }
  }
  /// With an offset, from that many elements before the matrices.
  void run(const AnyInvoker& invoke, Stream& stream, std::span<void* const> data, void* workspace,
           std::size_t workspace_bytes) const override {
    const auto before = [&](std::size_t i) {
      const auto bytes = static_cast<std::int64_t>(reference::size_of(operands[i].tensor.type)) * args_.offset;
      return static_cast<char*>(data[i]) - bytes;
    };
    Problem::Args args;
    args.a = before(0);
    args.b = before(1);
    args.c = before(2);
    args.a_at = args_.offset;
    args.b_at = args_.offset;
    args.c_at = args_.offset;
    if (args_.bias != 0) args.bias = data[3];
    args.activation_alpha = kSwishAlpha;
    args.alpha = args_.alpha;
    args.beta = args_.beta;
    args.workspace = workspace;
    args.workspace_bytes = workspace_bytes;
    invoke(stream, &args);
  }
  reference::Comparison compare(const SolverBase&, std::size_t, const void* result) const override {
    return reference::compare(arithmetic(wanted_), wanted_.c, result, expected_);
  }

 private:
  /// What rounding to the type may change, in roundings to fp32.
  static double rounding_of(reference::Type t) {
    return t == reference::Type::kHalf ? 0x1p13 : t == reference::Type::kBFloat16 ? 0x1p16 : 0;
  }

  Args args_;
  reference::Matmul wanted_;
  Problem problem_;
  reference::Result expected_;
};

}  // namespace

Cases matmul_cases(const std::string& line) {
  const std::vector<std::string> arguments = driver::split_line(line);
  Args args;
  args.type = type_of(arguments[0], {"matmul", kFloats});
  parse_arguments(arguments, args.rows());
  Cases cases;
  cases.push_back(std::make_unique<MatmulCase>(args));
  return cases;
}

}  // namespace polymio::test
