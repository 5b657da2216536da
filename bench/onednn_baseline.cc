// oneDNN through dlopen. Version 2 fills memory and operation descriptors in structs of the caller; here these are
// opaque blocks of sufficient size.
// SPDX-License-Identifier: MIT
#include "bench/onednn_baseline.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>

namespace polymio::bench {
namespace {

using driver::kW;
using driver::kX;
using driver::kY;
using driver::Role;

constexpr int kCpu = 1, kInOrder = 1, kOpenMp = 2, kSycl = 512;
constexpr int kTraining = 64, kInference = 96;
constexpr int kDirect = 1, kWinograd = 2, kDeconvolution = 0xa;
constexpr int kAnyTag = 1;
constexpr int kImplName = 8;
constexpr std::size_t kBlobBytes = 16384;  // version 2: 640 bytes for a memory descriptor, 5.5 KiB for a convolution's

struct Version {
  int major, minor, patch;
  const char* hash;
  unsigned cpu_runtime, gpu_runtime;
};

using Dims = const std::int64_t*;
using Desc = const void*;

/// The primitive's operation: a backward data convolution is also a forward deconvolution.
enum class Operation { kForward, kBackwardData, kBackwardWeights, kDeconvolution };

struct Operand {
  int argument, query;
};
// oneDNN's argument id and query of the memory descriptor, by operation and role.
constexpr Operand kOperands[4][3] = {{{1, 129}, {33, 131}, {17, 133}},
                                     {{129, 130}, {33, 131}, {145, 134}},
                                     {{1, 129}, {161, 132}, {145, 134}},
                                     {{17, 133}, {33, 131}, {1, 129}}};

/// dnnl_data_type_t; 0 for types that oneDNN does not convolve.
int baseline_type(reference::Type type) {
  switch (static_cast<int>(type)) {
    case driver::kHalf: return 1;
    case driver::kBFloat16: return 2;
    case driver::kFloat: return 3;
    case driver::kInt32: return 4;
    case driver::kInt8: return 5;
    default: return 0;
  }
}

bool is_reference(const std::string& impl) { return impl.find("ref") != std::string::npos; }

}  // namespace

struct BaselineApi {
  template <class F>
  void load(F*& function, const char* name, bool needed = true) {
    function = reinterpret_cast<F*>(dlsym(library, name));
    if (function == nullptr && needed) missing = name;
  }

  ~BaselineApi() {
    if (stream != nullptr) stream_destroy(stream);
    if (engine != nullptr) engine_destroy(engine);
  }

  void* library = nullptr;  // stays open: its threads may still run
  const char* missing = nullptr;
  Version info{};
  void* engine = nullptr;
  void* stream = nullptr;

  int (*engine_create)(void**, int, std::size_t);
  int (*engine_destroy)(void*);
  int (*stream_create)(void**, void*, unsigned);
  int (*stream_wait)(void*);
  int (*stream_destroy)(void*);
  int (*memory_create)(void**, Desc, void* engine, void* data);
  int (*sycl_memory_create)(void**, Desc, void* engine, int kind, void* data);
  int (*memory_destroy)(void*);
  std::size_t (*desc_size)(Desc);
  int (*desc_equal)(Desc, Desc);
  int (*pd_query)(Desc, int what, int index, void* result);
  Desc (*pd_query_desc)(Desc, int what, int index);
  int (*pd_destroy)(void*);
  int (*primitive_create)(void**, Desc pd);
  int (*primitive_execute)(Desc, void* stream, int count, const BaselineArgument*);
  int (*primitive_destroy)(void*);
  int (*reorder_create)(void** pd, Desc from, void* from_engine, Desc to, void* to_engine, Desc attributes);
  const Version* (*version)();
  void (*omp_set_num_threads)(int);

