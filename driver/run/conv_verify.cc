// The expected values and the comparison.
// SPDX-License-Identifier: MIT
#include "driver/run/conv_verify.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "driver/base/files.h"

namespace polymio::driver {
namespace {

std::uint64_t hash_bytes(const void* memory, std::size_t bytes, std::uint64_t hash) {
  const auto* bytes_in = static_cast<const unsigned char*>(memory);
  for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ bytes_in[i]) * 0x100000001b3u;  // FNV-1a
  return hash;
}

constexpr std::uint64_t kHashStart = 0xcbf29ce484222325u;

std::uint64_t hash_of_name(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  return hash_bytes(name.data(), name.size(), kHashStart);
}

bool is_stochastic(const Problem& problem) {
  int mode = 0;
  check(miopenGetConvolutionAttribute(problem.conv.get(), MIOPEN_CONVOLUTION_ATTRIB_FP8_ROUNDING_MODE, &mode),
        "miopenGetConvolutionAttribute");
  return mode == miopenF8RoundingModeStochastic;
}

const char* verify_name(Direction direction) {
  if (direction == kForward) return "Forward Convolution";
  return direction == kBackwardData ? "Backward Convolution Data" : "Backward Convolution Weights";
}

}  // namespace

std::int64_t samples_for(const Problem& problem, std::int64_t level) {
  return level >= 2 || problem.gflop() <= kFullGflop ? 0 : kSampleCount;
}

Verifier::Verifier(const Problem& problem, TensorData& data, std::int64_t samples) : problem_(problem), data_(data) {
  const reference::Tensor& written = problem.tensors[problem.written()];
  const std::int64_t count = affordable_samples(problem.math, samples);
  if (count > 0 && count < written.count()) sample_ = reference::sample_indices(written, count);
}

void Verifier::prepare() {
  if (!expected_.value.empty()) return;
  const std::string path = cache_path();
  if (!path.empty() && read_cache(path)) return;
  const void* data[3] = {data_.host(kX), data_.host(kW), data_.host(kY)};
  const void* old = data_.old.empty() ? nullptr : data_.old.data();
  const reference::Operands inputs = operands(problem_, data, old);
  expected_ = sample_.empty() ? reference::evaluate(problem_.math, inputs)
                              : reference::evaluate(problem_.math, inputs, sample_);
  if (!path.empty()) write_cache(path);
}

void Verifier::check(Result& result, const std::string& error_class) {
  prepare();
  const Role role = problem_.written();
  const reference::Tensor& tensor = problem_.tensors[role];
  data_.buffers[role].download();

  reference::Arithmetic arithmetic = reference::arithmetic(problem_.math);
  arithmetic.input_rounding = error_class == "reduced" ? 0x1p-8 : 0;  // bfloat16's, the coarsest
  if (is_stochastic(problem_)) {
    arithmetic.stochastic_rounding = reference::is_fp8(tensor.type);
    // Stochastic rounding takes either neighbour: twice the error of rounding to nearest.
    for (const reference::Tensor& input : problem_.tensors) {
      if (!reference::is_fp8(input.cast) || input.cast == input.type) continue;
      arithmetic.input_rounding = std::max(arithmetic.input_rounding, 2 * reference::unit_roundoff(input.cast));
    }
  }
  const reference::Comparison comparison = reference::compare(arithmetic, tensor, data_.host(role), expected_, sample_);

  result.set_comparison(verify_name(problem_.direction), tensor.count(),
                        static_cast<std::int64_t>(expected_.value.size()), comparison);
  if (!sample_.empty()) {
    result.verify_text += fmt::format(
        "\n{} sampled outputs of {} compared, all corners included: {:.1f} GFLOP is above {:.0f} "
        "(-V 2 compares all)",
        result.outputs_checked, result.outputs, problem_.gflop(), kFullGflop);
  }
}

std::string Verifier::cache_path() const {
  const std::string& folder = problem_.args.verification_cache;
  if (folder.empty()) return "";
  const std::string line = "2 " + problem_.line();  // the number changes with the meaning of lines
  std::uint64_t key = hash_bytes(line.data(), line.size(), kHashStart + sample_.size());
  for (int role = kX; role <= kY; ++role) {
    if (role == problem_.written()) continue;
    Buffer& buffer = data_.buffers[role];
    key = hash_bytes(buffer.host(), buffer.bytes(), key);
  }
  return fmt::format("{}/{:016x}.ref", folder, key);
}

// Layout of a cache file: values, magnitudes, and their 64-bit hash seeded with the hash of the file's name, so that a
// renamed entry counts as damaged.
bool Verifier::read_cache(const std::string& path) {
  const std::size_t count =
      sample_.empty() ? static_cast<std::size_t>(problem_.tensors[problem_.written()].count()) : sample_.size();
  const std::size_t half = count * sizeof(double);
  Descriptor file;
  struct stat info {};
  if (!open_regular(path, O_RDONLY, file).empty() || fstat(file.get(), &info) != 0) return false;
  if (static_cast<std::size_t>(info.st_size) != 2 * half + sizeof(std::uint64_t)) return false;
  std::string bytes(static_cast<std::size_t>(info.st_size), '\0');
  if (read_some(file, path, bytes.data(), bytes.size()) != bytes.size()) return false;
  std::uint64_t hash = 0;
  std::memcpy(&hash, &bytes[2 * half], sizeof hash);
  if (hash != hash_bytes(bytes.data(), 2 * half, hash_of_name(path))) return false;
  expected_.value.resize(count);
  expected_.magnitude.resize(count);
  std::memcpy(expected_.value.data(), &bytes[0], half);
  std::memcpy(expected_.magnitude.data(), &bytes[half], half);
  return true;
}

void Verifier::write_cache(const std::string& path) const {
  std::error_code ignored;
  std::filesystem::create_directories(problem_.args.verification_cache, ignored);
  std::string bytes;
  for (const std::vector<double>* values : {&expected_.value, &expected_.magnitude}) {
    bytes.append(reinterpret_cast<const char*>(values->data()), values->size() * sizeof(double));
  }
  const std::uint64_t hash = hash_bytes(bytes.data(), bytes.size(), hash_of_name(path));
  bytes.append(reinterpret_cast<const char*>(&hash), sizeof hash);
  write_whole(path, bytes);
}

}  // namespace polymio::driver
