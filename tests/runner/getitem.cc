// Cases of the gradient of indexing: index tensors, dy, workspace, error, then dx.
// SPDX-License-Identifier: MIT
#include "primitives/getitem/getitem.h"

#include <random>

#include "driver/run/getitem_args.h"
#include "tests/runner/pass.h"
#include "tests/runner/tensors.h"

namespace polymio::test {
namespace {

class GetitemCase final : public PassCase {
 public:
  GetitemCase(driver::GetitemArgs& args, std::string text)
      : PassCase("Getitem"), p_(args.problem()), outside_(args.outside != 0) {
    problem_.text = std::move(text);
    for (const reference::Tensor& t : p_.indices) operands.push_back({t});
    operands.push_back({p_.dy});
    operands.push_back({p_.dx});
    set_output(operands.size() - 1, Use::kUpdated);
  }
  void prepare() override {
    std::vector<const void*> indices;
    for (std::size_t j = 0; j < p_.indices.size(); ++j) {
      const auto size = p_.view().lens[static_cast<std::size_t>(p_.dims[j])];
      const reference::Tensor& t = p_.indices[j];
      operands[j].content.assign(t.bytes(), kPoison);
      std::mt19937_64 random(j + 1);
      std::uniform_int_distribution<std::int64_t> index(-size, size - 1);
      for (std::int64_t i = 0; i < t.count(); ++i) {
        const std::int64_t wrong = i % 2 == 0 ? size : -size - 1;
        reference::store(t.type, operands[j].content.data(), t.offset(i),
                         static_cast<double>(outside_ && i % 5 == 3 ? wrong : index(random)));
      }
      indices.push_back(operands[j].content.data());
    }
    for (const std::size_t i : {output_ - 1, output_})
      operands[i].content = random_tensor(operands[i].tensor, i + 1, Gaps::kNan);
    expected_ = getitem_backward(p_, operands[output_ - 1].content.data(), indices, operands[output_].content.data());
  }

 private:
  void run(Stream& stream, std::span<void* const> data) const override {
    const TensorDesc dy = describe(p_.dy), dx = describe(p_.dx);
    std::vector<TensorDesc> descs;
    for (const reference::Tensor& t : p_.indices) descs.push_back(describe(t));
    std::vector<getitem::Operand> indices;
    for (std::size_t j = 0; j < descs.size(); ++j) indices.push_back({&descs[j], data[j]});
    const std::vector<std::int32_t> dims(p_.dims.begin(), p_.dims.end());
    std::vector<getitem::Slice> slices;
    for (const auto& [dim, begin, end, step] : p_.slices) slices.push_back({dim, begin, end, step});
    getitem::Backward b{{&dy, data[output_ - 1]}, {&dx, data[output_]}, indices, dims, slices, p_.offset, {}};
    const std::size_t bytes = indices.empty() ? 0 : getitem::workspace_bytes(descs[0].count());
    if (!workspace_) workspace_ = {stream.allocate(bytes + 1), [&](void* p) { stream.deallocate(p); }};
    getitem::backward(stream, b, static_cast<char*>(workspace_.get()) + 1, bytes);
  }
  reference::Comparison compare(const void* result) const override {
    return reference::compare(arithmetic(p_, expected_), p_.dx, result, expected_.dx);
  }

  reference::Getitem p_;
  bool outside_;
  reference::GetitemResult expected_;
  mutable std::shared_ptr<void> workspace_;
};

}  // namespace

Cases getitem_cases(const std::string& line) {
  const std::vector<std::string> arguments = driver::split_line(line);
  const std::string& base = arguments[0];
  driver::GetitemArgs args, fresh;
  args.type = type_of(base, {"getitem", kFloats});
  parse_arguments(arguments, args.rows());
  Cases cases;
  cases.push_back(std::make_unique<GetitemCase>(args, base + flags_text(args.rows(), fresh.rows(), 2, false)));
  return cases;
}

}  // namespace polymio::test
