// Hashes: values stored in files never change; the mixer distributes bits.
// SPDX-License-Identifier: MIT
#include "base/hash.h"

#include <gtest/gtest.h>

#include <set>

namespace polymio {
namespace {

TEST(ContentHash, FixedValuesNeverChange) {
  EXPECT_EQ(content_hash(""), 0x2d06800538d394c2u);
  EXPECT_EQ(content_hash("conv -n 1"), content_hash(std::string("conv -n ") + "1"));
  EXPECT_NE(content_hash("conv -n 1"), content_hash("conv -n 2"));
  EXPECT_NE(content_hash(std::string_view("a\0b", 3)), content_hash(std::string_view("a\0c", 3)));
}

TEST(Mix, SmallDifferencesGiveDifferentHashes) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t seed = 0; seed < 64; ++seed)
    for (std::uint64_t value = 0; value < 64; ++value) seen.insert(mix(mix(1, seed), value));
  EXPECT_EQ(seen.size(), 64u * 64);
}

TEST(Mix, OrderMatters) { EXPECT_NE(mix(mix(0, 1), 2), mix(mix(0, 2), 1)); }

}  // namespace
}  // namespace polymio
