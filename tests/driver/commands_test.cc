// The database and tuning commands as processes: output, files and exit status.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <miopen/polymio.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <tuple>
#include <vector>

#include "tests/driver/drive.h"

namespace {

namespace fs = std::filesystem;

const std::string kLine = "conv -n 1 -c 8 -H 9 -W 7 -k 6 -y 3 -x 3 -p 1 -q 1 ";

class Commands : public InFolder {
 protected:
  // Finds all three directions, so that the database has records.
  void learn() const { ASSERT_EQ(drive(kLine + "-V 0 -i 1").status, 0); }
  std::string database() const {
    for (const auto& entry : fs::directory_iterator(folder_ / "db")) {
      if (entry.path().string().ends_with(".pdb.txt")) return entry.path().string();
    }
    return "";
  }
};

TEST_F(Commands, WrongArgumentsAreStatus2AndSayWhatIsAllowed) {
  const struct {
    const char* arguments;
    const char* pattern;
  } cases[] = {
      {"db", "db: no sub-command, allowed: list merge diff prune verify import export doctor"},
      {"db frob", "db: unknown sub-command 'frob', allowed: list"},
      {"db list --frob", "db list: unknown flag '--frob', allowed: --json --kind --filter --help"},
      {"db list --kind nice", "--kind: bad value 'nice', allowed: predicted measured tuned trial"},
      {"db merge out", "1 of 2 arguments given; usage: MIOpenDriver db merge OUT IN"},
      {"db diff a b c", "'c' is one argument too many"},
      {"tune", "tune: no list, allowed: --from-list FILE"},
      {"tune --from-list x --budget 10", "--budget: bad value '10', allowed: .*90s, 10m, 2h"},
      {"tune --from-list x --jobs 0", "--jobs: bad value '0', allowed: an integer from 1"},
      {"tune --from-list x --share 2/2", "--share: bad value '2/2', allowed: I/N"},
      {"tune --from-list /", "'/' is a directory"},
      {"doctor --frob", "doctor: unknown flag '--frob'"},
      {"doctor conv --frob", "unknown flag '--frob'"},
      {"options conv -n 0", "-n --batchsize: bad value '0'"},
      {"options activ -n 1", "options: 'activ' is no convolution: .*conv convfp16"},
      {"doctor --json activfp16 -n 1", "doctor: 'activfp16' is no convolution: .*conv convfp16"},
  };
  for (const auto& item : cases) {
    const Outcome outcome = drive(item.arguments);
    EXPECT_EQ(outcome.status, 2) << item.arguments << '\n' << outcome.text;
    EXPECT_TRUE(has(outcome, item.pattern)) << item.arguments;
  }
}

TEST_F(Commands, EachHasHelp) {
  for (const char* arguments : {"db --help", "db list --help", "db merge -h", "db diff --help", "db prune --help",
                                "db verify --help", "db import --help", "db export --help", "tune --help",
                                "doctor --help", "options --help", "dataset --help", "demo --help", "report --help",
                                "devices --help", "warm --help", "conv --help", "activ --help", "biasfp16 -h"}) {
    const Outcome help = drive(arguments);
    EXPECT_EQ(help.status, 0) << arguments;
    EXPECT_TRUE(has(help, "^Usage: MIOpenDriver ")) << arguments;
  }
  EXPECT_TRUE(has(drive("--help"), "db \\| demo \\| devices \\| doctor \\| options \\| report \\| tune \\| warm"));
  EXPECT_TRUE(has(drive("--help"), "^  activ activfp16 activbfp16 activfp64: Runs an activation"));
}

TEST_F(Commands, ListExportMergeDiff) {
  EXPECT_TRUE(has(drive("db list"), "^0 records of 0 problems$"));
  learn();
  const Outcome list = drive("db list");
  EXPECT_EQ(list.status, 0);
  EXPECT_TRUE(has(list, "^conv -n 1 -c 8 .*-H 9 .*-F 1$"));
  EXPECT_TRUE(has(list, "^  measured +[0-9.]+ ms +.* ConvCpu\\w+Fwd v\\d+"));
  EXPECT_TRUE(has(list, "^\\d+ records of 3 problems$"));
  const Outcome json = drive("db list --json --kind measured --filter ConvCpuGemmWrw");
  EXPECT_EQ(count(json.text, "\n"), count(json.text, "\"solver\":\"ConvCpuGemmWrw\",")) << json.text;
  EXPECT_TRUE(has(json, "^\\{\"problem\":\"conv .*\"kind\":\"measured\""));

  EXPECT_EQ(drive("db export " + file("all.pack")).status, 0);
  EXPECT_EQ(drive("db export --measured-only " + file("measured.pack")).status, 0);
  EXPECT_EQ(drive("db diff " + file("all.pack") + " " + file("all.pack")).status, 0);
  const Outcome fewer = drive("db list " + file("measured.pack"));
  EXPECT_EQ(count(fewer.text, "\n  predicted"), 0u) << fewer.text;
  EXPECT_EQ(drive("db merge " + file("merged.pack") + " " + file("measured.pack") + " " + file("all.pack")).status, 0);
  const Outcome same = drive("db diff " + file("all.pack") + " " + file("merged.pack"));
  EXPECT_EQ(same.status, 0) << same.text;
  EXPECT_TRUE(has(same, "0 only in A, 0 only in B, 0 with another time, 0 with another winner"));
}

TEST_F(Commands, DiffSeesMissingSlowerAndOtherWinners) {
  const auto pack = [&](const char* name, const std::vector<std::tuple<const char*, const char*, double>>& entries) {
    std::vector<polymioRecord_t> records;
    for (const auto& [problem, solver, ms] : entries) {
      records.push_back(
          {sizeof(polymioRecord_t), problem, solver, 1, ms, 0, "", 2, 2, polymioRecordMeasured, "f", "1", 1});
    }
    ASSERT_EQ(polymioWriteRecords(file(name).c_str(), records.data(), records.size()), miopenStatusSuccess);
  };
  pack("a", {{"conv 1", "S", 1}, {"conv 2", "S", 1}, {"conv 2", "T", 1.05}, {"conv 3", "S", 1}, {"conv 4", "S", 1}});
  pack("b",
       {{"conv 1", "S", 1.05}, {"conv 2", "S", 1.08}, {"conv 2", "T", 1.0}, {"conv 3", "S", 1.5}, {"conv 5", "S", 1}});
  const Outcome outcome = drive("db diff " + file("a") + " " + file("b"));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(has(outcome, "^< conv 4$"));
  EXPECT_TRUE(has(outcome, "^> conv 5$"));
  EXPECT_TRUE(has(outcome, "^~ conv 3$"));
  EXPECT_TRUE(has(outcome, "^    S: measured 1 ms -> measured 1.5 ms \\(\\+50%\\)$"));
  EXPECT_TRUE(has(outcome, "^! conv 2$"));
  EXPECT_TRUE(has(outcome, "^    fastest: S 1 ms -> T 1 ms$"));
  EXPECT_TRUE(has(outcome, "^3 same, 1 only in A, 1 only in B, 1 with another time, 1 with another winner$"));
}

TEST_F(Commands, MergeTakesLaterInputsAndNewerVersions) {
  const auto pack = [&](const char* name, int version, double ms) {
    const polymioRecord_t records[] = {
        {sizeof(polymioRecord_t), "conv 1", "S", 1, ms, 0, "", 2, 2, polymioRecordMeasured, "f", "1", 1},
        {sizeof(polymioRecord_t), "conv 2", "S", version, ms, 0, "", 2, 2, polymioRecordMeasured, "f", "1", 1}};
    ASSERT_EQ(polymioWriteRecords(file(name).c_str(), records, 2), miopenStatusSuccess);
  };
  pack("a", 2, 1);
  pack("b", 1, 3);
  ASSERT_EQ(drive("db merge " + file("c") + " " + file("a") + " " + file("b")).status, 0);
  const Outcome merged = drive("db list --json " + file("c"));
  EXPECT_TRUE(has(merged, "conv 1\".*\"ms\":3.0,"));
  EXPECT_TRUE(has(merged, "conv 2\".*\"solver_version\":2,.*\"ms\":1.0,"));
}

TEST_F(Commands, PruneDropsKindsOldVersionsAndReplacedRecords) {
  std::vector<polymioRecord_t> records;
  const auto add = [&](const char* problem, int version, polymioRecordKind_t kind, const char* point) {
    records.push_back({sizeof(polymioRecord_t), problem, "S", version, 1, 0, point, 2, 2, kind, "f", "1", 1});
  };
  add("conv 1", 1, polymioRecordMeasured, "");
  add("conv 2", 2, polymioRecordMeasured, "");
  add("conv 2", 2, polymioRecordTrial, "1,2");
  add("conv 3", 2, polymioRecordFailed, "1,2");
  add("conv 4", 2, polymioRecordQuarantined, "");
  ASSERT_EQ(polymioWriteRecords(file("a").c_str(), records.data(), records.size()), miopenStatusSuccess);
  ASSERT_EQ(drive("db prune " + file("a") + " --older-versions --kind trial,failed --out " + file("b")).status, 0);
  const Outcome kept = drive("db list --json " + file("b"));
  EXPECT_EQ(count(kept.text, "\n"), 2u) << kept.text;
  EXPECT_TRUE(has(kept, "\"problem\":\"conv 2\".*\"kind\":\"measured\""));
  EXPECT_TRUE(has(kept, "\"problem\":\"conv 4\".*\"kind\":\"quarantined\""));
  EXPECT_EQ(count(drive("db list --json " + file("a")).text, "\n"), 5u) << "with --out the file itself stays";
}

TEST_F(Commands, VerifyNamesDamagedLinesAndPruneDropsThem) {
  learn();
  const std::string path = database();
  ASSERT_FALSE(path.empty());
  EXPECT_EQ(drive("db verify").status, 0);
  std::ifstream in(path);
  std::size_t lines = 0;
  for (std::string line; std::getline(in, line);) ++lines;
  std::ofstream(path, std::ios::app) << "foreign \x01\xff bytes\n";
  const Outcome verify = drive("db verify " + path);
  EXPECT_EQ(verify.status, 1);
  EXPECT_TRUE(has(verify, ":" + std::to_string(lines + 1) + ": damaged or foreign: foreign \\?\\? bytes$"));
  EXPECT_TRUE(has(verify, "1 damaged line$"));
  EXPECT_EQ(drive("doctor").status, 1);
  const Outcome before = drive("db list --json");
  const Outcome prune = drive("db prune " + path);
  EXPECT_EQ(prune.status, 0);
  EXPECT_TRUE(has(prune, "1 damaged line dropped"));
  EXPECT_EQ(drive("db verify").status, 0);
  // Nothing else was lost (standard error of the first one names the damage).
  std::string kept = before.text;
  if (kept.find(path) == 0) kept.erase(0, kept.find('\n') + 1);
  EXPECT_EQ(drive("db list --json").text, kept);
}

TEST_F(Commands, FilesThatCannotBeWrittenAreUnchanged) {
  learn();
  ASSERT_EQ(drive("db export " + file("a")).status, 0);
  const std::string before = read("a");
  fs::create_directory(file("folder"));
  EXPECT_EQ(drive("db export " + file("folder")).status, 1);
  EXPECT_EQ(drive("db merge " + file("a") + " " + file("missing")).status, 1);
  EXPECT_EQ(drive("db prune " + file("a") + " --kind measured --out /proc/none/b").status, 1);
  EXPECT_EQ(drive("db import " + write("list", "no record\n") + " --out " + file("a")).status, 1);
  EXPECT_EQ(read("a"), before);
  for (const auto& entry : fs::directory_iterator(folder_)) {
    EXPECT_EQ(entry.path().string().find(".tmp"), std::string::npos) << entry.path();
  }
}

TEST_F(Commands, FilesThatAreNotPacksReplaceNothing) {
  learn();
  ASSERT_EQ(drive("db export " + file("a")).status, 0);
  const std::string before = read("a");
  const std::string foreign = write("foreign", "root:x:0:0\nbin:x:1:1\n");
  for (const std::string& arguments :
       {"db merge " + file("a") + " " + foreign, "db merge " + file("a") + " " + file("a") + " " + foreign,
        "db prune " + foreign, "db prune " + foreign + " --out " + file("a")}) {
    const Outcome outcome = drive(arguments);
    EXPECT_EQ(outcome.status, 1) << arguments;
    EXPECT_TRUE(has(outcome, "foreign' is not a pack: none of its 2 lines is a record; nothing was written"))
        << arguments;
  }
  EXPECT_EQ(read("a"), before);
  EXPECT_EQ(read("foreign"), "root:x:0:0\nbin:x:1:1\n");
  EXPECT_EQ(drive("db merge " + file("b") + " " + write("empty", "") + " " + file("a")).status, 0);
}

TEST_F(Commands, ImportGivesAListThatRuns) {
  const std::string source = std::string(POLYMIO_CASES_DIR) + "/../driver/data/finddb_new.txt";
  const Outcome printed = drive("db import --verbose " + source);
  EXPECT_EQ(printed.status, 0);
  EXPECT_TRUE(has(printed, "finddb_new.txt:12: no '=' between key and results"));
  EXPECT_TRUE(has(printed, "9 problems from 10 records, 9 lines skipped"));
  const std::string small = "4-6-6-3x3-8-6-6-2-1x1-1x1-1x1-0-NCHW-FP32-B=SolverOne:0.1,0,algorithm\n";
  ASSERT_EQ(drive("db import " + write("small", small) + " --out " + file("list")).status, 0);
  EXPECT_EQ(read("list"), "conv -n 2 -c 8 -H 6 -W 6 -k 4 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -l 1 -j 1 -g 1 -m conv -F 2\n");
  EXPECT_EQ(drive("conv --from-list " + file("list")).status, 0);
}

TEST_F(Commands, DoctorSaysWhatIsThereAndWhyAProblemMissed) {
  const Outcome fresh = drive("doctor " + kLine + "-F 1");
  EXPECT_EQ(fresh.status, 0) << fresh.text;
  EXPECT_TRUE(has(fresh, "^device cpu \\("));
  EXPECT_TRUE(has(fresh, "miss: no record of this problem"));
  EXPECT_TRUE(has(fresh, "what to do: run find"));
  EXPECT_TRUE(has(fresh, "ConvCpuDepthwiseFwd.* refused: "));
  learn();
  const Outcome known = drive("doctor " + kLine);
  EXPECT_TRUE(has(known, "readable and writable; \\d+ records"));
  EXPECT_EQ(count(known.text, "\n  hit: "), 3u) << known.text;
  EXPECT_TRUE(has(known, "ConvCpuDepthwiseFwd.* refused: "));
  EXPECT_EQ(drive("db doctor " + kLine).text, known.text);
  EXPECT_TRUE(has(drive("doctor --json"), "^\\{\"device\":\"cpu\".*\"files\":\\["));
}

TEST_F(Commands, DoctorOnAFolderThatCannotBeWritten) {
  const std::string no_folder = write("file", "") + "/db";
  setenv("MIOPEN_USER_DB_PATH", no_folder.c_str(), 1);
  const Outcome outcome = drive("doctor");
  EXPECT_TRUE(has(outcome, "^          ! cannot read it: Not a directory"));
  EXPECT_TRUE(has(outcome, "what find learns is lost when the process ends"));
  EXPECT_EQ(drive("db export " + file("a")).status, 0);
  const Outcome tune = drive("tune --from-list " + write("list", kLine));
  EXPECT_EQ(tune.status, 1);
  EXPECT_TRUE(has(tune, "^results cannot be stored in your own database: .*; name a folder"));
  setenv("MIOPEN_DEBUG_DISABLE_FIND_DB", "1", 1);
  EXPECT_TRUE(has(drive("db list"), "there is no database of your own: MIOPEN_DEBUG_DISABLE_FIND_DB is set"));
  unsetenv("MIOPEN_DEBUG_DISABLE_FIND_DB");
}

TEST_F(Commands, TuneRefusesAFolderThatCannotBeMade) {
  setenv("MIOPEN_USER_DB_PATH", "/proc/x", 1);  // access rights permit root to write there, but writing fails
  const std::string list = write("list", kLine + "-F 1");
  for (const std::string& more : {std::string(), " --out " + file("pack"), " --jobs 2 --out " + file("pack")}) {
    const Outcome tune = drive("tune --from-list " + list + more);
    EXPECT_EQ(tune.status, 1) << more;
    EXPECT_TRUE(has(tune, "^results cannot be stored in your own database: /proc/x/.*; name a folder")) << more;
  }
  EXPECT_FALSE(fs::exists(file("pack")));
}

TEST_F(Commands, DoctorWithoutADatabaseOfOnesOwn) {
  const Outcome homeless = run("env -u MIOPEN_USER_DB_PATH -u XDG_CONFIG_HOME -u HOME " POLYMIO_DRIVER_PATH " doctor");
  EXPECT_TRUE(has(homeless, "^          ! no folder \\(no HOME"));
  EXPECT_TRUE(has(homeless, "there is no HOME .*: set MIOPEN_USER_DB_PATH to a folder"));
  EXPECT_FALSE(has(homeless, "not readable|0 records"));
  const Outcome off = run("MIOPEN_DEBUG_DISABLE_FIND_DB=1 " POLYMIO_DRIVER_PATH " doctor " + kLine + "-F 1");
  EXPECT_TRUE(has(off, "^  miss: MIOPEN_DEBUG_DISABLE_FIND_DB is set"));
  EXPECT_TRUE(has(off, "^  what to do: unset it"));
  EXPECT_FALSE(has(off, "not readable|0 records|name a folder"));
}

TEST_F(Commands, DoctorSaysThatAHitIsSearchedAllTheSame) {
  learn();
  const auto doctor = [](const std::string& variables) {
    return run(variables + " " POLYMIO_DRIVER_PATH " doctor " + kLine + "-F 1");
  };
  const std::string yet = "^  ! yet every find searches: ";
  EXPECT_FALSE(has(doctor(""), yet));
  EXPECT_FALSE(has(doctor("MIOPEN_FIND_MODE=HYBRID"), yet));
  EXPECT_TRUE(has(doctor("MIOPEN_FIND_MODE=1"), yet + "find mode NORMAL$"));
  EXPECT_TRUE(has(doctor("MIOPEN_FIND_ENFORCE=3"), yet + "MIOPEN_FIND_ENFORCE=SEARCH$"));
  const Outcome both = doctor("MIOPEN_FIND_MODE=NORMAL MIOPEN_FIND_ENFORCE=DB_UPDATE");
  EXPECT_TRUE(has(both, yet + "find mode NORMAL, MIOPEN_FIND_ENFORCE=DB_UPDATE$"));
  EXPECT_TRUE(has(both, "^  hit: "));
}

TEST_F(Commands, DoctorListsEveryVariableThatIsSet) {
  const Outcome outcome =
      run("MIOPEN_DEBUG_CONV_GEMM=0 POLYMIO_FIND_BUDGET_MS=7 MIOPEN_FIND_MODE=FAST "
          "NOT_POLYMIO_AT_ALL=1 " POLYMIO_DRIVER_PATH " doctor");
  for (const char* line : {"MIOPEN_DEBUG_CONV_GEMM=0", "POLYMIO_FIND_BUDGET_MS=7", "MIOPEN_FIND_MODE=FAST"}) {
    EXPECT_TRUE(has(outcome, std::string("^  ") + line + "$"));
  }
  EXPECT_TRUE(has(outcome, "^  MIOPEN_USER_DB_PATH=" + (folder_ / "db").string() + "$"));
  EXPECT_FALSE(has(outcome, "NOT_POLYMIO"));
}

TEST_F(Commands, OptionsListTheParetoSet) {
  const Outcome outcome = drive("options " + kLine + "-F 5");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(count(outcome.text, "   workspace         ms source"), 2u) << outcome.text;
  EXPECT_TRUE(has(outcome, "^ +0 +[0-9.e-]+ \\w+ +\\d+ ConvCpu\\w+Fwd$"));
  EXPECT_TRUE(has(drive("options " + kLine + "-F 1 --json"), "^\\{\"problem\":.*\"workspace_bytes\":0"));
}

TEST_F(Commands, TuneCompletesResumesAndWritesAPack) {
  const std::string list = write("list", "MIOpenDriver " + kLine + "-F 3\n" + kLine + "-F 1  # again\ncat -n 1\n");
  const Outcome first = drive("tune --from-list " + list + " --out " + file("pack"));
  EXPECT_EQ(first.status, 0) << first.text;
  EXPECT_TRUE(has(first, ": 1 line of primitives without solvers is skipped: there is nothing to choose"));
  EXPECT_TRUE(has(first, "^1x8x9x7 -> 6, 3x3 .* \\d+\\.\\d\\d +\\d+  ConvCpu\\w+Fwd$"));
  EXPECT_TRUE(has(first, "^2 of 2 problems tuned, 0 failed; [1-9]\\d* candidates in "));
  const Outcome pack = drive("db list " + file("pack"));
  EXPECT_TRUE(has(pack, "^  tuned +[0-9.]+ ms .* ConvCpu\\w+Fwd v\\d+ \\["));
  EXPECT_TRUE(has(pack, "of 2 problems$"));
  EXPECT_EQ(count(pack.text, "\n  trial"), 0u);
  const Outcome second = drive("tune --from-list " + list);
  EXPECT_EQ(second.status, 0);
  EXPECT_TRUE(has(second, "^2 of 2 problems tuned, 0 failed; 0 candidates in ")) << "nothing is left to do";
  EXPECT_TRUE(has(second, "^1x8x9x7 -> 6, 3x3 +- +[0-9.]+ +- +0  ConvCpu\\w+Fwd$")) << "nothing was measured";
  EXPECT_FALSE(has(second, " ms untuned, "));
  EXPECT_TRUE(has(drive("tune --again --from-list " + list), "; [1-9]\\d* candidates in "));
}

TEST_F(Commands, ListsLeaveActivationsOut) {
  const std::string activ = "MIOpenDriver activ -n 1 -c 2 -H 3 -W 4 -m 3 -F 1\n";
  const Outcome mixed = drive("conv --from-list " + write("list", activ + kLine + "-F 1\nactivfp16 -n 1\n"));
  EXPECT_EQ(mixed.status, 0) << mixed.text;
  EXPECT_TRUE(has(mixed, "list: 2 lines of other primitives are skipped: their own commands"));
  EXPECT_TRUE(has(mixed, "^1 problems, 1 runs, 0 failed"));
  EXPECT_TRUE(has(drive("conv --from-list " + write("activ", activ)), "activ' has no convolution"));
  EXPECT_TRUE(has(drive("tune --from-list " + write("cat", "cat -n 1\n")), "cat' has no problem of a primitive with"));
  EXPECT_TRUE(has(drive("conv --from-list " + write("list", "activity -n 1\n")), ":1: Incorrect BaseArg 'activity'"));
}

TEST_F(Commands, TuneTakesEveryPrimitiveWithSolvers) {
  const std::string lines =
      "pool -n 1 -c 2 -H 6 -W 6\nreduce -D 4,8 -R 0\nbnorm -n 2 -c 4 -H 3 -W 3 -m 1 -F 1 -b 1 --save 1\n"
      "CBAInfer -n 1 -c 2 -H 5 -W 5 -k 2 -J 0\n";
  const Outcome outcome = drive("tune --from-list " + write("list", lines) + " --out " + file("pack"));
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_TRUE(has(outcome, "^6 of 6 problems tuned, 0 failed; [1-9]\\d* candidates in "));
  EXPECT_TRUE(has(outcome, "^pool -n 1 .* -F 2 .* PoolCpu\\w+Bwd$"));
  EXPECT_TRUE(has(outcome, "^CBAInfer .* ConvCpu\\w+ \\+ BnormCpuInfer$"));
  const Outcome pack = drive("db list " + file("pack"));
  for (const char* line : {"pool -n 1 -c 2 .* -F 1", "pool -n 1 -c 2 .* -F 2", "reduce .*", "bnorm .* -F 1",
                           "bnorm .* -b 1", "bnorm .* -F 2 --activ 3", "conv .* --fuse b0"})
    EXPECT_TRUE(has(pack, "^" + std::string(line) + "$")) << pack.text;
}

TEST_F(Commands, TuneEndsWithTheBudget) {
  std::string lines;
  for (int n = 1; n <= 40; ++n) lines += "conv -n " + std::to_string(n) + " -c 64 -H 30 -W 30 -k 64 -p 1 -q 1 -V 0\n";
  const auto start = std::chrono::steady_clock::now();
  const Outcome outcome = drive("tune --budget 300ms --from-list " + write("list", lines));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(outcome.status, 3) << outcome.text;
  EXPECT_TRUE(has(outcome, "^\\d+ of 120 problems tuned"));
  EXPECT_LT(seconds.count(), 30) << "a budget of 0.3 s";
}

TEST_F(Commands, TuneIsCancelledByASignalAndResumes) {
  std::string lines;
  for (int n = 1; n <= 40; ++n) lines += "conv -n " + std::to_string(n) + " -c 64 -H 30 -W 30 -k 64 -p 1 -q 1\n";
  const std::string list = write("list", lines);
  for (const char* jobs : {"", " --jobs 2"}) {
    const Outcome outcome = run("timeout --foreground -s INT 2 " POLYMIO_DRIVER_PATH " tune --from-list " + list +
                                jobs + "; echo status $?");
    EXPECT_TRUE(has(outcome, "of 120 problems tuned")) << outcome.text;
    // timeout exits with 124 when it had to send the signal.
    EXPECT_TRUE(has(outcome, "^status 124$")) << outcome.text;
    EXPECT_EQ(drive("db verify").status, 0);
  }
}

TEST_F(Commands, JobsAndSharesCoverTheListOnce) {
  std::string lines;
  for (int c = 1; c <= 5; ++c) lines += "conv -n 1 -c " + std::to_string(c) + " -H 9 -W 9 -k 4 -p 1 -q 1 -F 1\n";
  const std::string list = write("list", lines);
  const Outcome jobs = drive("tune --jobs 2 --from-list " + list);
  EXPECT_EQ(jobs.status, 0) << jobs.text;
  EXPECT_TRUE(has(jobs, "^5 of 5 problems tuned"));
  EXPECT_EQ(count(jobs.text, "-> 4, 3x3"), 5u) << jobs.text;
  for (const char* rank : {"0", "1"}) {
    const std::string prefix = std::string("OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=") + rank + " ";
    EXPECT_EQ(run(prefix + POLYMIO_DRIVER_PATH " tune --from-list " + list + " --out " + file("pack")).status, 0);
  }
  ASSERT_EQ(drive("db merge " + file("all") + " " + file("pack.0") + " " + file("pack.1")).status, 0);
  EXPECT_TRUE(has(drive("db list " + file("all")), "of 5 problems$"));
  EXPECT_FALSE(has(drive("db list " + file("pack.0")), "of 5 problems$"));
}

TEST_F(Commands, TuneReportsWhatFails) {
  const std::string line = "conv -n 1000000 -c 8 -H 100000 -W 100000 -k 1 -y 1 -x 1 -F 1\n";  // exceeds the memory
  const Outcome outcome = drive("tune --from-list " + write("list", line + kLine + "-F 1\n"));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(has(outcome, "^FAILED conv -n 1000000 "));
  EXPECT_TRUE(has(outcome, "^1 of 2 problems tuned, 1 failed"));
}

TEST_F(Commands, FusedProblemsAreTunedByTheirLines) {
  const Outcome outcome = drive("tune --from-list " + write("list", kLine + "-F 1 --fuse b3\n"));
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_TRUE(has(drive("db list --kind tuned"), "^conv .* -F 1 --fuse b3$"));
  EXPECT_TRUE(has(drive("doctor " + kLine + "-F 1 --fuse b3"), "^  hit: "));
  EXPECT_EQ(drive("tune --from-list " + write("clamp", kLine + "-F 1 --fuse 10\n")).status, 0);
  EXPECT_TRUE(has(drive("db list --kind tuned"), "^conv .* -F 1 --fuse 10$"));
  EXPECT_TRUE(has(drive(kLine + "-F 1 --fuse b3"), "conv runs no fused problems"));
}

TEST_F(Commands, BudgetOfAFind) {
  const Outcome outcome = drive(kLine + "-F 1 --budget 5 --explain");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_TRUE(has(outcome, "^  find: "));
  EXPECT_TRUE(has(drive(kLine + "-F 1 --budget -1"), "budget"));
  EXPECT_TRUE(has(drive("conv --from-list " + folder_.string()), "is a directory"));
}

}  // namespace
