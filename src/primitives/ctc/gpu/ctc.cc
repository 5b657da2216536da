// The CTC loss on GPUs. The labels are on the host: they are copied to the workspace, sorted by class so that the
// posteriors of a class have one order of summation. In a capture kernels store them, and the graph keeps them.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/kernel_builder.h"
#include "kernels/gpu/portable/ctc_shape.h"
#include "primitives/ctc/passes.h"

namespace polymio::ctc {
namespace {

constexpr std::int64_t kStepThreads = 64, kPathThreads = 128;  // of a block, as in ctc.cl
constexpr std::int64_t kUnit = 4;                              // bytes
constexpr std::int64_t kSequenceUnits = sizeof(kernels::CtcSequence) / kUnit;

enum Entry { kStore, kSteps, kPaths, kGradients };
constexpr const char* kEntries[] = {"ctc_store", "ctc_steps", "ctc_paths", "ctc_gradients"};

KernelSpec spec_of(const DeviceInfo& device, DataType type, Entry entry) {
  KernelSpec spec{"primitives/ctc/gpu/ctc.cl",
                  kEntries[entry],
                  {fmt::format("-DIN={}", name_of(type)), fmt::format("-DOUT={}", name_of(type)), "-DNUM=float"}};
  if (device.gpu.fp64) spec.options.emplace_back("-DFP64");
  return spec;
}

SharedKernels& shared = *new SharedKernels;

const Kernel& kernel(Stream& stream, DataType type, Entry entry) {
  return shared.get(stream, static_cast<std::uint64_t>(type) * std::size(kEntries) + entry,
                    [&] { return spec_of(stream.info(), type, entry); });
}

/// The parts of the workspace and its units, without alignment.
struct Plan {
  Plan(const Problem& p, const Extent& e) {
    const std::int64_t states = 2 * p.batch() * p.steps() * e.most_states();
    parts.list = p.batch() * kSequenceUnits;
    // Labels, their order, and a start for each class and one more for each sequence.
    parts.log_sums = parts.list + 3 * e.all_labels + p.batch();
    parts.rows = parts.log_sums + p.batch() * p.steps();
    parts.fractions = parts.rows + states;
    parts.wholes = parts.fractions + p.batch();
    parts.totals = parts.wholes + states;
    units = parts.totals + p.batch();
  }
  kernels::CtcParts parts{};
  std::int64_t units;
};

kernels::CtcShape shape_of(const Problem& p, const Extent& e) {
  const auto narrow = [](std::int64_t v) { return static_cast<int>(v); };
  const auto &x = p.probs.strides, &gradient = p.gradients.strides;
  return {x[0],
          x[1],
          x[2],
          gradient[0],
          gradient[1],
          gradient[2],
          narrow(p.steps()),
          narrow(p.batch()),
          narrow(p.classes()),
          narrow(p.blank_class()),
          p.softmax ? 1 : 0,
          narrow(e.most_states())};
}

/// The sequences and their lists, as the workspace begins. The vector keeps its memory for the next call.
const std::vector<int>& lists_of(const Problem& p, const Sequences& s, const Extent& e) {
  thread_local std::vector<int> all;
  const auto batch = static_cast<std::size_t>(p.batch()), labels = static_cast<std::size_t>(e.all_labels);
  const std::size_t list = batch * kSequenceUnits;
  all.assign(list + 3 * labels + batch, 0);
  if (labels > 0) std::copy_n(s.labels, labels, all.begin() + static_cast<std::ptrdiff_t>(list));
  int *const order = all.data() + list + labels, *const starts = order + labels;
  int first = 0, ordered = 0, started = 0;
  for (std::size_t n = 0; n < batch; ++n) {
    const int count = s.label_lengths[n];
    const int* const own = s.labels + first;
    const int first_order = ordered, first_start = started;
    for (int i = 0; i < count; ++i)
      if (own[i] != p.blank_class()) order[ordered++] = i;
    std::sort(order + first_order, order + ordered,
              [&](int a, int b) { return own[a] != own[b] ? own[a] < own[b] : a < b; });
    for (int i = first_order; i < ordered; ++i)
      if (i == first_order || own[order[i]] != own[order[i - 1]]) starts[started++] = i - first_order;
    const int classes = started - first_start;
    starts[started++] = ordered - first_order;
    const kernels::CtcSequence sequence{first,
                                        count,
                                        s.input_lengths[n],
                                        static_cast<int>(labels) + first_order,
                                        static_cast<int>(2 * labels) + first_start,
                                        classes};
    std::memcpy(all.data() + n * kSequenceUnits, &sequence, sizeof sequence);
    first += count;
  }
  return all;
}

void store_lists(Stream& stream, const std::vector<int>& lists, DataType type, Buffer workspace) {
  if (!stream.capturing()) return stream.upload(workspace, lists.data(), lists.size() * sizeof(int));
  for (std::size_t at = 0; at < lists.size(); at += CTC_VALUES) {
    kernels::CtcValues values{};
    const std::size_t count = std::min<std::size_t>(CTC_VALUES, lists.size() - at);
    std::copy_n(lists.data() + at, count, values.value);
    launch(stream, kernel(stream, type, kStore), launch_shape(CTC_VALUES, 1), workspace, static_cast<std::int64_t>(at),
           static_cast<int>(count), values);
  }
}

}  // namespace

std::vector<KernelSpec> programs(const DeviceInfo& device, DataType type) {
  if (device.kind == DeviceKind::kCpu || !has_type(type)) return {};
  std::vector<KernelSpec> specs;
  for (const Entry entry : {kStore, kSteps, kPaths, kGradients}) specs.push_back(spec_of(device, type, entry));
  return specs;
}

std::size_t gpu_workspace_size(const Problem& p, const Extent& e) {
  return static_cast<std::size_t>(Plan(p, e).units * kUnit);
}

void run_on_gpu(Stream& stream, const Problem& p, const Sequences& s, const Args& args) {
  constexpr std::int64_t kMostBlocks = std::int64_t{1} << 30;
  if (p.steps() * p.batch() > kMostBlocks)
    fail(Status::kNotImplemented, "probs has {} steps of {} sequences: on a GPU their product may be up to {}",
         p.steps(), p.batch(), kMostBlocks);
  require(reinterpret_cast<std::uintptr_t>(args.workspace) % kUnit == 0,
          "the workspace starts at {}: it must be a multiple of {} bytes", args.workspace, kUnit);
  stream.check_memory(args.probs, "the buffer of probs");
  stream.check_memory(args.losses, "the buffer of losses");
  stream.check_memory(args.workspace, "the workspace");
  if (args.gradients) stream.check_memory(args.gradients, "the buffer of gradients");
  const DataType type = p.probs.type;
  const Extent extent = extent_of(p, s);
  const kernels::CtcParts parts = Plan(p, extent).parts;
  const kernels::CtcShape shape = shape_of(p, extent);
  const Buffer x(args.probs), losses(args.losses), gradients(args.gradients), workspace(args.workspace);
  const int has_gradient = args.gradients ? 1 : 0;
  store_lists(stream, lists_of(p, s, extent), type, workspace);
  const Launch steps = launch_shape(kStepThreads, p.steps() * p.batch());
  launch(stream, kernel(stream, type, kSteps), steps, x, gradients, workspace, shape, parts, has_gradient);
  launch(stream, kernel(stream, type, kPaths), launch_shape(kPathThreads, p.batch(), 1 + has_gradient), x, losses,
         workspace, shape, parts);
  if (args.gradients) launch(stream, kernel(stream, type, kGradients), steps, x, gradients, workspace, shape, parts);
}

}  // namespace polymio::ctc
