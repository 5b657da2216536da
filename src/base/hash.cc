// SPDX-License-Identifier: MIT
#include "base/hash.h"

#include <xxhash.h>

namespace polymio {

std::uint64_t content_hash(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace polymio
