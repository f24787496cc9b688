#include <string>
#include <string_view>

#include "protocol/api_error.h"
#include "protocol/json_text.h"

namespace chimere::protocol {

std::string_view error_type(int status) {
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

std::string_view anthropic_error_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

std::string error_body(const ApiError& error, ApiForm form) {
  if (form == ApiForm::kOllama) return to_text({{"error", error.message}});
  if (form == ApiForm::kAnthropic) {
    return to_text(
        {{"type", "error"},
         {"error", {{"type", anthropic_error_type(error.status())}, {"message", error.message}}}});
  }
  return to_text({{"error",
                   {{"message", error.message},
                    {"type", error_type(error.status())},
                    {"param", error.param.empty() ? Json() : Json(error.param)},
                    {"code", error.code.name()}}}});
}

}  // namespace chimere::protocol
