// A convolution, a bias and a ReLU as one problem: find the best solution, save it, load it and run it.
// SPDX-License-Identifier: MIT
#define MIOPEN_BETA_API
#include <miopen/miopen.h>
#include <miopen/polymio.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void check(miopenStatus_t status) {
  if (status == miopenStatusSuccess) return;
  fprintf(stderr, "%s: %s\n", miopenGetErrorString(status), polymioGetLastError());
  exit(1);
}

static miopenTensorDescriptor_t tensor(int n, int c, int h, int w) {
  miopenTensorDescriptor_t t;
  check(miopenCreateTensorDescriptor(&t));
  check(miopenSet4dTensorDescriptor(t, miopenFloat, n, c, h, w));
  return t;
}

int main(void) {
  enum { kN = 4, kC = 64, kSize = 56, kK = 64, kCount = kN * kC * kSize * kSize };
  miopenHandle_t handle;
  check(miopenCreate(&handle));

  // The descriptors may be freed as soon as the problem has them.
  miopenTensorDescriptor_t x = tensor(kN, kC, kSize, kSize), w = tensor(kK, kC, 3, 3), b = tensor(1, kK, 1, 1);
  miopenConvolutionDescriptor_t conv;
  miopenActivationDescriptor_t relu;
  check(miopenCreateConvolutionDescriptor(&conv));
  check(miopenInitConvolutionDescriptor(conv, miopenConvolution, 1, 1, 1, 1, 1, 1));
  check(miopenCreateActivationDescriptor(&relu));
  check(miopenSetActivationDescriptor(relu, miopenActivationRELU, 0, 0, 0));

  miopenProblem_t problem, bias, activation;
  check(miopenCreateConvProblem(&problem, conv, miopenProblemDirectionForward));
  check(miopenSetProblemTensorDescriptor(problem, miopenTensorConvolutionX, x));
  check(miopenSetProblemTensorDescriptor(problem, miopenTensorConvolutionW, w));
  check(miopenCreateBiasProblem(&bias, miopenProblemDirectionForward));
  check(miopenSetProblemTensorDescriptor(bias, miopenTensorBias, b));
  check(miopenCreateActivationProblem(&activation, relu, miopenProblemDirectionForward));
  check(miopenFuseProblems(problem, bias));
  check(miopenFuseProblems(problem, activation));

  miopenSolution_t found, solution;
  size_t count, bytes, workspace_bytes;
  check(miopenFindSolutions(handle, problem, NULL, &found, &count, 1));
  check(miopenGetSolutionSize(found, &bytes));
  char* saved = malloc(bytes);
  check(miopenSaveSolution(found, saved));
  check(miopenDestroySolution(found));
  check(miopenLoadSolution(&solution, saved, bytes));  // perhaps in another process, without any find

  float *in = calloc(kCount, sizeof(float)), *filter = calloc(kK * kC * 9, sizeof(float));
  float *shift = calloc(kK, sizeof(float)), *out = calloc(kCount, sizeof(float));
  for (int i = 0; i < kCount; ++i) in[i] = (float)(i % 7 - 3);
  for (int k = 0; k < kK; ++k) filter[(k * kC + k) * 9 + 4] = 1;  // every filter copies one channel
  for (int k = 0; k < kK; ++k) shift[k] = -1;
  const struct miopenTensorArgument_t arguments[] = {{miopenTensorConvolutionX, NULL, in},
                                                     {miopenTensorConvolutionW, NULL, filter},
                                                     {miopenTensorBias, NULL, shift},
                                                     {miopenTensorActivationY, NULL, out}};
  check(miopenGetSolutionWorkspaceSize(solution, &workspace_bytes));
  void* workspace = malloc(workspace_bytes);
  check(miopenRunSolution(handle, solution, 4, arguments, workspace, workspace_bytes));
  check(polymioSynchronize(handle));

  uint64_t id;
  const char* name;
  float ms;
  int wrong = 0;
  for (int i = 0; i < kCount; ++i) wrong += !(fabsf(out[i] - (in[i] > 1 ? in[i] - 1 : 0)) < 1e-5f);
  check(miopenGetSolutionSolverId(solution, &id));
  check(polymioGetSolutionName(id, &name));
  check(miopenGetSolutionTime(solution, &ms));
  printf("%s: %.3f ms, %zu bytes saved, %d values wrong\n", name, ms, bytes, wrong);

  free(in), free(filter), free(shift), free(out), free(workspace), free(saved);
  check(miopenDestroySolution(solution));
  check(miopenDestroyProblem(problem)), check(miopenDestroyProblem(bias)), check(miopenDestroyProblem(activation));
  check(miopenDestroyActivationDescriptor(relu)), check(miopenDestroyConvolutionDescriptor(conv));
  check(miopenDestroyTensorDescriptor(x)), check(miopenDestroyTensorDescriptor(w));
  check(miopenDestroyTensorDescriptor(b));
  check(miopenDestroy(handle));
  return wrong != 0;
}
