// Owners of MIOpen objects: the functions that create and destroy them are template arguments.
// SPDX-License-Identifier: MIT
#pragma once
#include <miopen/miopen.h>
#include <miopen/version.h>

#include <memory>
#include <stdexcept>
#include <string>

#define MIOPEN_VERSION_NUMBER (MIOPEN_VERSION_MAJOR * 10000 + MIOPEN_VERSION_MINOR * 100 + MIOPEN_VERSION_PATCH)
#if MIOPEN_VERSION_NUMBER < 20000
#error "MIOpen 2 or later"
#endif

inline void check(miopenStatus_t status) {
  if (status != miopenStatusSuccess) throw std::runtime_error(std::string("MIOpen: ") + miopenGetErrorString(status));
}

template <typename T, miopenStatus_t (*destroy)(T*)>
struct Deleter {
  void operator()(T* p) const {
    if (p) check(destroy(p));
  }
};

template <typename T, miopenStatus_t (*create)(T**), miopenStatus_t (*destroy)(T*)>
class Descriptor {
 public:
  T* get() const { return desc_.get(); }

 protected:
  T* made() {
    if (!desc_) {
      T* raw = nullptr;
      check(create(&raw));
      desc_.reset(raw);
    }
    return desc_.get();
  }

 private:
  std::unique_ptr<T, Deleter<T, destroy>> desc_;
};

class TensorDesc
    : public Descriptor<miopenTensorDescriptor, &miopenCreateTensorDescriptor, &miopenDestroyTensorDescriptor> {
 public:
  void set(miopenDataType_t type, int rank, int* sizes, int* strides) {
    check(miopenSetTensorDescriptor(made(), type, rank, sizes, strides));
  }
};

class ConvDesc : public Descriptor<miopenConvolutionDescriptor, &miopenCreateConvolutionDescriptor,
                                   &miopenDestroyConvolutionDescriptor> {
 public:
  void set(miopenConvolutionMode_t mode, int rank, int* pads, int* strides, int* dilations, int groups,
           bool deterministic) {
    check(miopenInitConvolutionNdDescriptor(made(), rank, pads, strides, dilations, mode));
    check(miopenSetConvolutionGroupCount(get(), groups));  // after Init
    check(miopenSetConvolutionAttribute(get(), MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC, deterministic ? 1 : 0));
  }
};
