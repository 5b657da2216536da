// Find 2.0 beyond convolution problems: every function answers that it is not implemented.
// SPDX-License-Identifier: MIT
#include <miopen/find2.h>

#include "capi/guard.h"

using polymio::capi::not_implemented;

miopenStatus_t miopenCreateMhaProblem(miopenProblem_t*, miopenMhaDescriptor_t, miopenProblemDirection_t) {
  return not_implemented("miopenCreateMhaProblem");
}

miopenStatus_t miopenCreateMhaDescriptor(miopenMhaDescriptor_t*) {
  return not_implemented("miopenCreateMhaDescriptor");
}

miopenStatus_t miopenSetMhaDescriptor(miopenMhaDescriptor_t, float) {
  return not_implemented("miopenSetMhaDescriptor");
}

miopenStatus_t miopenGetMhaDescriptor(miopenMhaDescriptor_t, float*) {
  return not_implemented("miopenGetMhaDescriptor");
}

miopenStatus_t miopenCreateSoftmaxDescriptor(miopenSoftmaxDescriptor_t*) {
  return not_implemented("miopenCreateSoftmaxDescriptor");
}

miopenStatus_t miopenSetSoftmaxDescriptor(miopenSoftmaxDescriptor_t, float, float, miopenSoftmaxAlgorithm_t,
                                          miopenSoftmaxMode_t) {
  return not_implemented("miopenSetSoftmaxDescriptor");
}

miopenStatus_t miopenGetSoftmaxDescriptor(const miopenSoftmaxDescriptor_t, float*, float*, miopenSoftmaxAlgorithm_t*,
                                          miopenSoftmaxMode_t*) {
  return not_implemented("miopenGetSoftmaxDescriptor");
}

miopenStatus_t miopenCreateFindOptions(miopenFindOptions_t*) { return not_implemented("miopenCreateFindOptions"); }

miopenStatus_t miopenDestroyFindOptions(miopenFindOptions_t) { return not_implemented("miopenDestroyFindOptions"); }

miopenStatus_t miopenSetFindOptionTuning(miopenFindOptions_t, int) {
  return not_implemented("miopenSetFindOptionTuning");
}

miopenStatus_t miopenSetFindOptionResultsOrder(miopenFindOptions_t, miopenFindResultsOrder_t) {
  return not_implemented("miopenSetFindOptionResultsOrder");
}

miopenStatus_t miopenSetFindOptionWorkspaceLimit(miopenFindOptions_t, size_t) {
  return not_implemented("miopenSetFindOptionWorkspaceLimit");
}

miopenStatus_t miopenSetFindOptionPreallocatedWorkspace(miopenFindOptions_t, void*, size_t) {
  return not_implemented("miopenSetFindOptionPreallocatedWorkspace");
}

miopenStatus_t miopenSetFindOptionPreallocatedTensor(miopenFindOptions_t, miopenTensorArgumentId_t, void*) {
  return not_implemented("miopenSetFindOptionPreallocatedTensor");
}

miopenStatus_t miopenSetFindOptionAttachBinaries(miopenFindOptions_t, unsigned) {
  return not_implemented("miopenSetFindOptionAttachBinaries");
}

miopenStatus_t miopenFindSolutions(miopenHandle_t, miopenProblem_t, miopenFindOptions_t, miopenSolution_t*, size_t*,
                                   size_t) {
  return not_implemented("miopenFindSolutions");
}

miopenStatus_t miopenRunSolution(miopenHandle_t, miopenSolution_t, size_t, const miopenTensorArgument_t*, void*,
                                 size_t) {
  return not_implemented("miopenRunSolution");
}

miopenStatus_t miopenDestroySolution(miopenSolution_t) { return not_implemented("miopenDestroySolution"); }

miopenStatus_t miopenLoadSolution(miopenSolution_t*, const char*, size_t) {
  return not_implemented("miopenLoadSolution");
}

miopenStatus_t miopenSaveSolution(miopenSolution_t, char*) { return not_implemented("miopenSaveSolution"); }

miopenStatus_t miopenGetSolutionSize(miopenSolution_t, size_t*) { return not_implemented("miopenGetSolutionSize"); }

miopenStatus_t miopenGetSolutionWorkspaceSize(miopenSolution_t, size_t*) {
  return not_implemented("miopenGetSolutionWorkspaceSize");
}

miopenStatus_t miopenGetSolutionTime(miopenSolution_t, float*) { return not_implemented("miopenGetSolutionTime"); }

miopenStatus_t miopenGetSolutionSolverId(miopenSolution_t, uint64_t*) {
  return not_implemented("miopenGetSolutionSolverId");
}

miopenStatus_t miopenGetSolverIdConvAlgorithm(uint64_t, miopenConvAlgorithm_t*) {
  return not_implemented("miopenGetSolverIdConvAlgorithm");
}

miopenStatus_t miopenCreateActivationProblem(miopenProblem_t*, miopenActivationDescriptor_t, miopenProblemDirection_t) {
  return not_implemented("miopenCreateActivationProblem");
}

miopenStatus_t miopenCreateBatchnormProblem(miopenProblem_t*, miopenBatchNormMode_t, bool, miopenProblemDirection_t) {
  return not_implemented("miopenCreateBatchnormProblem");
}

miopenStatus_t miopenFuseProblems(miopenProblem_t, miopenProblem_t) { return not_implemented("miopenFuseProblems"); }

miopenStatus_t miopenCreateBiasProblem(miopenProblem_t*, miopenProblemDirection_t) {
  return not_implemented("miopenCreateBiasProblem");
}

miopenStatus_t miopenCreateSoftmaxProblem(miopenProblem_t*, miopenSoftmaxDescriptor_t, miopenProblemDirection_t) {
  return not_implemented("miopenCreateSoftmaxProblem");
}
