// Environment variables: parsing, defaults, one warning per bad value, the table itself.
// SPDX-License-Identifier: MIT
#include "base/env.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "base/log.h"

namespace polymio::env {
namespace {

// Names that no other test uses.
const Variable kText{"POLYMIO_TEST_TEXT", "", ""}, kFlag{"POLYMIO_TEST_FLAG", "", ""},
    kNumber{"POLYMIO_TEST_NUMBER", "", ""}, kBadFlag{"POLYMIO_TEST_BAD_FLAG", "", ""},
    kBadNumber{"POLYMIO_TEST_BAD_NUMBER", "", ""};

void set(const Variable& v, const char* value) { ASSERT_EQ(setenv(v.name, value, 1), 0); }

TEST(Environment, UnsetAndEmptyAreNothing) {
  unsetenv(kText.name);
  EXPECT_FALSE(text(kText));
  EXPECT_FALSE(integer(kText, INT64_MIN, INT64_MAX));
  EXPECT_TRUE(flag(kText, true));
  EXPECT_FALSE(flag(kText, false));
  set(kText, "");
  EXPECT_FALSE(text(kText));
  EXPECT_TRUE(flag(kText, true));
  set(kText, "some text");
  EXPECT_EQ(text(kText), "some text");
}

TEST(Environment, FlagsInEverySpelling) {
  for (const char* yes : {"1", "yes", "ON", "True", "enable", "ENABLED"}) {
    set(kFlag, yes);
    EXPECT_TRUE(flag(kFlag, false)) << yes;
  }
  for (const char* no : {"0", "no", "Off", "FALSE", "disable", "Disabled"}) {
    set(kFlag, no);
    EXPECT_FALSE(flag(kFlag, true)) << no;
  }
}

TEST(Environment, IntegersAreReadWhole) {
  set(kNumber, "42");
  EXPECT_EQ(integer(kNumber, INT64_MIN, INT64_MAX), 42);
  set(kNumber, "-7");
  EXPECT_EQ(integer(kNumber, INT64_MIN, INT64_MAX), -7);
  set(kNumber, "9223372036854775807");
  EXPECT_EQ(integer(kNumber, INT64_MIN, INT64_MAX), INT64_MAX);
}

TEST(Environment, BadValuesGiveTheDefaultAndOneWarning) {
  if (!log::enabled(log::Level::kWarning)) GTEST_SKIP() << "warnings are switched off";
  testing::internal::CaptureStderr();
  set(kBadFlag, "perhaps");
  EXPECT_TRUE(flag(kBadFlag, true));
  EXPECT_FALSE(flag(kBadFlag, false));
  for (const char* bad : {"12x", "x", "9223372036854775808", " 1"}) {
    set(kBadNumber, bad);
    EXPECT_FALSE(integer(kBadNumber, INT64_MIN, INT64_MAX)) << bad;
  }
  set(kBadNumber, "5");
  EXPECT_FALSE(integer(kBadNumber, 0, 4));
  EXPECT_FALSE(integer(kBadNumber, 6, 9));
  EXPECT_EQ(integer(kBadNumber, 5, 5), 5);
  const std::string seen = testing::internal::GetCapturedStderr();
  const auto count = [&](const std::string& part) {
    int n = 0;
    for (std::size_t at = seen.find(part); at != std::string::npos; at = seen.find(part, at + 1)) ++n;
    return n;
  };
  EXPECT_EQ(count("POLYMIO_TEST_BAD_FLAG=perhaps"), 1) << seen;
  EXPECT_EQ(count("POLYMIO_TEST_BAD_NUMBER=12x"), 1) << seen;
  EXPECT_EQ(count("\n"), 2) << "one line a variable: " << seen;
}

TEST(Environment, TheTableIsCompleteAndSmall) {
  std::set<std::string> names;
  for (const Variable* v : all()) {
    const std::string name = v->name;
    EXPECT_TRUE(names.insert(name).second) << name << " appears twice";
    EXPECT_TRUE(name.rfind("POLYMIO_", 0) == 0 || name.rfind("MIOPEN_", 0) == 0) << name;
    EXPECT_STRNE(v->help, "") << name;
    EXPECT_STRNE(v->fallback, "") << name;
  }
  EXPECT_TRUE(names.count(kDevice.name) && names.count(kFp8Seed.name) && names.count(kConvImplicitGemm.name));
  EXPECT_LT(names.size(), 40u);
}

}  // namespace
}  // namespace polymio::env
