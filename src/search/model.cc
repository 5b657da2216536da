// The model of a device: an installed one, else "<device class>.model" in the user's database folder, then in the
// system's, else the one embedded in the library. With a damaged file the estimates are used, not the next file.
// SPDX-License-Identifier: MIT
#include "search/model.h"

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <map>

#include "base/env.h"
#include "base/log.h"
#include "base/process_mutex.h"
#include "db/find_db.h"
#include "db/text_file.h"
#include "search/learned.h"

namespace polymio::search {
namespace {

constexpr std::uint64_t kLargestModel = std::uint64_t{64} << 20;

std::atomic<const Model*> installed{nullptr};
ProcessMutex loading;

struct Loaded {
  std::unique_ptr<const Model> model;
  std::string reason;  // why there is none
};

Loaded load(std::string_view file, const std::string& name) {
  Loaded loaded;
  try {
    loaded.model = parse_model(file);
  } catch (const std::exception& error) {
    loaded.reason = fmt::format("{}: {}", name, error.what());
    log::warn_once(name, "the learned model is not used, {}", loaded.reason);
  }
  return loaded;
}

Loaded load_for(const std::string& architecture) {
  for (const std::filesystem::path& folder : db_folders()) {
    const std::filesystem::path path = folder / (architecture + ".model");
    std::string text;
    const int error = read_file(path, text, kLargestModel);
    if (error == 0) return load(text, path.string());
    if (error == ENOENT || error == ENOTDIR || error == EACCES) continue;
    Loaded none{nullptr, fmt::format("{} cannot be read: {}", path.string(), file_error(error, kLargestModel))};
    log::warn_once(path.string(), "the learned model is not used, {}", none.reason);
    return none;
  }
  for (const EmbeddedModel& m : embedded_models())
    if (architecture == m.architecture)
      return load({reinterpret_cast<const char*>(m.file.data()), m.file.size()}, "built-in model");
  return {nullptr, "no model was trained for " + architecture};
}

/// Loaded once per process and set of folders.
const Loaded& model_of(const std::string& architecture) {
  std::string key = architecture;
  for (const auto& folder : db_folders()) key += '\n' + folder.string();
  // Never destroyed: handles may outlive static destruction.
  static auto& models = *new std::map<std::string, Loaded>;
  const std::scoped_lock lock(loading);
  auto it = models.find(key);
  if (it == models.end()) it = models.emplace(key, load_for(architecture)).first;
  return it->second;
}

}  // namespace

const Model* learned_model(const DeviceInfo& device, std::string* reason) {
  const auto none = [&](std::string why) {
    if (reason) *reason = std::move(why);
    return nullptr;
  };
  if (!built_with_models()) return none("this build has no learned models");
  if (!env::flag(env::kLearnedFallback, true)) return none(fmt::format("{} is 0", env::kLearnedFallback.name));
  if (const Model* model = installed) return model;
  const Loaded& loaded = model_of(device.architecture);
  return loaded.model ? loaded.model.get() : none(loaded.reason);
}

void set_learned_model(const Model* model) { installed = model; }

}  // namespace polymio::search
