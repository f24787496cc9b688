#include "protocol/api_error.h"

#include <utility>

namespace chimere::protocol {

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
