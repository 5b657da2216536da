// Reductions, losses, optimizers and operations on tensors of more than 2^31 elements, see large.h; large_primitives.cc
// has the others.
// SPDX-License-Identifier: MIT
#include "large.h"
#include "reference/optimizer.h"

namespace polymio::test {
namespace {

struct LargeReductions : LargePrimitives {
  using Reduction =
      Owned<miopenReduceTensorDescriptor_t, miopenCreateReduceTensorDescriptor, miopenDestroyReduceTensorDescriptor>;

  /// Reduces x to `lens`.
  miopenStatus_t reduce(miopenReduceTensorOp_t op, const Ints& lens, const Memory& y, const Memory* positions) {
    const Reduction reduction;
    const Tensor of_y(miopenHalf, lens);
    expect_ok(miopenSetReduceTensorDescriptor(
        reduction, op, miopenFloat, MIOPEN_NOT_PROPAGATE_NAN,
        positions ? MIOPEN_REDUCE_TENSOR_FLATTENED_INDICES : MIOPEN_REDUCE_TENSOR_NO_INDICES, MIOPEN_32BIT_INDICES));
    std::size_t bytes = 0;
    const auto status = miopenGetReductionWorkspaceSize(handle, reduction, desc, of_y, &bytes);
    if (status != miopenStatusSuccess) return status;
    std::vector<char> workspace(bytes + 1);
    return miopenReduceTensor(handle, reduction, positions ? positions->data() : nullptr,
                              positions ? positions->bytes() : 0, workspace.data(), bytes, &kOne, desc, x.data(),
                              &kZero, of_y, y.data());
  }
  /// The first of the elements with the largest better(value) in a group; zeros do not count.
  template <class Better>
  std::int64_t extreme(Group group, std::int64_t number, Better better) const {
    std::int64_t best = -1;
    for (const auto& [i, value] : values)
      if (group(i) == number && better(value) > better(best < 0 ? 0 : values.at(best))) best = i;
    return best;
  }

