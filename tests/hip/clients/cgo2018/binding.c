/* What a binding of another language calls from C: MIOpen's header first, untyped memory, descriptors of any rank.
   SPDX-License-Identifier: MIT */
#include <miopen/miopen.h>

#include <hip/hip_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define HIP(call) hip_check((call), #call, __LINE__)
#define MIO(call) mio_check((call), #call, __LINE__)

static void hip_check(hipError_t code, const char* call, int line) {
  if (code == hipSuccess) return;
  fprintf(stderr, "line %d: %s: %d, %s\n", line, call, (int)code, hipGetErrorName(code));
  exit(1);
}

static void mio_check(miopenStatus_t code, const char* call, int line) {
  if (code == miopenStatusSuccess) return;
  fprintf(stderr, "line %d: %s: %s\n", line, call, miopenGetErrorString(code));
  exit(1);
}

static void* device_floats(float* host, size_t n) { /* the source of HtoD is not const */
  void* memory = NULL;
  HIP(hipMalloc(&memory, n * sizeof(float)));
  if (host) HIP(hipMemcpyHtoD((hipDeviceptr_t)memory, host, n * sizeof(float)));
  return memory;
}

static miopenTensorDescriptor_t tensor(int rank, int* sizes, int* strides) {
  miopenTensorDescriptor_t d;
  MIO(miopenCreateTensorDescriptor(&d));
  MIO(miopenSetTensorDescriptor(d, miopenFloat, rank, sizes, strides));
  return d;
}

