#include "model/keys.h"

#include <cmath>
#include <utility>
#include <variant>

namespace chimere::model {

Result<int> Keys::checked(const std::string& what, int64_t value, int min, int max) const {
  if (value < min || value > max) {
    return invalid_data(what + " is " + std::to_string(value) + "; it must be from " +
                        std::to_string(min) + " to " + std::to_string(max));
  }
  return static_cast<int>(value);
}

Result<int> Keys::integer(std::string_view key, int min, int max) const {
  CHIMERE_TRY(const int64_t value, file_.get_int(name(key)));
  return checked(name(key), value, min, max);
}

Result<int> Keys::integer_or(std::string_view key, int otherwise, int min, int max) const {
  if (!has(key)) return otherwise;
  return integer(key, min, max);
}

Result<int> Keys::block_count() const {
  CHIMERE_TRY(const int n, integer("block_count", 1, kMaxCount));
  const size_t tensors = file_.tensors().size();
  if (static_cast<size_t>(n) <= tensors) return n;
  return invalid_data(name("block_count") + " is " + std::to_string(n) + ", but the file has " +
                      std::to_string(tensors) + " tensors");
}

Result<int> Keys::integer_of_block(std::string_view key, int block, int min, int max) const {
  const gguf::Value* value = file_.find(name(key));
  if (value == nullptr || !std::holds_alternative<gguf::Array>(*value)) {
    return integer(key, min, max);
  }
  auto found = arrays_.find(name(key));
  if (found == arrays_.end()) {
    CHIMERE_TRY(std::vector<int64_t> read, file_.get_int_array(name(key)));
    found = arrays_.emplace(name(key), std::move(read)).first;
  }
  const std::vector<int64_t>& values = found->second;
  CHIMERE_TRY(const int blocks, block_count());
  if (values.size() != static_cast<size_t>(blocks)) {
    return invalid_data(name(key) + " has " + std::to_string(values.size()) +
                        " elements; it must have one for each of the " + std::to_string(blocks) +
                        " blocks, or be a single number");
  }
  return checked(name(key) + "[" + std::to_string(block) + "]", values[static_cast<size_t>(block)],
                 min, max);
}

Result<std::optional<std::vector<bool>>> Keys::flags(std::string_view key) const {
  std::optional<std::vector<bool>> flags;
  const gguf::Value* value = file_.find(name(key));
  if (value == nullptr) return flags;
  CHIMERE_TRY(const int blocks, block_count());
  const auto* array = std::get_if<gguf::Array>(value);
  const auto* items = array != nullptr ? std::get_if<std::vector<bool>>(&array->items) : nullptr;
  if (items == nullptr || items->size() != static_cast<size_t>(blocks)) {
    return invalid_data(name(key) + " must be an array of " + std::to_string(blocks) + " booleans");
  }
  flags = *items;
  return flags;
}

Result<int> Keys::head_dim(std::string_view key) const {
  CHIMERE_TRY(const int v, integer(key, 1, kMaxWidth));
  return checked_head_dim(key, v);
}

Result<int> Keys::head_dim_or(std::string_view key, int otherwise) const {
  return has(key) ? head_dim(key) : checked_head_dim(key, otherwise);
}

Result<int> Keys::checked_head_dim(std::string_view key, int v) const {
  if (v < 1 || v > kMaxHeadDim || v % kHeadDimUnit != 0) {
    return unsupported(name(key) + " is " + std::to_string(v) + "; heads have a multiple of " +
                       std::to_string(kHeadDimUnit) + " elements, at most " +
                       std::to_string(kMaxHeadDim));
  }
  return v;
}

Result<float> Keys::positive(std::string_view key) const {
  CHIMERE_TRY(const double v, file_.get_float(name(key)));
  const auto f = static_cast<float>(v);
  if (!std::isfinite(f) || f <= 0) {
    return invalid_data(name(key) + " is " + std::to_string(v) + "; it must be positive");
  }
  return f;
}

Result<float> Keys::positive_or(std::string_view key, float otherwise) const {
  if (!has(key)) return otherwise;
  return positive(key);
}

Result<float> Keys::multiplier_or(std::string_view key, float otherwise) const {
  if (!has(key)) return otherwise;
  CHIMERE_TRY(const double v, file_.get_float(name(key)));
  if (v == 0) return otherwise;
  return positive(key);
}

}  // namespace chimere::model
