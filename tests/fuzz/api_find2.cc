// The API fuzzer's calls of Find 2.0: problems, options, solutions; and other functions of problems: packed weights,
// options by time and workspace, explanations, tuning.
// SPDX-License-Identifier: MIT
#include "fuzz/api_convolution.h"

namespace polymio::fuzz {
namespace {

constexpr Status kUnsupported = miopenStatusUnsupportedOp;

miopenTensorArgumentId_t id_of(std::uint32_t number) {
  miopenTensorArgumentId_t id;
  static_assert(sizeof id == sizeof number);
  std::memcpy(&id, &number, sizeof id);
  return id;
}

Direction random_direction(Random& random) {
  return random.pick({Direction::kForward, Direction::kBackwardData, Direction::kBackwardWeights});
}

/// A convolution as a problem, sometimes without one of its tensors.
struct ProblemCase : ConvolutionCase {
  ProblemCase(World& w, Direction d, bool complete = true) : ConvolutionCase(w, d) {
    const miopenTensorDescriptor_t descs[] = {x.desc, this->w.desc, y.desc};
    const std::size_t missing = complete ? 3 : w.random.below(3);
    bool right = miopenCreateConvProblem(&problem, conv, static_cast<miopenProblemDirection_t>(d)) == kOk;
    for (std::size_t i = 0; i < 3; ++i)
      if (i != missing)
        right = right &&
                miopenSetProblemTensorDescriptor(problem, id_of(static_cast<std::uint32_t>(i + 1)), descs[i]) == kOk;
    if (!right) w.report(std::string("a problem cannot be described: ") + polymioGetLastError());
    w.use(Kind::kProblem, problem);
  }
  explicit ProblemCase(World& w) : ProblemCase(w, random_direction(w.random)) {}
  ~ProblemCase() {
    miopenDestroyProblem(problem);
    world.destroyed(Kind::kProblem, problem);
  }

  /// Up to `most` solutions, which the caller destroys.
  std::vector<miopenSolution_t> find(miopenFindOptions_t options = nullptr, std::size_t most = 10) {
    std::vector<miopenSolution_t> list(most);
    std::size_t count = 0;
    if (miopenFindSolutions(call.handle, problem, options, list.data(), &count, most) != kOk || count == 0)
      world.report(std::string("nothing was found: ") + polymioGetLastError());
    list.resize(count);
    for (const auto s : list) world.use(Kind::kSolution, s);
    return list;
  }

