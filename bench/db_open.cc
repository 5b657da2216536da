// Time to open a find database of 100,000 records (or as many as the argument says) in a temporary folder: a new
// database object per sample, the file in the page cache.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "db/find_db.h"

namespace {

namespace fs = std::filesystem;
using polymio::FindRecord;
using Clock = std::chrono::steady_clock;

constexpr int kSolvers = 7;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::string key_of(std::size_t problem) {
  return fmt::format("conv -n {} -c {} -H {} -W {} -k {} -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -l 1 -j 1 -g 1 -m conv -F {}",
                     1 + problem % 128, 16 + problem / 128 % 512, 7 + problem % 217, 7 + problem % 217,
                     64 + problem / 1000, 1 << problem % 3);
}

std::string family_of(std::size_t problem) {
  return fmt::format("conv fwd float float float nchw,nchw,nchw 3x3 s1x1 d1x1 p plain {}", problem % 60);
}

std::vector<FindRecord> make_records(std::size_t count) {
  std::vector<FindRecord> records;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t problem = i / kSolvers;
    const auto size = static_cast<float>(problem % 1000) / 50;
    records.push_back({key_of(problem),
                       fmt::format("ConvCpuSolver{}Fwd", i % kSolvers),
                       1,
                       10 + static_cast<double>(i) / 7,
                       i * 64,
                       "mc=96,nc=512,kc=256",
                       16,
                       16,
                       polymio::RecordKind::kMeasured,
                       family_of(problem),
                       {size, 4.322f, 6, size, 7.644f, 5.5f},
                       1e9});
  }
  return records;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void measure(const fs::path& folder, std::size_t count) {
  polymio::write_pack(folder / "bench.pdb.txt", make_records(count));
  const double megabytes = static_cast<double>(fs::file_size(folder / "bench.pdb.txt")) / 1e6;
  const std::size_t problems = (count + kSolvers - 1) / kSolvers;
  std::vector<double> open_ms, lookup_ms, relatives_ms;
  for (int round = 0; round < 15; ++round) {
    const auto start = Clock::now();
    polymio::FindDb db("bench", folder, std::nullopt);
    if (db.lookup(key_of(problems / 2)).empty()) std::abort();
    open_ms.push_back(ms_since(start));
    const auto warm = Clock::now();
    for (std::size_t i = 0; i < 1000; ++i)
      if (db.lookup(key_of(i * 37 % problems)).empty()) std::abort();
    lookup_ms.push_back(ms_since(warm));
    db.relatives(family_of(0));  // builds the family index
    const auto relatives = Clock::now();
    db.relatives(family_of(1));
    relatives_ms.push_back(ms_since(relatives));
  }
  fmt::print(
      "{} records, {:.1f} MB: open and first lookup {:.1f} ms, {:.0f} lookups per second, one family {:.2f} ms\n",
      count, megabytes, median(open_ms), 1e6 / median(lookup_ms), median(relatives_ms));
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 100000;
  std::string name = (fs::temp_directory_path() / "polymio-bench-XXXXXX").string();
  if (count < kSolvers || !::mkdtemp(name.data())) {
    fmt::print(stderr, "usage: db_open [number of records, at least {}]\n", kSolvers);
    return 2;
  }
  measure(name, count);
  fs::remove_all(name);
  return 0;
}
