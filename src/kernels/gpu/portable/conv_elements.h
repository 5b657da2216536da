// Elements of a convolution of any types. Options: IN and SECOND (types of the inputs; SECOND is IN where not given),
// OUT; FIRST_CAST and SECOND_CAST (8-bit floats to which the inputs are rounded); DITHERS (rounding to 8-bit floats is
// stochastic, by the seed and the place of the element in its tensor), DITHERS_OUT (that of the result).
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/portable/float8.h"

#ifndef SECOND
#define SECOND IN
#endif
#ifdef DITHERS
#define CAST(type, v, i, seed) PASTE(dithered_, type)((float)(v), seed, i)
#else
#define CAST(type, v, i, seed) PASTE(rounded_, type)(v)
#endif

// Element i of an input. The seeds of the tensors differ as in definition.cc.
#ifdef FIRST_CAST
#define LOAD_FIRST(p, i, seed) CAST(FIRST_CAST, LOAD(IN, p, i), i, (seed) + 1)
#else
#define LOAD_FIRST(p, i, seed) LOAD(IN, p, i)
#endif
#ifdef SECOND_CAST
#define LOAD_SECOND(p, i, seed) CAST(SECOND_CAST, LOAD(SECOND, p, i), i, (seed) + 2)
#else
#define LOAD_SECOND(p, i, seed) LOAD(SECOND, p, i)
#endif

#ifdef DITHERS_OUT
#define STORE_OUT(p, i, v, seed) PASTE(store_dithered_, OUT)(p, i, (float)(v), seed)
#else
#define STORE_OUT(p, i, v, seed) STORE(OUT, p, i, v)
#endif
