// A pass of a network on one device: its products, steps and memory, made once.
// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <vector>

#include "primitives/rnn/memory.h"
#include "primitives/rnn/products.h"
#include "primitives/rnn/steps.h"

namespace polymio::rnn {

class NetworkPlan {
 public:
  NetworkPlan(Stream&, const Problem&);
  /// Thread-safe; allocates nothing.
  void run(Stream&, const Problem::Args&) const;
  /// Memory of the plan, for the cache.
  std::size_t bytes_of_plan() const;

 private:
  /// [rows, columns] of the network's type.
  TensorDesc matrix(std::int64_t rows, std::int64_t columns, std::int64_t row_stride, std::int64_t column_stride) const;

  void forward(Stream&, const Problem::Args&, void* workspace, void* reserve) const;
  void backward_data(Stream&, const Problem::Args&, void* workspace, void* reserve) const;
  void backward_weights(Stream&, const Problem::Args&, void* workspace, void* reserve) const;
  void sum_biases(Stream&, std::int64_t layer, const char* input, const char* recurrent, void* dw) const;
  void sum_rows(Stream&, const char* from, std::int64_t pitch, std::int64_t columns, std::int64_t first,
                std::int64_t count, double beta, void* to) const;
  void add_gates(Stream&, const char* gradients, void* dx) const;
  const void* input_weights(Stream&, std::int64_t layer, const void* w, void* workspace) const;
  void drop(Stream&, const Problem::Args&, std::int64_t layer, void* data, void* reserve, bool stored) const;

  // Conversions between the caller's form and the internal one.
  const void* packed(Stream&, Order, std::int64_t width, const void* given, const Region&, void* workspace) const;
  void unpack(Stream&, Order, std::int64_t width, const void* rows, const void* padding, void* result) const;
  void copy_rows(Stream&, Order, std::int64_t width, void* padded, void* rows, bool to_rows) const;
  const void* sorted_state(Stream&, const void* given, const Region&, void* workspace) const;
  void* state_target(void* given, const Region&, void* workspace) const;
  void unsort_state(Stream&, void* given, const Region&, void* workspace) const;
  void copy_state(Stream&, const void* from, void* to, bool sorts) const;
  /// What samples without a step leave in a final state.
  void pass_state(Stream&, const void* from, void* to) const;

  std::size_t bytes(std::int64_t elements) const { return static_cast<std::size_t>(elements) * size_of(net_.type); }
  std::int64_t state_elements() const { return net_.directions() * schedule_.samples * net_.hidden; }  // of a layer

  const Problem problem_;
  const Network& net_;
  const Schedule schedule_;
  const Memory memory_;
  std::unique_ptr<const Steps> steps_;
  /// Of the first layer and of the others: forward, input gradients or weight gradients; and those of the state.
  Product layer_products_[2], state_product_;
  bool transposes_[2] = {};  // of the first layer and of the others: see transposes_weights()
};

}  // namespace polymio::rnn
