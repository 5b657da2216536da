// Group `RNN`: descriptors, sizes and the parameter buffer.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/common/handle.h"
#include "capi/rnn.h"
#include "primitives/tensor_ops/tensor_ops.h"

using namespace polymio;
using capi::deref;
using capi::described;
using capi::guard;
using capi::not_null;
using capi::RnnObject;

namespace polymio::capi {

rnn::Network network_of(const RnnObject& d, DataType type, std::int64_t input, const char* name) {
  require(d.network.hidden > 0, "the RNN descriptor has not been set");
  require(type == d.network.type, "{} is {}, the RNN descriptor {}: their data types must be equal", name,
          name_of(type), name_of(d.network.type));
  rnn::Network network = d.network;
  network.input = input;
  const double columns = static_cast<double>(input) + 3 * static_cast<double>(network.hidden) + 2;
  rnn::require_addressable(8 * static_cast<double>(network.layers) * static_cast<double>(network.all_gates()) * columns,
                           "the weights");
  require(!network.skips_input || input == network.hidden,
          "{} has {} elements, the hidden state {}: without an input matrix they must be equal", name, input,
          network.hidden);
  return network;
}

rnn::Network network_of(const RnnObject& d, miopenTensorDescriptor_t x) {
  const TensorDesc& desc = described(x, "x");
  require(desc.rank >= 2, "x has rank {}: the x of one step is [samples, elements]", desc.rank);
  return network_of(d, desc.type, desc.lens[1], "x");
}

dropout::Choice dropout_of(const RnnObject& d) {
  if (!d.dropout) return {};
  const DropoutObject& given = deref(d.dropout);
  return {given.rate, false, given.state_evo, given.states, given.states_bytes, nullptr};
}

rnn::Problem::Drops drops_of(const RnnObject& d) {
  const bool drops = d.network.layers > 1 && d.dropout && deref(d.dropout).rate > 0;
  return drops ? rnn::Problem::Drops::kBetweenLayers : rnn::Problem::Drops::kNever;
}

}  // namespace polymio::capi

