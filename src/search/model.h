// Interface of the learned model, which predicts times where no record is stored. Off in builds without
// MIOPEN_ENABLE_AI_IMMED_MODE_FALLBACK and with MIOPEN_DEBUG_ENABLE_AI_IMMED_MODE_FALLBACK=0; then, and where the model
// does not apply, the solvers' estimates are used.
// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/solver.h"

namespace polymio::search {

struct Prediction {
  std::vector<double> us;  // per solver of the list, at its default point; NaN: not known to the model
  double log_error = 0;    // typical error of log(time of one solver / time of another)
  std::string declined;    // why the model does not apply; then `us` is empty
};

class Model {
 public:
  virtual ~Model() = default;
  /// Thread-safe; never null.
  virtual std::shared_ptr<const Prediction> predict(const DeviceInfo&, const ProblemBase&, SolverList) const = 0;
  /// A valid tune point within the workspace limit that is predicted to be clearly faster than the default one, or
  /// nothing. Slower than predict(): for finds.
  virtual std::optional<TunePoint> point(const DeviceInfo&, const ProblemBase&, const SolverBase&,
                                         std::size_t workspace_limit) const = 0;
};

/// The device's model; null when there is none or when it is switched off, with the reason.
const Model* learned_model(const DeviceInfo&, std::string* reason = nullptr);

/// Installs a model for all devices of the process; it must outlive its use. Null removes it.
void set_learned_model(const Model*);

/// Whether this build uses learned models at all, and the files that it embeds in the library, by device class.
bool built_with_models();
struct EmbeddedModel {
  const char* architecture;
  std::span<const unsigned char> file;
};
std::span<const EmbeddedModel> embedded_models();

}  // namespace polymio::search
