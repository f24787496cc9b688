#include <utility>

#include "protocol/history.h"
#include "protocol/json_text.h"

namespace chimere::protocol {
namespace {

void add_client_data(const std::string& data, Json& out) {
  if (!data.empty()) out["data"] = Json::parse(data, nullptr, false);
}

Json conversation_json(const ConversationInfo& info) {
  Json out = {
      {"object", "conversation"}, {"id", info.id},           {"title", info.title},
      {"folder", info.folder},    {"pinned", info.pinned},   {"leaf", info.leaf},
      {"created", info.created},  {"updated", info.updated}, {"message_count", info.messages}};
  add_client_data(info.data, out);
  if (!info.excerpt.empty()) out["excerpt"] = info.excerpt;
  return out;
}

Json stored_message_json(const StoredMessage& m) {
  Json out = {{"id", m.id}, {"role", m.role}, {"content", m.content}, {"created", m.created}};
  if (!m.parent.empty()) out["parent"] = m.parent;
  if (!m.reasoning.empty()) out["reasoning"] = m.reasoning;
  if (!m.complete) out["complete"] = false;
  add_client_data(m.data, out);
  return out;
}

}  // namespace

std::string conversation_list(std::span<const ConversationInfo> conversations) {
  Json data = Json::array();
  for (const ConversationInfo& info : conversations) data.push_back(conversation_json(info));
  return to_text({{"object", "list"}, {"data", std::move(data)}});
}

std::string conversation_info(const ConversationInfo& info) {
  return to_text(conversation_json(info));
}

std::string conversation(const ConversationInfo& info, std::span<const StoredMessage> messages) {
  Json out = conversation_json(info);
  Json list = Json::array();
  for (const StoredMessage& m : messages) list.push_back(stored_message_json(m));
  out["messages"] = std::move(list);
  return to_text(out);
}

std::string conversation_deleted(std::string_view id) {
  return to_text({{"object", "conversation.deleted"}, {"id", id}, {"deleted", true}});
}

std::string history_stored(std::string_view id) {
  return to_text({{"object", "conversation.stored"}, {"id", id}});
}

std::string conversation_message(const StoredMessage& message) {
  return to_text({{"object", "conversation.message"}, {"message", stored_message_json(message)}});
}

}  // namespace chimere::protocol
