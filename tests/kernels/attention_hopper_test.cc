// Executes MhaHopper on the CPU: its launches and kernels on an emulated multiprocessor, against the solver of the CPU
// in fp32.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "core/kernel_builder.h"
#include "primitives/mha/solvers.h"
#include "tests/kernels/attention_kernels.h"
#include "tests/kernels/forwarding_stream.h"

namespace polymio::mha {
namespace {

struct HostKernel final : Kernel {
  explicit HostKernel(const KernelSpec& s) : spec(s) {}
  KernelSpec spec;
};

struct Program {
  void (*run)(const void* arguments);  // a thread
  std::size_t argument_bytes;
  std::uint32_t threads, shared_bytes;
  int columns;  // of products with operands in shared memory
};
using Programs = std::map<std::string, Program>;

template <class Kernel>
Program program(int columns) {
  return {[](const void* arguments) { Kernel::run(*static_cast<const typename Kernel::Arguments*>(arguments)); },
          sizeof(typename Kernel::Arguments), Kernel::kThreads, Kernel::kSharedBytes, columns};
}

template <class Element, int kHead, int kConsumers, int kKeys, int kSlots, bool kPingPong, bool kBias>
void add_forward(Programs& to) {
  to[fmt::format("sm90::AttentionForward<{}, {}, {}, {}, {}, {}, {}>",
                 std::is_same_v<Element, sm90::Half> ? "sm90::Half" : "sm90::Bfloat16", kHead, kConsumers, kKeys,
                 kSlots, kPingPong, kBias)] =
      program<sm90::AttentionForward<Element, kHead, kConsumers, kKeys, kSlots, kPingPong, kBias>>(kKeys);
}

template <class Element, int kHead, int kTokens, int kSlots, bool kBias>
void add_backward(Programs& to) {
  const std::string arguments =
      fmt::format("<{}, {}, 2, {}, {}, {}>", std::is_same_v<Element, sm90::Half> ? "sm90::Half" : "sm90::Bfloat16",
                  kHead, kTokens, kSlots, kBias);
  to["sm90::AttentionQueryGradient" + arguments] =
      program<sm90::AttentionQueryGradient<Element, kHead, 2, kTokens, kSlots, kBias>>(kTokens);
  to["sm90::AttentionKeyGradient" + arguments] =
      program<sm90::AttentionKeyGradient<Element, kHead, 2, kTokens, kSlots, kBias>>(kTokens);
}

const Programs& programs() {
  static const Programs kPrograms = [] {
    Programs all;
    add_forward<sm90::Half, 128, 2, 128, 4, true, false>(all);
    add_forward<sm90::Bfloat16, 80, 2, 128, 4, true, true>(all);
    add_forward<sm90::Half, 64, 3, 128, 6, false, false>(all);
    add_forward<sm90::Bfloat16, 32, 3, 128, 6, false, true>(all);
    add_backward<sm90::Half, 128, 64, 8, false>(all);
    add_backward<sm90::Bfloat16, 80, 64, 8, true>(all);
    add_backward<sm90::Half, 64, 128, 6, false>(all);
    add_backward<sm90::Bfloat16, 32, 128, 6, true>(all);
    return all;
  }();
  return kPrograms;
}

/// A device that runs the programs of MhaHopper. Its memory is the host's.
class Device final : public ForwardingStream {
 public:
  explicit Device(Stream& cpu) : ForwardingStream(cpu), info_(usual_device("cuda-sm90")) { info_.units = 2; }
  const DeviceInfo& info() const override { return info_; }
  TensorMap tensor_map(const TensorMapSpec& spec, Buffer tensor) const override {
    return emulated::tensor_map(spec, tensor.address());
  }
  void launch(const Kernel& kernel, const Launch& shape, std::span<const Argument> arguments) override {
    const KernelSpec& spec = static_cast<const HostKernel&>(kernel).spec;
    if (spec.entry == "collect") return collect(arguments);
    if (spec.entry == "finish") return finish(arguments);
    const auto found = programs().find(spec.instantiation);
    if (found == programs().end()) throw std::runtime_error("add to the programs " + spec.instantiation);
    const Program& p = found->second;
    if (arguments.size() != 1 || arguments[0].bytes != p.argument_bytes || shape.threads[0] != p.threads ||
        shape.shared_bytes != p.shared_bytes)
      throw std::runtime_error("the launch does not fit " + spec.instantiation);
    struct alignas(64) Line {
      unsigned char bytes[64];
    };
    std::vector<Line> copy((p.argument_bytes + sizeof(Line) - 1) / sizeof(Line));
    std::memcpy(copy.data(), arguments[0].data, p.argument_bytes);
    emulated::run_blocks(shape, {type, type, p.columns, false, false}, memory, [&, run = p.run] { run(copy.data()); });
  }

