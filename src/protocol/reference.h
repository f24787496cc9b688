// The routes that take a body and their fields, for the reference (docs/api.md) and the field test.
#ifndef CHIMERE_PROTOCOL_REFERENCE_H_
#define CHIMERE_PROTOCOL_REFERENCE_H_

#include <optional>
#include <string_view>
#include <vector>

#include "base/settings.h"
#include "protocol/api_error.h"
#include "protocol/field_info.h"

namespace chimere::protocol {

struct Endpoint {
  std::string_view method;
  std::string_view path;
  std::vector<FieldInfo> fields;
  std::optional<ApiError> (*parse)(std::string_view body, const Settings& defaults);
};

/// All routes that take a body.
std::vector<Endpoint> endpoints();

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_REFERENCE_H_
