// SPDX-License-Identifier: MIT
#include "runtime/opencl/api.h"

#include "base/dynlib.h"
#include "base/error.h"

namespace polymio::opencl {
namespace {

struct Loaded {
  Api api{};
  DynamicLibrary library{"libOpenCL.so.1"};
  bool complete = true;
  Loaded();

 private:
  template <class Function>
  void need(Function*& function, const char* name) {
    complete = library.find(function, name) && complete;
  }
};

Loaded::Loaded() {
  need(api.platforms, "clGetPlatformIDs");
  need(api.platform_info, "clGetPlatformInfo");
  need(api.devices, "clGetDeviceIDs");
  need(api.device_info, "clGetDeviceInfo");
  need(api.create_context, "clCreateContext");
  need(api.create_queue, "clCreateCommandQueue");
  need(api.retain_queue, "clRetainCommandQueue");
  need(api.release_queue, "clReleaseCommandQueue");
  need(api.queue_info, "clGetCommandQueueInfo");
  need(api.program_of_source, "clCreateProgramWithSource");
  need(api.program_of_binary, "clCreateProgramWithBinary");
  need(api.build, "clBuildProgram");
  need(api.build_info, "clGetProgramBuildInfo");
  need(api.program_info, "clGetProgramInfo");
  need(api.release_program, "clReleaseProgram");
  need(api.create_function, "clCreateKernel");
  need(api.release_function, "clReleaseKernel");
  need(api.set_argument, "clSetKernelArg");
  need(api.launch, "clEnqueueNDRangeKernel");
  need(api.flush, "clFlush");
  need(api.finish, "clFinish");
  need(api.marker, "clEnqueueMarkerWithWaitList");
  need(api.barrier, "clEnqueueBarrierWithWaitList");
  need(api.wait, "clWaitForEvents");
  need(api.event_info, "clGetEventInfo");
  need(api.profile, "clGetEventProfilingInfo");
  need(api.release_event, "clReleaseEvent");
  need(api.create_buffer, "clCreateBuffer");
  need(api.release_memory, "clReleaseMemObject");
  need(api.read, "clEnqueueReadBuffer");
  need(api.write, "clEnqueueWriteBuffer");
  need(api.fill, "clEnqueueFillBuffer");
  need(api.copy, "clEnqueueCopyBuffer");
  // SVM, OpenCL 2.0: all functions or none.
  if (!library.find(api.set_pointer, "clSetKernelArgSVMPointer") || !library.find(api.svm_free, "clSVMFree") ||
      !library.find(api.svm_copy, "clEnqueueSVMMemcpy") || !library.find(api.svm_fill, "clEnqueueSVMMemFill") ||
      !library.find(api.svm_allocate, "clSVMAlloc"))
    api.svm_allocate = nullptr;
}

}  // namespace

const Api* api(std::string& problem) {
  static Loaded& loaded = *new Loaded;  // never destroyed: streams may outlive static objects
  if (loaded.complete) return &loaded.api;
  problem = "no OpenCL: " + loaded.library.problem();
  return nullptr;
}

void check(Code code, const char* what) {
  if (code == 0) return;
  const bool memory = code == kNoMemory || code == kNoResources || code == kNoHostMemory;
  fail(memory ? Status::kAllocFailed : Status::kInternalError, "{}: OpenCL error {}{}", what, code,
       memory ? ", out of memory" : "");
}

}  // namespace polymio::opencl
