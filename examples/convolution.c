/* A 3x3 convolution: describe, find, run. Build: cc convolution.c -lMIOpen. SPDX-License-Identifier: MIT */
#include <miopen/miopen.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
  miopenHandle_t handle;
  miopenTensorDescriptor_t x, w, y;
  miopenConvolutionDescriptor_t conv;
  miopenConvAlgoPerf_t best;
  int n, c, h, width, found = 0;
  size_t bytes = 0;
  const float one = 1, zero = 0;
  miopenCreate(&handle);
  miopenCreateTensorDescriptor(&x), miopenCreateTensorDescriptor(&w), miopenCreateTensorDescriptor(&y);
  miopenCreateConvolutionDescriptor(&conv);
  miopenSet4dTensorDescriptor(x, miopenFloat, 4, 64, 56, 56);
  miopenSet4dTensorDescriptor(w, miopenFloat, 64, 64, 3, 3);
  miopenInitConvolutionDescriptor(conv, miopenConvolution, 1, 1, 1, 1, 1, 1);
  miopenGetConvolutionForwardOutputDim(conv, x, w, &n, &c, &h, &width);
  miopenSet4dTensorDescriptor(y, miopenFloat, n, c, h, width);
  float* data = calloc(4 * 64 * 56 * 56, sizeof(float));
  float* filter = calloc(64 * 64 * 9, sizeof(float));
  float* result = calloc((size_t)n * c * h * width, sizeof(float));
  miopenConvolutionForwardGetWorkSpaceSize(handle, w, x, conv, y, &bytes);
  void* workspace = malloc(bytes);
  miopenFindConvolutionForwardAlgorithm(handle, x, data, w, filter, conv, y, result, 1, &found, &best, workspace,
                                        bytes, false);
  miopenStatus_t status = miopenConvolutionForward(handle, &one, x, data, w, filter, conv, best.fwd_algo, &zero, y,
                                                   result, workspace, bytes);
  printf("%dx%dx%dx%d by algorithm %d: %s, %.3f ms\n", n, c, h, width, best.fwd_algo, miopenGetErrorString(status),
         best.time);
  return status != miopenStatusSuccess;
}
