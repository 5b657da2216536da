// SPDX-License-Identifier: MIT
#include "core/kernel_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <map>
#include <set>
#include <string_view>
#include <thread>

#include "base/env.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/process_mutex.h"
#include "base/threads.h"
#include "core/kernel_sources.h"
#include "db/kernel_cache.h"
#include "db/text_file.h"

namespace polymio {
namespace {

std::string raw_source(const std::string& path) {
  if (const auto folder = env::text(env::kKernelDir)) {
    std::string text;
    const std::string file = *folder + "/" + path;
    if (const int error = read_file(file, text); error != 0)
      fail(Status::kInternalError, "{}: cannot read {}: {}", env::kKernelDir.name, file, file_error(error));
    return text;
  }
  for (const KernelSource& s : embedded_sources())
    if (path == s.path) return s.text;
  fail(Status::kInternalError, "there is no kernel source {}", path);
}

/// Appends the source with its includes expanded in place, each once.
void expand(const std::string& path, std::set<std::string>& seen, std::string& out) {
  if (!seen.insert(path).second) return;
  constexpr std::string_view kInclude = "#include \"";
  each_line(raw_source(path), [&](std::string_view line) {
    if (line.starts_with(kInclude))
      expand(std::string(line.substr(kInclude.size(), line.rfind('"') - kInclude.size())), seen, out);
    else if (line != "#pragma once")
      out.append(line) += '\n';
  });
}

/// What a spec adds to its source: the entry point of a kernel that is a template (kernels/gpu/sm90/entry.cuh).
std::string entry_point(const KernelSpec& spec) {
  if (spec.instantiation.empty()) return "";
  return fmt::format("ENTRY_POINT({}, {})\n", spec.entry, spec.instantiation);
}

std::string program_source(const KernelSpec& spec) {
  return spec.generated + kernel_source(spec.source) + entry_point(spec);
}

/// A hash of everything that the compiled program depends on: its file name in the cache.
std::string key_of(const std::string& identity, const KernelSpec& spec, const std::string& source) {
  const std::string text = fmt::format("{}\n{}\n{}", identity, fmt::join(spec.options, "\n"), source);
  return fmt::format("{:016x}{:016x}", content_hash(text), content_hash(text + "2"));
}

/// Loaded modules by context and key. Per process: a forked child cannot use modules of its parent's context.
struct Modules {
  ProcessMutex mutex;
  std::map<std::string, std::shared_ptr<Module>> loaded;
};
Modules& modules = *new Modules;

/// The cache key of what the compiler noted about a program.
std::string notes_key(const std::string& key) { return key + "n"; }

/// Whether this line of a compiler's log says that the program is slow: registers are spilled, or, with a number from
/// C7500 to C7599, matrix products of a warpgroup are serialised or its register counts are not as asked for.
bool is_note(std::string_view line) {
  constexpr std::string_view kNoSpill = ", 0 bytes spill stores, 0 bytes spill loads";  // of --ptxas-options=-v
  const bool spills = line.find("spill") != std::string_view::npos && line.find(kNoSpill) == std::string_view::npos;
  return spills || line.find("(C75") != std::string_view::npos;
}

/// Templates have instantiations that do not spill, so that one that does is not worth a run.
bool must_be_clean(const KernelSpec& spec) { return !spec.instantiation.empty(); }
[[noreturn]] void refuse(const KernelSpec& spec, const std::string& notes) {
  fail(Status::kInternalError, "{} is not used, since it would be slow:\n{}", program_name(spec), notes);
}

/// The program; InternalError if it is refused.
std::string compile_source(const Compiler& compiler, const KernelSpec& spec, const std::string& source,
                           const std::string& key, KernelCache& cache) {
  if (must_be_clean(spec))
    if (const auto known = cache.load(notes_key(key))) refuse(spec, *known);
  std::string log, notes;
  const auto start = std::chrono::steady_clock::now();
  std::string program = compiler.compile(source, spec.options, log);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  log::info("compiled {} by {} in {:.0f} ms", program_name(spec), compiler.identity(), took.count());
  if (log.size() > 1) log::detail("{}", log);
  each_line(log, [&](std::string_view line) {
    if (is_note(line)) notes.append(notes.empty() ? "" : "\n").append(line);
  });
  if (notes.empty()) return program;
  cache.store(notes_key(key), notes);
  if (must_be_clean(spec)) refuse(spec, notes);
  return program;
}

constexpr std::chrono::seconds kPatience{30};  // longest wait for another process that compiles the same program

class Builder {
 public:
  explicit Builder(Stream& stream) : stream_(stream), cache_(KernelCache::default_folder()) {}

