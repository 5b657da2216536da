// SPDX-License-Identifier: MIT
#include "base/json_tree.h"

#include "base/error.h"

namespace polymio {
namespace {

constexpr std::size_t kMostDepth = 64;

}  // namespace

JsonTree::JsonTree(std::string_view text, const char* name) : name_(name) {
  try {
    nlohmann::json::sax_parse(text, static_cast<nlohmann::json_sax<nlohmann::json>*>(this));
  } catch (...) {
    clear(root_);
    throw;
  }
}

bool JsonTree::key(string_t& value) {
  key_ = std::move(value);
  return true;
}

bool JsonTree::parse_error(std::size_t place, const std::string&, const nlohmann::detail::exception& problem) {
  fail(Status::kBadParm, "{} is wrong at byte {}: {}", name_, place, problem.what());
}

nlohmann::json& JsonTree::place(nlohmann::json value) {
  if (open_.empty()) return root_ = std::move(value);
  if (open_.back()->is_array()) return open_.back()->emplace_back(std::move(value));
  return (*open_.back())[key_] = std::move(value);
}

bool JsonTree::add(nlohmann::json value) {
  place(std::move(value));
  return true;
}

bool JsonTree::open(nlohmann::json::value_t kind) {
  require(open_.size() < kMostDepth, "{} is nested more than {} deep", name_, kMostDepth);
  open_.reserve(open_.size() + 1);
  open_.push_back(&place(kind));
  return true;
}

bool JsonTree::close() {
  open_.pop_back();
  return true;
}

void JsonTree::clear(nlohmann::json& value) noexcept {
  if (!value.is_structured()) return;
  for (auto& child : value) clear(child);
  value.clear();
}

}  // namespace polymio
