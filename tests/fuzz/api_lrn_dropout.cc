// The API fuzzer's local response normalisations and dropouts: descriptors, forward and backward against the reference.
// SPDX-License-Identifier: MIT
#include "fuzz/api.h"
#include "reference/dropout.h"
#include "reference/lrn.h"

namespace polymio::fuzz {
namespace {

using Lrn = Owned<miopenLRNDescriptor_t, miopenCreateLRNDescriptor, miopenDestroyLRNDescriptor>;
using Dropout = Owned<miopenDropoutDescriptor_t, miopenCreateDropoutDescriptor, miopenDestroyDropoutDescriptor>;

std::vector<std::int64_t> sizes(Draw& d, std::int64_t least_rank, std::int64_t rank) {
  std::vector<std::int64_t> lens;
  for (std::int64_t n = d.random().between(least_rank, rank); n > 0; --n) lens.push_back(d.random().between(1, 6));
  return lens;
}

miopenDataType_t float_type(Draw& d) {
  return static_cast<miopenDataType_t>(d.random().pick(std::vector<int>{0, 1, 5, 6}));
}

void keep_lrn(World& w) {
  Draw d(w);
  const Lrn lrn;
  const auto mode = d.enumerator<miopenLRNMode_t>({0, 1}, {2, -1, INT_MAX, INT_MIN});
  unsigned n = d.random().pick({1u, 4u, 0x7fffffffu, 0xffffffffu});
  if (d.wrong()) {
    n = 0;
    d.bad();
  }
  const double alpha = d.random().pick({1.0, -2.0, 1e300}), beta = d.random().pick({0.75, 0.0});
  if (!d.check(miopenSetLRNDescriptor(d.pointer(lrn.desc), mode, n, alpha, beta, 2))) return;
  miopenLRNMode_t got_mode;
  unsigned got_n = 0;
  double got[3] = {};
  if (d.check(miopenGetLRNDescriptor(lrn.desc, d.pointer(&got_mode), &got_n, got, got + 1, d.pointer(got + 2))) &&
      (got_mode != mode || got_n != n || got[0] != alpha || got[1] != beta || got[2] != 2))
    w.report("the values are not what was set");
}

/// Forward with a workspace or without, then backward.
void run_lrn(World& w) {
  Draw d(w);
  const Lrn lrn;
  ref::Lrn p;
  const auto type = float_type(d);
  const auto lens = sizes(d, 2, 5);
  Operand x(w, random_tensor(d.random(), type, lens)), y(w, random_tensor(d.random(), type, lens));
  Operand dx(w, random_tensor(d.random(), type, lens)), dy(w, random_tensor(d.random(), type, lens));
  for (Operand* t : {&x, &y, &dx, &dy}) t->fill(-3, 3);
  p.cross = d.random().one_in(2);
  p.n = d.random().between(1, 8);
  p.beta = d.random().pick({0.75, 0.5, 1.0, 0.3});
  p.x = x.plain;
  p.y = p.out = y.plain;
  p.dy = dy.plain;
  miopenSetLRNDescriptor(lrn.desc, p.cross ? miopenLRNCrossChannel : miopenLRNWithinChannel, static_cast<unsigned>(p.n),
                         p.alpha, p.beta, p.k);
  std::size_t bytes = 0;
  if (!d.check(miopenLRNGetWorkSpaceSize(y.desc, d.pointer(&bytes)))) return;
  const bool stored = d.random().one_in(2);
  Buffer workspace(w, stored ? bytes : 0, 8);
  void* const scale = stored ? workspace.data() : nullptr;
  const auto y_before = y.buffer.copy(), dx_before = dx.buffer.copy();
  if (!d.check(miopenLRNForward(d.object<miopenHandle_t>(Kind::kHandle), d.pointer(lrn.desc), nullptr, x.desc,
                                d.pointer(x.data()), nullptr, y.desc, d.pointer(y.data()), stored, scale)) ||
      !d.clean())
    return;
  expect_result(w, arithmetic(p), y.plain, y.buffer.data(), evaluate(p, x.data(), nullptr, nullptr, nullptr), y_before,
                "forward");
  p.backward = true;
  p.out = dx.plain;
  if (!d.check(miopenLRNBackward(w.handle(), lrn.desc, nullptr, y.desc, d.pointer(y.data()), dy.desc,
                                 d.pointer(dy.data()), x.desc, x.data(), nullptr, dx.desc, d.pointer(dx.data()),
                                 scale)) ||
      !d.clean())
    return;
  expect_result(w, arithmetic(p), dx.plain, dx.buffer.data(), evaluate(p, x.data(), y.data(), dy.data(), scale),
                dx_before, "backward");
}

void keep_dropout(World& w) {
  Draw d(w);
  const Dropout dropout;
  std::size_t bytes = 0;
  if (!d.check(miopenDropoutGetStatesSize(w.handle(), d.pointer(&bytes)))) return;
  const float rate = d.random().pick({0.0f, 0.5f, 1.0f, -1.0f});
  const unsigned long long seed = d.random().below(1000);
  void* const states = &bytes;  // not used
  const auto rng = d.enumerator<miopenRNGType_t>({0}, {1, -1, INT_MAX});
  if (!d.check(miopenRestoreDropoutDescriptor(d.pointer(dropout.desc), w.handle(), rate, states, bytes, seed, true,
                                              false, rng)))
    return;
  float got_rate = 0;
  void* got_states = nullptr;
  unsigned long long got_seed = 0;
  bool use_mask = false, state_evo = true;
  miopenRNGType_t got_rng;
  if (d.check(miopenGetDropoutDescriptor(dropout.desc, w.handle(), d.pointer(&got_rate), &got_states, &got_seed,
                                         &use_mask, &state_evo, d.pointer(&got_rng))) &&
      (got_rate != rate || got_states != states || got_seed != seed || !use_mask || state_evo))
    w.report("the values are not what was set");
}

/// Forward with a reserve space or without, then backward.
void run_dropout(World& w) {
  Draw d(w);
  const Dropout dropout;
  const auto type = float_type(d);
  const auto lens = sizes(d, 1, 5);
  Operand x(w, random_tensor(d.random(), type, lens)), y(w, random_tensor(d.random(), type, lens));
  for (Operand* t : {&x, &y}) t->fill(-3, 3);
  const std::int64_t count = x.plain.count(), generators = ref::generators_for(count);
  const float rate = d.random().pick({0.0f, 0.3f, 1.0f});
  Buffer states(w, static_cast<std::size_t>(generators) * 24, 4);
  if (!d.check(miopenSetDropoutDescriptor(d.pointer(dropout.desc), d.object<miopenHandle_t>(Kind::kHandle), rate,
                                          states.data(), static_cast<std::size_t>(generators) * 24, 7, false, true,
                                          MIOPEN_RNG_PSEUDO_XORWOW)))
    return;
  std::size_t bytes = 0;
  if (!d.check(miopenDropoutGetReserveSpaceSize(x.desc, d.pointer(&bytes)))) return;
  const bool stored = d.random().one_in(2);
  Buffer reserve(w, stored ? bytes : 0, 1);
  void* const mask = stored ? reserve.data() : nullptr;
  auto started = ref::start_generators(7, generators);
  const auto kept = ref::draw_mask(started, count, rate);
  ref::Arithmetic how;
  how.output = x.plain.type;
  how.accumulate = how.output == ref::Type::kDouble ? ref::Type::kDouble : ref::Type::kFloat;
  for (const auto run : {miopenDropoutForward, miopenDropoutBackward}) {
    const auto before = y.buffer.copy();
    if (!d.check(run(w.handle(), dropout.desc, x.desc, x.desc, d.pointer(x.data()), y.desc, d.pointer(y.data()), mask,
                     bytes)) ||
        !d.clean())
      return;
    expect_result(w, how, y.plain, y.buffer.data(), ref::dropout(x.plain, x.data(), kept.data(), rate), before,
                  "dropout");
  }
}

Registration g_entries[] = {{"miopenCreateLRNDescriptor", keep_lrn},
                            {"miopenDestroyLRNDescriptor", keep_lrn},
                            {"miopenSetLRNDescriptor", keep_lrn},
                            {"miopenGetLRNDescriptor", keep_lrn},
                            {"miopenLRNGetWorkSpaceSize", run_lrn},
                            {"miopenLRNForward", run_lrn},
                            {"miopenLRNBackward", run_lrn},
                            {"miopenCreateDropoutDescriptor", keep_dropout},
                            {"miopenDestroyDropoutDescriptor", keep_dropout},
                            {"miopenDropoutGetStatesSize", keep_dropout},
                            {"miopenGetDropoutDescriptor", keep_dropout},
                            {"miopenRestoreDropoutDescriptor", keep_dropout},
                            {"miopenSetDropoutDescriptor", run_dropout},
                            {"miopenDropoutGetReserveSpaceSize", run_dropout},
                            {"miopenDropoutForward", run_dropout},
                            {"miopenDropoutBackward", run_dropout}};

}  // namespace
}  // namespace polymio::fuzz
