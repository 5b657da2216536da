// An NVRTC whose programs are their sources, for the driver of fake_cuda.cc. Built as libnvrtc.so.13. With
// FAKE_CUDA=compile every program has an error, with FAKE_CUDA=spill or serial a warning, with FAKE_CUDA=verbose a
// report of no spills.
// SPDX-License-Identifier: MIT
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr char kLog[] = "kernel.cl(7): error: identifier \"oops\" is undefined";

constexpr char kWarning[] = "ptxas warning : Registers are spilled to local memory in function 'f', 80 bytes";

constexpr char kSerial[] =
    "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized in function 'f'";
constexpr char kVerbose[] =
    "ptxas info    : Function properties for f\n"
    "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    "ptxas info    : Used 10 registers, used 0 barriers";

std::atomic<int> compilations = 0;

bool in_mode(const char* name) {
  const char* mode = std::getenv("FAKE_CUDA");
  return mode && std::strcmp(mode, name) == 0;
}
bool fails() { return in_mode("compile"); }
std::string said() {
  return fails()              ? kLog
         : in_mode("spill")   ? kWarning
         : in_mode("serial")  ? kSerial
         : in_mode("verbose") ? kVerbose
                              : "";
}
std::string& text(void* program) { return *static_cast<std::string*>(program); }

}  // namespace

extern "C" {
int nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 99;
  return 0;
}
int nvrtcCreateProgram(void** p, const char* source, const char*, int, const char* const*, const char* const*) {
  *p = new std::string(source);
  return 0;
}
int nvrtcCompileProgram(void*, int, const char* const*) {
  ++compilations;
  return fails() ? 6 : 0;
}
int nvrtcGetCUBINSize(void* p, std::size_t* n) {
  *n = text(p).size();
  return 0;
}
int nvrtcGetCUBIN(void* p, char* out) {
  std::memcpy(out, text(p).data(), text(p).size());
  return 0;
}
int nvrtcGetProgramLogSize(void*, std::size_t* n) {
  *n = said().size() + 1;
  return 0;
}
int nvrtcGetProgramLog(void*, char* out) {
  std::memcpy(out, said().c_str(), said().size() + 1);
  return 0;
}
int nvrtcDestroyProgram(void** p) { return delete &text(*p), *p = nullptr, 0; }

/// Programs compiled so far.
int fake_compilations() { return compilations; }
}
