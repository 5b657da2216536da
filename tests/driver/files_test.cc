// Files of the driver: links and fifos at every path that it reads or writes, unbounded sizes, damaged reference
// results.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/driver/drive.h"

namespace {

namespace fs = std::filesystem;

const std::string kSmallLine = "conv -n 1 -c 2 -H 5 -W 5 -k 3 -y 3 -x 3 -F 1 -i 1 ";
const std::string kFdbLine = "4-6-6-3x3-8-6-6-2-1x1-1x1-1x1-0-NCHW-FP32-B=SolverOne:0.1,0,algorithm\n";

class DriverFiles : public InFolder {
 protected:
  void SetUp() override {
    InFolder::SetUp();
    write("victim", "mine");
    write("fdb", kFdbLine);
    write("list", kSmallLine + "\n");
    ASSERT_EQ(::mkfifo(file("fifo").c_str(), 0666), 0);
  }

  // The driver with a link to the victim at "<name>.<its process>.tmp", in the folder.
  Outcome with_planted_link(const std::string& name, const std::string& arguments) const {
    return run("cd " + folder_.string() + " && sh -c 'ln -s victim " + name + ".$$.tmp; exec " + POLYMIO_DRIVER_PATH +
               " " + arguments + "'");
  }
  // Stops a command that hangs.
  Outcome drive_for_a_while(const std::string& arguments) const {
    return run("timeout 60 " + std::string(POLYMIO_DRIVER_PATH) + " " + arguments);
  }
};

TEST_F(DriverFiles, TemporaryFilesDoNotFollowPlantedLinks) {
  const struct {
    const char* out;
    std::string arguments;
  } cases[] = {
      {"out.txt", "db import --out out.txt fdb"},
      {"r.html", kSmallLine + "--report r.html"},
      {"dump_fwd_in_x.bin", kSmallLine + "-o 1"},
  };
  for (const auto& item : cases) {
    const Outcome outcome = with_planted_link(item.out, item.arguments);
    EXPECT_EQ(outcome.status, 0) << item.arguments << outcome.text;
    EXPECT_EQ(read("victim"), "mine") << item.arguments;
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(file(item.out)))) << item.arguments;
    EXPECT_GT(fs::file_size(file(item.out)), 0u);
  }
  ASSERT_EQ(drive(kSmallLine).status, 0);
  ASSERT_EQ(drive("db export " + file("a.pack")).status, 0);
  EXPECT_EQ(with_planted_link("a.pack", "db prune a.pack").status, 0);
  EXPECT_EQ(read("victim"), "mine");
}

TEST_F(DriverFiles, WritingKeepsModesAndLinksOfThisUser) {
  write("real", "old");
  ASSERT_EQ(::chmod(file("real").c_str(), 0640), 0);
  fs::create_symlink("real", file("link"));
  EXPECT_EQ(drive("db import --out " + file("link") + " " + file("fdb")).status, 0);
  EXPECT_TRUE(fs::is_symlink(file("link")));
  EXPECT_EQ(count(read("real"), "\n"), 1u);
  EXPECT_EQ(fs::status(file("real")).permissions(), fs::perms(0640));
}

TEST_F(DriverFiles, LinksOfOtherUsersAreNotFollowed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be two users";
  fs::create_symlink("victim", file("link"));
  ASSERT_EQ(::lchown(file("link").c_str(), 65534, 65534), 0);
  const Outcome outcome = drive("db import --out " + file("link") + " " + file("fdb"));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(has(outcome, "cannot write '.*link': it is another user's symbolic link"));
  EXPECT_EQ(read("victim"), "mine");
}

TEST_F(DriverFiles, AppendsRefuseLinks) {
  for (const bool exists : {true, false}) {
    fs::create_symlink(exists ? "victim" : "nowhere", file("rows"));
    const Outcome outcome = drive("dataset --from-list " + file("list") + " --out " + file("rows"));
    EXPECT_EQ(outcome.status, 2);
    EXPECT_TRUE(has(outcome, "--out: cannot write '.*rows': it is a symbolic link, which is not followed here"));
    fs::remove(file("rows"));
  }
  EXPECT_EQ(read("victim"), "mine");
  EXPECT_FALSE(fs::exists(file("nowhere")));
}

