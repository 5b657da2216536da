// Graphs for tests in few lines: tensors with values, operations, and runs of every engine that the heuristic lists.
// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "cuda_graph.h"
#include "on_device.h"
#include "reference/graph.h"

namespace polymio::test {

/// A descriptor that is destroyed at the end of its scope.
class Backend {
 public:
  explicit Backend(miopenBackendDescriptorType_t type) { expect_ok(miopenBackendCreateDescriptor(type, &object_)); }
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  ~Backend() {
    if (object_) expect_ok(miopenBackendDestroyDescriptor(object_));
  }
  operator miopenBackendDescriptor_t() const { return object_; }  // NOLINT: passes to the API as it is

  template <class T>
  miopenStatus_t try_set(miopenBackendAttributeName_t name, miopenBackendAttributeType_t type, std::vector<T> values) {
    return miopenBackendSetAttribute(object_, name, type, static_cast<int64_t>(values.size()), values.data());
  }
  template <class T>
  Backend& set(miopenBackendAttributeName_t name, miopenBackendAttributeType_t type, std::vector<T> values,
               int line = __builtin_LINE()) {
    expect_ok(try_set(name, type, std::move(values)), line);
    return *this;
  }
  Backend& set_child(miopenBackendAttributeName_t name, miopenBackendDescriptor_t child, int line = __builtin_LINE()) {
    return set<miopenBackendDescriptor_t>(name, MIOPEN_TYPE_BACKEND_DESCRIPTOR, {child}, line);
  }
  Backend& finalize(int line = __builtin_LINE()) {
    expect_ok(miopenBackendFinalize(object_), line);
    return *this;
  }
  template <class T>
  std::vector<T> get(miopenBackendAttributeName_t name, miopenBackendAttributeType_t type, int64_t most) const {
    std::vector<T> values(static_cast<std::size_t>(std::max<int64_t>(most, 1)));
    int64_t count = -1;
    expect_ok(miopenBackendGetAttribute(object_, name, type, most, &count, values.data()));
    values.resize(static_cast<std::size_t>(std::clamp<int64_t>(count, 0, most)));
    return values;
  }
  template <class T>
  T one(miopenBackendAttributeName_t name, miopenBackendAttributeType_t type) const {
    return get<T>(name, type, 1).at(0);
  }

 private:
  miopenBackendDescriptor_t object_ = nullptr;
};

using Sizes = std::vector<int64_t>;
using reference::Dense;

inline Sizes packed(const Sizes& sizes) {
  Sizes strides(sizes.size());
  int64_t step = 1;
  for (std::size_t d = sizes.size(); d-- > 0; step *= sizes[d]) strides[d] = step;
  return strides;
}

class GraphBuilder {
 public:
  explicit GraphBuilder(miopenHandle_t handle) : handle_(handle) {}

  struct Tensor {
    reference::Tensor layout;
    Dense dense;  // values, before the graph runs
    bool is_virtual = false;
    std::unique_ptr<Backend> desc;
  };

