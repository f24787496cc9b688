#include "saved_conversation.h"

#include <cstdint>
#include <filesystem>
#include <iostream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file_stream.h"
#include "base/system.h"
#include "json.h"
#include "runtime/adapters.h"
#include "runtime/state_folder.h"
#include "state/checkpoint_file.h"

namespace chimere::app {
namespace {

/// CBOR stores strings unchanged, even if they are invalid UTF-8.
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
    messages.push_back({.role = role.get<std::string>(), .content = content.get<std::string>()});
  }
  return messages;
}

/// Waits for the hash; on a terminal prints a notice first, since a large model takes a while.
Result<state::Hash128> wait_for(const StateFile& file) {
  if (!file.weights->ready() && is_terminal(StandardStream::kError)) {
    std::cerr << "Hashing the model's files for --state, once for each file\n";
  }
  CHIMERE_TRY(const state::Hash128 weights, file.weights->get());
  return runtime::with_adapters(weights, file.adapters);
}

}  // namespace

Option add_state_flag(Command& command, std::string& path) {
  return command.option("--state", path,
                        "Continue the conversation in this file, if it exists, and save it there");
}

Status check_state_file(const std::string& path) {
  namespace fs = std::filesystem;
  if (path.empty()) return {};
  std::error_code error;
  if (fs::is_directory(path, error)) {
    return invalid_argument("--state " + path + " is a folder; name a file in it.");
  }
  const fs::path folder = fs::path(path).parent_path();
  if (!folder.empty() && !fs::is_directory(folder, error)) {
    return invalid_argument("The folder " + folder.string() + " of --state " + path +
                            " does not exist; make it, or name a file in another folder.");
  }
  auto trial = AtomicFile::create(path);  // changes nothing until commit()
  if (!trial.ok()) return std::move(trial).error();
  return {};
}

StateFile open_state_file(const std::string& path, const Settings& settings,
                          const runtime::LoadedModel& loaded) {
  if (path.empty()) return {};
  return {path, runtime::hash_weights(settings, *loaded.file), loaded.adapters->defaults()};
}

Result<std::optional<engine::Prefix>> load_conversation(const StateFile& file, model::Model& model,
                                                        Conversation& conversation) {
  std::error_code error;
  if (file.path.empty() || !std::filesystem::exists(file.path, error)) {
    return std::optional<engine::Prefix>();
  }
  CHIMERE_TRY(const state::Hash128 weights, wait_for(file));
  CHIMERE_TRY(auto stored, state::load_checkpoint(file.path, model.states(), weights));
  CHIMERE_TRY(auto messages, unpack(stored.note, file.path));
  conversation.resume(std::move(messages));
  if (stored.tokens.empty()) return std::optional<engine::Prefix>();
  return std::optional(engine::Prefix{std::move(stored.tokens), stored.state->checkpoint()});
}

Status save_conversation(const StateFile& file, model::Model& model,
                         const Conversation& conversation,
                         const std::optional<engine::Prefix>& prefix) {
  const std::string note = pack(conversation.messages());
  CHIMERE_TRY(const state::Hash128 weights, wait_for(file));
  if (prefix) {
    return state::save_checkpoint(file.path, prefix->state, prefix->tokens, note, weights);
  }
  return state::save_checkpoint(file.path, model.states().create_sequence()->checkpoint(), {}, note,
                                weights);
}

}  // namespace chimere::app
