// FunctionRef: forwards calls and arguments, keeps references, has the size of two pointers.
// SPDX-License-Identifier: MIT
#include "base/function_ref.h"

#include <gtest/gtest.h>

namespace polymio {
namespace {

TEST(FunctionRef, CallsTheObjectItRefersTo) {
  int calls = 0;
  auto count = [&](int by) { return calls += by; };
  const FunctionRef<int(int)> ref(count);
  EXPECT_EQ(ref(2), 2);
  EXPECT_EQ(ref(3), 5);
  EXPECT_EQ(ref.function()(ref.context(), 4), 9);
  const FunctionRef<int(int)> copy = ref;
  EXPECT_EQ(copy(1), 10);
  EXPECT_EQ(copy.context(), ref.context());
}

TEST(FunctionRef, PassesArgumentsAndExceptions) {
  const auto fail = [](std::string& text) {
    text = "seen";
    throw 7;
  };
  const FunctionRef<void(std::string&)> ref(fail);
  std::string text;
  EXPECT_THROW(ref(text), int);
  EXPECT_EQ(text, "seen");
}

}  // namespace
}  // namespace polymio
