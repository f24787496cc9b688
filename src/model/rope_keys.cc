#include "model/rope_keys.h"

#include <algorithm>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>

namespace chimere::model {
namespace {

using gguf::Value;

std::optional<double> number(const Value& value) {
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

bool any(const Value& /*value*/, int64_t /*context_length*/) { return true; }

/// Converters write 0 or 1 where positions are not scaled.
bool no_factor(const Value& value, int64_t /*context_length*/) {
  const auto factor = number(value);
  return factor == 0 || factor == 1;
}

bool one(const Value& value, int64_t /*context_length*/) { return number(value) == 1; }

bool zero(const Value& value, int64_t /*context_length*/) { return number(value) == 0; }

/// "linear" multiplies positions by a factor that has a key of its own.
bool no_scaling(const Value& value, int64_t /*context_length*/) {
  const auto* type = std::get_if<std::string>(&value);
  return type != nullptr && (*type == "none" || *type == "linear");
}

/// The context before scaling: where the model's own is no longer, nothing was scaled.
bool whole_context(const Value& value, int64_t context_length) {
  const auto original = number(value);
  return original && *original >= static_cast<double>(context_length);
}

struct RopeKey {
  std::string_view name;  ///< behind "<architecture>.rope."
  bool (*accepted)(const Value& value, int64_t context_length);
};

constexpr RopeKey kRopeKeys[] = {
    // Read by read_attention().
    {"dimension_count", any},
    {"freq_base", any},
    // Which part of a head follows which axis of an image. A text's positions are the same on all.
    {"dimension_sections", any},
    {"scaling.type", no_scaling},
    {"scaling.factor", no_factor},
    {"scale_linear", no_factor},  // the former name of scaling.factor
    {"scaling.attn_factor", one},
    {"scaling.yarn_attn_factor", one},
    {"scaling.yarn_ext_factor", zero},
    {"scaling.yarn_log_multiplier", zero},
    {"scaling.original_context_length", whole_context},
    {"scaling.finetuned", any},  // says how the model was trained
};

std::string shown(const Value& value) {
  constexpr size_t kMaxBytes = 40;  // a hostile file's text may have any length
  if (const auto* text = std::get_if<std::string>(&value))
    return "'" + text->substr(0, kMaxBytes) + "'";
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* integer = std::get_if<int64_t>(&value)) return std::to_string(*integer);
  if (const auto* integer = std::get_if<uint64_t>(&value)) return std::to_string(*integer);
  if (const auto* real = std::get_if<double>(&value)) return std::to_string(*real);
  return "an array";
}

}  // namespace

Status check_rope_keys(const gguf::Reader& file, std::string_view architecture,
                       int64_t context_length) {
  const std::string prefix = std::string(architecture) + ".rope.";
  for (const std::string& key : file.keys()) {
    if (!key.starts_with(prefix)) continue;
    const auto* const known =
        std::ranges::find(kRopeKeys, std::string_view(key).substr(prefix.size()), &RopeKey::name);
    const Value& value = *file.find(key);
    if (known != std::end(kRopeKeys) && known->accepted(value, context_length)) continue;
    return unsupported(key + " = " + shown(value) +
                       " is not implemented; the model's answers would be wrong without it, so use "
                       "a file that was converted without it");
  }
  return {};
}

}  // namespace chimere::model
