// cuBLASLt, loaded at run time: describes a matrix product, selects an algorithm that the heuristic offers, and runs
// it.
// SPDX-License-Identifier: MIT
#include "runtime/cuda/cublaslt.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include "base/dynlib.h"
#include "base/error.h"
#include "runtime/cuda/cuda.h"

namespace polymio::cuda {
namespace {

// Enumerators of cublasLt.h and library_types.h.
constexpr int kComputeFloat = 68, kComputeTf32 = 77;
constexpr int kTransposeA = 3, kTransposeB = 4, kEpilogue = 7, kBiasAddress = 8;  // attributes of a product
constexpr int kRelu = 2, kBias = 4;                                               // of an epilogue
constexpr int kBatchCount = 5, kBatchStride = 6;                                  // attributes of a matrix
constexpr int kMaxWorkspace = 1, kReductions = 3, kAlignments[] = {5, 6, 7, 8};   // attributes of a preference
constexpr std::uint32_t kReduceInSums = 2, kReduceAnyhow = 7;  // split K: reduction in the compute type, or in any type
constexpr int kMaxChoices = 16;
constexpr std::size_t kWorkspaceAlignment = 256;

int number_of(DataType t) {
  switch (t) {
    case DataType::kFloat: return 0;
    case DataType::kHalf: return 2;
    case DataType::kBFloat16: return 14;
    default: fail(Status::kInternalError, "no matrix product of this data type");
  }
}

struct Algorithm {
  std::uint64_t data[8];
};
struct Offer {
  Algorithm algorithm;
  std::size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

struct Library {
  int (*create)(void**) = nullptr;
  int (*create_product)(void**, int, int) = nullptr;
  int (*set_product)(void*, int, const void*, std::size_t) = nullptr;
  int (*destroy_product)(void*) = nullptr;
  int (*create_matrix)(void**, int, std::uint64_t, std::uint64_t, std::int64_t) = nullptr;
  int (*set_matrix)(void*, int, const void*, std::size_t) = nullptr;
  int (*destroy_matrix)(void*) = nullptr;
  int (*create_preference)(void**) = nullptr;
  int (*set_preference)(void*, int, const void*, std::size_t) = nullptr;
  int (*destroy_preference)(void*) = nullptr;
  int (*offers)(void*, void*, void*, void*, void*, void*, void*, int, Offer*, int*) = nullptr;
  int (*multiply)(void*, void*, const void*, const void*, void*, const void*, void*, const void*, const void*, void*,
                  void*, void*, const Algorithm*, void*, std::size_t, void*) = nullptr;
  bool usable = false;
  std::string note;                // see cublaslt_note()
  std::map<void*, void*> handles;  // by context; kept until the process ends
  std::mutex mutex;                // of handles

  explicit Library(std::initializer_list<const char*> names) {
    DynamicLibrary file{names};
    std::size_t (*version)() = nullptr;
    const bool complete = file.find(version, "cublasLtGetCudartVersion") && file.find(create, "cublasLtCreate") &&
                          file.find(create_product, "cublasLtMatmulDescCreate") &&
                          file.find(set_product, "cublasLtMatmulDescSetAttribute") &&
                          file.find(destroy_product, "cublasLtMatmulDescDestroy") &&
                          file.find(create_matrix, "cublasLtMatrixLayoutCreate") &&
                          file.find(set_matrix, "cublasLtMatrixLayoutSetAttribute") &&
                          file.find(destroy_matrix, "cublasLtMatrixLayoutDestroy") &&
                          file.find(create_preference, "cublasLtMatmulPreferenceCreate") &&
                          file.find(set_preference, "cublasLtMatmulPreferenceSetAttribute") &&
                          file.find(destroy_preference, "cublasLtMatmulPreferenceDestroy") &&
                          file.find(offers, "cublasLtMatmulAlgoGetHeuristic") && file.find(multiply, "cublasLtMatmul");
    usable = complete && (driver_version() == 0 || serves_driver(version(), driver_version()));  // 0: no driver
    const auto dotted = [](std::size_t v) { return fmt::format("{}.{}", v / 1000, v % 1000 / 10); };
    note = usable     ? fmt::format("cuBLASLt for CUDA {}", dotted(version()))
           : complete ? fmt::format("no cuBLASLt: it is for CUDA {}, the driver for {}", dotted(version()),
                                    dotted(static_cast<std::size_t>(driver_version())))
                      : fmt::format("no cuBLASLt: {}", file.problem());
  }

  void* handle(void* context) {
    const std::scoped_lock lock(mutex);
    void*& made = handles[context];
    if (!made) check(create(&made), "opening cuBLASLt");
    return made;
  }