  // Version 3.
  int (*desc_by_strides)(void**, int, Dims, int type, Dims strides);
  int (*desc_by_tag)(void**, int, Dims, int type, int tag);
  int (*desc_destroy)(void*);
  int (*forward)(void**, void* engine, int prop, int algorithm, Desc x, Desc w, Desc bias, Desc y, Dims, Dims, Dims,
                 Dims, Desc attributes);
  int (*backward_data)(void**, void* engine, int algorithm, Desc x, Desc w, Desc y, Dims, Dims, Dims, Dims, Desc hint,
                       Desc attributes);
  int (*backward_weights)(void**, void* engine, int algorithm, Desc x, Desc w, Desc bias, Desc y, Dims, Dims, Dims,
                          Dims, Desc hint, Desc attributes);
  int (*deconvolution)(void**, void* engine, int prop, int algorithm, Desc x, Desc w, Desc bias, Desc y, Dims, Dims,
                       Dims, Dims, Desc attributes);
  int (*next_impl)(void* pd);

  // Version 2.
  int (*init_by_strides)(void*, int, Dims, int type, Dims strides);
  int (*init_by_tag)(void*, int, Dims, int type, int tag);
  int (*init_forward)(void*, int prop, int algorithm, Desc x, Desc w, Desc bias, Desc y, Dims, Dims, Dims, Dims);
  int (*init_backward_data)(void*, int algorithm, Desc x, Desc w, Desc y, Dims, Dims, Dims, Dims);
  int (*init_backward_weights)(void*, int algorithm, Desc x, Desc w, Desc bias, Desc y, Dims, Dims, Dims, Dims);
  int (*iterator_create)(void**, Desc operation, Desc attributes, void* engine, Desc hint);
  int (*iterator_next)(void*);
  void* (*iterator_fetch)(void*);
  int (*iterator_destroy)(void*);

  void load_common() {
    load(engine_create, "dnnl_engine_create");
    load(engine_destroy, "dnnl_engine_destroy");
    load(stream_create, "dnnl_stream_create");
    load(stream_wait, "dnnl_stream_wait");
    load(stream_destroy, "dnnl_stream_destroy");
    load(memory_create, "dnnl_memory_create");
    load(sycl_memory_create, "dnnl_sycl_interop_memory_create", false);
    load(memory_destroy, "dnnl_memory_destroy");
    load(desc_size, "dnnl_memory_desc_get_size");
    load(desc_equal, "dnnl_memory_desc_equal");
    load(pd_query, "dnnl_primitive_desc_query");
    load(pd_query_desc, "dnnl_primitive_desc_query_md");
    load(pd_destroy, "dnnl_primitive_desc_destroy");
    load(primitive_create, "dnnl_primitive_create");
    load(primitive_execute, "dnnl_primitive_execute");
    load(primitive_destroy, "dnnl_primitive_destroy");
    load(reorder_create, "dnnl_reorder_primitive_desc_create");
    load(omp_set_num_threads, "omp_set_num_threads", false);
  }

  void load_versioned() {
    if (info.major >= 3) {
      load(desc_by_strides, "dnnl_memory_desc_create_with_strides");
      load(desc_by_tag, "dnnl_memory_desc_create_with_tag");
      load(desc_destroy, "dnnl_memory_desc_destroy");
      load(forward, "dnnl_convolution_forward_primitive_desc_create");
      load(backward_data, "dnnl_convolution_backward_data_primitive_desc_create");
      load(backward_weights, "dnnl_convolution_backward_weights_primitive_desc_create");
      load(deconvolution, "dnnl_deconvolution_forward_primitive_desc_create");
      load(next_impl, "dnnl_primitive_desc_next_impl");
      return;
    }
    load(init_by_strides, "dnnl_memory_desc_init_by_strides");
    load(init_by_tag, "dnnl_memory_desc_init_by_tag");
    load(init_forward, "dnnl_dilated_convolution_forward_desc_init");
    load(init_backward_data, "dnnl_dilated_convolution_backward_data_desc_init");
    load(init_backward_weights, "dnnl_dilated_convolution_backward_weights_desc_init");
    load(iterator_create, "dnnl_primitive_desc_iterator_create");
    load(iterator_next, "dnnl_primitive_desc_iterator_next");
    load(iterator_fetch, "dnnl_primitive_desc_iterator_fetch");
    load(iterator_destroy, "dnnl_primitive_desc_iterator_destroy");
  }

