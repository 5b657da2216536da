// SPDX-License-Identifier: MIT
#include "search/calibrate.h"

#include <filesystem>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/process_mutex.h"
#include "base/threads.h"
#include "db/find_db.h"
#include "db/key_lock.h"

namespace polymio::search {
namespace {

bool take_known(Stream& stream) {
  const DeviceInfo& device = stream.info();
  if (device.calibrated) return true;
  const auto known = find_db(device.architecture).calibration(device.units, device.threads);
  if (known) stream.calibrate({known->fp32_gflops, known->bandwidth_gbs, known->threads});
  return known.has_value();
}

ProcessMutex measuring;

/// Plain threads that end before the call returns, so that a forked child has no half-finished pool.
void run_tasks(void*, std::size_t tasks, void (*task)(void*, std::size_t), void* context) {
  std::vector<std::jthread> threads;
  std::size_t next = 1 + start_threads(threads, tasks - 1, [&](std::size_t i) { task(context, i + 1); });
  for (; next < tasks; ++next) task(context, next);
  task(context, 0);
}

/// Measures on a stream of its own: the handle's executor may be the caller's and may be replaced during the
/// measurement. One measurement at a time on this machine, since concurrent ones would share the cores.
void measure_and_store(const std::string& name, int threads) {
  const std::scoped_lock lock(measuring);
  const auto own = create_stream(name, nullptr);
  own->set_threads(threads);
  own->set_executor(run_tasks, nullptr);
  Stream& stream = *own;
  FindDb& db = find_db(stream.info().architecture);
  const std::filesystem::path file(db.path());
  const KeyLock alone(file.parent_path(), file.filename().string() + " calibration", std::chrono::seconds(1));
  if (take_known(stream)) return;
  const DevicePeak peak = stream.quick_peak();
  log::info("this device: {:.0f} GFLOP/s fp32, {:.1f} GB/s with {} threads", peak.fp32_gflops, peak.bandwidth_gbs,
            peak.threads);
  stream.calibrate(peak);
  db.store(Calibration{stream.info().units, peak.threads, peak.fp32_gflops, peak.bandwidth_gbs});
}

}  // namespace

void ensure_calibrated(Handle& handle) {
  if (!take_known(handle.stream()) && handle.find_budget_us() == 0)
    measure_and_store(handle.device().name, handle.device().threads);
}

void calibrate_later(Handle& handle) {
  const DeviceInfo& device = handle.device();
  if (device.calibrated) return;
  handle.in_background([name = device.name, threads = device.threads] { measure_and_store(name, threads); });
}

}  // namespace polymio::search