  /// Returns the unique id.
  int64_t tensor(miopenDataType_t type, const Sizes& sizes, bool is_virtual = false, const Sizes& strides = {}) {
    const auto id = static_cast<int64_t>(tensors_.size()) + 100;
    Tensor& t = tensors_[id];
    t.layout = {static_cast<reference::Type>(type), sizes, strides};
    t.dense.sizes = sizes;
    t.dense.values.assign(static_cast<std::size_t>(t.dense.count()), 0);
    t.is_virtual = is_virtual;
    t.desc = std::make_unique<Backend>(MIOPEN_BACKEND_TENSOR_DESCRIPTOR);
    t.desc->set<int64_t>(MIOPEN_ATTR_TENSOR_UNIQUE_ID, MIOPEN_TYPE_INT64, {id})
        .set<miopenDataType_t>(MIOPEN_ATTR_TENSOR_DATA_TYPE, MIOPEN_TYPE_DATA_TYPE, {type})
        .set<int64_t>(MIOPEN_ATTR_TENSOR_DIMENSIONS, MIOPEN_TYPE_INT64, sizes)
        .set<int64_t>(MIOPEN_ATTR_TENSOR_STRIDES, MIOPEN_TYPE_INT64, strides.empty() ? packed(sizes) : strides)
        .set<char>(MIOPEN_ATTR_TENSOR_IS_VIRTUAL, MIOPEN_TYPE_BOOLEAN, {static_cast<char>(is_virtual)})
        .finalize();
    return id;
  }
  /// With values from least to most, rounded to the type.
  int64_t input(miopenDataType_t type, const Sizes& sizes, double least = -2, double most = 2,
                const Sizes& strides = {}) {
    const int64_t id = tensor(type, sizes, false, strides);
    std::uniform_real_distribution<double> draw(least, most);
    for (double& v : dense(id).values) v = reference::round_to(tensors_[id].layout.type, draw(random_));
    return id;
  }
  Dense& dense(int64_t id) { return tensors_.at(id).dense; }
  miopenBackendDescriptor_t desc(int64_t id) { return *tensors_.at(id).desc; }

  /// An operation, which the caller finishes with set() and finalize().
  Backend& operation(miopenBackendDescriptorType_t type) { return keep(operations_, type); }
  Backend& part(miopenBackendDescriptorType_t type) { return keep(parts_, type); }

