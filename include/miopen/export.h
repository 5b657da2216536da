// Symbol visibility of the public functions: the library is built with hidden visibility.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_EXPORT_H_
#define MIOPEN_EXPORT_H_

#if defined(__GNUC__)
#define MIOPEN_EXPORT __attribute__((visibility("default")))
#define MIOPEN_NO_EXPORT __attribute__((visibility("hidden")))
#else
#define MIOPEN_EXPORT
#define MIOPEN_NO_EXPORT
#endif

#endif  // MIOPEN_EXPORT_H_
