// SPDX-License-Identifier: MIT
#include "capi/find2/chain.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/log.h"
#include "capi/batch_norm.h"
#include "core/problem_text.h"
#include "core/tensor_checks.h"
#include "search/measure.h"

namespace polymio::capi {

class ChainPlans {
 public:
  std::shared_ptr<const fusion::Plan> get(Handle& handle, const ChainCall& call, const search::Candidate& solution) {
    const std::scoped_lock lock(mutex_);
    for (const Entry& e : entries_)
      if (e.handle == handle.id() && e.solver == solution.solver && e.point == solution.point) return e.plan;
    constexpr std::size_t kMost = 64;
    if (entries_.size() == kMost) entries_.erase(entries_.begin());
    const auto plan =
        std::make_shared<const fusion::Plan>(call.chain->prepare(handle, handle.workspace_limit(), &solution));
    entries_.push_back({handle.id(), solution.solver, solution.point, plan});
    return plan;
  }

 private:
  struct Entry {
    std::uint64_t handle;
    const SolverBase* solver;
    TunePoint point;
    std::shared_ptr<const fusion::Plan> plan;
  };
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

namespace {

using Id = miopenTensorArgumentId_t;

constexpr double kUsualEpsilon = 1e-5, kUsualFactor = 0.1;  // of measured runs

/// The tensors through which the result of one forward operation goes to the next.
struct Ends {
  Id in, out;
};
Ends ends_of(const Operation& operation) {
  if (std::holds_alternative<ConvolutionOperation>(operation))
    return {miopenTensorConvolutionX, miopenTensorConvolutionY};
  if (std::holds_alternative<BiasOperation>(operation)) return {miopenTensorBiasX, miopenTensorBiasY};
  if (std::holds_alternative<ActivationOperation>(operation)) return {miopenTensorActivationX, miopenTensorActivationY};
  return {miopenTensorBatchnormX, miopenTensorBatchnormY};
}

const TensorDesc* given(const ProblemState& p, Id id) {
  const auto it = p.tensors.find(id);
  return it == p.tensors.end() ? nullptr : &it->second;
}

/// The result from operation i on: the last given descriptor, which must have the computed type and sizes, else
/// `computed`.
TensorDesc result_from(const ProblemState& p, std::size_t i, const TensorDesc& computed) {
  TensorDesc y = computed;
  const auto take = [&](Id id) {
    const TensorDesc* const desc = given(p, id);
    if (!desc) return;
    require(desc->type == computed.type && desc->rank == computed.rank && desc->lens == computed.lens,
            "the descriptor of {} is {} [{}], but the operations before give {} [{}]", name_of(id),
            polymio::name_of(desc->type), fmt::join(desc->sizes(), ", "), polymio::name_of(computed.type),
            fmt::join(computed.sizes(), ", "));
    y = *desc;
  };
  for (std::size_t j = i; j < p.operations.size(); ++j) {
    const Ends ends = ends_of(p.operations[j]);
    if (j > i) take(ends.in);
    take(ends.out);
  }
  return y;
}

/// The descriptor of the first described tensor of a group that the batch norm describes by one, or `other`.
TensorDesc common_of(const ProblemState& p, std::initializer_list<Id> group, const TensorDesc& other) {
  const Id* first = nullptr;
  for (const Id& id : group) {
    const TensorDesc* const desc = given(p, id);
    if (!desc) continue;
    if (!first) first = &id;
    const TensorDesc& common = *given(p, *first);
    require_same_type(common, name_of(*first), *desc, name_of(id));
    require_same_sizes(common, name_of(*first), *desc, name_of(id));
    require(same_strides(common, *desc), "the strides of {} are {}, those of {} are {}: they must be equal",
            name_of(*first), strides_text(common), name_of(id), strides_text(*desc));
  }
  return first ? *given(p, *first) : other;
}

/// Sets the parameters of the call and of its batch norm from the descriptors that the problem has.
void describe_parameters(ChainCall& call, batch_norm::Problem& norm, const ProblemState& p, Status missing) {
  call.scale = tensor(p, miopenTensorBatchnormScale, missing);
  call.bias = common_of(p, {miopenTensorBatchnormBias, miopenTensorBatchnormBiasDiff, miopenTensorBatchnormScaleDiff},
                        call.scale);
  TensorDesc usual = call.scale;
  usual.type = usual.cast = norm.x.type == DataType::kDouble ? DataType::kDouble : DataType::kFloat;
  call.moments = common_of(
      p,
      {miopenTensorBatchnormRunningMean, miopenTensorBatchnormRunningVariance, miopenTensorBatchnormEstimatedMean,
       miopenTensorBatchnormEstimatedVariance, miopenTensorBatchnormSavedMean, miopenTensorBatchnormSavedVariance},
      usual);
  set_parameters(norm, {call.scale, call.bias, call.moments, call.moments});
}

/// The chain's operations while they are made. A forward one reads `at`; gradients go from the input of the chain to
/// its result, since nothing between them is stored.
struct Maker {
  const ProblemState& p;
  Status missing;
  bool backward;
  ChainCall& call;
  TensorDesc at;

