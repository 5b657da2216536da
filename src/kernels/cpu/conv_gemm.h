// Convolutions as matrix products over implicit operands: nothing is stored between x, w and y.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "kernels/cpu/gemm.h"

namespace polymio::kernels {

enum class ConvDirection { kForward, kBackwardData, kBackwardWeights };

/// One grouped convolution (cross-correlation) of up to three spatial dimensions; unused leading
/// dimensions have size 1, stride 1, dilation 1 and no padding. Strides are in elements, any value.
struct ConvShape {
  DataType dtype = DataType::kFloat;
  std::int64_t n = 1, groups = 1;
  std::int64_t c = 1, k = 1;  // per group
  std::int64_t in[kSpatial] = {1, 1, 1}, out[kSpatial] = {1, 1, 1}, taps[kSpatial] = {1, 1, 1};
  std::int64_t stride[kSpatial] = {1, 1, 1}, dilation[kSpatial] = {1, 1, 1};
  std::int64_t pad[kSpatial] = {0, 0, 0};
  std::int64_t x_n = 0, x_c = 0, x_d[kSpatial] = {0, 0, 0};  // x, dx
  std::int64_t w_k = 0, w_c = 0, w_d[kSpatial] = {0, 0, 0};  // w, dw
  std::int64_t y_n = 0, y_k = 0, y_d[kSpatial] = {0, 0, 0};  // y, dy
};

/// Sets packed strides: NC(D)HW and KC(R)S, or with `channels_last` N(D)HWC and K(R)SC.
void set_packed_strides(ConvShape& shape, bool channels_last);

/// Which tensor an operand reads; the caller puts its address into Operand::data.
enum class ConvTensor { kX, kW, kY };

/// A product of the convolution for group 0. Group g adds g * {a,b,c}_group elements.
struct ConvProduct {
  Gemm gemm;  // alpha, beta and data pointers are the caller's
  ConvTensor a = ConvTensor::kW, b = ConvTensor::kX;
  std::int64_t a_group = 0, b_group = 0, c_group = 0;
  bool fills_gap = false;  // has nothing to do if beta is 0: the zeros are another product's
};

/// The products that together write every element of the result once: one for forward and backward
/// weights; for backward data one where filters do not overlap, else one per residue of the input position modulo the
/// stride.
std::vector<ConvProduct> conv_products(const ConvShape& shape, ConvDirection direction);

/// A piece of work: rows x columns of one product of one group.
struct ConvPiece {
  std::int64_t product, group, m0, m1, n0, n1;
};

/// What a cut is requested to be; 0: whatever is predicted to be fastest.
struct CutRequest {
  std::int64_t rows = 0;    // of a piece, at most
  std::int64_t pieces = 0;  // of a product, for each thread
};

/// Rows and columns of a piece.
struct Cut {
  std::int64_t rows = 1, columns = 1;
  bool operator==(const Cut&) const = default;
};

/// The cut of one product that is done for `copies` groups.
Cut cut_of(const Gemm& gemm, std::int64_t copies, const TileShape& tile, std::int64_t threads,
           const CutRequest& request);

/// Cuts all products of all groups into pieces of similar cost, enough for `threads`. The cut has no
/// influence on values.
std::vector<ConvPiece> cut_products(const std::vector<ConvProduct>& products, std::int64_t groups,
                                    const TileShape& tile, std::int64_t threads, const CutRequest& request);

}  // namespace polymio::kernels
