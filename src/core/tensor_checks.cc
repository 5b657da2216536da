// SPDX-License-Identifier: MIT
#include "core/tensor_checks.h"

#include "base/error.h"
#include "core/loop.h"
#include "core/problem_text.h"

namespace polymio {

void require_float_tensor(const TensorDesc& t, const char* name, int max_rank, const char* users) {
  require(t.type == DataType::kFloat || t.type == DataType::kHalf || t.type == DataType::kBFloat16 ||
              t.type == DataType::kDouble,
          "{} is {}: {} take fp32, fp16, bf16 and fp64", name, name_of(t.type), users);
  require(t.rank >= 1 && t.rank <= max_rank, "{} has rank {}: 1 to {} are allowed", name, t.rank, max_rank);
  require(t.vector_length == 1, "{} has a layout with vectors of {} channels, which {} do not take", name,
          t.vector_length, users);
  require(!t.has_cast(), "{} has the cast type {}, which {} do not take", name, name_of(t.cast), users);
}

void require_merged(const TensorDesc& t, const char* name, int most) {
  require(t.rank <= most, "{} has rank {}: 1 to {} are allowed, and more if neighbours can be merged", name, t.rank,
          most);
}

void require_same_type(const TensorDesc& a, const char* a_name, const TensorDesc& b, const char* b_name) {
  require(a.type == b.type, "{} is {}, {} is {}: their data types must be equal", a_name, name_of(a.type), b_name,
          name_of(b.type));
}

// Texts are made only for messages: these are on the path of every call.

void require_same_sizes(const TensorDesc& a, const char* a_name, const TensorDesc& b, const char* b_name) {
  const TensorDesc plain_a = unvectored(a), plain_b = unvectored(b);
  if (a.rank == b.rank && plain_a.lens == plain_b.lens) return;
  fail(Status::kBadParm, "{} has sizes {}, {} has {}: they must be equal", a_name, sizes_text(plain_a), b_name,
       sizes_text(plain_b));
}

void require_separate(const TensorDesc& output, const char* name) {
  const TensorDesc* const operand = &output;
  if (simplified_loop({&operand, 1}).separate) return;
  fail(Status::kBadParm, "the output {} overlaps itself: strides {} for sizes {}", name, strides_text(output),
       sizes_text(output));
}

bool same_strides(const TensorDesc& a, const TensorDesc& b) {
  for (std::size_t d = 0; d < static_cast<std::size_t>(a.rank); ++d)
    if (a.lens[d] != 1 && a.strides[d] != b.strides[d]) return false;
  return true;
}

void require_no_overlap(const TensorDesc& in, const void* data, const char* name, const TensorDesc& out,
                        const void* result) {
  if (data == result) {
    require(same_strides(in, out), "the result is written over {}, but their strides differ", name);
    return;
  }
  if (!in.packed() || !out.packed()) return;
  const auto in_begin = reinterpret_cast<std::uintptr_t>(data), out_begin = reinterpret_cast<std::uintptr_t>(result);
  require(in_begin + in.bytes() <= out_begin || out_begin + out.bytes() <= in_begin,
          "the result overlaps {}: it must be the same buffer or another one, and starts {} bytes from it", name,
          static_cast<std::int64_t>(out_begin - in_begin));
}

void require_apart(const TensorDesc& other, const void* data, const char* name, const TensorDesc& out,
                   const void* result, const char* out_name) {
  if (!data || !result) return;
  const auto other_begin = reinterpret_cast<std::uintptr_t>(data), begin = reinterpret_cast<std::uintptr_t>(result);
  require(other_begin + other.bytes() <= begin || begin + out.bytes() <= other_begin,
          "{} overlaps {}: it must be memory of its own", out_name, name);
}

}  // namespace polymio