int main(void) {
  /* From the initialiser of a package, before anything else. */
  HIP(hipInit(0));
  int driver = 0, runtime = 0;
  HIP(hipDriverGetVersion(&driver));
  HIP(hipRuntimeGetVersion(&runtime));
  hipDeviceProp_t props;
  HIP(hipGetDeviceProperties(&props, 0));
  if (props.major == 9999 && props.minor == 9999) return 1; /* "no device" */
  printf("HIP %d on %s, bus %d\n", runtime, props.name, props.pciBusID);

  miopenHandle_t handle;
  MIO(miopenCreateWithStream(&handle, 0));
  hipStream_t stream;
  MIO(miopenGetStream(handle, &stream));
  if (stream != NULL) return 1;

  /* Number of spatial dimensions first, then the values. */
  miopenConvolutionDescriptor_t conv;
  MIO(miopenCreateConvolutionDescriptor(&conv));
  int pads[3] = {0, 1, 1}, ones[3] = {1, 1, 1}, got_pads[3], got_strides[3], got_dilations[3], rank = 0;
  miopenConvolutionMode_t mode;
  MIO(miopenInitConvolutionNdDescriptor(conv, 3, pads, ones, ones, miopenConvolution));
  MIO(miopenGetConvolutionNdDescriptor(conv, 0, &rank, NULL, NULL, NULL, &mode));
  MIO(miopenGetConvolutionNdDescriptor(conv, rank, &rank, got_pads, got_strides, got_dilations, &mode));
  if (rank != 3 || got_pads[0] != 0 || got_pads[2] != 1 || mode != miopenConvolution) return 1;

  /* NCDHW with explicit strides. */
  int x_sizes[5] = {1, 2, 2, 3, 4}, x_strides[5] = {48, 24, 12, 4, 1};
  int w_sizes[5] = {3, 2, 1, 3, 3}, w_strides[5] = {18, 9, 9, 3, 1};
  int y_sizes[5] = {1, 3, 2, 3, 4}, y_strides[5] = {72, 24, 12, 4, 1};
  miopenTensorDescriptor_t xd = tensor(5, x_sizes, x_strides), wd = tensor(5, w_sizes, w_strides),
                           yd = tensor(5, y_sizes, y_strides);
  miopenDataType_t type;
  int size = 0, sizes[5];
  MIO(miopenGetTensorDescriptorSize(yd, &size));
  MIO(miopenGetTensorDescriptor(yd, &type, sizes, NULL));
  MIO(miopenGetTensorDescriptor(yd, NULL, NULL, NULL));
  if (size != 5 || type != miopenFloat || sizes[4] != 4) return 1;

  float x[48], w[54], y[72], want[72];
  int i, k, c, d, r, s, h, v;
  for (i = 0; i < 48; ++i) x[i] = (float)(i % 7) - 3;
  for (i = 0; i < 54; ++i) w[i] = (float)(i % 5) * 0.5f - 1;
  void *dx = device_floats(x, 48), *dw = device_floats(w, 54), *dy = device_floats(NULL, 72), *workspace = NULL;

  /* Immediate mode: at most ten solutions, the first is taken; nothing is compiled beforehand. */
  size_t count = 0, bytes = 0;
  miopenConvSolution_t solutions[10];
  MIO(miopenConvolutionForwardGetSolutionCount(handle, wd, xd, conv, yd, &count));
  if (count < 1 || count > 10) return 1;
  MIO(miopenConvolutionForwardGetSolution(handle, wd, xd, conv, yd, count, &count, solutions));
  MIO(miopenConvolutionForwardGetSolutionWorkspaceSize(handle, wd, xd, conv, yd, solutions[0].solution_id, &bytes));
  HIP(hipMalloc(&workspace, bytes)); /* of size 0: null */
  hipEvent_t start, stop;
  float ms = -1;
  HIP(hipEventCreate(&start));
  HIP(hipEventCreate(&stop));
  HIP(hipEventRecord(start, NULL));
  MIO(miopenConvolutionForwardImmediate(handle, wd, dw, xd, dx, conv, yd, dy, workspace, bytes,
                                        solutions[0].solution_id));
  HIP(hipEventRecord(stop, NULL));
  HIP(hipEventSynchronize(stop));
  HIP(hipEventElapsedTime(&ms, start, stop));
  if (!(ms >= 0)) return 1;

  /* A bias of shape 1xCx1x1x1, added to y although beta is 0. */
  int b_sizes[5] = {1, 3, 1, 1, 1}, b_strides[5] = {3, 1, 1, 1, 1};
  miopenTensorDescriptor_t bd = tensor(5, b_sizes, b_strides);
  float b[3] = {1, 2, 3}, alpha = 1, beta = 0;
  void* db = device_floats(b, 3);
  MIO(miopenConvolutionForwardBias(handle, &alpha, bd, db, &beta, yd, dy));
  HIP(hipMemcpyDtoH(y, (hipDeviceptr_t)dy, sizeof y));
  for (i = 0; i < 72; ++i) {
    k = i / 24;
    d = i / 12 % 2;
    want[i] = b[k];
    for (c = 0; c < 2; ++c)
      for (r = 0; r < 3; ++r)
        for (s = 0; s < 3; ++s) {
          h = i / 4 % 3 + r - 1;
          v = i % 4 + s - 1;
          if (h >= 0 && h < 3 && v >= 0 && v < 4)
            want[i] += x[c * 24 + d * 12 + h * 4 + v] * w[k * 18 + c * 9 + r * 3 + s];
        }
    if (fabsf(y[i] - want[i]) > 1e-3f) {
      fprintf(stderr, "element %d is %g, expected %g\n", i, y[i], want[i]);
      return 1;
    }
  }

  /* y = relu(y), then y = y + y as OpTensor, forward and backward of the activation. */
  miopenActivationDescriptor_t act;
  void *da = device_floats(NULL, 72), *dg = device_floats(NULL, 72);
  float one = 1, g[72];
  MIO(miopenCreateActivationDescriptor(&act));
  MIO(miopenSetActivationDescriptor(act, miopenActivationLEAKYRELU, 0.5, 0, 0));
  MIO(miopenActivationForward(handle, act, &alpha, yd, dy, &beta, yd, da));
  MIO(miopenActivationBackward(handle, act, &alpha, yd, da, yd, da, yd, dy, &beta, yd, dg));
  MIO(miopenOpTensor(handle, miopenTensorOpAdd, &one, yd, da, &one, yd, da, &beta, yd, da));
  HIP(hipDeviceSynchronize());
  HIP(hipMemcpyDtoH(y, (hipDeviceptr_t)da, sizeof y));
  HIP(hipMemcpyDtoH(g, (hipDeviceptr_t)dg, sizeof g));
  for (i = 0; i < 72; ++i) {
    float forward = want[i] > 0 ? want[i] : 0.5f * want[i];
    float backward = forward * (want[i] > 0 ? 1 : 0.5f);
    if (fabsf(y[i] - 2 * forward) > 1e-3f || (want[i] != 0 && fabsf(g[i] - backward) > 1e-3f)) return 1;
  }

  HIP(hipEventDestroy(start));
  HIP(hipEventDestroy(stop));
  void* buffers[] = {dx, dw, dy, workspace, db, da, dg};
  for (i = 0; i < 7; ++i) HIP(hipFree(buffers[i]));
  MIO(miopenDestroyActivationDescriptor(act));
  miopenTensorDescriptor_t descriptors[] = {xd, wd, yd, bd};
  for (i = 0; i < 4; ++i) MIO(miopenDestroyTensorDescriptor(descriptors[i]));
  MIO(miopenDestroyConvolutionDescriptor(conv));
  MIO(miopenDestroy(handle));
  puts("binding: passed");
  return 0;
}
