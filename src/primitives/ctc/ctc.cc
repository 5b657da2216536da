// SPDX-License-Identifier: MIT
#include "primitives/ctc/ctc.h"

#include <algorithm>

#include "core/aligned_buffer.h"
#include "core/problem_text.h"
#include "core/tensor_checks.h"
#include "primitives/ctc/passes.h"

namespace polymio::ctc {
namespace {

void check_type(const TensorDesc& t, const char* name) {
  require(has_type(t.type), "{} is {}: CTC losses take fp32, fp16 and bf16", name, name_of(t.type));
  require(t.vector_length == 1 && !t.has_cast(), "{} has channel vectors or a cast type, which CTC losses do not take",
          name);
}

void check_sequence(const Problem& p, std::int64_t n, const int* labels, int count, int steps, Status wrong) {
  if (steps < 0 || steps > p.steps())
    fail(wrong, "input length {} of sequence {}: 0 to {}, the steps of probs, are allowed", steps, n, p.steps());
  int repeats = 0;
  for (int i = 0; i < count; ++i) {
    if (labels[i] < 0 || labels[i] >= p.classes())
      fail(wrong, "label {} of sequence {} is {}: classes from 0 to {} are allowed", i, n, labels[i], p.classes() - 1);
    repeats += i > 0 && labels[i] == labels[i - 1] ? 1 : 0;
  }
  if (std::int64_t{count} + repeats > steps)
    fail(wrong,
         "sequence {} has {} labels, {} of them equal to the one before, for {} steps: there must be a step for each "
         "label, and one more before an equal label",
         n, count, repeats, steps);
}

}  // namespace

std::int64_t Problem::blank_class() const { return std::clamp<std::int64_t>(blank, 0, classes() - 1); }

void validate(const Problem& p, const Sequences& s, Status wrong) {
  check_type(p.probs, "probs");
  check_type(p.gradients, "gradients");
  require_same_type(p.gradients, "gradients", p.probs, "probs");
  for (const TensorDesc* t : {&p.probs, &p.gradients})
    if (t->rank != 3 || t->lens != p.probs.lens)
      fail(wrong, "probs has sizes {}, gradients {}: both must be [steps, batch, classes]", sizes_text(p.probs),
           sizes_text(p.gradients));
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  if (std::max({p.steps(), p.batch(), p.classes()}) > kMost)
    fail(wrong, "probs has sizes {}: each may be up to {}", sizes_text(p.probs), kMost);
  require_separate(p.gradients, "gradients");
  for (std::int64_t n = 0; n < p.batch(); ++n)
    if (s.label_lengths[n] < 0 || s.label_lengths[n] > p.steps())
      fail(wrong, "label length {} of sequence {}: 0 to {}, the steps of probs, are allowed", s.label_lengths[n], n,
           p.steps());
  std::int64_t first = 0;
  for (std::int64_t n = 0; n < p.batch(); ++n) {
    const int count = s.label_lengths[n];
    if (count > 0 && !s.labels) fail(Status::kBadParm, "labels is null");
    check_sequence(p, n, s.labels + first, count, s.input_lengths[n], wrong);
    first += count;
  }
}

Extent extent_of(const Problem& p, const Sequences& s) {
  Extent e;
  for (std::int64_t n = 0; n < p.batch(); ++n) {
    e.most_labels = std::max<std::int64_t>(e.most_labels, s.label_lengths[n]);
    e.all_labels += s.label_lengths[n];
  }
  return e;
}

std::size_t workspace_size(const DeviceInfo& device, const Problem& p, const Sequences& s) {
  const Extent e = extent_of(p, s);
  return device.kind == DeviceKind::kCpu ? cpu_workspace_size(p, e) : gpu_workspace_size(p, e);
}

void run(Stream& stream, const Problem& p, const Sequences& s, const Args& args) {
  const std::size_t needed = workspace_size(stream.info(), p, s);
  require(args.workspace && args.workspace_bytes >= needed,
          "the workspace has {} bytes, but {} are needed: see miopenGetCTCLossWorkspaceSize",
          args.workspace ? args.workspace_bytes : 0, needed);
  TensorDesc losses;
  losses.type = p.probs.type;
  losses.cast = p.probs.type;
  losses.rank = 1;
  losses.lens[0] = p.batch();
  losses.strides[0] = 1;
  require_apart(p.probs, args.probs, "probs", losses, args.losses, "losses");
  if (args.gradients) {
    require_apart(p.probs, args.probs, "probs", p.gradients, args.gradients, "gradients");
    require_apart(losses, args.losses, "losses", p.gradients, args.gradients, "gradients");
  }
  const CallerBuffer buffers[] = {{p.probs, args.probs, "the buffer of probs"},
                                  {losses, args.losses, "the buffer of losses", true},
                                  {p.gradients, args.gradients, "the buffer of gradients", true}};
  const auto run = [&](const Args& a) {
    stream.info().kind == DeviceKind::kCpu ? run_on_cpu(stream, p, s, a) : run_on_gpu(stream, p, s, a);
  };
  if (are_aligned(buffers)) return run(args);
  run_on_aligned(stream.info(), buffers, [&](void* const* data) {
    Args aligned = args;
    aligned.probs = data[0];
    aligned.losses = data[1];
    aligned.gradients = data[2];
    run(aligned);
  });
}

}  // namespace polymio::ctc
