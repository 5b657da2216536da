// Compiles as C++17 with every function visible: object types as template arguments, default
// arguments, the layout of the public structs. It is never run; the checks are static assertions.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_BETA_API
#define MIOPEN_BETA_API
#endif
#include <miopen/miopen.h>
#include <miopen/miopen_internal.h>
#include <miopen/polymio.h>

#include <type_traits>
#include <utility>

// Frameworks own descriptors like this: the tag and both functions are template arguments.
template <class T, miopenStatus_t (*kCreate)(T**), miopenStatus_t (*kDestroy)(T*)>
struct Descriptor {
  using Type = T;
};
using Tensor = Descriptor<miopenTensorDescriptor, &miopenCreateTensorDescriptor, &miopenDestroyTensorDescriptor>;
using Convolution =
    Descriptor<miopenConvolutionDescriptor, &miopenCreateConvolutionDescriptor, &miopenDestroyConvolutionDescriptor>;
static_assert(std::is_same_v<Tensor::Type*, miopenTensorDescriptor_t>);
static_assert(std::is_same_v<Convolution::Type*, miopenConvolutionDescriptor_t>);

// Tags are complete and empty, so that programs can derive from them.
static_assert(std::is_empty_v<miopenHandle> && std::is_empty_v<miopenSolution>);
static_assert(std::is_empty_v<miopenBackendDescriptor>);

// The last two arguments have defaults in C++.
template <class... Args>
auto kth_value(Args... args) -> decltype(miopenKthvalueForward(args...));
static_assert(
    std::is_same_v<decltype(kth_value(miopenHandle_t{}, miopenTensorDescriptor_t{}, nullptr, miopenTensorDescriptor_t{},
                                      nullptr, miopenTensorDescriptor_t{}, static_cast<size_t*>(nullptr), size_t{1})),
                   miopenStatus_t>);

static_assert(sizeof(miopenConvAlgoPerf_t) == 16 && offsetof(miopenConvAlgoPerf_t, memory) == 8);
static_assert(sizeof(miopenConvSolution_t) == 32);
static_assert(offsetof(miopenConvSolution_t, algorithm) == 24);
static_assert(sizeof(miopenTensorArgument_t) == 24);
static_assert(std::is_standard_layout_v<polymioDeviceInfo_t>);
static_assert(std::is_same_v<miopenAcceleratorQueue_t, struct ihipStream_t*>);
static_assert(std::is_same_v<decltype(miopenInt8x4), miopenDataType_t>);
static_assert(std::is_same_v<decltype(miopenConvolutionFwdAlgoStaticCompiledGEMM), miopenConvFwdAlgorithm_t>);
static_assert(std::is_same_v<decltype(miopenConvolutionFindModeReserved_4), miopenConvolutionFindMode_t>);
static_assert(sizeof(miopenTensorArgumentId_t) == sizeof(int));

// Every number is a value of the enum, and types that have two names need one case.
static_assert(static_cast<int>(POLYMIO_FLOAT8_E4M3FN) == 0x100 && static_cast<int>(POLYMIO_FLOAT8_E5M2) == 0x101);
constexpr int bytes_of(miopenDataType_t type) {
  switch (type) {
    case miopenHalf:
    case miopenBFloat16: return 2;
    case miopenFloat:
    case miopenInt32: return 4;
    case miopenDouble:
    case miopenInt64: return 8;
    case miopenInt8:
    case miopenFloat8:
    case miopenBFloat8: return 1;
  }
  return 0;
}
static_assert(bytes_of(miopenFloat8_fnuz) == 1 && bytes_of(POLYMIO_FLOAT8_E5M2) == 0);
