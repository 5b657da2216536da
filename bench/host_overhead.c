/* Host time of a warm call: a whole 1x1x1x1 convolution, immediate mode and by algorithm. SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 199309L
#include <miopen/miopen.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CHECK(call)                                                           \
  do {                                                                        \
    miopenStatus_t s_ = (call);                                               \
    if (s_ != miopenStatusSuccess) {                                          \
      fprintf(stderr, "%s: %s\n", #call, miopenGetErrorString(s_));           \
      exit(1);                                                                \
    }                                                                         \
  } while (0)

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}

static int compare(const void* a, const void* b) {
  const double d = *(const double*)a - *(const double*)b;
  return (d > 0) - (d < 0);
}

enum { kBatches = 51, kCalls = 20000 };

int main(void) {
  miopenHandle_t handle;
  miopenTensorDescriptor_t t;
  miopenConvolutionDescriptor_t conv;
  miopenConvSolution_t solutions[10];
  size_t count = 0;
  float x = 2, w = 3, y = 0;
  const float one = 1, zero = 0;
  double immediate[kBatches], by_algorithm[kBatches];
  CHECK(miopenCreate(&handle));
  CHECK(miopenCreateTensorDescriptor(&t));
  CHECK(miopenSet4dTensorDescriptor(t, miopenFloat, 1, 1, 1, 1));
  CHECK(miopenCreateConvolutionDescriptor(&conv));
  CHECK(miopenConvolutionForwardGetSolution(handle, t, t, conv, t, 10, &count, solutions));
  for (size_t s = 0; s < count; ++s) {
    size_t bytes = 0;
    CHECK(miopenConvolutionForwardGetSolutionWorkspaceSize(handle, t, t, conv, t, solutions[s].solution_id, &bytes));
    void* workspace = bytes ? malloc(bytes) : NULL;
    for (int b = 0; b < kBatches; ++b) {
      const double start = now_ns();
      for (int i = 0; i < kCalls; ++i)
        CHECK(miopenConvolutionForwardImmediate(handle, t, &w, t, &x, conv, t, &y, workspace, bytes,
                                                solutions[s].solution_id));
      immediate[b] = (now_ns() - start) / kCalls;
    }
    for (int b = 0; b < kBatches; ++b) {
      const double start = now_ns();
      for (int i = 0; i < kCalls; ++i)
        CHECK(miopenConvolutionForward(handle, &one, t, &x, t, &w, conv,
                                       (miopenConvFwdAlgorithm_t)solutions[s].algorithm, &zero, t, &y, workspace, bytes));
      by_algorithm[b] = (now_ns() - start) / kCalls;
    }
    qsort(immediate, kBatches, sizeof(double), compare);
    qsort(by_algorithm, kBatches, sizeof(double), compare);
    printf("solution %llu: immediate %.0f ns, by algorithm %.0f ns (median of %d batches); y = %g\n",
           (unsigned long long)solutions[s].solution_id, immediate[kBatches / 2], by_algorithm[kBatches / 2], kBatches, y);
    free(workspace);
    if (y != 6) return 1;
  }
  return 0;
}
