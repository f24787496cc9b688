#include "model/rope_keys.h"

#include <algorithm>
#include <string>
#include <variant>

#include "model/metadata_value.h"
#include "model/rope_scaling.h"

namespace chimere::model {
namespace {

using gguf::Value;

/// What decides with a key's value whether it is accepted.
struct RopeContext {
  int64_t length = 0;       ///< the model's
  bool yarn = false;        ///< "scaling.type"
  bool local_base = false;  ///< layers with a window have a base of their own
  bool longrope = false;
};

bool any(const Value& /*value*/, const RopeContext& /*context*/) { return true; }

/// Converters write 0 or 1 where positions are not scaled.
bool divisor(const Value& value, const RopeContext& /*context*/) {
  const auto factor = number(value);
  return factor && (*factor == 0 || (*factor >= kMinRopeDivisor && *factor <= kMaxRopeDivisor));
}

bool magnitude(const Value& value, const RopeContext& context) {
  const auto factor = number(value);
  if (!factor || *factor == 1 || *factor == 0) return factor.has_value();
  return (context.yarn || context.longrope) && *factor >= kMinRopeMagnitude &&
         *factor <= kMaxRopeMagnitude;
}

bool local_base(const Value& value, const RopeContext& context) {
  const auto base = number(value);
  return context.local_base && base && *base > 1;
}

bool zero(const Value& value, const RopeContext& /*context*/) { return number(value) == 0; }

/// How much of YaRN is applied: all or nothing.
bool extrapolation(const Value& value, const RopeContext& context) {
  return number(value) == (context.yarn ? 1 : 0);
}

bool turns(const Value& value, const RopeContext& context) {
  const auto n = number(value);
  return context.yarn && n && *n > 0 && *n <= kMaxRopeDivisor;
}

/// Whether YaRN's limits are rounded: a key of our own converter (docs/convert.md).
bool truncation(const Value& value, const RopeContext& context) {
  return context.yarn && std::holds_alternative<bool>(value);
}

bool known_scaling(const Value& value, const RopeContext& /*context*/) {
  const auto* type = std::get_if<std::string>(&value);
  return type != nullptr &&
         (*type == "none" || *type == "linear" || *type == "yarn" || *type == "longrope");
}

/// The context before scaling: where the model's own is no longer, nothing was scaled.
bool original_context(const Value& value, const RopeContext& context) {
  const auto original = number(value);
  return original &&
         (context.yarn || context.longrope || *original >= static_cast<double>(context.length));
}

struct RopeKey {
  std::string_view name;  ///< behind "<architecture>.rope."
  bool (*accepted)(const Value& value, const RopeContext& context);
};

constexpr RopeKey kRopeKeys[] = {
    // Read by read_attention(), and "scaling." by read_rope_scaling().
    {"dimension_count", any},
    {"freq_base", any},
    {"freq_base_swa", local_base},
    // Which part of a head follows which axis of an image. A text's positions are the same on all.
    {"dimension_sections", any},
    {"mrope_section", any},
    {"mrope_interleaved", any},
    {"scaling.type", known_scaling},
    {"scaling.factor", divisor},
    {"scale_linear", divisor},  // the former name of scaling.factor
    {"scaling.attn_factor", magnitude},
    {"scaling.yarn_attn_factor", magnitude},
    {"scaling.yarn_ext_factor", extrapolation},
    {"scaling.yarn_beta_fast", turns},
    {"scaling.yarn_beta_slow", turns},
    {"scaling.yarn_truncate", truncation},
    {"scaling.yarn_log_multiplier", zero},
    {"scaling.original_context_length", original_context},
    {"scaling.finetuned", any},  // says how the model was trained
};

}  // namespace

Status check_rope_keys(const gguf::Reader& file, std::string_view architecture,
                       int64_t context_length) {
  const std::string prefix = std::string(architecture) + ".rope.";
  RopeContext context = {.length = context_length, .local_base = architecture == "modern-bert"};
  if (const Value* type = file.find(prefix + "scaling.type"); type != nullptr) {
    const auto* name = std::get_if<std::string>(type);
    context.yarn = name != nullptr && *name == "yarn";
    context.longrope = name != nullptr && *name == "longrope";
  }
  for (const std::string& key : file.keys()) {
    if (!key.starts_with(prefix)) continue;
    const auto* const known =
        std::ranges::find(kRopeKeys, std::string_view(key).substr(prefix.size()), &RopeKey::name);
    const Value& value = *file.find(key);
    if (known != std::end(kRopeKeys) && known->accepted(value, context)) continue;
    return unsupported(key + " = " + shown(value) +
                       " is not implemented; the model's answers would be wrong without it, so use "
                       "a file that was converted without it");
  }
  return {};
}

}  // namespace chimere::model
