// SPDX-License-Identifier: MIT
#include "tensor.hpp"

void relu(const Tensor& x, Tensor& y) {
  miopenActivationDescriptor_t desc;
  CHECK_MIO(miopenCreateActivationDescriptor(&desc));
  CHECK_MIO(miopenSetActivationDescriptor(desc, miopenActivationRELU, 1.0, 0.0, 1.0));
  const float alpha = 1, beta = 0;
  CHECK_MIO(miopenActivationForward(Runtime::get().handle, desc, &alpha, x.desc, x.data, &beta, y.desc, y.data));
  CHECK_MIO(miopenDestroyActivationDescriptor(desc));
}
