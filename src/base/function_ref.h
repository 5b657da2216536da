// A non-owning reference to a callable: two pointers, never allocates. The callable must outlive it.
// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <type_traits>
#include <utility>

namespace polymio {

template <class Signature>
class FunctionRef;

template <class R, class... A>
class FunctionRef<R(A...)> {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>)
      FunctionRef(F&& f)  // NOLINT: implicit, so that lambdas pass directly
      : context_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))), call_([](void* c, A... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(c))(std::forward<A>(args)...);
        }) {}
  R operator()(A... args) const { return call_(context_, std::forward<A>(args)...); }

  using Function = R (*)(void*, A...);
  Function function() const { return call_; }
  void* context() const { return context_; }

 private:
  void* context_;
  Function call_;
};

}  // namespace polymio
