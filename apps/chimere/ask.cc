// chimere ask: a question to the orchestrator, with what it found out and where.
#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "base/system.h"
#include "command.h"
#include "interrupt.h"
#include "json.h"
#include "local_server.h"
#include "protocol/chat_stream.h"

namespace chimere::app {
namespace {

struct AskFlags {
  std::string question;
  std::vector<std::string> collections;
  std::string mode = "auto";
  std::string pipeline = "default";
  bool own_knowledge = false;
};

Json request_of(const AskFlags& flags) {
  Json body = {{"model", flags.pipeline == "default" ? "odo" : "odo:" + flags.pipeline},
               {"messages", {{{"role", "user"}, {"content", flags.question}}}},
               {"stream", true},
               {"odo", {{"collections", flags.collections}}}};
  if (!flags.collections.empty() && !flags.own_knowledge) body["odo"]["only_passages"] = true;
  if (flags.mode != "auto") body["odo"]["mode"] = flags.mode;
  return body;
}

/// Where the answer comes from, for people.
void print_sources(const Json& metadata) {
  const auto sources = metadata.find("sources");
  if (sources == metadata.end() || sources->empty()) return;
  std::cout << "\nSources:\n";
  for (const Json& s : *sources) {
    const std::string place = s.value("place", "");
    std::cout << fmt::format("  [{}] {}{}{}{}\n", s.value("n", 0), s.value("name", ""),
                             place.empty() ? "" : ", ", place,
                             s.value("cited", false) ? "" : " (not cited)");
  }
}

Status ask(const CommandLine& line, AskFlags flags) {
  if (flags.question.empty()) {
    CHIMERE_TRY(flags.question, read_standard_input());
  }
  if (is_blank(flags.question)) {
    return invalid_argument("The question is empty; write it behind `chimere ask`.");
  }
  const bool quiet = line.json || line.settings.get(settings::kQuiet);
  CHIMERE_TRY(const auto server, LocalServer::start(line.settings));
  const InterruptScope interrupt;
  protocol::Choice answer;
  Json metadata = Json::object();
  Json steps = Json::array();
  protocol::ChatStreamReader reader({
      .piece =
          [&](const protocol::Choice& part) {
            answer.content += part.content;
            answer.reasoning += part.reasoning;
            if (!part.finish_reason.empty()) answer.finish_reason = part.finish_reason;
            if (!line.json && !part.content.empty()) std::cout << part.content << std::flush;
          },
      .step =
          [&](std::string_view json) {
            Json step = Json::parse(json);
            if (!quiet && is_terminal(StandardStream::kError)) {
              std::cerr << fmt::format("[{}]\n", step.value("name", ""));
            }
            steps.push_back(std::move(step));
          },
      .metadata = [&](std::string_view json) { metadata = Json::parse(json); },
      .usage = [](const protocol::Usage&) {},
  });
  std::optional<protocol::ApiError> error;
  auto failed = server->chat(request_of(flags).dump(), [&](std::string_view bytes) {
    error = reader.push(bytes);
    return !error && !interrupt.interrupted();
  });
  if (!failed) failed = error;
  if (interrupt.interrupted()) return Error{Error::Code::kCancelled, "Interrupted."};
  if (failed) {
    return failed->status() == 404 ? not_found(failed->message) : invalid_argument(failed->message);
  }
  if (line.json) {
    print_json({{"question", flags.question},
                {"answer", answer.content},
                {"finish_reason", answer.finish_reason},
                {"steps", steps},
                {"odo", metadata}});
    return {};
  }
  std::cout << '\n';
  print_sources(metadata);
  return {};
}

}  // namespace

void declare_ask(Command& app, CommandLine& line) {
  const auto flags = std::make_shared<AskFlags>();
  Command command =
      add_command(app, line, "ask", "Answers a question from your documents, and names its sources",
                  [&line, flags] { return ask(line, *flags); });
  command.option("QUESTION", flags->question, "The question; without it, standard input");
  command
      .option("--collection", flags->collections,
              "A collection to retrieve passages from (`chimere collection`); may be repeated")
      .one_value()
      .repeatable();
  command.flag("--own-knowledge", flags->own_knowledge,
               "Let the model answer where the collections do not, in place of \"I do not know\"");
  command.option("--mode", flags->mode, "Effort: one generation, reasoning and checks, or a search")
      .one_of({"auto", "fast", "quality", "ultra"})
      .show_default();
  command.option("--pipeline", flags->pipeline, "The pipeline that answers").show_default();
  add_settings(command, line,
               {SettingGroup::kModel, SettingGroup::kDrafter, SettingGroup::kChatTemplate,
                SettingGroup::kSampling, SettingGroup::kCollections, SettingGroup::kStateFolder,
                SettingGroup::kQuiet});
}

}  // namespace chimere::app
