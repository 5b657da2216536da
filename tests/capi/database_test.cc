// Databases and packs through the API: writing, reading, loading, and every refused argument.
// SPDX-License-Identifier: MIT
#include <stdlib.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "api.h"

namespace polymio::test {
namespace {

namespace fs = std::filesystem;

class Database : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "polymio-capi-db-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    file_ = (folder_ / "pack").string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  static polymioRecord_t record() {
    return {sizeof(polymioRecord_t), "conv -n 1", "ConvX",    2,         0.5, 64, "tile=8", 16, 4,
            polymioRecordTuned,      "conv fwd",  "1.5,-2,3", 2000000000};
  }

  struct Line {
    std::size_t number;
    std::string text, problem;
    double time;
  };
  std::vector<Line> read() const {
    std::vector<Line> lines;
    const auto visit = [](void* context, std::size_t number, const char* text, const polymioRecord_t* r) {
      static_cast<std::vector<Line>*>(context)->push_back({number, text, r ? r->problem : "damaged", r ? r->time : -1});
      return 0;
    };
    expect_ok(polymioReadRecords(file_.c_str(), visit, &lines));
    return lines;
  }

  fs::path folder_;
  std::string file_;
};

TEST_F(Database, RecordsComeBackAsTheyWere) {
  const polymioRecord_t in = record();
  expect_ok(polymioWriteRecords(file_.c_str(), &in, 1));
  int visits = 0;
  const auto visit = [](void* context, std::size_t, const char*, const polymioRecord_t* r) {
    ++*static_cast<int*>(context);
    const polymioRecord_t want = record();
    EXPECT_NE(r, nullptr);
    if (!r) return 1;
    EXPECT_EQ(r->size, sizeof *r);
    EXPECT_STREQ(r->problem, want.problem);
    EXPECT_STREQ(r->solver, want.solver);
    EXPECT_EQ(r->solver_version, want.solver_version);
    EXPECT_EQ(r->time, want.time);
    EXPECT_EQ(r->workspace_size, want.workspace_size);
    EXPECT_STREQ(r->tune_point, want.tune_point);
    EXPECT_EQ(r->units, want.units);
    EXPECT_EQ(r->threads, want.threads);
    EXPECT_EQ(r->kind, want.kind);
    EXPECT_STREQ(r->family, want.family);
    EXPECT_STREQ(r->log_sizes, want.log_sizes);
    EXPECT_EQ(r->work, want.work);
    return 0;
  };
  expect_ok(polymioReadRecords(file_.c_str(), visit, &visits));
  EXPECT_EQ(visits, 1);
}

TEST_F(Database, WritingMergesAndReplaces) {
  std::vector<polymioRecord_t> records(3, record());
  records[1].time = 0.25;
  records[2].problem = "conv -n 2";
  expect_ok(polymioWriteRecords(file_.c_str(), records.data(), records.size()));
  auto lines = read();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].time, 0.25);
  EXPECT_EQ(lines[1].problem, "conv -n 2");
  expect_ok(polymioWriteRecords(file_.c_str(), nullptr, 0));
  EXPECT_TRUE(read().empty());
  EXPECT_TRUE(fs::exists(file_));
}

TEST_F(Database, LargerStructsOfLaterCallersAreTaken) {
  struct Later {
    polymioRecord_t now;
    double more;
  };
  std::vector<Later> records(2, Later{record(), 7});
  records[1].now.problem = "conv -n 2";
  for (Later& r : records) r.now.size = sizeof(Later);
  expect_ok(polymioWriteRecords(file_.c_str(), &records[0].now, records.size()));
  EXPECT_EQ(read().size(), 2u);
}

TEST_F(Database, DamagedLinesAreShown) {
  const polymioRecord_t in = record();
  expect_ok(polymioWriteRecords(file_.c_str(), &in, 1));
  std::ofstream(file_, std::ios::app) << "# comment\n\ndamaged line\n";
  const auto lines = read();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1].text, "damaged line");
  EXPECT_EQ(lines[1].problem, "damaged");
  EXPECT_EQ(lines[1].number, lines[0].number + 3);
}

TEST_F(Database, VisitorEndsTheReading) {
  std::vector<polymioRecord_t> records(2, record());
  records[1].problem = "conv -n 2";
  expect_ok(polymioWriteRecords(file_.c_str(), records.data(), records.size()));
  int visits = 0;
  const auto stop = [](void* context, std::size_t, const char*, const polymioRecord_t*) {
    ++*static_cast<int*>(context);
    return 1;
  };
  expect_ok(polymioReadRecords(file_.c_str(), stop, &visits));
  EXPECT_EQ(visits, 1);
}

