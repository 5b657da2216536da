// Setting and getting attributes, as their table says.
// SPDX-License-Identifier: MIT
#include "capi/graph/descriptor.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace polymio::capi {
namespace {

const Attribute& row_of(const DescriptorState& d, int name) {
  for (const Attribute& a : attributes_of(d.type))
    if (a.name == name) return a;
  fail(Status::kBadParm, "a {} descriptor has no attribute {}", name_of_descriptor(d.type), name);
}

void check_type(const Attribute& a, int type) {
  if (type == a.type || type == a.other_type) return;
  if (a.other_type < 0)
    fail(Status::kBadParm, "attribute {} has elements of type {}, {} was given", static_cast<int>(a.name),
         static_cast<int>(a.type), type);
  fail(Status::kBadParm, "attribute {} has elements of type {} or {}, {} was given", static_cast<int>(a.name),
       static_cast<int>(a.type), a.other_type, type);
}

void refuse(const Attribute& a) {
  if (a.access == Access::kNotImplemented)
    fail(Status::kNotImplemented, "attribute {} is not implemented", static_cast<int>(a.name));
  if (a.access == Access::kUnsupported)
    fail(Status::kUnsupportedOp, "attribute {} is not supported", static_cast<int>(a.name));
}

/// The value of an element that is a number.
double number(const AttributeValue& v, std::size_t i) {
  switch (v.type) {
    case MIOPEN_TYPE_INT64: return static_cast<double>(v.at<std::int64_t>(i));
    case MIOPEN_TYPE_FLOAT: return static_cast<double>(v.at<float>(i));
    case MIOPEN_TYPE_DOUBLE: return v.at<double>(i);
    default: return static_cast<double>(v.at<std::int32_t>(i));
  }
}

void check_element(const Attribute& a, const AttributeValue& v, std::size_t i) {
  const int name = a.name;
  if (v.type == MIOPEN_TYPE_BACKEND_DESCRIPTOR) return;
  switch (a.check) {
    case Check::kPositive:
      require(number(v, i) > 0, "attribute {} has element {} = {}: it must be positive", name, i, number(v, i));
      return;
    case Check::kNotNegative:
      require(number(v, i) >= 0, "attribute {} has element {} = {}: it must be at least 0", name, i, number(v, i));
      return;
    case Check::kProbability:
      require(number(v, i) >= 0 && number(v, i) <= 1, "attribute {} is {}: a probability is from 0 to 1", name,
              number(v, i));
      return;
    case Check::kDataType:
      require(is_valid(static_cast<DataType>(v.at<int>(i))), "attribute {} is {}, which is no data type", name,
              v.at<int>(i));
      return;
    case Check::kBelow:
      require(v.at<int>(i) >= 0 && v.at<int>(i) < a.limit, "attribute {} is {}: allowed are 0 to {}", name,
              v.at<int>(i), a.limit - 1);
      return;
    case Check::kNotNull:
    case Check::kUniquePointers:
      require(v.at<void*>(i) != nullptr, "element {} of attribute {} is null", i, name);
      return;
    case Check::kNone:
    case Check::kUnique: return;
  }
}

void check_unique(const Attribute& a, const AttributeValue& v) {
  if (a.check != Check::kUnique && a.check != Check::kUniquePointers) return;
  std::set<std::int64_t> seen;
  for (std::size_t i = 0; i < static_cast<std::size_t>(v.count); ++i)
    require(seen.insert(v.at<std::int64_t>(i)).second, "element {} of attribute {} repeats an earlier one", i,
            static_cast<int>(a.name));
}

DescriptorPointer child_of(const Attribute& a, miopenBackendDescriptor_t given) {
  const DescriptorPointer& child = checked<BackendObject>(given).state;
  require(child->finalized, "attribute {} takes finalized descriptors: a {} descriptor is not",
          static_cast<int>(a.name), name_of_descriptor(child->type));
  const bool fits = a.child < 0 ? is_operation(child->type) : child->type == a.child;
  require(fits, "attribute {} takes a descriptor of {}, a {} descriptor was given", static_cast<int>(a.name),
          a.child < 0 ? "an operation" : name_of_descriptor(a.child), name_of_descriptor(child->type));
  return child;
}

/// The attribute's elements in the requested type.
std::vector<unsigned char> elements_of(const AttributeValue& v, int type) {
  if (v.type == type || v.type == MIOPEN_TYPE_BACKEND_DESCRIPTOR || type == MIOPEN_TYPE_BACKEND_DESCRIPTOR)
    return v.bytes;
  std::vector<unsigned char> converted(size_of_element(type));
  const double wide = v.real();
  const auto narrow = static_cast<float>(wide);
  std::memcpy(converted.data(), type == MIOPEN_TYPE_FLOAT ? static_cast<const void*>(&narrow) : &wide,
              converted.size());
  return converted;
}

}  // namespace

