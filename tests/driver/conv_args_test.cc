// The driver's text form of problems: parsing, canonical text, derived sizes, and its errors.
// SPDX-License-Identifier: MIT
#include "driver/run/conv_args.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace polymio::driver {
namespace {

using Sizes = std::vector<std::int64_t>;

std::string error_of_line(const std::string& line) {
  try {
    parse_line(line);
  } catch (const ArgError& error) {
    return error.what();
  }
  return "";
}

TEST(ConvArgs, DefaultsAreThoseOfTheFlagTable) {
  const ConvArgs args = parse_line("conv");
  EXPECT_EQ(args, ConvArgs{});
  EXPECT_EQ(input_lens(args), (Sizes{100, 3, 32, 32}));
  EXPECT_EQ(weight_lens(args), (Sizes{32, 3, 3, 3}));
  EXPECT_EQ(direction_mask(args), 7);
  EXPECT_EQ(args.iterations, 10);
  EXPECT_EQ(args.verify, 1);
}

TEST(ConvArgs, CanonicalLineOfAProblem) {
  const std::string line =
      "conv -n 64 -c 64 -H 56 -W 56 -k 64 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -l 1 -j 1 -g 1 -m conv "
      "-F 2";
  EXPECT_EQ(to_line(parse_line(line)), line);
  EXPECT_EQ(problem_line(parse_line(line + " -V 2 -i 3"), 2), line);
  EXPECT_EQ(parse_line("./bin/MIOpenDriver " + line), parse_line(line));
}

TEST(ConvArgs, RoundTrip) {
  const char* lines[] = {
      "conv",
      "convfp16 -n 1 -c 8 -k 16 -g 4 -F 1 --in_layout nhwc --fil_layout NHWC --out_layout NHWC",
      "convbfp16 --batchsize 2 --in_channels 6 --out_channels 12 -z same -u 2 -v 3",
      "convint8 --out_type int8 -F 1 -V 2 -t 1 -w 2",
      "convfp8 -U fp8 -R bfp8 -T 8 --fp8_rounding stochastic",
      "convbfp8 -U -1 --fp8_rounding standard",
      "convfp8_e4m3fn -U fp8_e5m2 -R fp8 --second_type fp8_e5m2 --out_type fp8_e4m3fn",
      "convfp64 -_ 1 -W 100 -x 5 -q 2 -v 2 -j 3 -I NWC --in_strides 300,1,3",
      "conv --spatial_dim 3 --in_d 17 -H 9 --fil_d 3 --pad_d 1 --conv_stride_d 2 -I NDHWC",
      "conv --spatial_dim 3 --dilation_d 2 -O ndhwc",
      "conv -_ 3 -! 5 -@ 2 -# 2 -$ 1 -^ 1 -% 0",
      "conv -m trans -c 8 -k 4 -g 2 -u 2 -v 2 -X 1 -Y 1",
      "conv --wei_strides 27,9,3,1 --out_strides 4,3,2,1 --alpha 0.1 --beta -2.5e-3",
      "conv --math tf32 --deterministic 1 -b 1 -S ConvCpuGemmFwd -C /tmp/cache -s 1",
      "conv --fuse b3 --budget 12.5",
      "conv --fuse b10",
      "conv --json --explain --all-solvers --device cpu --report a.html --save a.json --from-list b.txt -S 0",
      "conv -d x.bin -e w.bin -D dy.bin -a b.bin -o 1 -P 0 -G 1 -Z 0 -L 1 -r 0",
  };
  for (const char* line : lines) {
    const ConvArgs args = parse_line(line);
    const std::string text = to_line(args);
    EXPECT_EQ(parse_line(text), args) << line << "\n" << text;
    EXPECT_EQ(to_line(parse_line(text)), text);
  }
}

TEST(ConvArgs, LongAndShortNamesAgree) {
  EXPECT_EQ(parse_line("conv -n 2 -c 4 -H 5 -W 6 -k 8 -y 1 -x 2 -p 3 -q 4 -u 5 -v 6 -l 7 -j 8"),
            parse_line("conv --batchsize 2 --in_channels 4 --in_h 5 --in_w 6 --out_channels 8 "
                       "--fil_h 1 --fil_w 2 --pad_h 3 --pad_w 4 --conv_stride_h 5 "
                       "--conv_stride_w 6 --dilation_h 7 --dilation_w 8"));
}

TEST(ConvArgs, SizesOfUnusedAxesDoNotMatter) {
  EXPECT_EQ(parse_line("conv -! 7 -@ 2 -$ 4"), parse_line("conv"));
  EXPECT_EQ(parse_line("conv -_ 1 -H 9 -y 2 -p 4"), parse_line("conv -_ 1"));
  EXPECT_NE(parse_line("conv -H 9"), parse_line("conv"));
}

TEST(ConvArgs, DefaultsForLinesOfAList) {
  ConvArgs outer;
  outer.verify = 2;
  EXPECT_EQ(parse_line("conv -n 3", outer).verify, 2);
  EXPECT_EQ(parse_line("conv -n 3 -V 0", outer).verify, 0);
}

TEST(ConvArgs, DerivedSizes) {
  const ConvArgs trans = parse_line("conv -m trans -n 1 -c 8 -k 6 -g 2 -y 2 -x 4 -Y 1");
  EXPECT_EQ(weight_lens(trans), (Sizes{8, 3, 2, 4}));
  EXPECT_EQ(output_pads(trans), (Sizes{1, 0}));
  const ConvArgs volume = parse_line("conv -_ 3 -n 1 -c 2 -! 4 -H 5 -W 6 -k 3 -@ 1 -y 2 -x 3");
  EXPECT_EQ(input_lens(volume), (Sizes{1, 2, 4, 5, 6}));
  EXPECT_EQ(weight_lens(volume), (Sizes{3, 2, 1, 2, 3}));
  EXPECT_EQ(tensor_strides({2, 3, 4, 5}, "", {}), (Sizes{60, 20, 5, 1}));
  EXPECT_EQ(tensor_strides({2, 3, 4, 5}, "NHWC", {}), (Sizes{60, 1, 15, 3}));
  EXPECT_EQ(tensor_strides({2, 3, 4}, "NWC", {}), (Sizes{12, 1, 3}));
  EXPECT_EQ(tensor_strides({2, 3, 4}, "NWC", {90, 2, 7}), (Sizes{90, 2, 7}));
}

// Lines of MIOpen's performance lists name the third dimension in 2-D, too, with zeros.
TEST(ConvArgs, FlagsOfMissingDimensionsAreReadAndIgnored) {
  const std::string line = "conv --spatial_dim 2 --pad_h 1 --pad_w 1 --conv_stride_h 2 --conv_stride_w 2 ";
  const ConvArgs plain = parse_line(line);
  EXPECT_EQ(parse_line(line + "--in_d 0 --fil_d 0 --pad_d -1 --conv_stride_d 0 --dilation_d 0 --trans_output_pad_d 0"),
            plain);
  EXPECT_EQ(parse_line("./bin/MIOpenDriver " + line + "-! 1 -@ 1 -# 0 -^ 0 -% 0 -$ 0 --pad_mode default"), plain);
  EXPECT_EQ(parse_line("conv -y 0 -u 0 -l 0 -_ 1 -H 0"), parse_line("conv -_ 1")) << "-_ may come later";
  EXPECT_NE(error_of_line("conv -_ 3 --conv_stride_d 0").find("--conv_stride_d: bad value '0'"), std::string::npos);
  EXPECT_NE(error_of_line("conv -u 0").find("--conv_stride_h: bad value '0'"), std::string::npos);
  EXPECT_NE(error_of_line("conv --dilation_d none").find("--dilation_d: bad value 'none', allowed: an integer"),
            std::string::npos);
}

TEST(ConvArgs, SamePaddingRoundsHalfOfThePaddingDown) {
  const auto pad = [](int in, int filter, int stride) {
    return pads(parse_line("conv -z same -H " + std::to_string(in) + " -y " + std::to_string(filter) + " -u " +
                           std::to_string(stride)))[0];
  };
  EXPECT_EQ(pad(32, 3, 1), 1);
  EXPECT_EQ(pad(32, 4, 1), 1);  // 3 in all
  EXPECT_EQ(pad(32, 3, 2), 0);  // 1 in all
  EXPECT_EQ(pad(33, 3, 2), 1);  // 2 in all
  EXPECT_EQ(pad(32, 7, 2), 2);  // 5 in all
  EXPECT_EQ(pad(31, 2, 3), 0);  // 1 in all
  EXPECT_EQ(pad(32, 1, 2), 0);
  EXPECT_EQ(parse_line("conv --pmode same"), parse_line("conv --pad_mode same"));
  EXPECT_EQ(pads(parse_line("conv -z same -p 3 -q 2 -m trans")), (Sizes{3, 2}));
  EXPECT_EQ(pads(parse_line("conv -z same -p 3 -q 2 -l 2")), (Sizes{3, 2}));
  EXPECT_EQ(pads(parse_line("conv -z same -p 3 -q 2 -l 2 -y 1 -x 1")), (Sizes{0, 0}));
  EXPECT_EQ(pads(parse_line("conv -z valid -p 3 -q 3")), (Sizes{0, 0}));
  EXPECT_EQ(pads(parse_line("conv -p 3 -q 2")), (Sizes{3, 2}));
}

TEST(ConvArgs, TensorTypes) {
  const ConvArgs int8 = parse_line("convint8 --out_type float");
  EXPECT_EQ(tensor_types(int8, kForward).y, kFloat);
  EXPECT_EQ(tensor_types(int8, kForward).x, kInt8);
  EXPECT_EQ(tensor_types(int8, kBackwardData).x, kFloat);
  EXPECT_EQ(tensor_types(int8, kBackwardData).y, kInt8);
  EXPECT_EQ(tensor_types(parse_line("convint8"), kBackwardWeights).w, kInt32);
  EXPECT_EQ(tensor_types(parse_line("convbfp8"), kForward).x, kBFloat8Fnuz);
  EXPECT_EQ(tensor_types(parse_line("convfp8_e4m3fn"), kForward).x, kFloat8E4m3fn);
  EXPECT_EQ(tensor_types(parse_line("convfp64"), kForward).w, kDouble);
}

TEST(ConvArgs, ErrorsNameFlagValueAndAllowed) {
  const struct {
    const char* line;
    std::vector<const char*> parts;
  } cases[] = {
      {"", {"no base argument", "convfp16"}},
      {"crnn", {"Incorrect BaseArg", "'crnn'", "convint8"}},
      {"conv -M 3", {"unknown flag '-M'", "--help"}},
      {"conv --strides 3", {"unknown flag '--strides'"}},
      {"conv 3", {"unknown flag '3'"}},
      {"conv -n", {"-n", "missing"}},
      {"conv -n 0", {"-n --batchsize", "'0'", "from 1"}},
      {"conv -n 2x", {"-n --batchsize", "'2x'"}},
      {"conv -n 99999999999999999999", {"-n --batchsize", "2147483647"}},
      {"conv -p -1", {"-p --pad_h", "'-1'", "from 0"}},
      {"conv -m deconv", {"-m --mode", "'deconv'", "conv trans"}},
      {"conv -I NCDHW", {"--in_layout", "'NCDHW'", "NCHW NHWC"}},
      {"conv -_ 3 -O NHWC", {"--out_layout", "'NHWC'", "NCDHW NDHWC"}},
      {"conv -_ 4", {"--spatial_dim", "'4'", "1 to 3"}},
      {"conv --in_strides 1,2", {"--in_strides", "1,2", "4 strides"}},
      {"conv --in_strides 1,0,1,1", {"--in_strides", "1,0,1,1", "positive"}},
      {"conv --alpha nan", {"--alpha", "'nan'", "finite"}},
      {"conv --out_type int9", {"--out_type", "int9"}},
      {"conv -c 6 -g 4 -k 8", {"--group_count", "'4'", "6 input", "8 output"}},
      {"conv --fuse c3", {"--fuse", "'c3'", "b0"}},
      {"conv --fuse b12", {"--fuse", "'b12'", "0 to 10"}},
      {"conv -V 3", {"-V --verify", "'3'"}},
      {"conv -w 1", {"-w --wall", "-t 1"}},
      {"conv -Z 1", {"--tensor_vect", "'1'", "allowed: 0"}},
  };
  for (const auto& item : cases) {
    const std::string text = error_of_line(item.line);
    for (const char* part : item.parts) {
      EXPECT_NE(text.find(part), std::string::npos) << item.line << " -> " << text;
    }
  }
}

TEST(ConvArgs, HelpNamesEveryFlag) {
  ConvArgs args;
  const std::string help = help_of(conv_flags(args));
  for (const char* name : {"-n, --batchsize", "--spatial_dim", "--in_strides", "--all-solvers", "--verify",
                           "--solution", "-Y, --trans_output_pad_h", "[100]"}) {
    EXPECT_NE(help.find(name), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace polymio::driver
