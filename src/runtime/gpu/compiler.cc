// Compiles kernel sources with NVRTC or hipRTC; needs no device.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include "runtime/gpu/driver.h"

namespace polymio::gpu {
namespace {

class RtcCompiler final : public Compiler {
 public:
  RtcCompiler(const RuntimeCompiler& rtc, const std::string& target) : rtc_(rtc), target_(target) {
    int major = 0, minor = 0;
    rtc_.version(&major, &minor);
    identity_ = fmt::format("{} {}.{} {}", rtc.name, major, minor, target);
  }

  std::string identity() const override { return identity_; }

  std::string compile(const std::string& source, const std::vector<std::string>& options,
                      std::string& log) const override {
    const Program program(rtc_, source);
    std::vector<const char*> arguments = {target_.c_str(), "-std=c++17"};
    if (rtc_.spill_option) arguments.push_back(rtc_.spill_option);
    for (const std::string& option : options) arguments.push_back(option.c_str());
    const int code = program.compile(arguments);
    log = text(program, rtc_.log_size, rtc_.log);
    if (code != 0) fail(Status::kInternalError, "{} could not compile a kernel:\n{}", identity_, log);
    return text(program, rtc_.code_size, rtc_.code);
  }

 private:
  struct Program {
    const RuntimeCompiler& rtc;
    void* handle = nullptr;
    Program(const RuntimeCompiler& r, const std::string& source) : rtc(r) {
      if (rtc.create(&handle, source.c_str(), "kernel.cl", 0, nullptr, nullptr) != 0)
        fail(Status::kInternalError, "{} cannot create a program", rtc.name);
    }
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;
    ~Program() {
      void* last = handle;
      rtc.destroy(&last);
    }
    int compile(const std::vector<const char*>& arguments) const {
      return rtc.compile(handle, static_cast<int>(arguments.size()), arguments.data());
    }
  };

  static std::string text(const Program& program, int (*size)(void*, std::size_t*), int (*get)(void*, char*)) {
    std::size_t bytes = 0;
    if (size(program.handle, &bytes) != 0) return "";
    std::string result(bytes, '\0');
    if (bytes > 0 && get(program.handle, result.data()) != 0) return "";
    return result;
  }

  const RuntimeCompiler& rtc_;
  const std::string target_;
  std::string identity_;
};

}  // namespace

std::unique_ptr<Compiler> make_compiler(const RuntimeCompiler& rtc, const std::string& target) {
  return std::make_unique<RtcCompiler>(rtc, target);
}

}  // namespace polymio::gpu
