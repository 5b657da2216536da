// The machine's measured peak (GFLOP/s, GB/s), an input of all estimates: measured once, stored in the database.
// SPDX-License-Identifier: MIT
#pragma once
#include "core/handle.h"

namespace polymio::search {

/// Calibrates handle.device() from the database, else by a measurement of less than 50 ms. Under a find budget nothing
/// is measured and the nominal values stay.
void ensure_calibrated(Handle&);

/// Calibrates in the background, on threads of its own, if the device is not calibrated yet.
void calibrate_later(Handle&);

}  // namespace polymio::search
