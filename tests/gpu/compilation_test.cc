// What the log of the compiler does, on the fake driver and compiler.
// SPDX-License-Identifier: MIT
#include "tests/gpu/compilation.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace polymio {
namespace {

class Templates : public testing::TestWithParam<const char*> {};

TEST_P(Templates, AreRefusedWhereTheyAreSlow) {
  const auto stream = create_stream("cuda:0", nullptr);
  const std::string mode = GetParam();
  const int number = mode == "spill" ? 1 : 2;
  const KernelSpec spec = program(number, "Tile<64>"), plain = program(number);
  ::setenv("FAKE_CUDA", GetParam(), 1);
  const auto error = [&] {
    try {
      build_kernels(*stream, {&spec, 1});
    } catch (const Error& e) {
      EXPECT_EQ(e.status, Status::kInternalError);
      return std::string(e.what());
    }
    return std::string();
  };
  const std::string text = error();
  EXPECT_NE(text.find("Tile<64>"), std::string::npos) << text;
  EXPECT_NE(text.find(mode == "spill" ? "Registers are spilled" : "C7510"), std::string::npos) << text;
  const int before = compilations();
  EXPECT_EQ(error(), text);
  EXPECT_EQ(compilations(), before) << "the refusal is on disk";
  EXPECT_EQ(build_kernels(*stream, {&plain, 1}).size(), 1u) << "others are used";
  EXPECT_EQ(spill_notes(*stream, {&plain, 1}).size(), 1u);
  ::unsetenv("FAKE_CUDA");
}
INSTANTIATE_TEST_SUITE_P(Notes, Templates, testing::Values("spill", "serial"));

TEST(TemplatesWithoutSpills, AreTaken) {
  const auto stream = create_stream("cuda:0", nullptr);
  const KernelSpec spec = program(3, "Tile<64>");
  ::setenv("FAKE_CUDA", "verbose", 1);
  EXPECT_EQ(build_kernels(*stream, {&spec, 1}).size(), 1u);
  EXPECT_TRUE(spill_notes(*stream, {&spec, 1}).empty());
  ::unsetenv("FAKE_CUDA");
}

}  // namespace
}  // namespace polymio
