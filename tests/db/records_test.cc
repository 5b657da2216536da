// Records of every kind: their text, replacement, families, calibrations, packs, layers.
// SPDX-License-Identifier: MIT
#include <cfloat>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "scratch.h"

namespace polymio {
namespace {

namespace fs = std::filesystem;

class RecordsTest : public ScratchTest {
 protected:
  static FindRecord of_kind(RecordKind kind, FindRecord r) {
    r.kind = kind;
    return r;
  }
  static FindRecord trial(std::string point, double time_us, RecordKind kind = RecordKind::kTrial) {
    FindRecord r = of_kind(kind, record("A", time_us));
    r.tune_point = std::move(point);
    return r;
  }
  static FindRecord quarantine(std::string solver, int version, std::string family = "conv fwd") {
    FindRecord r = of_kind(RecordKind::kQuarantined, record(std::move(solver), 0));
    r.solver_version = version;
    r.family = std::move(family);
    return r;
  }
  static FindRecord erased(std::string solver) { return of_kind(RecordKind::kErased, record(std::move(solver), 0)); }

  /// The text of a pack.
  std::string pack_of(const Records& records) const {
    write_pack(folder_ / "pack", records);
    return read(folder_ / "pack");
  }
  std::size_t lines_of_file() const {
    std::size_t lines = 0;
    read_pack(file(), [&](std::size_t, std::string_view, const FindRecord*) { return ++lines > 0; });
    return lines;
  }
  /// Expects equal answers before and after a compaction, and from a new object.
  template <class Ask>
  void expect_always(const Records& expected, Ask&& ask) {
    FindDb db = open();
    EXPECT_EQ(ask(db), expected);
    EXPECT_TRUE(db.compact());
    EXPECT_EQ(ask(db), expected) << "after the compaction";
    FindDb fresh = open();
    EXPECT_EQ(ask(fresh), expected) << "in a new object";
  }
  void expect_lookup(const Records& expected) {
    expect_always(expected, [](FindDb& db) { return db.lookup("k"); });
  }
  void expect_trials(const Records& expected) {
    expect_always(expected, [](FindDb& db) { return db.trials("k", "A"); });
  }
};

TEST_F(RecordsTest, TextRoundTripsAnything) {
  std::string every_byte;
  for (int c = 1; c < 256; ++c) every_byte += static_cast<char>(c);
  every_byte += '\0';
  for (const std::string& text : {std::string("conv n1c3h224"), every_byte, std::string("-"), std::string("%"),
                                  std::string("a%20b"), std::string(" "), std::string("\n\n"), std::string("@a")}) {
    for (const double number : {0.0, 0.1, 1.0 / 3, 123456789.123456789, DBL_MIN, DBL_MAX, 5e-324}) {
      for (int kind = 0; kind <= 6; ++kind) {
        const FindRecord r{
            text, "Conv" + text,       -3,    number, SIZE_MAX, "", 128, 0, static_cast<RecordKind>(kind),
            text, {0, -1.5f, 22.585f}, number};
        const std::string line = encode(r);
        for (const unsigned char c : line) EXPECT_TRUE(c >= 0x20 && c < 0x7f) << line;
        const auto back = decode(line);
        ASSERT_TRUE(back) << line;
        EXPECT_EQ(*back, r) << line;
      }
    }
  }
  FindRecord bare;
  bare.key = bare.solver = "S";
  EXPECT_EQ(decode(encode(bare)), bare) << "family and sizes unknown";
}

TEST_F(RecordsTest, LinesOfEarlierWritersAreRead) {
  FindRecord r{"conv -n 1", "S", 3, 1.5, 64, "t", 4, 2, RecordKind::kMeasured, "", {}, 0};
  EXPECT_EQ(decode("conv%20-n%201 S 3 1.5 64 t 4 2 1"), r);
  r.kind = RecordKind::kPredicted;
  EXPECT_EQ(decode("conv%20-n%201 S 3 1.5 64 t 4 2 0"), r);
}

TEST_F(RecordsTest, ForeignTextIsRefused) {
  const std::string good = encode(record("S", 1.5));
  ASSERT_TRUE(decode(good));
  EXPECT_TRUE(decode(good + " future fields")) << "later fields are for later readers";
  for (const char* bad : {"",
                          " ",
                          "k",
                          "k S 1 1.5 64 t 4 2",
                          "k S 1 x 64 t 4 2 1",
                          "k S 1 1.5 -64 t 4 2 1",
                          "k S 1 1.5 64 t 4 2 7",
                          "k S 1.5 1.5 64 t 4 2 1",
                          "k%2 S 1 1.5 64 t 4 2 1",
                          "k%zz S 1 1.5 64 t 4 2 1",
                          "k S 1 nan 64 t 4 2 1",
                          "k S 1 inf 64 t 4 2 1",
                          "k S 1 -5 64 t 4 2 1",
                          "k  S 1 1.5 64 t 4 2 1",
                          "k S 99999999999 1.5 64 t 4 2 1",
                          "k S 1 1.5 64 t 4 2 1 f",
                          "k S 1 1.5 64 t 4 2 1 f 1,2",
                          "k S 1 1.5 64 t 4 2 1 f 1,,2 5",
                          "k S 1 1.5 64 t 4 2 1 f 1,x 5",
                          "k S 1 1.5 64 t 4 2 1 f 1, 5",
                          "k S 1 1.5 64 t 4 2 1 f 1 nan",
                          "@k S 1 1.5 64 t 4 2 1"})
    EXPECT_FALSE(decode(bad)) << bad;
}

TEST_F(RecordsTest, WhatNeverRanHasNoTime) {
  FindRecord failed = trial("p", std::numeric_limits<double>::infinity(), RecordKind::kFailed);
  store(open(), {failed});
  failed.time_us = 0;
  expect_trials({failed});
}

TEST_F(RecordsTest, ErasureAppliesToEarlierRecords) {
  FindRecord one_thread = record("A", 8);
  one_thread.thread_cap = 1;
  store(open(), {record("A", 1), one_thread, record("B", 2), record("A", 3, "other")});
  store(open(), {erased("A")});
  expect_lookup({record("B", 2)});
  EXPECT_EQ(open().lookup("other"), Records{record("A", 3, "other")});
  EXPECT_EQ(lines_of_file(), 2u) << "an erasure with nothing to erase is dropped";
  store(open(), {erased("B"), record("A", 9)});
  expect_lookup({record("A", 9)});
}

TEST_F(RecordsTest, PredictionAfterAnErasureIsSeen) {
  const FindRecord predicted = of_kind(RecordKind::kPredicted, record("A", 5));
  store(open(), {record("A", 1), erased("A"), predicted});
  expect_lookup({predicted});
}

TEST_F(RecordsTest, ErasureDoesNotTouchPacks) {
  store(FindDb("dev-1", system_, std::nullopt), {record("A", 10)});
  store(open(), {record("A", 1), erased("A")});
  expect_lookup({record("A", 10)});
  EXPECT_TRUE(open().lookup_user("k").empty());
}

TEST_F(RecordsTest, TheNewestTrialPerPointCounts) {
  FindRecord other_version = trial("p1", 7), other_cap = trial("p1", 8), other_solver = trial("p1", 9);
  other_version.solver_version = 2;
  other_cap.thread_cap = 1;
  other_solver.solver = "B";
  const FindRecord failed = trial("p2", 0, RecordKind::kFailed);
  store(open(), {trial("p1", 5), trial("p2", 6), other_version, other_cap, other_solver, trial("p1", 4), failed});
  expect_trials({other_version, other_cap, trial("p1", 4), failed});
  expect_lookup({});
}

TEST_F(RecordsTest, CompletedSearchEndsItsTrials) {
  FindRecord other_version = trial("p1", 7);
  other_version.solver_version = 2;
  const FindRecord tuned = of_kind(RecordKind::kTuned, record("A", 3));
  store(open(), {trial("p1", 5), other_version, trial("p2", 6), tuned});
  expect_trials({other_version});
  EXPECT_EQ(lines_of_file(), 2u);
  expect_lookup({tuned});
  store(open(), {trial("p3", 2)});
  expect_trials({other_version, trial("p3", 2)});
}

TEST_F(RecordsTest, QuarantineIsOfAFamily) {
  const FindRecord other = quarantine("A", 1, "pool");
  store(open(), {quarantine("A", 1), quarantine("B", 1), other, quarantine("A", 2), record("C", 1)});
  FindRecord again = quarantine("A", 1);
  again.key = "another problem";
  store(open(), {again});
  expect_always({quarantine("B", 1), quarantine("A", 2), again}, [](FindDb& db) { return db.quarantined("conv fwd"); });
  EXPECT_EQ(open().quarantined("pool"), Records{other});
  EXPECT_TRUE(open().quarantined("unknown").empty());
  expect_lookup({record("C", 1)});
}

TEST_F(RecordsTest, RelativesAreMeasuredFindRecordsOfTheFamily) {
  FindRecord stranger = record("A", 5, "k5");
  stranger.family = "pool";
  const FindRecord tuned = of_kind(RecordKind::kTuned, record("A", 3, "k3"));
  store(open(), {record("A", 1, "k1"), record("A", 2, "k2"), of_kind(RecordKind::kPredicted, record("A", 1, "k4")),
                 trial("p", 1), quarantine("A", 1), stranger, tuned, record("A", 9, "k1"), erased("A")});
  FindRecord erase_without_family = of_kind(RecordKind::kErased, record("A", 0, "k2"));
  erase_without_family.family = "";
  store(open(), {erase_without_family});
  const auto ask = [](FindDb& db) { return db.relatives("conv fwd"); };
  expect_always({tuned, record("A", 9, "k1")}, ask);
  FindDb db = open();
  EXPECT_EQ(ask(db).size(), 2u);
  store(open(), {record("B", 4, "k6")});
  EXPECT_EQ(ask(db).size(), 3u) << "what another process stored";
  EXPECT_EQ(db.relatives("pool"), Records{stranger});
}

TEST_F(RecordsTest, RelativesOfPacksAreMerged) {
  store(FindDb("dev-1", system_, std::nullopt), {record("A", 10, "k1"), record("A", 20, "k2")});
  store(open(), {record("A", 1, "k1")});
  EXPECT_EQ(open().relatives("conv fwd"), (Records{record("A", 20, "k2"), record("A", 1, "k1")}));
}

// A long search must not hide earlier measurements.
TEST_F(RecordsTest, RelativesAreTheNewestFindRecords) {
  Records all = {record("A", 1, "oldest"), record("B", 1, "erased")};
  for (int i = 0; i < 2047; ++i) all.push_back(record("A", i, std::to_string(i)));
  FindRecord erase = erased("B");
  erase.key = "erased";
  all.push_back(erase);
  for (int i = 0; i < 3000; ++i) all.push_back(trial(std::to_string(i), i));
  store(open(), all);
  EXPECT_EQ(open().relatives("conv fwd"), Records(all.begin() + 2, all.begin() + 2049));
  store(open(), {record("A", 5, "newest")});
  const Records found = open().relatives("conv fwd");
  EXPECT_EQ(found.size(), 2048u);
  EXPECT_EQ(found.back().key, "newest");
}

TEST_F(RecordsTest, TheNewestCalibrationPerUnitsAndThreadsCounts) {
  FindDb db = open();
  EXPECT_FALSE(db.calibration(4, 2));
  db.store(Calibration{4, 2, 100.5, 20});
  db.store(Calibration{4, 1, 50, 10});
  db.store(Calibration{4, 2, 101.25, 21});
  for (int compacted = 0; compacted < 2; ++compacted) {
    const auto c = open().calibration(4, 2);
    ASSERT_TRUE(c);
    EXPECT_EQ(c->fp32_gflops, 101.25);
    EXPECT_EQ(c->bandwidth_gbs, 21);
    EXPECT_EQ(open().calibration(4, 1)->threads, 1);
    EXPECT_FALSE(open().calibration(8, 2));
    EXPECT_TRUE(db.compact());
  }
  EXPECT_EQ(db.layers().at(0).bad_lines, 0u);
  EXPECT_EQ(lines_of_file(), 0u) << "calibrations are no records";
  FindDb other("dev-1", std::nullopt, user_);
  EXPECT_FALSE(other.calibration(4, 2)) << "a shipped pack says nothing about this machine";
}

TEST_F(RecordsTest, ValidLinesOfLaterVersionsAreKept) {
  store(open(), {record("A", 1)});
  Journal(file(), "").append(std::vector<std::string>{"@future things", "completely different"});
  EXPECT_TRUE(open().compact());
  const std::string text = read(file());
  EXPECT_NE(text.find(" @future things\n"), std::string::npos);
  EXPECT_NE(text.find(" completely different\n"), std::string::npos);
  expect_lookup({record("A", 1)});
}

TEST_F(RecordsTest, DeadTrialsAreReasonEnoughToCompact) {
  FindDb db = open();
  for (int search = 0; search < 40; ++search) {
    Records trials;
    for (int i = 0; i < 100; ++i) {
      trials.push_back(trial(std::to_string(i), i));
      trials.back().key = std::to_string(search);
    }
    trials.push_back(of_kind(RecordKind::kTuned, record("A", 1, std::to_string(search))));
    db.store(trials);
  }
  EXPECT_LT(lines_of_file(), 2200u);
  EXPECT_EQ(db.lookup("0").size(), 1u);
  EXPECT_EQ(db.relatives("conv fwd").size(), 40u);
}

TEST_F(RecordsTest, LoadedPacksRankBetweenUserAndSystem) {
  FindRecord newer = record("D", 40);
  newer.solver_version = 2;
  store(FindDb("dev-1", system_, std::nullopt), {record("A", 100), record("B", 200), record("C", 300)});
  store(open(), {record("A", 1), record("D", 4), of_kind(RecordKind::kPredicted, record("E", 5))});
  FindDb db = open();
  db.load_pack(std::string_view(pack_of({record("A", 10), record("B", 20), newer, record("E", 50)})));
  EXPECT_EQ(db.lookup("k"), (Records{record("A", 1), record("B", 20), record("C", 300), newer, record("E", 50)}))
      << "a prediction must not hide what a pack has measured";
  EXPECT_EQ(db.lookup_user("k"), (Records{record("A", 1), record("B", 20), newer, record("E", 50)}));
  EXPECT_EQ(db.lookup_own("k"),
            (Records{record("A", 1), record("D", 4), of_kind(RecordKind::kPredicted, record("E", 5))}));
  db.load_pack(std::string_view(pack_of({record("B", 21)})));
  EXPECT_EQ(db.lookup("k").at(1), record("B", 21)) << "the pack loaded last goes first";
  EXPECT_EQ(open().lookup("k").at(1), record("B", 200)) << "a pack is loaded into one object";
  const FindDb::Layer in_memory = db.layers().at(1);
  EXPECT_EQ(in_memory.name, "pack");
  EXPECT_EQ(in_memory.path, "");
  EXPECT_EQ(in_memory.records, 1u);
}

TEST_F(RecordsTest, PackFileIsReadOnceAndAgain) {
  FindDb db = open();
  pack_of({record("A", 10)});
  db.load_pack(folder_ / "pack");
  pack_of({record("A", 11)});
  EXPECT_EQ(db.lookup("k"), Records{record("A", 10)});
  db.load_pack(folder_ / "pack");
  EXPECT_EQ(db.lookup("k"), Records{record("A", 11)});
  EXPECT_EQ(db.layers().size(), 3u) << "user, one pack, system";
}

TEST_F(RecordsTest, FilesThatAreNotPacksAreRefused) {
  FindDb db = open();
  append(folder_ / "text", "hello\nworld\n");
  fs::create_directory(folder_ / "folder");
  for (const char* name : {"missing", "text", "folder"}) {
    try {
      db.load_pack(folder_ / name);
      ADD_FAILURE() << name;
    } catch (const Error& e) {
      EXPECT_EQ(e.status, Status::kBadParm);
      EXPECT_NE(std::string(e.what()).find((folder_ / name).string()), std::string::npos) << e.what();
    }
  }
  EXPECT_THROW(db.load_pack(std::string_view()), Error);
  const auto nothing = [](std::size_t, std::string_view, const FindRecord*) { return true; };
  EXPECT_THROW(read_pack(folder_ / "missing", nothing), Error);
}

TEST_F(RecordsTest, WrittenPacksAreMergedAndReadLineByLine) {
  pack_of({record("A", 1), record("B", 2), record("A", 3), erased("B")});
  append(folder_ / "pack", "\n# a comment\ndamaged\n");
  std::vector<std::pair<std::size_t, bool>> lines;
  read_pack(folder_ / "pack", [&](std::size_t line, std::string_view text, const FindRecord* r) {
    lines.emplace_back(line, r != nullptr);
    EXPECT_FALSE(text.empty());
    return !r || *r == record("A", 3);
  });
  EXPECT_EQ(lines, (std::vector<std::pair<std::size_t, bool>>{{3, true}, {6, false}}));
  int seen = 0;
  read_pack(folder_ / "pack", [&](std::size_t, std::string_view, const FindRecord*) { return ++seen < 1; });
  EXPECT_EQ(seen, 1) << "false ends the reading";
}

TEST_F(RecordsTest, WritingAPackKeepsModeAndLinks) {
  pack_of({record("A", 1)});
  fs::permissions(folder_ / "pack", fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read);
  fs::create_symlink(folder_ / "pack", folder_ / "link");
  write_pack(folder_ / "link", Records{record("A", 2)});
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(fs::status(folder_ / "pack").permissions(),
            fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read);
  FindDb db = open();
  db.load_pack(folder_ / "pack");
  EXPECT_EQ(db.lookup("k"), Records{record("A", 2)});
}

TEST_F(RecordsTest, LayersReportTheirState) {
  const auto none = FindDb("dev-1", std::nullopt, std::nullopt).layers();
  ASSERT_EQ(none.size(), 1u);
  EXPECT_NE(none[0].problem, "");
  auto layers = open().layers();
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(layers[0].name, "user");
  EXPECT_EQ(layers[0].path, file().string());
  EXPECT_FALSE(layers[0].readable) << "it does not exist yet";
  EXPECT_TRUE(layers[0].writable);
  EXPECT_EQ(layers[0].problem, "");
  EXPECT_FALSE(fs::exists(user_)) << "asking must not make it";
  EXPECT_EQ(layers[1].name, "system");
  EXPECT_FALSE(layers[1].readable || layers[1].writable);
  store(open(), {record("A", 1), trial("p", 2)});
  append(file(), "damaged\n");
  const auto user = open().layers().at(0);
  EXPECT_TRUE(user.readable && user.writable);
  EXPECT_EQ(user.records, 2u);
  EXPECT_EQ(user.bad_lines, 1u);
  EXPECT_EQ(user.bytes, fs::file_size(file()));
  EXPECT_EQ(user.problem, "");
}

}  // namespace
}  // namespace polymio
