#include "convert/config.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace chimere::convert {
namespace {

std::string shown(Names names) {
  std::string out;
  for (const std::string_view name : names) {
    out += (out.empty() ? "'" : "' or '") + std::string(name);
  }
  return out + "'";
}

Error missing(Names names) { return invalid_data("config.json has no " + shown(names)); }

Error wrong(Names names, const std::string& what) {
  return invalid_data("config.json: " + shown(names) + " must be " + what);
}

std::string range(int64_t min, int64_t max) {
  return "from " + std::to_string(min) + " to " + std::to_string(max);
}

/// nullopt if it is no integer or outside of the range.
std::optional<int64_t> as_integer(const Json& value, int64_t min, int64_t max) {
  if (!value.is_number_integer()) return std::nullopt;
  const bool huge =
      value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(kMaxInteger);
  const auto n = huge ? int64_t{-1} : value.get<int64_t>();
  if (huge || n < min || n > max) return std::nullopt;
  return n;
}

/// nullptr if it is missing or null.
const Json* member(const Json& json, std::string_view name) {
  if (!json.is_object()) return nullptr;
  const size_t dot = name.find('.');
  const auto at = json.find(name.substr(0, dot));
  if (at == json.end() || at->is_null()) return nullptr;
  return dot == std::string_view::npos ? &*at : member(*at, name.substr(dot + 1));
}

bool as_number(const Json& value, double& out) {
  if (!value.is_number()) return false;
  out = value.get<double>();
  return std::isfinite(out);
}

}  // namespace

Result<Config> Config::of(Json config) {
  Config out;
  const auto classes = config.find("architectures");
  if (classes == config.end() || !classes->is_array() || classes->empty() ||
      !classes->front().is_string()) {
    return invalid_data("config.json does not say which model it is (\"architectures\")");
  }
  out.model_class_ = classes->front().get<std::string>();
  if (const auto inner = config.find("text_config"); inner != config.end() && inner->is_object()) {
    const Json text = *inner;
    config.update(text);
  }
  out.json_ = std::make_shared<const Json>(std::move(config));
  return out;
}

const Json* Config::find(Names names) const {
  for (const std::string_view name : names) {
    if (const Json* const value = member(*json_, name); value != nullptr) return value;
  }
  return nullptr;
}

Result<int64_t> Config::integer(Names names, int64_t min, int64_t max) const {
  const Json* const value = find(names);
  if (value == nullptr) return missing(names);
  if (!value->is_number_integer()) return wrong(names, "an integer");
  const auto n = as_integer(*value, min, max);
  if (!n) return wrong(names, range(min, max));
  return *n;
}

Result<int64_t> Config::integer_or(Names names, int64_t otherwise, int64_t min, int64_t max) const {
  if (!has(names)) return otherwise;
  return integer(names, min, max);
}

Result<double> Config::number(Names names) const {
  const Json* const value = find(names);
  if (value == nullptr) return missing(names);
  double out = 0;
  if (!as_number(*value, out)) return wrong(names, "a number");
  return out;
}

Result<double> Config::number_or(Names names, double otherwise) const {
  if (!has(names)) return otherwise;
  return number(names);
}

Result<bool> Config::flag_or(Names names, bool otherwise) const {
  const Json* const value = find(names);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) return wrong(names, "true or false");
  return value->get<bool>();
}

Result<std::string> Config::text_or(Names names, std::string_view otherwise) const {
  const Json* const value = find(names);
  if (value == nullptr) return std::string(otherwise);
  if (!value->is_string()) return wrong(names, "a text");
  return value->get<std::string>();
}

Result<std::vector<double>> Config::numbers(Names names, size_t count) const {
  const Json* const value = find(names);
  if (value == nullptr) return missing(names);
  std::vector<double> out(count);
  bool good = value->is_array() && value->size() == count;
  for (size_t i = 0; good && i < count; ++i) good = as_number((*value)[i], out[i]);
  if (!good) return wrong(names, "a list of " + std::to_string(count) + " numbers");
  return out;
}

Result<std::vector<int64_t>> Config::integers(Names names, int64_t min, int64_t max) const {
  const Json* const value = find(names);
  if (value == nullptr) return missing(names);
  std::vector<int64_t> out;
  for (size_t i = 0; value->is_array() && i < value->size(); ++i) {
    const auto n = as_integer((*value)[i], min, max);
    if (!n) return wrong(names, "a list of integers " + range(min, max));
    out.push_back(*n);
  }
  if (out.empty()) return wrong(names, "a list of integers " + range(min, max));
  return out;
}

Result<std::optional<std::vector<std::string>>> Config::texts(Names names) const {
  using Texts = std::optional<std::vector<std::string>>;
  const Json* const value = find(names);
  if (value == nullptr) return Texts();
  if (!value->is_array()) return wrong(names, "a list of texts");
  std::vector<std::string> out;
  for (const Json& item : *value) {
    if (!item.is_string()) return wrong(names, "a list of texts");
    out.push_back(item.get<std::string>());
  }
  return Texts(std::move(out));
}

const Json* Config::rope(std::string_view name, std::string_view kind) const {
  if (const Json* const all = find({"rope_parameters", "rope_scaling"});
      all != nullptr && all->is_object()) {
    const Json* of = all;
    if (const auto inner = all->find(kind); inner != all->end() && inner->is_object()) {
      of = &*inner;
    }
    const auto value = of->find(name);
    if (value != of->end() && !value->is_null()) return &*value;
    if (name == "rope_type") {
      const auto old = of->find("type");
      if (old != of->end() && !old->is_null()) return &*old;
    }
  }
  if (name == "rope_theta") return find({"rope_theta", "global_rope_theta", "rotary_emb_base"});
  if (name == "partial_rotary_factor") return find({"partial_rotary_factor", "rope_pct"});
  if (name == "original_max_position_embeddings") return find({name});
  return nullptr;
}

Result<double> Config::rope_number_or(std::string_view name, double otherwise,
                                      std::string_view kind) const {
  const Json* const value = rope(name, kind);
  if (value == nullptr) return otherwise;
  double out = 0;
  if (!as_number(*value, out)) return wrong({name}, "a number");
  return out;
}

Result<bool> Config::rope_flag_or(std::string_view name, bool otherwise) const {
  const Json* const value = rope(name);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) return wrong({name}, "true or false");
  return value->get<bool>();
}

std::string Config::rope_type() const {
  const Json* const type = rope("rope_type");
  return type != nullptr && type->is_string() ? type->get<std::string>() : "default";
}

Result<int64_t> Config::head_dim() const {
  if (has({"head_dim"})) return integer({"head_dim"}, 1);
  CHIMERE_TRY(const int64_t width, integer({"hidden_size"}, 1));
  CHIMERE_TRY(const int64_t heads, integer({"num_attention_heads"}, 1));
  if (width % heads != 0) {
    return invalid_data("config.json: hidden_size (" + std::to_string(width) +
                        ") must be a multiple of num_attention_heads (" + std::to_string(heads) +
                        ")");
  }
  return width / heads;
}

}  // namespace chimere::convert
