// The machine's measured peak, which estimates rest on: measured once, kept in the database.
// SPDX-License-Identifier: MIT
#pragma once
#include "core/handle.h"

namespace polymio::search {

/// Sees to it that handle.device() is calibrated: from the database, else by a measurement of less than 50
/// ms; under a find budget that runs in the background and nominal values serve until then.
void ensure_calibrated(Handle&);

}  // namespace polymio::search
