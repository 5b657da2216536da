// SPDX-License-Identifier: MIT
#include "search/calibrate.h"

#include "base/log.h"
#include "db/find_db.h"

namespace polymio::search {
namespace {

void measure_and_store(Stream& stream) {
  const DevicePeak peak = stream.quick_peak();
  log::info("this device: {:.0f} GFLOP/s fp32, {:.1f} GB/s with {} threads", peak.fp32_gflops, peak.bandwidth_gbs,
            peak.threads);
  stream.calibrate(peak);
  find_db(stream.info().architecture)
      .store(Calibration{stream.info().units, peak.threads, peak.fp32_gflops, peak.bandwidth_gbs});
}

}  // namespace

void ensure_calibrated(Handle& handle) {
  Stream& stream = handle.stream();
  const DeviceInfo& device = stream.info();
  if (device.calibrated) return;
  if (const auto known = find_db(device.architecture).calibration(device.units, device.threads)) {
    stream.calibrate({known->fp32_gflops, known->bandwidth_gbs, known->threads});
    return;
  }
  if (handle.find_budget_us() == 0) return measure_and_store(stream);
  handle.in_background([&stream] { measure_and_store(stream); });
}

}  // namespace polymio::search
