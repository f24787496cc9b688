#include "protocol/api_error.h"
#include "protocol/json_text.h"

namespace chimere::protocol {
namespace {

const char* type_of(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "service_unavailable_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

}  // namespace

std::string error_body(const ApiError& error) {
  const auto text_or_null = [](const std::string& s) { return s.empty() ? Json() : Json(s); };
  return to_text({{"error",
                   {{"message", error.message},
                    {"type", type_of(error.status)},
                    {"param", text_or_null(error.param)},
                    {"code", text_or_null(error.code)}}}});
}

}  // namespace chimere::protocol
