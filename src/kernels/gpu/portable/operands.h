// Tensors of the skeletons map, row and column: INPUTS (up to 6) that a kernel reads and OUTPUTS (up to 5) that it
// writes and may read. INPUT_TYPE(i) and OUTPUT_TYPE(o), compile-time constants, are their data types: IN_TYPE and
// OUT_TYPE unless the including source defines them. IN is the type of the first input and OUT that of the last output.
// SPDX-License-Identifier: MIT
#pragma once

#define OPERANDS (INPUTS + OUTPUTS)
#ifndef INPUT_TYPE
#define INPUT_TYPE(i) IN_TYPE
#endif
#ifndef OUTPUT_TYPE
#define OUTPUT_TYPE(o) OUT_TYPE
#endif

// The column skeleton: elements of a column that a thread has in flight, and the most that it adds at once.
#define PIXELS 4
#define COLUMN_UNIT MAX(VECTOR, PIXELS)

/// A kernel's tensors; `at` has the strides of the inputs, then of the outputs.
typedef struct {
  GLOBAL const u8* in[MAX(INPUTS, 1)];
  GLOBAL u8* out[OUTPUTS];
  const Strides* at[OPERANDS];
} Operands;

// Parameters of a kernel, in the order of the host's launch, and the Operands that they make.
#define INPUT_PARAMETERS_0
#define INPUT_PARAMETERS_1 GLOBAL const u8 *in0, FIXED Strides in0_at,
#define INPUT_PARAMETERS_2 INPUT_PARAMETERS_1 GLOBAL const u8 *in1, FIXED Strides in1_at,
#define INPUT_PARAMETERS_3 INPUT_PARAMETERS_2 GLOBAL const u8 *in2, FIXED Strides in2_at,
#define INPUT_PARAMETERS_4 INPUT_PARAMETERS_3 GLOBAL const u8 *in3, FIXED Strides in3_at,
#define INPUT_PARAMETERS_5 INPUT_PARAMETERS_4 GLOBAL const u8 *in4, FIXED Strides in4_at,
#define INPUT_PARAMETERS_6 INPUT_PARAMETERS_5 GLOBAL const u8 *in5, FIXED Strides in5_at,
#define OUTPUT_PARAMETERS_1 GLOBAL u8 *out0, FIXED Strides out0_at
#define OUTPUT_PARAMETERS_2 OUTPUT_PARAMETERS_1, GLOBAL u8 *out1, FIXED Strides out1_at
#define OUTPUT_PARAMETERS_3 OUTPUT_PARAMETERS_2, GLOBAL u8 *out2, FIXED Strides out2_at
#define OUTPUT_PARAMETERS_4 OUTPUT_PARAMETERS_3, GLOBAL u8 *out3, FIXED Strides out3_at
#define OUTPUT_PARAMETERS_5 OUTPUT_PARAMETERS_4, GLOBAL u8 *out4, FIXED Strides out4_at
#define OPERAND_PARAMETERS PASTE(INPUT_PARAMETERS_, INPUTS) PASTE(OUTPUT_PARAMETERS_, OUTPUTS)

#define INPUT_POINTERS_0 0
#define INPUT_POINTERS_1 in0
#define INPUT_POINTERS_2 in0, in1
#define INPUT_POINTERS_3 in0, in1, in2
#define INPUT_POINTERS_4 in0, in1, in2, in3
#define INPUT_POINTERS_5 in0, in1, in2, in3, in4
#define INPUT_POINTERS_6 in0, in1, in2, in3, in4, in5
#define OUTPUT_POINTERS_1 out0
#define OUTPUT_POINTERS_2 out0, out1
#define OUTPUT_POINTERS_3 out0, out1, out2
#define OUTPUT_POINTERS_4 out0, out1, out2, out3
#define OUTPUT_POINTERS_5 out0, out1, out2, out3, out4
#define INPUT_STRIDES_0
#define INPUT_STRIDES_1 &in0_at,
#define INPUT_STRIDES_2 &in0_at, &in1_at,
#define INPUT_STRIDES_3 &in0_at, &in1_at, &in2_at,
#define INPUT_STRIDES_4 &in0_at, &in1_at, &in2_at, &in3_at,
#define INPUT_STRIDES_5 &in0_at, &in1_at, &in2_at, &in3_at, &in4_at,
#define INPUT_STRIDES_6 &in0_at, &in1_at, &in2_at, &in3_at, &in4_at, &in5_at,
#define OUTPUT_STRIDES_1 &out0_at
#define OUTPUT_STRIDES_2 &out0_at, &out1_at
#define OUTPUT_STRIDES_3 &out0_at, &out1_at, &out2_at
#define OUTPUT_STRIDES_4 &out0_at, &out1_at, &out2_at, &out3_at
#define OUTPUT_STRIDES_5 &out0_at, &out1_at, &out2_at, &out3_at, &out4_at
#define OPERAND_VALUES                                                      \
  {                                                                         \
    {PASTE(INPUT_POINTERS_, INPUTS)}, {PASTE(OUTPUT_POINTERS_, OUTPUTS)}, { \
      PASTE(INPUT_STRIDES_, INPUTS) PASTE(OUTPUT_STRIDES_, OUTPUTS)         \
    }                                                                       \
  }
