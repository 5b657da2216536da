// SPDX-License-Identifier: MIT
#include "search/sampled_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/hash.h"

namespace polymio::search {
namespace {

constexpr std::int64_t kMostSamples = 256;

const Operand& output(std::span<const Operand> operands) {
  return *std::find_if(operands.begin(), operands.end(), [](const auto& o) { return o.use == Operand::Use::kOutput; });
}

bool all_finite(const Operand& o) {
  if (is_integer(o.desc.type)) return true;
  const std::int64_t count = o.desc.space();
  for (std::int64_t i = 0; i < count; ++i)
    if (!std::isfinite(dtype::load(o.desc.type, *o.address, i))) return false;
  return true;
}

}  // namespace

double SampledCheckBase::rounded(DataType t, double v) {
  double memory = 0;
  dtype::store(t, &memory, 0, v);
  return dtype::load(t, &memory, 0);
}

double SampledCheckBase::read_element(Stream& stream, const TensorDesc& t, const void* data, std::int64_t offset) {
  const std::size_t size = size_of(t.type);
  double memory = 0;
  stream.download(&memory, {data, static_cast<std::size_t>(offset) * size}, size);
  return dtype::load(t.type, &memory, 0);
}

std::int64_t offset_of(const TensorDesc& t, std::int64_t element) {
  std::int64_t offset = 0;
  for (auto d = static_cast<std::size_t>(t.rank); d-- > 0; element /= t.lens[d])
    offset += element % t.lens[d] * t.strides[d];
  return offset;
}

std::vector<std::int64_t> pick_elements(std::int64_t count, std::uint64_t seed) {
  std::vector<std::int64_t> picked;
  for (std::int64_t i = 0; i < std::min(count, kMostSamples); ++i) {
    const std::uint64_t draw = mix(mix(seed, static_cast<std::uint64_t>(i)), 1);
    const auto inside = static_cast<std::int64_t>(draw % static_cast<std::uint64_t>(count));
    picked.push_back(count <= kMostSamples || i == 0 ? i : i == 1 ? count - 1 : inside);
  }
  return picked;
}

const std::vector<std::int64_t>& SampledCheckBase::samples() const {
  std::call_once(picked_, [this] { samples_ = pick(); });
  return samples_;
}

void SampledCheckBase::poison_samples(Stream& stream, std::span<const Operand> operands) const {
  const Operand& out = output(operands);
  const std::size_t size = size_of(out.desc.type);
  unsigned char pattern[sizeof(double)];
  std::memset(pattern, is_integer(out.desc.type) ? 0x5a : 0xff, sizeof pattern);
  for (const std::int64_t element : samples())
    stream.upload({*out.address, static_cast<std::size_t>(offset(element)) * size}, pattern, size);
}

SampledCheckBase::HostCopies SampledCheckBase::fetch(Stream& stream, std::span<const Operand> operands) {
  HostCopies copies;
  if (stream.info().kind == DeviceKind::kCpu) return copies;
  for (const Operand& o : operands) {
    if (o.use != Operand::Use::kWhole) continue;
    auto& copy = copies.emplace_back(o.desc.bytes());
    stream.download(copy.data(), *o.address, copy.size());
    *o.address = copy.data();
  }
  return copies;
}

CheckResult SampledCheckBase::compare(Stream& stream, std::span<const Operand> operands,
                                      std::span<const Accepted> accepted, std::string& text) const {
  const Operand& out = output(operands);
  const DataType t = out.desc.type;
  for (std::size_t i = 0; i < accepted.size(); ++i) {
    const Accepted& a = accepted[i];
    if (!a.known) continue;
    const double got = read_element(stream, out.desc, *out.address, offset(samples()[i]));
    const double low = rounded(t, a.low), high = rounded(t, a.high), want = rounded(t, a.want);
    if (low <= got && got <= high) continue;
    // NaN or infinity in an input may reach results that do not depend on it, for instance through multiplied padding.
    for (const Operand& o : operands) {
      if (o.use != Operand::Use::kWhole || all_finite(o)) continue;
      text = "an input has elements that are not finite";
      return CheckResult::kInconclusive;
    }
    text = fmt::format("{} is {:.9g}, should be {:.9g} +- {:.3g}", name(samples()[i]), got, want,
                       a.bound > 0 ? a.bound : std::max(high - want, want - low));
    return CheckResult::kWrong;
  }
  return CheckResult::kRight;
}

}  // namespace polymio::search
