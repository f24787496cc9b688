// One orchestrated answer, from the request to the last token. Internal to the module.
#ifndef CHIMERE_ORCHESTRATOR_ANSWER_RUN_H_
#define CHIMERE_ORCHESTRATOR_ANSWER_RUN_H_

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/decision_log.h"
#include "orchestrator/intent.h"
#include "orchestrator/judge.h"
#include "orchestrator/passages.h"
#include "orchestrator/pipeline_store.h"
#include "orchestrator/question_form.h"
#include "orchestrator/relevance.h"
#include "orchestrator/report.h"
#include "orchestrator/tools/tool.h"
#include "protocol/orchestration.h"

namespace chimere::orchestrator {

/// What all answers share.
struct Surroundings {
  std::shared_ptr<const PipelineStore::Set> pipelines;
  DecisionLog& decisions;
  const IntentCascade& intents;
  PassageSource* passages;  ///< may be nullptr
  const ToolBox& tools;
};

class AnswerRun {
 public:
  AnswerRun(const Surroundings& around, const protocol::ChatRequest& request, std::string owner,
            protocol::ModelClient& model, protocol::AnswerSink& sink)
      : around_(around), request_(request), owner_(std::move(owner)), model_(model), sink_(sink) {}

  std::optional<protocol::ApiError> run(std::shared_ptr<const Pipeline> pipeline);

  const Report& report() const { return report_; }
  /// For the log.
  Decision decision() const;

 private:
  using Error = std::optional<protocol::ApiError>;
  using Clock = std::chrono::steady_clock;

  /// The beginning of the model's answer without any help.
  struct Probe {
    protocol::Choice choice;
    Certainty certainty;
  };

  // Understand and route (answer_route.cc).
  Error understand();
  /// Lets the model choose among the candidates; `out` stays as it is where it is not sure.
  Error ask_intent(std::string_view question, std::optional<Intent>& out);
  Error choose_mode();
  bool may_probe() const;
  Error probe();
  /// Generates the first tokens of the reply to this request.
  Error probe(protocol::ChatRequest request);
  // Enrich (answer_enrich.cc).
  Error enrich();
  Error retrieve(const std::string& query, std::vector<Passage>& out);
  bool only_passages() const;
  /// How well each passage answers. One with a sentence that has what a question of a known form
  /// asks for comes first.
  std::vector<double> rated(const std::string& question, std::span<const Passage> passages) const;
  void add_passages(protocol::ChatRequest& request) const;
  // Quote (answer_quote.cc).
  bool may_quote() const;
  /// The best part of the passages with its citation; empty: no part fits.
  std::string quotation();
  Error answer_quoted(const std::string& text);
  /// Probes an answer from the passages. `weak`: the model is not sure of it, or it says something
  /// else than they do.
  Error probe_passages(const protocol::ChatRequest& request, bool& weak);
  // Answer (answer_run.cc).
  protocol::ChatRequest base_request() const;
  void apply_params(const std::vector<std::pair<std::string, std::string>>& params,
                    protocol::ChatRequest& out) const;
  void apply_thinking(const std::string& thinking, protocol::ChatRequest& out) const;
  Error run_steps(protocol::ChatRequest& last);
  Error answer(protocol::ChatRequest request);
  Error answer_with_tools(protocol::ChatRequest request);
  Error continue_probe(protocol::ChatRequest request);
  Error do_not_know();
  /// Search, gate and reflection: the answer is sent when it is certain (answer_checked.cc).
  Error answer_checked(const protocol::ChatRequest& request);
  Error search(const protocol::ChatRequest& request, protocol::Choice& out);
  /// The scores of answers; absent where the judge has no opinion.
  Error judge(std::span<const std::string> answers, std::vector<std::optional<double>>& scores,
              int64_t& spent);
  bool gated() const;
  std::vector<text::Tool> useful_tools() const;

  /// Sends a part of the answer; cites.
  void send(protocol::Choice part);
  void send_whole(const protocol::Choice& whole);
  /// A generation whose tokens count for this purpose.
  Error chat(std::string_view purpose, const protocol::ChatRequest& request,
             const protocol::ModelClient::OnPiece& on_piece, protocol::ChatReply& out);
  Error chat_all(std::string_view purpose, std::span<const protocol::ChatRequest> requests,
                 std::span<protocol::ChatReply> out);
  void count(std::string_view purpose, const protocol::Usage& usage);
  void step(std::string_view name, const Json& details = Json::object());
  void reason(std::string text) { report_.reasons.push_back(std::move(text)); }
  bool caller_set(std::string_view setting) const;
  bool plain_text() const;

  const Surroundings& around_;
  const protocol::ChatRequest& request_;
  const std::string owner_;
  protocol::ModelClient& model_;
  protocol::AnswerSink& sink_;

  std::shared_ptr<const Pipeline> pipeline_;
  Report report_;
  Features features_;
  std::optional<double> score_;
  std::optional<Probe> probe_;
  std::vector<std::string> collections_;
  std::vector<Passage> passages_;  ///< in the prompt, refined
  std::optional<QuestionForm> form_;
  bool unstated_ = false;  ///< no sentence of the passages has what the form asks for
  std::optional<Citations> citations_;
  Clock::time_point began_ = Clock::now();
};

}  // namespace chimere::orchestrator

#endif  // CHIMERE_ORCHESTRATOR_ANSWER_RUN_H_
