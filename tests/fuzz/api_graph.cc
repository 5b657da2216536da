// The API fuzzer's graphs: attributes of any name, type and count, and chains of pointwise nodes and reductions against
// the reference.
// SPDX-License-Identifier: MIT
#include "fuzz/api.h"
#include "reference/graph.h"

namespace polymio::fuzz {
namespace {

using Type = miopenBackendDescriptorType_t;
using Name = miopenBackendAttributeName_t;
using ElementType = miopenBackendAttributeType_t;
using Descriptor = miopenBackendDescriptor_t;

/// A descriptor of one call; statuses of the calls that must succeed are checked.
struct Backend {
  Backend(Draw& draw, Type type) : d(draw) { good(miopenBackendCreateDescriptor(type, &object)); }
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  ~Backend() {
    if (object) miopenBackendDestroyDescriptor(object);
  }
  template <class T>
  Backend& set(Name name, ElementType type, std::vector<T> values) {
    good(miopenBackendSetAttribute(object, name, type, static_cast<std::int64_t>(values.size()), values.data()));
    return *this;
  }
  Backend& child(Name name, const Backend& of) {
    return set<Descriptor>(name, MIOPEN_TYPE_BACKEND_DESCRIPTOR, {of.object});
  }
  Backend& finalize() {
    good(miopenBackendFinalize(object));
    return *this;
  }
  void good(Status status) {
    if (status != kOk) d.world().report(std::string("a valid graph is refused: ") + polymioGetLastError());
  }
  Draw& d;
  Descriptor object = nullptr;
};

template <class E>
E number_as(int value) {
  E e{};
  std::memcpy(&e, &value, sizeof e);
  return e;
}

/// Names of every descriptor's attributes and some that none has, in ranges of consecutive numbers.
int any_name(Random& r) {
  const int starts[] = {0,    100,  200,  300,  400,  700,  750,  800,  900,
                        1000, 1300, 1500, 1520, 1600, 1610, 2200, 2300, 2310};
  return starts[r.below(std::size(starts))] + static_cast<int>(r.below(14));
}

/// Whatever is set, read and finalized: the library answers with a status of this API and a text.
void any_attributes(World& w) {
  Draw d(w);
  for (const Status status : {kBad, miopenStatusNotInitialized, miopenStatusNotImplemented, miopenStatusUnsupportedOp,
                              miopenStatusVersionMismatch})
    d.allow(status);
  Random& r = d.random();
  alignas(16) unsigned char memory[128] = {};
  Descriptor object = nullptr;
  const auto type = number_as<Type>(static_cast<int>(r.below(34)) - 1);
  const bool in_memory = r.one_in(4);
  if (in_memory) object = reinterpret_cast<Descriptor>(memory + (r.one_in(8) ? 1 : 0));
  const Status made = in_memory ? miopenBackendInitialize(d.pointer(object), type, r.pick({128, 64, 16, 0}))
                                : miopenBackendCreateDescriptor(type, d.pointer(&object));
  if (!d.check(made, "creation") || !d.clean()) return;
  Backend tensor(d, MIOPEN_BACKEND_TENSOR_DESCRIPTOR);
  for (int i = 0; i < 12; ++i) {
    const auto name = number_as<Name>(any_name(r));
    const auto element = number_as<ElementType>(static_cast<int>(r.below(32)) - 1);
    // Small numbers of every type; addresses are those of live objects.
    std::array<std::int64_t, 8> values{};
    for (auto& v : values) v = r.pick({0, 1, 2, 5, -1, 50});
    const void* const addresses[] = {tensor.object, w.handle(), nullptr, w.no_object(Kind::kHandle)};
    if (element == MIOPEN_TYPE_BACKEND_DESCRIPTOR || element == MIOPEN_TYPE_HANDLE || element == MIOPEN_TYPE_VOID_PTR)
      for (auto& v : values) v = static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(addresses[r.below(4)]));
    const std::int64_t count = r.pick({0, 1, 2, 8, -1});
    d.check(miopenBackendSetAttribute(object, name, element, count, r.one_in(8) ? nullptr : values.data()), "set");
    std::int64_t got = 0;
    d.check(miopenBackendGetAttribute(object, name, element, std::min<std::int64_t>(count, 1),
                                      r.one_in(8) ? nullptr : &got, values.data()),
            "get");
  }
  d.check(miopenBackendFinalize(object), "finalize");
  d.check(miopenBackendExecute(w.handle(), object, object), "execute");
  if (miopenBackendDestroyDescriptor(object) != kOk) w.report("a live descriptor cannot be destroyed");
  d.check(miopenBackendDestroyDescriptor(r.one_in(2) ? nullptr : static_cast<Descriptor>(w.no_object(Kind::kTensor))),
          "destroy");
}

/// A chain of exact operations on small integers, some of whose results are the caller's.
void run_chain(World& w) {
  Draw d(w);
  Random& r = d.random();
  const std::vector<std::int64_t> sizes = {r.between(1, 4), r.between(1, 40)}, row = {1, sizes[1]};
  struct Value {
    std::unique_ptr<Backend> desc;
    ref::Dense dense;
    bool is_virtual;
  };
  std::vector<Value> values;
  const auto add = [&](const std::vector<std::int64_t>& lens, bool is_virtual) -> Value& {
    auto desc = std::make_unique<Backend>(d, MIOPEN_BACKEND_TENSOR_DESCRIPTOR);
    desc->set<std::int64_t>(MIOPEN_ATTR_TENSOR_UNIQUE_ID, MIOPEN_TYPE_INT64, {static_cast<std::int64_t>(values.size())})
        .set<int>(MIOPEN_ATTR_TENSOR_DATA_TYPE, MIOPEN_TYPE_DATA_TYPE, {miopenFloat})
        .set<std::int64_t>(MIOPEN_ATTR_TENSOR_DIMENSIONS, MIOPEN_TYPE_INT64, lens)
        .set<std::int64_t>(MIOPEN_ATTR_TENSOR_STRIDES, MIOPEN_TYPE_INT64, packed_strides(lens))
        .set<char>(MIOPEN_ATTR_TENSOR_IS_VIRTUAL, MIOPEN_TYPE_BOOLEAN, {static_cast<char>(is_virtual)})
        .finalize();
    values.push_back({std::move(desc), {lens, {}}, is_virtual});
    values.back().dense.values.resize(static_cast<std::size_t>(values.back().dense.count()));
    return values.back();
  };
  for (int i = 0; i < 3; ++i)
    for (double& v : add(i == 2 ? row : sizes, false).dense.values) v = static_cast<double>(r.between(-3, 3));
  const std::size_t inputs = values.size();
  const int modes[] = {MIOPEN_POINTWISE_ADD, MIOPEN_POINTWISE_MUL,      MIOPEN_POINTWISE_SUB,
                       MIOPEN_POINTWISE_MAX, MIOPEN_POINTWISE_MIN,      MIOPEN_POINTWISE_CMP_GT,
                       MIOPEN_POINTWISE_ABS, MIOPEN_POINTWISE_RELU_FWD, MIOPEN_POINTWISE_NEG};
  std::vector<std::unique_ptr<Backend>> parts, operations;
  const std::int64_t length = r.between(1, 5);
  for (std::int64_t i = 0; i < length; ++i) {
    const int mode = modes[r.below(std::size(modes))];
    const std::size_t from = i == 0 ? 0 : values.size() - 1, other = r.below(inputs);
    Value& to = add(sizes, i + 1 < length && r.one_in(2));
    auto& pointwise = *parts.emplace_back(std::make_unique<Backend>(d, MIOPEN_BACKEND_POINTWISE_DESCRIPTOR));
    pointwise.set<int>(MIOPEN_ATTR_POINTWISE_MODE, MIOPEN_TYPE_POINTWISE_MODE, {mode})
        .set<int>(MIOPEN_ATTR_POINTWISE_MATH_PREC, MIOPEN_TYPE_DATA_TYPE, {miopenFloat})
        .finalize();
    auto& op = *operations.emplace_back(std::make_unique<Backend>(d, MIOPEN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR));
    op.child(MIOPEN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise)
        .child(MIOPEN_ATTR_OPERATION_POINTWISE_XDESC, *values[from].desc)
        .child(MIOPEN_ATTR_OPERATION_POINTWISE_YDESC, *to.desc);
    const bool binary = mode < MIOPEN_POINTWISE_ABS || mode == MIOPEN_POINTWISE_CMP_GT;
    if (binary) op.child(MIOPEN_ATTR_OPERATION_POINTWISE_BDESC, *values[other].desc);
    op.finalize();
    std::vector<const ref::Dense*> in = {&values[from].dense};
    if (binary) in.push_back(&values[other].dense);
    to.dense = ref::pointwise({.mode = mode}, in, sizes);
  }
  Backend graph(d, MIOPEN_BACKEND_OPERATIONGRAPH_DESCRIPTOR), engine(d, MIOPEN_BACKEND_ENGINE_DESCRIPTOR),
      config(d, MIOPEN_BACKEND_ENGINECFG_DESCRIPTOR), plan(d, MIOPEN_BACKEND_EXECUTION_PLAN_DESCRIPTOR),
      pack(d, MIOPEN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  std::vector<Descriptor> list;
  for (const auto& op : operations) list.push_back(op->object);
  graph.set<miopenHandle_t>(MIOPEN_ATTR_OPERATIONGRAPH_HANDLE, MIOPEN_TYPE_HANDLE, {w.handle()})
      .set(MIOPEN_ATTR_OPERATIONGRAPH_OPS, MIOPEN_TYPE_BACKEND_DESCRIPTOR, list)
      .finalize();
  std::int64_t count = 0, engines = 0, bytes = 0;
  graph.good(miopenBackendGetAttribute(graph.object, MIOPEN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, MIOPEN_TYPE_INT64,
                                       1, &count, &engines));
  engine.child(MIOPEN_ATTR_ENGINE_OPERATION_GRAPH, graph)
      .set<std::int64_t>(MIOPEN_ATTR_ENGINE_GLOBAL_INDEX, MIOPEN_TYPE_INT64, {r.between(0, engines - 1)})
      .finalize();
  config.child(MIOPEN_ATTR_ENGINECFG_ENGINE, engine).finalize();
  plan.set<miopenHandle_t>(MIOPEN_ATTR_EXECUTION_PLAN_HANDLE, MIOPEN_TYPE_HANDLE, {w.handle()})
      .child(MIOPEN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config)
      .finalize();
  plan.good(miopenBackendGetAttribute(plan.object, MIOPEN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, MIOPEN_TYPE_INT64, 1,
                                      &count, &bytes));
  Buffer workspace(w, static_cast<std::size_t>(bytes), 64);
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<std::int64_t> ids;
  std::vector<void*> pointers;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto& dense = values[i].dense;
    auto& buffer =
        *buffers.emplace_back(std::make_unique<Buffer>(w, dense.values.size() * sizeof(float), alignof(float)));
    for (std::size_t e = 0; i < inputs && e < dense.values.size(); ++e)
      ref::store(ref::Type::kFloat, buffer.data(), static_cast<std::int64_t>(e), dense.values[e]);
    if (values[i].is_virtual) continue;
    ids.push_back(static_cast<std::int64_t>(i));
    pointers.push_back(buffer.data());
  }
  pack.set(MIOPEN_ATTR_VARIANT_PACK_UNIQUE_IDS, MIOPEN_TYPE_INT64, ids)
      .set(MIOPEN_ATTR_VARIANT_PACK_DATA_POINTERS, MIOPEN_TYPE_VOID_PTR, pointers)
      .set<void*>(MIOPEN_ATTR_VARIANT_PACK_WORKSPACE, MIOPEN_TYPE_VOID_PTR, {bytes > 0 ? workspace.data() : nullptr})
      .finalize();
  const auto handle = d.object<miopenHandle_t>(Kind::kHandle, w.handle());
  Descriptor used = pack.object;
  if (d.wrong()) {
    used = plan.object;
    d.bad();
  }
  if (!d.check(miopenBackendExecute(handle, plan.object, used)) || !d.clean()) return;
  for (std::size_t i = inputs; i < values.size(); ++i)
    for (std::size_t e = 0; !values[i].is_virtual && e < values[i].dense.values.size(); ++e)
      if (ref::load(ref::Type::kFloat, buffers[i]->data(), static_cast<std::int64_t>(e)) != values[i].dense.values[e])
        return w.report("a chain computes other values than the reference");
}

Registration g_entries[] = {{"miopenBackendCreateDescriptor", any_attributes},
                            {"miopenBackendInitialize", any_attributes},
                            {"miopenBackendSetAttribute", any_attributes},
                            {"miopenBackendGetAttribute", any_attributes},
                            {"miopenBackendDestroyDescriptor", any_attributes},
                            {"miopenBackendFinalize", run_chain},
                            {"miopenBackendExecute", run_chain}};

}  // namespace
}  // namespace polymio::fuzz
