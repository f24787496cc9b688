// Reasoning inside of a text that clients keep and send back unread: Anthropic's `signature` and
// OpenAI's `encrypted_content`. Internal to the module.
#ifndef CHIMERE_PROTOCOL_CARRIED_REASONING_H_
#define CHIMERE_PROTOCOL_CARRIED_REASONING_H_

#include <optional>
#include <string>
#include <string_view>

namespace chimere::protocol {

/// The reasoning in base64 behind a name. It is not encrypted: it is no secret here.
std::string carry_reasoning(std::string_view reasoning);
/// nullopt: another server made the text.
std::optional<std::string> carried_reasoning(std::string_view carried);

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_CARRIED_REASONING_H_
