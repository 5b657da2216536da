// The learned model's place: it predicts times where nothing is stored. Off in builds without
// MIOPEN_ENABLE_AI_IMMED_MODE_FALLBACK and where MIOPEN_DEBUG_ENABLE_AI_IMMED_MODE_FALLBACK says so; then, and
// where it declines, the solvers' estimates serve.
// SPDX-License-Identifier: MIT
#pragma once
#include <optional>

#include "core/solver.h"

namespace polymio::search {

class Model {
 public:
  virtual ~Model() = default;
  /// Microseconds, or nothing where the model does not apply. Thread-safe.
  virtual std::optional<double> predict_us(const DeviceInfo&, const ProblemBase&, const SolverBase&) const = 0;
};

/// The model in use; null when there is none or when it is switched off.
const Model* learned_model();

/// Installs a model for the process; it must outlive its use. Null removes it.
void set_learned_model(const Model*);

}  // namespace polymio::search
