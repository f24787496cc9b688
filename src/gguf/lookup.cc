// The typed look-ups of Reader.
#include <limits>

#include "gguf/cursor.h"
#include "gguf/reader.h"

namespace chimere::gguf {
namespace {

Error absent(std::string_view key) {
  return invalid_data("the file lacks the metadata key " + in_quotes(key));
}

Error mistyped(std::string_view key, std::string_view wanted) {
  return invalid_data("the metadata key " + in_quotes(key) + " should be " + std::string(wanted));
}

template <typename T>
Result<T> scalar(const Value* v, std::string_view key, std::string_view wanted) {
  if (v == nullptr) return absent(key);
  if (const T* p = std::get_if<T>(v)) return *p;
  return mistyped(key, wanted);
}

constexpr uint64_t kMaxInt = std::numeric_limits<int64_t>::max();

}  // namespace

Result<int64_t> Reader::get_int(std::string_view key) const {
  const Value* v = find(key);
  if (const auto* u = v != nullptr ? std::get_if<uint64_t>(v) : nullptr) {
    if (*u > kMaxInt) return mistyped(key, "an integer below 2^63");
    return static_cast<int64_t>(*u);
  }
  return scalar<int64_t>(v, key, "an integer");
}

Result<double> Reader::get_float(std::string_view key) const {
  return scalar<double>(find(key), key, "a floating-point number");
}

Result<bool> Reader::get_bool(std::string_view key) const {
  return scalar<bool>(find(key), key, "a boolean");
}

Result<std::string> Reader::get_string(std::string_view key) const {
  return scalar<std::string>(find(key), key, "a string");
}

Result<std::vector<int64_t>> Reader::get_int_array(std::string_view key) const {
  const Value* v = find(key);
  if (v == nullptr) return absent(key);
  const auto* array = std::get_if<Array>(v);
  if (array == nullptr) return mistyped(key, "an array of integers");
  if (const auto* s = std::get_if<std::vector<int64_t>>(&array->items)) return *s;
  const auto* u = std::get_if<std::vector<uint64_t>>(&array->items);
  if (u == nullptr) return mistyped(key, "an array of integers");
  std::vector<int64_t> out;
  out.reserve(u->size());
  for (const uint64_t x : *u) {
    if (x > kMaxInt) return mistyped(key, "an array of integers below 2^63");
    out.push_back(static_cast<int64_t>(x));
  }
  return out;
}

Result<std::vector<double>> Reader::get_float_array(std::string_view key) const {
  const Value* v = find(key);
  if (v == nullptr) return absent(key);
  const auto* array = std::get_if<Array>(v);
  const auto* items = array != nullptr ? std::get_if<std::vector<double>>(&array->items) : nullptr;
  if (items == nullptr) return mistyped(key, "an array of floating-point numbers");
  return *items;
}

const std::vector<std::string>* Reader::find_strings(std::string_view key) const {
  const Value* v = find(key);
  const auto* array = v != nullptr ? std::get_if<Array>(v) : nullptr;
  return array != nullptr ? std::get_if<std::vector<std::string>>(&array->items) : nullptr;
}

}  // namespace chimere::gguf
