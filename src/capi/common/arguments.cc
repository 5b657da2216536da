// SPDX-License-Identifier: MIT
#include "capi/common/arguments.h"

namespace polymio::capi {

double scalar(const void* p, DataType output, const char* name) {
  require(p, "{} is null: it must point to a {}", name, output == DataType::kDouble ? "double" : "float");
  return dtype::load(output == DataType::kDouble ? output : DataType::kFloat, p, 0);
}

void put_text(const std::string& text, char* buffer, std::size_t* size) {
  const std::size_t capacity = *not_null(size, "size");
  *size = text.size() + 1;
  if (!buffer) return;
  require(capacity > text.size(), "the buffer holds {} bytes, {} are needed", capacity, text.size() + 1);
  std::memcpy(buffer, text.c_str(), text.size() + 1);
}

}  // namespace polymio::capi
