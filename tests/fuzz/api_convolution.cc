// The API fuzzer's calls of convolutions: workspace, find, run, immediate mode, in three directions.
// SPDX-License-Identifier: MIT
#include "fuzz/api_convolution.h"

#include <cmath>

namespace polymio::fuzz {
namespace {

TensorModel misfit_of(Random& random, TensorModel m) {
  if (random.one_in(4)) {
    m.lens.push_back(1);
  } else if (random.one_in(4)) {
    m.type = miopenInt64;
  } else {
    m.lens[random.below(2)] +=
        4;  // not the filter, since a filter larger than the input is valid and gives an output of size 1
  }
  m.strides = packed_strides(m.lens);
  return m;
}

struct TypeSet {
  int x, w, y;
};

TypeSet random_types(Random& random, Direction d) {
  const int real = random.pick({miopenFloat, miopenFloat, miopenHalf, miopenBFloat16, miopenDouble, miopenFloat8_fnuz});
  if (real == miopenFloat8_fnuz) {
    const auto any = [&] {
      return static_cast<int>(
          random.pick({miopenFloat8_fnuz, miopenBFloat8_fnuz, POLYMIO_FLOAT8_E4M3FN, POLYMIO_FLOAT8_E5M2}));
    };
    return {any(), any(), any()};
  }
  if (d != Direction::kForward || !random.one_in(6)) return {real, real, real};
  return {miopenInt8, miopenInt8, static_cast<int>(random.pick({miopenInt8, miopenInt32, miopenFloat}))};
}

}  // namespace

ConvolutionShape::ConvolutionShape(Random& random, Direction d) {
  const auto n = static_cast<std::size_t>(random.pick({2, 2, 2, 1, 3}));
  conv.transposed = random.one_in(4);
  conv.groups = random.pick({1, 1, 2, 3});
  conv.pad.clear();
  conv.stride.clear();
  conv.dilation.clear();
  conv.output_pad.clear();
  const std::int64_t batch = random.between(1, 3), c = random.between(1, 3), k = random.between(1, 3);
  std::vector<std::int64_t> xs{batch, c * conv.groups}, ys{batch, k * conv.groups}, filter;
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t f = random.between(1, 3), dilation = random.between(1, 2), stride = random.between(1, 2);
    const std::int64_t reach = dilation * (f - 1), pad = random.between(0, conv.transposed ? reach / 2 : 2);
    const std::int64_t in = std::max<std::int64_t>(random.between(1, 6), reach + 1 - 2 * pad);
    const std::int64_t extra = conv.transposed ? random.between(0, stride - 1) : 0;
    xs.push_back(in);
    filter.push_back(f);
    ys.push_back(conv.transposed ? stride * (in - 1) + 1 + reach - 2 * pad + extra
                                 : (in + 2 * pad - 1 - reach) / stride + 1);
    conv.pad.push_back(static_cast<int>(pad));
    conv.stride.push_back(static_cast<int>(stride));
    conv.dilation.push_back(static_cast<int>(dilation));
    conv.output_pad.push_back(static_cast<int>(extra));
  }
  std::vector<std::int64_t> ws{conv.transposed ? c * conv.groups : k * conv.groups, conv.transposed ? k : c};
  ws.insert(ws.end(), filter.begin(), filter.end());
  const TypeSet types = random_types(random, conv.transposed ? Direction::kBackwardData : d);
  x = random_tensor(random, static_cast<miopenDataType_t>(types.x), xs);
  w = random_tensor(random, static_cast<miopenDataType_t>(types.w), ws);
  y = random_tensor(random, static_cast<miopenDataType_t>(types.y), ys);
  stochastic = random.one_in(2);
  conv.math = random.pick({1, 1, 0, 2, 3});
}

