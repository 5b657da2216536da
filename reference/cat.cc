// SPDX-License-Identifier: MIT
#include "reference/cat.h"

#include <cmath>

#include "reference/types.h"

namespace polymio::reference {

Result cat(const std::vector<Tensor>& tensors, const std::vector<const void*>& data, std::size_t dim) {
  std::int64_t outer = 1;
  for (std::size_t d = 0; d < dim; ++d) outer *= tensors[0].lens[d];
  Result result;
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const std::int64_t run = tensors[t].count() / outer;
      for (std::int64_t i = o * run; i < (o + 1) * run; ++i) {
        result.value.push_back(load(tensors[t].type, data[t], tensors[t].offset(i)));
        result.magnitude.push_back(std::fabs(result.value.back()));
      }
    }
  return result;
}

}  // namespace polymio::reference
