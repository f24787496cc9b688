// Reads the fields of an object so that none is overlooked. For sources of this room only.
#ifndef CHIMERE_PROTOCOL_FIELDS_H_
#define CHIMERE_PROTOCOL_FIELDS_H_

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "protocol/api_error.h"
#include "protocol/json_text.h"

namespace chimere::protocol {

/// Every call names a field that is known. A field that is absent or null leaves `out` as it is and
/// gives false. The first error is kept; calls after it do nothing.
class Fields {
 public:
  /// `object` must outlive this. `path`: where it stands, like "messages[0]"; empty for the body.
  Fields(const Json& object, std::string path) : object_(object), path_(std::move(path)) {}

  bool text(std::string_view name, std::string& out);
  bool boolean(std::string_view name, bool& out);
  bool integer(std::string_view name, int64_t min, int64_t max, int64_t& out);
  /// A value of any kind; nullptr if it is absent or null.
  const Json* any(std::string_view name);

  /// Accepted whatever they say, and without effect (docs/serving.md names them).
  void no_op(std::initializer_list<std::string_view> names);
  /// Known to the API, but nothing here can do it.
  void refuse(std::string_view name, std::string_view why);

  /// "messages[0].role".
  std::string path_of(std::string_view name) const;
  void fail(std::string message, std::string_view name, std::string code = "invalid_value");
  void fail(ApiError error);
  bool failed() const { return error_.has_value(); }

  /// Once all known fields were named. Errors: the first one, or a field that nobody knows.
  std::optional<ApiError> finish();

 private:
  const Json& object_;
  std::string path_;
  std::set<std::string, std::less<>> known_;
  std::optional<ApiError> error_;
};

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_FIELDS_H_