  struct Way {
    Ints lens;
    Group group, position;  // of the results, and in what is reduced
  };
  const std::vector<Way> ways = {{{1, 2, 1, 1}, plane, in_plane},
                                 {{1, 1, 32769, 32768}, in_plane, plane},
                                 {{1, 2, 32769, 1}, row, column},
                                 {{1, 1, 1, 32768}, column, row},
                                 {{1, 2, 1, 32768}, column_of_plane, row_in_plane}};
  static std::int64_t results(const Way& way) {
    std::int64_t count = 1;
    for (const int len : way.lens) count *= len;
    return count;
  }
};

TEST_F(LargeReductions, Sums) {
  std::vector<Way> with_all = ways;
  with_all.push_back({{1, 1, 1, 1}, all, itself});
  for (const Way& way : with_all) {
    const Memory y(results(way), places(way.group));
    expect_ok(reduce(MIOPEN_REDUCE_TENSOR_ADD, way.lens, y, nullptr));
    expect_all(y, places(way.group), [&](std::int64_t r) { return sum(way.group, r, same); });
  }
}

TEST_F(LargeReductions, NormsOfAll) {
  const Memory y(1);
  expect_ok(reduce(MIOPEN_REDUCE_TENSOR_NORM1, {1, 1, 1, 1}, y, nullptr));
  expect_near(y.at(0), sum(all, 0, [](double v) { return std::abs(v); }), "norm", 1);
  expect_ok(reduce(MIOPEN_REDUCE_TENSOR_NORM2, {1, 1, 1, 1}, y, nullptr));
  expect_near(y.at(0), std::sqrt(sum(all, 0, square)), "norm", 2);
}

TEST_F(LargeReductions, LargestMagnitudesAndTheirPositions) {
  const auto magnitude = [](double v) { return std::abs(v); };
  for (const Way& way : ways) {
    const Memory y(results(way), places(way.group)), positions(results(way), places(way.group), Type::kInt32);
    expect_ok(reduce(MIOPEN_REDUCE_TENSOR_AMAX, way.lens, y, &positions));
    for (const std::int64_t r : places(way.group)) {
      const std::int64_t at = extreme(way.group, r, magnitude);
      EXPECT_EQ(y.at(r), std::abs(x_at(at))) << r;
      EXPECT_EQ(positions.at(r), at < 0 ? 0 : static_cast<double>(way.position(at))) << r;
    }
  }
}

TEST_F(LargeReductions, ExtremesOfAllHaveNoPositionsOf32Bits) {
  const Memory y(1), positions(1, Type::kInt32);
  for (const auto op : {MIOPEN_REDUCE_TENSOR_MIN, MIOPEN_REDUCE_TENSOR_MAX}) {
    expect_bad(reduce(op, {1, 1, 1, 1}, y, &positions), {"2147549184 elements", "2^31"});
    expect_ok(reduce(op, {1, 1, 1, 1}, y, nullptr));
    EXPECT_EQ(y.at(0), op == MIOPEN_REDUCE_TENSOR_MIN ? -5.5 : 4.25);
  }
}

/// Along each dimension of (2, 32769, 32768).
struct LargeDimensions : LargeReductions {
  const Tensor cube{miopenHalf, {2, 32769, 32768}};
  const std::vector<Way> ways = {
      {{32769, 32768}, in_plane, plane}, {{2, 32768}, column_of_plane, row_in_plane}, {{2, 32769}, row, column}};
};

TEST_F(LargeDimensions, Sums) {
  for (const std::int32_t dim : {0, 1, 2}) {
    const Way& way = ways[static_cast<std::size_t>(dim)];
    const Memory y(results(way), places(way.group));
    const Tensor of_y(miopenHalf, way.lens);
    std::size_t bytes = 0;
    expect_ok(miopenGetReduceCalculationWorkspaceSize(handle, cube, dim, MIOPEN_REDUCE_CALCULATION_SUM, of_y, &bytes));
    std::vector<char> workspace(bytes + 1);
    expect_ok(miopenReduceCalculationForward(handle, MIOPEN_REDUCE_CALCULATION_PROPAGATE_NAN, workspace.data(), bytes,
                                             cube, x.data(), dim, MIOPEN_REDUCE_CALCULATION_SUM, of_y, y.data()));
    expect_all(y, places(way.group), [&](std::int64_t r) { return sum(way.group, r, same); });
  }
}

TEST_F(LargeDimensions, Extremes) {
  for (const auto& [dim, largest] : {std::pair{0, true}, {1, false}, {2, true}}) {
    SCOPED_TRACE(testing::Message() << "along dimension " << dim);
    const Way& way = ways[static_cast<std::size_t>(dim)];
    const Memory y(results(way), places(way.group)), positions(results(way), places(way.group), Type::kInt32);
    expect_ok(miopenReduceExtremeForward(
        handle, cube, x.data(), dim, largest ? MIOPEN_REDUCE_EXTREME_MAX : MIOPEN_REDUCE_EXTREME_MIN,
        Tensor(miopenHalf, way.lens), y.data(), Tensor(miopenInt32, way.lens), positions.data()));
    for (const std::int64_t r : places(way.group)) {
      const double sign = largest ? 1 : -1;
      const std::int64_t at = extreme(way.group, r, [&](double v) { return sign * v; });
      EXPECT_EQ(y.at(r), x_at(at)) << r;
      if (at < 0) continue;
      EXPECT_EQ(positions.at(r), static_cast<double>(way.position(at))) << r;
    }
  }
}

TEST_F(LargeReductions, Kthvalue) {
  const auto run = [&](std::int64_t lines, std::size_t k, double want, std::uint64_t position, std::int64_t line) {
    const auto count = static_cast<std::size_t>(lines);
    const Long of_x(miopenHalf, {count, static_cast<std::size_t>(kCount) / count}), of_y(miopenHalf, {count}),
        of_positions(miopenInt64, {count});
    const Memory y(lines);
    std::vector<std::size_t> positions(count);
    expect_ok(
        miopenKthvalueForward(handle, of_x, x.data(), of_y, y.data(), of_positions, positions.data(), k, 1, false));
    EXPECT_EQ(y.at(line), want);
    EXPECT_EQ(positions[static_cast<std::size_t>(line)], position);
  };
  run(1, kCount, 4.25, kTwo31 + 3, 0);
  run(kRows, 1, -3, 0, row(kTwo31));
}

struct LargeOperators : LargePrimitives {
  /// A value as the API takes it.
  static std::uint16_t half(double value) {
    std::uint16_t bits = 0;
    ref::store(Type::kHalf, &bits, 0, value);
    return bits;
  }
  /// Gives the elements that are checked the values want(i).
  template <class Want>
  void fill(const Memory& y, Want want) const {
    for (const std::int64_t i : places()) y.set(i, want(i));
  }
};

TEST_F(LargeOperators, Activation) {
  const Owned<miopenActivationDescriptor_t, miopenCreateActivationDescriptor, miopenDestroyActivationDescriptor>
      activation;
  const Memory y = output(), dx = output();
  const auto run = [&](miopenActivationMode_t mode, auto f, auto derivative) {
    expect_ok(miopenSetActivationDescriptor(activation, mode, 0.25, 0, 0));
    expect_ok(miopenActivationForward(handle, activation, &kOne, desc, x.data(), &kZero, desc, y.data()));
    expect_all(y, [&](std::int64_t i) { return f(x_at(i)); });
    expect_ok(miopenActivationBackward(handle, activation, &kOne, desc, y.data(), desc, x.data(), desc, x.data(),
                                       &kZero, desc, dx.data()));
    expect_all(dx, [&](std::int64_t i) { return x_at(i) * derivative(x_at(i)); });
  };
  run(
      miopenActivationLEAKYRELU, [](double v) { return v > 0 ? v : 0.25 * v; },
      [](double v) { return v > 0 ? 1 : 0.25; });
  run(miopenActivationLOGISTIC, logistic, [](double v) { return logistic(v) * logistic(-v); });
}

TEST_F(LargeOperators, GatedLinearUnit) {
  const Memory y = plane_output(), dx = output();
  expect_ok(miopenGLUForward(handle, desc, x.data(), plane_desc, y.data(), 1));
  expect_all(y, places(in_plane), [&](std::int64_t i) { return x_at(i) * logistic(x_at(twin(i))); });
  expect_ok(miopenGLUBackward(handle, desc, x.data(), plane_desc, x.data(kPlane), desc, dx.data(), 1));
  expect_all(dx, [&](std::int64_t i) {
    const double a = x_at(in_plane(i)), b = x_at(in_plane(i) + kPlane), dy = b;
    return i < kPlane ? dy * logistic(b) : dy * a * logistic(b) * logistic(-b);
  });
}

TEST_F(LargeOperators, OpTensor) {
  const Memory y = output();
  const float two = 2, minus = -1;
  expect_ok(
      miopenOpTensor(handle, miopenTensorOpAdd, &two, desc, x.data(), &minus, desc, x.data(), &kZero, desc, y.data()));
  expect_all(y, [&](std::int64_t i) { return x_at(i); });
  const std::uint16_t of_plane[] = {half(0.5), half(-3)};
  expect_ok(miopenOpTensor(handle, miopenTensorOpMul, &kOne, desc, x.data(), &kOne, Tensor(miopenHalf, {1, 2, 1, 1}),
                           of_plane, &two, desc, y.data()));
  expect_all(y, [&](std::int64_t i) { return x_at(i) * (i < kPlane ? 2.5 : -1); });
  std::vector<std::uint16_t> of_column(kWidth, half(1));
  expect_ok(miopenOpTensor(handle, miopenTensorOpMax, &kOne, desc, x.data(), &kOne,
                           Tensor(miopenHalf, {1, 1, 1, 32768}), of_column.data(), &kZero, desc, y.data()));
  expect_all(y, [&](std::int64_t i) { return std::max(x_at(i), 1.0); });
}

TEST_F(LargeOperators, SetAndScaleTensor) {
  const Memory y = output();
  const std::uint16_t value = half(1.5), factor = half(-2);
  expect_ok(miopenSetTensor(handle, desc, y.data(), &value));
  expect_all(y, [](std::int64_t) { return 1.5; });
  fill(y, [&](std::int64_t i) { return x_at(i); });
  expect_ok(miopenScaleTensor(handle, desc, y.data(), &factor));
  expect_all(y, [&](std::int64_t i) { return -2 * x_at(i); });
}

/// To channels last.
TEST_F(LargeOperators, TransformTensorToALayout) {
  const auto interleaved = [](std::int64_t i) { return in_plane(i) * 2 + plane(i); };
  const Memory mixed(kCount, places(interleaved));
  const Tensor last(miopenHalf, {1, 2, 32769, 32768}, {static_cast<int>(kTwo31 - 1), 1, 65536, 2});
  expect_ok(miopenTransformTensor(handle, &kOne, desc, x.data(), &kZero, last, mixed.data()));
  for (const std::int64_t i : places()) expect_near(mixed.at(interleaved(i)), x_at(i), "element", i);
}

TEST_F(LargeOperators, TransformTensorToOtherTypes) {
  for (const auto& [api, type] : {std::pair{miopenInt8, Type::kInt8}, {miopenFloat, Type::kFloat}}) {
    const Memory y = output(type);
    const Tensor of_y(api, {1, 2, 32769, 32768});
    const float factor = 3;
    expect_ok(miopenTransformTensor(handle, &factor, desc, x.data(), &kZero, of_y, y.data()));
    expect_all(y, [&, to = type](std::int64_t i) { return ref::round_to(to, 3 * x_at(i)); });
  }
}

TEST_F(LargeOperators, Cat) {
  const miopenTensorDescriptor_t planes[] = {plane_desc, plane_desc};
  const void* const xs[] = {x.data(kPlane), x.data()};
  const Memory y = output();
  expect_ok(miopenCatForward(handle, 2, planes, xs, desc, y.data(), 1));
  expect_all(y, [&](std::int64_t i) { return x_at(twin(i)); });
  const auto in_line = [](std::int64_t i) {
    return in_plane(i) / kWidth * 2 * kWidth + (1 - plane(i)) * kWidth + column(i);
  };
  const Memory lines(kCount, places(in_line));
  expect_ok(miopenCatForward(handle, 2, planes, xs, Tensor(miopenHalf, {1, 1, 32769, 65536}), lines.data(), -1));
  for (const std::int64_t i : places()) expect_near(lines.at(in_line(i)), x_at(i), "element", i);
}

struct LargeGetitem : LargeOperators {
  /// Adds dy to the rows of dx that the indices name, or to those of the slice.
  void run(const Tensor& of_dy, const void* dy, const std::vector<std::int32_t>& rows, const Tensor& of_dx,
           const Memory& dx, const std::vector<std::int32_t>& slices = {}, std::uint32_t offset = 0) {
    const Tensor of_rows(miopenInt32, {static_cast<int>(std::max<std::size_t>(rows.size(), 1))});
    const miopenTensorDescriptor_t index_desc = of_rows;
    const void* const indices = rows.data();
    const std::uint32_t count = rows.empty() ? 0 : 1;
    const std::int32_t dim = 0;
    std::size_t bytes = 0;
    expect_ok(miopenGetGetitemWorkspaceSize(handle, count, &index_desc, &bytes));
    std::vector<char> workspace(bytes + 1);
    expect_ok(miopenGetitemBackward(handle, workspace.data(), bytes, of_dy, dy, count, &index_desc, &indices, of_dx,
                                    dx.data(), nullptr, nullptr, count, &dim,
                                    static_cast<std::uint32_t>(slices.size() / 4), slices.data(), offset));
  }
};

TEST_F(LargeGetitem, IntoRowsOfALargeTensor) {
  const Tensor three(miopenHalf, {3, kWidth});
  const Memory dy(3 * kWidth), dx(kCount);
  for (const std::int64_t i : {std::int64_t{0}, std::int64_t{3}, kWidth + 7, 3 * kWidth - 1})
    dy.set(i, static_cast<double>(i % 5) + 1);
  dx.set(kTwo31 + 3, 2);
  run(three, dy.data(), {65536, -2, 65537}, rows_desc, dx);
  EXPECT_EQ(dx.at(kTwo31), dy.at(0));
  EXPECT_EQ(dx.at(kTwo31 + 3), 2 + dy.at(3));
  EXPECT_EQ(dx.at(kTwo31 + 7), dy.at(kWidth + 7)) << "-2 is the last row but one";
  EXPECT_EQ(dx.at(kCount - 1), dy.at(3 * kWidth - 1));
  run(Tensor(miopenHalf, {1, kWidth}), dy.data(), {}, rows_desc, dx, {0, 65537, 65538, 1}, 65537u * 32768u);
  EXPECT_EQ(dx.at(kTwo31 + kWidth + 3), dy.at(3)) << "the slice of the last row";
}

TEST_F(LargeGetitem, FromRowsOfALargeTensor) {
  std::vector<std::int32_t> rows(kRows);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int32_t>(i % 4);
  const auto target = [](std::int64_t i) { return row(i) % 4 * kWidth + column(i); };
  const Memory dx(4 * kWidth);
  run(rows_desc, x.data(), rows, Tensor(miopenHalf, {4, kWidth}), dx);
  expect_all(dx, places(target), [&](std::int64_t i) { return sum(target, i, same); });
}

TEST_F(LargeOperators, Prelu) {
  const Tensor channels(miopenHalf, {2});
  const std::uint16_t weight[] = {half(0.5), half(-2)};
  const Memory dx = output(), dw(2);
  std::size_t bytes = 0;
  expect_ok(miopenGetPReLUBackwardWorkspaceSize(handle, desc, channels, &bytes));
  const Memory workspace(static_cast<std::int64_t>(bytes) + 1, Type::kInt8);
  expect_ok(miopenPReLUBackward(handle, workspace.data(), bytes, desc, x.data(), channels, weight, desc, x.data(), desc,
                                dx.data(), channels, dw.data()));
  expect_all(dx, [&](std::int64_t i) { return x_at(i) > 0 ? x_at(i) : x_at(i) * (i < kPlane ? 0.5 : -2); });
  for (const std::int64_t c : {0, 1})
    expect_near(dw.at(c), sum(plane, c, [](double v) { return v > 0 ? 0 : v * v; }), "gradient of weight", c);
}

TEST_F(LargeOperators, RotaryEmbedding) {
  const Tensor rotary(miopenHalf, {kWidth});
  const Memory cos(kWidth), sin(kWidth), y = output();
  for (std::int64_t f = 0; f < kWidth; ++f) {
    cos.set(f, 0.25 * static_cast<double>(f % 7));
    sin.set(f, 0.5 - 0.25 * static_cast<double>(f % 5));
  }
  for (const bool backward : {false, true}) {
    const auto run = backward ? miopenRoPEBackward : miopenRoPEForward;
    expect_ok(run(handle, desc, x.data(), rotary, cos.data(), rotary, sin.data(), desc, y.data()));
    expect_all(y, [&](std::int64_t i) {
      const double other = (i % 2 == 0) != backward ? -x_at(i ^ 1) : x_at(i ^ 1);
      return x_at(i) * cos.at(column(i)) + other * sin.at(backward ? column(i) ^ 1 : column(i));
    });
  }
}

/// The targets are those of the formula, not 1 and -1.
TEST_F(LargeOperators, SoftMarginLoss) {
  const Memory y = output(), mean(1);
  const Tensor one(miopenHalf, {1});
  const auto loss = [](double v) { return std::log1p(std::exp(-v * v)); };
  expect_ok(miopenSoftMarginLossForward(handle, desc, x.data(), desc, x.data(), desc, y.data(),
                                        MIOPEN_LOSS_REDUCTION_NONE, nullptr, 0));
  expect_all(y, [&](std::int64_t i) { return loss(x_at(i)); });
  expect_ok(miopenSoftMarginLossBackward(handle, desc, x.data(), desc, x.data(), desc, x.data(), desc, y.data(),
                                         MIOPEN_LOSS_REDUCTION_NONE));
  expect_all(y, [&](std::int64_t i) { return -square(x_at(i)) / (std::exp(square(x_at(i))) + 1); });
  std::size_t bytes = 0;
  expect_ok(miopenGetSoftMarginLossForwardWorkspaceSize(handle, desc, desc, one, MIOPEN_LOSS_REDUCTION_MEAN, &bytes));
  const Memory workspace(static_cast<std::int64_t>(bytes) + 1, Type::kInt8);
  expect_ok(miopenSoftMarginLossForward(handle, desc, x.data(), desc, x.data(), one, mean.data(),
                                        MIOPEN_LOSS_REDUCTION_MEAN, workspace.data(), bytes));
  expect_near(mean.at(0), std::log(2), "mean", 0);
}

TEST_F(LargeOperators, MultiMarginLoss) {
  constexpr std::int64_t kClass = 3;
  const Tensor target(miopenInt64, {kRows}), weight(miopenHalf, {kWidth});
  const std::vector<std::int64_t> targets(kRows, kClass);
  const std::vector<std::uint16_t> weights(kWidth, half(2));
  const auto loss = [&](std::int64_t n) {
    double total = 0;
    for (std::int64_t c = 0; c < kWidth; ++c)
      if (c != kClass) total += std::max(0.0, 0.5 - x_at(n * kWidth + kClass) + x_at(n * kWidth + c));
    return 2 * total / kWidth;
  };
  const auto run = [&](miopenLossReductionMode_t reduction, const Memory& y) {
    const Tensor of_y(miopenHalf, {static_cast<int>(y.count())});
    std::size_t bytes = 0;
    expect_ok(miopenGetMultiMarginLossForwardWorkspaceSize(handle, rows_desc, target, weight, of_y, 1, 0.5f, reduction,
                                                           &bytes));
    const Memory workspace(static_cast<std::int64_t>(bytes) + 1, Type::kInt8);
    expect_ok(miopenMultiMarginLossForward(handle, rows_desc, x.data(), target, targets.data(), weight, weights.data(),
                                           of_y, y.data(), 1, 0.5f, reduction, workspace.data(), bytes));
  };
  const Memory each(kRows, places(row)), total(1);
  run(MIOPEN_LOSS_REDUCTION_NONE, each);
  expect_all(each, places(row), loss);
  run(MIOPEN_LOSS_REDUCTION_SUM, total);
  EXPECT_EQ(total.at(0), INFINITY) << "65538 losses of nearly 1 are more than fp16 can hold";
  run(MIOPEN_LOSS_REDUCTION_MEAN, total);
  expect_near(total.at(0), loss(1), "mean", 0);
}

/// One step from parameters, means and mean squares that are known where they are checked.
struct LargeOptimizers : LargeOperators {
  /// step(in, out) with the same memory twice, or with memory for each and for a fourth output, the parameters in fp16.
  template <class Step>
  void check(ref::Optimizer kind, bool in_place, Step step) {
    const Memory in[] = {Memory(kCount), Memory(kCount), Memory(kCount)},
                 out[] = {output(), output(), output(), output()};
    const auto old = [&](std::size_t part, std::int64_t i) {
      return part == 0 ? 1 + x_at(i) : part == 1 ? 0.5 - x_at(i) : 0.25 + static_cast<double>(i % 3);
    };
    for (std::size_t k = 0; k < 3; ++k) fill(in_place ? out[k] : in[k], [&](std::int64_t i) { return old(k, i); });
    expect_ok(step(in_place ? out : in, out));
    const ref::Tensor one(Type::kDouble, {1});
    const ref::Adam problem{.kind = kind,
                            .rate = kRate,
                            .beta1 = kBeta1,
                            .beta2 = kBeta2,
                            .weight_decay = kDecay,
                            .eps = kEps,
                            .state = ref::adam_state(one, 3),
                            .gradient = one};
    for (const std::int64_t i : places()) {
      const double before[] = {old(0, i), old(1, i), old(2, i)}, gradient = x_at(i);
      const ref::Result want = evaluate(problem, before, &gradient);
      for (std::size_t k = 0; k < 3; ++k) expect_near(out[k].at(i), want.value[k], "element", i);
      if (!in_place) expect_near(out[3].at(i), want.value[0], "the copy of", i);
    }
  }
  void adam(bool adamw) {
    check(adamw ? ref::Optimizer::kAdamW : ref::Optimizer::kAdam, true, [&](const Memory*, const Memory* s) {
      return miopenFusedAdam(handle, desc, s[0].data(), desc, x.data(), desc, s[1].data(), desc, s[2].data(), nullptr,
                             nullptr, nullptr, nullptr, 1, kRate, kBeta1, kBeta2, kDecay, kEps, false, false, adamw,
                             nullptr, nullptr, nullptr, nullptr);
    });
  }