TEST_F(Database, BadRecordsAreRefusedByName) {
  const auto refused = [&](void (*spoil)(polymioRecord_t&), std::initializer_list<const char*> parts) {
    std::vector<polymioRecord_t> records(2, record());
    spoil(records[1]);
    expect_bad(polymioWriteRecords(file_.c_str(), records.data(), records.size()), parts);
  };
  refused([](auto& r) { r.problem = nullptr; }, {"records[1].problem is null"});
  refused([](auto& r) { r.problem = ""; }, {"records[1].problem is empty"});
  refused([](auto& r) { r.solver = nullptr; }, {"records[1].solver is null"});
  refused([](auto& r) { r.solver = ""; }, {"records[1].solver", "without blanks"});
  refused([](auto& r) { r.solver = "Conv X"; }, {"records[1].solver", "Conv X"});
  refused([](auto& r) { r.tune_point = nullptr; }, {"records[1].tune_point is null"});
  refused([](auto& r) { r.family = nullptr; }, {"records[1].family is null"});
  refused([](auto& r) { r.log_sizes = nullptr; }, {"records[1].log_sizes is null"});
  for (const char* bad : {"1,", ",", "x", "1;2", "nan", "1,inf", "1e99"}) {
    std::vector<polymioRecord_t> records(1, record());
    records[0].log_sizes = bad;
    expect_bad(polymioWriteRecords(file_.c_str(), records.data(), 1), {"records[0].log_sizes", "commas"});
  }
  refused([](auto& r) { r.kind = static_cast<polymioRecordKind_t>(7); }, {"records[1].kind is 7", "0", "6"});
  refused([](auto& r) { r.time = NAN; }, {"records[1]", "nan"});
  refused([](auto& r) { r.time = -1; }, {"records[1]", "-1"});
  refused([](auto& r) { r.time = 1e306; }, {"records[1]", "1e+306"});
  refused([](auto& r) { r.work = std::numeric_limits<double>::infinity(); }, {"records[1]", "inf"});
  refused([](auto& r) { r.units = -1; }, {"records[1]", "-1 units"});
  refused([](auto& r) { r.threads = -2; }, {"records[1]", "-2 threads"});
  refused([](auto& r) { r.size = 0; }, {"records[1].size is 0", "sizeof"});
  polymioRecord_t small = record();
  small.size = 8;
  expect_bad(polymioWriteRecords(file_.c_str(), &small, 1), {"records[0].size is 8"});
  polymioRecord_t huge[] = {record(), record()};
  huge[0].size = SIZE_MAX / 8 * 8;
  expect_bad(polymioWriteRecords(file_.c_str(), huge, 2), {"records", "size is 18446744073709551608", "sizeof"});
  EXPECT_FALSE(fs::exists(file_)) << "nothing is written unless all is right";
}

TEST_F(Database, BadFilesAndNullsAreRefused) {
  const polymioRecord_t in = record();
  const auto visit = [](void*, std::size_t, const char*, const polymioRecord_t*) { return 0; };
  const std::string missing = (folder_ / "missing" / "pack").string(), folder = folder_.string();
  expect_bad(polymioReadRecords(missing.c_str(), visit, nullptr), {missing.c_str(), "No such file"});
  expect_bad(polymioReadRecords(folder.c_str(), visit, nullptr), {folder.c_str(), "directory"});
  expect_bad(polymioReadRecords(nullptr, visit, nullptr), {"file is null"});
  expect_bad(polymioReadRecords(file_.c_str(), nullptr, nullptr), {"visitor is null"});
  expect_bad(polymioWriteRecords(missing.c_str(), &in, 1), {missing.c_str(), "No such file"});
  expect_bad(polymioWriteRecords(folder.c_str(), &in, 1), {folder.c_str(), "not a regular file"});
  expect_bad(polymioWriteRecords(nullptr, &in, 1), {"file is null"});
  expect_bad(polymioWriteRecords(file_.c_str(), nullptr, 1), {"records is null"});
  expect_bad(polymioLoadPack("cpu-test", missing.c_str()), {missing.c_str(), "No such file"});
  expect_bad(polymioLoadPack("cpu-test", nullptr), {"file is null"});
  expect_bad(polymioLoadPack(nullptr, file_.c_str()), {"architecture is null"});
  expect_bad(polymioLoadPack("", file_.c_str()), {"architecture is empty"});
  expect_bad(polymioLoadPackFromMemory("cpu-test", nullptr, 1), {"data is null"});
  expect_bad(polymioLoadPackFromMemory(nullptr, "x", 1), {"architecture is null"});
  expect_bad(polymioLoadPackFromMemory("cpu-test", "x", 0), {"not one record"});
  expect_bad(polymioLoadPackFromMemory("cpu-test", "hello\n", 6), {"memory", "6 bytes", "not one record"});
}

TEST_F(Database, PacksLoadFromFileAndMemory) {
  const polymioRecord_t in = record();
  expect_ok(polymioWriteRecords(file_.c_str(), &in, 1));
  expect_ok(polymioLoadPack("cpu-test", file_.c_str()));
  std::ostringstream text;
  text << std::ifstream(file_).rdbuf();
  expect_ok(polymioLoadPackFromMemory("cpu-test", text.str().data(), text.str().size()));
}

}  // namespace
}  // namespace polymio::test