  std::vector<emulated::Extent> memory;  // that tensor maps may reach
  DataType type = DataType::kHalf;

 private:
  template <class T>
  static T value_of(const Argument& argument) {
    T v;
    std::memcpy(static_cast<void*>(&v), argument.data, sizeof v);
    return v;
  }
  static void* address_of(const Argument& argument) { return static_cast<const Buffer*>(argument.data)->address(); }

  /// See scalars.cl.
  static void collect(std::span<const Argument> arguments) {
    auto& to = *static_cast<kernels::Scalars*>(address_of(arguments[0]));
    const int given = value_of<int>(arguments[17]);
    const auto number = [&](std::size_t i) { return *static_cast<const float*>(address_of(arguments[i + 1])); };
    for (std::size_t i = 0; i < kScalars; ++i) to.value[i] = (given >> i & 1) != 0 ? number(i) : 1;
    to.taken[0] = to.taken[1] = 0;
    to.drops = (given >> kScalars & 1) != 0 && number(kScalars) > 0 ? 1 : 0;
    if (to.drops)
      to.dropout = make_dropout(number(kScalars), *static_cast<const std::int64_t*>(address_of(arguments[15])),
                                *static_cast<const std::int64_t*>(address_of(arguments[16])));
  }
  static void finish(std::span<const Argument> arguments) {
    const auto* const magnitudes = static_cast<const float*>(address_of(arguments[0]));
    const auto count = value_of<std::int64_t>(arguments[1]);
    const int given = value_of<int>(arguments[4]);
    for (int kind = 0; kind < 2; ++kind)
      if ((given >> kind & 1) != 0)
        *static_cast<float*>(address_of(arguments[kind == 0 ? 2 : 3])) =
            *std::max_element(magnitudes + kind * count, magnitudes + (kind + 1) * count);
  }

  DeviceInfo info_;
};

struct Case {
  DataType type;
  std::int64_t batch, heads, queries, keys, head;
  Mask mask = Mask::kNone;
  bool bias = false, tokens_first = false;  // [batch, tokens, heads, head size]
  float probability = 0, scale = 0.2f;
  bool masked = false;  // by biases of the least float: the first 200 keys, and all of a query
};

/// A tensor in 16 bits, and the same values in fp32.
struct Operand {
  TensorDesc desc, wide_desc;
  std::vector<unsigned char> narrow, wide;
};

class AttentionHopper : public testing::Test {
 protected:
  static TensorDesc desc(DataType type, const Case& c, std::int64_t tokens, std::int64_t head) {
    const std::int64_t sizes[] = {c.batch, c.heads, tokens, head},
                       strides[] = {c.heads * tokens * head, head, c.heads * head, 1};
    return c.tokens_first ? make_tensor(type, sizes, strides) : make_tensor(type, sizes, {});
  }
  Operand operand(const Case& c, std::int64_t tokens, bool filled = true) {
    Operand o{desc(c.type, c, tokens, c.head), desc(DataType::kFloat, c, tokens, c.head), {}, {}};
    o.narrow.assign(o.desc.bytes(), 0xff);  // NaN
    o.wide.assign(o.wide_desc.bytes(), 0xff);
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; filled && i < o.desc.space(); ++i) {
      dtype::store(c.type, o.narrow.data(), i, static_cast<double>(normal(engine_)));
      dtype::store(DataType::kFloat, o.wide.data(), i, dtype::load(c.type, o.narrow.data(), i));
    }
    return o;
  }

  static void compare(const char* name, DataType type, const void* found, const void* wanted, std::int64_t count,
                      double tolerance) {
    int wrong = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const double a = dtype::load(type, found, i), b = dtype::load(DataType::kFloat, wanted, i);
      if (!(std::fabs(a - b) <= tolerance * std::max(1.0, std::fabs(b))) && ++wrong == 1)
        ADD_FAILURE() << name << ": element " << i << " is " << a << ", not " << b;
    }
    EXPECT_EQ(wrong, 0) << "elements of " << count << " of " << name;
  }

