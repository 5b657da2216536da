/* Host time of a warm call: the convolution of a pixel, in immediate mode and by algorithm, for every solver; of one
 * channel in fp32, on GPUs of eight channels in fp16, channels first and last, which the kernels with tensor maps
 * serve, too. Then other primitives of a pixel of eight channels in fp32.
 * --check: exit status 1 when a convolution takes more than 300 ns, or another call more than 400. The result is the
 * median of the best quarter of many short batches: other work on the machine disturbs some batches, a slow call slows
 * all of them.
 * --device NAME: on this device, without waiting for its work; for CUDA also the launch of an empty kernel.
 * SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 199309L
#include <dlfcn.h>
#include <miopen/miopen.h>
#include <miopen/polymio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(call)                                              \
  do {                                                           \
    miopenStatus_t s_ = (call);                                  \
    if (s_ != miopenStatusSuccess) {                             \
      fprintf(stderr, "%s: %s\n", #call, polymioGetLastError()); \
      exit(1);                                                   \
    }                                                            \
  } while (0)

/* The device's queue holds about a thousand launches before it blocks the host. */
enum { kBatches = 400, kCpuCalls = 1000, kDeviceCalls = 100, kLimitNs = 300, kOthersLimitNs = 400, kChannels = 8 };

/* What x, w and y hold. */
enum Content { kX, kW, kZero, kResult };
static const float kFloats[] = {2, 3, 0, 6};
static const unsigned short kHalves[] = {0x4000, 0x4200, 0, 0x5200}; /* 2, 3, 0, 8 * 6 */

typedef struct {
  miopenHandle_t handle;
  miopenTensorDescriptor_t t, weights;
  miopenConvolutionDescriptor_t conv;
  miopenConvSolution_t solution;
  void *x, *w, *y, *mean, *rstd, *workspace;
  size_t bytes;
  int calls; /* of a batch */
  int halves;
  const char* layout;
} Case;

static miopenStatus_t immediate(Case* c) {
  return miopenConvolutionForwardImmediate(c->handle, c->weights, c->w, c->t, c->x, c->conv, c->t, c->y, c->workspace,
                                           c->bytes, c->solution.solution_id);
}

