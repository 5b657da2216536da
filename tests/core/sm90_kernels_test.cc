// Kernels that are C++ templates: their instantiation, compilation by NVRTC, and a run where there is a device.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <numeric>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "core/kernel_builder.h"
#include "tools/kernel_list.h"

namespace polymio {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHelpers = "kernels/gpu/sm90/bulk_copy.cuh";
constexpr std::uint32_t kStages = 4, kChunkBytes = 2048;

/// One thread loads chunks into a ring in shared memory, a warpgroup adds a number and stores them.
constexpr const char* kRingCopy = R"kernel(
template <int kStages, int kBytes, class T>
struct RingCopy {
  static constexpr int kConsumers = 128, kThreads = kConsumers + 32, kResident = 2;
  static constexpr int kElements = kBytes / sizeof(T);
  struct Arguments {
    const T* src;
    T* dst;
    T added;
    int chunks;
  };
  struct Shared {
    alignas(128) T ring[kStages][kElements];
    sm90::Barrier full[kStages], empty[kStages];
  };

  static __device__ void run(const Arguments& a) {
    __shared__ Shared shared;
    const int thread = threadIdx.x;
    if (thread == 0) {
      for (int i = 0; i < kStages; ++i) {
        shared.full[i].init(1);
        shared.empty[i].init(kConsumers);
      }
      sm90::publish_barriers();
    }
    __syncthreads();
    if (thread < kConsumers)
      consume(a, shared, thread);
    else if (thread == kConsumers)
      produce(a, shared);
  }

  static __device__ void produce(const Arguments& a, Shared& shared) {
    sm90::RingPosition<kStages> at;
    for (int chunk = blockIdx.x; chunk < a.chunks; chunk += gridDim.x) {
      shared.empty[at.slot].wait(at.parity ^ 1);
      shared.full[at.slot].arrive_and_expect(kBytes);
      sm90::load_bulk(shared.ring[at.slot], a.src + chunk * kElements, kBytes, shared.full[at.slot]);
      at.advance();
    }
  }

  static __device__ void consume(const Arguments& a, Shared& shared, int thread) {
    sm90::RingPosition<kStages> at;
    for (int chunk = blockIdx.x; chunk < a.chunks; chunk += gridDim.x) {
      shared.full[at.slot].wait(at.parity);
      for (int i = thread; i < kElements; i += kConsumers)
        a.dst[chunk * kElements + i] = shared.ring[at.slot][i] + a.added;
      shared.empty[at.slot].arrive();
      at.advance();
    }
  }
};
)kernel";

/// Reads more values than registers can hold.
constexpr const char* kSpills = R"kernel(
template <int kValues>
struct Spills {
  static constexpr int kThreads = 1024, kResident = 1;
  struct Arguments {
    float* data;
    int steps;
  };
  static __device__ void run(const Arguments& a) {
    float v[kValues];
#pragma unroll
    for (int i = 0; i < kValues; ++i) v[i] = a.data[i * kThreads + threadIdx.x];
    for (int step = 0; step < a.steps; ++step) {
#pragma unroll
      for (int i = 0; i < kValues; ++i) v[i] = v[i] * v[(i * 7 + 3) % kValues] + a.data[i];
      __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < kValues; ++i) a.data[i * kThreads + threadIdx.x] = v[i];
  }
};
)kernel";

/// Products in a loop between one fence and one commit.
constexpr const char* kSerialised = R"kernel(
template <class T>
struct Serialised {
  static constexpr int kThreads = 128, kResident = 1;
  struct Arguments {
    T* out;
    u64 a, b;
    int steps;
  };
  static __device__ void run(const Arguments& p) {
    T d[4] = {};
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int i = 0; i < p.steps; ++i)
      asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                   : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                   : "l"(p.a + i), "l"(p.b));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int i = 0; i < 4; ++i) p.out[threadIdx.x * 4 + i] = d[i];
  }
};
)kernel";

/// The kernel's arguments, as RingCopy<.., int> has them.
struct Arguments {
  const void* src;
  void* dst;
  int added, chunks;
};