namespace {

template <class Enum>
int checked_enum(Enum value, int most, const char* name) {
  const int number = static_cast<int>(value);
  require(number >= 0 && number <= most, "{} is {}: allowed are 0 to {}", name, number, most);
  return number;
}

void store(RnnObject& d, int hidden, int layers, miopenRNNInputMode_t input, miopenRNNDirectionMode_t direction,
           miopenRNNMode_t mode, miopenRNNBiasMode_t bias, miopenRNNAlgo_t algorithm, miopenDataType_t type) {
  require(hidden >= 1 && layers >= 1, "{} layers of {} hidden units: both must be positive", layers, hidden);
  rnn::Network n;
  n.skips_input = checked_enum(input, 1, "the input mode") == 1;
  n.bidirectional = checked_enum(direction, 1, "the direction") == 1;
  n.mode = static_cast<rnn::Mode>(checked_enum(mode, rnn::kModes - 1, "the RNN mode"));
  n.has_bias = checked_enum(bias, 1, "the bias mode") == 1;
  n.type = static_cast<DataType>(type);
  require(n.type == DataType::kFloat || n.type == DataType::kHalf || n.type == DataType::kBFloat16,
          "data type {} of an RNN: allowed are half 0, float 1 and bfloat16 5", static_cast<int>(type));
  n.hidden = hidden;
  n.layers = layers;
  d.algorithm = static_cast<miopenRNNAlgo_t>(checked_enum(algorithm, 2, "the algorithm"));
  d.network = n;
}

void put_desc(miopenTensorDescriptor_t desc, const TensorDesc& value) {
  auto& object = capi::checked<capi::TensorObject>(desc);
  object.desc = value;
  object.layout.reset();
}

TensorDesc tensor_of(const rnn::Network& n, const rnn::Part& part, bool is_bias) {
  const std::int64_t lens[] = {part.rows, part.columns};
  return make_tensor(n.type, {lens, is_bias ? 1u : 2u}, {});
}

/// A matrix or bias that functions name by layer and id.
struct Named {
  rnn::Network network;
  rnn::Part part;
  bool is_bias, exists;
  TensorDesc desc() const { return tensor_of(network, part, is_bias); }
  std::size_t byte_offset() const { return static_cast<std::size_t>(part.offset) * size_of(network.type); }
};

Named named(const rnn::Network& n, int layer, int id, bool is_bias) {
  const std::int64_t pseudo_layers = n.layers * n.directions();
  require(layer >= 0 && layer < pseudo_layers, "layer {} does not exist: allowed are 0 to {}", layer,
          pseudo_layers - 1);
  require(id >= 0 && id < 2 * n.gates(), "{} {} does not exist: allowed are 0 to {}", is_bias ? "bias" : "matrix", id,
          2 * n.gates() - 1);
  const std::int64_t of = layer / n.directions(), direction = layer % n.directions();
  if (is_bias) return {n, n.bias(of, direction, id), true, n.has_bias};
  return {n, n.matrix(of, direction, id), false, id >= n.gates() || n.columns(of) > 0};
}

void require_matrix(const Named& m) {
  require(m.exists, "the first layer has no input matrices: its input mode is skip");
}

/// The weights hold all parts.
void check_weights(const Named& m, miopenTensorDescriptor_t weights) {
  const TensorDesc& desc = described(weights, "w");
  require(desc.type == m.network.type, "w is {}, the RNN descriptor {}: their data types must be equal",
          name_of(desc.type), name_of(m.network.type));
  require(desc.count() >= m.network.elements(), "w has {} elements, the network {}", desc.count(),
          m.network.elements());
}

void get_part(Handle& handle, const Named& m, const void* w, miopenTensorDescriptor_t desc, void* to) {
  put_desc(desc, m.desc());
  if (!to) return;
  not_null(w, "the buffer of w");
  const TensorDesc tensor = m.desc();
  handle.run([&](Stream& stream) { stream.copy(Buffer(to), Buffer(w, m.byte_offset()), tensor.bytes()); });
}

void set_part(Handle& handle, const Named& m, void* w, miopenTensorDescriptor_t desc, const void* from,
              const char* name) {
  not_null(w, "the buffer of w");
  not_null(from, name);
  const TensorDesc &given = described(desc, name), tensor = m.desc();
  require(given.type == tensor.type && given.rank == tensor.rank && given.lens == tensor.lens,
          "{} is {} of {}: it must be {} of {}", name, sizes_text(given), name_of(given.type), sizes_text(tensor),
          name_of(tensor.type));
  handle.run([&](Stream& stream) {
    if (given.packed()) return stream.copy(Buffer(w, m.byte_offset()), Buffer(from), tensor.bytes());
    tensor_ops::transform(stream, 1, {given, from}, 0, {tensor, static_cast<char*>(w) + m.byte_offset()});
  });
}

}  // namespace

miopenStatus_t miopenCreateRNNDescriptor(miopenRNNDescriptor_t* rnnDesc) {
  return guard([&] {
    not_null(rnnDesc, "rnnDesc");
    *rnnDesc = new RnnObject;
  });
}

miopenStatus_t miopenDestroyRNNDescriptor(miopenRNNDescriptor_t rnnDesc) {
  return guard([&] { delete &deref(rnnDesc); });
}

miopenStatus_t miopenGetRNNDescriptor(miopenRNNDescriptor_t rnnDesc, miopenRNNMode_t* rnnMode,
                                      miopenRNNAlgo_t* algoMode, miopenRNNInputMode_t* inputMode,
                                      miopenRNNDirectionMode_t* dirMode, miopenRNNBiasMode_t* biasMode, int* hiddenSize,
                                      int* layer) {
  return miopenGetRNNDescriptor_V2(rnnDesc, hiddenSize, layer, nullptr, inputMode, dirMode, rnnMode, biasMode, algoMode,
                                   nullptr);
}

