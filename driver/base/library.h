// RAII over the public C API: statuses become exceptions with the library's text; descriptors and device memory are
// freed by destructors.
// SPDX-License-Identifier: MIT
#pragma once

#ifndef MIOPEN_BETA_API
#define MIOPEN_BETA_API
#endif
#include <miopen/miopen.h>
#include <miopen/polymio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace polymio::driver {

// A call failed or a result is wrong; the text is meant for the user.
class RunError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws RunError with the function, the status and polymioGetLastError() unless status is success.
void check(miopenStatus_t status, const char* function);

template <auto Destroy>
struct Deleter {
  template <class T>
  void operator()(T* object) const {
    Destroy(object);
  }
};

template <class T, auto Destroy>
using Owned = std::unique_ptr<std::remove_pointer_t<T>, Deleter<Destroy>>;

// The object that a function of the API makes. Throws RunError, naming the function.
template <auto Destroy, class T>
Owned<T, Destroy> create(miopenStatus_t (*make)(T*), const char* function) {
  T raw = nullptr;
  check(make(&raw), function);
  return Owned<T, Destroy>(raw);
}

using Handle = Owned<miopenHandle_t, miopenDestroy>;
using TensorDescriptor = Owned<miopenTensorDescriptor_t, miopenDestroyTensorDescriptor>;
using ConvDescriptor = Owned<miopenConvolutionDescriptor_t, miopenDestroyConvolutionDescriptor>;
using OwnedProblem = Owned<miopenProblem_t, miopenDestroyProblem>;

// A handle and the device it works on.
struct Session {
  Handle handle;
  polymioDeviceInfo_t device;

  // Empty name: the library's choice of device.
  explicit Session(const std::string& device_name);
  miopenHandle_t get() const { return handle.get(); }

  // One whose calls compute nothing, and which holds their problems.
  static Session collector();
  bool computes = true;
  // Those of the calls since the last call of this.
  std::vector<OwnedProblem> take_problems() const;

 private:
  explicit Session(miopenHandle_t raw);
};

TensorDescriptor make_tensor(int type, const std::vector<std::int64_t>& lens, const std::vector<std::int64_t>& strides,
                             int cast_type);

// Scalars as the API reads them: doubles for tensors of doubles, else floats.
class Scalars {
 public:
  Scalars(double alpha, double beta, bool is_double)
      : wide_{alpha, beta}, narrow_{static_cast<float>(alpha), static_cast<float>(beta)}, is_double_(is_double) {}
  const void* alpha() const { return get(0); }
  const void* beta() const { return get(1); }

 private:
  const void* get(int i) const { return is_double_ ? static_cast<const void*>(&wide_[i]) : &narrow_[i]; }

  double wide_[2];
  float narrow_[2];
  bool is_double_;
};

// Throws RunError when the host's free memory does not hold `bytes`: the system would overcommit and kill the process
// later.
void require_memory(const Session& session, std::size_t bytes, const char* what);

// Device memory and its host view: the same bytes on the CPU, a copy on other devices.
class Buffer {
 public:
  Buffer() = default;
  // `what` names the buffer in the error when memory does not suffice.
  Buffer(const Session& session, std::size_t bytes, const char* what);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  void* device() const { return device_; }
  void* host();
  std::size_t bytes() const { return bytes_; }
  void upload();
  void download();

 private:
  const Session* session_ = nullptr;
  std::size_t bytes_ = 0;
  void* device_ = nullptr;
  std::vector<unsigned char> copy_;
};

}  // namespace polymio::driver