  void pointwise(const reference::Pointwise& p, const Sizes& in, int64_t out,
                 miopenDataType_t precision = miopenFloat) {
    Backend& mode = part(MIOPEN_BACKEND_POINTWISE_DESCRIPTOR);
    mode.set<int>(MIOPEN_ATTR_POINTWISE_MODE, MIOPEN_TYPE_POINTWISE_MODE, {p.mode})
        .set<miopenDataType_t>(MIOPEN_ATTR_POINTWISE_MATH_PREC, MIOPEN_TYPE_DATA_TYPE, {precision})
        .set<int>(MIOPEN_ATTR_POINTWISE_NAN_PROPAGATION, MIOPEN_TYPE_NAN_PROPOGATION, {p.propagates_nan ? 1 : 0})
        .set<double>(MIOPEN_ATTR_POINTWISE_RELU_LOWER_CLIP, MIOPEN_TYPE_DOUBLE, {p.lower_clip})
        .set<double>(MIOPEN_ATTR_POINTWISE_RELU_UPPER_CLIP, MIOPEN_TYPE_DOUBLE, {p.upper_clip})
        .set<double>(MIOPEN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, MIOPEN_TYPE_DOUBLE, {p.lower_slope})
        .set<double>(MIOPEN_ATTR_POINTWISE_ELU_ALPHA, MIOPEN_TYPE_DOUBLE, {p.elu_alpha})
        .set<double>(MIOPEN_ATTR_POINTWISE_SOFTPLUS_BETA, MIOPEN_TYPE_DOUBLE, {p.softplus_beta})
        .set<double>(MIOPEN_ATTR_POINTWISE_SWISH_BETA, MIOPEN_TYPE_DOUBLE, {p.swish_beta})
        .set<int64_t>(MIOPEN_ATTR_POINTWISE_AXIS, MIOPEN_TYPE_INT64, {p.axis})
        .finalize();
    Backend& op = operation(MIOPEN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    op.set_child(MIOPEN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, mode);
    const bool backward = p.mode >= MIOPEN_POINTWISE_RELU_BWD && p.mode <= MIOPEN_POINTWISE_GELU_APPROX_TANH_BWD;
    if (backward) {
      op.set_child(MIOPEN_ATTR_OPERATION_POINTWISE_YDESC, desc(in[0]));
      op.set_child(MIOPEN_ATTR_OPERATION_POINTWISE_DYDESC, desc(in[1]));
      op.set_child(MIOPEN_ATTR_OPERATION_POINTWISE_DXDESC, desc(out));
    } else {
      op.set_child(MIOPEN_ATTR_OPERATION_POINTWISE_XDESC, desc(in[0]));
      if (in.size() > 1) op.set_child(MIOPEN_ATTR_OPERATION_POINTWISE_BDESC, desc(in[1]));
      if (in.size() > 2) op.set_child(MIOPEN_ATTR_OPERATION_POINTWISE_TDESC, desc(in[2]));
      op.set_child(MIOPEN_ATTR_OPERATION_POINTWISE_YDESC, desc(out));
    }
    if (p.alpha1 != 1)
      op.set<float>(MIOPEN_ATTR_OPERATION_POINTWISE_ALPHA1, MIOPEN_TYPE_FLOAT, {static_cast<float>(p.alpha1)});
    if (p.alpha2 != 1)
      op.set<float>(MIOPEN_ATTR_OPERATION_POINTWISE_ALPHA2, MIOPEN_TYPE_FLOAT, {static_cast<float>(p.alpha2)});
    op.finalize();
  }
  void pointwise(int mode, const Sizes& in, int64_t out) { pointwise(reference::Pointwise{.mode = mode}, in, out); }

  void product(int64_t a, int64_t b, int64_t c) {
    Backend& of = part(MIOPEN_BACKEND_MATMUL_DESCRIPTOR);
    of.set<miopenDataType_t>(MIOPEN_ATTR_MATMUL_COMP_TYPE, MIOPEN_TYPE_DATA_TYPE, {miopenFloat}).finalize();
    operation(MIOPEN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
        .set_child(MIOPEN_ATTR_OPERATION_MATMUL_DESC, of)
        .set_child(MIOPEN_ATTR_OPERATION_MATMUL_ADESC, desc(a))
        .set_child(MIOPEN_ATTR_OPERATION_MATMUL_BDESC, desc(b))
        .set_child(MIOPEN_ATTR_OPERATION_MATMUL_CDESC, desc(c))
        .finalize();
  }
  void reduction(miopenReduceTensorOp_t op, int64_t x, int64_t y) {
    Backend& of = part(MIOPEN_BACKEND_REDUCTION_DESCRIPTOR);
    of.set<int>(MIOPEN_ATTR_REDUCTION_OPERATOR, MIOPEN_TYPE_REDUCTION_OPERATOR_TYPE, {op})
        .set<miopenDataType_t>(MIOPEN_ATTR_REDUCTION_COMP_TYPE, MIOPEN_TYPE_DATA_TYPE, {miopenFloat})
        .finalize();
    operation(MIOPEN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)
        .set_child(MIOPEN_ATTR_OPERATION_REDUCTION_DESC, of)
        .set_child(MIOPEN_ATTR_OPERATION_REDUCTION_XDESC, desc(x))
        .set_child(MIOPEN_ATTR_OPERATION_REDUCTION_YDESC, desc(y))
        .finalize();
  }
  void reshape(int64_t x, int64_t y) {
    operation(MIOPEN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR)
        .set_child(MIOPEN_ATTR_OPERATION_RESHAPE_XDESC, desc(x))
        .set_child(MIOPEN_ATTR_OPERATION_RESHAPE_YDESC, desc(y))
        .finalize();
  }
  /// Without a seed tensor (-1) the seed is `seed_value`.
  void random(miopenRngDistribution_t distribution, double first, double second, int64_t seed_value, int64_t seed,
              int64_t offset, int64_t y) {
    Backend& of = part(MIOPEN_BACKEND_RNG_DESCRIPTOR);
    of.set<int>(MIOPEN_ATTR_RNG_DISTRIBUTION, MIOPEN_TYPE_RNG_DISTRIBUTION, {distribution});
    if (distribution == MIOPEN_RNG_DISTRIBUTION_BERNOULLI)
      of.set<double>(MIOPEN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY, MIOPEN_TYPE_DOUBLE, {first});
    if (distribution == MIOPEN_RNG_DISTRIBUTION_UNIFORM)
      of.set<double>(MIOPEN_ATTR_RNG_UNIFORM_DIST_MINIMUM, MIOPEN_TYPE_DOUBLE, {first})
          .set<double>(MIOPEN_ATTR_RNG_UNIFORM_DIST_MAXIMUM, MIOPEN_TYPE_DOUBLE, {second});
    if (distribution == MIOPEN_RNG_DISTRIBUTION_NORMAL)
      of.set<double>(MIOPEN_ATTR_RNG_NORMAL_DIST_MEAN, MIOPEN_TYPE_DOUBLE, {first})
          .set<double>(MIOPEN_ATTR_RNG_NORMAL_DIST_STANDARD_DEVIATION, MIOPEN_TYPE_DOUBLE, {second});
    of.finalize();
    Backend& op = operation(MIOPEN_BACKEND_OPERATION_RNG_DESCRIPTOR);
    op.set_child(MIOPEN_ATTR_OPERATION_RNG_DESC, of).set_child(MIOPEN_ATTR_OPERATION_RNG_YDESC, desc(y));
    op.set_child(MIOPEN_ATTR_OPERATION_RNG_OFFSET_DESC, desc(offset));
    if (seed < 0)
      op.set<int64_t>(MIOPEN_ATTR_OPERATION_RNG_SEED, MIOPEN_TYPE_INT64, {seed_value});
    else
      op.set_child(MIOPEN_ATTR_OPERATION_RNG_SEED, desc(seed));
    op.finalize();
  }
  struct Window {
    Sizes pre, post, stride, dilation;
    miopenConvolutionMode_t mode = miopenConvolution;
    double alpha = 1, beta = 0;
  };
  /// `first` and `second` are the inputs: x and w, w and dy, or x and dy.
  void convolution(reference::Direction direction, const Window& w, int64_t first, int64_t second, int64_t result) {
    using Name = miopenBackendAttributeName_t;
    constexpr miopenBackendDescriptorType_t kTypes[] = {
        MIOPEN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
        MIOPEN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
        MIOPEN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR};
    constexpr Name kNames[][6] = {
        {MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
         MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
         MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
        {MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
         MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
         MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
        {MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
         MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
         MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}};
    Backend& of = part(MIOPEN_BACKEND_CONVOLUTION_DESCRIPTOR);
    of.set<miopenDataType_t>(MIOPEN_ATTR_CONVOLUTION_COMP_TYPE, MIOPEN_TYPE_DATA_TYPE, {miopenFloat})
        .set<miopenConvolutionMode_t>(MIOPEN_ATTR_CONVOLUTION_CONV_MODE, MIOPEN_TYPE_CONVOLUTION_MODE, {w.mode})
        .set<int64_t>(MIOPEN_ATTR_CONVOLUTION_SPATIAL_DIMS, MIOPEN_TYPE_INT64, {static_cast<int64_t>(w.pre.size())})
        .set<int64_t>(MIOPEN_ATTR_CONVOLUTION_PRE_PADDINGS, MIOPEN_TYPE_INT64, w.pre)
        .set<int64_t>(MIOPEN_ATTR_CONVOLUTION_POST_PADDINGS, MIOPEN_TYPE_INT64, w.post)
        .set<int64_t>(MIOPEN_ATTR_CONVOLUTION_FILTER_STRIDES, MIOPEN_TYPE_INT64, w.stride)
        .set<int64_t>(MIOPEN_ATTR_CONVOLUTION_DILATIONS, MIOPEN_TYPE_INT64, w.dilation)
        .finalize();
    const auto& names = kNames[static_cast<int>(direction)];
    operation(kTypes[static_cast<int>(direction)])
        .set_child(names[0], of)
        .set_child(names[1], desc(first))
        .set_child(names[2], desc(second))
        .set_child(names[3], desc(result))
        .set<double>(names[4], MIOPEN_TYPE_DOUBLE, {w.alpha})
        .set<double>(names[5], MIOPEN_TYPE_DOUBLE, {w.beta})
        .finalize();
  }

  /// The finalized graph of all operations.
  Backend& graph() {
    if (graph_) return *graph_;
    graph_ = std::make_unique<Backend>(MIOPEN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    std::vector<miopenBackendDescriptor_t> ops;
    for (const auto& op : operations_) ops.push_back(*op);
    graph_->set<miopenHandle_t>(MIOPEN_ATTR_OPERATIONGRAPH_HANDLE, MIOPEN_TYPE_HANDLE, {handle_})
        .set(MIOPEN_ATTR_OPERATIONGRAPH_OPS, MIOPEN_TYPE_BACKEND_DESCRIPTOR, ops)
        .finalize();
    return *graph_;
  }
  int64_t engines() { return graph().one<int64_t>(MIOPEN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, MIOPEN_TYPE_INT64); }
  /// A finalized plan of the engine with this index.
  std::unique_ptr<Backend> plan(int64_t index) {
    Backend& engine = part(MIOPEN_BACKEND_ENGINE_DESCRIPTOR);
    engine.set_child(MIOPEN_ATTR_ENGINE_OPERATION_GRAPH, graph())
        .set<int64_t>(MIOPEN_ATTR_ENGINE_GLOBAL_INDEX, MIOPEN_TYPE_INT64, {index})
        .finalize();
    Backend& config = part(MIOPEN_BACKEND_ENGINECFG_DESCRIPTOR);
    config.set_child(MIOPEN_ATTR_ENGINECFG_ENGINE, engine).finalize();
    auto made = std::make_unique<Backend>(MIOPEN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    made->set<miopenHandle_t>(MIOPEN_ATTR_EXECUTION_PLAN_HANDLE, MIOPEN_TYPE_HANDLE, {handle_})
        .set_child(MIOPEN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config)
        .finalize();
    return made;
  }

  /// Runs the plan on the tensors' values, on CUDA devices a second time from a graph of the runtime; returns those of
  /// all tensors that are not virtual.
  std::map<int64_t, Dense> run(const Backend& plan) {
    const CudaGraph cuda_graph(handle_);
    std::map<int64_t, std::vector<unsigned char>> bytes;
    std::map<int64_t, std::unique_ptr<There>> there;
    Sizes ids;
    std::vector<void*> pointers;
    for (auto& [id, t] : tensors_) {
      if (t.is_virtual) continue;
      auto& memory = bytes[id];
      memory.assign(t.layout.bytes() + 64, reference::nan_byte(t.layout.type));
      const auto past = reinterpret_cast<std::uintptr_t>(memory.data()) % 64;
      unsigned char* const start = memory.data() + (64 - past) % 64;
      for (int64_t i = 0; i < t.layout.count(); ++i)
        reference::store(t.layout.type, start, t.layout.offset(i), t.dense.values[static_cast<std::size_t>(i)]);
      there[id] = std::make_unique<There>(handle_, start, t.layout.bytes());
      ids.push_back(id);
      pointers.push_back(*there[id]);
    }
    const std::map<int64_t, std::vector<unsigned char>> given = bytes;
    const auto need =
        static_cast<std::size_t>(plan.one<int64_t>(MIOPEN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, MIOPEN_TYPE_INT64));
    void* workspace = nullptr;
    if (need > 0) expect_ok(polymioMalloc(handle_, &workspace, need));
    Backend pack(MIOPEN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(MIOPEN_ATTR_VARIANT_PACK_UNIQUE_IDS, MIOPEN_TYPE_INT64, ids)
        .set(MIOPEN_ATTR_VARIANT_PACK_DATA_POINTERS, MIOPEN_TYPE_VOID_PTR, pointers)
        .set<void*>(MIOPEN_ATTR_VARIANT_PACK_WORKSPACE, MIOPEN_TYPE_VOID_PTR, {workspace})
        .finalize();
    expect_ok(miopenBackendExecute(handle_, plan, pack));
    std::map<int64_t, std::vector<unsigned char>> direct;
    if (cuda_graph) {
      for (const auto& [id, buffer] : there) buffer->fetch();
      for (auto& [id, memory] : bytes) {
        direct[id] = memory;
        std::copy(given.at(id).begin(), given.at(id).end(), memory.begin());
        there[id]->upload();
      }
      cuda_graph.replay([&] { return miopenBackendExecute(handle_, plan, pack); });
    }
    there.clear();
    for (const auto& [id, memory] : direct) EXPECT_TRUE(memory == bytes[id]) << "tensor " << id << " by a CUDA graph";
    if (workspace) expect_ok(polymioFree(handle_, workspace));
    std::map<int64_t, Dense> results;
    for (auto& [id, t] : tensors_) {
      if (t.is_virtual) continue;
      const auto past = reinterpret_cast<std::uintptr_t>(bytes[id].data()) % 64;
      const unsigned char* const start = bytes[id].data() + (64 - past) % 64;
      Dense& d = results[id];
      d.sizes = t.dense.sizes;
      for (int64_t i = 0; i < t.layout.count(); ++i)
        d.values.push_back(reference::load(t.layout.type, start, t.layout.offset(i)));
    }
    return results;
  }

  /// What the plan writes as JSON is read back as the same plan, with the same results.
  void expect_same_from_json(const Backend& plan, const std::map<int64_t, Dense>& results) {
    const auto text = plan.get<char>(MIOPEN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, MIOPEN_TYPE_CHAR, 1 << 16);
    ASSERT_GT(text.size(), 100u);
    EXPECT_EQ(text.back(), '\0');
    Backend again(MIOPEN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    again.set<miopenHandle_t>(MIOPEN_ATTR_EXECUTION_PLAN_HANDLE, MIOPEN_TYPE_HANDLE, {handle_})
        .set(MIOPEN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, MIOPEN_TYPE_CHAR, text)
        .finalize();
    EXPECT_EQ(again.get<char>(MIOPEN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, MIOPEN_TYPE_CHAR, 1 << 16), text);
    for (const auto& [id, dense] : run(again)) EXPECT_EQ(dense.values, results.at(id).values) << "tensor " << id;
  }

  /// Runs every engine and compares the tensor with what it must be. `error`: allowed, relative to 1 and the value.
  void expect(int64_t id, const Dense& want, double error, int line = __builtin_LINE()) {
    const testing::ScopedTrace trace("called at line", line, "");
    ASSERT_GT(engines(), 0) << "no engine";
    for (int64_t e = 0; e < engines(); ++e) {
      const auto made = plan(e);
      const auto results = run(*made);
      expect_near(results.at(id), want, error, e);
    }
  }
  static void expect_near(const Dense& got, const Dense& want, double error, int64_t engine = 0) {
    ASSERT_EQ(got.values.size(), want.values.size());
    for (std::size_t i = 0; i < want.values.size(); ++i) {
      const double a = got.values[i], b = want.values[i];
      if (std::isnan(b) ? std::isnan(a) : a == b) continue;
      ASSERT_LE(std::fabs(a - b), error * (1 + std::fabs(b)))
          << "element " << i << ", engine " << engine << ": " << a << " instead of " << b;
    }
  }
  const std::map<int64_t, Tensor>& tensors() const { return tensors_; }
  miopenHandle_t handle() const { return handle_; }

 private:
  static Backend& keep(std::vector<std::unique_ptr<Backend>>& list, miopenBackendDescriptorType_t type) {
    return *list.emplace_back(std::make_unique<Backend>(type));
  }

  miopenHandle_t handle_;
  std::mt19937_64 random_{7};
  std::map<int64_t, Tensor> tensors_;
  std::vector<std::unique_ptr<Backend>> parts_, operations_;
  std::unique_ptr<Backend> graph_;
};

}  // namespace polymio::test