miopenStatus_t miopenGetRNNDescriptor_V2(miopenRNNDescriptor_t rnnDesc, int* hiddenSize, int* layer,
                                         miopenDropoutDescriptor_t* dropoutDesc, miopenRNNInputMode_t* inputMode,
                                         miopenRNNDirectionMode_t* dirMode, miopenRNNMode_t* rnnMode,
                                         miopenRNNBiasMode_t* biasMode, miopenRNNAlgo_t* algoMode,
                                         miopenDataType_t* dataType) {
  return guard([&] {
    const RnnObject& d = deref(rnnDesc);
    const rnn::Network& n = d.network;
    if (hiddenSize) *hiddenSize = static_cast<int>(n.hidden);
    if (layer) *layer = static_cast<int>(n.layers);
    if (dropoutDesc) *dropoutDesc = d.dropout;
    if (inputMode) *inputMode = n.skips_input ? miopenRNNskip : miopenRNNlinear;
    if (dirMode) *dirMode = n.bidirectional ? miopenRNNbidirection : miopenRNNunidirection;
    if (rnnMode) *rnnMode = static_cast<miopenRNNMode_t>(n.mode);
    if (biasMode) *biasMode = n.has_bias ? miopenRNNwithBias : miopenRNNNoBias;
    if (algoMode) *algoMode = d.algorithm;
    if (dataType) *dataType = static_cast<miopenDataType_t>(n.type);
  });
}

miopenStatus_t miopenSetRNNDescriptor(miopenRNNDescriptor_t rnnDesc, const int hsize, const int nlayers,
                                      miopenRNNInputMode_t inMode, miopenRNNDirectionMode_t direction,
                                      miopenRNNMode_t rnnMode, miopenRNNBiasMode_t biasMode, miopenRNNAlgo_t algo,
                                      miopenDataType_t dataType) {
  return guard([&] {
    RnnObject& d = deref(rnnDesc);
    store(d, hsize, nlayers, inMode, direction, rnnMode, biasMode, algo, dataType);
    d.dropout = nullptr;
  });
}

miopenStatus_t miopenSetRNNDescriptor_V2(miopenRNNDescriptor_t rnnDesc, const int hsize, const int nlayers,
                                         miopenDropoutDescriptor_t dropoutDesc, miopenRNNInputMode_t inMode,
                                         miopenRNNDirectionMode_t direction, miopenRNNMode_t rnnMode,
                                         miopenRNNBiasMode_t biasMode, miopenRNNAlgo_t algo,
                                         miopenDataType_t dataType) {
  return guard([&] {
    RnnObject& d = deref(rnnDesc);
    deref(dropoutDesc);
    store(d, hsize, nlayers, inMode, direction, rnnMode, biasMode, algo, dataType);
    d.dropout = dropoutDesc;
  });
}

miopenStatus_t miopenSetRNNPaddingMode(miopenRNNDescriptor_t rnnDesc, miopenRNNPaddingMode_t paddingMode) {
  return guard([&] { deref(rnnDesc).padded = checked_enum(paddingMode, 1, "the padding mode") == 1; });
}

miopenStatus_t miopenGetRNNPaddingMode(miopenRNNDescriptor_t rnnDesc, miopenRNNPaddingMode_t* paddingMode) {
  return guard([&] {
    *not_null(paddingMode, "paddingMode") = deref(rnnDesc).padded ? miopenRNNIOWithPadding : miopenRNNIONotPadded;
  });
}

miopenStatus_t miopenSetRNNDataSeqTensorDescriptor(miopenSeqTensorDescriptor_t seqTensorDesc, miopenDataType_t dataType,
                                                   miopenRNNBaseLayout_t layout, int maxSequenceLen, int batchSize,
                                                   int vectorSize, const int* sequenceLenArray, void* paddingMarker) {
  return guard([&] {
    capi::SeqTensorObject& d = deref(seqTensorDesc);
    const auto type = static_cast<DataType>(dataType);
    require(is_valid(type), "data type {} is unknown", static_cast<int>(dataType));
    const int order = static_cast<int>(layout);
    require(order >= 1 && order <= 3, "layout {} is unknown: allowed are 1 (steps, packed), 2 (steps), 3 (batch)",
            order);
    require(maxSequenceLen > 0 && batchSize > 0 && vectorSize > 0,
            "{} steps of {} sequences of {} elements: all must be positive", maxSequenceLen, batchSize, vectorSize);
    not_null(sequenceLenArray, "sequenceLenArray");
    const std::vector<std::int64_t> lengths(sequenceLenArray, sequenceLenArray + batchSize);
    for (std::size_t i = 0; i < lengths.size(); ++i)
      require(lengths[i] >= 0 && lengths[i] <= maxSequenceLen, "sequence {} has {} steps: allowed are 0 to {}", i,
              lengths[i], maxSequenceLen);
    require(order != 1 || std::is_sorted(lengths.rbegin(), lengths.rend()),
            "the lengths of packed sequences must not ascend");
    d.type = type;
    d.order = static_cast<rnn::Order>(order);
    d.steps = maxSequenceLen;
    d.vector = vectorSize;
    d.lengths = lengths;
    d.padding.reset();
    if (paddingMarker) std::memcpy(d.padding.emplace().data(), paddingMarker, size_of(type));
  });
}