  std::shared_ptr<Module> module(const KernelSpec& spec) {
    const std::string source = program_source(spec);
    const std::string key = key_of(stream_.compiler().identity(), spec, source);
    const std::string name = fmt::format("{} {}", stream_.context(), key);
    if (auto known = find(name)) return known;
    if (stream_.capturing())
      fail(Status::kNotInitialized, "{} is not compiled and the stream is being captured: call polymioPrepare before",
           spec.entry);
    // One process compiles, the others read its file.
    auto program = cache_.load(key);
    if (program) {
      if (auto made = stream_.load(*program)) return keep(name, std::move(made));
      cache_.drop(key);
    }
    const KeyLock lock = cache_.lock(key, kPatience);
    if (lock.waited()) {
      if (auto known = find(name)) return known;
      program = cache_.load(key);
      if (program)
        if (auto made = stream_.load(*program)) return keep(name, std::move(made));
    }
    return keep(name, compile(spec, source, key));
  }

 private:
  std::shared_ptr<Module> compile(const KernelSpec& spec, const std::string& source, const std::string& key) {
    const std::string program = compile_source(stream_.compiler(), spec, source, key, cache_);
    auto made = stream_.load(program);
    if (!made)
      fail(Status::kInternalError, "{} does not take a program that {} has just made", stream_.info().name,
           stream_.compiler().identity());
    cache_.store(key, program);
    return made;
  }

  static std::shared_ptr<Module> find(const std::string& name) {
    const std::scoped_lock lock(modules.mutex);
    const auto it = modules.loaded.find(name);
    return it == modules.loaded.end() ? nullptr : it->second;
  }

  static std::shared_ptr<Module> keep(const std::string& name, std::shared_ptr<Module> made) {
    const std::scoped_lock lock(modules.mutex);
    return modules.loaded.try_emplace(name, std::move(made)).first->second;
  }

