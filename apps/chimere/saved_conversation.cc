#include "saved_conversation.h"

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "json.h"
#include "state/checkpoint_file.h"

namespace chimere::app {
namespace {

/// CBOR keeps strings byte by byte, even if they are invalid UTF-8.
std::string pack(const std::vector<Message>& messages) {
  Json list = Json::array();
  for (const Message& m : messages) list.push_back({{"role", m.role}, {"content", m.content}});
  const std::vector<uint8_t> bytes = Json::to_cbor({{"messages", std::move(list)}});
  return {bytes.begin(), bytes.end()};
}

Result<std::vector<Message>> unpack(const std::string& note, const std::string& path) {
  const auto refuse = [&] { return invalid_data("The file " + path + " holds no messages."); };
  const Json document = Json::from_cbor(note, /*strict=*/true, /*allow_exceptions=*/false);
  if (!document.is_object() || !document.contains("messages")) return refuse();
  std::vector<Message> messages;
  for (const Json& m : document["messages"]) {
    if (!m.is_object() || !m.contains("role") || !m.contains("content")) return refuse();
    const Json& role = m["role"];
    const Json& content = m["content"];
    if (!role.is_string() || !content.is_string()) return refuse();
    messages.push_back({role.get<std::string>(), content.get<std::string>()});
  }
  return messages;
}

}  // namespace

Option add_state_flag(Command& command, std::string& path) {
  return command.option("--state", path,
                        "Continue the conversation in this file, if it exists, and save it there");
}

Result<std::optional<engine::Prefix>> load_conversation(const std::string& path,
                                                        model::Model& model,
                                                        Conversation& conversation) {
  auto stored = state::load_checkpoint(path, model.states());
  if (!stored.ok()) {
    if (stored.error().code == Error::Code::kNotFound) return std::optional<engine::Prefix>();
    return std::move(stored).error();
  }
  CHIMERE_TRY(auto messages, unpack(stored->note, path));
  conversation.resume(std::move(messages));
  if (stored->tokens.empty()) return std::optional<engine::Prefix>();
  return std::optional(engine::Prefix{std::move(stored->tokens), stored->state->checkpoint()});
}

Status save_conversation(const std::string& path, model::Model& model,
                         const Conversation& conversation,
                         const std::optional<engine::Prefix>& prefix) {
  const std::string note = pack(conversation.messages());
  if (prefix) return state::save_checkpoint(path, prefix->state, prefix->tokens, note);
  return state::save_checkpoint(path, model.states().create_sequence()->checkpoint(), {}, note);
}

}  // namespace chimere::app
