// The machine's measured peak, which estimates rest on: measured once, kept in the database.
// SPDX-License-Identifier: MIT
#pragma once
#include "core/handle.h"

namespace polymio::search {

/// Sees to it that handle.device() is calibrated: from the database, else by a measurement of less than 50
/// ms. Under a find budget nothing is measured here: nominal values serve.
void ensure_calibrated(Handle&);

/// Measures what is missing in the background, on threads of its own.
void calibrate_later(Handle&);

}  // namespace polymio::search
