#include "orchestrator/orchestrator.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

namespace chimere::orchestrator {
namespace {

using protocol::ApiError;
using protocol::ChatReply;
using protocol::ChatRequest;
using Json = nlohmann::ordered_json;

/// A model whose replies the test writes, and which remembers what it was asked.
class ScriptedModel final : public protocol::ModelClient {
 public:
  using Script = std::function<void(const ChatRequest&, ChatReply&)>;
  explicit ScriptedModel(Script script) : script_(std::move(script)) {}

  std::string id() const override { return "scripted"; }
  std::optional<ApiError> chat(const ChatRequest& request, const OnPiece& on_piece,
                               ChatReply& out) override {
    out = {};
    {
      const std::scoped_lock lock(mutex_);
      requests.push_back(request);
      script_(request, out);
    }
    if (out.choice.finish_reason.empty()) out.choice.finish_reason = "stop";
    if (out.usage.completion_tokens == 0) out.usage = {.prompt_tokens = 10, .completion_tokens = 5};
    if (on_piece) (void)on_piece(out.choice);
    return std::nullopt;
  }

  std::vector<ChatRequest> requests;

 private:
  std::mutex mutex_;
  const Script script_;
};

class Sink final : public protocol::AnswerSink {
 public:
  void step(std::string_view json) override { steps.push_back(Json::parse(json)); }
  void piece(const protocol::Choice& part) override { append_piece(part, whole); }
  bool abandoned() const override { return false; }

  std::vector<Json> steps;
  protocol::Choice whole;
};

class Documents final : public PassageSource {
 public:
  Result<std::vector<Passage>> search(const std::string& owner, const std::string& collection,
                                      const std::string& /*query*/, int64_t /*most*/) override {
    if (collection != "man") return not_found("There is no collection '" + collection + "'.");
    owners.push_back(owner);
    return passages;
  }
  std::vector<Passage> passages = {
      {"tar extracts files from an archive with the option -x.", "tar(1)", "OPTIONS", "man", 1},
      {"ls lists the contents of directories.", "ls(1)", "NAME", "man", 0.5}};
  std::vector<std::string> owners;
};

ChatRequest chat(const std::string& question, const std::string& model = "odo") {
  ChatRequest out;
  out.model = model;
  text::ChatMessage message;
  message.role = "user";
  message.content = question;
  out.messages.push_back(message);
  return out;
}

struct Answered {
  std::optional<ApiError> error;
  Sink sink;
  Json metadata;
  protocol::Usage usage;
};

Answered run(Orchestrator& odo, protocol::ModelClient& model, const ChatRequest& request,
             const std::string& owner = "") {
  Answered out;
  protocol::OrchestratedAnswer answer;
  out.error = odo.answer(request, owner, model, out.sink, answer);
  if (!answer.metadata.empty()) out.metadata = Json::parse(answer.metadata);
  out.usage = answer.usage;
  return out;
}

std::unique_ptr<Orchestrator> make(OrchestratorOptions options = {}) {
  auto made = Orchestrator::create(std::move(options));
  EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
  return made.ok() ? *std::move(made) : nullptr;
}

/// Pipelines in a folder for one test.
class Folder {
 public:
  explicit Folder(const std::string& name)
      : path_(std::filesystem::path(testing::TempDir()) / ("chimere_odo_" + name)) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  void write(const std::string& name, const std::string& yaml) const {
    // As editors do: a new file takes the old one's place.
    std::ofstream(path_ / (name + ".new")) << yaml;
    std::filesystem::rename(path_ / (name + ".new"), path_ / (name + ".yaml"));
  }
  std::string path() const { return path_.string(); }

