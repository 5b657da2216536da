// The flags of reductions: of any dimensions (reduce), and of one (reducecalculation, reduceextreme).
// SPDX-License-Identifier: MIT
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "driver/run/common_args.h"
#include "reference/reduce.h"

namespace polymio::driver {

struct ReduceArgs {
  enum Kind { kReduce, kCalculation, kExtreme };

  ReduceArgs(Kind which, DataType of_a) : kind(which), type(of_a), op(which == kReduce ? 0 : 1) {}

  Kind kind;
  DataType type;
  std::string lengths = "100,60,16,240", reduced = kind == kReduce ? "0,2" : "1";
  std::int64_t op, computation = kFloat, nan = 0, indices = 0;
  int out_type = kNoType;
  double alpha = 1, beta = 0;
  std::vector<std::int64_t> in_strides, out_strides, indices_strides;

  Flags rows() {
    static constexpr Choice kTypes[] = {{"fp32", kFloat},  {"fp16", kHalf},   {"bf16", kBFloat16},
                                        {"fp64", kDouble}, {"int32", kInt32}, {"int8", kInt8}};
    static constexpr const char* kOps[] = {"0 add, 1 mul, 2 min, 3 max, 4 amax, 5 avg, 6 norm1, 7 norm2",
                                           "1 product, 2 sum", "1 argmin, 2 argmax, 3 min, 4 max"};
    static constexpr std::int64_t kLast[] = {7, 2, 4};
    const bool any = kind == kReduce;
    Flags all = {
        {"D", "DimLengths", Text{&lengths, "N[,..]"}, "sizes of the input, separated by commas or x", Part::kShape},
        {"R", any ? "DimsToReduce" : "DimToReduce", Text{&reduced, any ? "N[,..]" : "N"},
         any ? "from 0; none" : "from 0", Part::kShape},
        {"O",
         any                ? "ReduceOp"
         : kind == kExtreme ? "ReduceExtremeOp"
                            : "ReduceCalculationOp",
         Integer{&op, any ? 0 : 1, kLast[kind]}, kOps[kind], Part::kShape}};
    if (kind != kExtreme)
      all.push_back({"N", "NanPropagation", Integer{&nan, 0, 1},
                     any ? "whether NaN is an extreme" : "1: NaNs count as 0", Part::kOption});
    if (any) {
      all.push_back({"C", "CompType", Integer{&computation, 0, 9}, "number of miopenDataType_t", Part::kOption});
      all.push_back({"I", "IndicesUsed", Integer{&indices, 0, 1}, "positions of extremes", Part::kOption});
      all.push_back({"A", "alpha", Real{&alpha}, "c = alpha * result + beta * c", Part::kOption});
      all.push_back({"B", "beta", Real{&beta}, "see --alpha", Part::kOption});
    }
    all.push_back({"", "in_strides", Integers{&in_strides}, "element strides of the input", Part::kOption});
    all.push_back({"", "out_strides", Integers{&out_strides}, "element strides of the output", Part::kOption});
    if (kind == kExtreme)
      all.push_back(
          {"", "indices_strides", Integers{&indices_strides}, "element strides of the indices", Part::kOption});
    all.push_back({"", "out_type", Name{&out_type, kTypes}, "of the output (default: the input's)", Part::kOption});
    return all;
  }

  // Throws ArgError.
  reference::Reduction problem() const {
    reference::Reduction p;
    std::vector<std::int64_t> lens = numbers("DimLengths", lengths, 1);
    p.a = {static_cast<reference::Type>(type), lens, strides("in_strides", in_strides, lens.size())};
    std::vector<std::int64_t> dims;
    if (kind != kReduce || reduced != "none")
      dims = numbers(kind == kReduce ? "DimsToReduce" : "DimToReduce", reduced, 0);
    for (const std::int64_t d : dims) {
      if (d >= static_cast<std::int64_t>(lens.size()) || (kind != kReduce && dims.size() > 1))
        throw ArgError(fmt::format("-R: bad value '{}', allowed: {} from 0 to {}", reduced,
                                   kind == kReduce ? "numbers" : "a number", lens.size() - 1));
      lens[static_cast<std::size_t>(d)] = 1;
    }
    p.c = {static_cast<reference::Type>(out_type == kNoType ? type : out_type), lens,
           strides("out_strides", out_strides, lens.size())};
    p.alpha = alpha;
    p.beta = beta;
    p.op = static_cast<reference::ReduceOp>(op);
    p.nan = static_cast<reference::ReduceNan>(nan);
    if (kind == kCalculation) {
      p.op = op == 1 ? reference::ReduceOp::kMul : reference::ReduceOp::kAdd;
      p.nan = nan == 1 ? reference::ReduceNan::kZero : reference::ReduceNan::kPropagate;
    } else if (kind == kExtreme) {
      p.op = op % 2 == 1 ? reference::ReduceOp::kMin : reference::ReduceOp::kMax;
      p.nan = reference::ReduceNan::kFirst;
    }
    return p;
  }
  bool has_values() const { return kind != kExtreme || op > 2; }
  bool has_positions() const { return kind == kExtreme || (kind == kReduce && indices == 1 && op >= 2 && op <= 4); }
  // Of extremes: dense, the dimensions in the order of the strides of c, unless strides are given.
  reference::Tensor positions_of(const reference::Tensor& c) const {
    reference::Tensor t(reference::Type::kInt32, c.lens, strides("indices_strides", indices_strides, c.lens.size()));
    if (!indices_strides.empty()) return t;
    std::vector<std::size_t> order;
    for (std::size_t d = 0; d < c.lens.size(); ++d) order.push_back(d);
    std::stable_sort(order.begin(), order.end(), [&](auto d, auto e) { return c.strides[d] > c.strides[e]; });
    std::int64_t stride = 1;
    for (std::size_t i = order.size(); i-- > 0; stride *= c.lens[order[i]]) t.strides[order[i]] = stride;
    return t;
  }
  // A tensor as functions of one dimension describe it: without that, which has size 1.
  static reference::Tensor without(std::int64_t dim, reference::Tensor t) {
    if (t.lens.size() == 1) return t;
    t.lens.erase(t.lens.begin() + dim);
    t.strides.erase(t.strides.begin() + dim);
    return t;
  }
  // The dimension of the other kinds, once problem() has checked it.
  std::int64_t dim() const { return numbers("DimToReduce", reduced, 0)[0]; }

  static std::vector<std::int64_t> numbers(const char* flag, const std::string& text, std::int64_t least) {
    std::vector<std::int64_t> all;
    const char* at = text.data();
    const char* const end = at + text.size();
    while (true) {
      const auto [next, error] = std::from_chars(at, end, all.emplace_back());
      const bool separated = next != end && (*next == ',' || *next == 'x');
      if (error != std::errc() || all.back() < least || all.size() > 8 || (next != end && !separated))
        throw ArgError(fmt::format("--{}: bad value '{}', allowed: up to 8 integers from {}, separated by commas or x",
                                   flag, text, least));
      if (next == end) return all;
      at = next + 1;
    }
  }
  static std::vector<std::int64_t> strides(const char* flag, const std::vector<std::int64_t>& given, std::size_t rank) {
    if (!given.empty() && given.size() != rank)
      throw ArgError(fmt::format("--{}: bad value '{}', allowed: {} strides", flag, fmt::join(given, ","), rank));
    return given;
  }
};

}  // namespace polymio::driver
