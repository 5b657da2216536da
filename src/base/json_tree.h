// JSON text as a tree whose destructor does not allocate: that of nlohmann::json does, and would terminate the process
// when out of memory.
// SPDX-License-Identifier: MIT
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace polymio {

class JsonTree final : nlohmann::json_sax<nlohmann::json> {
 public:
  /// BadParm for text that is no JSON or nested too deeply; its text says where, and begins with `name`.
  JsonTree(std::string_view text, const char* name);
  JsonTree(const JsonTree&) = delete;
  JsonTree& operator=(const JsonTree&) = delete;
  ~JsonTree() override { clear(root_); }
  const nlohmann::json& root() const { return root_; }

 private:
  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool key(string_t& value) override;
  bool start_object(std::size_t) override { return open(nlohmann::json::value_t::object); }
  bool start_array(std::size_t) override { return open(nlohmann::json::value_t::array); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t place, const std::string&, const nlohmann::detail::exception&) override;

  bool add(nlohmann::json value);
  bool open(nlohmann::json::value_t kind);
  bool close();
  nlohmann::json& place(nlohmann::json value);
  static void clear(nlohmann::json& value) noexcept;

  const char* name_;
  nlohmann::json root_;
  std::vector<nlohmann::json*> open_;  // containers being read, outermost first; stable: only the innermost grows
  std::string key_;
};

}  // namespace polymio