static miopenStatus_t by_algorithm(Case* c) {
  const float one = 1, zero = 0;
  return miopenConvolutionForward(c->handle, &one, c->t, c->x, c->weights, c->w, c->conv,
                                  (miopenConvFwdAlgorithm_t)c->solution.algorithm, &zero, c->t, c->y, c->workspace,
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

/* Nanoseconds of a call: the median of the best quarter of batches. */
static double measure(const char* name, miopenStatus_t (*call)(Case*), Case* c) {
  double ns[kBatches];
  for (int b = 0; b < kBatches; ++b) {
    const double start = now_ns();
    for (int i = 0; i < c->calls; ++i) CHECK(call(c));
    ns[b] = (now_ns() - start) / c->calls;
    CHECK(polymioSynchronize(c->handle));
  }
  qsort(ns, kBatches, sizeof *ns, compare);
  printf("%s %.0f ns (best quarter), %.0f ns (all)\n", name, ns[kBatches / 8], ns[kBatches / 2]);
  return ns[kBatches / 8];
}

/* An empty kernel by the driver's own functions; the handle's stream is the default one. */
static int (*launch_kernel)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                            void**);
static void* empty_kernel;

static miopenStatus_t launch_empty(Case* c) {
  (void)c;
  return launch_kernel(empty_kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) ? miopenStatusInternalError
                                                                            : miopenStatusSuccess;
}

static void measure_launch(Case* c) {
  static const char kText[] = ".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry empty() { ret; }\n";
  void *library = dlopen("libcuda.so.1", RTLD_NOW), *context = NULL, *module = NULL;
  int (*retain)(void**, int) = NULL, (*set)(void*) = NULL, (*load)(void**, const void*) = NULL;
  int (*function)(void**, void*, const char*) = NULL;
  if (!library) return;
  *(void**)&retain = dlsym(library, "cuDevicePrimaryCtxRetain"), *(void**)&set = dlsym(library, "cuCtxSetCurrent");
  *(void**)&load = dlsym(library, "cuModuleLoadData"), *(void**)&function = dlsym(library, "cuModuleGetFunction");
  *(void**)&launch_kernel = dlsym(library, "cuLaunchKernel");
  if (retain(&context, 0) || set(context) || load(&module, kText) || function(&empty_kernel, module, "empty")) {
    fprintf(stderr, "the driver does not load an empty kernel\n");
    exit(1);
  }
  measure("cuLaunchKernel", launch_empty, c);
}

static void* to_device(Case* c, enum Content content, size_t count) {
  void* p = NULL;
  unsigned short halves[kChannels * kChannels];
  const void* const from = c->halves ? (const void*)halves : &kFloats[content];
  const size_t bytes = c->halves ? count * sizeof *halves : sizeof *kFloats;
  for (size_t i = 0; i < count; ++i) halves[i] = kHalves[content];
  CHECK(polymioMalloc(c->handle, &p, bytes));
  CHECK(polymioCopy(c->handle, p, from, bytes, polymioCopyHostToDevice));
  return p;
}

static int measure_solution(Case* c) {
  char name[64];
  const unsigned long long id = c->solution.solution_id;
  unsigned char y[sizeof(float)] = {0};
  const size_t size = c->halves ? sizeof *kHalves : sizeof *kFloats;
  int good = 1;
  CHECK(miopenConvolutionForwardGetSolutionWorkspaceSize(c->handle, c->weights, c->t, c->conv, c->t, id, &c->bytes));
  CHECK(polymioMalloc(c->handle, &c->workspace, c->bytes));
  c->y = to_device(c, kZero, kChannels);
  snprintf(name, sizeof name, "%s, solution %llu: immediate", c->layout, id);
  good &= measure(name, immediate, c) <= kLimitNs;
  snprintf(name, sizeof name, "%s, solution %llu: by algorithm", c->layout, id);
  good &= measure(name, by_algorithm, c) <= kLimitNs;
  CHECK(polymioCopy(c->handle, y, c->y, size, polymioCopyDeviceToHost));
  if (memcmp(y, c->halves ? (const void*)&kHalves[kResult] : &kFloats[kResult], size) != 0) {
    fprintf(stderr, "the result is wrong\n");
    exit(1);
  }
  CHECK(polymioFree(c->handle, c->y));
  CHECK(polymioFree(c->handle, c->workspace));
  return good;
}

/* Every solution for tensors of this layout; 1 if all calls are short. */
static int measure_layout(Case* c, miopenTensorLayout_t layout, const char* name) {
  const int channels = c->halves ? kChannels : 1, lens[] = {1, channels, 1, 1}, filter[] = {channels, channels, 1, 1};
  const miopenDataType_t type = c->halves ? miopenHalf : miopenFloat;
  miopenConvSolution_t solutions[10];
  size_t count = 0;
  int good = 1;
  c->layout = name;
  CHECK(miopenSetNdTensorDescriptorWithLayout(c->t, type, layout, lens, 4));
  CHECK(miopenSetNdTensorDescriptorWithLayout(c->weights, type, layout, filter, 4));
  CHECK(miopenConvolutionForwardGetSolution(c->handle, c->weights, c->t, c->conv, c->t, 10, &count, solutions));
  for (size_t s = 0; s < count; ++s) {
    c->solution = solutions[s];
    CHECK(miopenConvolutionForwardCompileSolution(c->handle, c->weights, c->t, c->conv, c->t, c->solution.solution_id));
    good &= measure_solution(c);
  }
  return good;
}

/* Other primitives. */
typedef struct {
  miopenTensorDescriptor_t one;
  miopenPoolingDescriptor_t pooling;
  miopenActivationDescriptor_t activation;
  miopenLRNDescriptor_t lrn;
  miopenReduceTensorDescriptor_t reduction;
} Others;
static Others others;
static const float kOne = 1, kNone = 0;

static miopenStatus_t activation(Case* c) {
  return miopenActivationForward(c->handle, others.activation, &kOne, c->t, c->x, &kNone, c->t, c->y);
}
static miopenStatus_t pooling(Case* c) {
  return miopenPoolingForward(c->handle, others.pooling, &kOne, c->t, c->x, &kNone, c->t, c->y, false, NULL, 0);
}
static miopenStatus_t softmax(Case* c) {
  return miopenSoftmaxForward_V2(c->handle, &kOne, c->t, c->x, &kNone, c->t, c->y, MIOPEN_SOFTMAX_ACCURATE,
                                 MIOPEN_SOFTMAX_MODE_CHANNEL);
}
static miopenStatus_t lrn(Case* c) {
  return miopenLRNForward(c->handle, others.lrn, &kOne, c->t, c->x, &kNone, c->t, c->y, false, NULL);
}
static miopenStatus_t reduction(Case* c) {
  return miopenReduceTensor(c->handle, others.reduction, NULL, 0, c->workspace, c->bytes, &kOne, c->t, c->x, &kNone,
                            others.one, c->y);
}
static miopenStatus_t batch_norm(Case* c) {
  float one = 1, zero = 0;
  return miopenBatchNormalizationForwardInference(c->handle, miopenBNSpatial, &one, &zero, c->t, c->x, c->t, c->y, c->t,
                                                  c->w, c->w, c->w, c->w, 1e-5);
}
static miopenStatus_t layer_norm(Case* c) {
  return miopenLayerNormForward(c->handle, MIOPEN_WEIGHT_BIAS, c->t, c->x, c->t, c->w, c->t, c->w, 1e-5f, 0, c->t, c->y,
                                others.one, c->mean, others.one, c->rstd);
}

static int measure_others(Case* c) {
  static const struct {
    const char* name;
    miopenStatus_t (*call)(Case*);
  } kCalls[] = {{"activation", activation}, {"pooling", pooling},       {"softmax", softmax},      {"LRN", lrn},
                {"reduction", reduction},   {"batch norm", batch_norm}, {"layer norm", layer_norm}};
  enum { kBuffers = 5 };
  const float ones[kChannels] = {1, 1, 1, 1, 1, 1, 1, 1};
  int good = 1;
  CHECK(miopenSet4dTensorDescriptor(c->t, miopenFloat, 1, kChannels, 1, 1));
  CHECK(miopenCreateTensorDescriptor(&others.one));
  CHECK(miopenSet4dTensorDescriptor(others.one, miopenFloat, 1, 1, 1, 1));
  CHECK(miopenCreatePoolingDescriptor(&others.pooling));
  CHECK(miopenSet2dPoolingDescriptor(others.pooling, miopenPoolingMax, 1, 1, 0, 0, 1, 1));
  CHECK(miopenCreateActivationDescriptor(&others.activation));
  CHECK(miopenSetActivationDescriptor(others.activation, miopenActivationRELU, 0, 0, 0));
  CHECK(miopenCreateLRNDescriptor(&others.lrn));
  CHECK(miopenSetLRNDescriptor(others.lrn, miopenLRNCrossChannel, 5, 1e-4, 0.75, 1));
  CHECK(miopenCreateReduceTensorDescriptor(&others.reduction));
  CHECK(miopenSetReduceTensorDescriptor(others.reduction, MIOPEN_REDUCE_TENSOR_ADD, miopenFloat, MIOPEN_PROPAGATE_NAN,
                                        MIOPEN_REDUCE_TENSOR_NO_INDICES, MIOPEN_32BIT_INDICES));
  CHECK(miopenGetReductionWorkspaceSize(c->handle, others.reduction, c->t, others.one, &c->bytes));
  CHECK(polymioMalloc(c->handle, &c->workspace, c->bytes));
  void** const buffers[] = {&c->x, &c->w, &c->y, &c->mean, &c->rstd};
  for (int i = 0; i < kBuffers; ++i) {
    CHECK(polymioMalloc(c->handle, buffers[i], sizeof ones));
    CHECK(polymioCopy(c->handle, *buffers[i], ones, sizeof ones, polymioCopyHostToDevice));
  }
  for (size_t i = 0; i < sizeof kCalls / sizeof *kCalls; ++i)
    good &= measure(kCalls[i].name, kCalls[i].call, c) <= kOthersLimitNs;
  for (int i = 0; i < kBuffers; ++i) CHECK(polymioFree(c->handle, *buffers[i]));
  CHECK(polymioFree(c->handle, c->workspace));
  CHECK(miopenDestroyReduceTensorDescriptor(others.reduction));
  CHECK(miopenDestroyLRNDescriptor(others.lrn));
  CHECK(miopenDestroyActivationDescriptor(others.activation));
  CHECK(miopenDestroyPoolingDescriptor(others.pooling));
  CHECK(miopenDestroyTensorDescriptor(others.one));
  return good;
}

int main(int argc, char** argv) {
  const int check = argc == 2 && strcmp(argv[1], "--check") == 0;
  const char* device = argc == 3 && strcmp(argv[1], "--device") == 0 ? argv[2] : "cpu";
  if (argc > 1 && !check && argc != 3) {
    fprintf(stderr, "usage: host_overhead [--check | --device NAME]\n");
    return 2;
  }
  const int cpu = strcmp(device, "cpu") == 0;
  Case c = {.calls = cpu ? kCpuCalls : kDeviceCalls, .halves = !cpu};
  int good = 1;
  if (polymioCreateOnDevice(&c.handle, device) != miopenStatusSuccess) {
    fprintf(stderr, "%s\n", polymioGetLastError());
    return 1;
  }
  CHECK(miopenCreateTensorDescriptor(&c.t));
  CHECK(miopenCreateTensorDescriptor(&c.weights));
  CHECK(miopenCreateConvolutionDescriptor(&c.conv));
  c.x = to_device(&c, kX, kChannels);
  c.w = to_device(&c, kW, kChannels * kChannels);
  good &= measure_layout(&c, miopenTensorNCHW, "NCHW");
  if (!cpu) good &= measure_layout(&c, miopenTensorNHWC, "NHWC");
  if (strncmp(device, "cuda", 4) == 0) measure_launch(&c);
  CHECK(polymioFree(c.handle, c.x));
  CHECK(polymioFree(c.handle, c.w));
  good &= measure_others(&c);
  CHECK(miopenDestroyConvolutionDescriptor(c.conv));
  CHECK(miopenDestroyTensorDescriptor(c.weights));
  CHECK(miopenDestroyTensorDescriptor(c.t));
  CHECK(miopenDestroy(c.handle));
  return check && !good;
}