  static constexpr float kRate = 0.125f, kBeta1 = 0.5f, kBeta2 = 0.75f, kDecay = 0.25f, kEps = 0.0625f;
};

TEST_F(LargeOptimizers, Adam) { adam(false); }
TEST_F(LargeOptimizers, AdamW) { adam(true); }
TEST_F(LargeOptimizers, AdamWithOutput) {
  check(ref::Optimizer::kAdam, false, [&](const Memory* in, const Memory* out) {
    return miopenFusedAdamWithOutput(handle, desc, in[0].data(), desc, out[0].data(), desc, out[3].data(), desc,
                                     x.data(), desc, in[1].data(), desc, out[1].data(), desc, in[2].data(), desc,
                                     out[2].data(), nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                                     nullptr, 1, kRate, kBeta1, kBeta2, kDecay, kEps, false, false, false, nullptr,
                                     nullptr, nullptr, nullptr);
  });
}
TEST_F(LargeOptimizers, TransformersAdamW) {
  check(ref::Optimizer::kTransformersAdamW, true, [&](const Memory*, const Memory* s) {
    return miopenTransformersAdamW(handle, desc, s[0].data(), desc, x.data(), desc, s[1].data(), desc, s[2].data(),
                                   nullptr, nullptr, 1, kRate, kBeta1, kBeta2, kDecay, kEps, true, nullptr, nullptr,
                                   nullptr, nullptr);
  });
}
TEST_F(LargeOptimizers, TransformersAdamWWithOutput) {
  check(ref::Optimizer::kTransformersAdamW, false, [&](const Memory* in, const Memory* out) {
    return miopenTransformersAdamWWithOutput(handle, desc, in[0].data(), desc, out[0].data(), desc, out[3].data(), desc,
                                             x.data(), desc, in[1].data(), desc, out[1].data(), desc, in[2].data(),
                                             desc, out[2].data(), nullptr, nullptr, nullptr, nullptr, 1, kRate, kBeta1,
                                             kBeta2, kDecay, kEps, -1, true, nullptr, nullptr, nullptr, nullptr);
  });
}

/// Two steps of 32769 sequences, one label each: it is there twice, or with a blank before or after it.
TEST_F(LargeOperators, ConnectionistTemporalClassification) {
  constexpr int kSequences = 32769, kLabel = 3;
  const auto sequence = [](std::int64_t i) { return row(i) % kSequences; };
  const Owned<miopenCTCLossDescriptor_t, miopenCreateCTCLossDescriptor, miopenDestroyCTCLossDescriptor> ctc;
  expect_ok(miopenSetCTCLossDescriptor(ctc, miopenHalf, 0, true));
  const Tensor steps(miopenHalf, {2, kSequences, kWidth});
  const Ints labels(kSequences, kLabel), ones(kSequences, 1), twos(kSequences, 2);
  std::size_t bytes = 0;
  expect_ok(miopenGetCTCLossWorkspaceSize(handle, steps, steps, labels.data(), ones.data(), twos.data(),
                                          MIOPEN_CTC_LOSS_ALGO_DETERMINISTIC, ctc, &bytes));
  const Memory losses(kSequences), gradient = output(), workspace(static_cast<std::int64_t>(bytes) + 1, Type::kInt8);
  expect_ok(miopenCTCLoss(handle, steps, x.data(), labels.data(), ones.data(), twos.data(), losses.data(), steps,
                          gradient.data(), MIOPEN_CTC_LOSS_ALGO_DETERMINISTIC, ctc, workspace.data(), bytes));
  const auto p = [&](std::int64_t i) {
    return std::exp(x_at(i)) / (kWidth + sum(row, row(i), [](double v) { return std::exp(v) - 1; }));
  };
  const auto paths = [&](std::int64_t i) {  // of the label, through the class of element i
    const std::int64_t first = twin(i) - column(i);
    return column(i) == kLabel ? p(i) * (p(first + kLabel) + p(first)) : column(i) == 0 ? p(i) * p(first + kLabel) : 0;
  };
  const auto all_paths = [&](std::int64_t n) { return paths(n * kWidth) + paths(n * kWidth + kLabel); };
  for (const std::int64_t n : places(sequence)) expect_near(losses.at(n), -std::log(all_paths(n)), "loss", n);
  expect_all(gradient, [&](std::int64_t i) { return p(i) - paths(i) / all_paths(sequence(i)); });
}

/// More classes than an fp32 sum of ones can count.
TEST_F(LargeOperators, ConnectionistTemporalClassificationOfManyClasses) {
  constexpr int kClasses = 1 << 28;
  const Owned<miopenCTCLossDescriptor_t, miopenCreateCTCLossDescriptor, miopenDestroyCTCLossDescriptor> ctc;
  expect_ok(miopenSetCTCLossDescriptor(ctc, miopenFloat, 0, true));
  const Tensor step(miopenFloat, {1, 1, kClasses});
  const int one = 1;
  std::size_t bytes = 0;
  expect_ok(miopenGetCTCLossWorkspaceSize(handle, step, step, &one, &one, &one, MIOPEN_CTC_LOSS_ALGO_DETERMINISTIC, ctc,
                                          &bytes));
  const Memory zeros(kClasses, Type::kFloat), workspace(static_cast<std::int64_t>(bytes) + 1, Type::kInt8);
  float loss = 0;
  expect_ok(miopenCTCLoss(handle, step, zeros.data(), &one, &one, &one, &loss, step, nullptr,
                          MIOPEN_CTC_LOSS_ALGO_DETERMINISTIC, ctc, workspace.data(), bytes));
  EXPECT_NEAR(loss, std::log(static_cast<double>(kClasses)), 1e-5);
}

/// A dropout of half of the elements, with its states.
struct Dropout : Owned<miopenDropoutDescriptor_t, miopenCreateDropoutDescriptor, miopenDestroyDropoutDescriptor> {
  explicit Dropout(miopenHandle_t handle) {
    std::size_t bytes = 0;
    expect_ok(miopenDropoutGetStatesSize(handle, &bytes));
    states.resize(bytes);
    expect_ok(miopenSetDropoutDescriptor(*this, handle, 0.5f, states.data(), bytes, 1, false, false,
                                         MIOPEN_RNG_PSEUDO_XORWOW));
  }
  std::vector<char> states;
};

TEST_F(LargeOperators, Dropout) {
  const Dropout dropout(handle);
  std::size_t bytes = 0;
  const Memory y = output(), dx = output(), mask = output(Type::kInt8);
  expect_ok(miopenDropoutGetReserveSpaceSize(desc, &bytes));
  ASSERT_EQ(bytes, mask.bytes());
  expect_ok(miopenDropoutForward(handle, dropout, desc, desc, x.data(), desc, y.data(), mask.data(), bytes));
  std::set<double> kinds;
  for (const std::int64_t i : places()) kinds.insert(mask.at(i));
  EXPECT_EQ(kinds, (std::set<double>{0, 1}));
  expect_all(y, [&](std::int64_t i) { return 2 * mask.at(i) * x_at(i); });
  expect_ok(miopenDropoutBackward(handle, dropout, desc, desc, x.data(), desc, dx.data(), mask.data(), bytes));
  expect_all(dx, [&](std::int64_t i) { return 2 * mask.at(i) * x_at(i); });
  expect_ok(miopenDropoutBackward(handle, dropout, desc, desc, x.data(), desc, y.data(), nullptr, 0));
  expect_all(y, [&](std::int64_t i) { return dx.at(i); });
}

TEST_F(LargeOperators, ConvolutionBias) {
  const Tensor of_b(miopenHalf, {1, 2, 1, 1});
  const std::uint16_t b[] = {half(2), half(-1)};
  const Memory y = output(), db(2);
  fill(y, [&](std::int64_t i) { return x_at(i); });
  expect_ok(miopenConvolutionForwardBias(handle, &kOne, of_b, b, &kZero, desc, y.data()));
  expect_all(y, [&](std::int64_t i) { return x_at(i) + (i < kPlane ? 2 : -1); });
  expect_ok(miopenConvolutionBackwardBias(handle, &kOne, desc, x.data(), &kZero, of_b, db.data()));
  for (const std::int64_t c : {0, 1}) expect_near(db.at(c), sum(plane, c, same), "channel", c);
}

/// Few elements (2, 2, 3, 4) whose offsets need more than 32 bits. Results are those of packed tensors.
struct FarElements : LargeOperators {
  static constexpr std::int64_t kFew = 48, kFarImage = 2 * kTwo31 + 100, kFarChannel = kTwo31 + 60;
  static std::int64_t offset(std::int64_t i) { return i / 24 * kFarImage + i / 12 % 2 * kFarChannel + i % 12; }

