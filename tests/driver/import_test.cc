// MIOpen's FindDb text as a list of problems: both grammars, every part of a key, refused keys.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "driver/db/import.h"

namespace polymio::driver {
namespace {

ImportedList import_file(const std::string& name) {
  std::ifstream file(std::string(POLYMIO_CASES_DIR) + "/../driver/data/" + name);
  EXPECT_TRUE(file.good()) << name;
  return import_find_db(file);
}

TEST(Import, NewGrammar) {
  const ImportedList list = import_file("finddb_new.txt");
  EXPECT_EQ(list.records, 10u);
  const std::vector<std::string> wanted = {
      // For the backward directions the first sizes are those of the output gradient.
      "conv -n 16 -c 64 -H 56 -W 56 -k 128 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -l 1 -j 1 -g 1 -m conv -F 1",
      "conv -n 16 -c 64 -H 56 -W 56 -k 128 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -l 1 -j 1 -g 1 -m conv -F 2",
      "conv -n 16 -c 64 -H 56 -W 56 -k 128 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -l 1 -j 1 -g 1 -m conv -F 4",
      "convfp16 -n 8 -c 256 -H 14 -W 14 -k 256 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -l 1 -j 1 -g 32 -m conv -I NHWC -f NHWC "
      "-O NHWC -F 1",
      "convbfp16 --spatial_dim 3 -n 2 -c 32 --in_d 7 -H 30 -W 30 -k 16 --fil_d 3 -y 3 -x 3 --pad_d 1 -p 1 -q 1 "
      "--conv_stride_d 1 -u 1 -v 1 --dilation_d 1 -l 1 -j 1 -g 1 -m conv -F 1",
      "convfp16 --spatial_dim 3 -n 2 -c 8 --in_d 9 -H 18 -W 19 -k 16 --fil_d 1 -y 3 -x 3 --pad_d 0 -p 1 -q 0 "
      "--conv_stride_d 2 -u 2 -v 2 --dilation_d 1 -l 1 -j 1 -g 4 -m conv -O NDHWC -F 2",
      "convint8 -n 1 -c 1280 -H 8 -W 8 -k 448 -y 1 -x 1 -p 0 -q 0 -u 1 -v 1 -l 1 -j 1 -g 1 -m conv -F 1",
      "convint8 -n 1 -c 64 -H 8 -W 8 -k 32 -y 1 -x 1 -p 0 -q 0 -u 1 -v 1 -l 1 -j 1 -g 1 -m conv --out_type float -F 1",
      "conv -n 1 -c 32 -H 8 -W 8 -k 64 -y 1 -x 1 -p 0 -q 0 -u 1 -v 1 -l 1 -j 1 -g 1 -m conv -U fp8 -T bfp8 -F 4",
  };
  ASSERT_EQ(list.problems.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(parse_line(list.problems[i]), parse_line(wanted[i])) << i;
}

TEST(Import, SkippedLinesSayWhy) {
  const ImportedList list = import_file("finddb_new.txt");
  const std::pair<std::size_t, const char*> wanted[] = {
      {12, "no '='"},
      {13, "no result"},
      {14, "do not give output 29"},
      {15, "layout 'CHWN'"},
      {16, "data type 'FP99'"},
      {17, "direction 'X'"},
      {18, "not data type and direction"},
      {19, "--group_count"},
      {20, "'99999999999' is not an integer"},
  };
  ASSERT_EQ(list.skipped.size(), std::size(wanted));
  for (std::size_t i = 0; i < std::size(wanted); ++i) {
    EXPECT_EQ(list.skipped[i].line, wanted[i].first);
    EXPECT_NE(list.skipped[i].reason.find(wanted[i].second), std::string::npos) << list.skipped[i].reason;
  }
}

TEST(Import, OldGrammar) {
  const ImportedList list = import_file("finddb_old.txt");
  ASSERT_EQ(list.problems.size(), 2u);
  EXPECT_EQ(list.problems[0],
            "conv -n 32 -c 64 -H 56 -W 56 -k 256 -y 1 -x 1 -p 0 -q 0 -u 1 -v 1 -l 1 -j 1 -g 1 -m conv -F 1");
  EXPECT_EQ(list.problems[1],
            "conv -n 32 -c 64 -H 56 -W 56 -k 256 -y 1 -x 1 -p 0 -q 0 -u 1 -v 1 -l 1 -j 1 -g 1 -m conv -F 2");
  ASSERT_EQ(list.skipped.size(), 1u);
  EXPECT_EQ(list.skipped[0].line, 3u);
}

// Any truncated line is either skipped or, when the truncation leaves a whole record, gives the same problem.
TEST(Import, CutLinesNeverGiveAnotherProblem) {
  const std::string line = "64-56-56-3x3-128-28-28-16-1x1-2x2-1x1-0-NCHW-FP32-F_g16=SolverOne:0.0651,40,algorithm";
  std::istringstream whole(line);
  const std::string problem = import_find_db(whole).problems.at(0);
  for (std::size_t cut = 1; cut < line.size(); ++cut) {
    std::istringstream text(line.substr(0, cut));
    const ImportedList list = import_find_db(text);
    EXPECT_TRUE(list.records == 0 || cut > line.find(":0")) << cut;
    for (const std::string& other : list.problems) EXPECT_EQ(other, problem) << cut;
  }
}

}  // namespace
}  // namespace polymio::driver