/// A folder of sources that has the test's kernel.
class Sm90Kernels : public testing::Test {
 protected:
  Sm90Kernels() : folder_(fs::temp_directory_path() / fmt::format("polymio-sm90-{}", ::getpid())) {
    fs::create_directories(folder_);
    std::ofstream(folder_ / "ring_copy.cu") << kernel_source(kHelpers) << kRingCopy;
    std::ofstream(folder_ / "slow.cu") << kernel_source(kHelpers) << kSpills << kSerialised;
    ::setenv("POLYMIO_KERNEL_DIR", folder_.c_str(), 1);
  }
  ~Sm90Kernels() override {
    ::unsetenv("POLYMIO_KERNEL_DIR");
    fs::remove_all(folder_);
  }

  static KernelSpec ring_copy(const std::string& type) {
    return {.source = "ring_copy.cu",
            .entry = "ring_copy",
            .options = {},
            .instantiation = fmt::format("RingCopy<{}, {}, {}>", kStages, kChunkBytes, type)};
  }

 private:
  const fs::path folder_;
};

std::unique_ptr<Compiler> compiler_for(const std::string& architecture) {
  try {
    return create_compiler(architecture);
  } catch (const Error& e) {
    EXPECT_EQ(e.status, Status::kNotInitialized);
    return nullptr;
  }
}

TEST_F(Sm90Kernels, AreInstantiatedByTheirSpec) {
  const auto compiler = compiler_for("cuda-sm90");
  if (!compiler) GTEST_SKIP() << "no NVRTC";
  const std::string ints = compile_program(*compiler, ring_copy("int")).binary,
                    floats = compile_program(*compiler, ring_copy("float")).binary;
  EXPECT_EQ(ints.substr(1, 3), "ELF");
  EXPECT_NE(ints.find("ring_copy"), std::string::npos) << "the entry point has its plain name";
  EXPECT_NE(ints, floats);
  try {
    compile_program(*compiler, ring_copy("Missing"));
    FAIL() << "an unknown type compiles";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("Missing"), std::string::npos) << e.what();
  }
}

TEST_F(Sm90Kernels, AreRefusedWhereTheCompilerSaysThatTheyAreSlow) {
  const auto compiler = compiler_for("cuda-sm90");
  if (!compiler) GTEST_SKIP() << "no NVRTC";
  const auto refusal = [&](KernelSpec spec) {
    try {
      compile_to_disk(*compiler, {&spec, 1});
    } catch (const Error& e) {
      EXPECT_EQ(e.status, Status::kInternalError);
      return std::string(e.what());
    }
    return std::string();
  };
  const auto slow = [](const char* instantiation) {
    return KernelSpec{.source = "slow.cu", .entry = "slow", .options = {}, .instantiation = instantiation};
  };
  EXPECT_NE(refusal(slow("Spills<128>")).find("Registers are spilled"), std::string::npos);
  EXPECT_EQ(refusal(slow("Spills<8>")), "");
  EXPECT_NE(refusal(slow("Serialised<float>")).find("C7515"), std::string::npos);
  KernelSpec verbose = ring_copy("int");
  verbose.options = {"--ptxas-options=-v"};
  EXPECT_EQ(refusal(verbose), "") << "0 bytes are spilled";
}