  fusion::Operation operator()(std::size_t i) {
    const Operation& operation = p.operations[i];
    const TensorDesc x = at;
    if (const auto* convolution = std::get_if<ConvolutionOperation>(&operation)) {
      const auto& c = convolution->descriptor;
      if (c.transposed) fail(Status::kUnsupportedOp, "a transposed convolution cannot be fused with other operations");
      const TensorDesc& w = tensor(p, miopenTensorConvolutionW, missing);
      at = result_from(p, i, output_like(c, x, w));
      const auto forward = make_call(c, convolution::Direction::kForward, x, w, at);
      return fusion::Convolution{forward.problem, forward.constraints, forward.seed};
    }
    const bool convolution_follows =
        std::any_of(p.operations.begin() + static_cast<std::ptrdiff_t>(i), p.operations.end(),
                    [](const Operation& o) { return std::holds_alternative<ConvolutionOperation>(o); });
    if (backward)
      at = call.out_desc;
    else if (!convolution_follows)
      at = result_from(p, i, x);
    if (std::holds_alternative<BiasOperation>(operation)) {
      fusion::check_bias(tensor(p, miopenTensorBias, missing), x);
      return fusion::Bias{x, at};
    }
    if (const auto* activation = std::get_if<ActivationOperation>(&operation)) {
      const bool alone = backward && !p.fused();
      return fusion::Activation{x, at, activation->mode, backward,
                                alone ? tensor(p, miopenTensorActivationX, missing) : TensorDesc{}};
    }
    const auto& batchnorm = std::get<BatchnormOperation>(operation);
    batch_norm::Problem norm;
    norm.direction = batchnorm.direction;
    norm.mode = batchnorm.mode;
    norm.x = backward ? tensor(p, miopenTensorBatchnormX, missing) : x;
    norm.out = at;
    if (backward) norm.dy = call.in_desc;
    describe_parameters(call, norm, p, missing);
    return fusion::BatchNorm{norm};
  }
};

search::Candidate with_workspace(search::Candidate candidate, const fusion::Plan& plan) {
  candidate.workspace = plan.workspace;
  return candidate;
}

}  // namespace

ChainCall make_chain_call(const ProblemState& p, Status missing) {
  const bool backward = p.direction == miopenProblemDirectionBackward;
  ChainCall call;
  if (backward) {  // the activation's gradient comes first, whichever order the operations have
    const bool norm = p.find<BatchnormOperation>() != nullptr;
    call.in = !norm || given(p, miopenTensorActivationDY) ? miopenTensorActivationDY : miopenTensorBatchnormDY;
    const bool ends_at_activation = !norm || (given(p, miopenTensorActivationDX) && !given(p, miopenTensorBatchnormDX));
    call.out = ends_at_activation ? miopenTensorActivationDX : miopenTensorBatchnormDX;
  } else {
    call.in = ends_of(p.operations.front()).in;
    call.out = ends_of(p.operations.back()).out;
  }
  call.in_desc = tensor(p, call.in, missing);
  const TensorDesc* const out = given(p, call.out);
  call.out_desc = out ? *out : call.in_desc;
  Maker make{p, missing, backward, call, call.in_desc};
  std::vector<fusion::Operation> operations;
  for (std::size_t i = 0; i < p.operations.size(); ++i) operations.push_back(make(i));
  call.out_desc = make.at;
  // A solution has a solver; an identity in place has some, and is not run.
  if (!p.fused() && p.find<BiasOperation>()) {
    require_float_tensor(make.at, "x", activation::kMostRank, "biases alone");
    operations.push_back(fusion::Activation{make.at, make.at});
  }
  call.chain = std::make_shared<const fusion::Chain>(std::move(operations));
  if (const auto* convolution = p.find<ConvolutionOperation>())
    call.find_mode = static_cast<search::FindMode>(convolution->descriptor.find_mode);
  call.plans = std::make_shared<ChainPlans>();
  return call;
}

std::array<TensorBuffer, kMostChainTensors> tensors_of(const ProblemState& p, const ChainCall& call) {
  std::array<TensorBuffer, kMostChainTensors> all{};
  std::size_t count = 0;
  const auto add = [&](Id id, const TensorDesc* desc) { all[count++] = {id, desc}; };
  add(call.in, &call.in_desc);
  add(call.out, &call.out_desc);
  if (p.find<ConvolutionOperation>()) add(miopenTensorConvolutionW, given(p, miopenTensorConvolutionW));
  if (p.find<BiasOperation>()) add(miopenTensorBias, given(p, miopenTensorBias));
  const auto* norm = p.find<BatchnormOperation>();
  if (!norm && p.direction == miopenProblemDirectionBackward) {
    add(miopenTensorActivationX, given(p, miopenTensorActivationX));
    add(miopenTensorActivationY, given(p, miopenTensorActivationY));
    all[count - 1].is_optional = true;
  }
  if (!norm) return all;
  add(miopenTensorBatchnormScale, &call.scale);
  if (p.direction == miopenProblemDirectionBackward) {
    if (p.find<ActivationOperation>()) add(miopenTensorBatchnormBias, &call.bias);
    add(miopenTensorBatchnormX, given(p, miopenTensorBatchnormX));
    for (const Id id : {miopenTensorBatchnormScaleDiff, miopenTensorBatchnormBiasDiff}) add(id, &call.bias);
    for (const Id id : {miopenTensorBatchnormSavedMean, miopenTensorBatchnormSavedVariance}) add(id, &call.moments);
    return all;
  }
  add(miopenTensorBatchnormBias, &call.bias);
  add(miopenScalarBatchnormEpsilon, nullptr);
  if (norm->direction == batch_norm::Direction::kInference) {
    for (const Id id : {miopenTensorBatchnormEstimatedMean, miopenTensorBatchnormEstimatedVariance})
      add(id, &call.moments);
    return all;
  }
  add(miopenScalarBatchnormExpAvgFactor, nullptr);
  for (const Id id : {miopenTensorBatchnormSavedMean, miopenTensorBatchnormSavedVariance}) add(id, given(p, id));
  if (norm->updates_running_moments)
    for (const Id id : {miopenTensorBatchnormRunningMean, miopenTensorBatchnormRunningVariance}) add(id, &call.moments);
  return all;
}

ChainArgs arguments(const ProblemState& p, const ChainCall& call,
                    std::span<const TensorBuffer, kMostChainTensors> tensors, void* workspace, std::size_t bytes) {
  const auto data = [&](Id id) -> void* {
    const auto it = std::ranges::find_if(tensors, [&](const TensorBuffer& t) { return t.id == id; });
    return it == tensors.end() ? nullptr : it->data;
  };
  const auto number = [&](Id id, double usual) {
    const void* const value = data(id);
    return value ? *static_cast<const double*>(value) : usual;
  };
  ChainArgs args{data(call.in), data(call.out), {}, p.operations.size(), workspace, bytes};
  batch_norm::Problem::Args norm;
  norm.x = data(miopenTensorBatchnormX);
  norm.scale = data(miopenTensorBatchnormScale);
  norm.bias = data(miopenTensorBatchnormBias);
  norm.dscale = data(miopenTensorBatchnormScaleDiff);
  norm.dbias = data(miopenTensorBatchnormBiasDiff);
  norm.epsilon = number(miopenScalarBatchnormEpsilon, kUsualEpsilon);
  norm.factor = number(miopenScalarBatchnormExpAvgFactor, kUsualFactor);
  const auto* operation = p.find<BatchnormOperation>();
  void* const saved_mean = data(miopenTensorBatchnormSavedMean);
  void* const saved_inverse = data(miopenTensorBatchnormSavedVariance);
  if (operation && operation->direction == batch_norm::Direction::kTraining) {
    norm.next_mean = data(miopenTensorBatchnormRunningMean);
    norm.next_variance = data(miopenTensorBatchnormRunningVariance);
    norm.mean = norm.next_mean;
    norm.variance = norm.next_variance;
    norm.saved_mean = saved_inverse ? saved_mean : nullptr;
    norm.saved_inverse = saved_mean ? saved_inverse : nullptr;
  } else if (operation && operation->direction == batch_norm::Direction::kInference) {
    norm.mean = data(miopenTensorBatchnormEstimatedMean);
    norm.variance = data(miopenTensorBatchnormEstimatedVariance);
  } else {
    norm.mean = saved_mean;
    norm.variance = saved_inverse;
  }
  for (std::size_t i = 0; i < args.count; ++i) {
    fusion::Args& a = args.operations[i];
    a.w = data(miopenTensorConvolutionW);
    a.bias = data(miopenTensorBias);
    a.norm = norm;
    a.x = data(miopenTensorActivationX);
    a.y = data(miopenTensorActivationY);
    if (const auto* activation = std::get_if<ActivationOperation>(&p.operations[i]))
      a.activation = activation->parameters;
  }
  return args;
}

std::optional<std::vector<search::Candidate>> answer(Handle& handle, const ChainCall& call, const Constraints& allowed,
                                                     const ChainArgs&, const search::FindOptions& options,
                                                     const char* reason) {
  if (!reason && options.mode != search::FindMode::kFast) return std::nullopt;
  std::vector<search::Candidate> all;
  for (const auto& c : call.chain->solutions(handle, allowed))
    all.push_back(with_workspace(c, *call.plans->get(handle, call, c)));
  return all;
}

std::vector<search::Candidate> measure(Handle& handle, const ChainCall& call, const Constraints& allowed,
                                       const ChainArgs& args, const search::FindOptions& options) {
  if (handle.stream().capturing())
    fail(Status::kNotInitialized, "find is not possible while the stream is being captured");
  std::vector<search::Candidate> candidates;
  for (const auto& c : call.chain->solutions(handle, allowed)) {
    const bool is_last_resort = c.solver->info().reference && !candidates.empty();
    if (!is_last_resort) candidates.push_back(with_workspace(c, *call.plans->get(handle, call, c)));
  }
  std::erase_if(candidates, [&](const auto& c) { return c.workspace > allowed.workspace_limit; });
  if (candidates.empty())
    fail(Status::kBadParm, "the workspace limit of {} bytes has no room for: {}", allowed.workspace_limit,
         call.chain->text());
  std::vector<search::Trial> trials;
  for (const auto& c : candidates) {
    const auto run_once = [&handle, &call, &args, &c] {
      run(handle, call, args, c);
      return search::Run::kDone;
    };
    const auto start = [run_once](double, double&) { return run_once(); };
    const auto again = [run_once](double) { return run_once(); };
    trials.push_back({start, again, c.us});
  }
  const auto device_clock = handle.device().kind == DeviceKind::kCpu ? nullptr : search::device_clock(handle.stream());
  search::Budget budget;
  if (handle.find_budget_us() > 0) budget.total_us = std::max(handle.find_budget_us() - options.spent_us, 1.0);
  const auto times = search::measure(device_clock ? *device_clock : search::steady_clock(), trials, budget);
  std::vector<search::Candidate> found;
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (times[i].state != search::Timing::State::kMeasured) continue;
    candidates[i].us = times[i].us;
    candidates[i].source = search::Source::kMeasured;
    found.push_back(candidates[i]);
  }
  std::ranges::stable_sort(found, {}, &search::Candidate::us);
  return found;
}

std::size_t most_workspace(Handle& handle, const ChainCall& call, const Constraints& allowed) {
  std::size_t most = 0;
  for (const auto& c : call.chain->solutions(handle, allowed))
    most = std::max(most, call.plans->get(handle, call, c)->workspace);
  return std::min(most, allowed.workspace_limit);
}

void run(Handle& handle, const ChainCall& call, const ChainArgs& args, const search::Candidate& solution) {
  const auto plan = call.plans->get(handle, call, solution);
  if (args.bytes < plan->workspace)
    fail(Status::kBadParm, "not enough workspace: the solution needs {} bytes, {} were given", plan->workspace,
         args.bytes);
  require(args.in != args.out || !std::holds_alternative<convolution::Problem>(call.chain->main().problem),
          "the problem has a convolution, so the output may not be the input");
  call.chain->run(handle, *plan, {args.in, args.out, {args.operations.data(), args.count}, args.workspace});
}

void log_call(const ChainCall& call, const ChainArgs&, const char* function, std::uint64_t solution) {
  if (log::api_enabled()) log::write("api", fmt::format("{} {} {}", function, call.chain->text(), solution));
}

}  // namespace polymio::capi