ConvolutionCase::ConvolutionCase(World& world, Direction d, const ConvolutionShape& s)
    : world(world),
      direction(d),
      shape(s),
      x(world, s.x),
      w(world, s.w),
      y(world, s.y),
      misfit(world, misfit_of(world.random, d == Direction::kForward        ? s.y
                                            : d == Direction::kBackwardData ? s.x
                                                                            : s.w)),
      alpha_value(miopenFloat, 1),
      beta_value(miopenFloat, 0) {
  const ConvolutionModel& c = shape.conv;
  bool right = miopenCreateConvolutionDescriptor(&conv) == kOk;
  const int n = static_cast<int>(c.pad.size());
  right = right && miopenInitConvolutionNdDescriptor(conv, n, c.pad.data(), c.stride.data(), c.dilation.data(),
                                                     c.transposed ? miopenTranspose : miopenConvolution) == kOk;
  right = right && miopenSetConvolutionGroupCount(conv, c.groups) == kOk &&
          miopenSetTransposeConvNdOutputPadding(conv, n, c.output_pad.data()) == kOk &&
          polymioSetConvolutionMathMode(conv, static_cast<polymioMathMode_t>(c.math)) == kOk &&
          miopenSetConvolutionAttribute(conv, MIOPEN_CONVOLUTION_ATTRIB_FP8_ROUNDING_MODE, shape.stochastic) == kOk &&
          miopenHiddenSetConvolutionFindMode(conv, world.random.pick({1, 2, 3, 5})) == kOk;
  if (!right) world.report(std::string("a convolution cannot be described: ") + polymioGetLastError());
  world.use(Kind::kConvolution, conv);
  x.fill(-3, 3);
  w.fill(-3, 3);
  y.fill(-3, 3);
  call = {world.handle(), x.desc, w.desc, y.desc, conv, x.data(), w.data(), y.data(), nullptr, nullptr, nullptr, 0};
  set_scalars(1, 0);
}

ConvolutionCase::~ConvolutionCase() {
  miopenDestroyConvolutionDescriptor(conv);
  world.destroyed(Kind::kConvolution, conv);
}

void ConvolutionCase::set_scalars(double a, double b) {
  alpha = a;
  beta = b;
  alpha_value = Scalar(shape.y.type, a);
  beta_value = Scalar(shape.y.type, b);
  call.alpha = alpha_value.get();
  call.beta = beta_value.get();
  output().buffer.fill(0xff);
  if (b != 0) output().fill(-3, 3);
  before = output().buffer.copy();
}

std::vector<miopenConvSolution_t> ConvolutionCase::solutions() {
  std::vector<miopenConvSolution_t> list(10);
  std::size_t count = 0;
  if (call.solutions(direction, list.size(), &count, list.data()) != kOk || count == 0)
    world.report(std::string("no solutions: ") + polymioGetLastError());
  list.resize(count);
  return list;
}

void ConvolutionCase::expect_right(const std::string& what) {
  const bool swap = shape.conv.transposed;
  ref::Convolution math;
  math.direction = direction == Direction::kBackwardWeights     ? ref::Direction::kBackwardWeights
                   : (direction == Direction::kForward) != swap ? ref::Direction::kForward
                                                                : ref::Direction::kBackwardData;
  math.x = swap ? y.plain : x.plain;
  math.w = w.plain;
  math.y = swap ? x.plain : y.plain;
  const ConvolutionModel& c = shape.conv;
  math.pad = {c.pad.begin(), c.pad.end()};
  math.stride = {c.stride.begin(), c.stride.end()};
  math.dilation = {c.dilation.begin(), c.dilation.end()};
  math.groups = c.groups;
  math.alpha = alpha;
  math.beta = beta;
  Operand* const out = &output();
  const auto contents = [&](Operand& o) { return static_cast<const void*>(&o == out ? before.data() : o.data()); };
  const ref::Operands data{contents(swap ? y : x), contents(w), contents(swap ? x : y)};
  auto how = ref::arithmetic(math);
  how.growth = 1000;  // bound for any transform; a wrong result differs by more
  how.stochastic_rounding = shape.stochastic;
  if (c.math >= polymioMathTf32) how.input_rounding = 0x1p-8;
  auto want = ref::evaluate(math, data, 1);
  // Rounding errors of a transform come from the whole tile, so outputs without products have some, too.
  if (how.accumulate != ref::Type::kInt64)
    for (double& m : want.magnitude) m += 9 * std::fabs(alpha);
  expect_result(world, how, out->plain, out->buffer.data(), want, before, what);
}

