// The level of the MIOpen API that these headers describe. The version of the library itself is
// given by polymioGetVersion (polymio.h).
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_VERSION_H_
#define MIOPEN_VERSION_H_

/// @{
/// The level of the MIOpen API.
#define MIOPEN_VERSION_MAJOR 3
#define MIOPEN_VERSION_MINOR 5
#define MIOPEN_VERSION_PATCH 2
/// The build, for log lines. It carries no meaning here.
#define MIOPEN_VERSION_TWEAK 0

/// @}

#endif  // MIOPEN_VERSION_H_
