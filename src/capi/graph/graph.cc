// Group `GraphAPI`.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <new>

#include "base/log.h"
#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/graph/descriptor.h"

using namespace polymio;
using capi::BackendObject;
using capi::checked;
using capi::deref;
using capi::DescriptorState;
using capi::guard;
using capi::not_null;

namespace {

capi::DescriptorPointer new_state(miopenBackendDescriptorType_t type) {
  if (capi::attributes_of(type).empty())
    fail(Status::kUnsupportedOp, "descriptors of type {} are not supported", static_cast<int>(type));
  auto state = std::make_shared<DescriptorState>();
  state->type = type;
  return state;
}

}  // namespace

miopenStatus_t miopenBackendCreateDescriptor(miopenBackendDescriptorType_t descriptorType,
                                             miopenBackendDescriptor_t* descriptor) {
  return guard([&] {
    not_null(descriptor, "descriptor");
    *descriptor = new BackendObject(new_state(descriptorType));
  });
}

miopenStatus_t miopenBackendInitialize(miopenBackendDescriptor_t descriptor,
                                       miopenBackendDescriptorType_t descriptorType, size_t sizeInBytes) {
  return guard([&] {
    not_null(descriptor, "descriptor");
    require(reinterpret_cast<std::uintptr_t>(descriptor) % alignof(BackendObject) == 0,
            "the descriptor's memory must be aligned to {} bytes", alignof(BackendObject));
    require(sizeInBytes >= sizeof(BackendObject), "the descriptor's memory has {} bytes: {} are needed", sizeInBytes,
            sizeof(BackendObject));
    auto state = new_state(descriptorType);
    auto* const object = ::new (static_cast<void*>(descriptor)) BackendObject(std::move(state));
    object->in_callers_memory = true;
  });
}

miopenStatus_t miopenBackendDestroyDescriptor(miopenBackendDescriptor_t descriptor) {
  return guard([&] {
    auto& object = checked<BackendObject>(descriptor);
    if (object.owned) return;
    if (object.in_callers_memory)
      object.~BackendObject();
    else
      delete &object;
  });
}

miopenStatus_t miopenBackendSetAttribute(miopenBackendDescriptor_t descriptor,
                                         miopenBackendAttributeName_t attributeName,
                                         miopenBackendAttributeType_t attributeType, int64_t elementCount,
                                         void* arrayOfElements) {
  return guard(
      [&] { capi::set_attribute(deref(descriptor), attributeName, attributeType, elementCount, arrayOfElements); });
}

miopenStatus_t miopenBackendFinalize(miopenBackendDescriptor_t descriptor) {
  return guard([&] { capi::finalize(deref(descriptor)); });
}

miopenStatus_t miopenBackendGetAttribute(miopenBackendDescriptor_t descriptor,
                                         miopenBackendAttributeName_t attributeName,
                                         miopenBackendAttributeType_t attributeType, int64_t requestedElementCount,
                                         int64_t* elementCount, void* arrayOfElements) {
  return guard([&] {
    const DescriptorState& d = deref(descriptor);
    not_null(elementCount, "elementCount");
    *elementCount = capi::get_attribute(d, attributeName, attributeType, requestedElementCount, arrayOfElements);
  });
}

miopenStatus_t miopenBackendExecute(miopenHandle_t handle, miopenBackendDescriptor_t executionPlan,
                                    miopenBackendDescriptor_t variantPack) {
  return guard([&] {
    Handle& on = deref(handle);
    const DescriptorState &plan = deref(executionPlan), &pack = deref(variantPack);
    require(plan.plan != nullptr, "executionPlan is no finalized execution plan");
    require(pack.type == MIOPEN_BACKEND_VARIANT_PACK_DESCRIPTOR && pack.finalized,
            "variantPack is no finalized variant pack");
    if (log::api_enabled())
      log::write("api", fmt::format("miopenBackendExecute {}", fmt::join(plan.plan->steps(), " ")));
    std::array<void*, graph::kMaxTensors> data{};
    const auto& tensors = plan.plan->graph().tensors;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const auto it = std::ranges::lower_bound(pack.buffers, tensors[t].id, {}, &std::pair<std::int64_t, void*>::first);
      if (it != pack.buffers.end() && it->first == tensors[t].id) data[t] = it->second;
    }
    plan.plan->run(on, data.data(), pack.workspace);
  });
}