/// Every tune point with POLYMIO_TEST_POINTS=all (./dev test --points), else some of each source.
TEST(Sm90Templates, CompileAtTunePointsWithoutSpills) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the compiler is not sanitized, but four times as slow with the sanitizer's allocator";
#endif
  constexpr const char* kArchitecture = "cuda-sm90";
  constexpr std::size_t kFew = 10;  // per source
  const auto compiler = compiler_for(kArchitecture);
  if (!compiler) GTEST_SKIP() << "no NVRTC";
  std::map<std::string, std::vector<KernelSpec>> by_source;
  for (KernelSpec& spec : template_programs(usual_device(kArchitecture))) by_source[spec.source].push_back(spec);
  const char* points = std::getenv("POLYMIO_TEST_POINTS");
  std::vector<KernelSpec> chosen;
  for (const std::string& source : kernel_programs()) {
    if (!source.ends_with(".cu")) continue;
    const auto& all = by_source[source];
    EXPECT_FALSE(all.empty()) << source << " is in no program";
    const std::size_t count = points && std::string_view(points) == "all" ? all.size() : std::min(kFew, all.size());
    for (std::size_t i = 0; i < count; ++i) chosen.push_back(all[i * all.size() / count]);
    std::printf("%s: %zu of %zu programs\n", source.c_str(), count, all.size());
  }
  std::mutex mutex;
  std::size_t compiled = 0;
  in_parallel(chosen.size(), [&](std::size_t i) {
    const CompiledProgram program = compile_program(*compiler, chosen[i]);
    const std::scoped_lock lock(mutex);
    compiled += program.binary.substr(1, 3) == "ELF";
    for (const char* note : {"spill", "(C75"})  // C75xx: the compiler serializes wgmma
      EXPECT_EQ(program.log.find(note), std::string::npos) << program_name(chosen[i]) << ":\n" << program.log;
  });
  std::printf("%zu programs compiled\n", compiled);
  EXPECT_EQ(compiled, chosen.size());
  EXPECT_GT(compiled, 0u);
}

TEST_F(Sm90Kernels, ComputeOnADevice) {
  if (const auto& why = absence(DeviceKind::kCuda); !why.empty()) GTEST_SKIP() << why;
  const auto stream = create_stream("cuda:0", nullptr);
  if (stream->info().gpu.compute_capability < 90) GTEST_SKIP() << "no sm90";
  constexpr int kChunks = 1001, kElements = kChunks * static_cast<int>(kChunkBytes / sizeof(int));
  std::vector<int> in(kElements), out(kElements), wanted(kElements);
  std::iota(in.begin(), in.end(), 0);
  std::iota(wanted.begin(), wanted.end(), 7);
  void* const src = stream->allocate(in.size() * sizeof(int));
  void* const dst = stream->allocate(in.size() * sizeof(int));
  stream->upload(src, in.data(), in.size() * sizeof(int));
  const KernelSpec spec = ring_copy("int");
  const Kernels kernels = build_kernels(*stream, {&spec, 1});
  launch(*stream, *kernels[0], Launch{.blocks = {64, 1, 1}, .threads = {160, 1, 1}}, Arguments{src, dst, 7, kChunks});
  stream->download(out.data(), dst, out.size() * sizeof(int));
  stream->deallocate(src);
  stream->deallocate(dst);
  EXPECT_EQ(out, wanted);
}

/// The epilogues with the most registers, in the tiles with the most sums.
TEST(Sm90Templates, ActivationsOfPlanesDoNotSpill) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "as above";
#endif
  constexpr const char* kArchitecture = "cuda-sm90";
  const auto compiler = compiler_for(kArchitecture);
  if (!compiler) GTEST_SKIP() << "no NVRTC";
  constexpr std::int64_t images = 8, channels = 64, side = 28, filter = 3;
  constexpr int kTanh = 2, kSwish = 11;
  std::vector<KernelSpec> chosen;
  for (const int activation : {kTanh, kSwish}) {
    convolution::Problem p;
    p.geometry.spatial = 2;
    p.geometry.pad = {1, 1, 0};
    p.x = make_tensor(DataType::kHalf, std::array{images, channels, side, side},
                      std::array{side * side * channels, std::int64_t{1}, side * channels, channels});
    p.w = make_tensor(DataType::kHalf, std::array{channels, channels, filter, filter},
                      std::array{filter * filter * channels, std::int64_t{1}, filter * channels, channels});
    p.y = make_tensor(DataType::kHalf, std::array{images, channels, side, side}, {});
    p.epilogue = {.bias = true, .activation = activation};
    for (KernelSpec& spec : programs_of(convolution::solvers(convolution::Direction::kForward, DeviceKind::kCuda),
                                        usual_device(kArchitecture), p, {}, "ConvHopperFwd", true))
      if (spec.instantiation.find("ConvHalo<") != std::string::npos) chosen.push_back(std::move(spec));
  }
  ASSERT_FALSE(chosen.empty());
  EXPECT_NO_THROW(compile_to_disk(*compiler, chosen));
}

}  // namespace
}  // namespace polymio
