// The C program in C++.
// SPDX-License-Identifier: MIT
#include "header_hip_first.c"