  FarElements() {
    for (std::int64_t i = 0; i < kFew; ++i)
      for (const auto& [memory, at] : {std::pair{&near_x, i}, {&far_x, offset(i)}})
        memory->set(at, 0.5 * static_cast<double>(i * 5 % 11) - 2.5);
  }
  /// run(descriptor, x, y) writes a tensor of the sizes of x.
  template <class Run>
  void compare(Run run, int line = __builtin_LINE()) const {
    SCOPED_TRACE(testing::Message() << "called at line " << line);
    const Memory near_y(kFew), far_y(offset(kFew - 1) + 1);
    for (std::int64_t i = 0; i < kFew; ++i) {
      near_y.set(i, 0.375);
      far_y.set(offset(i), 0.375);
    }
    expect_ok(run(near, near_x, near_y));
    expect_ok(run(far, far_x, far_y));
    bool written = false;
    for (std::int64_t i = 0; i < kFew; ++i) {
      written = written || near_y.at(i) != 0.375;
      expect_near(far_y.at(offset(i)), near_y.at(i), "element", i);
    }
    EXPECT_TRUE(written);
  }
  /// run(descriptor, x, y) writes `count` elements at the begin of y.
  template <class Run>
  void compare_small(std::int64_t count, Run run, int line = __builtin_LINE()) const {
    SCOPED_TRACE(testing::Message() << "called at line " << line);
    const Memory near_y(count), far_y(count);
    expect_ok(run(near, near_x, near_y));
    expect_ok(run(far, far_x, far_y));
    bool written = false;
    for (std::int64_t i = 0; i < count; ++i) {
      written = written || near_y.at(i) != 0;
      expect_near(far_y.at(i), near_y.at(i), "element", i);
    }
    EXPECT_TRUE(written);
  }

