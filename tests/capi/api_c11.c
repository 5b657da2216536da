// The API from plain C11: describe, find, run, query, destroy, with a small numeric check, and the wrong
// enumerators that only C can pass. Exit code 0 when everything is right.
// SPDX-License-Identifier: MIT
#include <miopen/miopen.h>
#include <miopen/miopen_internal.h>
#include <miopen/polymio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;

static void check(int line, int right, const char* what) {
  if (right) return;
  ++failures;
  fprintf(stderr, "line %d: %s; last error: %s\n", line, what, polymioGetLastError());
}
#define CHECK(condition) check(__LINE__, (condition), #condition)
#define OK(call) check(__LINE__, (call) == miopenStatusSuccess, #call)
#define BAD(call, part) check(__LINE__, (call) == miopenStatusBadParm && strstr(polymioGetLastError(), part), #call)

// A 2x2 filter of ones over 1..9 in a 3x3 image.
static const float kImage[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, kSums[4] = {12, 16, 24, 28};
// Its adjoints: of an output of ones, and of the image with the sums.
static const float kCovered[9] = {1, 2, 1, 2, 4, 2, 1, 2, 1};
static const float kOne = 1, kZero = 0;

struct objects {
  miopenHandle_t handle;
  miopenTensorDescriptor_t x, w, y;
  miopenConvolutionDescriptor_t conv;
};

static void create(struct objects* o) {
  OK(miopenCreate(&o->handle));
  OK(miopenCreateTensorDescriptor(&o->x));
  OK(miopenCreateTensorDescriptor(&o->w));
  OK(miopenCreateTensorDescriptor(&o->y));
  OK(miopenCreateConvolutionDescriptor(&o->conv));
  OK(miopenSet4dTensorDescriptor(o->x, miopenFloat, 1, 1, 3, 3));
  OK(miopenSet4dTensorDescriptor(o->w, miopenFloat, 1, 1, 2, 2));
  OK(miopenInitConvolutionDescriptor(o->conv, miopenConvolution, 0, 0, 1, 1, 1, 1));
  int n = 0, c = 0, h = 0, w = 0;
  OK(miopenGetConvolutionForwardOutputDim(o->conv, o->x, o->w, &n, &c, &h, &w));
  CHECK(n == 1 && c == 1 && h == 2 && w == 2);
  OK(miopenSet4dTensorDescriptor(o->y, miopenFloat, n, c, h, w));
}

static void destroy(struct objects* o) {
  OK(miopenDestroyConvolutionDescriptor(o->conv));
  OK(miopenDestroyTensorDescriptor(o->y));
  OK(miopenDestroyTensorDescriptor(o->w));
  OK(miopenDestroyTensorDescriptor(o->x));
  OK(miopenDestroy(o->handle));
}

static void forward(const struct objects* o) {
  const float w[4] = {1, 1, 1, 1};
  float y[4] = {0};
  size_t bytes = 0;
  OK(miopenConvolutionForwardGetWorkSpaceSize(o->handle, o->w, o->x, o->conv, o->y, &bytes));
  void* workspace = bytes ? malloc(bytes) : NULL;
  miopenConvAlgoPerf_t best[4];
  int found = 0;
  OK(miopenFindConvolutionForwardAlgorithm(o->handle, o->x, kImage, o->w, w, o->conv, o->y, y, 4, &found, best,
                                           workspace, bytes, false));
  CHECK(found >= 1);
  for (int i = 0; i < found; ++i) {
    memset(y, 0xff, sizeof y);
    OK(miopenConvolutionForward(o->handle, &kOne, o->x, kImage, o->w, w, o->conv, best[i].fwd_algo, &kZero, o->y, y,
                                workspace, bytes));
    CHECK(memcmp(y, kSums, sizeof y) == 0);
  }
  miopenConvSolution_t solution;
  size_t count = 0;
  OK(miopenConvolutionForwardGetSolution(o->handle, o->w, o->x, o->conv, o->y, 1, &count, &solution));
  CHECK(count == 1 && solution.solution_id != 0);
  memset(y, 0xff, sizeof y);
  OK(miopenConvolutionForwardImmediate(o->handle, o->w, w, o->x, kImage, o->conv, o->y, y, workspace, bytes,
                                       solution.solution_id));
  CHECK(memcmp(y, kSums, sizeof y) == 0);
  free(workspace);
}

static void backward(const struct objects* o) {
  const float ones[4] = {1, 1, 1, 1};
  float dx[9], dw[4];
  miopenConvSolution_t s;
  size_t count = 0;
  OK(miopenConvolutionBackwardDataGetSolution(o->handle, o->y, o->w, o->conv, o->x, 1, &count, &s));
  void* workspace = s.workspace_size ? malloc(s.workspace_size) : NULL;
  OK(miopenConvolutionBackwardDataImmediate(o->handle, o->y, ones, o->w, ones, o->conv, o->x, dx, workspace,
                                            s.workspace_size, s.solution_id));
  CHECK(memcmp(dx, kCovered, sizeof dx) == 0);
  free(workspace);
  OK(miopenConvolutionBackwardWeightsGetSolution(o->handle, o->y, o->x, o->conv, o->w, 1, &count, &s));
  workspace = s.workspace_size ? malloc(s.workspace_size) : NULL;
  OK(miopenConvolutionBackwardWeightsImmediate(o->handle, o->y, ones, o->x, kImage, o->conv, o->w, dw, workspace,
                                               s.workspace_size, s.solution_id));
  CHECK(memcmp(dw, kSums, sizeof dw) == 0);  // a filter of ones and an output of ones are the same here
  free(workspace);
}

#if !defined(__SANITIZE_ADDRESS__)  // its companion for undefined behaviour objects to these values in C++
static void wrong_enumerators(const struct objects* o) {
  BAD(miopenInitConvolutionDescriptor(o->conv, (miopenConvolutionMode_t)4, 0, 0, 1, 1, 1, 1), "mode 4");
  BAD(miopenInitConvolutionDescriptor(o->conv, (miopenConvolutionMode_t)-1, 0, 0, 1, 1, 1, 1), "mode -1");
  BAD(miopenSet4dTensorDescriptor(o->x, (miopenDataType_t)-1, 1, 1, 1, 1), "data type -1");
  BAD(miopenSet4dTensorDescriptor(o->x, (miopenDataType_t)100, 1, 1, 1, 1), "data type 100");
  BAD(polymioSetConvolutionMathMode(o->conv, (polymioMathMode_t)4), "math mode 4");
  BAD(polymioSetConvolutionMathMode(o->conv, (polymioMathMode_t)-1), "math mode -1");
  BAD(miopenSetConvolutionFindMode(o->conv, (miopenConvolutionFindMode_t)99), "find mode 99");
  BAD(miopenSetConvolutionAttribute(o->conv, (miopenConvolutionAttrib_t)99, 0), "attribute 99");
  CHECK(strcmp(miopenGetErrorString((miopenStatus_t)-1), "Unknown error status") == 0);
  CHECK(strcmp(miopenGetErrorString((miopenStatus_t)1000), "Unknown error status") == 0);
}
#endif

int main(void) {
  struct objects o;
  create(&o);
  if (failures == 0) {
    forward(&o);
    backward(&o);
#if !defined(__SANITIZE_ADDRESS__)
    wrong_enumerators(&o);
#endif
  }
  destroy(&o);
  BAD(miopenDestroy(NULL), "null");
  return failures != 0;
}
