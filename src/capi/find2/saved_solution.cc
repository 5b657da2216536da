// Serialization of find 2.0 solutions. One description of the fields serves writing and reading. Read values are
// validated, since a checksum only detects accidental changes.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/hash.h"
#include "capi/find2/chain.h"
#include "capi/find2/convolution.h"
#include "capi/find2/mha.h"
#include "capi/find2/softmax.h"
#include "capi/find2/solution.h"
#include "core/registry.h"

namespace polymio::capi {
namespace {

constexpr std::string_view kMagic = "PolymioS";
constexpr std::uint32_t kFormat = 2;      // in format 1 the types 7 and 8 were e4m3fn and e5m2
constexpr std::size_t kMaxListSize = 64;  // per list; the longest are tensors of a problem and tune points

struct Header {
  char magic[8];
  std::uint32_t format;
  std::uint32_t bytes;  // of the fields, which are between the header and the checksum
};
constexpr std::size_t kFrame = sizeof(Header) + sizeof(std::uint64_t);

void expect(bool condition, const char* what) {
  if (!condition) fail(Status::kInvalidValue, "the saved solution is damaged: {}", what);
}

/// Serialized numbers, eight bytes each.
struct Writer {
  static constexpr bool kReads = false;
  std::string out;

  void raw(const void* p, std::size_t n) { out.append(static_cast<const char*>(p), n); }
  void operator()(double& v) { raw(&v, sizeof v); }
  template <class T>
  void operator()(T& v) {
    const auto wide = static_cast<std::int64_t>(v);
    raw(&wide, sizeof wide);
  }
};

struct Reader {
  static constexpr bool kReads = true;
  std::string_view rest;