 private:
  const std::filesystem::path path_;
};

TEST(Orchestrator, PassesAPlainQuestionOnUnchanged) {
  const auto odo = make();
  ScriptedModel model([](const ChatRequest&, ChatReply& out) { out.choice.content = "It lists."; });
  ChatRequest request = chat("What does the command ls do?");
  (void)request.settings.set(settings::kTemperature, "0.3", "test");
  request.given.push_back(settings::kTemperature.name);
  const Answered r = run(*odo, model, request);
  ASSERT_FALSE(r.error);
  EXPECT_EQ(r.sink.whole.content, "It lists.");
  EXPECT_EQ(r.sink.whole.finish_reason, "stop");
  ASSERT_EQ(model.requests.size(), 1U);
  EXPECT_EQ(model.requests[0].messages.size(), 1U);
  EXPECT_EQ(model.requests[0].messages[0].content, request.messages[0].content);
  EXPECT_EQ(model.requests[0].settings.get(settings::kTemperature), 0.3);
  EXPECT_TRUE(model.requests[0].tools.empty());
  EXPECT_EQ(r.metadata["mode"], "fast");
  EXPECT_EQ(r.metadata["pipeline"], "default");
  EXPECT_EQ(r.metadata["route"]["intent"], "how-to");
  EXPECT_EQ(r.metadata["tokens"].size(), 1U);
  EXPECT_EQ(r.usage.completion_tokens, 5);
}

TEST(Orchestrator, NamesAndUnknownPipelines) {
  const auto odo = make();
  EXPECT_EQ(odo->names(),
            (std::vector<std::string>{"odo", "odo:code", "odo:cyber", "odo:kine", "odo:research"}));
  EXPECT_EQ(odo->model_of("odo"), "");
  EXPECT_EQ(odo->model_of("odo:code"), "");
  EXPECT_FALSE(odo->model_of("odor").has_value());
  EXPECT_FALSE(odo->model_of("").has_value());
  ScriptedModel model([](const ChatRequest&, ChatReply&) {});
  const Answered r = run(*odo, model, chat("hi", "odo:nothing"));
  ASSERT_TRUE(r.error);
  EXPECT_EQ(r.error->status(), 404);
  EXPECT_TRUE(model.requests.empty());
}

TEST(Orchestrator, StepsHandTheirResultsOver) {
  const auto odo = make();
  ScriptedModel model([](const ChatRequest& request, ChatReply& out) {
    const std::string& system = request.messages.front().content;
    if (request.format.kind == protocol::OutputFormat::Kind::kChoice) {
      out.choice.content = "yes";
      out.choice.logprobs = {{{"yes", -0.1F}, {{"yes", -0.1F}, {"no", -2.5F}}}};
    } else {
      out.choice.content = system.find("software architect") != std::string::npos ? "PLAN" : "CODE";
    }
  });
  const Answered r = run(*odo, model, chat("Sort a list", "odo:code"));
  ASSERT_FALSE(r.error);
  EXPECT_EQ(r.sink.whole.content, "CODE");
  ASSERT_EQ(model.requests.size(), 3U);  // architect, coder, judge
  EXPECT_NE(model.requests[1].messages.back().content.find("Result of the step 'architect':\nPLAN"),
            std::string::npos);
  EXPECT_EQ(model.requests[0].settings.get(settings::kMaxTokens), 600);
  EXPECT_EQ(model.requests[1].settings.get(settings::kMaxTokens), -1);
  EXPECT_GT(r.metadata["scores"]["gate"].get<double>(), 0.9);
  EXPECT_TRUE(r.metadata["tokens"].contains("step architect"));
}

TEST(Orchestrator, CallersParametersStay) {
  const Folder folder("params");
  folder.write("cold",
               "name: cold\nparams: {temperature: 0.1, top_p: 0.5}\nthinking: high\nmode: fast\n");
  const auto odo = make({.pipelines = folder.path()});
  ScriptedModel model([](const ChatRequest&, ChatReply& out) { out.choice.content = "x"; });
  ChatRequest request = chat("hi", "odo:cold");
  (void)request.settings.set(settings::kTemperature, "1.5", "test");
  (void)request.settings.set(settings::kReasoning, "low", "test");
  request.given = {settings::kTemperature.name, settings::kReasoning.name};
  ASSERT_FALSE(run(*odo, model, request).error);
  const Settings& s = model.requests.at(0).settings;
  EXPECT_EQ(s.get(settings::kTemperature), 1.5);
  EXPECT_EQ(s.get(settings::kTopP), 0.5);
  EXPECT_EQ(s.get(settings::kReasoning), "low");
}

TEST(Orchestrator, RetrievesWhenTheProbeIsUnsureAndCites) {
  const auto documents = std::make_shared<Documents>();
  const Folder folder("trigger");
  folder.write("man", "name: man\nmode: fast\nenrich: {collections: [man]}\n");
  const auto odo = make({.pipelines = folder.path(), .passages = documents});
  float logprob = -3;  // of a beginning without passages
  float with_passages = -0.01F;
  std::string beginning = "Tar extracts";
  ScriptedModel model([&](const ChatRequest& request, ChatReply& out) {
    const bool probe = request.logprobs >= 0;
    out.choice.content = probe ? beginning : " files from an archive.";
    if (!probe) return;
    const bool helped = request.messages.back().content.find("[1] tar(1)") != std::string::npos;
    const float each = helped ? with_passages : logprob;
    out.choice.finish_reason = "length";
    out.choice.logprobs = {{{"Tar", each}, {}}, {{" extracts", each}, {}}};
  });
  ChatRequest request = chat("Which option of tar extracts an archive?", "odo:man");
  const Answered unsure = run(*odo, model, request, "alice");
  ASSERT_FALSE(unsure.error) << unsure.error->message;
  EXPECT_EQ(unsure.sink.whole.content, "Tar extracts files from an archive [1].");
  EXPECT_FALSE(unsure.metadata.contains("quoted"));
  EXPECT_EQ(unsure.metadata["passages"], "correct");
  ASSERT_EQ(unsure.metadata["sources"].size(), 1U);
  EXPECT_EQ(unsure.metadata["sources"][0]["name"], "tar(1)");
  EXPECT_EQ(unsure.metadata["sources"][0]["cited"], true);
  EXPECT_EQ(documents->owners.at(0), "alice");
  EXPECT_NE(model.requests.back().messages.at(0).content.find("[1] tar(1), OPTIONS"),
            std::string::npos);

  // With the passages it is no surer, or says something else than they do: they are quoted.
  const std::string quoted = "\"tar extracts files from an archive with the option -x.\" [1]";
  with_passages = -3;
  Answered weak = run(*odo, model, request);
  EXPECT_EQ(weak.sink.whole.content, quoted);
  EXPECT_EQ(weak.metadata["quoted"], true);
  EXPECT_EQ(weak.metadata["sources"][0]["cited"], true);
  EXPECT_EQ(weak.metadata["sources"][0]["quote"],
            "tar extracts files from an archive with the option -x.");
  with_passages = -0.01F;
  beginning = "Purple elephants dance tango";
  weak = run(*odo, model, request);
  EXPECT_EQ(weak.sink.whole.content, quoted);
  // Words that no passage supports further on are followed by the passage.
  beginning = "Well,";
  weak = run(*odo, model, request);
  EXPECT_EQ(weak.sink.whole.content, "Well, files from an archive [1].");
  beginning = "Tar extracts";

  logprob = -0.01F;
  model.requests.clear();
  const Answered sure = run(*odo, model, request);
  ASSERT_FALSE(sure.error);
  EXPECT_EQ(sure.sink.whole.content, "Tar extracts files from an archive.");
  EXPECT_EQ(sure.metadata["sources"].size(), 0U);
  ASSERT_EQ(model.requests.size(), 2U);
  EXPECT_EQ(model.requests[1].messages.back().content, "Tar extracts");

  // A model that is sure that it does not know is not sure.
  beginning = "I do not know tar";
  const Answered ignorant = run(*odo, model, request);
  EXPECT_EQ(ignorant.sink.whole.content, quoted);
  // Who names collections gets their passages.
  beginning = "Tar extracts";
  request.orchestration.collections = {"man"};
  EXPECT_EQ(run(*odo, model, request).metadata["sources"].size(), 1U);

  request.orchestration.collections = {"none"};
  logprob = -3;
  EXPECT_EQ(run(*odo, model, request).error->param, "odo.collections");
}

TEST(Orchestrator, QuotesAsThePipelineSays) {
  const Folder folder("quotes");
  folder.write("quoting", "name: quoting\nmode: fast\nenrich: {when: always, quote: always}\n");
  folder.write("plain", "name: plain\nmode: fast\nenrich: {when: always, quote: never}\n");
  folder.write("slow", "name: slow\nmode: quality\nthinking: none\nenrich: {when: always}\n");
  const auto odo = make({.pipelines = folder.path(), .passages = std::make_shared<Documents>()});
  ScriptedModel model([](const ChatRequest&, ChatReply& out) { out.choice.content = "Purple."; });
  const std::string quoted = "\"tar extracts files from an archive with the option -x.\" [1]";
  const auto answer = [&](const std::string& pipeline) {
    ChatRequest request = chat("Which option of tar extracts an archive?", "odo:" + pipeline);
    request.orchestration.collections = {"man"};
    const Answered r = run(*odo, model, request);
    EXPECT_FALSE(r.error);
    return r.sink.whole.content;
  };
  EXPECT_EQ(answer("quoting"), quoted);
  EXPECT_TRUE(model.requests.empty());
  EXPECT_EQ(answer("plain"), "Purple.");
  EXPECT_EQ(answer("slow"), "Purple.\n\n" + quoted);
}

TEST(Orchestrator, ShowsExamplesAndNamesAdapters) {
  const Folder folder("examples");
  folder.write("taught",
               "name: taught\nmode: fast\nsystem: Be brief.\nadapters: [{name: kine, scale: 0.5}]\n"
               "examples: [{question: Q1, answer: A1}, {question: Q2, answer: A2}]\n");
  const auto odo = make({.pipelines = folder.path()});
  ScriptedModel model([](const ChatRequest&, ChatReply& out) { out.choice.content = "x"; });
  ASSERT_FALSE(run(*odo, model, chat("hi", "odo:taught")).error);
  std::string said;
  for (const auto& m : model.requests.at(0).messages) said += m.role + " " + m.content + "\n";
  EXPECT_EQ(said, "system Be brief.\nuser Q1\nassistant A1\nuser Q2\nassistant A2\nuser hi\n");
  ASSERT_TRUE(model.requests.at(0).lora);
  EXPECT_EQ(model.requests[0].lora->at(0).name, "kine");
  EXPECT_EQ(model.requests[0].lora->at(0).scale, 0.5);
  ChatRequest own = chat("hi", "odo:taught");
  own.lora.emplace();
  ASSERT_FALSE(run(*odo, model, own).error);
  EXPECT_TRUE(model.requests.at(1).lora->empty());
}

TEST(Orchestrator, SaysThatItDoesNotKnow) {
  const Folder folder("unknown");
  folder.write("strict", "name: strict\nmode: fast\nenrich: {when: always, only_passages: true}\n");
  const auto odo = make({.pipelines = folder.path(), .passages = std::make_shared<Documents>()});
  ScriptedModel model([](const ChatRequest&, ChatReply& out) { out.choice.content = "made up"; });
  ChatRequest request = chat("Who founded Zorblat Industries?", "odo:strict");
  request.orchestration.collections = {"man"};
  const Answered r = run(*odo, model, request);
  ASSERT_FALSE(r.error);
  EXPECT_NE(r.sink.whole.content.find("I do not know"), std::string::npos);
  EXPECT_EQ(r.metadata["passages"], "incorrect");
  EXPECT_TRUE(model.requests.empty());
}

TEST(Orchestrator, AnswersFromPassagesAloneWhereTheRequestSaysSo) {
  const Folder folder("forms");
  folder.write("quick", "name: quick\nmode: fast\nenrich: {forms: always}\n");
  folder.write("lenient", "name: lenient\nmode: fast\nenrich: {forms: never}\n");
  folder.write("asking", "name: asking\nmode: fast\n");
  const auto documents = std::make_shared<Documents>();
  documents->passages = {
      {"Marlow Works makes clocks. Anna Keller founded Marlow Works in 1870.", "Marlow Works", "",
       "man", 1},
      {"Marlow Mill was sold in 1902 by its founder.", "Marlow Mill", "", "man", 0.5}};
  const auto odo = make({.pipelines = folder.path(), .passages = documents});
  float logprob = -3;
  ScriptedModel model([&](const ChatRequest& request, ChatReply& out) {
    out.choice.content = "Marlow Works makes clocks.";
    if (request.logprobs >= 0) out.choice.logprobs = {{{"Marlow", logprob}, {}}};
  });
  const auto answer = [&](const std::string& question, const std::string& pipeline) {
    ChatRequest request = chat(question, "odo:" + pipeline);
    request.orchestration.collections = {"man"};
    request.orchestration.only_passages = true;
    model.requests.clear();
    const Answered r = run(*odo, model, request);
    EXPECT_FALSE(r.error);
    return r.sink.whole.content;
  };
  const std::string stated = "When was Marlow Works founded?";
  EXPECT_EQ(answer(stated, "quick"), "\"Anna Keller founded Marlow Works in 1870.\" [1]");
  const std::string unstated = "When was Marlow Works sold?";
  EXPECT_NE(answer(unstated, "quick").find("I do not know"), std::string::npos);
  EXPECT_TRUE(model.requests.empty());
  EXPECT_EQ(answer(unstated, "lenient").find("I do not know"), std::string::npos);
  // The model decides where it is sure.
  EXPECT_NE(answer(unstated, "asking").find("I do not know"), std::string::npos);
  EXPECT_FALSE(model.requests.empty());
  logprob = -0.01F;
  EXPECT_EQ(answer(unstated, "asking"), "Marlow Works makes clocks [2].");

  ChatRequest request = chat(stated, "odo:quick");
  request.orchestration.only_passages = true;
  EXPECT_EQ(run(*odo, model, request).error->param, "odo.only_passages");
}

TEST(Orchestrator, ExecutesToolsWithinLimits) {
  const auto odo = make();
  ScriptedModel model([](const ChatRequest& request, ChatReply& out) {
    const auto& last = request.messages.back();
    if (!request.tools.empty()) {
      out.choice.tool_calls = {
          {0, "call_1", last.role == "tool" ? "rm" : "calculate", R"({"expression": "17*23"})"}};
      out.choice.finish_reason = "tool_calls";
    } else {
      out.choice.content = "done";
    }
  });
  const Answered r = run(*odo, model, chat("How much is 17 * 23?"));
  ASSERT_FALSE(r.error);
  EXPECT_EQ(r.sink.whole.content, "done");
  EXPECT_EQ(model.requests.size(), 5U);  // four rounds and the one without tools
  EXPECT_EQ(model.requests[1].messages.back().content, "391");
  EXPECT_EQ(model.requests[2].messages.back().content,
            "Error: The pipeline does not allow this tool.");
  EXPECT_EQ(r.metadata["tools"][0], "calculate: ok");
  EXPECT_EQ(r.metadata["tools"][1], "rm: refused");
}

TEST(Orchestrator, TheGateKeepsTheBetterAttempt) {
  const auto odo = make();
  ScriptedModel model([](const ChatRequest& request, ChatReply& out) {
    if (request.format.kind == protocol::OutputFormat::Kind::kChoice) {
      const bool good = request.messages.back().content.find("better") != std::string::npos;
      out.choice.content = good ? "yes" : "no";
      out.choice.logprobs = {{{out.choice.content, -0.1F},
                              {{"yes", good ? -0.1F : -3.0F}, {"no", good ? -3.0F : -0.1F}}}};
    } else {
      out.choice.content = request.messages.size() > 1 ? "better" : "bad";
    }
  });
  ChatRequest request = chat("Explain this");
  request.orchestration.mode = "quality";
  const Answered r = run(*odo, model, request);
  ASSERT_FALSE(r.error);
  EXPECT_EQ(r.sink.whole.content, "better");
  EXPECT_LT(r.metadata["scores"]["gate"].get<double>(), 0.1);
  EXPECT_GT(r.metadata["scores"]["retry"].get<double>(), 0.9);
  const auto logged = odo->decisions().recent(1);
  ASSERT_TRUE(logged.ok());
  EXPECT_GT(logged->at(0).score.value_or(0), 0.9);
  EXPECT_EQ(logged->at(0).mode, Mode::kQuality);
}

TEST(Orchestrator, AJudgeWithoutAnOpinionChangesNothing) {
  const auto odo = make();
  ScriptedModel model([](const ChatRequest& request, ChatReply& out) {
    if (request.format.kind == protocol::OutputFormat::Kind::kChoice) {
      // The model would say "new"; the constraint makes it say "no".
      out.choice.content = "no";
      out.choice.logprobs = {{{"no", -9.0F}, {{"new", -0.01F}, {"yes", -9.5F}}}};
    } else {
      out.choice.content = request.messages.size() > 1 ? "second" : "first";
    }
  });
  ChatRequest request = chat("Explain this");
  request.orchestration.mode = "quality";
  const Answered r = run(*odo, model, request);
  ASSERT_FALSE(r.error);
  EXPECT_EQ(r.sink.whole.content, "first");
  EXPECT_EQ(model.requests.size(), 2U);  // the answer and the judge
  EXPECT_FALSE(r.metadata["scores"].contains("gate"));
  const auto logged = odo->decisions().recent(1);
  ASSERT_TRUE(logged.ok());
  EXPECT_FALSE(logged->at(0).score.has_value());
}

TEST(Orchestrator, TheLogHasTheScoreOfTheFastAnswerItself) {
  const Folder folder("fast_gate");
  folder.write("live", "name: live\nmode: fast\ngate: {when: always}\n");
  const auto odo = make({.pipelines = folder.path()});
  ScriptedModel model([](const ChatRequest& request, ChatReply& out) {
    if (request.format.kind == protocol::OutputFormat::Kind::kChoice) {
      const bool good = request.messages.back().content.find("better") != std::string::npos;
      out.choice.content = good ? "yes" : "no";
      out.choice.logprobs = {{{out.choice.content, -0.1F},
                              {{"yes", good ? -0.1F : -3.0F}, {"no", good ? -3.0F : -0.1F}}}};
    } else {
      out.choice.content = request.messages.size() > 1 ? "better" : "bad";
    }
  });
  const Answered r = run(*odo, model, chat("What is this?", "odo:live"));
  ASSERT_FALSE(r.error);
  EXPECT_EQ(r.sink.whole.content, "better");
  const auto logged = odo->decisions().recent(1);
  ASSERT_TRUE(logged.ok());
  EXPECT_LT(logged->at(0).score.value_or(1), 0.1);
}

TEST(Orchestrator, ReloadsUnderRequestsWithoutMixing) {
  const Folder folder("reload");
  const auto yaml = [](int version) {
    const std::string v = std::to_string(version);
    return "name: live\nmode: fast\nsystem: version " + v + "\nsteps:\n  - name: a\n    system: a" +
           v + "\n  - name: b\n    system: b" + v + "\n";
  };
  folder.write("live", yaml(0));
  const auto odo = make({.pipelines = folder.path()});
  std::atomic<int> answered = 0;
  std::atomic<bool> mixed = false;
  std::atomic<bool> done = false;
  std::jthread writer([&] {
    for (int version = 1; !done; ++version) {
      folder.write("live", version % 5 == 4 ? "name: live\nsystem: [" : yaml(version));
      odo->pipelines().refresh();
    }
  });
  {
    std::vector<std::jthread> clients;
    for (int c = 0; c < 4; ++c) {
      clients.emplace_back([&] {
        for (int i = 0; i < 250; ++i) {
          ScriptedModel model([](const ChatRequest& request, ChatReply& out) {
            out.choice.content = request.messages.front().content;
          });
          const Answered r = run(*odo, model, chat("hi", "odo:live"));
          if (r.error || model.requests.size() != 2) continue;
          ++answered;
          // "bN\nversion N" from a request that saw "aN\nversion N".
          const std::string first = model.requests[0].messages.front().content.substr(1);
          const std::string second = model.requests[1].messages.front().content.substr(1);
          mixed = mixed || first != second;
        }
      });
    }
  }
  done = true;
  EXPECT_EQ(answered, 1000);
  EXPECT_FALSE(mixed);
}

}  // namespace
}  // namespace chimere::orchestrator
