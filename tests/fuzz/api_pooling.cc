// The API fuzzer's poolings: descriptors with any values, sizes, and forward and backward against the reference.
// SPDX-License-Identifier: MIT
#include "fuzz/api.h"
#include "reference/pooling.h"

namespace polymio::fuzz {
namespace {

using Ints = std::vector<int>;

/// A pooling descriptor for one call.
struct Pool {
  Pool() { miopenCreatePoolingDescriptor(&desc); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() { miopenDestroyPoolingDescriptor(desc); }
  miopenPoolingDescriptor_t desc = nullptr;
};

/// Values that a descriptor keeps, whatever they are.
Ints any_values(Draw& d, int n) {
  Ints values;
  for (int i = 0; i < n; ++i) values.push_back(d.random().pick({0, 1, 2, 3, 7, -1, INT_MAX, INT_MIN}));
  return values;
}

void keep_2d(World& w) {
  Draw d(w);
  const Pool pool;
  const Ints v = any_values(d, 6);
  if (!d.check(
          miopenSet2dPoolingDescriptor(d.pointer(pool.desc), miopenPoolingAverage, v[0], v[1], v[2], v[3], v[4], v[5])))
    return;
  miopenPoolingMode_t mode = miopenPoolingMax;
  Ints got(6);
  if (d.check(miopenGet2dPoolingDescriptor(pool.desc, &mode, d.pointer(&got[0]), &got[1], &got[2], &got[3], &got[4],
                                           &got[5])) &&
      (got != v || mode != miopenPoolingAverage))
    w.report("the values are not what was set");
}

void keep_nd(World& w) {
  Draw d(w);
  const Pool pool;
  int rank = static_cast<int>(d.random().between(1, 3));
  if (d.wrong()) {
    rank = d.random().pick({0, 4, -1, INT_MAX, INT_MIN});
    d.bad();
  }
  const Ints window = any_values(d, 4), pad = any_values(d, 4), stride = any_values(d, 4);
  if (!d.check(miopenSetNdPoolingDescriptor(pool.desc, miopenPoolingMax, rank, d.pointer(window.data()),
                                            d.pointer(pad.data()), d.pointer(stride.data()))))
    return;
  int dims = 0;
  Ints got(4, 99);
  const auto requested = static_cast<int>(d.random().between(0, 4));
  if (!d.check(miopenGetNdPoolingDescriptor(pool.desc, requested, nullptr, &dims, got.data(), nullptr, nullptr)))
    return;
  const auto n = static_cast<std::size_t>(std::min(requested, rank));
  if (dims != rank || !std::equal(got.begin(), got.begin() + static_cast<std::ptrdiff_t>(n), window.begin()) ||
      got[n] != 99)
    w.report("the values are not what was set");
}

void keep_index(World& w) {
  Draw d(w);
  const Pool pool;
  const auto type = static_cast<miopenIndexType_t>(d.random().below(4));
  const auto position = static_cast<miopenPoolingWorkspaceIndexMode_t>(d.random().below(2));
  auto got_type = miopenIndexUint8;
  auto got = miopenPoolingWorkspaceIndexMask;
  if (d.check(miopenSetPoolingIndexType(d.pointer(pool.desc), type)) &&
      d.check(miopenSetPoolingWorkSpaceIndexMode(d.pointer(pool.desc), position)) &&
      d.check(miopenGetPoolingIndexType(pool.desc, d.pointer(&got_type))) &&
      d.check(miopenGetPoolingWorkSpaceIndexMode(pool.desc, d.pointer(&got))) && (got_type != type || got != position))
    w.report("the values are not what was set");
}

/// Forward with indices or without, then backward; at most one argument of each call is wrong.
void run(World& w) {
  Draw d(w);
  const Pool pool;
  const auto rank = static_cast<std::size_t>(d.random().between(1, 3));
  const auto type = static_cast<miopenDataType_t>(d.random().pick(Ints{0, 1, 5, 6}));
  ref::Pooling p;
  std::vector<std::int64_t> x_lens{d.random().between(1, 2), d.random().between(1, 20)}, y_lens = x_lens;
  Ints values[3];
  for (std::size_t k = 0; k < rank; ++k) {
    p.window.push_back(d.random().between(1, 4));
    p.pad.push_back(d.random().between(0, 4));
    p.stride.push_back(d.random().between(1, 4));
    x_lens.push_back(d.random().between(1, rank == 3 ? 6 : 20));
    y_lens.push_back(p.outputs(k, x_lens.back()));
    values[0].push_back(static_cast<int>(p.window[k]));
    values[1].push_back(static_cast<int>(p.pad[k]));
    values[2].push_back(static_cast<int>(p.stride[k]));
  }
  p.mode = static_cast<ref::PoolingMode>(d.random().below(3));
  p.scale = d.random().pick({1.0, -2.0});
  p.keep = d.random().pick({0.0, 0.5});
  Operand x(w, random_tensor(d.random(), type, x_lens)), y(w, random_tensor(d.random(), type, y_lens));
  Operand dx(w, random_tensor(d.random(), type, x_lens)), dy(w, random_tensor(d.random(), type, y_lens));
  p.x = x.plain;
  p.y = y.plain;
  p.dy = dy.plain;
  p.dx = dx.plain;
  for (Operand* t : {&x, &y, &dx, &dy}) t->fill(-3, 3);
  miopenSetNdPoolingDescriptor(pool.desc, static_cast<miopenPoolingMode_t>(p.mode), static_cast<int>(rank),
                               values[0].data(), values[1].data(), values[2].data());
  miopenSetPoolingIndexType(pool.desc, static_cast<miopenIndexType_t>(d.random().between(1, 3)));
  std::size_t bytes = 0, least = 0;
  if (!d.check(miopenPoolingGetWorkSpaceSizeV2(pool.desc, y.desc, d.pointer(&bytes))) ||
      !d.check(miopenPoolingGetWorkSpaceSize(y.desc, d.pointer(&least))))
    return;
  Ints sizes(rank + 2);
  int four[4];
  if (!d.check(
          miopenGetPoolingNdForwardOutputDim(pool.desc, x.desc, static_cast<int>(rank + 2), d.pointer(sizes.data()))))
    return;
  if (rank == 2 && !d.check(miopenGetPoolingForwardOutputDim(pool.desc, x.desc, four, four + 1, four + 2, four + 3)))
    return;
  if (!std::equal(sizes.begin(), sizes.end(), y_lens.begin(), y_lens.end())) w.report("other sizes");
  const bool indexed = d.random().one_in(2);
  const Scalar alpha(type, p.scale), beta(type, p.keep);
  Buffer workspace(w, indexed ? bytes : 0, 8);
  void* const indices = indexed && bytes > 0 ? workspace.data() : nullptr;
  const auto y_before = y.buffer.copy(), dx_before = dx.buffer.copy();
  const auto handle = d.object<miopenHandle_t>(Kind::kHandle);
  if (!d.check(miopenPoolingForward(handle, pool.desc, d.pointer(alpha.get()), d.object(Kind::kTensor, x.desc),
                                    d.pointer(x.data()), beta.get(), y.desc, d.pointer(y.data()), indices != nullptr,
                                    indices, bytes)) ||
      !d.clean())
    return;
  expect_result(w, pool_arithmetic(p, false), y.plain, y.buffer.data(), ref::pool(p, x.data(), y_before.data()),
                y_before, "forward");
  if (!d.check(miopenPoolingBackward(w.handle(), pool.desc, alpha.get(), y.desc, y.data(), dy.desc,
                                     d.pointer(dy.data()), d.object(Kind::kTensor, x.desc), x.data(), beta.get(),
                                     dx.desc, d.pointer(dx.data()), indices)) ||
      !d.clean())
    return;
  expect_result(w, pool_arithmetic(p, true), dx.plain, dx.buffer.data(),
                pool_backward(p, x.data(), dy.data(), dx_before.data()), dx_before, "backward");
}

Registration g_entries[] = {{"miopenCreatePoolingDescriptor", keep_2d},
                            {"miopenDestroyPoolingDescriptor", keep_2d},
                            {"miopenSet2dPoolingDescriptor", keep_2d},
                            {"miopenGet2dPoolingDescriptor", keep_2d},
                            {"miopenSetNdPoolingDescriptor", keep_nd},
                            {"miopenGetNdPoolingDescriptor", keep_nd},
                            {"miopenSetPoolingIndexType", keep_index},
                            {"miopenGetPoolingIndexType", keep_index},
                            {"miopenSetPoolingWorkSpaceIndexMode", keep_index},
                            {"miopenGetPoolingWorkSpaceIndexMode", keep_index},
                            {"miopenGetPoolingForwardOutputDim", run},
                            {"miopenGetPoolingNdForwardOutputDim", run},
                            {"miopenPoolingGetWorkSpaceSize", run},
                            {"miopenPoolingGetWorkSpaceSizeV2", run},
                            {"miopenPoolingForward", run},
                            {"miopenPoolingBackward", run}};

}  // namespace
}  // namespace polymio::fuzz