  /// Both directions.
  void check(const Case& c) {
    SCOPED_TRACE(fmt::format("{} heads, {} queries, {} keys, head {}", c.heads, c.queries, c.keys, c.head));
    const std::int64_t of_bias[] = {1, c.heads, c.queries, c.keys}, rows = c.batch * c.heads * c.queries;
    const TensorDesc bias_desc = c.bias ? make_tensor(DataType::kFloat, of_bias, {}) : TensorDesc{};
    std::vector<float> bias(static_cast<std::size_t>(c.heads * c.queries * c.keys));
    std::normal_distribution<float> normal;
    for (float& b : bias) b = normal(engine_);
    for (std::size_t i = 0; c.masked && i < bias.size(); ++i) {
      const std::int64_t key = static_cast<std::int64_t>(i) % c.keys,
                         query = static_cast<std::int64_t>(i) / c.keys % c.queries;
      if (key < 200 || query == 3) bias[i] = std::numeric_limits<float>::lowest();
    }
    Operand q = operand(c, c.queries), k = operand(c, c.keys), v = operand(c, c.keys), o = operand(c, c.queries, false),
            dout = operand(c, c.queries), dq = operand(c, c.queries, false), dk = operand(c, c.keys, false),
            dv = operand(c, c.keys, false);
    std::vector<float> statistics[4];
    for (auto& s : statistics) s.assign(static_cast<std::size_t>(rows), NAN);
    float factors[kScalars], probability = c.probability;
    for (std::size_t i = 0; i < kScalars; ++i) factors[i] = std::exp2(static_cast<float>(i % 4) - 1.5f);
    float largest[2][kAmaxes];
    for (auto& kind : largest)
      for (float& l : kind) l = NAN;
    std::int64_t seed = 7, offset = 3;

    const auto arguments = [&](bool wide) {
      const auto data = [&](Operand& operand) -> void* { return (wide ? operand.wide : operand.narrow).data(); };
      Problem::Args a;
      a.q = data(q);
      a.k = data(k);
      a.v = data(v);
      a.o = data(o);
      a.dout = data(dout);
      a.dq = data(dq);
      a.dk = data(dk);
      a.dv = data(dv);
      if (c.bias) a.bias = bias.data();
      a.m = statistics[wide].data();
      a.z_inv = statistics[2 + wide].data();
      for (std::size_t i = 0; i < kAmaxes; ++i) a.amax[i] = &largest[wide][i];
      for (std::size_t i = 0; i < kScalars; ++i) a.scalars[i] = &factors[i];
      if (c.probability > 0) {
        a.probability = &probability;
        a.seed = &seed;
        a.offset = &offset;
      }
      a.scale = static_cast<double>(c.scale);
      a.mask = c.mask;
      return a;
    };
    Problem::Args narrow = arguments(false);
    const double epsilon = c.type == DataType::kHalf ? 2e-3 : 1.6e-2;
    const auto compare_tensor = [&](const char* name, const Operand& t) {
      compare(name, c.type, t.narrow.data(), t.wide.data(), t.desc.space(), 2 * epsilon);
    };
    const auto compare_amax = [&](const char* name, Amax which, double tolerance) {
      compare(name, DataType::kFloat, &largest[0][static_cast<std::size_t>(which)],
              &largest[1][static_cast<std::size_t>(which)], 1, tolerance);
    };

    const Problem p = forward_problem(q.desc, k.desc, v.desc, o.desc, bias_desc);
    run(cpu_, forward_problem(q.wide_desc, k.wide_desc, v.wide_desc, o.wide_desc, bias_desc), arguments(true));
    run_hopper(p, narrow, {&q, &k, &v});
    compare_tensor("o", o);
    compare("m", DataType::kFloat, statistics[0].data(), statistics[1].data(), rows, 1e-5);
    compare("z_inv", DataType::kFloat, statistics[2].data(), statistics[3].data(), rows, 1e-5);
    compare_amax("amax o", Amax::kO, epsilon);
    compare_amax("amax s", Amax::kS, 1e-5);

    // From the same o, and with factors that no forward pass gives.
    for (std::size_t i = 1; i < static_cast<std::size_t>(rows); i += 2)
      for (auto* z_inv : {&statistics[2], &statistics[3]}) (*z_inv)[i] *= -1;
    for (std::int64_t i = 0; i < o.desc.space(); ++i)
      dtype::store(DataType::kFloat, o.wide.data(), i, dtype::load(c.type, o.narrow.data(), i));
    const Problem b = backward_problem(q.desc, k.desc, v.desc, o.desc, dout.desc, dq.desc, dk.desc, dv.desc, bias_desc);
    run(cpu_,
        backward_problem(q.wide_desc, k.wide_desc, v.wide_desc, o.wide_desc, dout.wide_desc, dq.wide_desc, dk.wide_desc,
                         dv.wide_desc, bias_desc),
        arguments(true));
    run_hopper(b, narrow, {&q, &k, &v, &dout});
    compare_tensor("dq", dq);
    compare_tensor("dk", dk);
    compare_tensor("dv", dv);
    compare_amax("amax dq", Amax::kDQ, epsilon);
    compare_amax("amax dk", Amax::kDK, epsilon);
    compare_amax("amax dv", Amax::kDV, epsilon);
    compare_amax("amax ds", Amax::kDS, 1e-4);
  }

