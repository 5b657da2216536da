#include <miopen/miopen.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
  miopenHandle_t handle;
  miopenTensorDescriptor_t x, w, y;
  miopenConvolutionDescriptor_t conv;
  miopenConvAlgoPerf_t best = {0};
  int n, c, h, width, found;
  size_t bytes;
  const float one = 1, zero = 0;
  miopenCreate(&handle);
  miopenCreateTensorDescriptor(&x);
  miopenCreateTensorDescriptor(&w);
  miopenCreateTensorDescriptor(&y);
  miopenSet4dTensorDescriptor(x, miopenFloat, 4, 64, 56, 56);
  miopenSet4dTensorDescriptor(w, miopenFloat, 64, 64, 3, 3);
  miopenCreateConvolutionDescriptor(&conv);
  miopenInitConvolutionDescriptor(conv, miopenConvolution, 1, 1, 1, 1, 1, 1);
  miopenGetConvolutionForwardOutputDim(conv, x, w, &n, &c, &h, &width);
  miopenSet4dTensorDescriptor(y, miopenFloat, n, c, h, width);
  miopenConvolutionForwardGetWorkSpaceSize(handle, w, x, conv, y, &bytes);
  float *in = calloc(4 * 64 * 56 * 56, 4), *filter = calloc(64 * 64 * 9, 4),
        *out = calloc((size_t)n * c * h * width, 4);
  void* space = malloc(bytes);
  miopenFindConvolutionForwardAlgorithm(handle, x, in, w, filter, conv, y, out, 1, &found, &best, space, bytes, 0);
  miopenStatus_t s =
      miopenConvolutionForward(handle, &one, x, in, w, filter, conv, best.fwd_algo, &zero, y, out, space, bytes);
  printf("%d x %d x %d x %d, algorithm %d: %.3f ms, %s\n", n, c, h, width, best.fwd_algo, best.time,
         miopenGetErrorString(s));
  return s != miopenStatusSuccess;
}
