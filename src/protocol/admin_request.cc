#include <array>

#include "protocol/admin.h"
#include "protocol/request_types.h"

namespace chimere::protocol {
namespace {

using NewKey = FieldsOf<CreateKeyRequest>;

constexpr double kMostOfKey = 1e12;

constexpr auto kCreateKeyRows = std::to_array<NewKey::Row>({
    NewKey::text<&CreateKeyRequest::name>(
        {.name = "name",
         .help = "The client's name: 1 to 64 letters, digits, '-', '_' and '.'",
         .required = true,
         .max_bytes = 64}),
    NewKey::other(
        {.name = "scopes",
         .help = "What the key may do; without it, what a key may for which nothing is said",
         .type_text = "list of texts",
         .valid = R"([["inference"]])",
         .invalid = R"(["inference", [1]])"},
        [](Fields& f, const FieldInfo& i, const RequestLimits&, CreateKeyRequest& out) {
          const Json* const scopes = f.list(i.name, 0, 64);
          for (size_t at = 0; scopes != nullptr && at < scopes->size(); ++at) {
            const Json& scope = (*scopes)[at];
            if (!scope.is_string()) {
              return f.fail("'scopes' must be a list of texts.", i.name, "invalid_type");
            }
            out.scopes.push_back(scope.get<std::string>());
          }
        }),
    NewKey::integer<&CreateKeyRequest::parallel>({.name = "parallel",
                                                  .help = "Requests at the same time; 0: no limit",
                                                  .max = kMostOfKey,
                                                  .default_value = "0"}),
    NewKey::integer<&CreateKeyRequest::per_minute>({.name = "per_minute",
                                                    .help = "Requests a minute; 0: no limit",
                                                    .max = kMostOfKey,
                                                    .default_value = "0"}),
    NewKey::integer<&CreateKeyRequest::tokens_per_day>(
        {.name = "tokens_per_day",
         .help = "Tokens of prompts and generations a day of UTC; 0: no limit",
         .max = kMostOfKey,
         .default_value = "0"}),
});

}  // namespace

constexpr ObjectType<CreateKeyRequest> kCreateKeyType{kCreateKeyRows};

std::optional<ApiError> parse_create_key(std::string_view body, const RequestLimits& limits,
                                         CreateKeyRequest& out) {
  out = {};
  return parse_body(kCreateKeyType, body, own_api(limits), out);
}

}  // namespace chimere::protocol
