// SPDX-License-Identifier: MIT
#include "core/aligned_buffer.h"

#include <cstring>
#include <vector>

#include "base/error.h"

namespace polymio {

void AlignedBuffer::copy(const DeviceInfo& device, const char* name) {
  require(device.kind == DeviceKind::kCpu, "{} starts at {}, but elements of {} must be at multiples of {} on a GPU",
          name, given_, name_of(desc_.type), size_of(desc_.type));
  const std::size_t bytes = desc_.bytes();
  copy_ = std::make_unique_for_overwrite<unsigned char[]>(bytes);
  std::memcpy(copy_.get(), given_, bytes);
}

void AlignedBuffer::store() const {
  auto* const to = static_cast<unsigned char*>(given_);
  if (desc_.packed()) {
    std::memcpy(to, copy_.get(), desc_.bytes());
    return;
  }
  const auto size = static_cast<std::int64_t>(size_of(desc_.type));
  const std::int64_t count = desc_.count() / desc_.vector_length;
  const auto run = static_cast<std::size_t>(size * desc_.vector_length);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t at = 0, rest = i;
    for (auto d = static_cast<std::size_t>(desc_.rank); d-- > 0; rest /= desc_.lens[d])
      at += rest % desc_.lens[d] * desc_.strides[d];
    std::memcpy(to + at * size, copy_.get() + at * size, run);
  }
}

void run_on_aligned(const DeviceInfo& device, std::span<const CallerBuffer> buffers,
                    FunctionRef<void(void* const* data)> run) {
  std::vector<AlignedBuffer> aligned;
  std::vector<void*> data;
  for (const CallerBuffer& b : buffers) data.push_back(aligned.emplace_back(device, b.desc, b.data, b.name).data());
  run(data.data());
  for (std::size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i].is_output) aligned[i].write_back();
}

}  // namespace polymio
