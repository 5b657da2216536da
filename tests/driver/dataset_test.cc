// 'dataset': rows, resuming after a kill, shares, tune points.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/driver/drive.h"

namespace {

namespace fs = std::filesystem;

class Dataset : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_);
    std::ofstream(file("list")) << "conv -n 1 -c 8 -H 9 -W 7 -k 6 -y 3 -x 3 -p 1 -q 1\n"
                                   "conv -n 1 -c 16 -H 8 -W 8 -k 32 -y 1 -x 1 -F 1\n";
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  std::string text(const std::string& name) const {
    std::ifstream in(file(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::vector<nlohmann::json> rows(const std::string& name) const {
    std::istringstream in(text(name));
    std::vector<nlohmann::json> all;
    for (std::string line; std::getline(in, line);) all.push_back(nlohmann::json::parse(line));
    return all;
  }
  Outcome make(const std::string& out, const std::string& flags = "") const {
    return drive("dataset --from-list " + file("list") + " --out " + file(out) + " --each 20ms " + flags);
  }

 private:
  fs::path folder_ = fs::temp_directory_path() / ("polymio_dataset_" + std::to_string(::getpid()));
};

TEST_F(Dataset, HasARowForEachProblemWithTheTimesOfItsSolvers) {
  const Outcome outcome = make("out");
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  const auto all = rows("out");
  ASSERT_EQ(all.size(), 4u) << "three directions and one";
  for (const auto& row : all) {
    EXPECT_GT(row.at("gflops"), 0);
    EXPECT_GT(row.at("gbs"), 0);
    EXPECT_GE(row.at("threads"), 1);
    EXPECT_GE(row.at("solvers").size(), 2u) << row;
    for (const auto& solver : row.at("solvers")) {
      EXPECT_GT(solver.at(1), 0) << row;
      EXPECT_GT(solver.at(2), 0) << row;
      EXPECT_EQ(solver.at(0).get<std::string>().find("Reference"), std::string::npos);
    }
  }
}

TEST_F(Dataset, ResumesWhereItWasKilled) {
  ASSERT_EQ(make("out").status, 0);
  const std::string whole = text("out");
  const std::size_t second = whole.find('\n') + 1, third = whole.find('\n', second) + 1;
  const std::string kept = whole.substr(0, third);
  std::ofstream(file("out"), std::ios::binary) << kept + whole.substr(third, 40);
  ASSERT_EQ(make("out").status, 0);
  EXPECT_TRUE(text("out").starts_with(kept)) << "rows that are whole stay";
  std::set<std::string> problems;
  for (const auto& row : rows("out")) problems.insert(row.at("problem"));
  EXPECT_EQ(problems.size(), 4u);
  EXPECT_EQ(rows("out").size(), 4u) << "none twice";
  const std::string complete = text("out");
  ASSERT_EQ(make("out").status, 0);
  EXPECT_EQ(text("out"), complete);
}

TEST_F(Dataset, SharesAreDisjointAndComplete) {
  ASSERT_EQ(make("a", "--share 0/2").status, 0);
  ASSERT_EQ(make("b", "--share 1/2").status, 0);
  std::multiset<std::string> problems;
  for (const char* name : {"a", "b"})
    for (const auto& row : rows(name)) problems.insert(row.at("problem"));
  EXPECT_EQ(problems.size(), 4u);
  EXPECT_EQ(std::set<std::string>(problems.begin(), problems.end()).size(), 4u);
}

TEST_F(Dataset, PointsAreOfMatrixProducts) {
  const Outcome outcome = make("points", "--points");
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  std::size_t points = 0;
  for (const auto& row : rows("points"))
    for (const auto& point : row.at("points")) {
      ++points;
      EXPECT_NE(point.at(0).get<std::string>().find("Gemm"), std::string::npos) << row;
      EXPECT_NE(point.at(1), "");
      EXPECT_GT(point.at(2), 0);
    }
  EXPECT_GT(points, 0u);
  EXPECT_FALSE(fs::exists(file("points.db"))) << "its database is gone";
}

TEST_F(Dataset, AsksForItsFiles) {
  EXPECT_EQ(drive("dataset").status, 2);
  EXPECT_EQ(drive("dataset --from-list " + file("list") + " --out /nowhere/at/all").status, 2);
  const Outcome stopped = make("out", "--budget 1ms");
  EXPECT_EQ(stopped.status, 3) << stopped.text;
}

}  // namespace
