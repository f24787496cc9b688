#include "model/metadata_value.h"

#include <type_traits>
#include <variant>

namespace chimere::model {

std::optional<double> number(const gguf::Value& value) {
  return std::visit(
      [](const auto& v) -> std::optional<double> {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
          return static_cast<double>(v);
        } else {
          return std::nullopt;
        }
      },
      value);
}

std::string shown(const gguf::Value& value) {
  constexpr size_t kMaxBytes = 40;  // a hostile file's text may have any length
  if (const auto* text = std::get_if<std::string>(&value))
    return "'" + text->substr(0, kMaxBytes) + "'";
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* integer = std::get_if<int64_t>(&value)) return std::to_string(*integer);
  if (const auto* integer = std::get_if<uint64_t>(&value)) return std::to_string(*integer);
  if (const auto* real = std::get_if<double>(&value)) return std::to_string(*real);
  return "an array";
}

}  // namespace chimere::model
