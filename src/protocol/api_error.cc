#include "protocol/api_error.h"

#include <utility>

namespace chimere::protocol {

ApiError bad_field(std::string message, std::string param, std::string code) {
  return {400, std::move(message), std::move(param), std::move(code), 0};
}

ApiError from_engine(const Error& error) {
  switch (error.code) {
    case Error::Code::kInvalidArgument:
    case Error::Code::kUnsupported:
      return bad_field(error.message, "");
    case Error::Code::kOutOfMemory:
      return {503, error.message, "", "out_of_memory", 5};
    case Error::Code::kCancelled:
      return {503, error.message, "", "stopping", 5};
    default:
      return {500, error.message, "", "engine_error", 0};
  }
}

ApiError from_submit(const Error& error) {
  if (error.code != Error::Code::kOutOfMemory) return from_engine(error);
  return {429, error.message, "", "queue_full", 2};
}

ApiError from_engram(const Error& error) {
  switch (error.code) {
    case Error::Code::kNotFound:
      return {404, error.message, "engram", "engram_not_found", 0};
    case Error::Code::kOutOfMemory:
      return {507, error.message, "", "engram_full", 0};
    default:
      return from_engine(error);
  }
}

}  // namespace chimere::protocol
