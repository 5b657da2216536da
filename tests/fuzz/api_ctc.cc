// The API fuzzer's CTC losses: descriptors, and losses and gradients against the reference.
// SPDX-License-Identifier: MIT
#include "fuzz/api.h"
#include "reference/ctc.h"

namespace polymio::fuzz {
namespace {

using Descriptor = Owned<miopenCTCLossDescriptor_t, miopenCreateCTCLossDescriptor, miopenDestroyCTCLossDescriptor>;
constexpr auto kAlgorithm = MIOPEN_CTC_LOSS_ALGO_DETERMINISTIC;

void keep_ctc(World& w) {
  Draw d(w);
  const Descriptor ctc;
  const auto type = static_cast<miopenDataType_t>(d.random().pick({0, 1, 5, 99}));
  const int blank = d.random().pick({0, 3, -1, INT_MAX, INT_MIN});
  const bool softmax = d.random().one_in(2);
  if (!d.check(miopenSetCTCLossDescriptor(d.pointer(ctc.desc), type, blank, softmax))) return;
  auto got_type = miopenInt8;
  int got_blank = 1;
  bool got_softmax = !softmax;
  if (d.check(miopenGetCTCLossDescriptor(ctc.desc, d.pointer(&got_type), &got_blank, &got_softmax)) &&
      (got_type != type || got_blank != blank || got_softmax != softmax))
    w.report("the values are not what was set");
}

/// Sequences that fit, or one mistake, for which the query has the first status and the run the second.
ref::Ctc random_problem(Draw& d, const std::vector<std::int64_t>& lens) {
  Random& random = d.random();
  ref::Ctc p;
  for (std::int64_t n = 0; n < lens[1]; ++n) {
    const int steps = static_cast<int>(random.between(0, lens[0]));
    const int count = static_cast<int>(random.between(0, (steps + 1) / 2));
    p.input_lengths.push_back(steps);
    p.label_lengths.push_back(count);
    for (int i = 0; i < count; ++i) p.labels.push_back(static_cast<int>(random.between(0, lens[2] - 1)));
  }
  if (!d.wrong()) return p;
  const std::size_t n = static_cast<std::size_t>(random.between(0, lens[1] - 1));
  switch (random.between(0, 2)) {
    case 0: p.input_lengths[n] = random.pick({static_cast<int>(lens[0]) + 1, -1, INT_MAX, INT_MIN}); break;
    case 1: p.label_lengths[n] = random.pick({-1, INT_MIN}); break;
    default:
      if (p.labels.empty()) return p;
      p.labels[0] = random.pick({-1, static_cast<int>(lens[2]), INT_MAX});
  }
  d.refuse({kBad, miopenStatusUnknownError});
  return p;
}

void run_ctc(World& w) {
  Draw d(w);
  Random& random = d.random();
  const Descriptor ctc;
  const auto type = static_cast<miopenDataType_t>(random.pick({miopenFloat, miopenHalf, miopenBFloat16}));
  const std::vector<std::int64_t> lens = {random.between(1, 6), random.between(1, 4), random.between(1, 20)};
  Operand x(w, random_tensor(random, type, lens)), gradient(w, random_tensor(random, type, lens)),
      losses(w, {type, {lens[1]}, {1}});
  x.fill(-3, 3);
  for (Operand* o : {&losses, &gradient}) o->buffer.fill(0xff);
  ref::Ctc p = random_problem(d, lens);
  p.probs = x.plain;
  p.gradients = gradient.plain;
  p.softmax = random.one_in(2);
  const int blank = random.pick({0, 1, -5, INT_MAX});
  p.blank = std::clamp<std::int64_t>(blank, 0, lens[2] - 1);
  miopenSetCTCLossDescriptor(ctc.desc, type, blank, p.softmax);
  std::size_t bytes = 0;
  const int *labels = p.labels.data(), *counts = p.label_lengths.data(), *steps = p.input_lengths.data();
  if (!d.check(miopenGetCTCLossWorkspaceSize(d.object<miopenHandle_t>(Kind::kHandle), d.object(Kind::kTensor, x.desc),
                                             gradient.desc, labels, d.pointer(counts), steps, kAlgorithm,
                                             d.pointer(ctc.desc), d.pointer(&bytes))))
    return;
  Buffer workspace(w, bytes, 8);
  void* const to = d.optional(gradient.data());
  if (!d.check(miopenCTCLoss(d.object<miopenHandle_t>(Kind::kHandle), x.desc, d.pointer(x.data()), labels, counts,
                             d.pointer(steps), d.pointer(losses.data()), gradient.desc, to, kAlgorithm,
                             d.pointer(ctc.desc), workspace.data(), bytes)) ||
      !d.clean())
    return;
  const ref::CtcResults want = evaluate(p, x.data());
  const auto expect = [&](Operand& o, const ref::Result& result, const char* name) {
    expect_result(w, arithmetic(p), o.plain, o.buffer.data(), result, std::vector<unsigned char>(o.buffer.size(), 0xff),
                  name);
  };
  expect(losses, want.losses, "losses");
  if (to) expect(gradient, want.gradients, "gradients");
}

Registration g_entries[] = {{"miopenCreateCTCLossDescriptor", keep_ctc}, {"miopenDestroyCTCLossDescriptor", keep_ctc},
                            {"miopenSetCTCLossDescriptor", keep_ctc},    {"miopenGetCTCLossDescriptor", keep_ctc},
                            {"miopenGetCTCLossWorkspaceSize", run_ctc},  {"miopenCTCLoss", run_ctc}};

}  // namespace
}  // namespace polymio::fuzz
