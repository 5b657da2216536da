// Random sequences of calls of the C API: valid and invalid arguments, null, foreign and destroyed objects. Each status
// is compared with the expected status, results with the reference. Every function that the headers declare must have
// an entry that the sequences call successfully.
// Usage: fuzz_api [--threads N] and what fuzz.h describes. Threads share nothing but the process;
// thread t of seed s runs the cases of seed s + 1000 t.
// SPDX-License-Identifier: MIT
#include "fuzz/api.h"

#include <filesystem>
#include <fstream>
#include <regex>
#include <thread>

// Allocations that exceed the memory fail instead of ending the process.
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options() {
  return "allocator_may_return_null=1";
}
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_options() {
  return "allocator_may_return_null=1";
}

namespace polymio::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kCalls = 40;  // per sequence

std::string contents(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Functions that the headers or the table of the API name and that have no entry, or the other way round.
int check_entries() {
  std::set<std::string> declared, called;
  const std::regex name(R"(MIOPEN_EXPORT\s[^;()]*?\b((?:miopen|polymio)\w+)\s*\()"),
      row("\\t((?:miopen|polymio)\\w+)\\t\\s*\\(");
  const auto collect = [&](const std::string& text, const std::regex& pattern) {
    for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at) declared.insert((*at)[1]);
  };
  for (const auto& header : fs::directory_iterator(POLYMIO_HEADERS)) collect(contents(header.path()), name);
  collect(contents(POLYMIO_API_TABLE), row);
  for (const Entry* e : entries()) called.insert(e->name);
  int findings = 0;
  for (const auto& d : declared)
    if (!called.contains(d)) {
      ++findings;
      std::printf("%s has no entry in the fuzzer\n", d.c_str());
    }
  for (const auto& p : called)
    if (!declared.contains(p)) {
      ++findings;
      std::printf("%s has an entry, but no declaration\n", p.c_str());
    }
  return findings + (declared.size() < 200);
}

/// Prints how often each function was called; a function that was never accepted is a finding.
int summarise() {
  std::uint64_t calls = 0, accepted = 0, idle = 0;
  for (const Entry* e : entries()) {
    calls += e->calls;
    accepted += e->accepted;
    if (e->accepted == 0) {
      ++idle;
      std::printf("%s: %llu calls, %llu accepted\n", e->name, static_cast<unsigned long long>(e->calls),
                  static_cast<unsigned long long>(e->accepted));
    }
  }
  std::printf("fuzz_api: %zu functions, %llu calls, %llu accepted, %llu refused, %llu functions never accepted\n",
              entries().size(), static_cast<unsigned long long>(calls), static_cast<unsigned long long>(accepted),
              static_cast<unsigned long long>(calls - accepted), static_cast<unsigned long long>(idle));
  return static_cast<int>(idle);
}

/// Runs one sequence; the first two calls cycle through all functions.
bool run_sequence(Random& random, const Limits& limits, std::uint64_t index) {
  World w(random, limits);
  polymioSetFindBudget(w.handle(), random.pick({0.5, 2.0}));
  for (std::uint64_t i = 0; i < kCalls && !w.failed(); ++i) {
    w.entry = i < 2 ? entries()[(2 * index + i) % entries().size()] : random.pick(entries());
    w.entry->call(w);
  }
  w.finish();
  return !w.failed();
}

int run_thread(const Options& options, Limits limits, int index) {
  Options own = options;
  own.seed += 1000 * static_cast<std::uint64_t>(index);
  limits.folder = (fs::temp_directory_path() / "fuzz_api.XXXXXX").string();
  if (!mkdtemp(limits.folder.data())) return 1;
  const int findings = run_cases(
      "fuzz_api", own, [&](Random& random, std::uint64_t index) { return run_sequence(random, limits, index); });
  fs::remove_all(limits.folder);
  return findings;
}

}  // namespace
}  // namespace polymio::fuzz

int main(int argc, char** argv) {
  using namespace polymio::fuzz;
  Limits limits;
  int threads = 1;
  std::vector<char*> rest{argv[0]};
  for (int i = 1; i < argc; ++i) {
    const bool has_value = i + 1 < argc;
    if (has_value && std::strcmp(argv[i], "--threads") == 0)
      threads = std::max(1, std::atoi(argv[++i]));
    else
      rest.push_back(argv[i]);
  }
  const Options options = parse_options(static_cast<int>(rest.size()), rest.data());
  limits.alone = threads == 1;
  std::atomic<int> findings = check_entries();
  int devices = 0;
  polymioGetDeviceCount(
      &devices);  // an OpenCL platform installs a signal stack for this thread, which must outlive the other threads
  std::vector<std::thread> pool;
  for (int t = 1; t < threads; ++t) pool.emplace_back([&, t] { findings += run_thread(options, limits, t); });
  findings += run_thread(options, limits, 0);
  for (auto& t : pool) t.join();
  const int idle = summarise();
  return findings > 0 || (!options.single && idle > 0) ? 1 : 0;
}
