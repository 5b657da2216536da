// RAII over the public C API.
// SPDX-License-Identifier: MIT
#include "driver/base/library.h"

#include <fmt/format.h>

#include <fstream>
#include <limits>
#include <utility>

namespace polymio::driver {
namespace {

double mebibytes(std::size_t bytes) { return static_cast<double>(bytes) / 1048576.0; }

std::size_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  for (std::size_t kibibytes = 0; file >> name >> kibibytes; file.ignore(64, '\n')) {
    if (name == "MemAvailable:") return kibibytes * 1024;
  }
  return std::numeric_limits<std::size_t>::max();
}

}  // namespace

void check(miopenStatus_t status, const char* function) {
  if (status == miopenStatusSuccess) return;
  const std::string text = polymioGetLastError();
  throw RunError(fmt::format("{}: {}{}{}", function, miopenGetErrorString(status), text.empty() ? "" : ": ", text));
}

namespace {

miopenHandle_t create_handle(const std::string& device_name) {
  miopenHandle_t raw = nullptr;
  if (device_name.empty()) {
    check(miopenCreate(&raw), "miopenCreate");
  } else {
    check(polymioCreateOnDevice(&raw, device_name.c_str()), "polymioCreateOnDevice");
  }
  return raw;
}

}  // namespace

Session::Session(const std::string& device_name) : Session(create_handle(device_name)) {}

Session::Session(miopenHandle_t raw) : handle(raw), device{} {
  device.size = sizeof(device);
  check(polymioGetHandleDevice(raw, &device), "polymioGetHandleDevice");
}

Session Session::collector() {
  miopenHandle_t raw = nullptr;
  check(polymioCreateCollector(&raw), "polymioCreateCollector");
  Session session(raw);
  session.computes = false;
  return session;
}

std::vector<OwnedProblem> Session::take_problems() const {
  std::vector<OwnedProblem> all;
  for (miopenProblem_t raw = nullptr;;) {
    check(polymioTakeProblem(get(), &raw), "polymioTakeProblem");
    if (raw == nullptr) return all;
    all.emplace_back(raw);
  }
}

TensorDescriptor make_tensor(int type, const std::vector<std::int64_t>& lens, const std::vector<std::int64_t>& strides,
                             int cast_type) {
  TensorDescriptor tensor =
      create<miopenDestroyTensorDescriptor>(miopenCreateTensorDescriptor, "miopenCreateTensorDescriptor");
  const miopenTensorDescriptor_t raw = tensor.get();
  const std::vector<std::size_t> sizes(lens.begin(), lens.end());
  const std::vector<std::size_t> steps(strides.begin(), strides.end());
  check(miopenSetTensorDescriptorV2(raw, static_cast<miopenDataType_t>(type), static_cast<int>(sizes.size()),
                                    sizes.data(), steps.data()),
        "miopenSetTensorDescriptorV2");
  if (cast_type >= 0) {
    check(miopenSetTensorCastType(raw, static_cast<miopenDataType_t>(cast_type)), "miopenSetTensorCastType");
  }
  return tensor;
}

void require_memory(const Session& session, std::size_t bytes, const char* what) {
  constexpr std::size_t kMargin = std::size_t{256} << 20;  // for other allocations of the process
  const std::size_t available = available_bytes();
  if (session.device.kind != polymioDeviceCpu || bytes + kMargin <= available) return;
  throw RunError(
      fmt::format("{} of {:.1f} MiB and a margin of {:.0f} MiB do not fit into the "
                  "{:.1f} MiB of memory that are free",
                  what, mebibytes(bytes), mebibytes(kMargin), mebibytes(available)));
}

Buffer::Buffer(const Session& session, std::size_t bytes, const char* what) : session_(&session), bytes_(bytes) {
  if (session.computes) require_memory(session, bytes, what);
  const miopenStatus_t status = polymioMalloc(session.get(), &device_, bytes);
  if (status != miopenStatusSuccess || (device_ == nullptr && bytes > 0)) {
    throw RunError(fmt::format("{} needs {:.1f} MiB, which {} ({:.1f} MiB in all) cannot give: {}", what,
                               mebibytes(bytes), session.device.name, mebibytes(session.device.memory_bytes),
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
  check(polymioCopy(session_->get(), device_, host(), bytes_, polymioCopyHostToDevice), "polymioCopy");
}

void Buffer::download() {
  if (bytes_ == 0) return;
  check(polymioSynchronize(session_->get()), "polymioSynchronize");
  if (host() == device_) return;
  check(polymioCopy(session_->get(), host(), device_, bytes_, polymioCopyDeviceToHost), "polymioCopy");
}

}  // namespace polymio::driver