miopenStatus_t miopenGetRNNDataSeqTensorDescriptor(miopenSeqTensorDescriptor_t seqTensorDesc,
                                                   miopenDataType_t* dataType, miopenRNNBaseLayout_t* layout,
                                                   int* maxSequenceLen, int* batchSize, int* vectorSize,
                                                   int sequenceLenArrayLimit, int* sequenceLenArray,
                                                   void* paddingMarker) {
  return guard([&] {
    const capi::SeqTensorObject& d = deref(seqTensorDesc);
    require(d.steps > 0, "the sequence tensor descriptor has not been set");
    not_null(dataType, "dataType");
    not_null(layout, "layout");
    not_null(maxSequenceLen, "maxSequenceLen");
    not_null(batchSize, "batchSize");
    *not_null(vectorSize, "vectorSize") = static_cast<int>(d.vector);
    *dataType = static_cast<miopenDataType_t>(d.type);
    *layout = static_cast<miopenRNNBaseLayout_t>(d.order);
    *maxSequenceLen = static_cast<int>(d.steps);
    *batchSize = static_cast<int>(d.lengths.size());
    const std::size_t most = sequenceLenArray ? static_cast<std::size_t>(std::max(sequenceLenArrayLimit, 0)) : 0;
    for (std::size_t i = 0; i < std::min(most, d.lengths.size()); ++i)
      sequenceLenArray[i] = static_cast<int>(d.lengths[i]);
    if (paddingMarker && d.padding) std::memcpy(paddingMarker, d.padding->data(), size_of(d.type));
  });
}

miopenStatus_t miopenGetRNNParamsSize(miopenHandle_t handle, miopenRNNDescriptor_t rnnDesc,
                                      miopenTensorDescriptor_t xDesc, size_t* numBytes, miopenDataType_t dtype) {
  return guard([&] {
    deref(handle);
    const rnn::Network n = capi::network_of(deref(rnnDesc), xDesc);
    require(static_cast<DataType>(dtype) == n.type, "dtype is {}, the RNN descriptor has {}", static_cast<int>(dtype),
            static_cast<int>(n.type));
    *not_null(numBytes, "numBytes") = static_cast<std::size_t>(n.elements()) * size_of(n.type);
  });
}

miopenStatus_t miopenGetRNNParamsDescriptor(miopenHandle_t handle, miopenRNNDescriptor_t rnnDesc,
                                            miopenTensorDescriptor_t xDesc, miopenTensorDescriptor_t wDesc,
                                            miopenDataType_t dtype) {
  return guard([&] {
    deref(handle);
    const rnn::Network n = capi::network_of(deref(rnnDesc), xDesc);
    require(static_cast<DataType>(dtype) == n.type, "dtype is {}, the RNN descriptor has {}", static_cast<int>(dtype),
            static_cast<int>(n.type));
    const std::int64_t lens[] = {n.elements() / n.all_gates(), n.all_gates()};
    put_desc(wDesc, make_tensor(n.type, lens, {}));
  });
}

miopenStatus_t miopenGetRNNLayerParamSize(miopenHandle_t handle, miopenRNNDescriptor_t rnnDesc, const int layer,
                                          miopenTensorDescriptor_t xDesc, const int paramID, size_t* numBytes) {
  return guard([&] {
    deref(handle);
    const Named m = named(capi::network_of(deref(rnnDesc), xDesc), layer, paramID, false);
    *not_null(numBytes, "numBytes") = m.exists ? static_cast<std::size_t>(m.part.count()) * size_of(m.network.type) : 0;
  });
}

