// An NVRTC whose programs are their sources, beside the driver of fake_cuda.cc. Built as libnvrtc.so.13. With
// FAKE_CUDA=compile every program has an error.
// SPDX-License-Identifier: MIT
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr char kLog[] = "kernel.cl(7): error: identifier \"oops\" is undefined";

bool fails() {
  const char* mode = std::getenv("FAKE_CUDA");
  return mode && std::strcmp(mode, "compile") == 0;
}
std::string& text(void* program) { return *static_cast<std::string*>(program); }

}  // namespace

extern "C" {
int nvrtcVersion(int* major, int* minor) { return *major = 13, *minor = 99, 0; }
int nvrtcCreateProgram(void** p, const char* source, const char*, int, const char* const*, const char* const*) {
  return *p = new std::string(source), 0;
}
int nvrtcCompileProgram(void*, int, const char* const*) { return fails() ? 6 : 0; }
int nvrtcGetCUBINSize(void* p, std::size_t* n) { return *n = text(p).size(), 0; }
int nvrtcGetCUBIN(void* p, char* out) { return std::memcpy(out, text(p).data(), text(p).size()), 0; }
int nvrtcGetProgramLogSize(void*, std::size_t* n) { return *n = fails() ? sizeof kLog : 0, 0; }
int nvrtcGetProgramLog(void*, char* out) { return std::memcpy(out, kLog, sizeof kLog), 0; }
int nvrtcDestroyProgram(void** p) { return delete &text(*p), *p = nullptr, 0; }
}
