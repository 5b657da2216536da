// The place of this header in older releases.
// SPDX-License-Identifier: MIT
#ifndef ROCBLAS_H
#define ROCBLAS_H

#include <rocblas/rocblas.h>

#endif  // ROCBLAS_H