  void raw(void* p, std::size_t n) {
    expect(n <= rest.size(), "it ends too early");
    std::memcpy(p, rest.data(), n);
    rest.remove_prefix(n);
  }
  void operator()(double& v) { raw(&v, sizeof v); }
  template <class T>
  void operator()(T& v) {
    std::int64_t wide = 0;
    raw(&wide, sizeof wide);
    using Number = typename std::conditional_t<std::is_enum_v<T>, std::underlying_type<T>, std::type_identity<T>>::type;
    const auto number = static_cast<Number>(wide);
    expect(static_cast<std::int64_t>(number) == wide, "a number is out of range");
    v = static_cast<T>(number);
  }
};

template <class Archive, class List>
void list(Archive& io, List& values) {
  std::size_t count = values.size();
  io(count);
  if constexpr (Archive::kReads) {
    expect(count <= kMaxListSize, "a list is too long");
    values.resize(count);
  }
  for (auto& v : values) io(v);
}

template <class Archive>
void fields(Archive& io, TensorDesc& t) {
  io(t.type);
  io(t.cast);
  io(t.rank);
  expect(t.rank >= 1 && t.rank <= kMaxRank, "a tensor's rank is out of range");
  for (std::size_t i = 0; i < static_cast<std::size_t>(t.rank); ++i) {
    io(t.lens[i]);
    io(t.strides[i]);
  }
}

template <class Archive>
void fields(Archive& io, ConvolutionObject::State& c) {
  io(c.transposed);
  list(io, c.pad);
  list(io, c.stride);
  list(io, c.dilation);
  list(io, c.output_pad);
  io(c.groups);
  io(c.fp16_alt);
  io(c.deterministic);
  io(c.fp8_rounding);
  io(c.find_mode);
  io(c.math);
  io(c.seed);
}

/// The first operation. Other numbers are in solutions of later versions.
enum class SavedKind : int { kConvolution = 1, kSoftmax = 2, kChain = 3, kMha = 4 };

template <class Archive>
void fields(Archive& io, SoftmaxObject::State& s) {
  double alpha = s.alpha, beta = s.beta;
  io(alpha);
  io(beta);
  s.alpha = static_cast<float>(alpha);
  s.beta = static_cast<float>(beta);
  io(s.algorithm);
  io(s.mode);
}

template <class Archive>
void fields(Archive& io, MhaObject::State& s) {
  double scale = s.scale;
  io(scale);
  s.scale = static_cast<float>(scale);
}

/// The operations of a chain as numbers; part of the format.
enum class SavedOperation : int { kConvolution = 1, kBias = 2, kActivation = 3, kBatchnorm = 4 };

/// The problem of a solution: a convolution with bias and activation, a softmax, attention, or a chain.
struct SavedProblem {
  SavedKind kind = SavedKind::kConvolution;
  bool has_bias = false, has_activation = false;
  ConvolutionOperation convolution;
  miopenProblemDirection_t direction = miopenProblemDirectionForward;
  ActivationOperation activation;
  SoftmaxOperation softmax;
  MhaOperation mha;
  BatchnormOperation batchnorm;
  std::vector<SavedOperation> order;  // of a chain; the operations are in the other fields
  std::map<miopenTensorArgumentId_t, TensorDesc> tensors;
};

SavedOperation number_of(const Operation& operation) {
  if (std::holds_alternative<ConvolutionOperation>(operation)) return SavedOperation::kConvolution;
  if (std::holds_alternative<BiasOperation>(operation)) return SavedOperation::kBias;
  return std::holds_alternative<ActivationOperation>(operation) ? SavedOperation::kActivation
                                                                : SavedOperation::kBatchnorm;
}

Operation operation_of(SavedProblem& saved, SavedOperation number) {
  switch (number) {
    case SavedOperation::kConvolution: return std::move(saved.convolution);
    case SavedOperation::kBias: return BiasOperation();
    case SavedOperation::kActivation: return saved.activation;
    case SavedOperation::kBatchnorm: return saved.batchnorm;
  }
  fail(Status::kInvalidValue, "the saved solution is damaged: an operation is unknown");
}

SavedProblem to_saved(const ProblemState& p, const ProblemCall& call) {
  SavedProblem saved;
  if (const auto* convolution = p.find<ConvolutionOperation>()) {
    saved.convolution = *convolution;
    saved.convolution.descriptor.math = saved.convolution.descriptor.allowed_math();
  }
  if (const auto* mha = p.find<MhaOperation>()) {
    saved.kind = SavedKind::kMha;
    saved.mha = *mha;
  } else if (const auto* softmax = p.find<SoftmaxOperation>()) {
    saved.kind = SavedKind::kSoftmax;
    saved.softmax = *softmax;
  } else if (std::holds_alternative<ChainCall>(call)) {
    saved.kind = SavedKind::kChain;
    for (const Operation& operation : p.operations) saved.order.push_back(number_of(operation));
    if (const auto* batchnorm = p.find<BatchnormOperation>()) saved.batchnorm = *batchnorm;
  }
  saved.has_bias = p.find<BiasOperation>();
  if (const auto* activation = p.find<ActivationOperation>()) {
    saved.has_activation = true;
    saved.activation = *activation;
  }
  saved.direction = p.direction;
  saved.tensors = p.tensors;
  return saved;
}

ProblemState from_saved(SavedProblem saved) {
  ProblemState p;
  if (saved.kind == SavedKind::kChain) {
    for (const SavedOperation number : saved.order) p.operations.push_back(operation_of(saved, number));
  } else {
    if (saved.kind == SavedKind::kSoftmax)
      p.operations.emplace_back(saved.softmax);
    else if (saved.kind == SavedKind::kMha)
      p.operations.emplace_back(saved.mha);
    else
      p.operations.emplace_back(std::move(saved.convolution));
    if (saved.has_bias) p.operations.emplace_back(BiasOperation());
    if (saved.has_activation) p.operations.emplace_back(saved.activation);
  }
  p.direction = saved.direction;
  p.tensors = std::move(saved.tensors);
  return p;
}

template <class Archive>
void fields(Archive& io, SavedProblem& p) {
  io(p.kind);
  io(p.has_bias);
  io(p.has_activation);
  if (p.kind == SavedKind::kSoftmax)
    fields(io, p.softmax.descriptor);
  else if (p.kind == SavedKind::kMha)
    fields(io, p.mha.descriptor);
  else
    fields(io, p.convolution.descriptor);
  if (p.kind == SavedKind::kChain) {
    list(io, p.order);
    io(p.batchnorm.mode);
    io(p.batchnorm.direction);
    io(p.batchnorm.updates_running_moments);
  }
  io(p.direction);
  io(p.activation.mode);
  io(p.activation.parameters.alpha);
  io(p.activation.parameters.beta);
  io(p.activation.parameters.gamma);
  std::size_t count = p.tensors.size();
  io(count);
  expect(count <= kMaxListSize, "it has too many tensors");
  auto it = p.tensors.begin();
  for (; count > 0; --count) {
    auto id = Archive::kReads ? miopenTensorArgumentIdInvalid : it->first;
    io(id);
    fields(io, Archive::kReads ? p.tensors[id] : (it++)->second);
  }
}

/// Gives the tensors of a solution in format 1 the types that their numbers now have.
void rename_types(SavedProblem& p) {
  for (auto& [id, t] : p.tensors)
    for (DataType* type : {&t.type, &t.cast}) {
      if (*type == DataType::kFloat8Fnuz) *type = DataType::kFloat8E4m3fn;
      if (*type == DataType::kBFloat8Fnuz) *type = DataType::kFloat8E5m2;
    }
}

/// The identity of the solver.
struct Name {
  std::uint64_t id = 0;
  int version = 0;
  std::string text;
};

template <class Archive>
void fields(Archive& io, Name& name, SavedProblem& problem, search::Candidate& c) {
  io(name.id);
  io(name.version);
  list(io, name.text);
  fields(io, problem);
  list(io, c.point);
  io(c.us);
  io(c.workspace);
  io(c.source);
  io(c.tuned);
}

/// Throws for convolutions that the API would have refused.
void check(const ConvolutionObject::State& c) {
  const auto dims = c.pad.size();
  const auto least = [](const std::vector<int>& v, int limit) {
    return std::all_of(v.begin(), v.end(), [&](int i) { return i >= limit; });
  };
  expect(dims >= 1 && dims <= 3 && c.stride.size() == dims && c.dilation.size() == dims && c.output_pad.size() == dims,
         "the convolution's dimensions disagree");
  expect(least(c.pad, 0) && least(c.stride, 1) && least(c.dilation, 1) && least(c.output_pad, 0),
         "a pad, stride or dilation is out of range");
  expect(c.math >= MathMode::kStrict && c.math <= MathMode::kAny, "the math mode is unknown");
}

/// Throws for a chain that the API would have refused; the operations are checked where its call is made.
void check(const SavedProblem& p) {
  using batch_norm::Direction;
  expect(!p.order.empty(), "it has no operations");
  for (std::size_t i = 0; i < p.order.size(); ++i)
    expect(std::count(p.order.begin(), p.order.end(), p.order[i]) == 1, "an operation is there twice");
  expect(p.batchnorm.mode == batch_norm::Mode::kPerActivation || p.batchnorm.mode == batch_norm::Mode::kSpatial,
         "the batch norm's mode is unknown");
  expect(p.batchnorm.direction >= Direction::kTraining && p.batchnorm.direction <= Direction::kBackward,
         "the batch norm's direction is unknown");
  const auto has = [&](SavedOperation operation) {
    return std::find(p.order.begin(), p.order.end(), operation) != p.order.end();
  };
  const bool is_backward = p.direction == miopenProblemDirectionBackward;
  expect(p.direction != miopenProblemDirectionBackwardWeights, "a chain has no such direction");
  expect(!has(SavedOperation::kBatchnorm) || (p.batchnorm.direction == Direction::kBackward) == is_backward,
         "its directions disagree");
  expect(!is_backward || !(has(SavedOperation::kConvolution) || has(SavedOperation::kBias)),
         "it fuses gradients that cannot be fused");
}

/// The problem, if the API would have taken it.
ProblemState checked_problem(SavedProblem saved) {
  const bool chain = saved.kind == SavedKind::kChain;
  const bool alone = saved.kind == SavedKind::kSoftmax || saved.kind == SavedKind::kMha;
  expect(alone || chain || saved.kind == SavedKind::kConvolution, "its operation is unknown");
  if (chain) check(saved);
  expect(!alone || !(saved.has_bias || saved.has_activation), "it fuses what cannot be fused");
  if (!alone) check(saved.convolution.descriptor);
  expect(
      (saved.direction >= miopenProblemDirectionForward && saved.direction <= miopenProblemDirectionBackwardWeights) ||
          (chain && saved.direction == miopenProblemDirectionInference),
      "the direction is unknown");
  expect(saved.activation.mode >= activation::Mode::kPassthru && saved.activation.mode <= activation::Mode::kClamp,
         "the activation is unknown");
  ProblemState p = from_saved(std::move(saved));
  expect(!p.fused() || chain || p.direction == miopenProblemDirectionForward, "it is fused, and not forward");
  for (const auto& [id, t] : p.tensors) {
    check_id(p, id);
    make_tensor(t.type, t.sizes(), {t.strides.data(), static_cast<std::size_t>(t.rank)});
    expect(is_valid(t.cast), "a cast type is unknown");
  }
  return p;
}

SolutionState restore(const Name& name, ProblemState problem, SavedKind kind, search::Candidate candidate) {
  candidate.solver = solver_by_id(name.id);
  if (!candidate.solver || name.text != candidate.solver->info().name)
    fail(Status::kVersionMismatch, "the saved solution is for the solver {} ({}), which this version does not have",
         name.text, name.id);
  if (name.version != candidate.solver->info().version) {
    candidate.point.clear();
    candidate.tuned = false;
    candidate.source = std::min(candidate.source, search::Source::kNeighbour);
  }
  ProblemCall call = make_call(problem, Status::kInvalidValue);
  expect(std::holds_alternative<ChainCall>(call) == (kind == SavedKind::kChain), "its operations are of another kind");
  std::visit([](const auto& of_primitive) { validate(of_primitive); }, call);
  const auto serves = [&](DeviceKind kind) {
    const auto list = std::visit([&](const auto& of_primitive) { return solvers(of_primitive, kind); }, call);
    return std::find(list.begin(), list.end(), candidate.solver) != list.end();
  };
  expect(serves(DeviceKind::kCpu) || serves(DeviceKind::kCuda), "its solver is for another direction or operation");
  return {std::move(problem), std::move(candidate), std::move(call)};
}

}  // namespace

std::string save(const SolutionState& s) {
  const SolverInfo info = s.candidate.solver->info();
  Name name{info.id, info.version, info.name};
  SavedProblem problem = to_saved(s.problem, s.call);
  search::Candidate candidate = s.candidate;
  Writer body;
  fields(body, name, problem, candidate);
  Header header{{}, kFormat, static_cast<std::uint32_t>(body.out.size())};
  std::memcpy(header.magic, kMagic.data(), sizeof header.magic);
  Writer all;
  all.raw(&header, sizeof header);
  all.out += body.out;
  const std::uint64_t sum = content_hash(all.out);
  all.raw(&sum, sizeof sum);
  return std::move(all.out);
}

SolutionState load(std::string_view bytes) {
  Header header;
  if (bytes.size() < kFrame || bytes.substr(0, kMagic.size()) != kMagic)
    fail(Status::kInvalidValue, "the {} bytes are no saved solution", bytes.size());
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.format != 1 && header.format != kFormat)
    fail(Status::kVersionMismatch, "the saved solution has format {}, this version reads 1 and {}", header.format,
         kFormat);
  expect(bytes.size() == kFrame + header.bytes, "its size is wrong");
  std::uint64_t sum = 0;
  std::memcpy(&sum, bytes.data() + bytes.size() - sizeof sum, sizeof sum);
  expect(sum == content_hash(bytes.substr(0, bytes.size() - sizeof sum)), "its checksum is wrong");
  Reader body{bytes.substr(sizeof header, header.bytes)};
  Name name;
  SavedProblem problem;
  search::Candidate candidate{};
  fields(body, name, problem, candidate);
  if (header.format == 1) rename_types(problem);
  expect(body.rest.empty(), "it has bytes left over");
  expect(std::isfinite(candidate.us) && candidate.us >= 0, "its time is not a valid number");
  expect(candidate.source >= search::Source::kEstimate && candidate.source <= search::Source::kMeasured,
         "the source of its time is unknown");
  try {
    const SavedKind kind = problem.kind;
    return restore(name, checked_problem(std::move(problem)), kind, std::move(candidate));
  } catch (const Error& e) {
    if (e.status == Status::kInvalidValue || e.status == Status::kVersionMismatch) throw;
    fail(Status::kInvalidValue, "the saved solution is damaged: {}", e.what());
  }
}

}  // namespace polymio::capi
