// Convolutions as matrix products over implicit operands, without a stored im2col matrix.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/cpu/conv_shape.h"
#include "kernels/cpu/gemm.h"

namespace polymio::kernels {

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
/// Backward data: one product if filters do not overlap, else one per phase. `skips_padding`: dilated filters of which
/// a tenth or more is in the padding have a product for each set of results (of taps, for weights) with the same rest.
std::vector<ConvProduct> conv_products(const ConvShape& shape, ConvDirection direction, bool skips_padding = false);

/// Simplifies the operands; exchanges A and B and transposes C unless C is contiguous along the columns, and also where
/// few columns would leave lanes empty and the kernel can read many rows in place. Returns whether it exchanged.
bool transpose_if_faster(Gemm& gemm);

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
