// The kernel table of one instruction set.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/isa/entry_points.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

extern const KernelTable kTable;
const KernelTable kTable = {gemm_tile,
                            gemm_scratch,
                            gemm,
                            im2col,
                            col2im,
                            col2im_scratch,
                            depthwise,
                            depthwise_scratch,
                            direct_unit,
                            direct,
                            direct_pack,
                            gradient,
                            gradient_sum,
                            activation,
                            epilogue,
                            winograd_panel,
                            winograd_filters,
                            winograd,
                            winograd_scratch,
                            winograd_memory,
                            fft,
                            winograd_weights,
                            winograd_weights_sum,
                            winograd_weights_scratch,
                            winograd_weights_memory,
                            glu,
                            binary,
                            sum};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
