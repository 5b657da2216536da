// One function per operation, one branch per direction.
// SPDX-License-Identifier: MIT
#include "driver/run/conv_calls.h"

#include <algorithm>

namespace polymio::driver {
namespace {

constexpr int kRequested = 4;
constexpr std::size_t kMaxSolutions = 10;

Scalars scalars_of(const Problem& p) {
  return {p.args.alpha, p.args.beta, p.tensors[p.written()].type == reference::Type::kDouble};
}

// A JSON text of the library, queried by size first. The text may grow between the calls.
std::string text_of(miopenStatus_t (*ask)(miopenHandle_t, miopenProblem_t, char*, std::size_t*), const char* name,
                    const Session& session, miopenProblem_t problem) {
  std::size_t size = 0;
  check(ask(session.get(), problem, nullptr, &size), name);
  size += 256;
  std::string text(size, '\0');
  check(ask(session.get(), problem, text.data(), &size), name);
  text.resize(std::min(text.size(), text.find('\0')));
  return text;
}

void fuse_bias(miopenProblem_t convolution, const Problem& p) {
  miopenProblem_t raw = nullptr;
  check(miopenCreateBiasProblem(&raw, miopenProblemDirectionForward), "miopenCreateBiasProblem");
  const OwnedProblem owner(raw);
  std::vector<std::int64_t> lens(p.tensors[kY].lens.size(), 1);
  lens[1] = p.tensors[kY].lens[1];
  const auto bias = make_tensor(static_cast<int>(p.tensors[kY].type), lens, tensor_strides(lens, "", {}), kNoType);
  check(miopenSetProblemTensorDescriptor(raw, miopenTensorBias, bias.get()), "miopenSetProblemTensorDescriptor");
  check(miopenFuseProblems(convolution, raw), "miopenFuseProblems");
}

void fuse_norm(miopenProblem_t convolution, const Problem& p) {
  miopenProblem_t raw = nullptr;
  check(miopenCreateBatchnormProblem(&raw, miopenBNSpatial, false, miopenProblemDirectionInference),
        "miopenCreateBatchnormProblem");
  const OwnedProblem owner(raw);
  std::vector<std::int64_t> lens(p.tensors[kY].lens.size(), 1);
  lens[1] = p.tensors[kY].lens[1];
  const int type = p.tensors[kY].type == reference::Type::kDouble ? kDouble : kFloat;
  const auto scale = make_tensor(type, lens, tensor_strides(lens, "", {}), kNoType);
  check(miopenSetProblemTensorDescriptor(raw, miopenTensorBatchnormScale, scale.get()),
        "miopenSetProblemTensorDescriptor");
  check(miopenFuseProblems(convolution, raw), "miopenFuseProblems");
}

void fuse_activation(miopenProblem_t convolution, int mode) {
  const auto descriptor =
      create<miopenDestroyActivationDescriptor>(miopenCreateActivationDescriptor, "miopenCreateActivationDescriptor");
  check(miopenSetActivationDescriptor(descriptor.get(), static_cast<miopenActivationMode_t>(mode), 0.5, 1, 1),
        "miopenSetActivationDescriptor");
  miopenProblem_t raw = nullptr;
  check(miopenCreateActivationProblem(&raw, descriptor.get(), miopenProblemDirectionForward),
        "miopenCreateActivationProblem");
  const OwnedProblem owner(raw);
  check(miopenFuseProblems(convolution, raw), "miopenFuseProblems");
}

}  // namespace

std::size_t find_workspace(const Session& session, const Problem& p) {
  const auto x = p.descriptor(kX), w = p.descriptor(kW), y = p.descriptor(kY);
  std::size_t bytes = 0;
  switch (p.direction) {
    case kForward:
      check(miopenConvolutionForwardGetWorkSpaceSize(session.get(), w, x, p.conv.get(), y, &bytes),
            "miopenConvolutionForwardGetWorkSpaceSize");
      break;
    case kBackwardData:
      check(miopenConvolutionBackwardDataGetWorkSpaceSize(session.get(), y, w, p.conv.get(), x, &bytes),
            "miopenConvolutionBackwardDataGetWorkSpaceSize");
      break;
    case kBackwardWeights:
      check(miopenConvolutionBackwardWeightsGetWorkSpaceSize(session.get(), y, x, p.conv.get(), w, &bytes),
            "miopenConvolutionBackwardWeightsGetWorkSpaceSize");
      break;
  }
  return bytes;
}

std::vector<Algorithm> find(const Session& session, const Problem& p, const DeviceData& data, bool exhaustive) {
  const auto x = p.descriptor(kX), w = p.descriptor(kW), y = p.descriptor(kY);
  void* const* t = data.tensors;
  miopenConvAlgoPerf_t results[kRequested] = {};
  int count = 0;
  switch (p.direction) {
    case kForward:
      check(miopenFindConvolutionForwardAlgorithm(session.get(), x, t[kX], w, t[kW], p.conv.get(), y, t[kY], kRequested,
                                                  &count, results, data.workspace, data.workspace_bytes, exhaustive),
            "miopenFindConvolutionForwardAlgorithm");
      break;
    case kBackwardData:
      check(miopenFindConvolutionBackwardDataAlgorithm(session.get(), y, t[kY], w, t[kW], p.conv.get(), x, t[kX],
                                                       kRequested, &count, results, data.workspace,
                                                       data.workspace_bytes, exhaustive),
            "miopenFindConvolutionBackwardDataAlgorithm");
      break;
    case kBackwardWeights:
      check(miopenFindConvolutionBackwardWeightsAlgorithm(session.get(), y, t[kY], x, t[kX], p.conv.get(), w, t[kW],
                                                          kRequested, &count, results, data.workspace,
                                                          data.workspace_bytes, exhaustive),
            "miopenFindConvolutionBackwardWeightsAlgorithm");
      break;
  }
  std::vector<Algorithm> found;
  for (int i = 0; i < std::min(count, kRequested); ++i) {
    found.push_back({static_cast<int>(results[i].fwd_algo), results[i].time, results[i].memory});
  }
  if (found.empty()) throw RunError("find returned no algorithm");
  return found;
}

void run(const Session& session, const Problem& p, const DeviceData& data, int algorithm) {
  const auto x = p.descriptor(kX), w = p.descriptor(kW), y = p.descriptor(kY);
  void* const* t = data.tensors;
  const Scalars scalars = scalars_of(p);
  switch (p.direction) {
    case kForward:
      check(miopenConvolutionForward(session.get(), scalars.alpha(), x, t[kX], w, t[kW], p.conv.get(),
                                     static_cast<miopenConvFwdAlgorithm_t>(algorithm), scalars.beta(), y, t[kY],
                                     data.workspace, data.workspace_bytes),
            "miopenConvolutionForward");
      break;
    case kBackwardData:
      check(miopenConvolutionBackwardData(session.get(), scalars.alpha(), y, t[kY], w, t[kW], p.conv.get(),
                                          static_cast<miopenConvBwdDataAlgorithm_t>(algorithm), scalars.beta(), x,
                                          t[kX], data.workspace, data.workspace_bytes),
            "miopenConvolutionBackwardData");
      break;
    case kBackwardWeights:
      check(miopenConvolutionBackwardWeights(session.get(), scalars.alpha(), y, t[kY], x, t[kX], p.conv.get(),
                                             static_cast<miopenConvBwdWeightsAlgorithm_t>(algorithm), scalars.beta(), w,
                                             t[kW], data.workspace, data.workspace_bytes),
            "miopenConvolutionBackwardWeights");
      break;
  }
}

std::vector<miopenConvSolution_t> solutions(const Session& session, const Problem& p) {
  const auto x = p.descriptor(kX), w = p.descriptor(kW), y = p.descriptor(kY);
  std::vector<miopenConvSolution_t> found(kMaxSolutions);
  std::size_t count = 0;
  switch (p.direction) {
    case kForward:
      check(miopenConvolutionForwardGetSolution(session.get(), w, x, p.conv.get(), y, kMaxSolutions, &count,
                                                found.data()),
            "miopenConvolutionForwardGetSolution");
      break;
    case kBackwardData:
      check(miopenConvolutionBackwardDataGetSolution(session.get(), y, w, p.conv.get(), x, kMaxSolutions, &count,
                                                     found.data()),
            "miopenConvolutionBackwardDataGetSolution");
      break;
    case kBackwardWeights:
      check(miopenConvolutionBackwardWeightsGetSolution(session.get(), y, x, p.conv.get(), w, kMaxSolutions, &count,
                                                        found.data()),
            "miopenConvolutionBackwardWeightsGetSolution");
      break;
  }
  found.resize(std::min(count, kMaxSolutions));
  return found;
}

std::size_t solution_workspace(const Session& session, const Problem& p, std::uint64_t id) {
  const auto x = p.descriptor(kX), w = p.descriptor(kW), y = p.descriptor(kY);
  std::size_t bytes = 0;
  switch (p.direction) {
    case kForward:
      check(miopenConvolutionForwardGetSolutionWorkspaceSize(session.get(), w, x, p.conv.get(), y, id, &bytes),
            "miopenConvolutionForwardGetSolutionWorkspaceSize");
      break;
    case kBackwardData:
      check(miopenConvolutionBackwardDataGetSolutionWorkspaceSize(session.get(), y, w, p.conv.get(), x, id, &bytes),
            "miopenConvolutionBackwardDataGetSolutionWorkspaceSize");
      break;
    case kBackwardWeights:
      check(miopenConvolutionBackwardWeightsGetSolutionWorkspaceSize(session.get(), y, x, p.conv.get(), w, id, &bytes),
            "miopenConvolutionBackwardWeightsGetSolutionWorkspaceSize");
      break;
  }
  return bytes;
}

void compile_solution(const Session& session, const Problem& p, std::uint64_t id) {
  const auto x = p.descriptor(kX), w = p.descriptor(kW), y = p.descriptor(kY);
  switch (p.direction) {
    case kForward:
      check(miopenConvolutionForwardCompileSolution(session.get(), w, x, p.conv.get(), y, id),
            "miopenConvolutionForwardCompileSolution");
      break;
    case kBackwardData:
      check(miopenConvolutionBackwardDataCompileSolution(session.get(), y, w, p.conv.get(), x, id),
            "miopenConvolutionBackwardDataCompileSolution");
      break;
    case kBackwardWeights:
      check(miopenConvolutionBackwardWeightsCompileSolution(session.get(), y, x, p.conv.get(), w, id),
            "miopenConvolutionBackwardWeightsCompileSolution");
      break;
  }
}

void run_solution(const Session& session, const Problem& p, const DeviceData& data, std::uint64_t id) {
  const auto x = p.descriptor(kX), w = p.descriptor(kW), y = p.descriptor(kY);
  void* const* t = data.tensors;
  switch (p.direction) {
    case kForward:
      check(miopenConvolutionForwardImmediate(session.get(), w, t[kW], x, t[kX], p.conv.get(), y, t[kY], data.workspace,
                                              data.workspace_bytes, id),
            "miopenConvolutionForwardImmediate");
      break;
    case kBackwardData:
      check(miopenConvolutionBackwardDataImmediate(session.get(), y, t[kY], w, t[kW], p.conv.get(), x, t[kX],
                                                   data.workspace, data.workspace_bytes, id),
            "miopenConvolutionBackwardDataImmediate");
      break;
    case kBackwardWeights:
      check(miopenConvolutionBackwardWeightsImmediate(session.get(), y, t[kY], x, t[kX], p.conv.get(), w, t[kW],
                                                      data.workspace, data.workspace_bytes, id),
            "miopenConvolutionBackwardWeightsImmediate");
      break;
  }
}

std::string solution_name(std::uint64_t id) {
  const char* name = nullptr;
  return polymioGetSolutionName(id, &name) == miopenStatusSuccess ? name : "UNKNOWN";
}

OwnedProblem make_problem(const Problem& p) {
  const miopenProblemDirection_t direction = p.direction == kForward        ? miopenProblemDirectionForward
                                             : p.direction == kBackwardData ? miopenProblemDirectionBackward
                                                                            : miopenProblemDirectionBackwardWeights;
  miopenProblem_t raw = nullptr;
  check(miopenCreateConvProblem(&raw, p.conv.get(), direction), "miopenCreateConvProblem");
  OwnedProblem owner(raw);
  const miopenTensorArgumentId_t ids[] = {miopenTensorConvolutionX, miopenTensorConvolutionW, miopenTensorConvolutionY};
  for (int role = kX; role <= kY; ++role) {
    check(miopenSetProblemTensorDescriptor(raw, ids[role], p.descriptor(static_cast<Role>(role))),
          "miopenSetProblemTensorDescriptor");
  }
  if (p.args.fuse.starts_with('b')) fuse_bias(raw, p);
  if (p.args.fuse.find('n') != std::string::npos) fuse_norm(raw, p);
  if (p.args.fuse.find('z') != std::string::npos)
    throw RunError("--fuse: problems with a residual are run by miopenConvolutionBiasActivationForward only");
  if (const int mode = fused_activation(p.args); mode > 0) fuse_activation(raw, mode);
  return owner;
}

std::string explain(const Session& session, const Problem& p) { return explain(session, make_problem(p).get()); }

std::string explain(const Session& session, miopenProblem_t problem) {
  return text_of(polymioExplain, "polymioExplain", session, problem);
}

std::string diagnose(const Session& session, const Problem* p) {
  const OwnedProblem problem = p == nullptr ? nullptr : make_problem(*p);
  return text_of(polymioDiagnose, "polymioDiagnose", session, problem.get());
}

}  // namespace polymio::driver
