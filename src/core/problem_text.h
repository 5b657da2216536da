// What the problems of every primitive share: equality and hash from one list of fields, and how key() writes tensors.
// SPDX-License-Identifier: MIT
#pragma once
#include <fmt/format.h>

#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>

#include "base/hash.h"
#include "core/solver.h"
#include "core/tensor.h"

namespace polymio {

/// Enumerations share one number, 8 bits for each; every other field mixes itself in by its hash(seed).
template <class... Fields>
std::uint64_t hash_of(const Fields&... fields) {
  std::uint64_t hash = 0, numbers = 0;
  const auto add = [&](const auto& field) {
    if constexpr (std::is_enum_v<std::remove_cvref_t<decltype(field)>>)
      numbers = numbers << 8 ^ static_cast<std::uint64_t>(field);
    else
      hash = field.hash(hash);
  };
  (add(fields), ...);
  return mix(hash, numbers);
}

/// Base class of a Problem whose fields() returns a std::tie of all its fields, in the order of comparison. The hash
/// may change between releases: files never hold it.
template <class Derived>
class ProblemOf : public ProblemBase {
 public:
  std::uint64_t hash() const final {
    return std::apply([](const auto&... fields) { return hash_of(fields...); }, derived().fields());
  }
  bool equals(const ProblemBase& o) const final {
    return typeid(o) == typeid(Derived) && derived() == static_cast<const Derived&>(o);
  }
  std::unique_ptr<ProblemBase> clone() const final { return std::make_unique<Derived>(derived()); }
  friend bool operator==(const Derived& a, const Derived& b) { return a.fields() == b.fields(); }

 private:
  const Derived& derived() const { return static_cast<const Derived&>(*this); }
};

// Parts of key(), a MIOpenDriver line. Flags begin with a space; these texts are database keys and never change.

/// The base argument, and the number of spatial dimensions unless it is 2: "conv", "convfp16 -_ 3".
std::string base_arg(const char* primitive, DataType, int spatial);

/// " -n 2 -c 3 -! 4 -H 5 -W 7": rank 2 to 5, the last dimensions last.
std::string size_flags(const TensorDesc&);

/// " --in_strides 105,35,7,1"
std::string strides_flag(const TensorDesc&, const char* flag);
/// Nothing if dense in the order of the dimensions.
std::string strides_unless_dense(const TensorDesc&, const char* flag);

/// Nothing if dense in N, C, [D], H, W order; " -I NHWC" if dense in another one; else the strides.
std::string layout_flags(const TensorDesc&, const char* layout, const char* strides);

/// A view of numbers of a tensor for messages: a text when they are formatted, since most checks never need theirs.
struct NumbersText {
  const std::int64_t* numbers;
  int count;
  const char* separator;
  operator std::string() const;  // NOLINT: a text
};
inline NumbersText sizes_text(const TensorDesc& t) { return {t.lens.data(), t.rank, "x"}; }       // "2x3x5x7"
inline NumbersText strides_text(const TensorDesc& t) { return {t.strides.data(), t.rank, ","}; }  // "105,35,7,1"

}  // namespace polymio

template <>
struct fmt::formatter<polymio::NumbersText> : fmt::formatter<std::string_view> {
  auto format(const polymio::NumbersText& t, fmt::format_context& to) const {
    return fmt::formatter<std::string_view>::format(std::string(t), to);
  }
};
