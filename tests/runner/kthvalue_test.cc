// Search for kthvalue: keys, tuning, detection of wrong results. On any device.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "db/find_db.h"
#include "primitives/kthvalue/kthvalue.h"
#include "tests/device.h"

namespace polymio::kthvalue {
namespace {

using search::CheckResult;
using Sizes = std::vector<std::int64_t>;

Problem problem(DataType type, const Sizes& x, std::int64_t dim, std::int64_t k) {
  Sizes y = x;
  y[static_cast<std::size_t>(dim)] = 1;
  Problem p;
  p.selection = {dim, k};
  p.x = make_tensor(type, x, {});
  p.y = make_tensor(type, y, {});
  p.indices = make_tensor(DataType::kInt64, y, {});
  validate(p);
  return p;
}

TEST(KthvalueProblem, KeysAreDriverLines) {
  EXPECT_EQ(problem(DataType::kHalf, {4, 5}, 1, 2).key(), "kthvaluefp16 -D 4,5 -k 2 -d 1");
  Problem p = problem(DataType::kInt32, {4, 5, 6}, 0, 3);
  p.x = make_tensor(DataType::kInt32, Sizes{4, 5, 6}, Sizes{1, 4, 20});
  p.y = make_tensor(DataType::kInt32, Sizes{1, 5, 6}, Sizes{30, 1, 5});
  p.indices = make_tensor(DataType::kInt64, Sizes{1, 5, 6}, Sizes{99, 12, 2});
  EXPECT_EQ(p.key(),
            "kthvalueint32 -D 4,5,6 -k 3 -d 0 --in_strides 1,4,20 --out_strides 30,1,5 --indices_strides 99,12,2");
}

TEST(KthvalueSearch, TuningStoresAPointAndEveryPointIsRight) {
  std::string name = (std::filesystem::temp_directory_path() / "polymio-kthvalue-XXXXXX").string();
  const std::filesystem::path folder = mkdtemp(name.data());
  setenv("MIOPEN_USER_DB_PATH", folder.c_str(), 1);
  Handle handle(test::device_name(), nullptr);
  handle.set_tuning_policy(Enforce::kSearch);
  for (const Problem& p : {problem(DataType::kFloat, {40, 3000}, 1, 700), problem(DataType::kInt8, {500, 60}, 0, 1)}) {
    SCOPED_TRACE(p.key());
    const auto check = make_check(p);
    const auto own = check->private_case(handle, SIZE_MAX);
    const auto* args = static_cast<const Problem::Args*>(own->args(nullptr, 0));
    run(handle, p, *args);
    const auto records = find_db(handle.device().architecture).lookup(p.key());
    EXPECT_TRUE(std::ranges::any_of(records, [](const auto& r) { return r.kind == RecordKind::kTuned; }));
    const SolverBase& solver = *solvers(handle.device().kind)[0];
    std::string text;
    for (const TunePoint& point : valid_points(solver, handle.device(), p)) {
      check->poison(handle.stream(), args);
      solver.build(handle.stream(), p, point)(handle.stream(), args);
      EXPECT_EQ(check->check(handle.stream(), args, {solver, p}, text), CheckResult::kRight) << text;
    }
    const unsigned char wrong[4] = {0x12, 0x34, 0x56, 0x78};
    handle.stream().upload({args->y, 0}, wrong, size_of(p.x.type));
    EXPECT_EQ(check->check(handle.stream(), args, {solver, p}, text), CheckResult::kWrong);
    EXPECT_NE(text.find("y at offset 0"), std::string::npos) << text;
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace polymio::kthvalue
