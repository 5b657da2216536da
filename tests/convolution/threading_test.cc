// Concurrency through the C API: several threads on one handle and on handles of their own, calls nested in an
// executor of the caller, and results that do not depend on the number of threads.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <thread>

#include "job.h"

namespace polymio::test {
namespace {

void in_threads(int count, const std::function<void(int)>& body) {
  std::atomic<int> waiting{count};
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      // All threads start together, so that first calls coincide.
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

TEST(Threading, ManyHandlesOnManyThreads) {
  in_threads(8, [](int i) {
    const Handle handle;
    Job first(handle, i), second(handle, i + 1);
    for (const auto d : kDirections) {
      first.do_everything(d);
      second.find_and_run(d);
    }
  });
}

/// The ids of all solutions, the workspace of find, the number of solutions.
std::vector<std::uint64_t> answers(const Job& job, Direction d) {
  std::vector<std::uint64_t> ids;
  for (const auto& s : job.convolution().solutions(d)) ids.push_back(s.solution_id);
  std::sort(ids.begin(), ids.end());
  std::size_t workspace = 0, count = 0;
  expect_ok(job.convolution().call.workspace_size(d, &workspace));
  expect_ok(job.convolution().call.solution_count(d, &count));
  ids.push_back(workspace);
  ids.push_back(count);
  return ids;
}

TEST(Threading, EveryKindOfCallAtOnceOnOneHandle) {
  const Handle handle;
  std::vector<std::uint64_t> expected[3];
  {
    const Handle alone;
    const Job job(alone, 2);
    for (const auto d : kDirections) expected[static_cast<int>(d)] = answers(job, d);
  }
  in_threads(8, [&](int i) {
    Job job(handle, 2);
    const auto compare = [&](Direction d) { EXPECT_EQ(answers(job, d), expected[static_cast<int>(d)]); };
    for (int round = 0; round < 10; ++round)
      for (const auto d : kDirections) switch (i % 4) {
          case 0: job.find_and_run(d); break;
          case 1: job.run_first(d); break;
          case 2: job.do_everything(d); break;
          default: compare(d);
        }
  });
}

/// The exhaustive find of one direction, ended by the callback after some candidates.
void tune(miopenHandle_t handle, Job& job, Direction d) {
  const auto enough = [](void* context, const polymioTuningProgress_t*) {
    return static_cast<int>(++*static_cast<int*>(context) >= 12);
  };
  int calls = 0;
  expect_ok(polymioSetTuningCallback(handle, enough, &calls));
  job.tune(d);
  expect_ok(polymioSetTuningCallback(handle, nullptr, nullptr));
  EXPECT_GT(calls, 0);
}

/// An empty database for the duration of a scope.
struct NewDatabase {
  NewDatabase() {
    std::string name = (std::filesystem::temp_directory_path() / "polymio_test_XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder = name;
    setenv("MIOPEN_USER_DB_PATH", name.c_str(), 1);
  }
  NewDatabase(const NewDatabase&) = delete;
  NewDatabase& operator=(const NewDatabase&) = delete;
  ~NewDatabase() {
    before ? setenv("MIOPEN_USER_DB_PATH", before->c_str(), 1) : unsetenv("MIOPEN_USER_DB_PATH");
    std::filesystem::remove_all(folder);
  }
  const char* const given = getenv("MIOPEN_USER_DB_PATH");
  const std::optional<std::string> before = given ? std::optional<std::string>(given) : std::nullopt;
  std::filesystem::path folder;
};

TEST(Threading, TuningBesideRuns) {
  const NewDatabase database;  // what is tuned already is not tuned again
  const Handle handle;
  expect_ok(polymioSetThreadCap(handle, 2));  // with many, such small problems have nothing to tune
  std::atomic<int> tuning{1};
  in_threads(4, [&](int i) {
    Job job(handle, i < 2 ? 3 : i);
    if (i == 0) {
      for (const auto d : kDirections) tune(handle, job, d);
      tuning = 0;
      return;
    }
    do {
      for (const auto d : kDirections) i == 1 ? job.find_and_run(d) : job.run_first(d);
    } while (tuning);
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

/// An executor that makes a call on a handle before it runs its tasks: on another handle, or on
/// its own.
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
                         Shape{{2, 12, 15, 14}, {12, 1, 3, 3}, {1, 1}, {2, 2}, {}, 12},
                         Shape{{2, 144, 6, 7}, {144, 1, 3, 3}, {1, 1}, {}, {}, 144},
                         Shape{{2, 120, 11, 9}, {120, 4, 3, 3}, {1, 1}, {}, {}, 30},
                         Shape{{2, 1030, 1, 1}, {1100, 1030, 1, 1}}, Shape{{3, 48, 13, 14}, {24, 48, 1, 1}},
                         Shape{{1, 150, 7, 7}, {600, 150, 1, 1}}, Shape{{2, 3, 32, 48}, {20, 3, 16, 16}, {}, {16, 16}}})
    for (const auto d : kDirections) {
      Convolution c(handle, s);
      expect_ok(miopenSetConvolutionAttribute(c.conv, MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC, 1));
      unsigned state = 1;
      for (auto* buffer : {&c.x_data, &c.w_data, &c.y_data}) {
        auto* v = reinterpret_cast<float*>(buffer->data());
        for (std::size_t i = 0; i < buffer->size() / sizeof(float); ++i) {
          state = state * 1664525u + 1013904223u;
          v[i] = static_cast<float>(state >> 8) / 16777216.0f - 0.5f;
        }
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
