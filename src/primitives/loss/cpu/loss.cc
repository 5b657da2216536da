// Losses on the CPU.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/loss.h"

#include <algorithm>

#include "base/math.h"
#include "kernels/cpu/kernels_of.h"
#include "primitives/common/map.h"
#include "primitives/common/reduce.h"
#include "primitives/loss/passes.h"

namespace polymio::loss {
namespace {

const kernels::LossKernels& table(const Stream& stream) {
  return kernels::kernels_of<kernels::LossKernels>(stream.info().isa);
}

void run_soft_margin(Stream& stream, const SoftMargin& p, const Output& y, const Workspace&) {
  const DataType type = p.x.desc.type;
  const std::size_t size = size_of(type);
  common::Operands operands;
  if (p.reduction == Reduction::kNone) {
    const TensorDesc* const tensors[] = {&y.desc, &p.x.desc, &p.target.desc};
    for (const void* data : {static_cast<const void*>(y.data), p.x.data, p.target.data}) operands.push(data, size);
    const auto& kernels = table(stream);
    return common::map(stream, Tiles(simplified_loop(tensors)), operands,
                       [&](const kernels::Run& run) { kernels.soft_margin(type, run); });
  }
  const TensorDesc* const tensors[] = {&p.x.desc, &p.target.desc};
  operands.outputs = 0;
  operands.push(p.x.data, size);
  operands.push(p.target.data, size);
  const common::RowLoops loops = common::row_loops(make_loop(tensors), [](std::size_t) { return true; });
  common::reduce<double>(stream, loops, operands, table(stream).soft_margin_sum(type), nullptr,
                         [&](std::int64_t, const double* sum) {
                           dtype::store(type, y.data, 0, *sum * factor_of(p.reduction, p.x.desc.count()));
                         });
}

void run_soft_margin_backward(Stream& stream, const SoftMargin& p, const Input& dy, const Output& dx) {
  const DataType type = p.x.desc.type;
  const TensorDesc* const tensors[] = {&dx.desc, &p.x.desc, &p.target.desc, &dy.desc};
  common::Operands operands;
  for (const void* data : {static_cast<const void*>(dx.data), p.x.data, p.target.data, dy.data})
    operands.push(data, size_of(type));
  const double scale = factor_of(p.reduction, p.x.desc.count());
  const auto& kernels = table(stream);
  common::map(stream, Tiles(simplified_loop(tensors)), operands,
              [&](const kernels::Run& run) { kernels.soft_margin_backward(type, scale, run); });
}

/// The losses of rows, whose classes may be cut into chunks.
class Rows {
 public:
  Rows(const Stream& stream, const MultiMargin& p)
      : p_(p),
        type_(p.x.desc.type),
        kernel_(table(stream).hinge_sum(type_)),
        classes_(classes_loop(p)),
        operands_(operand_of(p)),
        runs_(classes_, operands_) {}

  /// What the classes [begin, end) add to the loss of a row.
  double loss(std::int64_t row, std::int64_t begin, std::int64_t end) const {
    const auto &x = p_.x.desc, &target_desc = p_.target.desc, &weight = p_.weight.desc;
    const std::int64_t target = static_cast<const std::int64_t*>(p_.target.data)[row * target_desc.strides[0]];
    if (target < 0 || target >= x.lens[1]) return 0;
    const std::int64_t at = row * x.strides[0];
    const double own = dtype::load(type_, p_.x.data, at + target * x.strides[1]);
    const kernels::Hinge job{p_.margin - own, static_cast<int>(p_.power)};
    double sum = 0;
    kernel_.start(&job, &sum);
    const auto add = [&](std::int64_t first, std::int64_t last) {
      if (first >= last) return;
      runs_.each(first, last, {at}, [&](const kernels::Run& run) { kernel_.reduce(&job, run, 0, &sum); });
    };
    add(begin, std::min(target, end));
    add(std::max(target + 1, begin), end);
    const double factor = dtype::load(type_, p_.weight.data, target * weight.strides[0]);
    return factor * sum / static_cast<double>(x.lens[1]);
  }

 private:
  static Loop classes_loop(const MultiMargin& p) {
    Loop loop;
    loop.operands = 1;
    Loop::Dim dim{p.x.desc.lens[1], {}};
    dim.strides[0] = p.x.desc.strides[1];
    loop.push(dim);
    return loop;
  }
  static common::Operands operand_of(const MultiMargin& p) {
    common::Operands operands;
    operands.outputs = 0;
    operands.push(p.x.data, size_of(p.x.desc.type));
    return operands;
  }

  const MultiMargin& p_;
  DataType type_;
  const kernels::Reduction<>& kernel_;
  Loop classes_;
  common::Operands operands_;
  common::Runs runs_;
};

/// A task has some rows, or a chunk of the classes of one row; sums of tasks are added in order.
void run_multi_margin(Stream& stream, const MultiMargin& p, const Output& y, const Workspace&) {
  const DataType type = p.x.desc.type;
  const std::int64_t n = p.x.desc.lens[0], classes = p.x.desc.lens[1], step = y.desc.strides[0];
  const bool single = p.reduction != Reduction::kNone;
  const std::int64_t chunks = ceil_div(classes, common::kTaskElements), chunk = ceil_div(classes, chunks);
  const std::int64_t rows = std::clamp<std::int64_t>(common::kTaskElements / classes, 1, n);
  const Rows losses(stream, p);
  std::vector<double> sums(static_cast<std::size_t>(ceil_div(n, rows) * chunks));
  stream.parallel_for(sums.size(), 0, [&](std::size_t i, void*) {
    const std::int64_t task = static_cast<std::int64_t>(i), first = task / chunks * rows;
    const std::int64_t begin = task % chunks * chunk, end = std::min(begin + chunk, classes);
    for (std::int64_t row = first; row < std::min(first + rows, n); ++row) {
      const double loss = losses.loss(row, begin, end);
      sums[i] += loss;
      if (!single && chunks == 1) dtype::store(type, y.data, row * step, loss);
    }
  });
  double total = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    total += sums[i];
    if (single || chunks == 1 || (static_cast<std::int64_t>(i) + 1) % chunks != 0) continue;
    dtype::store(type, y.data, static_cast<std::int64_t>(i) / chunks * step, total);
    total = 0;
  }
  if (single) dtype::store(type, y.data, 0, total * factor_of(p.reduction, n));
}

}  // namespace

const Passes kCpuPasses = {run_soft_margin, run_soft_margin_backward, run_multi_margin};

}  // namespace polymio::loss
