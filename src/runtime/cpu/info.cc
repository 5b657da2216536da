// Describes this machine's CPU: model, caches, usable cores, instruction set, speed by number of threads.
// SPDX-License-Identifier: MIT
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <deque>
#include <map>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/built_isas.h"
#include "base/env.h"
#include "base/log.h"
#include "base/process_mutex.h"
#include "runtime/cpu/cpu.h"

namespace polymio::cpu {
namespace {

#if defined(__x86_64__)
std::string model_name() {
  unsigned regs[12] = {};
  for (unsigned leaf = 0; leaf < 3; ++leaf)
    __get_cpuid(0x80000002u + leaf, &regs[4 * leaf], &regs[4 * leaf + 1], &regs[4 * leaf + 2], &regs[4 * leaf + 3]);
  std::string name(reinterpret_cast<const char*>(regs), sizeof regs);
  name = name.substr(0, name.find('\0'));
  const auto first = name.find_first_not_of(' ');
  return first == std::string::npos ? "x86-64" : name.substr(first);
}

/// "intel-6-207": vendor, family and model. Kernel performance is recorded per microarchitecture.
std::string microarchitecture() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  char vendor_id[13] = {};
  __get_cpuid(0, &a, reinterpret_cast<unsigned*>(vendor_id), reinterpret_cast<unsigned*>(vendor_id + 8),
              reinterpret_cast<unsigned*>(vendor_id + 4));
  __get_cpuid(1, &a, &b, &c, &d);
  const unsigned base_family = (a >> 8) & 15, family = base_family + (base_family == 15 ? (a >> 20) & 255 : 0);
  const unsigned model = ((a >> 4) & 15) | ((a >> 12) & 0xf0);
  const std::string text = vendor_id;
  const std::string vendor = text == "GenuineIntel" ? "intel" : text == "AuthenticAMD" ? "amd" : "x86";
  return vendor + "-" + std::to_string(family) + "-" + std::to_string(model);
}

/// Requests, once, the permission of Linux to use AMX tile registers; whether it is granted.
bool tiles_granted() {
  constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, the state component
  static const bool granted = syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
  return granted;
}
#else
std::string model_name() { return "generic CPU"; }
std::string microarchitecture() { return "generic"; }
bool tiles_granted() { return false; }
#endif

constexpr const char* kIsaNames[] = {"generic", "avx2", "avx512", "avx512_bf16", "avx512_amx"};  // by CpuIsa

/// The best instruction set up to `most` that the CPU supports and kernels were built for.
CpuIsa best_isa(CpuIsa most = CpuIsa::kAvx512Amx) {
#define CHOOSE(id, name, here) \
  if (CpuIsa::id <= most && (here)) return CpuIsa::id;
  POLYMIO_BUILT_ISAS(CHOOSE)
#undef CHOOSE
  return CpuIsa::kGeneric;
}

/// The same, limited to what Linux permits.
CpuIsa granted_isa(CpuIsa most = CpuIsa::kAvx512Amx) {
  const CpuIsa best = best_isa(most);
  return best < CpuIsa::kAvx512Amx || tiles_granted() ? best : best_isa(CpuIsa::kAvx512Bf16);
}

CpuIsa usable_isa() {
  auto cap = env::text(env::kCpuIsa);
  if (!cap || *cap == "best") return granted_isa();
  std::transform(cap->begin(), cap->end(), cap->begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (std::size_t i = 0; i < std::size(kIsaNames); ++i)
    if (*cap == kIsaNames[i]) return granted_isa(static_cast<CpuIsa>(i));
  log::warn_once(env::kCpuIsa.name,
                 "{}={} is unknown (generic, avx2, avx512, avx512_bf16, avx512_amx, best); using best",
                 env::kCpuIsa.name, *cap);
  return granted_isa();
}

std::size_t cache_size(int name, std::size_t fallback) {
  const long bytes = sysconf(name);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : fallback;
}

int usable_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1L, sysconf(_SC_NPROCESSORS_ONLN));
}

/// Estimates before calibration: two FMA ports at 2.5 GHz (3 GHz for narrower vectors); about eight cores saturate the
/// memory bandwidth.
void set_nominal(DeviceInfo& d) {
  const double core_gflops = d.isa >= CpuIsa::kAvx512 ? 160 : d.isa == CpuIsa::kAvx2 ? 96 : 24;
  const int cores = std::min(d.threads, d.units);
  d.fp32_gflops = core_gflops * cores;
  d.bandwidth_gbs = 12.0 * std::min(cores, 8);
}

DeviceInfo detect() {
  DeviceInfo d;
  d.name = "cpu";
  d.model = model_name();
  d.isa = usable_isa();
  d.architecture = "cpu-" + microarchitecture();
  if (d.isa != best_isa()) d.architecture += std::string("-") + kIsaNames[static_cast<int>(d.isa)];
  d.units = usable_cores();
  d.memory_bytes = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  d.cache_bytes = {cache_size(_SC_LEVEL1_DCACHE_SIZE, 32u << 10), cache_size(_SC_LEVEL2_CACHE_SIZE, 1u << 20),
                   cache_size(_SC_LEVEL3_CACHE_SIZE, 8u << 20)};
  d.threads = d.units;
  set_nominal(d);
  return d;
}

/// Descriptions are never moved or freed: callers keep references.
struct Table {
  ProcessMutex mutex;
  std::deque<DeviceInfo> descriptions;
  std::map<int, InfoSlot> slots;

  void publish(const DeviceInfo& d) { slots[d.threads] = &descriptions.emplace_back(d); }
};
Table& table = *new Table;  // never destroyed: streams may outlive static objects

}  // namespace

const DeviceInfo& info() {
  static const DeviceInfo device = detect();
  return device;
}

InfoSlot& info_slot(int threads) {
  DeviceInfo device = info();
  device.threads = threads;
  set_nominal(device);
  const std::scoped_lock lock(table.mutex);
  if (!table.slots.contains(threads)) table.publish(device);
  return table.slots[threads];
}

void calibrate(const DevicePeak& peak) {
  const auto plausible = [](double v) { return v > 0 && std::isfinite(v); };
  if (peak.threads < 1 || !plausible(peak.fp32_gflops) || !plausible(peak.bandwidth_gbs)) return;
  DeviceInfo device = *info_slot(peak.threads).load();
  device.fp32_gflops = peak.fp32_gflops;
  device.bandwidth_gbs = peak.bandwidth_gbs;
  device.calibrated = true;
  const std::scoped_lock lock(table.mutex);
  table.publish(device);
}

}  // namespace polymio::cpu
