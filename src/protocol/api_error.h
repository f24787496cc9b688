// Errors of the API, in the forms of the APIs that clients use.
#ifndef CHIMERE_PROTOCOL_API_ERROR_H_
#define CHIMERE_PROTOCOL_API_ERROR_H_

#include <string>

#include "base/result.h"
#include "protocol/error_code.h"

namespace chimere::protocol {

/// Has the HTTP status of its code.
struct ApiError {
  ErrorCode code;
  std::string message;     ///< a sentence that says what to do
  std::string param = {};  ///< the field at fault, like "messages[0].role"; empty: null
  int retry_after = 0;     ///< Retry-After in seconds, for 429 and 503; 0: not sent

  int status() const { return code.status(); }
};

/// A 400 for a field of the request.
ApiError bad_field(std::string message, std::string param, ErrorCode code = "invalid_value");

/// Maps an error of the engine or of a template to 400, 503 (kOutOfMemory: the states did not fit;
/// kCancelled: the server is stopping) or 500.
ApiError from_engine(const Error& error);
/// The same for EngineService::submit(), where kOutOfMemory is 429: the queue is full.
ApiError from_submit(const Error& error);
/// The same for engram tables, where kOutOfMemory is 507: the table is full.
ApiError from_engram(const Error& error);

/// Whose clients a route is for.
enum class ApiForm {
  kOpenAi,     ///< {"error": {"message", "type", "param", "code"}}
  kAnthropic,  ///< {"type": "error", "error": {"type", "message"}}
  kOllama,     ///< {"error": message}
};

/// The body of the response. The type follows from the status.
std::string error_body(const ApiError& error, ApiForm form = ApiForm::kOpenAi);

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_API_ERROR_H_
