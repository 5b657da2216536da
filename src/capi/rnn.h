// The object behind an RNN descriptor, and what its functions share.
// SPDX-License-Identifier: MIT
#pragma once
#include <miopen/rnn.h>

#include "capi/common/sequence.h"
#include "capi/common/tensor.h"
#include "capi/dropout.h"
#include "primitives/rnn/rnn.h"

namespace polymio::capi {

struct RnnObject : miopenRNNDescriptor, InSlots<RnnObject> {
  static constexpr const char* kKind = "RNN descriptor";
  Magic<0x706f6c79726e6e64> magic;
  rnn::Network network;  // without the input's size
  miopenRNNAlgo_t algorithm = miopenRNNdefault;
  bool padded = false;
  miopenDropoutDescriptor_t dropout = nullptr;  // the caller's, null: none
  RnnObject() { network.hidden = 0; }           // until set
};

inline RnnObject& deref(miopenRNNDescriptor_t d) { return checked<RnnObject>(d); }

/// The network of a descriptor that has been set, for inputs of so many elements and this type.
rnn::Network network_of(const RnnObject&, DataType, std::int64_t input, const char* name);
/// The same for x of one step: [samples, elements].
rnn::Network network_of(const RnnObject&, miopenTensorDescriptor_t x);

/// The generators, and whether there is a dropout between layers.
dropout::Choice dropout_of(const RnnObject&);
rnn::Problem::Drops drops_of(const RnnObject&);

}  // namespace polymio::capi
