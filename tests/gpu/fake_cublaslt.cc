// A cuBLASLt that is too old to be used: it hides a real one, which does not work with the driver of fake_cuda.cc.
// Built as libcublasLt.so.13.
// SPDX-License-Identifier: MIT
#include <cstddef>

extern "C" std::size_t cublasLtGetVersion() { return 0; }