void ConvolutionCase::spoil(Draw& d, bool buffers, bool scalars) {
  call.handle = d.object(Kind::kHandle, call.handle);
  call.conv = d.object(Kind::kConvolution, call.conv);
  call.x_desc = d.object(Kind::kTensor, call.x_desc);
  call.w_desc = d.object(Kind::kTensor, call.w_desc);
  call.y_desc = d.object(Kind::kTensor, call.y_desc);
  if (d.misfit()) {
    auto& out = direction == Direction::kForward        ? call.y_desc
                : direction == Direction::kBackwardData ? call.x_desc
                                                        : call.w_desc;
    out = misfit.desc;
    d.bad();
  }
  if (buffers) {
    call.x = d.pointer(call.x);
    call.w = d.pointer(call.w);
    call.y = d.pointer(call.y);
  }
  if (scalars) {
    call.alpha = d.pointer(call.alpha);
    call.beta = d.pointer(call.beta);
  }
}

namespace {

template <Direction kDirection>
void workspace_size(World& w) {
  Draw d(w);
  ConvolutionCase c(w, kDirection);
  c.spoil(d, false, false);
  std::size_t bytes = 0;
  d.check(c.call.workspace_size(kDirection, d.pointer(&bytes)));
}

template <Direction kDirection>
void find(World& w) {
  Draw d(w);
  ConvolutionCase c(w, kDirection);
  std::size_t bytes = 0;
  c.call.workspace_size(kDirection, &bytes);
  if (d.random().one_in(3)) bytes = d.random().below(bytes + 1);
  Workspace workspace(w, bytes);
  c.call.workspace = workspace.data();
  c.call.workspace_bytes = bytes;
  c.spoil(d, true, false);
  int request = d.random().pick({1, 2, 5, INT_MAX}), count = -1;
  if (d.wrong()) {
    request = d.random().pick({0, -1, INT_MIN});
    d.bad();
  }
  miopenConvAlgoPerf_t results[8];
  int* const p_count = d.pointer(&count);
  auto* const p_results = d.pointer(results);
  if (!d.check(c.call.find(kDirection, request, p_count, p_results, d.random().one_in(10))) || !d.clean()) return;
  if (count < 1 || count > std::min(request, 5)) return w.report(std::to_string(count) + " results");
  for (int i = 0; i < count; ++i)
    if (results[i].memory > bytes || !(results[i].time >= 0)) w.report("a result needs more workspace than was given");
  // The found algorithm runs.
  c.set_scalars(1, 0);
  if (c.call.run(kDirection, results[0].fwd_algo) != kOk)
    w.report(std::string("what was found does not run: ") + polymioGetLastError());
  else
    c.expect_right("found algorithm " + std::to_string(results[0].fwd_algo));
}

template <Direction kDirection>
void run(World& w) {
  Draw d(w);
  ConvolutionCase c(w, kDirection);
  std::size_t bytes = 0;
  for (const auto& s : c.solutions()) bytes = std::max(bytes, s.workspace_size);
  const bool is_short = bytes > 0 && d.random().one_in(3);
  if (is_short) bytes = d.random().below(bytes);
  Workspace workspace(w, bytes);
  c.call.workspace = workspace.data();
  c.call.workspace_bytes = bytes;
  c.set_scalars(d.random().pick({1.0, 1.0, 0.5, 0.0}), d.random().pick({0.0, 0.0, 1.0, -2.0}));
  int algorithm = d.random().pick({1, 1, 0, 2, 3, 5});
  if (d.wrong()) {
    algorithm = d.random().pick({-1, 6, 100, INT_MAX, INT_MIN});
    d.bad();
  }
  c.spoil(d, true, true);
  if (algorithm != miopenConvolutionFwdAlgoDirect) {
    d.allow(miopenStatusNotImplemented);
    if (is_short) d.allow(kBad);
  }
  const bool alias = w.limits.alone && d.clean() && d.random().one_in(20) && c.x.buffer.size() >= c.y.buffer.size();
  if (alias) c.call.y = c.call.x;  // any result is allowed, memory must be safe
  if (d.check(c.call.run(kDirection, algorithm), c.world.entry->name + (" " + std::to_string(algorithm))) &&
      d.clean() && !alias)
    c.expect_right("algorithm " + std::to_string(algorithm));
}

template <Direction kDirection>
void solution_count(World& w) {
  Draw d(w);
  ConvolutionCase c(w, kDirection);
  c.spoil(d, false, false);
  std::size_t count = 0;
  if (d.check(c.call.solution_count(kDirection, d.pointer(&count))) && (count < 1 || count > 10))
    w.report(std::to_string(count) + " solutions");
}

template <Direction kDirection>
void solutions(World& w) {
  Draw d(w);
  ConvolutionCase c(w, kDirection);
  c.spoil(d, false, false);
  const std::size_t most = d.random().pick({std::size_t{0}, std::size_t{1}, std::size_t{3}, std::size_t{10}, SIZE_MAX});
  std::size_t count = 99;
  miopenConvSolution_t list[11];
  std::memset(static_cast<void*>(list), 0x5a, sizeof list);
  if (!d.check(c.call.solutions(kDirection, most, d.optional(&count), d.optional(list)))) return;
  if (count != 99 && count > std::min<std::size_t>(most, 10)) w.report(std::to_string(count) + " solutions");
  if (count < 10 && list[count].solution_id != 0x5a5a5a5a5a5a5a5a) w.report("wrote beyond the solutions");
}

/// The id of a solution of the case, or an invalid one.
std::uint64_t solution_id(Draw& d, const std::vector<miopenConvSolution_t>& list, miopenConvSolution_t& chosen) {
  if (!list.empty()) chosen = d.random().pick(list);
  if (!d.wrong()) return chosen.solution_id;
  d.bad();
  return d.random().pick({std::uint64_t{0}, std::uint64_t{999999}, UINT64_MAX});
}

template <Direction kDirection>
void solution_workspace(World& w) {
  Draw d(w);
  ConvolutionCase c(w, kDirection);
  const auto list = c.solutions();
  miopenConvSolution_t chosen{};
  const std::uint64_t id = solution_id(d, list, chosen);
  c.spoil(d, false, false);
  std::size_t bytes = 0;
  d.check(c.call.solution_workspace(kDirection, id, d.pointer(&bytes)));
}

template <Direction kDirection>
void compile(World& w) {
  Draw d(w);
  ConvolutionCase c(w, kDirection);
  const auto list = c.solutions();
  miopenConvSolution_t chosen{};
  const std::uint64_t id = solution_id(d, list, chosen);
  c.spoil(d, false, false);
  d.check(c.call.compile(kDirection, id));
}

template <Direction kDirection>
void immediate(World& w) {
  Draw d(w);
  ConvolutionCase c(w, kDirection);
  const auto list = c.solutions();
  miopenConvSolution_t chosen{};
  const std::uint64_t id = solution_id(d, list, chosen);
  std::size_t bytes = 0;
  c.call.solution_workspace(kDirection, chosen.solution_id, &bytes);
  const bool is_short = bytes > 0 && d.random().one_in(4);
  if (is_short) {
    bytes = d.random().below(bytes);
    d.allow(kBad);
  }
  Workspace workspace(w, bytes);
  c.call.workspace = workspace.data();
  c.call.workspace_bytes = bytes;
  c.spoil(d, true, false);
  if (d.check(c.call.immediate(kDirection, id), c.world.entry->name + (" " + std::to_string(id))) && d.clean())
    c.expect_right("solution " + std::to_string(id));
}

/// The output sizes of a case, 2-D or of any rank.
template <bool kAnyRank>
void output_sizes(World& w) {
  Draw d(w);
  ConvolutionCase c(w, Direction::kForward);
  const bool plane = c.shape.conv.pad.size() == 2;
  const auto conv = d.object(Kind::kConvolution, c.conv);
  const auto x = d.object(Kind::kTensor, c.x.desc), f = d.object(Kind::kTensor, c.w.desc);
  std::vector<int> sizes(6, -5);
  int rank = 0;
  if (!kAnyRank && !plane) d.refuse({miopenStatusUnknownError});
  int* const p = d.pointer(sizes.data());
  const Status got = kAnyRank ? miopenGetConvolutionNdForwardOutputDim(conv, x, f, d.optional(&rank), p)
                              : miopenGetConvolutionForwardOutputDim(conv, x, f, p, sizes.data() + 1, sizes.data() + 2,
                                                                     sizes.data() + 3);
  if (!d.check(got)) return;
  const auto& want = c.shape.y.lens;
  if (!std::equal(want.begin(), want.end(), sizes.begin()) || sizes[want.size()] != -5)
    w.report("the sizes are not those of the reference");
}

void extra_workspace(World& w) {
  Draw d(w);
  ConvolutionCase c(w, Direction::kBackwardWeights);
  const auto kind = d.enumerator<miopenAlphaBetaCase_t>(up_to(2), {3, 4, -1, INT_MAX});
  const auto conv = d.object(Kind::kConvolution, c.conv);
  const auto x = d.object(Kind::kTensor, c.x.desc), y = d.object(Kind::kTensor, c.y.desc);
  std::size_t bytes = 1;
  d.check(miopenConvolutionABBackwardWeightsGetWorkSpaceSize(kind, x, y, conv, d.pointer(&bytes)));
}

constexpr auto kForward = Direction::kForward, kData = Direction::kBackwardData, kWeights = Direction::kBackwardWeights;

Registration g_entries[] = {
    {"miopenConvolutionForwardGetWorkSpaceSize", workspace_size<kForward>},
    {"miopenConvolutionBackwardDataGetWorkSpaceSize", workspace_size<kData>},
    {"miopenConvolutionBackwardWeightsGetWorkSpaceSize", workspace_size<kWeights>},
    {"miopenFindConvolutionForwardAlgorithm", find<kForward>},
    {"miopenFindConvolutionBackwardDataAlgorithm", find<kData>},
    {"miopenFindConvolutionBackwardWeightsAlgorithm", find<kWeights>},
    {"miopenConvolutionForward", run<kForward>},
    {"miopenConvolutionBackwardData", run<kData>},
    {"miopenConvolutionBackwardWeights", run<kWeights>},
    {"miopenConvolutionForwardGetSolutionCount", solution_count<kForward>},
    {"miopenConvolutionBackwardDataGetSolutionCount", solution_count<kData>},
    {"miopenConvolutionBackwardWeightsGetSolutionCount", solution_count<kWeights>},
    {"miopenConvolutionForwardGetSolution", solutions<kForward>},
    {"miopenConvolutionBackwardDataGetSolution", solutions<kData>},
    {"miopenConvolutionBackwardWeightsGetSolution", solutions<kWeights>},
    {"miopenConvolutionForwardGetSolutionWorkspaceSize", solution_workspace<kForward>},
    {"miopenConvolutionBackwardDataGetSolutionWorkspaceSize", solution_workspace<kData>},
    {"miopenConvolutionBackwardWeightsGetSolutionWorkspaceSize", solution_workspace<kWeights>},
    {"miopenConvolutionForwardCompileSolution", compile<kForward>},
    {"miopenConvolutionBackwardDataCompileSolution", compile<kData>},
    {"miopenConvolutionBackwardWeightsCompileSolution", compile<kWeights>},
    {"miopenConvolutionForwardImmediate", immediate<kForward>},
    {"miopenConvolutionBackwardDataImmediate", immediate<kData>},
    {"miopenConvolutionBackwardWeightsImmediate", immediate<kWeights>},
    {"miopenGetConvolutionForwardOutputDim", output_sizes<false>},
    {"miopenGetConvolutionNdForwardOutputDim", output_sizes<true>},
    {"miopenConvolutionABBackwardWeightsGetWorkSpaceSize", extra_workspace},
};

}  // namespace
}  // namespace polymio::fuzz
