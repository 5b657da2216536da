// Convolutions as matrix products over implicit operands, without a stored im2col matrix.
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

/// The tensor that an operand reads; the caller sets Operand::data to its address.
enum class ConvTensor { kX, kW, kY };

/// One matrix product of the convolution, for group 0; {a,b,c}_group are the elements between groups.
struct ConvProduct {
  Gemm gemm;  // the caller sets alpha, beta and the data pointers
  ConvTensor a = ConvTensor::kW, b = ConvTensor::kX;
  std::int64_t a_group = 0, b_group = 0, c_group = 0;
  bool fills_gap = false;  // without work if beta is 0: another product writes its zeros (Output::gap)
};

/// The products that together write each element of the result once. Forward and backward weights: one product.
/// Backward data: one product if filters do not overlap, else one per phase.
std::vector<ConvProduct> conv_products(const ConvShape& shape, ConvDirection direction);

/// A piece: rows [m0, m1) x columns [n0, n1) of one product of one group.
struct ConvPiece {
  std::int64_t product, group, m0, m1, n0, n1;
};

/// A requested cut; 0: the value that is predicted to be fastest.
struct CutRequest {
  std::int64_t rows = 0;    // per piece, at most
  std::int64_t pieces = 0;  // per product and thread
};

/// Rows and columns per piece.
struct Cut {
  std::int64_t rows = 1, columns = 1;
  bool operator==(const Cut&) const = default;
};

/// The cut of a product that is computed for `copies` groups.
Cut cut_of(const Gemm& gemm, std::int64_t copies, const TileShape& tile, std::int64_t threads,
           const CutRequest& request);

/// Cuts all products of all groups into pieces of similar cost, enough for `threads`. Results do not depend on the
/// cut.
std::vector<ConvPiece> cut_products(const std::vector<ConvProduct>& products, std::int64_t groups,
                                    const TileShape& tile, std::int64_t threads, const CutRequest& request);

}  // namespace polymio::kernels
