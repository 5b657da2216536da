// The API fuzzer's calls about handles, devices, memory, settings, databases and packs.
// SPDX-License-Identifier: MIT
#include <cmath>
#include <cstdlib>
#include <fstream>

#include "fuzz/api.h"

namespace polymio::fuzz {
namespace {

const std::vector<std::size_t> kNoSizes{0, 7, 9, 13, SIZE_MAX, SIZE_MAX - 7};

// Handles.

void create(World& w) {
  if (w.count(Kind::kHandle) > 2) return;
  Draw d(w);
  miopenHandle_t h = nullptr;
  if (d.check(miopenCreate(d.pointer(&h)))) w.created(Kind::kHandle, h);
}

void create_with_stream(World& w) {
  if (w.count(Kind::kHandle) > 2) return;
  Draw d(w);
  miopenHandle_t h = nullptr;
  int queue = 0;
  miopenAcceleratorQueue_t stream = nullptr;
  if (d.wrong()) {  // the CPU has streams of the HIP layer only
    stream = reinterpret_cast<miopenAcceleratorQueue_t>(&queue);
    d.bad();
  }
  if (d.check(miopenCreateWithStream(d.pointer(&h), stream))) w.created(Kind::kHandle, h);
}

void create_on_device(World& w) {
  if (w.count(Kind::kHandle) > 2) return;
  Draw d(w);
  miopenHandle_t h = nullptr;
  std::string name = "cpu";
  if (d.wrong()) {
    name = d.random().pick<std::string>({"", "abacus:3", "cpu:7", "CPU ", "cpu\"", std::string(5000, 'x')});
    d.refuse({kBad, miopenStatusNotInitialized});
  }
  auto* const to = d.pointer(&h);
  if (d.check(polymioCreateOnDevice(to, d.pointer(name.c_str())))) w.created(Kind::kHandle, h);
}

void create_collector(World& w) {
  Draw d(w);
  miopenHandle_t h = nullptr;
  auto* const to = d.pointer(&h);
  if (!d.check(polymioCreateCollector(to))) return;
  if (miopenDestroy(h) != kOk) w.report("a collector cannot be destroyed");
}

void destroy(World& w) {
  Draw d(w);
  const auto h = d.object<miopenHandle_t>(Kind::kHandle);
  if (d.check(miopenDestroy(h))) w.destroyed(Kind::kHandle, h);
}

void set_stream(World& w) {
  Draw d(w);
  int queue = 0;
  miopenAcceleratorQueue_t stream = nullptr;
  if (d.wrong()) {
    stream = reinterpret_cast<miopenAcceleratorQueue_t>(&queue);
    d.bad();
  }
  d.check(miopenSetStream(d.object<miopenHandle_t>(Kind::kHandle), stream));
}

/// A value of a handle, by the function that reads it.
template <class T>
void get(World& w, Status (*function)(miopenHandle_t, T*)) {
  Draw d(w);
  const auto h = d.object<miopenHandle_t>(Kind::kHandle);
  T value{};
  d.check(function(h, d.pointer(&value)));
}

/// A setting of a handle that accepts any of `right`: sets, reads and restores it.
template <class T>
void set(World& w, Status (*function)(miopenHandle_t, T), Status (*read)(miopenHandle_t, T*),
         const std::vector<T>& right, const std::vector<T>& wrong) {
  Draw d(w);
  const auto h = d.object<miopenHandle_t>(Kind::kHandle);
  T before{}, after{}, value = d.random().pick(right);
  if (!wrong.empty() && d.wrong()) {
    value = d.random().pick(wrong);
    d.bad();
  }
  if (d.clean()) read(h, &before);
  if (!d.check(function(h, value))) return;
  if (read(h, &after) != kOk || !(after == value)) w.report("the setting is not what was set");
  if (function(h, before) != kOk) w.report("the setting cannot be put back");
}

void* allocate(void* context, std::size_t bytes) {
  return context || bytes > SIZE_MAX / 2 ? nullptr : ::operator new (bytes, std::align_val_t{64}, std::nothrow);
}
void release(void*, void* memory) { ::operator delete (memory, std::align_val_t{64}); }

void set_allocator(World& w) {
  Draw d(w);
  const auto h = d.object<miopenHandle_t>(Kind::kHandle);
  const miopenAllocatorFunction a = d.random().one_in(2) ? allocate : nullptr;
  const miopenDeallocatorFunction f = d.random().one_in(2) ? release : nullptr;
  if (!d.check(miopenSetAllocator(h, a, f, nullptr))) return;
  // An allocator that fails, for one call.
  int none = 0;
  void* memory = nullptr;
  if (miopenSetAllocator(h, allocate, release, &none) != kOk ||
      polymioMalloc(h, &memory, 100) != miopenStatusAllocFailed || miopenSetAllocator(h, a, f, nullptr) != kOk)
    w.report("an allocator without memory");
}

void set_debug_flag(World& w) {
  Draw d(w);
  // Only the flags that change nothing: other sequences run beside this one.
  const auto flag = d.enumerator<miopenDebugFlag_t>({2, 3}, {4, -1, INT_MAX});
  d.check(miopenSetDebugFlag(flag, d.random().one_in(2)));
}

void get_debug_flag(World& w) {
  Draw d(w);
  const auto flag = d.enumerator<miopenDebugFlag_t>(up_to(3), {4, -1, INT_MAX});
  bool value = false;
  d.check(miopenGetDebugFlag(flag, d.pointer(&value)));
}

void solver_name(World& w) {
  Draw d(w);
  char name[100] = "";
  std::size_t size = sizeof name;
  if (d.wrong()) {
    size = d.random().pick({std::size_t{0}, std::size_t{1}, std::size_t{5}});
    d.bad();
  }
  auto* const to = d.pointer(name);
  d.check(miopenGetSolverName(d.random().pick({std::uint64_t{0}, std::uint64_t{4}, UINT64_MAX}), to, size));
}

void solver_id(World& w) {
  Draw d(w);
  std::uint64_t id = 77;
  const auto name = d.random().pick<std::string>({"ConvCpuGemmFwd", "", "4", std::string(5000, 'x')});
  const char* const given = d.pointer(name.c_str());
  if (d.check(miopenGetSolverIdByName(given, d.pointer(&id))) && id != (name == "ConvCpuGemmFwd" ? 4 : 0))
    w.report("the id is wrong");
}

void allocate_memory(World& w) {
  Draw d(w);
  const auto h = d.object<miopenHandle_t>(Kind::kHandle);
  std::size_t bytes = d.random().pick({std::size_t{0}, std::size_t{1}, std::size_t{100}, std::size_t{70000}});
  if (d.wrong()) {
    bytes = d.random().pick({SIZE_MAX, SIZE_MAX - 100, SIZE_MAX / 2 + 1});
    d.refuse({miopenStatusAllocFailed});
  }
  void* memory = nullptr;
  if (!d.check(polymioMalloc(h, d.pointer(&memory), bytes))) return;
  std::vector<unsigned char> data(bytes), again(bytes);
  for (auto& v : data) v = static_cast<unsigned char>(d.random().bits());
  if (polymioCopy(h, memory, data.data(), bytes, polymioCopyHostToDevice) != kOk ||
      polymioCopy(h, again.data(), memory, bytes, polymioCopyDeviceToHost) != kOk || again != data)
    w.report("memory does not hold what was copied");
  if (polymioFree(h, memory) != kOk) w.report("memory cannot be freed");
}

void free_memory(World& w) {
  Draw d(w);
  const auto right = w.handle();
  void* memory = nullptr;
  polymioMalloc(right, &memory, 64);
  const auto h = d.object(Kind::kHandle, right);
  if (d.random().one_in(4)) {
    d.check(polymioFree(h, nullptr));
    polymioFree(right, memory);
  } else if (!d.check(polymioFree(h, memory))) {
    polymioFree(right, memory);
  }
}

void copy(World& w) {
  Draw d(w);
  const auto h = d.object<miopenHandle_t>(Kind::kHandle);
  Buffer from(w, d.random().below(200), 1), to(w, from.size(), 1);
  for (std::size_t i = 0; i < from.size(); ++i) from.data()[i] = static_cast<unsigned char>(d.random().bits());
  const auto kind = d.enumerator<polymioCopyKind_t>(up_to(2), {3, -1, INT_MAX, INT_MIN});
  if (from.size() == 0) d.allow(kOk);
  void* const dst = d.pointer(static_cast<void*>(to.data()));
  const void* const src = d.pointer(static_cast<const void*>(from.data()));
  if (d.check(polymioCopy(h, dst, src, from.size(), kind)) && d.clean() && from.copy() != to.copy())
    w.report("the copy is another");
}

// Settings.

void run_backwards(void*, std::size_t tasks, void (*task)(void*, std::size_t), void* context) {
  while (tasks-- > 0) task(context, tasks);
}

void set_executor(World& w) {
  Draw d(w);
  const auto h = d.object<miopenHandle_t>(Kind::kHandle);
  d.check(polymioSetExecutor(h, d.random().one_in(2) ? run_backwards : nullptr, nullptr));
}

void set_thread_cap(World& w) {
  Draw d(w);
  const auto h = d.object<miopenHandle_t>(Kind::kHandle);
  int threads = d.random().pick({0, 1, 2, 3});
  if (d.wrong()) {
    threads = d.random().pick({-1, INT_MIN});
    d.bad();
  }
  if (!d.check(polymioSetThreadCap(h, threads))) return;
  int got = -1;
  if (polymioGetThreadCap(h, &got) != kOk || got < 1 || (threads > 0 && got > threads))
    w.report(std::to_string(got) + " threads, the cap is " + std::to_string(threads));
}

// Devices.

/// A struct that begins with its size, sometimes one that no version has, in memory of that size.
template <class T, class Function>
void get_struct(World& w, const Function& function) {
  Draw d(w);
  Buffer memory(w, sizeof(T), alignof(T));
  auto* const info = reinterpret_cast<T*>(memory.data());
  std::size_t size = d.random().one_in(4) ? sizeof(T) / 16 * 8 : sizeof(T);
  if (d.wrong()) {
    size = d.random().pick(kNoSizes);
    d.bad();
  }
  std::memcpy(memory.data(), &size, sizeof size);
  std::memset(memory.data() + sizeof size, 0x5a, sizeof(T) - sizeof size);
  T* const given = d.pointer(info);
  if (!d.check(function(d, given))) return;
  for (std::size_t i = size; i < sizeof(T); ++i)
    if (memory.data()[i] != 0x5a) return w.report("wrote beyond the size of the struct");
}

int device_index(Draw& d) {
  if (!d.wrong()) return 0;
  d.bad();
  return d.random().pick({-1, 100, INT_MAX, INT_MIN});
}

void device_absence(World& w) {
  Draw d(w);
  const auto kind = d.enumerator<polymioDeviceKind_t>({1, 2, 4, 8}, {0, 3, 16, -1, INT_MAX});
  const char* reason = nullptr;
  if (d.check(polymioGetDeviceAbsence(kind, d.pointer(&reason))) && !reason) w.report("no text");
}

void warm(World& w) {
  Draw d(w);
  std::string name = "cpu";
  if (d.wrong()) {
    name = d.random().pick<std::string>({"", "abacus", "abacus-1", "cpu:9", "-", std::string(3000, '-')});
    d.refuse({kBad, miopenStatusNotInitialized, miopenStatusNotImplemented});
  }
  std::size_t programs = 9, compiled = 9;
  auto *const p = d.optional(&programs), *const c = d.optional(&compiled);
  if (!d.check(polymioWarm(d.pointer(name.c_str()), p, c))) return;
  if ((p && programs != 0) || (c && compiled != 0)) w.report("a CPU has no programs");
}

// Databases.

polymioRecord_t record(Random& random, std::size_t size) {
  polymioRecord_t r{};
  r.size = size;
  r.problem = random.pick({"conv -n 1 -c 1 -k 1", "x"});
  r.solver = random.pick({"ConvCpuGemmFwd", "none"});
  r.solver_version = static_cast<int>(random.below(3));
  r.time = 1.5;
  r.tune_point = random.pick({"", "1,2"});
  r.units = r.threads = 2;
  r.kind = static_cast<polymioRecordKind_t>(random.below(7));
  r.family = "family";
  r.log_sizes = random.pick({"", "1,2.5"});
  return r;
}

std::string file_of(World& w) { return w.limits.folder + "/pack.txt"; }

/// Makes fields of a record invalid.
void spoil(Draw& d, polymioRecord_t& r) {
  if (d.wrong()) {
    r.problem = d.random().pick({static_cast<const char*>(nullptr), ""});
    d.bad();
  }
  if (d.wrong()) {
    r.solver = d.random().pick({static_cast<const char*>(nullptr), "", "a b", "\x01"});
    d.bad();
  }
  if (d.wrong()) {
    r.tune_point = nullptr;
    d.bad();
  }
  if (d.wrong()) {
    r.family = nullptr;
    d.bad();
  }
  if (d.wrong()) {
    r.log_sizes = d.random().pick({static_cast<const char*>(nullptr), "1,", "nan", "a", "1e99"});
    d.bad();
  }
  if (d.wrong()) {
    r.time = d.random().pick({-1.0, std::nan(""), HUGE_VAL, 1e306});
    d.bad();
  }
  if (d.wrong()) {
    r.work = d.random().pick({std::nan(""), -HUGE_VAL});
    d.bad();
  }
  if (d.wrong()) {
    d.random().pick({&r.units, &r.threads})[0] = d.random().pick({-1, INT_MIN});
    d.bad();
  }
  const int kind = d.random().pick({-1, 7, INT_MAX});
  if (d.wrong()) {
    std::memcpy(&r.kind, &kind, sizeof kind);
    d.bad();
  }
}

void write_records(World& w) {
  Draw d(w);
  std::size_t size = sizeof(polymioRecord_t);
  if (d.wrong()) {
    size = d.random().pick({std::size_t{0}, std::size_t{8}, sizeof(polymioRecord_t) + 1, SIZE_MAX - 7});
    d.bad();
  }
  std::vector<polymioRecord_t> records;
  for (std::uint64_t i = d.random().between(1, 3); i > 0; --i) records.push_back(record(d.random(), size));
  spoil(d, records[d.random().below(records.size())]);
  const std::string file = file_of(w);
  const char* const path = d.pointer(file.c_str());
  d.check(polymioWriteRecords(path, d.pointer(records.data()), records.size()));
}

/// Counts lines; ends the reading at the third.
int visit(void* context, std::size_t, const char* text, const polymioRecord_t* record) {
  auto& lines = *static_cast<std::size_t*>(context);
  lines += std::strlen(text) < SIZE_MAX && (!record || record->size == sizeof *record);
  return lines >= 3;
}

/// The name of a pack.
std::string right_pack(Draw& d) {
  const std::string file = file_of(d.world());
  auto r = record(d.random(), sizeof(polymioRecord_t));
  r.kind = polymioRecordMeasured;  // a pack needs results
  if (polymioWriteRecords(file.c_str(), &r, 1) != kOk)
    d.world().report(std::string("a pack cannot be written: ") + polymioGetLastError());
  return file;
}

/// The same, or the name of a file that is not a pack.
std::string pack(Draw& d) {
  const std::string file = right_pack(d);
  if (!d.wrong()) return file;
  d.bad();
  return d.random().pick<std::string>({d.world().limits.folder + "/none", "", d.world().limits.folder});
}

void read_records(World& w) {
  Draw d(w);
  const std::string file = pack(d);
  std::size_t lines = 0;
  const char* const path = d.pointer(file.c_str());
  polymioRecordVisitor visitor = visit;
  if (d.wrong()) {
    visitor = nullptr;
    d.bad();
  }
  d.check(polymioReadRecords(path, visitor, &lines));
}

void load_pack(World& w) {
  Draw d(w);
  const std::string file = pack(d);
  const char* architecture = "fuzz";
  if (d.wrong()) {
    architecture = d.random().pick({static_cast<const char*>(nullptr), ""});
    d.bad();
  }
  d.check(polymioLoadPack(architecture, d.pointer(file.c_str())));
}

void load_pack_from_memory(World& w) {
  Draw d(w);
  std::ifstream in(right_pack(d));
  std::string text((std::istreambuf_iterator<char>(in)), {});
  if (text.empty() && d.clean()) w.report("the pack is empty");
  if (d.wrong()) {
    text = "this is no pack";
    d.bad();
  }
  const char* architecture = "fuzz";
  if (d.wrong()) {
    architecture = d.random().pick({static_cast<const char*>(nullptr), ""});
    d.bad();
  }
  Buffer data(w, text.size(), 1);
  std::copy(text.begin(), text.end(), data.data());
  d.check(polymioLoadPackFromMemory(architecture, d.pointer(static_cast<const void*>(data.data())), text.size()));
}

// Functions without a handle.

void error_string(World& w) {
  Draw d(w);
  const int number = d.random().pick({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, -1, INT_MAX, INT_MIN});
  miopenStatus_t status;
  std::memcpy(&status, &number, sizeof status);
  const char* const text = miopenGetErrorString(status);
  const bool known = number >= 0 && number <= 10;
  if (!text || (std::strncmp(text, "miopenStatus", 12) == 0) != known) w.report("a wrong name");
  d.check(kOk);
}

template <Status (*kGet)(std::size_t*, std::size_t*, std::size_t*)>
void version(World& w) {
  Draw d(w);
  std::size_t v[3];
  d.check(kGet(d.optional(&v[0]), d.optional(&v[1]), d.optional(&v[2])));
}

template <const char* (*kGet)()>
void text(World& w) {
  Draw d(w);
  if (!kGet()) w.report("no text");
  d.check(kOk);
}

Registration g_entries[] = {
    {"miopenGetErrorString", error_string},
    {"miopenGetVersion", version<miopenGetVersion>},
    {"polymioGetVersion", version<polymioGetVersion>},
    {"polymioGetLastError", text<polymioGetLastError>},
    {"polymioGetLastFindReport", text<polymioGetLastFindReport>},
    {"polymioGetLastExplanation", text<polymioGetLastExplanation>},
    {"polymioSetExplaining",
     [](World& w) {
       Draw d(w);
       d.check(polymioSetExplaining(static_cast<int>(w.random.below(2))));
     }},
    {"miopenCreate", create},
    {"miopenCreateWithStream", create_with_stream},
    {"polymioCreateOnDevice", create_on_device},
    {"polymioCreateCollector", create_collector},
    {"miopenDestroy", destroy},
    {"miopenSetStream", set_stream},
    {"miopenGetStream", [](World& w) { get(w, miopenGetStream); }},
    {"miopenSetAllocator", set_allocator},
    {"miopenSetTuningPolicy",
     [](World& w) {
       set<miopenTuningPolicy_t>(w, miopenSetTuningPolicy, miopenGetTuningPolicy,
                                 {miopenTuningPolicyDbUpdate, miopenTuningPolicySearch, miopenTuningPolicyDbClean},
                                 {static_cast<miopenTuningPolicy_t>(0), static_cast<miopenTuningPolicy_t>(6)});
     }},
    {"miopenGetTuningPolicy", [](World& w) { get(w, miopenGetTuningPolicy); }},
    {"miopenSetDebugFlag", set_debug_flag},
    {"miopenGetDebugFlag", get_debug_flag},
    {"miopenGetSolverName", solver_name},
    {"miopenGetSolverIdByName", solver_id},
    {"miopenGetKernelTime", [](World& w) { get(w, miopenGetKernelTime); }},
    {"miopenEnableProfiling",
     [](World& w) {
       Draw d(w);
       d.check(miopenEnableProfiling(d.object<miopenHandle_t>(Kind::kHandle), d.random().one_in(2)));
     }},
    {"polymioMalloc", allocate_memory},
    {"polymioFree", free_memory},
    {"polymioCopy", copy},
    {"polymioSynchronize",
     [](World& w) {
       Draw d(w);
       d.check(polymioSynchronize(d.object<miopenHandle_t>(Kind::kHandle)));
     }},
    {"polymioSetExecutor", set_executor},
    {"polymioSetThreadCap", set_thread_cap},
    {"polymioGetThreadCap", [](World& w) { get(w, polymioGetThreadCap); }},
    {"polymioSetWorkspaceLimit",
     [](World& w) {
       set<std::size_t>(w, polymioSetWorkspaceLimit, polymioGetWorkspaceLimit, {0, 1, 1000, SIZE_MAX}, {});
     }},
    {"polymioGetWorkspaceLimit", [](World& w) { get(w, polymioGetWorkspaceLimit); }},
    {"polymioSetFindBudget",
     [](World& w) {
       set<double>(w, polymioSetFindBudget, polymioGetFindBudget, {0, 0.5, 1000},
                   {-1, std::nan(""), HUGE_VAL, -HUGE_VAL});
     }},
    {"polymioGetFindBudget", [](World& w) { get(w, polymioGetFindBudget); }},
    {"polymioSetTuneWhileRunning",
     [](World& w) {
       Draw d(w);
       d.check(polymioSetTuneWhileRunning(d.object<miopenHandle_t>(Kind::kHandle), d.random().pick({0, 1, -1})));
     }},
    {"polymioSetTuningCallback",
     [](World& w) {
       Draw d(w);
       const auto go_on = [](void*, const polymioTuningProgress_t*) { return 0; };
       const auto h = d.object<miopenHandle_t>(Kind::kHandle);
       d.check(polymioSetTuningCallback(h, d.random().one_in(2) ? +go_on : nullptr, nullptr));
     }},
    {"polymioGetDeviceCount",
     [](World& w) {
       Draw d(w);
       int count = 0;
       if (d.check(polymioGetDeviceCount(d.pointer(&count))) && count < 1) w.report("no device");
     }},
    {"polymioGetDeviceInfo",
     [](World& w) {
       get_struct<polymioDeviceInfo_t>(w, [](Draw& d, auto* i) { return polymioGetDeviceInfo(device_index(d), i); });
     }},
    {"polymioGetHandleDevice",
     [](World& w) {
       get_struct<polymioDeviceInfo_t>(
           w, [](Draw& d, auto* i) { return polymioGetHandleDevice(d.object<miopenHandle_t>(Kind::kHandle), i); });
     }},
    {"polymioMeasureDevice",
     [](World& w) {
       if (!w.random.one_in(8)) return;  // slow
       get_struct<polymioDevicePeak_t>(
           w, [](Draw& d, auto* p) { return polymioMeasureDevice(d.object<miopenHandle_t>(Kind::kHandle), p); });
     }},
    {"polymioGetMatrixLibrary",
     [](World& w) {
       Draw d(w);
       const char* name = nullptr;
       const int index = device_index(d);
       d.check(polymioGetMatrixLibrary(index, d.pointer(&name)));
     }},
    {"polymioGetDeviceAbsence", device_absence},
    {"polymioWarm", warm},
    {"polymioReadRecords", read_records},
    {"polymioWriteRecords", write_records},
    {"polymioLoadPack", load_pack},
    {"polymioLoadPackFromMemory", load_pack_from_memory},
};

}  // namespace
}  // namespace polymio::fuzz
