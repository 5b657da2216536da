// Child processes of 'tune': this program with a share of the problems and of the cores, and JSON lines on stdout.
// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "driver/base/library.h"
#include "driver/tune/work.h"

namespace polymio::driver {
namespace {

constexpr int kPollMs = 200;  // a signal may arrive just before the wait

struct Child {
  pid_t pid = -1;
  int pipe = -1;
  std::string pending;  // an incomplete line
  std::string name;
  bool reported_errors = false;
};

int cores_of(const std::string& device) {
  const Session session(device);
  int threads = 1;
  check(polymioGetThreadCap(session.get(), &threads), "polymioGetThreadCap");
  return threads;
}

std::vector<std::string> child_arguments(const TuneSettings& settings, const std::string& device, Share share) {
  std::vector<std::string> arguments = {"MIOpenDriver", "tune",     "--from-list",
                                        settings.list,  "--device", device,
                                        "--json",       "--share",  fmt::format("{}/{}", share.index, share.count)};
  if (settings.budget > 0) {
    arguments.insert(arguments.end(), {"--budget", fmt::format("{:.3f}s", settings.budget)});
  }
  if (settings.again) arguments.push_back("--again");
  return arguments;
}

// This process's environment with the thread cap; 0: unchanged.
std::vector<std::string> environment(int threads) {
  const std::string name = "POLYMIO_NUM_THREADS=";
  std::vector<std::string> all;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (threads == 0 || !std::string_view(*variable).starts_with(name)) all.push_back(*variable);
  }
  if (threads > 0) all.push_back(name + std::to_string(threads));
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

Child spawn(std::vector<std::string> arguments, int threads, std::string name) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw RunError(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  // Allocate before the fork: other threads may hold the allocator's lock.
  std::vector<std::string> variables = environment(threads);
  const std::vector<char*> argv = pointers(arguments), envp = pointers(variables);
  const pid_t pid = fork();
  if (pid == 0) {
    setpgid(0, 0);  // a terminal sends the interrupt to the parent alone, which forwards it
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(ends[1], STDOUT_FILENO);
    execve("/proc/self/exe", argv.data(), envp.data());
    _exit(127);
  }
  close(ends[1]);
  if (pid < 0) {
    close(ends[0]);
    throw RunError(fmt::format("cannot start a job: {}", std::strerror(errno)));
  }
  return {pid, ends[0], "", std::move(name), false};
}

class Children {
 public:
  ~Children() {
    for (const Child& child : children_) {
      if (child.pipe >= 0) close(child.pipe);
      if (child.pid > 0 && kill(child.pid, SIGKILL) == 0) waitpid(child.pid, nullptr, 0);
    }
  }
  void add(Child child) { children_.push_back(std::move(child)); }

  // Reports the children's rows until all of them have closed their pipe.
  void relay(const TuneReport& report) {
    int forwarded = 0;
    while (true) {
      for (; forwarded < Signals::count(); ++forwarded) {
        for (const Child& child : children_) kill(child.pid, SIGTERM);
      }
      std::vector<pollfd> waits;
      for (const Child& child : children_) waits.push_back({child.pipe, POLLIN, 0});
      if (std::all_of(waits.begin(), waits.end(), [](const pollfd& wait) { return wait.fd < 0; })) return;
      if (poll(waits.data(), waits.size(), kPollMs) < 0) continue;
      for (std::size_t i = 0; i < waits.size(); ++i) {
        if (waits[i].fd >= 0 && waits[i].revents != 0) read_from(children_[i], report);
      }
    }
  }

  // Throws unless every child completed, ran out of time or reported its failures.
  void finish() {
    std::string failures;
    for (Child& child : children_) {
      int status = 0;
      waitpid(child.pid, &status, 0);
      child.pid = -1;
      const bool exited = WIFEXITED(status);
      const int code = exited ? WEXITSTATUS(status) : WTERMSIG(status);
      if (exited && (code == 0 || code == kIncomplete || child.reported_errors)) continue;
      failures += fmt::format("{}{} ended with {} {}", failures.empty() ? "" : "; ", child.name,
                              exited ? "status" : "signal", code);
    }
    if (!failures.empty()) throw RunError("tune: " + failures);
  }

 private:
  static void read_from(Child& child, const TuneReport& report) {
    char part[4096];
    const ssize_t n = read(child.pipe, part, sizeof part);
    if (n < 0 && errno == EINTR) return;
    if (n <= 0) {
      close(std::exchange(child.pipe, -1));
      return;
    }
    child.pending.append(part, static_cast<std::size_t>(n));
    for (std::size_t end; (end = child.pending.find('\n')) != std::string::npos; child.pending.erase(0, end + 1)) {
      const TuneRow row = row_of(nlohmann::json::parse(child.pending.substr(0, end)));
      child.reported_errors = child.reported_errors || !row.error.empty();
      report(row);
    }
  }

  std::vector<Child> children_;
};

}  // namespace

std::map<std::string, std::vector<std::string>> by_class(const std::vector<std::string>& devices) {
  std::map<std::string, std::vector<std::string>> classes;
  for (const std::string& name : devices) {
    const Session session(name);
    classes[session.device.architecture].push_back(session.device.name);
  }
  return classes;
}

void tune_in_children(const TuneSettings& settings, const TuneReport& report) {
  Children children;
  for (const auto& [architecture, devices] : by_class(settings.devices)) {
    const auto jobs = static_cast<std::size_t>(settings.jobs);
    const std::size_t count = devices.size() * jobs;
    for (std::size_t i = 0; i < count; ++i) {
      const std::string& device = devices[i / jobs];
      const Share share{settings.share.index * count + i, settings.share.count * count};
      const int threads = jobs > 1 ? std::max(cores_of(device) / settings.jobs, 1) : 0;
      children.add(
          spawn(child_arguments(settings, device, share), threads, fmt::format("job {} on {}", i % jobs, device)));
    }
  }
  children.relay(report);
  children.finish();
}

}  // namespace polymio::driver
