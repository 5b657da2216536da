// The learned model: small dense networks that correct the solvers' estimates. Trained by tools/learn/train.py, which
// writes the file; docs/heuristics.md describes both.
// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string_view>

#include "search/model.h"

namespace polymio::search {

/// Parses the bytes of a model file. Throws BadParm naming what is wrong.
std::unique_ptr<const Model> parse_model(std::string_view file);

}  // namespace polymio::search
