/* Host time of a warm call: a whole 1x1x1x1 convolution, immediate mode and by algorithm, for every solver.
 * --check: exit status 1 when a call takes more than 300 ns. What counts is the median of the best quarter of many
 * short batches: other work on the machine disturbs some batches, a slow call all of them.
 * SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 199309L
#include <miopen/miopen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(call)                                                 \
  do {                                                              \
    miopenStatus_t s_ = (call);                                     \
    if (s_ != miopenStatusSuccess) {                                \
      fprintf(stderr, "%s: %s\n", #call, miopenGetErrorString(s_)); \
      exit(1);                                                      \
    }                                                               \
  } while (0)

enum { kBatches = 400, kCalls = 1000, kLimitNs = 300 };

typedef struct {
  miopenHandle_t handle;
  miopenTensorDescriptor_t t;
  miopenConvolutionDescriptor_t conv;
  miopenConvSolution_t solution;
  float x, w, y;
  void* workspace;
  size_t bytes;
} Case;

static miopenStatus_t immediate(Case* c) {
  return miopenConvolutionForwardImmediate(c->handle, c->t, &c->w, c->t, &c->x, c->conv, c->t, &c->y, c->workspace,
                                           c->bytes, c->solution.solution_id);
}

static miopenStatus_t by_algorithm(Case* c) {
  const float one = 1, zero = 0;
  return miopenConvolutionForward(c->handle, &one, c->t, &c->x, c->t, &c->w, c->conv,
                                  (miopenConvFwdAlgorithm_t)c->solution.algorithm, &zero, c->t, &c->y, c->workspace,
                                  c->bytes);
}

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}

static int compare(const void* a, const void* b) {
  const double d = *(const double*)a - *(const double*)b;
  return (d > 0) - (d < 0);
}

/* Whether the call is fast enough. */
static int measure(const char* name, miopenStatus_t (*call)(Case*), Case* c) {
  double ns[kBatches];
  for (int b = 0; b < kBatches; ++b) {
    const double start = now_ns();
    for (int i = 0; i < kCalls; ++i) CHECK(call(c));
    ns[b] = (now_ns() - start) / kCalls;
  }
  qsort(ns, kBatches, sizeof *ns, compare);
  const double best = ns[kBatches / 8];
  printf("solution %llu: %s %.0f ns (best quarter), %.0f ns (all)\n", (unsigned long long)c->solution.solution_id, name,
         best, ns[kBatches / 2]);
  return best <= kLimitNs;
}

int main(int argc, char** argv) {
  const int check = argc == 2 && strcmp(argv[1], "--check") == 0;
  Case c = {.x = 2, .w = 3};
  miopenConvSolution_t solutions[10];
  size_t count = 0;
  int good = 1;
  CHECK(miopenCreate(&c.handle));
  CHECK(miopenCreateTensorDescriptor(&c.t));
  CHECK(miopenSet4dTensorDescriptor(c.t, miopenFloat, 1, 1, 1, 1));
  CHECK(miopenCreateConvolutionDescriptor(&c.conv));
  CHECK(miopenConvolutionForwardGetSolution(c.handle, c.t, c.t, c.conv, c.t, 10, &count, solutions));
  for (size_t s = 0; s < count; ++s) {
    c.solution = solutions[s];
    CHECK(miopenConvolutionForwardGetSolutionWorkspaceSize(c.handle, c.t, c.t, c.conv, c.t, c.solution.solution_id,
                                                           &c.bytes));
    c.workspace = c.bytes ? malloc(c.bytes) : NULL;
    c.y = 0;
    good &= measure("immediate", immediate, &c);
    good &= measure("by algorithm", by_algorithm, &c);
    free(c.workspace);
    if (c.y != 6) {
      fprintf(stderr, "the result is %g, not 6\n", c.y);
      return 1;
    }
  }
  CHECK(miopenDestroyConvolutionDescriptor(c.conv));
  CHECK(miopenDestroyTensorDescriptor(c.t));
  CHECK(miopenDestroy(c.handle));
  return check && !good;
}
