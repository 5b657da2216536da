// The place of this header in older releases.
// SPDX-License-Identifier: MIT
#ifndef HIPBLAS_H
#define HIPBLAS_H

#include <hipblas/hipblas.h>

#endif  // HIPBLAS_H
