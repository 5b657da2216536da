// The table of flags: every type of value, its errors, help and the text of a problem.
// SPDX-License-Identifier: MIT
#include "driver/base/flags.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace polymio::driver {
namespace {

constexpr Command kCommand{"db list", "FILE...", "Lists.", 1, 2};
constexpr Choice kKinds[] = {{"good", 1}, {"bad", 2}};

struct Values {
  std::int64_t count = 3, depth = 7;
  double factor = 0.5, limit = 90;
  std::string file, layout;
  int kind = 1, mode = 2;
  std::vector<int> kinds;
  std::vector<std::int64_t> strides;
  std::vector<std::string> devices;
  bool json = false;
};

Flags flags_of(Values& v) {
  return {
      {"n", "count", Integer{&v.count, 1, 9}, "how many", Part::kShape},
      {"!", "depth", Integer{&v.depth, 1, 9}, "of 3-D", Part::kShape, 0},
      {"", "factor", Real{&v.factor}, "a factor", Part::kOption},
      {"", "limit", Duration{&v.limit}, "a time"},
      {"", "file", Text{&v.file, "FILE"}, "a file"},
      {"I", "layout", Layout{&v.layout}, "a layout", Part::kOption},
      {"", "kind", Name{&v.kind, kKinds}, "a kind", Part::kOption},
      {"m", "mode", Name{&v.mode, kKinds, true}, "a mode", Part::kOption},
      {"", "kinds", Names{&v.kinds, kKinds}, "kinds"},
      {"", "strides", Integers{&v.strides}, "strides", Part::kOption},
      {"", "device", Texts{&v.devices, "DEVICE"}, "devices"},
      {"", "json", Switch{&v.json}, "as JSON"},
      {"", "amount", Integer{&v.count, 1, 9}, "same as --count", Part::kAlias},
  };
}

Values parse(const std::vector<std::string>& arguments) {
  Values values;
  parse_flags({"run", "", ""}, flags_of(values), arguments);
  return values;
}

std::string error_of(const Command& command, const std::vector<std::string>& arguments) {
  try {
    Values values;
    Flags flags = flags_of(values);
    if (command.max_operands > 0) flags = {find_row(flags, "kinds"), find_row(flags, "json")};
    parse_flags(command, flags, arguments);
  } catch (const ArgError& error) {
    return error.what();
  }
  return "";
}
std::string error_of(const std::vector<std::string>& arguments) { return error_of({"run", "", ""}, arguments); }

TEST(Flags, EveryTypeOfValue) {
  const Values values = parse({"-n",        "4",     "--factor", "-2.5e3",     "--limit",  "1.5h",     "--file",  "a,b",
                               "-I",        "nhwc",  "--kind",   "bad",        "--kinds",  "bad,good", "--kinds", "bad",
                               "--strides", "9,3,1", "--device", "cpu,cuda:0", "--device", "hip:0",    "--json"});
  EXPECT_EQ(values.count, 4);
  EXPECT_EQ(values.factor, -2500);
  EXPECT_EQ(values.limit, 5400);
  EXPECT_EQ(values.file, "a,b");
  EXPECT_EQ(values.layout, "NHWC");
  EXPECT_EQ(values.kind, 2);
  EXPECT_EQ(values.kinds, (std::vector<int>{2, 1, 2}));
  EXPECT_EQ(values.strides, (std::vector<std::int64_t>{9, 3, 1}));
  EXPECT_EQ(values.devices, (std::vector<std::string>{"cpu", "cuda:0", "hip:0"}));
  EXPECT_TRUE(values.json);
  EXPECT_EQ(parse({"-m", "1"}).mode, 1);
  EXPECT_EQ(parse({"-m", "good"}).mode, 1);
  EXPECT_EQ(parse({"--amount", "5"}).count, 5);
  EXPECT_EQ(parse({"--limit", "250ms"}).limit, 0.25);
  EXPECT_EQ(parse({"--limit", "10m"}).limit, 600);
}

TEST(Flags, ErrorsNameFlagValueAndWhatIsAllowed) {
  EXPECT_EQ(error_of({"-n", "0"}), "-n --count: bad value '0', allowed: an integer from 1 to 9");
  EXPECT_EQ(error_of({"--amount", "x"}), "--amount: bad value 'x', allowed: an integer from 1 to 9");
  EXPECT_EQ(error_of({"--factor", "nan"}), "--factor: bad value 'nan', allowed: a finite number");
  EXPECT_EQ(error_of({"--kind", "nice"}), "--kind: bad value 'nice', allowed: good bad");
  EXPECT_EQ(error_of({"-m", "3"}), "-m --mode: bad value '3', allowed: good bad or its number");
  EXPECT_EQ(error_of({"--kinds", "good,nice"}), "--kinds: bad value 'nice', allowed: good bad");
  EXPECT_EQ(error_of({"--strides", "1,,2"}),
            "--strides: bad value '1,,2', allowed: positive integers separated by commas, one per dimension");
  for (const char* bad : {"", "10", "m", "-1s", "0s", "1d", "10 m", "1e999s", "nans", "infs"}) {
    EXPECT_EQ(error_of({"--limit", bad}), std::string("--limit: bad value '") + bad +
                                              "', allowed: a positive number with a unit, as in 90s, 10m, 2h");
  }
  EXPECT_EQ(error_of({"--file"}), "run: --file: its value (FILE) is missing");
}

TEST(Flags, OperandsOfACommand) {
  Values values;
  const std::vector<std::string> given = {"a", "--kinds", "good", "b", "--json"};
  EXPECT_EQ(parse_flags(kCommand, flags_of(values), given).operands, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(error_of(kCommand, {"a", "--frob"}), "db list: unknown flag '--frob', allowed: --kinds --json --help");
  EXPECT_EQ(error_of(kCommand, {}), "db list: 0 of 1 arguments given; usage: MIOpenDriver db list FILE...");
  EXPECT_EQ(error_of(kCommand, {"a", "b", "c"}),
            "db list: 'c' is one argument too many; usage: MIOpenDriver db list FILE...");
  EXPECT_EQ(error_of(kCommand, {"--help"}), "");
}

TEST(Flags, HelpHasTheDefaultsAndChangesNothing) {
  Values values;
  const Flags flags = flags_of(values);
  const std::vector<std::string> given = {"-n", "5", "-h"};
  EXPECT_TRUE(parse_flags({"run", "", ""}, flags, given).help);
  EXPECT_EQ(values.count, 3);
  const std::string help = help_of(flags);
  for (const char* part : {"-n, --count N ", "how many [3]", "a kind: good bad [good]", "--device DEVICE[,..] ",
                           "    --json  ", "--limit TIME ", "a time [90000ms]"}) {
    EXPECT_NE(help.find(part), std::string::npos) << part << '\n' << help;
  }
}

TEST(Flags, TextOfAProblem) {
  Values values, defaults;
  values.depth = 5;
  values.mode = 1;
  values.strides = {9, 3, 1};
  values.json = true;
  const Flags flags = flags_of(values);
  EXPECT_EQ(flags_text(flags, flags_of(defaults), 3, false), " -n 3 --depth 5 -m 1 --strides 9,3,1");
  EXPECT_EQ(flags_text(flags, flags_of(defaults), 2, true), " -n 3 -m 1 --strides 9,3,1 --json");
  reset_unused_axes(flags, flags_of(defaults), 2);
  EXPECT_EQ(values.depth, 7);
}

}  // namespace
}  // namespace polymio::driver
