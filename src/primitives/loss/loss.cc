// SPDX-License-Identifier: MIT
#include "primitives/loss/loss.h"

#include "base/error.h"
#include "core/aligned_buffer.h"
#include "core/problem_text.h"
#include "core/tensor_checks.h"
#include "primitives/loss/passes.h"

namespace polymio::loss {
namespace {

constexpr const char* kUsers = "losses";

const Passes& passes(const Stream& stream) { return stream.info().kind == DeviceKind::kCpu ? kCpuPasses : kGpuPasses; }

void check_reduction(Reduction reduction) {
  const int number = static_cast<int>(reduction);
  require(number >= 0 && number <= 2, "reduction {} is unknown: allowed are none 0, sum 1, mean 2", number);
}

void check_single(const TensorDesc& y, const char* name) {
  require(y.count() == 1, "{} has sizes {}: a reduced loss is one element", name, sizes_text(y));
}

void check(const SoftMargin& p) {
  check_reduction(p.reduction);
  require_float_tensor(p.x.desc, "the input", kMaxRank, kUsers);
  require_same_type(p.target.desc, "the target", p.x.desc, "the input");
  require_same_sizes(p.target.desc, "the target", p.x.desc, "the input");
}

void check(const SoftMargin& p, const TensorDesc& y) {
  check(p);
  require_same_type(y, "the output", p.x.desc, "the input");
  if (p.reduction != Reduction::kNone) return check_single(y, "the output");
  require_same_sizes(y, "the output", p.x.desc, "the input");
  require_separate(y, "the output");
}

void check(const MultiMargin& p, const TensorDesc& y) {
  const TensorDesc &x = p.x.desc, &target = p.target.desc, &weight = p.weight.desc;
  check_reduction(p.reduction);
  require_float_tensor(x, "the input", kMaxRank, kUsers);
  require(x.rank == 2, "the input has sizes {}: it must have two dimensions, rows and classes", sizes_text(x));
  require(target.type == DataType::kInt64, "the target is {}: it must be int64", name_of(target.type));
  require(target.rank == 1 && target.lens[0] == x.lens[0],
          "the target has sizes {}: it must have size {}, an element per row of the input", sizes_text(target),
          x.lens[0]);
  require_same_type(weight, "the weight", x, "the input");
  require(weight.rank == 1 && weight.lens[0] == x.lens[1],
          "the weight has sizes {}: it must have size {}, an element per class", sizes_text(weight), x.lens[1]);
  require_same_type(y, "the output", x, "the input");
  require(p.power == 1 || p.power == 2, "p is {}: allowed are 1 and 2", p.power);
  if (p.reduction != Reduction::kNone) return check_single(y, "the output");
  require(y.rank == 1 && y.lens[0] == x.lens[0],
          "the output has sizes {}: without reduction it must have size {}, an element per row of the input",
          sizes_text(y), x.lens[0]);
  require_separate(y, "the output");
}

void check_workspace(const Workspace& given, std::size_t needed, DataType type) {
  const std::size_t alignment = type == DataType::kDouble ? sizeof(double) : sizeof(float);
  if (needed == 0) return;
  require(given.data && given.bytes >= needed, "the workspace has {} bytes, but {} are needed",
          given.data ? given.bytes : 0, needed);
  require(reinterpret_cast<std::uintptr_t>(given.data) % alignment == 0,
          "the workspace starts at {}: it must be a multiple of {} bytes", given.data, alignment);
}

/// Calls run(data) with aligned buffers, which may be those given.
template <std::size_t kCount, class Run>
void with_aligned(const Stream& stream, const CallerBuffer (&buffers)[kCount], const Run& run) {
  if (are_aligned(buffers)) {
    void* data[kCount];
    for (std::size_t i = 0; i < kCount; ++i) data[i] = const_cast<void*>(buffers[i].data);
    return run(data);
  }
  run_on_aligned(stream.info(), buffers, run);
}

}  // namespace

void soft_margin(Stream& stream, const SoftMargin& p, const Output& y, const Workspace& workspace) {
  check(p, y.desc);
  for (const auto& [in, name] : {std::pair{&p.x, "the input"}, {&p.target, "the target"}})
    if (p.reduction == Reduction::kNone)
      require_no_overlap(in->desc, in->data, name, y.desc, y.data);
    else
      require_apart(in->desc, in->data, name, y.desc, y.data, "the output");
  check_workspace(workspace, workspace_size(stream.info(), p, y.desc), y.desc.type);
  const CallerBuffer buffers[] = {{p.x.desc, p.x.data, "the input"},
                                  {p.target.desc, p.target.data, "the target"},
                                  {y.desc, y.data, "the output", true}};
  with_aligned(stream, buffers, [&](void* const* data) {
    passes(stream).soft_margin(stream, {{p.x.desc, data[0]}, {p.target.desc, data[1]}, p.reduction}, {y.desc, data[2]},
                               workspace);
  });
}

void soft_margin_backward(Stream& stream, const SoftMargin& p, const Input& dy, const Output& dx) {
  check(p);
  require_same_type(dy.desc, "doutput", p.x.desc, "the input");
  if (p.reduction == Reduction::kNone || dy.desc.count() != 1)
    require_same_sizes(dy.desc, "doutput", p.x.desc, "the input");
  require_same_type(dx.desc, "dinput", p.x.desc, "the input");
  require_same_sizes(dx.desc, "dinput", p.x.desc, "the input");
  require_separate(dx.desc, "dinput");
  for (const auto& [in, name] : {std::pair{&p.x, "the input"}, {&p.target, "the target"}, {&dy, "doutput"}})
    if (in->desc.count() == dx.desc.count())
      require_no_overlap(in->desc, in->data, name, dx.desc, dx.data);
    else
      require_apart(in->desc, in->data, name, dx.desc, dx.data, "dinput");
  const CallerBuffer buffers[] = {{p.x.desc, p.x.data, "the input"},
                                  {p.target.desc, p.target.data, "the target"},
                                  {dy.desc, dy.data, "doutput"},
                                  {dx.desc, dx.data, "dinput", true}};
  with_aligned(stream, buffers, [&](void* const* data) {
    passes(stream).soft_margin_backward(stream, {{p.x.desc, data[0]}, {p.target.desc, data[1]}, p.reduction},
                                        {broadcast_gradient(dy.desc, dx.desc), data[2]}, {dx.desc, data[3]});
  });
}

void multi_margin(Stream& stream, const MultiMargin& p, const Output& y, const Workspace& workspace) {
  check(p, y.desc);
  for (const auto& [in, name] : {std::pair{&p.x, "the input"}, {&p.target, "the target"}, {&p.weight, "the weight"}})
    require_apart(in->desc, in->data, name, y.desc, y.data, "the output");
  check_workspace(workspace, workspace_size(stream.info(), p, y.desc), y.desc.type);
  const CallerBuffer buffers[] = {{p.x.desc, p.x.data, "the input"},
                                  {p.target.desc, p.target.data, "the target"},
                                  {p.weight.desc, p.weight.data, "the weight"},
                                  {y.desc, y.data, "the output", true}};
  with_aligned(stream, buffers, [&](void* const* data) {
    MultiMargin aligned = p;
    aligned.x.data = data[0];
    aligned.target.data = data[1];
    aligned.weight.data = data[2];
    passes(stream).multi_margin(stream, aligned, {y.desc, data[3]}, workspace);
  });
}

std::size_t workspace_size(const DeviceInfo& device, const SoftMargin& p, const TensorDesc& y) {
  check(p, y);
  return device.kind == DeviceKind::kCpu ? 0 : gpu_workspace_size(device, p);
}

std::size_t workspace_size(const DeviceInfo& device, const MultiMargin& p, const TensorDesc& y) {
  check(p, y);
  return device.kind == DeviceKind::kCpu ? 0 : gpu_workspace_size(device, p);
}

}  // namespace polymio::loss