  miopenProblem_t problem = nullptr;
};

/// A live solution, found if there is none.
miopenSolution_t some_solution(World& w) {
  if (!w.has(Kind::kSolution)) {
    ProblemCase c(w);
    for (const auto s : c.find()) w.created(Kind::kSolution, s);
  }
  return w.live_as<miopenSolution_t>(Kind::kSolution);
}

/// A live Find 2.0 object that cannot be run: a problem of one operation without tensors.
struct Operation {
  Operation(World& w, int kind, miopenProblemDirection_t direction) : world(w), kind(kind) {
    if (kind == 0)
      miopenCreateConvProblem(&problem, w.live_as<miopenConvolutionDescriptor_t>(Kind::kConvolution), direction);
    else if (kind == 1)
      miopenCreateBiasProblem(&problem, direction);
    else
      miopenCreateActivationProblem(&problem, w.live_as<miopenActivationDescriptor_t>(Kind::kActivation), direction);
    w.use(Kind::kProblem, problem);
  }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  ~Operation() {
    miopenDestroyProblem(problem);
    world.destroyed(Kind::kProblem, problem);
  }
  World& world;
  int kind;
  miopenProblem_t problem = nullptr;
};

void set_problem_tensor(World& w) {
  Draw d(w);
  static const std::vector<int> kIds[] = {{1, 2, 3}, {41, 42, 43}, {37, 38, 39, 40}};
  const Operation o(w, static_cast<int>(d.random().below(3)), miopenProblemDirectionForward);
  const auto id = d.enumerator<miopenTensorArgumentId_t>(kIds[o.kind], {0, 4, 36, 44, -1, INT_MIN, INT_MAX});
  const Operand t(w, random_tensor(d.random(), miopenFloat, {1, 2, 3, 4}));
  auto desc = d.object(Kind::kTensor, t.desc);
  miopenTensorDescriptor_t unset = nullptr;
  miopenCreateTensorDescriptor(&unset);
  w.use(Kind::kTensor, unset);
  if (d.wrong()) {
    desc = unset;
    d.bad();
  }
  d.check(miopenSetProblemTensorDescriptor(d.object(Kind::kProblem, o.problem), id, desc));
  miopenDestroyTensorDescriptor(unset);
}

void fuse(World& w) {
  Draw d(w);
  const auto direction = d.random().one_in(5) ? miopenProblemDirectionBackward : miopenProblemDirectionForward;
  const Operation a(w, static_cast<int>(d.random().below(3)), direction);
  const Operation b(w, static_cast<int>(d.random().below(3)), miopenProblemDirectionForward);
  const auto first = d.object(Kind::kProblem, a.problem), second = d.object(Kind::kProblem, b.problem);
  const bool is_bias_first = a.kind == 1 && b.kind == 0;
  if (a.kind == b.kind || is_bias_first || direction != miopenProblemDirectionForward) d.refuse({kUnsupported});
  if (!d.check(miopenFuseProblems(first, second))) return;
  // A fused problem is complete: its tensors cannot be set, and it has the operations of the second one already.
  Operand t(w, random_tensor(d.random(), miopenFloat, {1, 1, 1, 1}));
  if (miopenSetProblemTensorDescriptor(first, miopenTensorConvolutionX, t.desc) != kBad ||
      miopenFuseProblems(first, second) != kUnsupported)
    w.report("a fused problem was changed");
}

// Options.

void set_option_order(World& w) {
  Draw d(w);
  const auto o = d.object<miopenFindOptions_t>(Kind::kOptions);
  const auto order = d.enumerator<miopenFindResultsOrder_t>(up_to(1), {2, -1, INT_MAX, INT_MIN});
  d.check(miopenSetFindOptionResultsOrder(o, order));
}

void set_option_workspace(World& w) {
  Draw d(w);
  const auto o = d.object<miopenFindOptions_t>(Kind::kOptions);
  int memory = 0;
  std::size_t size = d.random().pick({std::size_t{0}, std::size_t{4}, SIZE_MAX});
  void* buffer = &memory;
  if (d.random().one_in(3)) {
    buffer = nullptr;
    if (size > 0) d.bad();
  }
  d.check(miopenSetFindOptionPreallocatedWorkspace(o, buffer, size));
}

void set_option_tensor(World& w) {
  Draw d(w);
  const auto o = d.object<miopenFindOptions_t>(Kind::kOptions);
  int memory = 0;
  const auto id = d.enumerator<miopenTensorArgumentId_t>({1, 2, 3, 38, 42, 43, 61}, {0, INT_MIN, INT_MIN + 1, -1});
  d.check(miopenSetFindOptionPreallocatedTensor(o, id, d.pointer(static_cast<void*>(&memory))));
}

void set_option_attach(World& w) {
  Draw d(w);
  const auto o = d.object<miopenFindOptions_t>(Kind::kOptions);
  unsigned attach = static_cast<unsigned>(d.random().below(2));
  if (d.wrong()) {
    attach = d.random().pick({2u, ~0u, 0x80000000u});
    d.bad();
  }
  d.check(miopenSetFindOptionAttachBinaries(o, attach));
}

// Solutions.

/// Options of one find, with buffers of the case.
struct Options {
  Options(ConvolutionCase& c, Random& random) : world(c.world) {
    miopenCreateFindOptions(&object);
    world.use(Kind::kOptions, object);
    miopenSetFindOptionResultsOrder(object,
                                    random.pick({miopenFindResultsOrderByTime, miopenFindResultsOrderByWorkspaceSize}));
    if (random.one_in(2)) miopenSetFindOptionPreallocatedTensor(object, miopenTensorConvolutionX, c.x.data());
    if (random.one_in(2)) miopenSetFindOptionPreallocatedTensor(object, miopenTensorConvolutionY, c.y.data());
    if (random.one_in(3)) miopenSetFindOptionWorkspaceLimit(object, random.below(5000));
    if (random.one_in(4)) miopenSetFindOptionPreallocatedWorkspace(object, nullptr, 0);
    if (random.one_in(8)) miopenSetFindOptionTuning(object, 1);
  }
  Options(const Options&) = delete;
  Options& operator=(const Options&) = delete;
  ~Options() {
    miopenDestroyFindOptions(object);
    world.destroyed(Kind::kOptions, object);
  }
  World& world;
  miopenFindOptions_t object = nullptr;
};

void find_solutions(World& w) {
  Draw d(w);
  const bool complete = !d.wrong();
  ProblemCase c(w, random_direction(d.random()), complete);
  if (!complete) d.refuse({kInvalid});
  const Options own(c, d.random());
  const auto handle = d.object(Kind::kHandle, c.call.handle);
  const auto problem = d.object(Kind::kProblem, c.problem);
  auto options = d.random().one_in(2) ? nullptr : own.object;
  if (d.wrong()) {
    options = static_cast<miopenFindOptions_t>(w.no_object(Kind::kOptions));
    if (options) d.bad();
  }
  std::size_t most = d.random().pick({0, 1, 3, 10}), count = 99;
  miopenSolution_t list[11] = {};
  miopenSolution_t* const to = most > 0 ? d.pointer(list) : d.optional(list);
  if (!d.check(miopenFindSolutions(handle, problem, options, to, d.optional(&count), most))) return;
  const auto made = static_cast<std::size_t>(std::count_if(list, list + 11, [](auto s) { return s != nullptr; }));
  if (made > most || (most > 0 && made == 0) || (count != 99 && count != made))
    w.report(std::to_string(made) + " solutions, at most " + std::to_string(most));
  for (std::size_t i = 0; i < made; ++i) {
    w.created(Kind::kSolution, list[i]);
    if (w.count(Kind::kSolution) <= 6) continue;
    if (miopenDestroySolution(list[i]) == kOk) w.destroyed(Kind::kSolution, list[i]);
  }
}

/// Arguments of a run, some of which are wrong.
std::vector<miopenTensorArgument_t> arguments(Draw& d, ConvolutionCase& c) {
  std::vector<miopenTensorArgument_t> list{{miopenTensorConvolutionX, &c.x.desc, c.x.data()},
                                           {miopenTensorConvolutionW, nullptr, c.w.data()},
                                           {miopenTensorConvolutionY, nullptr, c.y.data()}};
  std::swap(list[0], list[d.random().below(3)]);
  miopenTensorArgument_t& any = list[d.random().below(3)];
  if (d.wrong()) {
    any.buffer = nullptr;
    d.refuse({kInvalid});
  }
  if (d.wrong()) {
    any.id = id_of(d.random().pick({0u, 4u, 43u, 0x80000001u, ~0u}));
    d.bad();
  }
  if (d.wrong()) {
    d.refuse({kInvalid, kBad});
    d.random().one_in(2) ? list.push_back(list[0]) : list.pop_back();
  }
  return list;
}

void run_solution(World& w) {
  Draw d(w);
  ProblemCase c(w);
  const auto found = c.find();
  if (found.empty()) return;
  const miopenSolution_t solution = d.random().pick(found);
  std::size_t bytes = 0;
  miopenGetSolutionWorkspaceSize(solution, &bytes);
  if (bytes > 0 && d.wrong()) {
    bytes = d.random().below(bytes);
    d.bad();
  }
  Workspace workspace(w, bytes);
  c.set_scalars(1, 0);
  const auto list = arguments(d, c);
  const auto handle = d.object(Kind::kHandle, c.call.handle);
  const auto object = d.object(Kind::kSolution, solution);
  const auto* const given = d.pointer(list.data());
  const Status got = miopenRunSolution(handle, object, list.size(), given, workspace.data(), bytes);
  std::uint64_t id = 0;
  miopenGetSolutionSolverId(solution, &id);
  if (d.check(got, "solution " + std::to_string(id)) && d.clean()) c.expect_right("solution " + std::to_string(id));
  for (const auto s : found) miopenDestroySolution(s);
}

/// Convolution, bias and activation: found, run, saved, loaded and run again, with equal results.
void run_fused(World& w, const std::vector<miopenTensorArgument_t>& list, miopenSolution_t solution, Buffer& y) {
  std::size_t size = 0, bytes = 0;
  miopenGetSolutionSize(solution, &size);
  miopenGetSolutionWorkspaceSize(solution, &bytes);
  std::vector<char> saved(size);
  Workspace workspace(w, bytes);
  miopenSolution_t again = nullptr;
  bool right =
      miopenSaveSolution(solution, saved.data()) == kOk && miopenLoadSolution(&again, saved.data(), size) == kOk;
  w.use(Kind::kSolution, again);
  std::vector<unsigned char> results[2];
  for (const miopenSolution_t s : {solution, again}) {
    if (!right) break;
    y.fill(0xff);
    right = miopenRunSolution(w.handle(), s, list.size(), list.data(), workspace.data(), bytes) == kOk;
    results[s == again] = y.copy();
  }
  if (!right) w.report(std::string("a fused problem does not run: ") + polymioGetLastError());
  if (right && results[0] != results[1]) w.report("a loaded solution gives another result");
  if (again) miopenDestroySolution(again);
}

void fused(World& w) {
  ConvolutionShape s(w.random, Direction::kForward);
  if (s.conv.transposed || s.x.type != s.y.type || s.x.type == miopenInt8 ||
      ref::is_fp8(static_cast<ref::Type>(s.x.type)))
    return;
  ConvolutionCase c(w, Direction::kForward, s);
  const Operation bias(w, 1, miopenProblemDirectionForward), activation(w, 2, miopenProblemDirectionForward);
  std::vector<std::int64_t> channels(s.y.lens.size(), 1);
  channels[1] = s.y.lens[1];
  Operand b(w, {s.y.type, channels, packed_strides(channels), 1});
  b.fill(-3, 3);
  miopenProblem_t p = nullptr;
  bool right = miopenCreateConvProblem(&p, c.conv, miopenProblemDirectionForward) == kOk &&
               miopenSetProblemTensorDescriptor(p, miopenTensorConvolutionX, c.x.desc) == kOk &&
               miopenSetProblemTensorDescriptor(p, miopenTensorConvolutionW, c.w.desc) == kOk &&
               miopenSetProblemTensorDescriptor(bias.problem, miopenTensorBias, b.desc) == kOk &&
               miopenSetProblemTensorDescriptor(activation.problem, miopenTensorActivationY, c.y.desc) == kOk &&
               miopenFuseProblems(p, bias.problem) == kOk && miopenFuseProblems(p, activation.problem) == kOk;
  miopenSolution_t solution = nullptr;
  std::size_t count = 0;
  right = right && miopenFindSolutions(w.handle(), p, nullptr, &solution, &count, 1) == kOk && count == 1;
  w.use(Kind::kProblem, p);
  w.use(Kind::kSolution, solution);
  if (!right) w.report(std::string("a fused problem has no solution: ") + polymioGetLastError());
  if (right)
    run_fused(w,
              {{miopenTensorConvolutionX, nullptr, c.x.data()},
               {miopenTensorConvolutionW, nullptr, c.w.data()},
               {miopenTensorBias, nullptr, b.data()},
               {miopenTensorActivationY, nullptr, c.y.data()}},
              solution, c.y.buffer);
  if (solution) miopenDestroySolution(solution);
  if (p) miopenDestroyProblem(p);
}

/// A number of a solution, by the function that reads it.
template <class T>
void get_number(World& w, Status (*get)(miopenSolution_t, T*)) {
  Draw d(w);
  const auto s = d.object(Kind::kSolution, some_solution(w));
  T value{};
  d.check(get(s, d.pointer(&value)));
}

void destroy_solution(World& w) {
  Draw d(w);
  const auto s = d.object(Kind::kSolution, some_solution(w));
  if (d.check(miopenDestroySolution(s))) w.destroyed(Kind::kSolution, s);
}

std::vector<char> saved(World& w) {
  const auto s = some_solution(w);
  std::size_t size = 0;
  miopenGetSolutionSize(s, &size);
  std::vector<char> bytes(size);
  if (size == 0 || miopenSaveSolution(s, bytes.data()) != kOk) w.report("a solution cannot be saved");
  return bytes;
}

void save_solution(World& w) {
  Draw d(w);
  const auto s = some_solution(w);
  std::size_t size = 0;
  miopenGetSolutionSize(s, &size);
  Buffer bytes(w, size, 1);
  const auto given = d.object(Kind::kSolution, s);
  d.check(miopenSaveSolution(given, d.pointer(reinterpret_cast<char*>(bytes.data()))));
}

void load_solution(World& w) {
  Draw d(w);
  auto bytes = saved(w);
  if (d.wrong()) {
    d.refuse({kInvalid, miopenStatusVersionMismatch});
    if (d.random().one_in(2))
      bytes.resize(d.random().below(bytes.size()));
    else
      bytes[d.random().below(bytes.size())] ^= static_cast<char>(1 << d.random().below(8));
  }
  Buffer copy(w, bytes.size(), 1);
  std::copy(bytes.begin(), bytes.end(), copy.data());
  miopenSolution_t s = nullptr;
  auto* const to = d.pointer(&s);
  if (!d.check(miopenLoadSolution(to, d.pointer(reinterpret_cast<const char*>(copy.data())), bytes.size()))) return;
  w.use(Kind::kSolution, s);
  std::vector<char> again(bytes.size());
  std::size_t size = 0;
  if (miopenGetSolutionSize(s, &size) != kOk || size != bytes.size() || miopenSaveSolution(s, again.data()) != kOk ||
      again != bytes)
    w.report("a loaded solution is another one");
  miopenDestroySolution(s);
}

void solver_algorithm(World& w) {
  Draw d(w);
  std::uint64_t id = 0;
  miopenGetSolutionSolverId(some_solution(w), &id);
  if (d.wrong()) {
    id = d.random().pick({std::uint64_t{0}, UINT64_MAX, std::uint64_t{999999}});
    d.refuse({kInvalid});
  }
  miopenConvAlgorithm_t algorithm = miopenConvolutionAlgoGEMM;
  d.check(miopenGetSolverIdConvAlgorithm(id, d.pointer(&algorithm)));
}

// Packed weights.

/// Weights packed for a case.
struct Packed {
  explicit Packed(ProblemCase& c) : world(c.world) {
    if (polymioPackWeights(c.call.handle, c.problem, c.w.data(), &object) == kOk)
      world.created(Kind::kPacked, object);
    else
      world.report(std::string("weights cannot be packed: ") + polymioGetLastError());
  }
  Packed(const Packed&) = delete;
  Packed& operator=(const Packed&) = delete;
  ~Packed() {
    if (!object) return;
    if (polymioDestroyPackedWeights(object) != kOk) world.report("packed weights cannot be destroyed");
    world.destroyed(Kind::kPacked, object);
  }
  World& world;
  polymioPackedWeights_t object = nullptr;
};

Direction data_direction(Random& random) { return random.pick({Direction::kForward, Direction::kBackwardData}); }

void pack_weights(World& w) {
  Draw d(w);
  const bool weights = d.wrong();
  if (weights) d.bad();
  const bool complete = !d.wrong();
  if (!complete) d.bad();
  ProblemCase c(w, weights ? Direction::kBackwardWeights : data_direction(d.random()), complete);
  const auto handle = d.object(Kind::kHandle, c.call.handle);
  const auto problem = d.object(Kind::kProblem, c.problem);
  polymioPackedWeights_t packed = nullptr;
  auto* const to = d.pointer(&packed);
  if (!d.check(polymioPackWeights(handle, problem, d.pointer(c.w.data()), to))) return;
  w.use(Kind::kPacked, packed);
  polymioDestroyPackedWeights(packed);
}

void run_packed(World& w) {
  Draw d(w);
  ProblemCase c(w, data_direction(d.random()));
  c.set_scalars(1, 0);
  const Packed packed(c);
  const auto handle = d.object(Kind::kHandle, c.call.handle);
  const auto object = d.object(Kind::kPacked, packed.object);
  const bool forward = c.direction == Direction::kForward;
  const void* const in = d.pointer(forward ? c.x.data() : c.y.data());
  void* const out = d.pointer(forward ? c.y.data() : c.x.data());
  if (d.check(polymioRunPackedWeights(handle, object, in, out)) && d.clean()) c.expect_right("result");
}

void packed_info(World& w) {
  Draw d(w);
  ProblemCase c(w, data_direction(d.random()));
  const Packed packed(c);
  polymioPackedWeightsInfo_t info{};
  info.size = sizeof info;
  if (d.wrong()) {
    info.size = d.random().pick({std::size_t{0}, std::size_t{9}, SIZE_MAX});
    d.bad();
  }
  const auto object = d.object(Kind::kPacked, packed.object);
  if (d.check(polymioGetPackedWeightsInfo(object, d.pointer(&info))) && (info.solver[0] == 0 || info.solution_id == 0))
    w.report("the solver has no name");
}

void destroy_packed(World& w) {
  Draw d(w);
  ProblemCase c(w, data_direction(d.random()));
  Packed packed(c);
  const auto object = d.object(Kind::kPacked, packed.object);
  if (!d.check(polymioDestroyPackedWeights(object))) return;
  w.destroyed(Kind::kPacked, object);
  packed.object = nullptr;
}

// Problems.

void prepare(World& w) {
  Draw d(w);
  ProblemCase a(w), b(w, random_direction(d.random()), !d.random().one_in(2));
  std::vector<miopenProblem_t> list{a.problem};
  if (d.wrong()) {
    list.push_back(b.problem);
    d.bad();
    d.allow(kOk);
  }
  if (d.wrong()) {
    list.push_back(static_cast<miopenProblem_t>(w.no_object(Kind::kProblem)));
    d.bad();
  }
  const std::size_t count = d.random().one_in(4) ? 0 : list.size();
  const auto handle = d.object(Kind::kHandle, a.call.handle);
  const auto* const given = d.pointer(list.data());
  if (count == 0) d.allow(kOk);
  d.check(polymioPrepare(handle, given, count));
}

void take_problem(World& w) {
  Draw d(w);
  miopenHandle_t collector = nullptr;
  if (polymioCreateCollector(&collector) != kOk) return w.report("there is no collector");
  Operand x(w, random_tensor(d.random(), miopenFloat, {2, 3, 4, 5}));
  const Scalar one(miopenFloat, 1), zero(miopenFloat, 0);
  const bool calls = d.random().one_in(2);
  if (calls && miopenSoftmaxForward(collector, one.get(), x.desc, x.data(), zero.get(), x.desc, x.data()) != kOk)
    w.report(std::string("a collector refuses a call: ") + polymioGetLastError());
  miopenHandle_t handle = collector;
  if (d.wrong()) {
    handle = d.random().one_in(2) ? w.handle() : static_cast<miopenHandle_t>(w.no_object(Kind::kHandle));
    d.bad();
  }
  miopenProblem_t problem = nullptr;
  if (d.check(polymioTakeProblem(handle, d.pointer(&problem)))) {
    w.use(Kind::kProblem, problem);
    if ((problem != nullptr) != calls) w.report("a collector holds the problems of its calls");
  }
  if (problem && miopenDestroyProblem(problem) != kOk) w.report("a problem cannot be destroyed");
  if (miopenDestroy(collector) != kOk) w.report("a collector cannot be destroyed");
}

void warm_problems(World& w) {
  Draw d(w);
  ProblemCase a(w);
  std::string device = "cpu", solver = d.random().pick<std::string>({"", "Conv", "ConvGpu"});
  if (d.wrong()) {
    device = d.random().pick<std::string>({"", "abacus", "abacus-1", "cpu:9"});
    d.refuse({kBad, miopenStatusNotInitialized, miopenStatusNotImplemented});
  }
  if (d.wrong()) {
    solver = "Abacus";
    d.bad();
  }
  std::size_t programs = 9, compiled = 9;
  auto *const p = d.optional(&programs), *const c = d.optional(&compiled);
  const auto* const given = d.pointer(&a.problem);
  if (!d.check(polymioWarmProblems(d.pointer(device.c_str()), given, 1, solver.empty() ? nullptr : solver.c_str(),
                                   d.random().one_in(2), p, c)))
    return;
  if ((p && programs != 0) || (c && compiled != 0)) w.report("a CPU has no programs");
}

/// A text for a buffer of the caller, queried by size first; a buffer that is too small is refused.
template <class Get>
void get_text(World& w, bool problem_optional, const Get& get) {
  Draw d(w);
  ProblemCase c(w);
  const auto handle = d.object(Kind::kHandle, c.call.handle);
  miopenProblem_t problem = c.problem;
  if (problem_optional && d.random().one_in(4))
    problem = nullptr;
  else if (d.wrong())
    while ((problem = static_cast<miopenProblem_t>(w.no_object(Kind::kProblem))) == nullptr && problem_optional) {
    }
  if (problem != c.problem && !(problem_optional && !problem)) d.bad();
  std::size_t size = 0;
  if (!d.check(get(handle, problem, nullptr, d.pointer(&size)))) return;
  // The length of the text may change between calls, since it contains times.
  Buffer buffer(w, size + 4096, 1);
  std::size_t capacity = d.random().one_in(3) ? d.random().below(10) : buffer.size();
  const std::size_t given = capacity;
  const Status got = get(handle, problem, reinterpret_cast<char*>(buffer.data()), &capacity);
  if (got != (given < 10 ? kBad : kOk)) w.report("a buffer of " + std::to_string(given) + " bytes");
  if (got == kOk && (capacity > given || buffer.data()[capacity - 1] != 0)) w.report("the text does not end");
}

void get_options(World& w) {
  Draw d(w);
  ProblemCase c(w);
  std::vector<polymioOption_t> options(40);
  std::size_t size = sizeof(polymioOption_t), count = options.size();
  if (d.wrong()) {
    size = d.random().pick({std::size_t{0}, std::size_t{9}, std::size_t{41}, SIZE_MAX});
    d.bad();
  }
  for (auto& o : options) o.size = size;
  const bool none = d.random().one_in(4);
  if (none) d.allow(kOk);
  if (d.wrong() && !none) {
    count = 0;
    d.bad();
  }
  const auto handle = d.object(Kind::kHandle, c.call.handle);
  const auto problem = d.object(Kind::kProblem, c.problem);
  auto* const p_count = d.pointer(&count);
  const bool ok = d.check(polymioGetOptions(handle, problem, none ? nullptr : options.data(), p_count));
  if (ok && (count == 0 || count > options.size() || (!none && options[0].workspace_size != 0)))
    w.report("the first option needs a workspace");
}

void solution_source(World& w) {
  Draw d(w);
  ProblemCase c(w);
  const auto list = c.solutions();
  std::uint64_t id = list.empty() ? 0 : d.random().pick(list).solution_id;
  if (d.wrong()) {
    id = d.random().pick({std::uint64_t{0}, UINT64_MAX});
    d.bad();
  }
  const auto handle = d.object(Kind::kHandle, c.call.handle);
  const auto problem = d.object(Kind::kProblem, c.problem);
  polymioSource_t source = polymioSourceEstimate;
  d.check(polymioGetSolutionSource(handle, problem, id, d.pointer(&source)));
}

void solution_name(World& w) {
  Draw d(w);
  std::uint64_t id = 0;
  miopenGetSolutionSolverId(some_solution(w), &id);
  if (d.wrong()) {
    id = d.random().pick({std::uint64_t{0}, UINT64_MAX});
    d.bad();
  }
  const char* name = nullptr;
  if (d.check(polymioGetSolutionName(id, d.pointer(&name))) && std::strncmp(name, "Conv", 4) != 0)
    w.report(std::string("the name is ") + name);
}

void tune(World& w) {
  if (!w.random.one_in(3)) return;  // slow
  Draw d(w);
  ProblemCase c(w);
  polymioTuneOptions_t options{sizeof options, 2, static_cast<int>(d.random().below(2))};
  polymioTuneResult_t result{};
  result.size = sizeof result;
  const std::vector<std::size_t> sizes{0, 9, 23, SIZE_MAX};
  const bool has_options = d.random().one_in(2);
  if (has_options && d.wrong()) {
    options.size = d.random().pick(sizes);
    d.bad();
  }
  if (has_options && d.wrong()) {
    options.budget_ms = d.random().pick({-1.0, __builtin_nan(""), __builtin_inf()});
    d.bad();
  }
  if (d.wrong()) {
    result.size = d.random().pick(sizes);
    d.bad();
  }
  const auto handle = d.object(Kind::kHandle, c.call.handle);
  const auto problem = d.object(Kind::kProblem, c.problem);
  const auto stop = [](void*, const polymioTuningProgress_t* p) { return p->done > 3 ? 1 : 0; };
  polymioSetTuningCallback(c.call.handle, stop, nullptr);
  const Status got = polymioTune(handle, problem, has_options ? &options : nullptr, d.pointer(&result));
  polymioSetTuningCallback(c.call.handle, nullptr, nullptr);
  if (d.check(got) && result.solution_id == 0) w.report("nothing is the fastest");
}

Registration g_entries[] = {
    {"miopenSetProblemTensorDescriptor", set_problem_tensor},
    {"miopenFuseProblems",
     [](World& w) {
       fuse(w);
       if (w.random.one_in(4)) fused(w);
     }},
    {"miopenSetFindOptionTuning",
     [](World& w) {
       Draw d(w);
       const auto o = d.object<miopenFindOptions_t>(Kind::kOptions);
       d.check(miopenSetFindOptionTuning(o, d.random().pick({0, 1, -1, INT_MAX})));
     }},
    {"miopenSetFindOptionResultsOrder", set_option_order},
    {"miopenSetFindOptionWorkspaceLimit",
     [](World& w) {
       Draw d(w);
       const auto o = d.object<miopenFindOptions_t>(Kind::kOptions);
       d.check(miopenSetFindOptionWorkspaceLimit(o, d.random().pick({std::size_t{0}, std::size_t{9}, SIZE_MAX})));
     }},
    {"miopenSetFindOptionPreallocatedWorkspace", set_option_workspace},
    {"miopenSetFindOptionPreallocatedTensor", set_option_tensor},
    {"miopenSetFindOptionAttachBinaries", set_option_attach},
    {"miopenFindSolutions", find_solutions},
    {"miopenRunSolution", run_solution},
    {"miopenDestroySolution", destroy_solution},
    {"miopenSaveSolution", save_solution},
    {"miopenLoadSolution", load_solution},
    {"miopenGetSolutionSize", [](World& w) { get_number(w, miopenGetSolutionSize); }},
    {"miopenGetSolutionWorkspaceSize", [](World& w) { get_number(w, miopenGetSolutionWorkspaceSize); }},
    {"miopenGetSolutionTime", [](World& w) { get_number(w, miopenGetSolutionTime); }},
    {"miopenGetSolutionSolverId", [](World& w) { get_number(w, miopenGetSolutionSolverId); }},
    {"polymioGetFoundSolutionSource", [](World& w) { get_number(w, polymioGetFoundSolutionSource); }},
    {"miopenGetSolverIdConvAlgorithm", solver_algorithm},
    {"polymioPackWeights", pack_weights},
    {"polymioRunPackedWeights", run_packed},
    {"polymioGetPackedWeightsInfo", packed_info},
    {"polymioDestroyPackedWeights", destroy_packed},
    {"polymioPrepare", prepare},
    {"polymioTakeProblem", take_problem},
    {"polymioWarmProblems", warm_problems},
    {"polymioExplain", [](World& w) { get_text(w, false, polymioExplain); }},
    {"polymioDiagnose", [](World& w) { get_text(w, true, polymioDiagnose); }},
    {"polymioGetOptions", get_options},
    {"polymioGetSolutionSource", solution_source},
    {"polymioGetSolutionName", solution_name},
    {"polymioTune", tune},
};

}  // namespace
}  // namespace polymio::fuzz