TEST_F(DriverFiles, FifosAreRefusedByName) {
  const std::string fifo = file("fifo");
  for (const std::string& arguments :
       {"conv --from-list " + fifo, "tune --from-list " + fifo, kSmallLine + "-d " + fifo, "db import " + fifo,
        "db list " + fifo, "db verify " + fifo, "db merge " + file("out") + " " + fifo, "db prune " + fifo,
        "db import " + file("fdb") + " --out " + fifo, kSmallLine + "--report " + fifo,
        "dataset --from-list " + file("list") + " --out " + fifo}) {
    const Outcome outcome = drive_for_a_while(arguments);
    EXPECT_TRUE(outcome.status == 1 || outcome.status == 2) << arguments << ": " << outcome.status;
    EXPECT_TRUE(has(outcome, "fifo'?:? .*(it )?is not a regular file")) << arguments;
  }
  EXPECT_TRUE(fs::is_fifo(fifo));
}

TEST_F(DriverFiles, ARecordThatIsAFifoIsOneWarning) {
  const Outcome outcome =
      run("POLYMIO_RECORD=" + file("fifo") + " timeout 60 " + POLYMIO_DRIVER_PATH + " " + kSmallLine);
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_EQ(count(outcome.text, "it is not a regular file; problems are not recorded"), 1u) << outcome.text;
}

TEST_F(DriverFiles, SparseFilesAreNotRead) {
  fs::resize_file(write("sparse", ""), std::uintmax_t{64} << 30);
  for (const std::string arguments :
       {"db list ", "db verify ", "db import ", "db prune ", "conv --from-list ", "dataset --out rows --from-list "}) {
    const Outcome outcome = drive_for_a_while(arguments + file("sparse"));
    EXPECT_TRUE(outcome.status == 1 || outcome.status == 2) << arguments << outcome.text;
    EXPECT_TRUE(has(outcome, "larger than 1024 MiB|has 68719476736 bytes, allowed: 1073741824")) << arguments;
  }
  // The user's own database: the command continues without it.
  ASSERT_EQ(drive(kSmallLine).status, 0);
  for (const auto& entry : fs::directory_iterator(folder_ / "db")) fs::resize_file(entry, std::uintmax_t{64} << 30);
  const Outcome outcome = drive_for_a_while(kSmallLine);
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_EQ(count(outcome.text, "cannot be read: it is larger than 1024 MiB"), 1u) << outcome.text;
}

TEST_F(DriverFiles, LongLinesAreRefused) {
  write("long", kSmallLine + std::string(70000, ' ') + "\n");
  EXPECT_TRUE(has(drive("conv --from-list " + file("long")), "long:1: a line of 70\\d+ bytes, allowed: 65536"));
  const Outcome import = drive("db import --verbose " + write("long_fdb", std::string(70000, 'x') + "\n" + kFdbLine));
  EXPECT_EQ(import.status, 0);
  EXPECT_TRUE(has(import, "long_fdb:1: 70000 bytes, allowed: 65536"));
}

TEST_F(DriverFiles, DamagedReferenceResultsAreComputedAgain) {
  const std::string arguments = kSmallLine + "-C " + file("cache");
  ASSERT_EQ(drive(arguments).status, 0);
  std::string name;
  for (const auto& entry : fs::directory_iterator(file("cache"))) name = "cache/" + entry.path().filename().string();
  const std::string whole = read(name);
  ASSERT_EQ(whole.size(), 2u * 27 * 8 + 8);
  for (const std::size_t at : {std::size_t{7}, whole.size() / 2 + 7, whole.size() - 1}) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x40);
    write(name, changed);
    const Outcome outcome = drive(arguments);
    EXPECT_EQ(outcome.status, 0) << "byte " << at << outcome.text;
    EXPECT_EQ(read(name), whole) << "byte " << at;
  }
  write(name, whole.substr(0, whole.size() - 8));  // of an earlier version
  EXPECT_EQ(drive(arguments).status, 0);
  EXPECT_EQ(read(name), whole);
}

}  // namespace