  void run_hopper(const Problem& p, Problem::Args& a, const std::vector<Operand*>& loaded) {
    Device device(cpu_.stream());
    device.type = p.q.type;
    for (Operand* o : loaded) device.memory.push_back({o->narrow.data(), o->narrow.size()});
    const GpuSolver<Problem>* solver = nullptr;
    for (const SolverBase* s : solvers(p.direction, DeviceKind::kCuda))
      if (std::string(s->info().name).starts_with("MhaHopper")) solver = dynamic_cast<const GpuSolver<Problem>*>(s);
    const DeviceInfo& d = device.info();
    ASSERT_EQ(solver->is_applicable(d, p).text(), Verdict{}.text());
    constexpr std::size_t kOffset = 8, kGuard = 256;  // workspace is not aligned to 16 bytes
    const std::size_t bytes = solver->workspace_size(d, p, {});
    std::vector<unsigned char> workspace(kOffset + bytes + kGuard, 0xff);
    a.workspace = workspace.data() + kOffset;
    a.workspace_bytes = bytes;
    Kernels kernels;
    for (const KernelSpec& spec : solver->kernel_specs(d, p, {})) kernels.push_back(std::make_shared<HostKernel>(spec));
    try {
      solver->assemble(d, p, {}, kernels)(device, a);
    } catch (const std::exception& e) {
      FAIL() << e.what();
    }
    for (std::size_t i = 0; i < kGuard; ++i) ASSERT_EQ(workspace[kOffset + bytes + i], 0xff) << "beyond the workspace";
  }

  Handle cpu_{"cpu", nullptr};
  std::mt19937 engine_{1};
};

constexpr auto kHalf = DataType::kHalf, kBf16 = DataType::kBFloat16;

TEST_F(AttentionHopper, ComputesWhatTheCpuDoes) {
  check({kHalf, 1, 1, 150, 300, 128});
  check({kHalf, 1, 2, 130, 300, 64, Mask::kCausal});  // keys that no query sees
  check({kHalf, 1, 1, 300, 300, 128, Mask::kCausal});
  check({kHalf, 2, 2, 60, 40, 64, Mask::kCausal, false, true});
  check({kHalf, 1, 1, 140, 390, 64, Mask::kNone, false, false, 0.3f});
  check({kHalf, 1, 2, 5, 130, 56, Mask::kNone, false, false, 0, -0.2f});
  check({kHalf, 1, 1, 70, 70, 128, Mask::kCausal, false, false, 0, 0});
  check({kBf16, 1, 2, 130, 140, 72, Mask::kCausal, true});
  check({kBf16, 2, 1, 20, 300, 24, Mask::kNone, true, true, 0.5f});
  check({kBf16, 1, 1, 20, 300, 24, Mask::kNone, true, false, 0, 0.2f, true});
  check({kBf16, 1, 1, 20, 300, 72, Mask::kNone, true, false, 0, 0.2f, true});
}

TEST_F(AttentionHopper, RefusesWhatItCannotLoad) {
  const auto reason = [](DataType type, std::int64_t head, std::int64_t step) {
    const std::int64_t sizes[] = {1, 2, 5, head}, strides[] = {10 * step, 5 * step, step, 1};
    const TensorDesc t = make_tensor(type, sizes, strides);
    const Problem p = forward_problem(t, t, t, t);
    const ProblemBase& problem = p;
    for (const SolverBase* s : solvers(p.direction, DeviceKind::kCuda))
      if (std::string(s->info().name) == "MhaHopperFwd")
        return s->is_applicable(usual_device("cuda-sm90"), problem).text();
    return std::string("no solver");
  };
  EXPECT_EQ(reason(kHalf, 64, 64), Verdict{}.text());
  EXPECT_EQ(reason(DataType::kFloat, 64, 64), "multiplies fp16 and bf16 only");
  EXPECT_EQ(reason(kHalf, 12, 16), "head sizes that are no multiple of 8");
  EXPECT_EQ(reason(kHalf, 64, 68), "tokens that do not start at multiples of 16 bytes");
  EXPECT_NE(reason(kBf16, 136, 136).find("head size"), std::string::npos);
}

}  // namespace
}  // namespace polymio::mha
