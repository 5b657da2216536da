// Concurrency through the C API: several threads on one handle and on their own, calls nested in an
// executor of the caller, and results that do not depend on the number of threads.
// SPDX-License-Identifier: MIT
#include <atomic>
#include <thread>

#include "../capi/api.h"

namespace polymio::test {
namespace {

/// A convolution on small whole numbers, so that every order of summation gives the same floats, with
/// its results by plain loops.
class Job {
 public:
  Job(miopenHandle_t handle, int variant) : c_(handle, shape(variant)) {
    fill(c_.x_data, 5), fill(c_.w_data, 3), fill(c_.y_data, 7);
    given_[0] = values(c_.x_data), given_[1] = values(c_.w_data), given_[2] = values(c_.y_data);
    for (const auto d : kDirections) expected_[static_cast<int>(d)] = compute(d);
  }

  /// Find, run, list, compile, immediate in one direction, each result checked.
  void do_everything(Direction d) {
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
    for (const auto& s : c_.solutions(d)) {
      expect_ok(c_.call.compile(d, s.solution_id));
      run_once(d, s.solution_id);
    }
    restore(d);
  }

  void run_once(Direction d, std::uint64_t id) {
    clear(d);
    expect_ok(c_.call.immediate(d, id));
    check(d);
  }

  void run_first(Direction d) {
    c_.provide_workspace(d);
    run_once(d, c_.solutions(d)[0].solution_id);
    restore(d);
  }

 private:
  static Shape shape(int variant) {
    switch (variant % 4) {
      case 0:
        return {{2, 4, 9, 8}, {6, 4, 3, 3}, {1, 1}};
      case 1:
        return {{1, 8, 12, 12}, {8, 8, 1, 1}};
      case 2:
        return {{2, 6, 7, 9}, {6, 2, 3, 2}, {1, 0}, {2, 1}, {1, 2}, 3};
      default:
        return {{3, 5, 10, 6}, {4, 5, 5, 3}, {2, 1}, {1, 2}};
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

  /// Visits every product of the convolution by its three offsets, and adds it up in the output.
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

void in_threads(int count, const std::function<void(int)>& body) {
  std::atomic<int> waiting{count};
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      // All start together, so that first calls meet.
      for (--waiting; waiting > 0;) std::this_thread::yield();
      body(i);
    });
  for (auto& t : threads) t.join();
}

TEST(Threading, OneHandleDifferentProblems) {
  const Handle handle;
  in_threads(4, [&](int i) {
    Job job(handle, i);
    for (int round = 0; round < 3; ++round)
      for (const auto d : kDirections) job.do_everything(d);
  });
}

TEST(Threading, OneHandleTheSameProblem) {
  const Handle handle;
  in_threads(6, [&](int) {
    Job job(handle, 0);
    for (int round = 0; round < 3; ++round)
      for (const auto d : kDirections) job.do_everything(d);
  });
}

TEST(Threading, OneHandleEachCreatedAndDestroyedOften) {
  in_threads(4, [](int i) {
    for (int round = 0; round < 4; ++round) {
      const Handle handle;
      expect_ok(polymioSetThreadCap(handle, 1 + i));
      Job(handle, i + round).do_everything(kDirections[round % 3]);
    }
  });
}

TEST(Threading, QueriesBesideRuns) {
  const Handle handle;
  in_threads(4, [&](int i) {
    Job job(handle, 3);
    if (i % 2 == 0) {
      for (int round = 0; round < 20; ++round) job.run_first(Direction::kForward);
      return;
    }
    Convolution c(handle, {{1, 3, 8, 8}, {3, 3, 3, 3}});
    for (int round = 0; round < 20; ++round)
      for (const auto d : kDirections) EXPECT_FALSE(c.solutions(d).empty());
  });
}

TEST(Threading, ErrorsOfOneThreadAreNotSeenByOthers) {
  in_threads(4, [](int i) {
    for (int round = 0; round < 200; ++round) {
      if (i % 2) {
        expect_bad(miopenCreate(nullptr), {"handle is null"});
      } else {
        expect_bad(miopenDestroyTensorDescriptor(nullptr), {"tensor descriptor is null"});
      }
    }
  });
}

using Task = void (*)(void*, std::size_t);

/// An executor that, before it runs its tasks, makes a call of its own on a handle: another one, or
/// the one that it serves.
struct Nesting {
  Job* inner;
  std::atomic<int> sections{0}, nested{0};

  static void run(void* context, std::size_t tasks, Task task, void* task_context) {
    auto& self = *static_cast<Nesting*>(context);
    ++self.sections;
    thread_local bool inside = false;
    if (!inside) {
      inside = true;
      self.inner->run_first(Direction::kForward);
      ++self.nested;
      inside = false;
    }
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < tasks; ++i) threads.emplace_back([=] { task(task_context, i); });
    for (auto& t : threads) t.join();
  }
};

TEST(Threading, CallsNestedInAnExecutor) {
  for (const bool same_handle : {false, true}) {
    const Handle outer_handle, other_handle;
    expect_ok(polymioSetThreadCap(outer_handle, 3));
    Job inner(same_handle ? outer_handle : other_handle, 0), outer(outer_handle, 1);
    Nesting nesting{&inner};
    expect_ok(polymioSetExecutor(outer_handle, Nesting::run, &nesting));
    for (const auto d : kDirections) outer.do_everything(d);
    EXPECT_GE(nesting.nested, 1);
    if (same_handle) {
      EXPECT_GT(nesting.sections, nesting.nested) << "the nested calls should have sections too";
    }
    expect_ok(polymioSetExecutor(outer_handle, nullptr, nullptr));
  }
}

TEST(Threading, DeterministicSolversDoNotDependOnTheNumberOfThreads) {
  const Handle handle;
  for (const Shape& s : {Shape{{2, 16, 17, 19}, {24, 16, 3, 3}, {1, 1}}, Shape{{3, 32, 9, 9}, {33, 32, 1, 1}},
                         Shape{{2, 12, 15, 14}, {12, 1, 3, 3}, {1, 1}, {2, 2}, {}, 12}})
    for (const auto d : kDirections) {
      Convolution c(handle, s);
      expect_ok(miopenSetConvolutionAttribute(c.conv, MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC, 1));
      unsigned state = 1;
      for (auto* buffer : {&c.x_data, &c.w_data, &c.y_data}) {
        auto* v = reinterpret_cast<float*>(buffer->data());
        for (std::size_t i = 0; i < buffer->size() / sizeof(float); ++i)
          state = state * 1664525u + 1013904223u, v[i] = static_cast<float>(state >> 8) / 16777216.0f - 0.5f;
      }
      for (const auto& solution : c.solutions(d)) {
        std::vector<unsigned char> first;
        for (const int cap : {1, 2, 8}) {
          expect_ok(polymioSetThreadCap(handle, cap));
          c.provide_workspace(d);
          expect_ok(c.call.immediate(d, solution.solution_id));
          if (first.empty()) first = c.output(d);
          EXPECT_TRUE(first == c.output(d)) << "solution " << solution.solution_id << " with " << cap << " threads";
        }
      }
    }
}

}  // namespace
}  // namespace polymio::test