miopenStatus_t miopenGetRNNLayerBiasSize(miopenHandle_t handle, miopenRNNDescriptor_t rnnDesc, const int layer,
                                         const int biasID, size_t* numBytes) {
  return guard([&] {
    deref(handle);
    const RnnObject& d = deref(rnnDesc);
    const Named m = named(capi::network_of(d, d.network.type, d.network.hidden, "x"), layer, biasID, true);
    *not_null(numBytes, "numBytes") = static_cast<std::size_t>(m.part.count()) * size_of(m.network.type);
  });
}

miopenStatus_t miopenGetRNNLayerParam(miopenHandle_t handle, miopenRNNDescriptor_t rnnDesc, const int layer,
                                      miopenTensorDescriptor_t xDesc, miopenTensorDescriptor_t wDesc, const void* w,
                                      const int paramID, miopenTensorDescriptor_t paramDesc, void* layerParam) {
  return guard([&] {
    Handle& on = deref(handle);
    const Named m = named(capi::network_of(deref(rnnDesc), xDesc), layer, paramID, false);
    require_matrix(m);
    check_weights(m, wDesc);
    get_part(on, m, w, paramDesc, layerParam);
  });
}

miopenStatus_t miopenGetRNNLayerBias(miopenHandle_t handle, miopenRNNDescriptor_t rnnDesc, const int layer,
                                     miopenTensorDescriptor_t xDesc, miopenTensorDescriptor_t wDesc, const void* w,
                                     const int biasID, miopenTensorDescriptor_t biasDesc, void* layerBias) {
  return guard([&] {
    Handle& on = deref(handle);
    const Named m = named(capi::network_of(deref(rnnDesc), xDesc), layer, biasID, true);
    if (!m.exists) return;
    check_weights(m, wDesc);
    get_part(on, m, w, biasDesc, layerBias);
  });
}

miopenStatus_t miopenGetRNNLayerParamOffset(miopenRNNDescriptor_t rnnDesc, const int layer,
                                            miopenTensorDescriptor_t xDesc, const int paramID,
                                            miopenTensorDescriptor_t paramDesc, size_t* layerParamOffset) {
  return guard([&] {
    const Named m = named(capi::network_of(deref(rnnDesc), xDesc), layer, paramID, false);
    require_matrix(m);
    put_desc(paramDesc, m.desc());
    if (layerParamOffset) *layerParamOffset = static_cast<std::size_t>(m.part.offset);
  });
}

miopenStatus_t miopenGetRNNLayerBiasOffset(miopenRNNDescriptor_t rnnDesc, const int layer,
                                           miopenTensorDescriptor_t xDesc, const int biasID,
                                           miopenTensorDescriptor_t biasDesc, size_t* layerBiasOffset) {
  return guard([&] {
    const Named m = named(capi::network_of(deref(rnnDesc), xDesc), layer, biasID, true);
    if (!m.exists) return;
    put_desc(biasDesc, m.desc());
    if (layerBiasOffset) *layerBiasOffset = static_cast<std::size_t>(m.part.offset);
  });
}

miopenStatus_t miopenSetRNNLayerParam(miopenHandle_t handle, miopenRNNDescriptor_t rnnDesc, const int layer,
                                      miopenTensorDescriptor_t xDesc, miopenTensorDescriptor_t wDesc, void* w,
                                      const int paramID, miopenTensorDescriptor_t paramDesc, const void* layerParam) {
  return guard([&] {
    Handle& on = deref(handle);
    const Named m = named(capi::network_of(deref(rnnDesc), xDesc), layer, paramID, false);
    require_matrix(m);
    check_weights(m, wDesc);
    set_part(on, m, w, paramDesc, layerParam, "layerParam");
  });
}

miopenStatus_t miopenSetRNNLayerBias(miopenHandle_t handle, miopenRNNDescriptor_t rnnDesc, const int layer,
                                     miopenTensorDescriptor_t xDesc, miopenTensorDescriptor_t wDesc, void* w,
                                     const int biasID, miopenTensorDescriptor_t biasDesc, const void* layerBias) {
  return guard([&] {
    Handle& on = deref(handle);
    const Named m = named(capi::network_of(deref(rnnDesc), xDesc), layer, biasID, true);
    if (!m.exists) return;
    check_weights(m, wDesc);
    set_part(on, m, w, biasDesc, layerBias, "layerBias");
  });
}
