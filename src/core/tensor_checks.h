// Checks of tensors that primitives share. They throw BadParm with names, what was given and what is allowed.
// SPDX-License-Identifier: MIT
#pragma once
#include "core/tensor.h"

namespace polymio {

/// fp32, fp16, bf16 or fp64, rank 1 to `max_rank`, no vectors of channels and no cast. `users`: "activations".
void require_float_tensor(const TensorDesc&, const char* name, int max_rank, const char* users);

/// After merge_dimensions(): at most `most` remain.
void require_merged(const TensorDesc&, const char* name, int most);

void require_same_type(const TensorDesc& a, const char* a_name, const TensorDesc& b, const char* b_name);
/// Channels of NCHWc layouts count singly.
void require_same_sizes(const TensorDesc& a, const char* a_name, const TensorDesc& b, const char* b_name);

/// No two elements of an output share memory.
void require_separate(const TensorDesc& output, const char* name);

/// Whether tensors of equal sizes have equal strides; size-1 dimensions are ignored.
bool same_strides(const TensorDesc&, const TensorDesc&);

/// An input and the output of equal sizes are the same buffer at the same strides or do not overlap. Dense ones only:
/// strided ones may be interleaved without sharing an element.
void require_no_overlap(const TensorDesc& in, const void* data, const char* name, const TensorDesc& out,
                        const void* result);

/// An output shares no memory with another tensor; for sizes and strides that differ.
void require_apart(const TensorDesc& other, const void* data, const char* name, const TensorDesc& out,
                   const void* result, const char* out_name);

}  // namespace polymio
