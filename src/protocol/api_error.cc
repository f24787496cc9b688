#include "protocol/api_error.h"

#include <utility>

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

ApiError bad_field(std::string message, std::string param, ErrorCode code) {
  return {code, std::move(message), std::move(param)};
}

ApiError from_engine(const Error& error) {
  switch (error.code) {
    case Error::Code::kInvalidArgument:
    case Error::Code::kUnsupported:
      return bad_field(error.message, "");
    case Error::Code::kOutOfMemory:
      return {"out_of_memory", error.message, "", 5};
    case Error::Code::kCancelled:
      return {"stopping", error.message, "", 5};
    default:
      return {"engine_error", error.message};
  }
}

ApiError from_submit(const Error& error) {
  if (error.code != Error::Code::kOutOfMemory) return from_engine(error);
  return {"queue_full", error.message, "", 2};
}

ApiError from_engram(const Error& error) {
  switch (error.code) {
    case Error::Code::kNotFound:
      return {"engram_not_found", error.message, "engram"};
    case Error::Code::kOutOfMemory:
      return {"engram_full", error.message};
    default:
      return from_engine(error);
  }
}

}  // namespace chimere::protocol
