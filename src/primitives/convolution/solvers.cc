// Every convolution solver, a row each; ids 1 to 999 are convolution's. Order decides between equal times.
// Adding one: its file, a row and a name here, a line of cases.
// SPDX-License-Identifier: MIT
#include "core/registry.h"

#include <vector>

#include "primitives/convolution/convolution.h"

namespace polymio::convolution {

// Each in the file of its name, with what the device's folder adds to it.
using Maker = SolverMaker<Direction>;
Maker cpu_depthwise, cpu_grouped, cpu_gemm, cpu_implicit_gemm, cpu_direct, cpu_direct_weights, cpu_winograd,
    cpu_winograd_large, cpu_winograd_weights, cpu_winograd_weights_large, cpu_reference;
Maker gpu_depthwise, gpu_grouped, gpu_few_outputs, gpu_direct, gpu_direct_weights, gpu_winograd, gpu_fft, cuda_hopper,
    cuda_hopper_packed, cuda_hopper_split, cuda_hopper_split_packed, cuda_hopper_widened, cuda_hopper_grouped,
    cuda_gemm, cuda_gemm_tf32, cuda_tensor, cuda_few_channels, cuda_few_channels_weights, cuda_depthwise_1d,
    cuda_long_filters, cuda_long_filters_split, gpu_gemm, gpu_implicit_gemm, gpu_reference;

namespace {

enum Trait { kUsual, kReference, kTransforms, kNotDeterministic, kAligned };

/// The columns of a row; every other trait is the default.
constexpr Registration<Direction> row(std::uint64_t id, const char* name, Algorithm algorithm, int version,
                                      unsigned devices, Direction direction, Maker* make, Trait trait = kUsual) {
  const SolverInfo info{.id = id,
                        .name = name,
                        .algorithm = static_cast<int>(algorithm),
                        .method = name_of(algorithm),
                        .version = version,
                        .devices = devices,
                        .alignment = trait == kAligned ? 16 : 1,
                        .deterministic = trait != kNotDeterministic,
                        .reference = trait == kReference,
                        .transforms = trait == kTransforms};
  return {info, direction, make};
}

constexpr Registration<Direction> kRows[] = {
    // id, name, algorithm, version, devices, direction, maker, trait; ids 25 and 26 are not free
    row(10, "ConvCpuDepthwiseFwd", Algorithm::kDirect, 3, kCpu, Direction::kForward, cpu_depthwise),
    row(11, "ConvCpuDepthwiseBwd", Algorithm::kDirect, 3, kCpu, Direction::kBackwardData, cpu_depthwise),
    row(12, "ConvCpuDepthwiseWrw", Algorithm::kDirect, 3, kCpu, Direction::kBackwardWeights, cpu_depthwise),
    row(22, "ConvCpuGroupedFwd", Algorithm::kDirect, 3, kCpu, Direction::kForward, cpu_grouped),
    row(23, "ConvCpuGroupedBwd", Algorithm::kDirect, 3, kCpu, Direction::kBackwardData, cpu_grouped),
    row(24, "ConvCpuGroupedWrw", Algorithm::kDirect, 3, kCpu, Direction::kBackwardWeights, cpu_grouped),
    row(4, "ConvCpuGemmFwd", Algorithm::kGemm, 4, kCpu, Direction::kForward, cpu_gemm),
    row(5, "ConvCpuGemmBwd", Algorithm::kGemm, 4, kCpu, Direction::kBackwardData, cpu_gemm),
    row(6, "ConvCpuGemmWrw", Algorithm::kGemm, 4, kCpu, Direction::kBackwardWeights, cpu_gemm),
    row(7, "ConvCpuImplicitGemmFwd", Algorithm::kImplicitGemm, 4, kCpu, Direction::kForward, cpu_implicit_gemm),
    row(8, "ConvCpuImplicitGemmBwd", Algorithm::kImplicitGemm, 4, kCpu, Direction::kBackwardData, cpu_implicit_gemm),
    row(9, "ConvCpuImplicitGemmWrw", Algorithm::kImplicitGemm, 4, kCpu, Direction::kBackwardWeights, cpu_implicit_gemm),
    row(13, "ConvCpuDirectFwd", Algorithm::kDirect, 4, kCpu, Direction::kForward, cpu_direct),
    row(14, "ConvCpuDirectBwd", Algorithm::kDirect, 4, kCpu, Direction::kBackwardData, cpu_direct),
    row(15, "ConvCpuDirectWrw", Algorithm::kDirect, 2, kCpu, Direction::kBackwardWeights, cpu_direct_weights),
    row(16, "ConvCpuWinogradFwd", Algorithm::kWinograd, 2, kCpu, Direction::kForward, cpu_winograd, kTransforms),
    row(17, "ConvCpuWinogradBwd", Algorithm::kWinograd, 2, kCpu, Direction::kBackwardData, cpu_winograd, kTransforms),
    row(18, "ConvCpuWinogradWrw", Algorithm::kWinograd, 2, kCpu, Direction::kBackwardWeights, cpu_winograd_weights,
        kTransforms),
    row(19, "ConvCpuWinograd6Fwd", Algorithm::kWinograd, 2, kCpu, Direction::kForward, cpu_winograd_large, kTransforms),
    row(20, "ConvCpuWinograd6Bwd", Algorithm::kWinograd, 2, kCpu, Direction::kBackwardData, cpu_winograd_large,
        kTransforms),
    row(21, "ConvCpuWinograd6Wrw", Algorithm::kWinograd, 2, kCpu, Direction::kBackwardWeights,
        cpu_winograd_weights_large, kTransforms),
    row(1, "ConvCpuReferenceFwd", Algorithm::kDirect, 1, kCpu, Direction::kForward, cpu_reference, kReference),
    row(2, "ConvCpuReferenceBwd", Algorithm::kDirect, 1, kCpu, Direction::kBackwardData, cpu_reference, kReference),
    row(3, "ConvCpuReferenceWrw", Algorithm::kDirect, 1, kCpu, Direction::kBackwardWeights, cpu_reference, kReference),
    row(107, "ConvGpuDepthwiseFwd", Algorithm::kDirect, 7, kGpus, Direction::kForward, gpu_depthwise),
    row(108, "ConvGpuDepthwiseBwd", Algorithm::kDirect, 7, kGpus, Direction::kBackwardData, gpu_depthwise),
    row(109, "ConvGpuDepthwiseWrw", Algorithm::kDirect, 7, kGpus, Direction::kBackwardWeights, gpu_depthwise),
    row(110, "ConvGpuGroupedFwd", Algorithm::kDirect, 3, kGpus, Direction::kForward, gpu_grouped),
    row(111, "ConvGpuGroupedBwd", Algorithm::kDirect, 3, kGpus, Direction::kBackwardData, gpu_grouped),
    row(112, "ConvGpuGroupedWrw", Algorithm::kDirect, 3, kGpus, Direction::kBackwardWeights, gpu_grouped),
    row(159, "ConvGpuFewOutputsFwd", Algorithm::kDirect, 1, kGpus, Direction::kForward, gpu_few_outputs),
    row(160, "ConvGpuDirectFwd", Algorithm::kDirect, 1, kGpus, Direction::kForward, gpu_direct),
    row(161, "ConvGpuDirectBwd", Algorithm::kDirect, 1, kGpus, Direction::kBackwardData, gpu_direct),
    row(163, "ConvGpuDirectWrw", Algorithm::kDirect, 1, kGpus, Direction::kBackwardWeights, gpu_direct_weights),
    row(113, "ConvGpuWinogradFwd", Algorithm::kWinograd, 2, kGpus, Direction::kForward, gpu_winograd, kTransforms),
    row(114, "ConvGpuWinogradBwd", Algorithm::kWinograd, 2, kGpus, Direction::kBackwardData, gpu_winograd, kTransforms),
    row(115, "ConvGpuWinogradWrw", Algorithm::kWinograd, 2, kGpus, Direction::kBackwardWeights, gpu_winograd,
        kTransforms),
    row(116, "ConvGpuFftFwd", Algorithm::kFft, 1, kGpus, Direction::kForward, gpu_fft, kTransforms),
    row(117, "ConvGpuFftBwd", Algorithm::kFft, 1, kGpus, Direction::kBackwardData, gpu_fft, kTransforms),
    row(127, "ConvHopperFwd", Algorithm::kImplicitGemm, 3, kCuda, Direction::kForward, cuda_hopper, kAligned),
    row(128, "ConvHopperBwd", Algorithm::kImplicitGemm, 2, kCuda, Direction::kBackwardData, cuda_hopper, kAligned),
    row(129, "ConvHopperWrw", Algorithm::kImplicitGemm, 2, kCuda, Direction::kBackwardWeights, cuda_hopper, kAligned),
    row(133, "ConvHopperPackedFwd", Algorithm::kImplicitGemm, 5, kCuda, Direction::kForward, cuda_hopper_packed,
        kAligned),
    row(134, "ConvHopperPackedBwd", Algorithm::kImplicitGemm, 4, kCuda, Direction::kBackwardData, cuda_hopper_packed,
        kAligned),
    row(135, "ConvHopperPackedWrw", Algorithm::kImplicitGemm, 3, kCuda, Direction::kBackwardWeights, cuda_hopper_packed,
        kAligned),
    row(136, "ConvHopperSplitFwd", Algorithm::kImplicitGemm, 1, kCuda, Direction::kForward, cuda_hopper_split,
        kAligned),
    row(137, "ConvHopperSplitBwd", Algorithm::kImplicitGemm, 1, kCuda, Direction::kBackwardData, cuda_hopper_split,
        kAligned),
    row(138, "ConvHopperSplitWrw", Algorithm::kImplicitGemm, 1, kCuda, Direction::kBackwardWeights, cuda_hopper_split,
        kAligned),
    row(148, "ConvHopperSplitPackedFwd", Algorithm::kImplicitGemm, 3, kCuda, Direction::kForward,
        cuda_hopper_split_packed, kAligned),
    row(149, "ConvHopperSplitPackedBwd", Algorithm::kImplicitGemm, 3, kCuda, Direction::kBackwardData,
        cuda_hopper_split_packed, kAligned),
    row(150, "ConvHopperSplitPackedWrw", Algorithm::kImplicitGemm, 2, kCuda, Direction::kBackwardWeights,
        cuda_hopper_split_packed, kAligned),
    row(139, "ConvHopperWidenedFwd", Algorithm::kImplicitGemm, 3, kCuda, Direction::kForward, cuda_hopper_widened,
        kAligned),
    row(140, "ConvHopperWidenedBwd", Algorithm::kImplicitGemm, 2, kCuda, Direction::kBackwardData, cuda_hopper_widened,
        kAligned),
    row(144, "ConvHopperWidenedWrw", Algorithm::kImplicitGemm, 1, kCuda, Direction::kBackwardWeights,
        cuda_hopper_widened, kAligned),
    row(145, "ConvHopperGroupedFwd", Algorithm::kImplicitGemm, 3, kCuda, Direction::kForward, cuda_hopper_grouped,
        kAligned),
    row(146, "ConvHopperGroupedBwd", Algorithm::kImplicitGemm, 2, kCuda, Direction::kBackwardData, cuda_hopper_grouped,
        kAligned),
    row(147, "ConvHopperGroupedWrw", Algorithm::kImplicitGemm, 1, kCuda, Direction::kBackwardWeights,
        cuda_hopper_grouped, kAligned),
    row(121, "ConvCudaGemmFwd", Algorithm::kGemm, 2, kCuda, Direction::kForward, cuda_gemm, kNotDeterministic),
    row(122, "ConvCudaGemmBwd", Algorithm::kGemm, 2, kCuda, Direction::kBackwardData, cuda_gemm, kNotDeterministic),
    row(123, "ConvCudaGemmWrw", Algorithm::kGemm, 2, kCuda, Direction::kBackwardWeights, cuda_gemm, kNotDeterministic),
    row(124, "ConvCudaGemmTf32Fwd", Algorithm::kGemm, 2, kCuda, Direction::kForward, cuda_gemm_tf32, kNotDeterministic),
    row(125, "ConvCudaGemmTf32Bwd", Algorithm::kGemm, 2, kCuda, Direction::kBackwardData, cuda_gemm_tf32,
        kNotDeterministic),
    row(126, "ConvCudaGemmTf32Wrw", Algorithm::kGemm, 2, kCuda, Direction::kBackwardWeights, cuda_gemm_tf32,
        kNotDeterministic),
    row(130, "ConvCudaTensorFwd", Algorithm::kImplicitGemm, 1, kCuda, Direction::kForward, cuda_tensor),
    row(131, "ConvCudaTensorBwd", Algorithm::kImplicitGemm, 1, kCuda, Direction::kBackwardData, cuda_tensor),
    row(132, "ConvCudaTensorWrw", Algorithm::kImplicitGemm, 1, kCuda, Direction::kBackwardWeights, cuda_tensor),
    row(157, "ConvCudaFewChannelsFwd", Algorithm::kImplicitGemm, 1, kCuda, Direction::kForward, cuda_few_channels),
    row(158, "ConvCudaFewChannelsBwd", Algorithm::kImplicitGemm, 1, kCuda, Direction::kBackwardData, cuda_few_channels),
    row(162, "ConvCudaFewChannelsWrw", Algorithm::kImplicitGemm, 1, kCuda, Direction::kBackwardWeights,
        cuda_few_channels_weights),
    row(151, "ConvCudaDepthwise1dFwd", Algorithm::kDirect, 1, kCuda, Direction::kForward, cuda_depthwise_1d),
    row(152, "ConvCudaDepthwise1dBwd", Algorithm::kDirect, 1, kCuda, Direction::kBackwardData, cuda_depthwise_1d),
    row(153, "ConvCudaDepthwise1dWrw", Algorithm::kDirect, 1, kCuda, Direction::kBackwardWeights, cuda_depthwise_1d),
    row(141, "ConvCudaLongFiltersFwd", Algorithm::kDirect, 1, kCuda, Direction::kForward, cuda_long_filters),
    row(142, "ConvCudaLongFiltersBwd", Algorithm::kDirect, 1, kCuda, Direction::kBackwardData, cuda_long_filters),
    row(143, "ConvCudaLongFiltersWrw", Algorithm::kDirect, 1, kCuda, Direction::kBackwardWeights, cuda_long_filters),
    row(154, "ConvCudaLongFiltersSplitFwd", Algorithm::kDirect, 1, kCuda, Direction::kForward, cuda_long_filters_split),
    row(155, "ConvCudaLongFiltersSplitBwd", Algorithm::kDirect, 1, kCuda, Direction::kBackwardData,
        cuda_long_filters_split),
    row(156, "ConvCudaLongFiltersSplitWrw", Algorithm::kDirect, 1, kCuda, Direction::kBackwardWeights,
        cuda_long_filters_split),
    row(118, "ConvGpuGemmFwd", Algorithm::kGemm, 1, kGpus, Direction::kForward, gpu_gemm),
    row(119, "ConvGpuGemmBwd", Algorithm::kGemm, 1, kGpus, Direction::kBackwardData, gpu_gemm),
    row(120, "ConvGpuGemmWrw", Algorithm::kGemm, 1, kGpus, Direction::kBackwardWeights, gpu_gemm),
    row(104, "ConvGpuImplicitGemmFwd", Algorithm::kImplicitGemm, 1, kGpus, Direction::kForward, gpu_implicit_gemm),
    row(105, "ConvGpuImplicitGemmBwd", Algorithm::kImplicitGemm, 1, kGpus, Direction::kBackwardData, gpu_implicit_gemm),
    row(106, "ConvGpuImplicitGemmWrw", Algorithm::kImplicitGemm, 1, kGpus, Direction::kBackwardWeights,
        gpu_implicit_gemm),
    row(101, "ConvGpuReferenceFwd", Algorithm::kDirect, 1, kGpus, Direction::kForward, gpu_reference, kReference),
    row(102, "ConvGpuReferenceBwd", Algorithm::kDirect, 1, kGpus, Direction::kBackwardData, gpu_reference, kReference),
    row(103, "ConvGpuReferenceWrw", Algorithm::kDirect, 1, kGpus, Direction::kBackwardWeights, gpu_reference,
        kReference),
};

const RegisteredSolvers<Direction>& registered() {
  static const auto& solvers = *[] {
    std::vector<Registration<Direction>> rows(std::begin(kRows), std::end(kRows));
    for (auto& [info, direction, make] : rows) {
      const Algorithm reported = reported_algorithm(static_cast<Algorithm>(info.algorithm));
      info.algorithm = static_cast<int>(reported);
      info.method = name_of(reported);
    }
    return new RegisteredSolvers<Direction>(rows);
  }();
  return solvers;
}

}  // namespace

SolverList solvers(Direction direction, DeviceKind kind) { return registered().list(direction, kind); }

SolverList all_solvers() { return registered().all(); }

}  // namespace polymio::convolution
