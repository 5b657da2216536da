// The steps of a run: fill, launch, time, restore the written tensors, launch again, compare.
// SPDX-License-Identifier: MIT
#include "driver/run/tensor_operation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "driver/run/fill.h"

namespace polymio::driver {
namespace {

constexpr std::int64_t kFullCount = std::int64_t{1} << 22;  // -V 1 compares a sample of larger tensors
constexpr std::int64_t kSamples = 65536;

std::vector<Contents> contents_of(const std::vector<Memory*>& memories) {
  std::vector<Contents> all;
  for (Memory* memory : memories) all.push_back(memory->contents());
  return all;
}

// The worse of two comparisons, with the failures of both.
reference::Comparison merged(reference::Comparison a, const reference::Comparison& b) {
  const std::int64_t failures = a.failures + b.failures;
  if (b.worst_ratio >= a.worst_ratio) a = b;
  a.failures = failures;
  return a;
}

double bytes_of(const reference::Tensor& tensor) {
  return static_cast<double>(tensor.count()) * static_cast<double>(reference::size_of(tensor.type));
}

void fill(const Operand& operand, void* memory, std::uint64_t seed) {
  if (!operand.file.empty()) return read_file(operand.file, memory, operand.tensor.bytes());
  if (operand.limit > 0)
    return fill_random(
        operand.tensor, memory, mix(seed),
        {operand.positive ? 0 : -operand.limit, operand.limit, reference::is_integer(operand.tensor.type)});
  std::memset(memory, reference::nan_byte(operand.tensor.type), operand.tensor.bytes());
}

}  // namespace

Memory::Memory(const Session& session, Operand which, std::uint64_t seed)
    : operand(std::move(which)),
      owner(make_tensor(static_cast<int>(operand.tensor.type), operand.tensor.lens, operand.tensor.strides, kNoType)) {
  if (operand.shared != nullptr) return;
  own = Buffer(session, operand.tensor.bytes(), operand.name);
  if (!session.computes) return;
  fill(operand, own.host(), seed);
  own.upload();
}

Contents Memory::contents() {
  buffer().download();
  const auto* bytes = static_cast<const unsigned char*>(host());
  return {bytes, bytes + buffer().bytes()};
}

void Memory::restore(const Contents& contents) {
  std::memcpy(buffer().host(), contents.data(), contents.size());
  buffer().upload();
}

Operands::Operands(const Session& session, std::vector<Operand> operands) {
  for (Operand& operand : operands) add(session, std::move(operand));
}

Memory* Operands::find(std::string_view name) {
  const auto named = [&](const Memory& memory) { return memory.operand.name == name; };
  const auto it = std::find_if(all_.begin(), all_.end(), named);
  return it == all_.end() ? nullptr : &*it;
}

Memory& Operands::operator[](std::string_view name) { return *find(name); }

std::vector<Memory*> Operands::written() {
  std::vector<Memory*> found;
  for (Memory& memory : all_) {
    if (memory.operand.access == kWritten) found.push_back(&memory);
  }
  return found;
}

void* Operands::workspace(const Session& session, std::size_t bytes) {
  if (bytes > workspace_.bytes()) workspace_ = Buffer(session, bytes, "workspace");
  return workspace_.device();
}

double Operands::bytes_read() const {
  double sum = 0;
  for (const Memory& memory : all_) {
    const bool added_to = memory.operand.access == kWritten && memory.operand.limit > 0;
    if (memory.operand.access == kRead || added_to) sum += bytes_of(memory.operand.tensor);
  }
  return sum;
}

double Operands::bytes_written() const {
  double sum = 0;
  for (const Memory& memory : all_) {
    if (memory.operand.access == kWritten) sum += bytes_of(memory.operand.tensor);
  }
  return sum;
}

Flags TensorOperation::flags() {
  Flags all = args_.sizes.empty() ? args_.rows(own_flags()) : own_flags();
  for (Flag& flag : all) {
    if (flag.name != "forw") continue;
    if (available() == kForward) {
      flag.variable = Integer{&args_.directions, 0, 1};
      flag.help = "1 forward, 0 the same";
    } else if (available() == kBackwardData) {
      args_.directions = kBackwardData;
      flag.variable = Integer{&args_.directions, 0, 2, 2};
      flag.help = "2 backward, 0 the same";
    }
  }
  return with_run_flags(std::move(all));
}

Flags TensorOperation::with_run_flags(Flags all) {
  for (Flag flag : run_flags(run_)) {
    constexpr std::string_view kOfSolvers[] = {"search", "solution", "solver", "explain"};
    if (primitive_.one_way && std::ranges::find(kOfSolvers, flag.name) != std::end(kOfSolvers)) continue;
    const auto same_letter = [&](const Flag& other) { return other.letter == flag.letter; };
    if (std::any_of(all.begin(), all.end(), same_letter)) flag.letter = "";  // the primitive's flag has it
    all.push_back(flag);
  }
  return all;
}

void TensorOperation::check_flags() { args_.check(flags(), primitive_.make(base_)->flags()); }

void TensorOperation::inherit(const Operation& outer) {
  run_ = outer.run_args();
  args_.directions = static_cast<const TensorOperation&>(outer).args_.directions;
}

std::int64_t TensorOperation::directions() const {
  const std::int64_t chosen = (args_.directions == 0 ? 3 : args_.directions) & available();
  return chosen == 0 ? available() : chosen;
}

std::string TensorOperation::title(Direction which) const {
  const bool one_gradient = (available() & kBackwardWeights) == 0;
  return fmt::format("{} {}", one_gradient && which != kForward ? "Backward" : direction_title(which),
                     primitive_.label);
}

std::string TensorOperation::line(Direction which) {
  const std::unique_ptr<Operation> fresh = primitive_.make(base_);
  const std::int64_t requested = std::exchange(args_.directions, which);
  std::string text = base_ + flags_text(flags(), fresh->flags(), args_.spatial_dim, false);
  args_.directions = requested;
  return text;
}

double TensorOperation::cost() const {
  double count = 1;
  for (const std::int64_t size : sizes()) count *= static_cast<double>(size);
  return 1e-2 + count * 1e-9;
}

std::vector<Result> TensorOperation::run(const Session& session, Direction which, bool print) {
  // There is no find call: the environment controls the first run.
  if (run_.search != 0) setenv("MIOPEN_FIND_ENFORCE", "SEARCH", 0);
  const bool automatic = run_.solution.starts_with('-') || run_.solution == "0";
  if (!automatic) setenv("MIOPEN_DEBUG_FIND_ONLY_SOLVER", run_.solution.c_str(), 1);
  Result result;
  result.line = line(which);
  result.direction = which;
  try {
    Operands data(session, operands(which));
    result.bytes_read = data.bytes_read();
    result.bytes_written = data.bytes_written();
    check(miopenEnableProfiling(session.get(), true), "miopenEnableProfiling");
    const std::vector<Contents> old = contents_of(data.written());
    const bool explains = run_.explain || run_.json || !print;
    check(polymioSetExplaining(explains ? 1 : 0), "polymioSetExplaining");
    launch(session, which, data);  // tunes with -s 1, and compiles
    result.set_choice(polymioGetLastExplanation());
    check(polymioSetExplaining(0), "polymioSetExplaining");
    if (run_.explain && print) print_explanation(title(which), result);
    if (!run_.explain) result.explanation = nullptr;
    time_runs(session, which, data, result);
    if (print && run_.time != 0) print_times(result);
    if (run_.verify != 0) {
      const std::vector<Memory*> written = data.written();
      for (std::size_t i = 0; i < written.size(); ++i) written[i]->restore(old[i]);
      launch(session, which, data);
      verify(which, data, old, result);
      if (print) fmt::print("{}\n", result.verify_text);
    }
  } catch (const std::exception& error) {
    result.error = error.what();
  }
  return {result};
}

std::vector<OwnedProblem> TensorOperation::problems(Direction which) {
  if (primitive_.one_way) return {};
  const Session collector = Session::collector();
  Operands data(collector, operands(which));
  launch(collector, which, data);
  return collector.take_problems();
}

void TensorOperation::forget_call(const Session& session) {
  if (!session.computes) session.take_problems();
  if (*polymioGetLastExplanation() != '\0') check(polymioSetExplaining(1), "polymioSetExplaining");
}

Result TensorOperation::run_once(const Session& session, Direction which, bool verified) const {
  Result result;
  Operands data(session, operands(which));
  const std::vector<Contents> old = contents_of(data.written());
  launch(session, which, data);
  if (verified) verify(which, data, old, result);
  return result;
}

void TensorOperation::time_runs(const Session& session, Direction which, Operands& data, Result& result) const {
  std::vector<double> times;
  for (std::int64_t i = 0; i < run_.iterations; ++i) {
    launch(session, which, data);
    float ms = 0;
    check(miopenGetKernelTime(session.get(), &ms), "miopenGetKernelTime");
    times.push_back(ms);
  }
  result.set_times(std::move(times));
}

void TensorOperation::print_times(const Result& result) const {
  fmt::print("GPU Kernel Time {} Elapsed: {:.6f} ms (average)\n", title(result.direction), result.average_ms);
  const double bytes = result.bytes_read + result.bytes_written;
  fmt::print("stats: name, sizes, bytes, GB/s, timeMs\nstats: {}-{}, {}, {:.0f}, {:.2f}, {:.6f}\n",
             direction_short(result.direction), stats_name(), fmt::join(sizes(), "x"), bytes,
             bytes / result.average_ms * 1e-6, result.average_ms);
}

void TensorOperation::verify(Direction which, Operands& data, const std::vector<Contents>& old, Result& result) const {
  std::int64_t all = 0, checked = 0;
  reference::Comparison worst;
  const std::vector<Memory*> written = data.written();
  for (std::size_t i = 0; i < written.size(); ++i) {
    Memory& memory = *written[i];
    const reference::Tensor& tensor = memory.operand.tensor;
    memory.buffer().download();
    std::vector<std::int64_t> sample;
    if (run_.verify == 1 && tensor.count() > kFullCount) sample = reference::sample_indices(tensor, kSamples);
    const reference::Result wanted = expected(which, data, {old[i].data(), sample, memory.operand.name});
    const auto compared = static_cast<std::int64_t>(wanted.value.size());
    if (compared == tensor.count()) sample.clear();  // the reference cannot sample
    worst = merged(
        worst, reference::compare(arithmetic_of(which, memory.operand.name), tensor, memory.host(), wanted, sample));
    all += tensor.count();
    checked += compared;
  }
  result.set_comparison(title(which), all, checked, worst);
}

}  // namespace polymio::driver
