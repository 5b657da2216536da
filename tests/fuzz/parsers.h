// The kinds of files and texts that fuzz_parsers damages, reads and uses.
// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "driver/run/conv_calls.h"
#include "driver/run/conv_problem.h"
#include "mutate.h"

namespace polymio::fuzz {

/// Counts of the cases of one kind.
struct Counts {
  std::uint64_t accepted = 0, refused = 0;
  std::uint64_t used = 0;        // runs, predictions and the like with what was accepted
  std::uint64_t use_failed = 0;  // of these, ended by an error with a text
};

/// One kind of input. `run` returns whether a case passed, and prints the finding if not.
struct Kind {
  const char* name;
  unsigned weight;  // number of cases per round
  std::function<bool(Random&, Counts&)> run;
};

/// A small convolution of one direction with memory of exactly its tensors' sizes, so that a sanitizer sees every
/// access beside them, and its right result.
class Sample {
 public:
  Sample(const std::string& line, const driver::Session& session);
  const driver::Problem& problem() const { return problem_; }
  /// Runs each solution of the immediate mode, and sometimes find: the calls that read stored records. Returns false
  /// after a wrong result, which it prints.
  bool use(Random& random, Counts& counts);

 private:
  bool run(const std::function<void(const driver::DeviceData&)>& call, std::size_t workspace, Counts& counts);

  driver::Problem problem_;
  std::vector<unsigned char> data_[3], expected_;
};

/// The valid samples of all kinds: files and texts made by the library in a folder of this run.
class World {
 public:
  World();
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// Both directions of an activation, whose searches store tune points.
  bool use_activation(Counts& counts);

  std::filesystem::path folder, database;  // the user's file of the CPU
  std::string architecture;
  std::vector<Sample> samples;
  std::vector<std::string> records;    // without checksums
  std::vector<std::string> solutions;  // saved
};

/// Files of records: the user's database and packs, then records alone.
std::vector<Kind> record_kinds(World& world);
/// A command line of any primitive of the driver but convolution, damaged.
bool run_flags(const World&, Random&, Counts&);
/// All others.
std::vector<Kind> other_kinds(World& world);

}  // namespace polymio::fuzz