  Stream& stream_;
  KernelCache cache_;
};

}  // namespace

void in_parallel(std::size_t count, FunctionRef<void(std::size_t)> work) {
  std::atomic<std::size_t> next{0};
  std::vector<std::exception_ptr> errors(count);
  const auto loop = [&] {
    for (std::size_t i; (i = next++) < count;) try {
        work(i);
      } catch (...) {
        errors[i] = std::current_exception();
      }
  };
  {
    std::vector<std::jthread> others;
    const std::size_t wanted = std::min(count, compile_threads());
    start_threads(others, std::max<std::size_t>(wanted, 1) - 1, [&](std::size_t) { loop(); });
    loop();
  }
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
}

std::string kernel_source(const std::string& path) {
  std::string text;
  std::set<std::string> seen;
  expand(path, seen, text);
  return text;
}

std::vector<std::string> kernel_programs() {
  std::vector<std::string> paths;
  for (const KernelSource& s : embedded_sources())
    if (const std::string_view path = s.path; path.ends_with(".cl") || path.ends_with(".cu")) paths.emplace_back(path);
  return paths;
}

std::string program_name(const KernelSpec& spec) {
  std::string name = spec.source;
  for (const std::string& option : spec.options) name += ' ' + option;
  if (!spec.generated.empty()) name += fmt::format(" with {:016x}", content_hash(spec.generated));
  return spec.instantiation.empty() ? name : fmt::format("{} {} = {}", name, spec.entry, spec.instantiation);
}

std::vector<KernelSpec> programs_of(SolverList solvers, const DeviceInfo& device, const ProblemBase& problem,
                                    const Constraints& allowed, std::string_view solver, bool all_points) {
  std::vector<KernelSpec> all;
  std::set<std::string> seen;
  for (const SolverBase* s : solvers) {
    if (!std::string_view(s->info().name).starts_with(solver) || !admit(*s, device, problem, allowed)) continue;
    std::vector<TunePoint> points = all_points ? valid_points(*s, device, problem) : std::vector<TunePoint>();
    points.push_back(s->default_point(device, problem));
    for (const TunePoint& point : points)
      for (KernelSpec& spec : s->kernel_specs(device, problem, point))
        if (seen.insert(program_name(spec)).second) all.push_back(std::move(spec));
  }
  return all;
}

std::size_t compile_threads() {
  const auto level =
      env::integer(env::kCompileLevel, 1, 256).value_or(std::max(1u, std::thread::hardware_concurrency()));
  return static_cast<std::size_t>(level);
}

CompiledProgram compile_program(const Compiler& compiler, const KernelSpec& spec) {
  CompiledProgram made;
  made.binary = compiler.compile(program_source(spec), spec.options, made.log);
  return made;
}

Kernels build_kernels(Stream& stream, std::span<const KernelSpec> specs) {
  Builder builder(stream);
  std::map<std::string, std::size_t> programs;  // by name
  std::vector<const KernelSpec*> first;
  for (const KernelSpec& spec : specs)
    if (programs.try_emplace(program_name(spec), first.size()).second) first.push_back(&spec);
  std::vector<std::shared_ptr<Module>> made(first.size());
  in_parallel(first.size(), [&](std::size_t i) { made[i] = builder.module(*first[i]); });
  Kernels kernels;
  for (const KernelSpec& spec : specs) kernels.push_back(made[programs.at(program_name(spec))]->kernel(spec.entry));
  return kernels;
}

const Kernel& SharedKernels::get(Stream& stream, std::uint64_t number, FunctionRef<KernelSpec()> spec) {
  const std::pair key(stream.context(), number);
  {
    const std::scoped_lock lock(mutex_);
    if (const auto it = kernels_.find(key); it != kernels_.end()) return *it->second;
  }
  const KernelSpec wanted = spec();
  auto made = build_kernels(stream, {&wanted, 1});
  const std::scoped_lock lock(mutex_);
  return *kernels_.try_emplace(key, std::move(made[0])).first->second;
}

std::vector<std::string> spill_notes(const Stream& stream, std::span<const KernelSpec> specs) {
  const KernelCache cache(KernelCache::default_folder());
  std::vector<std::string> notes;
  std::string identity;
  try {
    identity = stream.compiler().identity();
  } catch (const Error&) {  // no compiler: nothing was compiled
    return notes;
  }
  for (const KernelSpec& spec : specs) {
    const std::string key = key_of(identity, spec, program_source(spec));
    const auto found = cache.load(notes_key(key));
    if (found && std::find(notes.begin(), notes.end(), *found) == notes.end()) notes.push_back(*found);
  }
  return notes;
}

std::size_t compile_to_disk(const Compiler& compiler, std::span<const KernelSpec> specs) {
  KernelCache cache(KernelCache::default_folder());
  std::atomic<std::size_t> compiled{0};
  in_parallel(specs.size(), [&](std::size_t i) {
    const std::string source = program_source(specs[i]);
    const std::string key = key_of(compiler.identity(), specs[i], source);
    const KeyLock lock = cache.lock(key, kPatience);
    if (cache.load(key)) return;
    cache.store(key, compile_source(compiler, specs[i], source, key, cache));
    ++compiled;
  });
  return compiled;
}

}  // namespace polymio
