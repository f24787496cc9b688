#include "protocol/fields.h"

#include <cmath>
#include <sstream>
#include <utility>

#include "protocol/requests.h"

namespace chimere::protocol {

std::optional<int64_t> whole_number(const Json& value) {
  // The parser stores values above 2^63 - 1 as unsigned.
  if (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX) return INT64_MAX;
  if (value.is_number_integer()) return value.get<int64_t>();
  // 42.0, as languages with one type of number write 42.
  const double number = value.is_number_float() ? value.get<double>() : 0.5;
  if (number != std::trunc(number)) return std::nullopt;
  if (std::abs(number) >= 0x1p63) return number < 0 ? INT64_MIN : INT64_MAX;
  return static_cast<int64_t>(number);
}

std::string Fields::path_of(std::string_view name) const {
  return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
}

void Fields::fail(std::string message, std::string_view name, ErrorCode code) {
  fail(bad_field(std::move(message), path_of(name), code));
}

void Fields::fail(ApiError error) {
  if (!error_) error_ = std::move(error);
}

const Json* Fields::any(std::string_view name) {
  known_.emplace(name);
  if (error_) return nullptr;
  const auto it = object_.find(name);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

bool Fields::text(std::string_view name, std::string& out) {
  const Json* value = any(name);
  if (value == nullptr) return false;
  if (!value->is_string()) {
    fail("'" + path_of(name) + "' must be a text.", name, "invalid_type");
    return false;
  }
  out = value->get<std::string>();
  return true;
}

bool Fields::boolean(std::string_view name, bool& out) {
  const Json* value = any(name);
  if (value == nullptr) return false;
  if (!value->is_boolean()) {
    fail("'" + path_of(name) + "' must be true or false.", name, "invalid_type");
    return false;
  }
  out = value->get<bool>();
  return true;
}

bool Fields::integer(std::string_view name, int64_t min, int64_t max, int64_t& out) {
  const Json* value = any(name);
  if (value == nullptr) return false;
  const std::string range = "'" + path_of(name) + "' must be a whole number from " +
                            std::to_string(min) + " to " + std::to_string(max) + ".";
  const auto whole = whole_number(*value);
  if (!whole) {
    fail(range, name, "invalid_type");
    return false;
  }
  const int64_t number = *whole;
  if (number < min || number > max) {
    fail(range, name);
    return false;
  }
  out = number;
  return true;
}

bool Fields::number(std::string_view name, double min, double max, double& out) {
  const Json* value = any(name);
  if (value == nullptr) return false;
  std::ostringstream range;
  range << "'" << path_of(name) << "' must be a number from " << min << " to " << max << ".";
  if (!value->is_number()) {
    fail(range.str(), name, "invalid_type");
    return false;
  }
  const auto number = value->get<double>();
  if (number < min || number > max) {
    fail(range.str(), name);
    return false;
  }
  out = number;
  return true;
}

const Json* Fields::list(std::string_view name, int64_t min, int64_t max) {
  const Json* value = any(name);
  if (value == nullptr) return nullptr;
  const std::string size = std::to_string(min) + " to " + std::to_string(max);
  if (!value->is_array()) {
    fail("'" + path_of(name) + "' must be a list of " + size + " entries.", name, "invalid_type");
    return nullptr;
  }
  const auto entries = static_cast<int64_t>(value->size());
  if (entries < min || entries > max) {
    fail("'" + path_of(name) + "' has " + std::to_string(entries) + " entries; it must have " +
             size + ".",
         name);
    return nullptr;
  }
  return value;
}

void Fields::no_op(std::string_view name) { known_.emplace(name); }

void Fields::missing(std::string_view name) {
  fail("'" + path_of(name) + "' is missing.", name, "missing_field");
}

void Fields::refuse(std::string_view name, std::string_view why) {
  const Json* value = any(name);
  if (value == nullptr) return;
  bool asks = *value != false && (!value->is_structured() || !value->empty());
  for (const char* nothing : {"", "none", "auto"}) asks = asks && *value != nothing;
  if (!asks) return;
  fail("'" + path_of(name) + "' is not supported: " + std::string(why) + "; omit it.", name,
       "unsupported_parameter");
}

std::optional<ApiError> Fields::finish(const RequestLimits& limits) {
  constexpr size_t kMostListed = 20;
  for (const auto& [name, value] : object_.items()) {
    if (known_.contains(name)) continue;
    const std::string shown = name.substr(0, 100);
    if (limits.strict_fields) {
      fail("Unknown field '" + path_of(shown) + "'; docs/api.md lists the supported fields.", shown,
           "unknown_parameter");
    } else if (limits.notes != nullptr && limits.notes->ignored.size() < kMostListed) {
      limits.notes->ignored.push_back(path_of(shown));
    }
  }
  return error_;
}

}  // namespace chimere::protocol
