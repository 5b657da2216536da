// The learned model: small dense networks that correct the solvers' estimates. Trained by tools/learn/train.py, which
// writes the file; docs/heuristics.md describes both.
// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string_view>

#include "search/model.h"

namespace polymio::search {

/// The model of a file's bytes. Throws BadParm saying what is wrong with them.
std::unique_ptr<const Model> parse_model(std::string_view file);

}  // namespace polymio::search
