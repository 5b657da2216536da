// RAII over the public C API.
// SPDX-License-Identifier: MIT
#include "driver/library.h"

#include <fmt/format.h>

#include <new>
#include <utility>

namespace polymio::driver {

void check(miopenStatus_t status, const char* function) {
  if (status == miopenStatusSuccess) return;
  const std::string text = polymioGetLastError();
  throw RunError(fmt::format("{}: {}{}{}", function, miopenGetErrorString(status),
                             text.empty() ? "" : ": ", text));
}

Session::Session(const std::string& device_name) : device{} {
  miopenHandle_t raw = nullptr;
  if (device_name.empty()) {
    check(miopenCreate(&raw), "miopenCreate");
  } else {
    check(polymioCreateOnDevice(&raw, device_name.c_str()), "polymioCreateOnDevice");
  }
  handle.reset(raw);
  device.size = sizeof(device);
  check(polymioGetHandleDevice(raw, &device), "polymioGetHandleDevice");
}

TensorDescriptor make_tensor(int type, const std::vector<std::int64_t>& lens,
                             const std::vector<std::int64_t>& strides, int cast_type) {
  miopenTensorDescriptor_t raw = nullptr;
  check(miopenCreateTensorDescriptor(&raw), "miopenCreateTensorDescriptor");
  TensorDescriptor tensor(raw);
  const std::vector<std::size_t> sizes(lens.begin(), lens.end());
  const std::vector<std::size_t> steps(strides.begin(), strides.end());
  check(miopenSetTensorDescriptorV2(raw, static_cast<miopenDataType_t>(type),
                                    static_cast<int>(sizes.size()), sizes.data(), steps.data()),
        "miopenSetTensorDescriptorV2");
  if (cast_type >= 0) {
    check(miopenSetTensorCastType(raw, static_cast<miopenDataType_t>(cast_type)),
          "miopenSetTensorCastType");
  }
  return tensor;
}

Buffer::Buffer(const Session& session, std::size_t bytes, const char* what)
    : session_(&session), bytes_(bytes) {
  const miopenStatus_t status = polymioMalloc(session.get(), &device_, bytes);
  if (status != miopenStatusSuccess || (device_ == nullptr && bytes > 0)) {
    throw RunError(fmt::format("{} needs {:.1f} MiB, which {} ({:.1f} MiB in all) cannot give: {}",
                               what, static_cast<double>(bytes) / 1048576.0, session.device.name,
                               static_cast<double>(session.device.memory_bytes) / 1048576.0,
                               polymioGetLastError()));
  }
}

Buffer::Buffer(Buffer&& other) noexcept { *this = std::move(other); }

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(session_, other.session_);
  std::swap(bytes_, other.bytes_);
  std::swap(device_, other.device_);
  std::swap(copy_, other.copy_);
  return *this;
}

Buffer::~Buffer() {
  if (device_ != nullptr) polymioFree(session_->get(), device_);
}

void* Buffer::host() {
  if (session_ == nullptr || session_->device.kind == polymioDeviceCpu) return device_;
  copy_.resize(bytes_);
  return copy_.data();
}

void Buffer::upload() {
  if (bytes_ == 0 || host() == device_) return;
  check(polymioCopy(session_->get(), device_, host(), bytes_, polymioCopyHostToDevice),
        "polymioCopy");
}

void Buffer::download() {
  if (bytes_ == 0) return;
  check(polymioSynchronize(session_->get()), "polymioSynchronize");
  if (host() == device_) return;
  check(polymioCopy(session_->get(), host(), device_, bytes_, polymioCopyDeviceToHost),
        "polymioCopy");
}

}  // namespace polymio::driver
