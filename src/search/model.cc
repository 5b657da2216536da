// SPDX-License-Identifier: MIT
#include "search/model.h"

#include <atomic>

#include "base/env.h"

namespace polymio::search {
namespace {

std::atomic<const Model*> installed{nullptr};

#ifdef POLYMIO_LEARNED_FALLBACK
constexpr bool kBuiltIn = true;
#else
constexpr bool kBuiltIn = false;
#endif

}  // namespace

const Model* learned_model() {
  const Model* model = kBuiltIn ? installed.load() : nullptr;
  return model && env::flag(env::kLearnedFallback, true) ? model : nullptr;
}

void set_learned_model(const Model* model) { installed = model; }

}  // namespace polymio::search
