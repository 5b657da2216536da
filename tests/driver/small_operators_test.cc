// Optimizers, concatenation and the gradient of indexing through the driver.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <sstream>

#include "tests/driver/drive.h"

namespace polymio::test {
namespace {

TEST(Driver, SmallOperatorsVerify) {
  for (const std::string line :
       {"adam -n 3 -c 5 -H 4 -W 6 --amsgrad 1", "adamfp64 -n 3 -c 5 -H 4 -W 6 -I NHWC --in_place 1",
        "adamwbfp16 -n 3 -c 5 -H 4 -W 6 --weight_decay 0.1", "ampadam -n 2 --found_inf 1", "ampadamw -n 2 --step 7",
        "transformersadamwfp16 -n 2 --step_tensor 1", "transformersampadamw -n 2 --scale 4",
        "cat -1 2x3x4 -2 2x5x4 -d -2", "catint8 -1 7@3 -2 9 -d 0 --output_strides 2", "getitem -I 9x6 -N 4x5 -D 1",
        "cat -1 2x3x4 -d 1", "getitemfp16 -I 9x6 -N 50 -D 0,1 --slices 0,1,9,2 --offset 6 --outside 1",
        "tensorop -D 2,3,4 -b 1,3,1 --beta 0.5", "tensoropfp16 -D 2,3,4 -O max --alpha2 -2 --in_strides 12,1,3",
        "tensoropint8 -D 5,7 -O scale --alpha1 3 --out_strides 9,1", "tensoropint32 -D 5,7 -O set --alpha1 -4",
        "tensoropfp64 -D 2,3,4 -O transform --alpha1 0.1 --out_strides 12,1,3", "lstm -n 4 -k 3 -H 8 -W 8 -c 1"}) {
    const Outcome outcome = drive(line + " -i 2 -t 1");
    EXPECT_EQ(outcome.status, 0) << line << '\n' << outcome.text;
    EXPECT_EQ(count(outcome.text, "Verifies OK"), 1u) << outcome.text;
  }
}

/// The last command that a run of `line` logs, without the driver's name.
std::string logged(const std::string& line) {
  const Outcome outcome = run("MIOPEN_ENABLE_LOGGING_CMD=1 " POLYMIO_DRIVER_PATH " " + line + " -i 1");
  EXPECT_EQ(outcome.status, 0) << line << '\n' << outcome.text;
  const std::string name = "MIOpen(command): MIOpenDriver ";
  const std::size_t at = outcome.text.rfind(name);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + name.size();
  return outcome.text.substr(begin, outcome.text.find('\n', begin) - begin);
}

// The command has what the call depends on, and makes the same call.
TEST(Driver, LoggedCommandsRepeatTheCalls) {
  struct Case {
    std::string line, parts;  // parts: separated by spaces, some of what the logged line has
  };
  for (const auto& [line, parts] : {
           Case{"cat -1 2x3x4 -2 2x5x4@40x8x2 -d -2 -F 0", "cat -d 1 -1 2x3x4 -2 2x5x4@40x8x2"},
           {"catint8 -1 7@3 -2 9 -d 0 --output_strides 2", "catint8 -1 7@3 -2 9 --output_strides 2"},
           {"getitemfp16 -I 9x6 -N 50 -D 0,1 --slices 0,1,9,2 --offset 6 -F 0", "getitemfp16 9x6 50 0,1 0,1,9,2 -f 6"},
           {"biasfp16 -n 2 -c 3 -H 4 -W 5 -I NHWC", "biasfp16 -n 2 -c 3 -H 4 -W 5 -I NHWC -F 2"},
           {"bias -_ 1 -n 2 -c 3 -W 5 --in_strides 30,1,4 -F 1", "bias -_ 1 -n 2 -c 3 -W 5 --in_strides 30,1,4 -F 1"},
           {"kthvaluebfp16 -D 5x6x7 -k 3 -d 1 -K 1", "kthvaluebfp16 -D 5,6,7 -k 3 -d 1 -K 1"},
           {"reduce -D 4x5x6 -R 1 -O 3 -I 1 -A 2 -B 0", "reduce -D 4,5,6 -R 1 -O 3 -I 1 -A 2"},
           {"reducecalculation -D 4x5x6 -R 1", "reducecalculation -D 4,5,6 -R 1"},
           {"reduceextremefp64 -D 4x5x6 -R 0 -O 1", "reduceextremefp64 -D 4,5,6 -R 0 -O 1"},
           {"tensoropfp16 -D 2x3x4 -b 1,3,1 -O mul --alpha1 2 --beta 0.5 --in_strides 12,1,3",
            "tensoropfp16 -D 2,3,4 --in_strides 12,1,3 -O mul --b_lengths 1,3,1 --alpha1 2 --beta 0.5"},
           {"tensorop -D 5,7 -O max --b_strides 8,1", "tensorop -D 5,7 -O max --b_strides 8,1"},
           {"tensoropint8 -D 5,7 -O set --alpha1 3 --out_strides 9,1", "tensoropint8 -O set --alpha1 3 9,1"},
           {"tensorop -D 5,7 -O scale --alpha1 3", "tensorop -D 5,7 -O scale --alpha1 3"},
           {"tensorop -D 5,7 -O transform --out_strides 1,5", "tensorop -D 5,7 -O transform --out_strides 1,5"},
           {"prelu -D 4,3,5 -P 3 --in_strides 15,1,3 -F 0", "prelu -D 4,3,5 -P 3 -F 2 --in_strides 15,1,3"},
           {"rope -X 4,6,8 -F 2", "rope -X 4,6,8 --rotary 6,8 -F 2"},
           {"softmarginlossfp16 -D 4,25,3 -R mean -F 1", "softmarginlossfp16 -D 4,25,3 -R mean -F 1"},
           {"softmarginloss -D 4,25,3 -C 0 -F 2", "softmarginloss -R none -F 2 --in_strides 150,3,1"},
           {"multimarginloss -D 41,5 -R sum --p 2 --margin 0.5", "multimarginloss -D 41,5 -R sum --p 2 --margin 0.5"},
           {"adamw -n 3 -c 5 -H 4 -W 6 -I NHWC --amsgrad 1 -l 0.01 --step 7", "adamw -I NHWC --amsgrad 1 -l 0.01 7"},
           {"transformersampadamw -n 2 --scale 4 --correct_bias 0", "transformersampadamw --correct_bias 0"},
           {"ctc -n 3 -c 7 -k 20,15,12 -l 5,4,3 -b 1", "ctc -n 3 -c 7 -k 20,15,12 -l 5,4,3 -b 1 -m 1"},
           {"dropout -n 2 -c 3 -H 4 -W 5 -O NHWC -F 1 -p 0.25 -L 5", "dropout -n 2 -O NHWC -F 1 -p 0.25 -L 5"},
           {"lstm -n 4,3 -k 6 -H 8 -W 5 -l 2 -r 1 -b 1 -F 1", "rnn -m lstm -k 6 -n 4,3 -W 5 -H 8 -l 2 -r 1 -b 1 -c 0"},
           {"lstm -n 4 -k 3 -H 8 -W 5 --nocx 1 -F 2", "rnn -m lstm -F 2 --nohx 0 --nocx 1"},
           {"CBAInferfp16 -n 2 -c 3 -H 7 -W 5 -k 4 -p 1 -u 2 -M 1 -m tanh -A 0.5 -I NHWC --epsilon 0.01",
            "CBAInferfp16 -n 2 -c 3 -k 4 -H 7 -W 5 -p 1 -u 2 -J 0 -M 1 -m 2 -A 0.5 -I NHWC --epsilon 0.01"},
           {"CBAInfer -_ 3 -n 2 -c 3 -! 4 -H 7 -W 5 -J 2", "CBAInfer -_ 3 -n 2 -c 3 -! 4 -H 7 -W 5 -J 2"},
       }) {
    const std::string command = logged(line);
    std::istringstream wanted(parts);
    for (std::string part; wanted >> part;)
      EXPECT_NE((command + " ").find(part + " "), std::string::npos) << "no '" << part << "' in: " << command;
    EXPECT_EQ(logged(command), command);
  }
}

TEST(Driver, ExplainsEveryPrimitive) {
  const Outcome pooling = drive("pool -n 1 -c 2 -H 6 -W 6 -F 2 --index_type none --explain -i 1 --device cpu");
  EXPECT_EQ(pooling.status, 0) << pooling.text;
  EXPECT_TRUE(has(pooling, "Backward Pooling: pool .* on cpu, chosen PoolCpu"));
  EXPECT_TRUE(has(pooling, "^  PoolCpu[A-Za-z]+ "));
  const Outcome norm = drive("layernorm -n 2 -c 3 -H 4 -W 4 -F 1 --explain -i 1 --device cpu");
  EXPECT_TRUE(has(norm, "chosen NormCpu"));
  EXPECT_TRUE(has(drive("cat -1 2x3 -2 2x3 -d 0 --explain -i 1"), "unknown flag '--explain'"));
  const Outcome attention = drive("mha -n 1 -c 1 -H 3 -W 4 -F 2 --explain -i 1 --device cpu");
  EXPECT_TRUE(has(attention, "Backward Attention: mha .* chosen MhaCpuBwd"));
  EXPECT_EQ(count(attention.text, "Attention: mha"), 1u) << attention.text;
  const std::string fused = "CBAInfer -n 1 -c 3 -H 5 -W 5 -k 4 -i 1 --device cpu ";
  EXPECT_TRUE(has(drive(fused + "-M 1 --explain"), "Fusion: conv .* --fuse bn3 on cpu, chosen ConvCpu"));
  const Outcome stages = drive(fused + "--explain");
  EXPECT_TRUE(has(stages, "Fusion: conv .* --fuse b0 on cpu, chosen ConvCpu"));
  EXPECT_TRUE(has(stages, "Fusion: bnorm .* on cpu, chosen BnormCpuInfer"));
  EXPECT_TRUE(has(drive(fused + "--json"), "\"solver\":\"ConvCpu[A-Za-z]+ \\+ BnormCpuInfer\""));
  EXPECT_TRUE(has(drive(fused + "-S ConvCpuGroupedFwd --json"), "\"solver\":\"ConvCpuGroupedFwd "));
  EXPECT_TRUE(has(drive(fused + "-M 1 -S NoSuch"), "there is no solver 'NoSuch'"));
  EXPECT_TRUE(has(drive("softmax -n 2 -c 3 -H 2 -W 2 -F 1 --explain --json -i 1"), "\"explain\":.*SoftmaxCpu"));
}

TEST(Driver, SmallOperatorsNameWrongFlags) {
  for (const char* base : {"adam", "groupnorm", "multimarginloss", "CBAInfer", "poolint8"})
    EXPECT_TRUE(has(drive(base + std::string(" -F 2")), "-F --forw: bad value '2', allowed: an integer from 0 to 1"));
  for (const char* base : {"prelu", "getitem"})
    EXPECT_TRUE(has(drive(base + std::string(" -F 1")), "-F --forw: bad value '1', allowed: 0 or 2"));
  EXPECT_TRUE(has(drive("lstm -c 1 -F 4"), "bad value '4', allowed with -c --fwdtype 1: 0 or 1"));
  EXPECT_TRUE(has(drive("layernorm -n 2 -c 3 -H 4 -W 4 -o 5"), "-o .*bad value '5', allowed: 0 to 4"));
  EXPECT_TRUE(has(drive("mha -p 1.5"), "-p --dropout: bad value '1.5', allowed: 0 to 1"));
  EXPECT_TRUE(has(drive("ctc -S NoSuch"), "unknown flag '-S'"));
  EXPECT_TRUE(has(drive("pool -n 1 -S NoSuch"), "no solver 'NoSuch'; MIOpenDriver pool --explain lists"));
  EXPECT_TRUE(has(drive("cat -1 2x3 -2 3x3 -d 1"), "may differ in --dim only"));
  EXPECT_TRUE(has(drive("cat -1 2xx3"), "bad value '2xx3', allowed: numbers such as 2x32x128"));
  EXPECT_TRUE(has(drive("cat -1 2x3@3"), "as many strides as sizes"));
  EXPECT_TRUE(has(drive("cat -1 2x3 -2 2x3 -d 2"), "no dimension of the inputs"));
  EXPECT_TRUE(has(drive("getitem -I 9x6 -D 2"), "dimensions of dx"));
  EXPECT_TRUE(has(drive("getitem -I 9x6 -D 1,1"), "bad value '1,1', allowed: dimensions of dx that follow each other"));
  EXPECT_TRUE(has(drive("getitem -I 9x6 --slices 0,1,9"), "four numbers per slice"));
}

}  // namespace
}  // namespace polymio::test
