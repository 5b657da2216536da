// The object behind a descriptor of the graph API: its attributes, and what finalizing made of them.
// SPDX-License-Identifier: MIT
#pragma once
#include <miopen/graph.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "capi/common/handle.h"
#include "capi/common/object.h"
#include "capi/graph/attributes.h"
#include "primitives/graph/graph.h"

namespace polymio::capi {

struct DescriptorState;
using DescriptorPointer = std::shared_ptr<DescriptorState>;

/// Elements as the caller gave them. Descriptors among them stay alive as long as this does, whatever the caller
/// destroys.
struct AttributeValue {
  miopenBackendAttributeType_t type{};
  std::int64_t count = 0;
  std::vector<unsigned char> bytes;
  std::vector<DescriptorPointer> children;

  template <class T>
  T at(std::size_t i = 0) const {
    T v;
    std::memcpy(&v, bytes.data() + i * sizeof(T), sizeof(T));
    return v;
  }
  double real() const { return type == MIOPEN_TYPE_FLOAT ? static_cast<double>(at<float>()) : at<double>(); }
};

/// Small, so that Initialize fits it into memory of a caller.
struct BackendObject : miopenBackendDescriptor, InSlots<BackendObject> {
  static constexpr const char* kKind = "backend descriptor";
  Magic<0x706f6c7967726170> magic;
  bool in_callers_memory = false;  // destroying does not free
  bool owned = false;              // by a heuristic: the caller's destroy does nothing
  DescriptorPointer state;
  explicit BackendObject(DescriptorPointer s) : state(std::move(s)) {}
};
inline DescriptorState& deref(miopenBackendDescriptor_t d) { return *checked<BackendObject>(d).state; }

struct DescriptorState {
  int type = 0;
  bool finalized = false;
  std::map<int, AttributeValue> values;  // by attribute

  // Made by finalizing, for the types that have them.
  TensorDesc tensor;
  graph::Graph graph;                                   // operation graph; operation: its tensors and its node
  graph::Predictions predictions;                       // operation graph
  graph::Engine engine{};                               // engine
  std::vector<std::unique_ptr<BackendObject>> results;  // heuristic
  std::shared_ptr<const graph::Plan> plan;
  std::vector<std::pair<std::int64_t, void*>> buffers;  // variant pack, sorted
  void* workspace = nullptr;

  bool has(int name) const { return values.contains(name); }
  const AttributeValue& value(int name) const { return values.at(name); }
  const DescriptorState& child(int name) const { return *value(name).children.at(0); }
  double real(int name, double otherwise) const { return has(name) ? value(name).real() : otherwise; }
  std::vector<std::int64_t> integers(int name) const;
};

/// Checks and stores elements.
void set_attribute(DescriptorState&, int name, int type, std::int64_t count, const void* elements);
/// Copies at most `requested` elements and returns how many there are.
std::int64_t get_attribute(const DescriptorState&, int name, int type, std::int64_t requested, void* elements);
/// Checks that the attributes are complete and makes what the type has.
void finalize(DescriptorState&);

}  // namespace polymio::capi
