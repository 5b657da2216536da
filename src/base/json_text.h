// A writer of JSON text. No tree of values: the destructor of nlohmann::json allocates, and terminates the process when
// out of memory.
// SPDX-License-Identifier: MIT
#pragma once
#include <fmt/format.h>

#include <cmath>
#include <concepts>
#include <string>
#include <string_view>

namespace polymio {

/// A value as JSON: quoted texts; null for NaN and infinity.
inline std::string json_text(std::string_view text) {
  std::string quoted(1, '"');
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      quoted += c;
  }
  return quoted += '"';
}
inline std::string json_text(const char* text) { return json_text(std::string_view(text)); }
inline std::string json_text(const std::string& text) { return json_text(std::string_view(text)); }
template <std::same_as<bool> T>
std::string json_text(T value) {
  return value ? "true" : "false";
}
template <class T>
requires std::integral<T> &&(!std::same_as<T, bool>)std::string json_text(T value) { return fmt::format("{}", value); }
inline std::string json_text(double value) {
  if (!std::isfinite(value)) return "null";
  const std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == std::string::npos ? fmt::format("{}.0", text) : text;
}

/// Writes an array or an object; raw values are JSON already.
class JsonArray {
 public:
  template <class T>
  void add(const T& value) {
    add_raw(json_text(value));
  }
  void add_raw(std::string_view json) {
    if (!text_.empty()) text_ += ',';
    text_ += json;
  }
  std::string text() const { return fmt::format("[{}]", text_); }

 private:
  std::string text_;
};

class JsonObject {
 public:
  template <class T>
  JsonObject& add(std::string_view name, const T& value) {
    return add_raw(name, json_text(value));
  }
  JsonObject& add_raw(std::string_view name, std::string_view json) {
    if (!text_.empty()) text_ += ',';
    text_ += json_text(name);
    text_ += ':';
    text_ += json;
    return *this;
  }
  std::string text() const { return fmt::format("{{{}}}", text_); }

 private:
  std::string text_;
};

}  // namespace polymio