  const Long near{miopenHalf, {2, 2, 3, 4}}, far{miopenHalf, {2, 2, 3, 4}, {kFarImage, kFarChannel, 4, 1}};
  const Memory near_x{kFew}, far_x{offset(kFew - 1) + 1};
};

using Desc = const Long&;
using Data = const Memory&;

TEST_F(FarElements, Activation) {
  const Owned<miopenActivationDescriptor_t, miopenCreateActivationDescriptor, miopenDestroyActivationDescriptor> a;
  expect_ok(miopenSetActivationDescriptor(a, miopenActivationLOGISTIC, 0, 0, 0));
  compare([&](Desc of, Data x, Data y) {
    return miopenActivationForward(handle, a, &kOne, of, x.data(), &kZero, of, y.data());
  });
  compare([&](Desc of, Data x, Data dx) {
    return miopenActivationBackward(handle, a, &kOne, of, x.data(), of, x.data(), of, x.data(), &kZero, of, dx.data());
  });
  const Tensor half_channels(miopenHalf, {2, 1, 3, 4});
  compare_small(kFew / 2, [&](Desc of, Data x, Data y) {
    return miopenGLUForward(handle, of, x.data(), half_channels, y.data(), 1);
  });
  compare([&](Desc of, Data x, Data dx) {
    return miopenGLUBackward(handle, of, x.data(), half_channels, near_x.data(), of, dx.data(), 1);
  });
}

TEST_F(FarElements, Softmax) {
  for (const auto mode : {MIOPEN_SOFTMAX_MODE_INSTANCE, MIOPEN_SOFTMAX_MODE_CHANNEL}) {
    compare([&](Desc of, Data x, Data y) {
      return miopenSoftmaxForward_V2(handle, &kOne, of, x.data(), &kZero, of, y.data(), MIOPEN_SOFTMAX_ACCURATE, mode);
    });
    compare([&](Desc of, Data x, Data dx) {
      return miopenSoftmaxBackward_V2(handle, &kOne, of, x.data(), of, x.data(), &kZero, of, dx.data(),
                                      MIOPEN_SOFTMAX_LOG, mode);
    });
  }
}

TEST_F(FarElements, Windows) {
  const Owned<miopenPoolingDescriptor_t, miopenCreatePoolingDescriptor, miopenDestroyPoolingDescriptor> pooling;
  for (const auto mode : {miopenPoolingMax, miopenPoolingAverage}) {
    expect_ok(miopenSet2dPoolingDescriptor(pooling, mode, 3, 3, 1, 1, 1, 1));
    compare([&](Desc of, Data x, Data y) {
      return miopenPoolingForward(handle, pooling, &kOne, of, x.data(), &kZero, of, y.data(), false, nullptr, 0);
    });
    compare([&](Desc of, Data x, Data dx) {
      return miopenPoolingBackward(handle, pooling, &kOne, of, x.data(), of, x.data(), of, x.data(), &kZero, of,
                                   dx.data(), nullptr);
    });
  }
  const Owned<miopenLRNDescriptor_t, miopenCreateLRNDescriptor, miopenDestroyLRNDescriptor> lrn;
  for (const auto mode : {miopenLRNWithinChannel, miopenLRNCrossChannel}) {
    expect_ok(miopenSetLRNDescriptor(lrn, mode, 3, 1.5, 0.75, 2));
    compare([&](Desc of, Data x, Data y) {
      return miopenLRNForward(handle, lrn, &kOne, of, x.data(), &kZero, of, y.data(), false, nullptr);
    });
    compare([&](Desc of, Data x, Data dx) {
      return miopenLRNBackward(handle, lrn, &kOne, of, x.data(), of, x.data(), of, x.data(), &kZero, of, dx.data(),
                               nullptr);
    });
  }
}

TEST_F(FarElements, BatchNorm) {
  const Tensor channels(miopenFloat, {1, 2, 1, 1}), elements(miopenFloat, {1, 2, 3, 4});
  std::vector<float> scale(24, 2), bias(24, 0.5f), mean(24, 1), variance(24, 4), dscale(24), dbias(24);
  float one = 1, zero = 0;
  for (const auto& form : {std::pair{miopenBNSpatial, &channels}, {miopenBNPerActivation, &elements}}) {
    const miopenBatchNormMode_t mode = form.first;
    const Tensor& parameters = *form.second;
    compare([&](Desc of, Data x, Data y) {
      return miopenBatchNormalizationForwardTraining(handle, mode, &one, &zero, of, x.data(), of, y.data(), parameters,
                                                     scale.data(), bias.data(), 1, nullptr, nullptr, 1e-3, nullptr,
                                                     nullptr);
    });
    compare([&](Desc of, Data x, Data y) {
      return miopenBatchNormalizationForwardInference(handle, mode, &one, &zero, of, x.data(), of, y.data(), parameters,
                                                      scale.data(), bias.data(), mean.data(), variance.data(), 1e-3);
    });
    compare([&](Desc of, Data x, Data dx) {
      return miopenBatchNormalizationBackward(handle, mode, &kOne, &kZero, &kOne, &kZero, of, x.data(), of, x.data(),
                                              of, dx.data(), parameters, scale.data(), dscale.data(), dbias.data(),
                                              1e-3, nullptr, nullptr);
    });
  }
}

TEST_F(FarElements, Norms) {
  const Tensor image(miopenFloat, {2, 3, 4}), line(miopenFloat, {4}), channel(miopenFloat, {2}),
      images(miopenFloat, {2}), lines(miopenFloat, {2, 2, 3});
  std::vector<float> weight(24), bias(24, 0.5f), mean(12, 1), rstd(12, 2), dw(24), db(24);
  for (std::size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<float>(i % 5);
  compare([&](Desc of, Data x, Data y) {
    return miopenLayerNormForward(handle, MIOPEN_WEIGHT_BIAS, of, x.data(), image, weight.data(), image, bias.data(),
                                  1e-3f, 1, of, y.data(), images, nullptr, images, nullptr);
  });
  compare([&](Desc of, Data x, Data y) {
    return miopenAddLayerNormForward(handle, MIOPEN_WEIGHT_BIAS_FUSED_ADD, of, x.data(), of, x.data(), image,
                                     weight.data(), image, bias.data(), 1e-3f, 1, of, y.data(), images, nullptr, images,
                                     nullptr);
  });
  compare([&](Desc of, Data x, Data y) {
    return miopenT5LayerNormForward(handle, MIOPEN_WEIGHT_BIAS_T5, of, x.data(), line, weight.data(), 1e-3f, of,
                                    y.data(), lines, nullptr);
  });
  compare([&](Desc of, Data x, Data y) {
    return miopenGroupNormForward(handle, MIOPEN_WEIGHT_BIAS, of, x.data(), channel, weight.data(), channel,
                                  bias.data(), 1, 1e-3f, of, y.data(), images, nullptr, images, nullptr);
  });
  compare([&](Desc of, Data x, Data dx) {
    return miopenLayerNormBackward(handle, MIOPEN_WEIGHT_BIAS, nullptr, 0, of, x.data(), of, x.data(), image,
                                   weight.data(), images, mean.data(), images, rstd.data(), 1, of, dx.data(), image,
                                   dw.data(), image, db.data());
  });
  compare([&](Desc of, Data x, Data dx) {
    return miopenT5LayerNormBackward(handle, MIOPEN_WEIGHT_BIAS_T5, nullptr, 0, of, x.data(), of, x.data(), line,
                                     weight.data(), lines, rstd.data(), of, dx.data(), line, dw.data());
  });
}

TEST_F(FarElements, Reductions) {
  const Long cube(miopenHalf, {1, 2, 1, 4}), without(miopenHalf, {2, 3, 4});
  const Tensor positions(miopenInt32, {2, 3, 4}), wide(miopenInt64, {2, 3, 4});
  const Owned<miopenReduceTensorDescriptor_t, miopenCreateReduceTensorDescriptor, miopenDestroyReduceTensorDescriptor>
      r;
  expect_ok(miopenSetReduceTensorDescriptor(r, MIOPEN_REDUCE_TENSOR_ADD, miopenFloat, MIOPEN_NOT_PROPAGATE_NAN,
                                            MIOPEN_REDUCE_TENSOR_NO_INDICES, MIOPEN_32BIT_INDICES));
  std::vector<std::int32_t> at(24);
  std::vector<std::size_t> wide_at(24);
  compare_small(8, [&](Desc of, Data x, Data y) {
    return miopenReduceTensor(handle, r, nullptr, 0, nullptr, 0, &kOne, of, x.data(), &kZero, cube, y.data());
  });
  for (const std::int32_t dim : {0, 1}) {
    compare_small(24, [&](Desc of, Data x, Data y) {
      return miopenReduceCalculationForward(handle, MIOPEN_REDUCE_CALCULATION_PROPAGATE_NAN, nullptr, 0, of, x.data(),
                                            dim, MIOPEN_REDUCE_CALCULATION_SUM, without, y.data());
    });
    compare_small(24, [&](Desc of, Data x, Data y) {
      return miopenReduceExtremeForward(handle, of, x.data(), dim, MIOPEN_REDUCE_EXTREME_MAX, without, y.data(),
                                        positions, at.data());
    });
    compare_small(24, [&](Desc of, Data x, Data y) {
      return miopenKthvalueForward(handle, of, x.data(), without, y.data(), wide, wide_at.data(), 2, dim, false);
    });
  }
}

TEST_F(FarElements, TensorOperations) {
  const std::uint16_t value = half(1.5);
  const std::uint16_t b[] = {half(2), half(-1)};
  const Tensor of_b(miopenHalf, {1, 2, 1, 1});
  compare([&](Desc of, Data x, Data y) {
    return miopenOpTensor(handle, miopenTensorOpMul, &kOne, of, x.data(), &kOne, of_b, b, &kOne, of, y.data());
  });
  compare([&](Desc of, Data x, Data y) {
    return miopenOpTensor(handle, miopenTensorOpMax, &kOne, of, x.data(), &kZero, of, x.data(), &kZero, of, y.data());
  });
  compare([&](Desc of, Data, Data y) { return miopenSetTensor(handle, of, y.data(), &value); });
  compare([&](Desc of, Data, Data y) { return miopenScaleTensor(handle, of, y.data(), &value); });
  compare(
      [&](Desc of, Data x, Data y) { return miopenTransformTensor(handle, &kOne, of, x.data(), &kOne, of, y.data()); });
  compare([&](Desc of, Data x, Data y) {
    const miopenTensorDescriptor_t one = of;
    const void* const from = x.data();
    return miopenCatForward(handle, 1, &one, &from, of, y.data(), 1);
  });
  compare([&](Desc of, Data, Data y) {
    return miopenConvolutionForwardBias(handle, &kOne, of_b, b, &kZero, of, y.data());
  });
  compare_small(2, [&](Desc of, Data x, Data db) {
    return miopenConvolutionBackwardBias(handle, &kOne, of, x.data(), &kZero, of_b, db.data());
  });
}

TEST_F(FarElements, OtherOperators) {
  const Tensor four(miopenHalf, {4}), channels(miopenHalf, {2}), two(miopenInt32, {2});
  const std::uint16_t numbers[] = {half(0.5), half(-1), half(2), half(0.25)};
  compare([&](Desc of, Data x, Data y) {
    return miopenRoPEForward(handle, of, x.data(), four, numbers, four, numbers, of, y.data());
  });
  compare([&](Desc of, Data x, Data dx) {
    return miopenRoPEBackward(handle, of, x.data(), four, numbers, four, numbers, of, dx.data());
  });
  compare([&](Desc of, Data x, Data y) {
    return miopenSoftMarginLossForward(handle, of, x.data(), of, x.data(), of, y.data(), MIOPEN_LOSS_REDUCTION_NONE,
                                       nullptr, 0);
  });
  compare([&](Desc of, Data x, Data dx) {
    return miopenSoftMarginLossBackward(handle, of, x.data(), of, x.data(), of, x.data(), of, dx.data(),
                                        MIOPEN_LOSS_REDUCTION_NONE);
  });
  compare([&](Desc of, Data x, Data dx) {
    return miopenPReLUBackward(handle, nullptr, 0, of, x.data(), channels, numbers, of, x.data(), of, dx.data(),
                               channels, nullptr);
  });
  compare([&](Desc of, Data x, Data p) {
    const Memory mean(x.count()), squares(x.count());
    return miopenFusedAdam(handle, of, p.data(), of, x.data(), of, mean.data(), of, squares.data(), nullptr, nullptr,
                           nullptr, nullptr, 1, 0.125f, 0.5f, 0.75f, 0.25f, 0.0625f, false, false, true, nullptr,
                           nullptr, nullptr, nullptr);
  });
  compare([&](Desc of, Data x, Data dx) {
    const std::int32_t rows[] = {1, -2}, dim = 0;
    const miopenTensorDescriptor_t of_rows = two;
    const void* const indices = rows;
    std::vector<char> workspace(4096);
    return miopenGetitemBackward(handle, workspace.data(), workspace.size(), of, x.data(), 1, &of_rows, &indices, of,
                                 dx.data(), nullptr, nullptr, 1, &dim, 0, nullptr, 0);
  });
}

TEST_F(FarElements, Dropout) {
  const Dropout dropout(handle);
  compare([&](Desc of, Data x, Data y) {
    return miopenDropoutForward(handle, dropout, near, of, x.data(), of, y.data(), nullptr, 0);
  });
  compare([&](Desc of, Data x, Data dx) {
    return miopenDropoutBackward(handle, dropout, near, of, x.data(), of, dx.data(), nullptr, 0);
  });
}

}  // namespace
}  // namespace polymio::test
