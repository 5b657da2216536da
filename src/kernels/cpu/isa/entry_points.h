// Entry points that each instruction set's object files provide to the kernel table.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/isa_namespaces.h"
#include "kernels/cpu/kernels.h"

namespace polymio::kernels::POLYMIO_SHARED_NAMESPACE {

TileShape gemm_tile(DataType type);
std::size_t gemm_scratch(const Gemm& gemm, std::int64_t rows, std::int64_t columns);
void gemm(const Gemm& gemm, std::int64_t m0, std::int64_t m1, std::int64_t n0, std::int64_t n1, void* scratch);
void im2col(const Columns& what, std::int64_t first, std::int64_t end, void* columns);
void col2im(const ColumnSum& sum, std::int64_t first, std::int64_t end, void* scratch);
std::size_t col2im_scratch(const ColumnSum& sum);
void depthwise(const Depthwise& job, std::int64_t first, std::int64_t end, void* scratch);
std::size_t depthwise_scratch(const Depthwise& job);
DirectUnit direct_unit(DataType type);
void direct(const Direct& job, const DirectArgs& args, std::int64_t first, std::int64_t end, void* scratch);
void direct_pack(const Direct& job, const DirectArgs& args, std::int64_t first, std::int64_t end, void* scratch);
void gradient(const DirectGradient& job, const GradientArgs& args, std::int64_t first, std::int64_t end, void* scratch);
void gradient_sum(const DirectGradient& job, const GradientArgs& args, std::int64_t first, std::int64_t end,
                  void* scratch);
void activation(const Activation& job, std::int64_t first, std::int64_t end);
void epilogue(const Epilogue& job, std::int64_t m0, std::int64_t m1, std::int64_t n0, std::int64_t n1);
void fft(const Fft& job, FftStage stage, std::int64_t first, std::int64_t end, void* scratch);
int winograd_panel();
void winograd_filters(const Winograd& job, std::int64_t first, std::int64_t end, void* scratch);
void winograd(const Winograd& job, std::int64_t first, std::int64_t end, void* scratch);
std::size_t winograd_scratch(const Winograd& job);
std::size_t winograd_memory(const Winograd& job);
void winograd_weights(const WinogradWeights& job, std::int64_t first, std::int64_t end, void* scratch);
void winograd_weights_sum(const WinogradWeights& job, std::int64_t first, std::int64_t end);
std::size_t winograd_weights_scratch(const WinogradWeights& job);
std::size_t winograd_weights_memory(const WinogradWeights& job);
void glu(DataType type, bool backward, const Run& run);
BinaryKernel binary(const Binary& job);
const Reduction<>* sum(DataType type);

}  // namespace polymio::kernels::POLYMIO_SHARED_NAMESPACE

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

// The kernels that depend on the products of the instruction set: each has its own.
DirectUnit direct_unit(DataType type);
void direct(const Direct& job, const DirectArgs& args, std::int64_t first, std::int64_t end, void* scratch);
void direct_pack(const Direct& job, const DirectArgs& args, std::int64_t first, std::int64_t end, void* scratch);
void gradient(const DirectGradient& job, const GradientArgs& args, std::int64_t first, std::int64_t end, void* scratch);
TileShape gemm_tile(DataType type);
std::size_t gemm_scratch(const Gemm& gemm, std::int64_t rows, std::int64_t columns);
void gemm(const Gemm& gemm, std::int64_t m0, std::int64_t m1, std::int64_t n0, std::int64_t n1, void* scratch);
void depthwise(const Depthwise& job, std::int64_t first, std::int64_t end, void* scratch);
std::size_t depthwise_scratch(const Depthwise& job);

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
