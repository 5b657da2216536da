// A convolution with exactly known results, for tests of find, plans and threads.
// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstring>
#include <vector>

#include "../capi/api.h"

namespace polymio::test {

/// A convolution of small integers, so that every order of summation gives the same floats, with
/// expected results from plain loops.
class Job {
 public:
  Job(miopenHandle_t handle, int variant) : c_(handle, shape(variant)) {
    fill(c_.x_data, 5);
    fill(c_.w_data, 3);
    fill(c_.y_data, 7);
    given_[0] = values(c_.x_data);
    given_[1] = values(c_.w_data);
    given_[2] = values(c_.y_data);
    for (const auto d : kDirections) expected_[static_cast<int>(d)] = compute(d);
  }

  /// Find, run, list, compile, immediate in one direction, each result checked.
  void do_everything(Direction d) {
    find_and_run(d);
    for (const auto& s : c_.solutions(d)) {
      expect_ok(c_.call.compile(d, s.solution_id));
      run_once(d, s.solution_id);
    }
    restore(d);
  }

  void run_once(Direction d, std::uint64_t id) {
    std::size_t bytes = 0;
    expect_ok(c_.call.solution_workspace(d, id, &bytes));
    c_.provide_workspace(bytes);
    clear(d);
    expect_ok(c_.call.immediate(d, id));
    check(d);
  }

  /// Finds, runs the answer and checks the result.
  void find_and_run(Direction d) {
    c_.provide_workspace(d);
    int count = 0;
    miopenConvAlgoPerf_t perf[5];
    expect_ok(c_.call.find(d, 5, &count, perf));
    ASSERT_GE(count, 1);
    for (int i = 0; i < count; ++i) {
      clear(d);
      expect_ok(c_.call.run(d, perf[i].fwd_algo));
      check(d);
    }
    restore(d);
  }

  /// An exhaustive find regardless of the database; runs its answer and checks the result.
  void tune(Direction d) {
    expect_ok(miopenSetConvolutionFindMode(c_.conv, miopenConvolutionFindModeNormal));
    c_.provide_workspace(d);
    int count = 0;
    miopenConvAlgoPerf_t perf;
    expect_ok(c_.call.find(d, 1, &count, &perf, true));
    ASSERT_EQ(count, 1);
    clear(d);
    expect_ok(c_.call.run(d, perf.fwd_algo));
    check(d);
    restore(d);
  }

  void run_first(Direction d) {
    run_once(d, c_.solutions(d)[0].solution_id);
    restore(d);
  }

  const Convolution& convolution() const { return c_; }

 private:
  static Shape shape(int variant) {
    switch (variant % 4) {
      case 0: return {{2, 4, 9, 8}, {6, 4, 3, 3}, {1, 1}};
      case 1: return {{1, 8, 12, 12}, {8, 8, 1, 1}};
      case 2: return {{2, 6, 7, 9}, {6, 2, 3, 2}, {1, 0}, {2, 1}, {1, 2}, 3};
      default: return {{3, 5, 10, 6}, {4, 5, 5, 3}, {2, 1}, {1, 2}};
    }
  }
  static void fill(std::vector<unsigned char>& bytes, int range) {
    auto* v = reinterpret_cast<float*>(bytes.data());
    for (std::size_t i = 0; i < bytes.size() / sizeof(float); ++i)
      v[i] = static_cast<float>(static_cast<int>(i * 7 % 11) % range - range / 2);
  }
  static std::vector<float> values(const std::vector<unsigned char>& bytes) {
    std::vector<float> v(bytes.size() / sizeof(float));
    std::memcpy(v.data(), bytes.data(), bytes.size());
    return v;
  }
  static int at(const Ints& v, std::size_t i, int otherwise) { return v.empty() ? otherwise : v[i]; }

  /// Visits every product of the convolution by its three offsets, and adds it to the output.
  std::vector<float> compute(Direction d) const {
    const Shape& s = c_.shape;
    const Ints &x = s.x, &w = s.w, &y = c_.y_lens;
    std::vector<float> out(given_[d == Direction::kForward ? 2 : d == Direction::kBackwardData ? 0 : 1].size(), 0);
    const int per_group = y[1] / s.groups;
    for (int i = 0; i < y[0] * y[1] * y[2] * y[3]; ++i) {
      const int q = i % y[3], p = i / y[3] % y[2], k = i / y[3] / y[2] % y[1], n = i / y[3] / y[2] / y[1];
      for (int j = 0; j < w[1] * w[2] * w[3]; ++j) {
        const int t = j % w[3], r = j / w[3] % w[2], c = j / w[3] / w[2];
        const int h = p * at(s.stride, 0, 1) + r * at(s.dilation, 0, 1) - at(s.pad, 0, 0);
        const int v = q * at(s.stride, 1, 1) + t * at(s.dilation, 1, 1) - at(s.pad, 1, 0);
        if (h < 0 || h >= x[2] || v < 0 || v >= x[3]) continue;
        const auto xi = static_cast<std::size_t>(((n * x[1] + k / per_group * w[1] + c) * x[2] + h) * x[3] + v);
        const auto wi = static_cast<std::size_t>(k * w[1] * w[2] * w[3] + j), yi = static_cast<std::size_t>(i);
        if (d == Direction::kForward) out[yi] += given_[0][xi] * given_[1][wi];
        if (d == Direction::kBackwardData) out[xi] += given_[2][yi] * given_[1][wi];
        if (d == Direction::kBackwardWeights) out[wi] += given_[0][xi] * given_[2][yi];
      }
    }
    return out;
  }

  void clear(Direction d) { std::fill(c_.output(d).begin(), c_.output(d).end(), 0xff); }
  void check(Direction d) { EXPECT_EQ(values(c_.output(d)), expected_[static_cast<int>(d)]); }
  void restore(Direction d) {
    const auto& v = given_[d == Direction::kForward ? 2 : d == Direction::kBackwardData ? 0 : 1];
    std::memcpy(c_.output(d).data(), v.data(), c_.output(d).size());
  }

  Convolution c_;
  std::vector<float> given_[3], expected_[3];  // x, w, y; results by direction
};

}  // namespace polymio::test