std::vector<std::int64_t> DescriptorState::integers(int name) const {
  const AttributeValue& v = value(name);
  std::vector<std::int64_t> list;
  for (std::size_t i = 0; i < static_cast<std::size_t>(v.count); ++i) list.push_back(v.at<std::int64_t>(i));
  return list;
}

void set_attribute(DescriptorState& d, int name, int type, std::int64_t count, const void* elements) {
  constexpr std::int64_t kMost = std::int64_t{1} << 26;
  if (d.finalized)
    fail(Status::kNotInitialized, "the {} descriptor is finalized: its attributes cannot change",
         name_of_descriptor(d.type));
  const Attribute& a = row_of(d, name);
  refuse(a);
  require(a.access != Access::kRead, "attribute {} can only be read", name);
  check_type(a, type);
  require(elements != nullptr, "the array of elements is null");
  require(count >= a.least && (a.most < 0 || count <= a.most) && count <= kMost,
          "attribute {} was given {} elements: {}", name, count,
          a.most < 0 ? fmt::format("at least {} are allowed", a.least) : "one is allowed");
  if (a.access == Access::kEmpty) return;
  AttributeValue v;
  v.type = static_cast<miopenBackendAttributeType_t>(type);
  v.count = count;
  v.bytes.resize(static_cast<std::size_t>(count) * size_of_element(type));
  if (!v.bytes.empty()) std::memcpy(v.bytes.data(), elements, v.bytes.size());
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    if (type == MIOPEN_TYPE_BACKEND_DESCRIPTOR)
      v.children.push_back(child_of(a, v.at<miopenBackendDescriptor_t>(i)));
    else
      check_element(a, v, i);
  }
  check_unique(a, v);
  d.values[name] = std::move(v);
}

std::int64_t get_attribute(const DescriptorState& d, int name, int type, std::int64_t requested, void* elements) {
  if (!d.finalized) fail(Status::kNotInitialized, "the {} descriptor is not finalized", name_of_descriptor(d.type));
  const Attribute& a = row_of(d, name);
  refuse(a);
  check_type(a, type);
  require(elements != nullptr, "the array of elements is null");
  require(a.most == 1 ? requested == 1 : requested >= 0, "{} elements of attribute {} were requested: {}", requested,
          name, a.most == 1 ? "it has one" : "the number must be at least 0");
  const auto it = d.values.find(name);
  if (it == d.values.end()) return 0;
  const bool is_descriptor = it->second.type == MIOPEN_TYPE_BACKEND_DESCRIPTOR;
  require(it->second.type == type || (!is_descriptor && type != MIOPEN_TYPE_BACKEND_DESCRIPTOR &&
                                      a.other_type != MIOPEN_TYPE_BACKEND_DESCRIPTOR),
          "attribute {} was set as type {}, {} was requested", name, static_cast<int>(it->second.type), type);
  const auto bytes = elements_of(it->second, type);
  const std::size_t wanted = static_cast<std::size_t>(requested) * size_of_element(type);
  if (!bytes.empty()) std::memcpy(elements, bytes.data(), std::min(bytes.size(), wanted));
  return it->second.count;
}

}  // namespace polymio::capi