  static void check(int code, const char* what) {
    if (code != 0) fail(Status::kInternalError, "{}: error {} of cuBLASLt", what, code);
  }
};

Library& library() {
  // Never destroyed: streams may outlive static objects.
  static Library& newer = *new Library{"libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13"};
  if (newer.usable) return newer;
  static Library& older = *new Library{"libcublasLt.so.12", "/usr/local/cuda/lib64/libcublasLt.so.12"};
  return older.usable ? older : newer;
}

/// Owns a descriptor of the library.
struct Object {
  void* made = nullptr;
  int (*destroy)(void*);
  explicit Object(int (*how)(void*)) : destroy(how) {}
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  ~Object() {
    if (made) destroy(made);
  }
};

class CublasLt final : public Multiplier {
 public:
  CublasLt(void* handle, const MatrixProduct& p) : handle_(handle), shape_(p) {
    Library& l = library();
    Library::check(l.create_product(&product_.made, p.tf32 ? kComputeTf32 : kComputeFloat, 0), "describing a product");
    const int transpose[] = {p.transpose_a, p.transpose_b};
    Library::check(l.set_product(product_.made, kTransposeA, transpose, sizeof(int)), "describing a product");
    Library::check(l.set_product(product_.made, kTransposeB, transpose + 1, sizeof(int)), "describing a product");
    if (p.bias || p.relu) {
      const int epilogue = (p.bias ? kBias : 0) | (p.relu ? kRelu : 0);
      Library::check(l.set_product(product_.made, kEpilogue, &epilogue, sizeof epilogue), "describing a product");
    }
    if (p.bias) {  // algorithms depend on the alignment of its address
      const auto bias = static_cast<std::uintptr_t>(p.alignment);
      Library::check(l.set_product(product_.made, kBiasAddress, &bias, sizeof bias), "describing a product");
    }
    describe(a_, p.in, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.step_a, p.batch_step_a);
    describe(b_, p.in, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.step_b, p.batch_step_b);
    describe(c_, p.out, p.m, p.n, p.step_c, p.batch_step_c);
  }

  /// Selects the algorithm that the heuristic ranks `choice`-th, or the last one; false if there is none.
  bool choose(int choice) {
    Library& l = library();
    Object preference(l.destroy_preference);
    Library::check(l.create_preference(&preference.made), "asking for a product");
    const std::uint64_t bytes = shape_.workspace < kWorkspaceAlignment ? 0 : shape_.workspace - kWorkspaceAlignment;
    const auto alignment = static_cast<std::uint32_t>(shape_.alignment);
    l.set_preference(preference.made, kMaxWorkspace, &bytes, sizeof bytes);
    const std::uint32_t reductions = shape_.out == DataType::kFloat ? kReduceAnyhow : kReduceInSums;
    l.set_preference(preference.made, kReductions, &reductions, sizeof reductions);
    for (const int which : kAlignments) l.set_preference(preference.made, which, &alignment, sizeof alignment);
    Offer offers[kMaxChoices];
    int count = 0;
    const int code = l.offers(handle_, product_.made, a_.made, b_.made, c_.made, c_.made, preference.made, kMaxChoices,
                              offers, &count);
    if (code != 0) return false;
    count = static_cast<int>(
        std::remove_if(offers, offers + count, [](const Offer& offer) { return offer.state != 0; }) - offers);
    if (count == 0) return false;
    const Offer& selected = offers[std::min(choice, count - 1)];
    algorithm_ = selected.algorithm;
    workspace_ = selected.workspace;
    return true;
  }

  void run(Stream& stream, const Operands& o) const override {
    std::unique_lock lock(bias_mutex_, std::defer_lock);
    if (shape_.bias) {
      lock.lock();
      Library::check(library().set_product(product_.made, kBiasAddress, &o.bias, sizeof o.bias),
                     "describing a product");
    }
    const auto address = reinterpret_cast<std::uintptr_t>(o.workspace);
    void* const aligned =
        reinterpret_cast<void*>((address + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment);
    // beta 1 - 2^-24 instead of 1: with 1 some algorithms round a 16-bit product before adding (cuBLAS 13, H200).
    const float beta = shape_.out != DataType::kFloat && o.beta == 1 ? std::nextafter(1.0f, 0.0f) : o.beta;
    Library::check(
        library().multiply(handle_, product_.made, &o.alpha, o.a, a_.made, o.b, b_.made, &beta, o.c, c_.made, o.c,
                           c_.made, &algorithm_, workspace_ ? aligned : nullptr, workspace_, stream.native()),
        "running a product");
  }

 private:
  void describe(Object& matrix, DataType type, std::int64_t rows, std::int64_t columns, std::int64_t step,
                std::int64_t batch_step) const {
    Library& l = library();
    Library::check(l.create_matrix(&matrix.made, number_of(type), static_cast<std::uint64_t>(rows),
                                   static_cast<std::uint64_t>(columns), step),
                   "describing a matrix");
    const auto batch = static_cast<std::int32_t>(shape_.batch);
    Library::check(l.set_matrix(matrix.made, kBatchCount, &batch, sizeof batch), "describing a matrix");
    Library::check(l.set_matrix(matrix.made, kBatchStride, &batch_step, sizeof batch_step), "describing a matrix");
  }

  void* const handle_;
  const MatrixProduct shape_;
  Object product_{library().destroy_product}, a_{library().destroy_matrix}, b_{library().destroy_matrix},
      c_{library().destroy_matrix};
  Algorithm algorithm_{};
  std::size_t workspace_ = 0;
  mutable std::mutex bias_mutex_;  // of the product's bias, which the library reads when it launches
};

}  // namespace

bool has_cublaslt() { return library().usable; }

const std::string& cublaslt_note() { return library().note; }

std::unique_ptr<Multiplier> make_multiplier(void* context, const MatrixProduct& p, int choice) {
  auto made = std::make_unique<CublasLt>(library().handle(context), p);
  if (!made->choose(choice)) return nullptr;
  return made;
}

}  // namespace polymio::cuda
