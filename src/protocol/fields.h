// Reads the fields of a JSON object and notes or refuses the others. Internal to the module.
#ifndef CHIMERE_PROTOCOL_FIELDS_H_
#define CHIMERE_PROTOCOL_FIELDS_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/api_error.h"
#include "protocol/json_text.h"

namespace chimere::protocol {

struct RequestLimits;

/// Every call registers a known field. If the field is absent or null, `out` is unchanged and the
/// result is false. The first error is kept; later calls do nothing.
class Fields {
 public:
  /// `object` must outlive this. `path`: its position, like "messages[0]"; empty for the body.
  Fields(const Json& object, std::string path) : object_(object), path_(std::move(path)) {}

  bool text(std::string_view name, std::string& out);
  bool boolean(std::string_view name, bool& out);
  bool integer(std::string_view name, int64_t min, int64_t max, int64_t& out);
  bool number(std::string_view name, double min, double max, double& out);
  /// A list of `min` to `max` values; nullptr if it is absent, null or anything else, which is an
  /// error.
  const Json* list(std::string_view name, int64_t min, int64_t max);
  /// A value of any type; nullptr if it is absent or null.
  const Json* any(std::string_view name);

  /// A field that is accepted with any value and without effect.
  void no_op(std::string_view name);
  /// A field of the API that this server does not support: an error if it asks for something, which
  /// null, false, "none", "auto" and what is empty do not.
  void refuse(std::string_view name, std::string_view why);

  /// The error for a required field that is absent.
  void missing(std::string_view name);

  /// "messages[0].role".
  std::string path_of(std::string_view name) const;
  void fail(std::string message, std::string_view name, ErrorCode code = "invalid_value");
  void fail(ApiError error);
  bool failed() const { return error_.has_value(); }

  /// To be called after all known fields. Errors: the first error, or an unknown field if the
  /// limits are strict; else the notes receive its path.
  std::optional<ApiError> finish(const RequestLimits& limits);

 private:
  const Json& object_;
  std::string path_;
  std::set<std::string, std::less<>> known_;
  std::optional<ApiError> error_;
};

/// The value of a whole number, also one that is written like 42.0; the nearest 64-bit number if it
/// is larger. nullopt: something else.
std::optional<int64_t> whole_number(const Json& value);

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_FIELDS_H_