  /// A memory descriptor with these strides, or with the library's choice of layout (`any`) if `strides` is null. Null
  /// if oneDNN refuses it.
  std::shared_ptr<void> make_desc(int type, const std::vector<std::int64_t>& dims, Dims strides) const {
    const int rank = static_cast<int>(dims.size());
    if (info.major >= 3) {
      void* desc = nullptr;
      const int status = strides != nullptr ? desc_by_strides(&desc, rank, dims.data(), type, strides)
                                            : desc_by_tag(&desc, rank, dims.data(), type, kAnyTag);
      return status != 0 ? nullptr : std::shared_ptr<void>(desc, desc_destroy);
    }
    std::shared_ptr<void> blob(std::calloc(1, kBlobBytes), std::free);
    const int status = strides != nullptr ? init_by_strides(blob.get(), rank, dims.data(), type, strides)
                                          : init_by_tag(blob.get(), rank, dims.data(), type, kAnyTag);
    return status != 0 ? nullptr : blob;
  }
};

void BaselineVariant::run() const {
  for (const Step& s : steps_)
    if (api_->primitive_execute(s.primitive, api_->stream, static_cast<int>(s.arguments.size()), s.arguments.data()))
      throw driver::RunError("oneDNN: primitive_execute of " + impl + " fails");
  if (api_->stream_wait(api_->stream) != 0) throw driver::RunError("oneDNN: stream_wait after " + impl + " fails");
}

/// A problem in oneDNN's terms, and one choice of layouts, operation and algorithm for it.
struct Baseline::Task {
  Operation operation;
  int prop = kTraining, algorithm = kDirect;
  void* const* data;
  std::vector<std::int64_t> lens[3], strides[3], requested[3];  // requested strides; empty: the library's choice
  int types[3];
  std::vector<std::int64_t> steps, dilations, pad_front, pad_back;
  int layouts = 0;               // index of the choice of layouts
  std::set<std::string>* tried;  // layouts and implementation: another prop_kind may return the same one
};

namespace {

/// Converts weights to oneDNN's dimensions: the group axis first; for a deconvolution (`swap`) the two channel axes
/// exchanged.
void split_groups(std::vector<std::int64_t>& lens, std::vector<std::int64_t>& strides, std::int64_t groups, bool swap) {
  const std::int64_t outer = lens[0] / groups * strides[0];
  lens[0] /= groups;
  if (swap) {
    std::swap(lens[0], lens[1]);
    std::swap(strides[0], strides[1]);
  }
  if (groups == 1) return;
  lens.insert(lens.begin(), groups);
  strides.insert(strides.begin(), outer);
}

std::vector<std::int64_t> channels_last(const std::vector<std::int64_t>& lens) {
  std::vector<std::int64_t> strides(lens.size());
  strides[1] = 1;
  std::int64_t step = lens[1];
  for (std::size_t i = lens.size() - 1; i >= 2; --i) {
    strides[i] = step;
    step *= lens[i];
  }
  strides[0] = step;
  return strides;
}

struct Tensors {
  std::shared_ptr<void> descs[3];
  Desc get(int role) const { return descs[role].get(); }
};

/// The first implementation of a primitive: in version 3 a primitive descriptor for next_impl, in version 2 an
/// iterator. Null if there is none. `hint` and `descriptor` must outlive it.
struct Start {
  void* first = nullptr;
  void* hint = nullptr;
  std::shared_ptr<void> descriptor;
};

Start make_pd(const BaselineApi& api, Operation operation, int prop, int algorithm, const Tensors& t, Dims steps,
              Dims dilations, Dims front, Dims back) {
  Start made;
  if (operation == Operation::kDeconvolution) {
    api.deconvolution(&made.first, api.engine, prop, kDeconvolution, t.get(kY), t.get(kW), nullptr, t.get(kX), steps,
                      dilations, front, back, nullptr);
    return made;
  }
  void* forward = nullptr;
  api.forward(&forward, api.engine, prop, algorithm, t.get(kX), t.get(kW), nullptr, t.get(kY), steps, dilations, front,
              back, nullptr);
  if (operation == Operation::kForward || forward == nullptr) return {forward, nullptr, nullptr};
  made.hint = forward;
  if (operation == Operation::kBackwardData)
    api.backward_data(&made.first, api.engine, algorithm, t.get(kX), t.get(kW), t.get(kY), steps, dilations, front,
                      back, forward, nullptr);
  else
    api.backward_weights(&made.first, api.engine, algorithm, t.get(kX), t.get(kW), nullptr, t.get(kY), steps, dilations,
                         front, back, forward, nullptr);
  return made;
}

Start make_iterator(const BaselineApi& api, Operation operation, int prop, int algorithm, const Tensors& t, Dims steps,
                    Dims dilations, Dims front, Dims back) {
  const std::shared_ptr<void> blob(std::calloc(1, kBlobBytes), std::free);
  Start made;
  made.descriptor = blob;
  if (api.init_forward(blob.get(), prop, algorithm, t.get(kX), t.get(kW), nullptr, t.get(kY), steps, dilations, front,
                       back) != 0 ||
      api.iterator_create(&made.first, blob.get(), nullptr, api.engine, nullptr) != 0)
    return {};
  if (operation == Operation::kForward) return made;
  made.hint = api.iterator_fetch(made.first);
  api.iterator_destroy(made.first);
  made.first = nullptr;
  const int status = operation == Operation::kBackwardData
                         ? api.init_backward_data(blob.get(), algorithm, t.get(kX), t.get(kW), t.get(kY), steps,
                                                  dilations, front, back)
                         : api.init_backward_weights(blob.get(), algorithm, t.get(kX), t.get(kW), nullptr, t.get(kY),
                                                     steps, dilations, front, back);
  if (status == 0 && api.iterator_create(&made.first, blob.get(), nullptr, api.engine, made.hint) != 0)
    made.first = nullptr;
  return made;
}

/// Calls `use` with the primitive descriptor of each implementation.
template <class Task>
void for_each_impl(const BaselineApi& api, const Task& task, const std::function<void(Desc)>& use) {
  Tensors t;
  for (int role = 0; role < 3; ++role) {
    t.descs[role] = api.make_desc(task.types[role], task.lens[role],
                                  task.requested[role].empty() ? nullptr : task.requested[role].data());
    if (t.descs[role] == nullptr) return;
  }
  const auto make = [&](auto maker) {
    return maker(api, task.operation, task.prop, task.algorithm, t, task.steps.data(), task.dilations.data(),
                 task.pad_front.data(), task.pad_back.data());
  };
  const bool advances = api.info.major >= 3;
  const Start start = advances ? make(make_pd) : make(make_iterator);
  if (start.first != nullptr && advances) {
    do use(start.first);
    while (api.next_impl(start.first) == 0);
    api.pd_destroy(start.first);
  } else if (start.first != nullptr) {
    do {
      void* const pd = api.iterator_fetch(start.first);
      use(pd);
      api.pd_destroy(pd);
    } while (api.iterator_next(start.first) == 0);
    api.iterator_destroy(start.first);
  }
  if (start.hint != nullptr) api.pd_destroy(start.hint);
}

}  // namespace

std::unique_ptr<Baseline> Baseline::open(const std::string& path, std::string& reason) {
  const auto opencl = std::filesystem::path(path).parent_path() / "libintelocl.so";
  if (std::error_code ignored; std::filesystem::exists(opencl, ignored)) setenv("OCL_ICD_FILENAMES", opencl.c_str(), 0);
  auto api = std::make_shared<BaselineApi>();
  api->library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (api->library == nullptr) {
    reason = dlerror();
    return nullptr;
  }
  api->load(api->version, "dnnl_version");
  if (api->missing == nullptr) {
    api->info = *api->version();
    api->load_common();
    api->load_versioned();
  }
  if (api->missing != nullptr) {
    reason = fmt::format("{} has no function {}", path, api->missing);
    return nullptr;
  }
  if (api->engine_create(&api->engine, kCpu, 0) != 0 || api->stream_create(&api->stream, api->engine, kInOrder) != 0) {
    reason = path + " gives no CPU engine";
    return nullptr;
  }
  const unsigned runtime = api->info.cpu_runtime;
  std::unique_ptr<Baseline> baseline(new Baseline);
  baseline->version_ = fmt::format("{}.{}.{}, {}", api->info.major, api->info.minor, api->info.patch,
                                   runtime == kOpenMp ? "OpenMP"
                                   : runtime == kSycl ? "SYCL"
                                                      : "other threads");
  baseline->api_ = std::move(api);
  return baseline;
}

bool Baseline::is_current() const { return api_->info.major >= 3; }

bool Baseline::is_sycl() const { return api_->info.cpu_runtime == kSycl; }

void Baseline::set_threads(int threads) {
  if (api_->omp_set_num_threads != nullptr) api_->omp_set_num_threads(threads);
}

/// Makes the primitive, the reorders before it and the reorder of its result. False if oneDNN refuses one.
bool Baseline::build(const Task& task, const void* pd, BaselineVariant& variant) const {
  const BaselineApi& api = *api_;
  const auto memory = [&](Desc desc, void* data) -> void* {
    void* m = nullptr;
    if ((is_sycl() ? api.sycl_memory_create(&m, desc, api.engine, 0, data)
                   : api.memory_create(&m, desc, api.engine, data)) != 0)
      return nullptr;
    variant.owned_.emplace_back(m, api.memory_destroy);
    return m;
  };
  const auto primitive = [&](Desc of) -> void* {
    void* p = nullptr;
    if (api.primitive_create(&p, of) != 0) return nullptr;
    variant.owned_.emplace_back(p, api.primitive_destroy);
    return p;
  };
  const auto reorder = [&](Desc from, void* from_memory, Desc to, void* to_memory) {
    void* reorder_pd = nullptr;
    if (api.reorder_create(&reorder_pd, from, api.engine, to, api.engine, nullptr) != 0) return false;
    void* const p = primitive(reorder_pd);
    api.pd_destroy(reorder_pd);
    if (p != nullptr) variant.steps_.push_back({p, {{1, from_memory}, {17, to_memory}}});
    return p != nullptr;
  };

  BaselineVariant::Step kernel{primitive(pd), {}};
  if (kernel.primitive == nullptr) return false;
  struct Back {
    Desc from, to;
    void *from_memory, *to_memory;
  };
  std::vector<Back> back;
  bool has_reorders = false;
  const Role written = task.operation == Operation::kForward           ? kY
                       : task.operation == Operation::kBackwardWeights ? kW
                                                                       : kX;
  std::vector<std::shared_ptr<void>> plain_descs;
  for (int role = 0; role < 3; ++role) {
    const Operand& operand = kOperands[static_cast<int>(task.operation)][role];
    const Desc chosen = api.pd_query_desc(pd, operand.query, 0);
    const auto plain = api.make_desc(task.types[role], task.lens[role], task.strides[role].data());
    void* const plain_memory = plain == nullptr ? nullptr : memory(plain.get(), task.data[role]);
    if (plain_memory == nullptr || chosen == nullptr) return false;
    plain_descs.push_back(plain);
    void* own = plain_memory;
    if (api.desc_equal(chosen, plain.get()) == 0) {
      has_reorders = true;
      const std::size_t bytes = (api.desc_size(chosen) + 63) / 64 * 64;
      variant.owned_.emplace_back(std::aligned_alloc(64, std::max<std::size_t>(bytes, 64)), std::free);
      own = memory(chosen, variant.owned_.back().get());
      if (own == nullptr) return false;
      if (role == written)
        back.push_back({chosen, plain.get(), own, plain_memory});
      else if (!reorder(plain.get(), plain_memory, chosen, own))
        return false;
    }
    kernel.arguments.push_back({operand.argument, own});
  }
  variant.steps_.push_back(std::move(kernel));
  for (const Back& b : back)
    if (!reorder(b.from, b.from_memory, b.to, b.to_memory)) return false;
  variant.same_layouts = !has_reorders;
  if (has_reorders) variant.impl += "+reorders";
  return true;
}

void Baseline::try_layouts(const Task& task, const std::function<void(BaselineVariant)>& use) const {
  constexpr int kMaxImplementations = 3;  // in the library's order of preference
  int taken = 0;
  for_each_impl(*api_, task, [&](Desc pd) {
    const char* name = nullptr;
    if (taken == kMaxImplementations || api_->pd_query(pd, kImplName, 0, &name) != 0 || is_reference(name)) return;
    if (!task.tried->insert(fmt::format("{} {}", task.layouts, name)).second) return;
    BaselineVariant variant;
    variant.api_ = api_;
    variant.impl = name;
    if (task.operation == Operation::kDeconvolution) variant.impl += "(deconvolution)";
    if (!build(task, pd, variant)) return;
    ++taken;
    use(std::move(variant));
  });
}

void Baseline::for_each_variant(const driver::Problem& problem, void* const data[3],
                                const std::function<void(BaselineVariant)>& use) const {
  Task task;
  task.data = data;
  for (int role = 0; role < 3; ++role) {
    task.lens[role] = problem.tensors[role].lens;
    task.strides[role] = problem.tensors[role].strides;
    task.types[role] = baseline_type(problem.tensors[role].type);
    if (task.types[role] == 0) return;
  }
  for (std::size_t i = 0; i < problem.math.pad.size(); ++i) {
    const std::int64_t step = problem.math.stride[i], dilation = problem.math.dilation[i];
    const std::int64_t reach = (task.lens[kW][i + 2] - 1) * dilation + 1;
    task.steps.push_back(step);
    task.dilations.push_back(dilation - 1);
    task.pad_front.push_back(problem.math.pad[i]);
    task.pad_back.push_back((task.lens[kY][i + 2] - 1) * step + reach - task.lens[kX][i + 2] - problem.math.pad[i]);
  }
  std::set<std::string> tried, tried_deconvolution;
  const Task plain = task;
  const auto try_all = [&](Operation operation, int prop, int algorithm) {
    Task t = plain;
    t.tried = operation == Operation::kDeconvolution ? &tried_deconvolution : &tried;
    t.operation = operation;
    t.prop = prop;
    t.algorithm = algorithm;
    split_groups(t.lens[kW], t.strides[kW], problem.math.groups, operation == Operation::kDeconvolution);
    for (int role = 0; role < 3; ++role) t.requested[role] = t.strides[role];
    try_layouts(t, use);
    t.requested[kW].clear();  // x and y in the user's layout, w in the library's choice
    t.layouts = 1;
    try_layouts(t, use);
    t.requested[kX] = channels_last(t.lens[kX]);
    t.requested[kY] = channels_last(t.lens[kY]);
    t.layouts = 2;
    if (t.requested[kX] != t.strides[kX] || t.requested[kY] != t.strides[kY]) try_layouts(t, use);
    t.requested[kX].clear();
    t.requested[kY].clear();
    t.layouts = 3;
    try_layouts(t, use);
  };
  const auto operation = problem.direction == driver::kForward        ? Operation::kForward
                         : problem.direction == driver::kBackwardData ? Operation::kBackwardData
                                                                      : Operation::kBackwardWeights;
  try_all(operation, kTraining, kDirect);
  if (operation == Operation::kForward) try_all(operation, kInference, kDirect);
  if (!is_current()) try_all(operation, kTraining, kWinograd);
  if (is_current() && operation == Operation::kBackwardData)
    for (const int prop : {kTraining, kInference}) try_all(Operation::kDeconvolution, prop, kDirect);
}

std::vector<std::string> usual_baselines() {
  namespace fs = std::filesystem;
  std::vector<std::string> found;
  const auto add = [&](const fs::path& path) {
    std::error_code ignored;
    if (fs::exists(path, ignored)) found.push_back(path.string());
  };
  if (const char* given = std::getenv("ONEDNN_LIBRARY")) {
    std::istringstream paths(given);
    for (std::string path; std::getline(paths, path, ':');) found.push_back(path);
    return found;
  }
  for (const char* root : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const char* prefix = std::getenv(root);
    if (prefix == nullptr) continue;
    add(fs::path(prefix) / "lib" / "libdnnl.so.3");
    std::error_code ignored;
    for (const auto& python : fs::directory_iterator(fs::path(prefix) / "lib", ignored))
      add(python.path() / "site-packages" / "paddle" / "libs" / "libdnnl.so.3");
  }
  for (const char* folder : {"/usr/lib/x86_64-linux-gnu", "/usr/local/lib", "/usr/lib64", "/usr/lib"})
    for (const char* name : {"libdnnl.so.3", "libdnnl.so.2"}) add(fs::path(folder) / name);
  return found;
}

}  // namespace polymio::bench
