// Compares every solver with an evaluation in double on random problems: sizes, layouts, strides, alignments and tune
// points that no list of cases has. On the device that POLYMIO_TEST_DEVICE names.
// SPDX-License-Identifier: MIT
#include "differential.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <numeric>

#include "tests/device.h"
#if defined(__SANITIZE_ADDRESS__)
extern "C" void __sanitizer_set_death_callback(void (*)(void));
#endif

namespace polymio::fuzz {
namespace {

std::string current;

void print_current() {
  constexpr char kText[] = "\nwhile running: ";
  static_cast<void>(!::write(STDERR_FILENO, kText, sizeof kText - 1));
  static_cast<void>(!::write(STDERR_FILENO, current.data(), current.size()));
  static_cast<void>(!::write(STDERR_FILENO, "\n", 1));
}

void print_current_on_death() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_set_death_callback(print_current);
#else
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    std::signal(number, [](int signal) {
      print_current();
      std::signal(signal, SIG_DFL);
      std::raise(signal);
    });
  }
#endif
}

bool any_case(Handle& handle, Random& random, Tally& tally) {
  if (handle.device().kind == DeviceKind::kCpu) handle.stream().set_threads(random.pick({1, 2, 2, 3, 7, 16}));
  const std::uint64_t kind = random.below(8);
  return kind == 0   ? activation_case(handle, random, tally)
         : kind == 1 ? tensor_ops_case(handle, random, tally)
                     : convolution_case(handle, random, tally);
}

}  // namespace

void set_current(const std::string& what) { current = what; }

bool report(const std::string& why) {
  std::printf("%s\n  %s\n", current.c_str(), why.c_str());
  return false;
}

std::vector<std::int64_t> random_lens(Random& random, std::int64_t rank) {
  std::int64_t left = 30000;
  std::vector<std::int64_t> lens(static_cast<std::size_t>(rank));
  for (auto& size : lens) {
    size = random.one_in(4) ? 1 : random.one_in(5) ? random.between(1, 200) : random.between(1, 12);
    size = std::min(size, left);
    left /= size;
  }
  return lens;
}

std::vector<std::int64_t> random_strides(Random& random, const std::vector<std::int64_t>& lens, bool overlaps) {
  std::vector<std::size_t> order(lens.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const std::uint64_t layout = random.below(6);
  if (layout >= 2 && layout <= 3 && order.size() > 2) {  // channels last
    std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  } else if (layout == 4) {
    for (std::size_t i = order.size(); i-- > 1;) std::swap(order[i], order[random.below(i + 1)]);
  }
  const bool gaps = random.one_in(4), shares = overlaps && random.one_in(8), idle = random.one_in(2);
  std::vector<std::int64_t> strides(lens.size());
  std::int64_t step = gaps && random.one_in(3) ? random.between(2, 4) : 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    const std::size_t d = order[i];
    strides[d] = shares ? random.between(1, 9) : step;
    step = strides[d] * lens[d];
    if (gaps && random.one_in(3)) step += random.between(1, 7);
    // The stride of a dimension of size 1 is never used.
    if (idle && lens[d] == 1) strides[d] = random.pick<std::int64_t>({1, 2, 3, 5, 7, 64, 4099, 1 << 20, 2147483647});
  }
  return strides;
}

std::size_t random_alignment(Random& random, std::size_t element) {
  return random.pick<std::size_t>({64, element, element});
}

}  // namespace polymio::fuzz

int main(int argc, char** argv) {
  using namespace polymio;
  const fuzz::Options options = fuzz::parse_options(argc, argv);
  const std::string device = test::device_name();
  Handle handle(device, nullptr);
  fuzz::print_current_on_death();
  fuzz::Tally tally;
  const int findings = fuzz::run_cases("fuzz_differential", options, [&](fuzz::Random& random, std::uint64_t) {
    try {
      return fuzz::any_case(handle, random, tally);
    } catch (const std::exception& e) {
      return fuzz::report(std::string("threw: ") + e.what());
    }
  });
  std::uint64_t runs = 0;
  for (const auto& [name, count] : tally.runs) {
    std::printf("  %-32s %8llu\n", name.c_str(), static_cast<unsigned long long>(count));
    runs += count;
  }
  std::printf("%llu problems (%llu more refused), %llu runs on %s\n", static_cast<unsigned long long>(tally.problems),
              static_cast<unsigned long long>(tally.refused), static_cast<unsigned long long>(runs), device.c_str());
  return findings == 0 && runs > 0 ? 0 : 1;
}
