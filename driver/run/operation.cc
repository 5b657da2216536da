// The table of primitives, and what is the same for all of them.
// SPDX-License-Identifier: MIT
#include "driver/run/operation.h"

#include <fmt/format.h>

#include <algorithm>

#include "driver/run/conv_args.h"
#include "driver/run/list.h"
#include "driver/run/mha_args.h"
#include "driver/run/pool_args.h"

namespace polymio::driver {

namespace {
constexpr DataType kFloats[] = {kFloat, kHalf, kBFloat16, kDouble}, kSingle[] = {kFloat},
                   kShortFloats[] = {kFloat, kHalf, kBFloat16},
                   kOfEverySize[] = {kFloat, kHalf, kBFloat16, kInt8, kDouble},
                   kNumbers[] = {kFloat, kHalf, kBFloat16, kDouble, kInt32, kInt8};

constexpr bool kOneWay = true;

std::span<const Primitive> primitives() {
  static const Primitive kPrimitives[] = {
      {conv_bases(), "Convolution", "Runs a convolution in its three directions.", make_convolution},
      {{"CBAInfer", kFloats},
       "Fusion",
       "Runs a convolution with bias, batch norm and activation as one plan.",
       make_fusion},
      {{"activ", kFloats}, "Activation", "Runs an activation function and its gradient.", make_activation},
      {{"bias", kFloats},
       "Convolution Bias",
       "Adds a bias to each channel; the gradient of the bias.",
       make_bias,
       kOneWay},
      {{"bnorm", kFloats},
       "Batch Normalization",
       "Normalizes by the moments of a batch; the gradient.",
       make_batch_norm},
      {{"softmax", kFloats}, "Softmax", "Runs softmax over channels or images and its gradient.", make_softmax},
      {{"adam", kFloats}, "Adam", "Runs a step of Adam.", make_adam, kOneWay},
      {{"ampadam", kSingle}, "Adam", "Runs a step of Adam with scaled fp16 gradients.", make_adam, kOneWay},
      {{"adamw", kFloats}, "AdamW", "Runs a step of AdamW.", make_adam, kOneWay},
      {{"ampadamw", kSingle}, "AdamW", "Runs a step of AdamW with scaled fp16 gradients.", make_adam, kOneWay},
      {{"transformersadamw", kFloats},
       "Transformers AdamW",
       "Runs a step of AdamW as Transformers has it.",
       make_adam,
       kOneWay},
      {{"transformersampadamw", kSingle},
       "Transformers AdamW",
       "Runs the same with scaled fp16 gradients.",
       make_adam,
       kOneWay},
      {{"reduce", kNumbers}, "Reduction", "Reduces any dimensions of a tensor.", make_reduction},
      {{"reducecalculation", kNumbers}, "Reduction", "Sums or multiplies along a dimension.", make_reduction},
      {{"reduceextreme", kNumbers},
       "Reduction",
       "Finds the extreme along a dimension, and where it is.",
       make_reduction},
      {{"kthvalue", kNumbers},
       "Kthvalue",
       "Finds the k-th smallest along a dimension, and where it is.",
       make_kthvalue},
      {{"layernorm", kFloats}, "Layer Norm", "Runs a layer normalization and its gradients.", make_norm},
      {{"addlayernorm", kFloats}, "Add Layer Norm", "Runs a layer normalization of a sum.", make_norm},
      {{"t5layernorm", kFloats}, "T5 Layer Norm", "Runs an RMS normalization and its gradients.", make_norm},
      {{"groupnorm", kFloats}, "Group Norm", "Runs a group normalization.", make_norm},
      {{"cat", kOfEverySize}, "Cat", "Concatenates tensors along one dimension.", make_cat, kOneWay},
      {{"getitem", kFloats}, "Getitem", "Runs the gradient of indexing a tensor.", make_getitem, kOneWay},
      {{"pool", kPoolTypes}, "Pooling", "Runs a pooling over windows and its gradient.", make_pooling},
      {{"lrn", kFloats}, "LRN", "Runs local response normalisation and its gradient.", make_lrn},
      {{"prelu", kFloats}, "PReLU", "Runs the gradients of a parametric ReLU.", make_prelu, kOneWay},
      {{"rope", kFloats}, "RoPE", "Runs rotary position embeddings and their gradient.", make_rope, kOneWay},
      {{"tensorop", kNumbers},
       "Tensor Operation",
       "Runs an operation on the elements of tensors.",
       make_tensor_op,
       kOneWay},
      {{"softmarginloss", kFloats},
       "SoftMarginLoss",
       "Runs the soft margin loss and its gradient.",
       make_soft_margin_loss,
       kOneWay},
      {{"multimarginloss", kFloats}, "MultiMarginLoss", "Runs the multi margin loss.", make_multi_margin_loss, kOneWay},
      {{"ctc", kShortFloats}, "CTC Loss", "Runs the CTC loss and its gradient.", make_ctc, kOneWay},
      {{"dropout", kFloats}, "Dropout", "Drops elements at random, and their gradients.", make_dropout, kOneWay},
      {{"mha", kMhaTypes}, "Attention", "Runs attention of heads and its gradients.", make_mha},
      {{"rnn", kShortFloats}, "RNN", "Runs a recurrent network and its gradients.", make_rnn, kOneWay},
      {{"lstm", kShortFloats}, "LSTM", "Runs the same; the mode is lstm unless -m says another.", make_rnn, kOneWay},
      {{"gru", kShortFloats}, "GRU", "Runs the same; the mode is gru unless -m says another.", make_rnn, kOneWay},
  };
  return kPrimitives;
}

// Runs all directions and prints what the flags request.
int run_directions(Operation& operation, const std::string& line) {
  const bool json = operation.run_args().json;
  if (!json) fmt::print("{}\n", line);
  const Session session(operation.run_args().device);
  std::vector<Result> results;
  for (const Direction direction : kDirections) {
    if ((operation.directions() & direction) == 0) continue;
    for (Result& result : operation.run(session, direction, !json)) {
      if (json) {
        fmt::print("{}\n", to_json(result).dump());
      } else if (!result.error.empty()) {
        fmt::print(stderr, "{} FAILED: {}\n", operation.title(direction), result.error);
      }
      results.push_back(std::move(result));
    }
  }
  operation.report(session, "", results);
  return std::all_of(results.begin(), results.end(), [](const Result& result) { return result.ok(); }) ? 0 : 1;
}

}  // namespace

const Primitive* find_primitive(std::string_view base) {
  for (const Primitive& primitive : primitives()) {
    if (primitive.bases.type_of(base) != kNoType) return &primitive;
  }
  return nullptr;
}

std::string all_bases() {
  std::vector<std::string> all;
  for (const Primitive& primitive : primitives()) {
    for (std::string& name : primitive.bases.names()) all.push_back(std::move(name));
  }
  return fmt::format("{}", fmt::join(all, " "));
}

std::string help_of_bases() {
  std::string text;
  for (const Primitive& primitive : primitives())
    text += fmt::format("  {}: {}\n", fmt::join(primitive.bases.names(), " "), primitive.summary);
  return text;
}

std::span<const std::string>::iterator find_convolution(std::string_view command,
                                                        std::span<const std::string> arguments) {
  const auto found = std::find_if(arguments.begin(), arguments.end(),
                                  [](const std::string& argument) { return find_primitive(argument) != nullptr; });
  if (found == arguments.end() || conv_bases().type_of(*found) != kNoType) return found;
  throw ArgError(
      fmt::format("{}: '{}' is no convolution: the command is for convolutions only, allowed: {}; 'tune "
                  "--from-list' takes other primitives, too",
                  command, *found, fmt::join(conv_bases().names(), " ")));
}

int run_operation(std::span<const std::string> arguments) {
  const Primitive& primitive = *find_primitive(arguments[0]);
  const std::unique_ptr<Operation> operation = primitive.make(arguments[0]);
  const Command command{arguments[0], "", primitive.summary};
  if (!parse_or_help(command, operation->flags(), arguments.subspan(1))) return 0;
  operation->check_flags();
  if (const auto status = operation->run_instead()) return *status;
  if (!operation->run_args().from_list.empty()) return run_list(*operation, primitive);
  return run_directions(*operation, fmt::format("MIOpenDriver {}", fmt::join(arguments, " ")));
}

}  // namespace polymio::driver
