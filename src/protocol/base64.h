// Base64 (RFC 4648, section 4). Internal to the module.
#ifndef CHIMERE_PROTOCOL_BASE64_H_
#define CHIMERE_PROTOCOL_BASE64_H_

#include <optional>
#include <string>
#include <string_view>

namespace chimere::protocol {

void append_base64(std::string_view bytes, std::string& out);
/// nullopt: the text is not base64 with its padding.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_BASE64_H_
