// A pipeline: how the orchestrator answers, as a YAML file says it. docs/orchestrator.md has the
// schema.
#ifndef CHIMERE_ORCHESTRATOR_PIPELINE_H_
#define CHIMERE_ORCHESTRATOR_PIPELINE_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "protocol/requests.h"

namespace chimere::orchestrator {

/// How much effort a request gets.
enum class Mode : uint8_t {
  kAuto,     ///< the router decides
  kFast,     ///< one generation without reasoning
  kQuality,  ///< a reasoning budget, the pipeline's steps, the quality gate
  kUltra,    ///< in addition the pipeline's search
};
std::string_view mode_name(Mode mode);

/// Whether it may name a pipeline or an intent: small letters, digits, '-' and '_', at most 64.
bool is_valid_name(std::string_view name);

/// When a stage runs.
enum class When : uint8_t { kAuto, kAlways, kNever };

/// Passages of collections in the prompt.
struct EnrichSpec {
  When when = When::kAuto;               ///< kAuto: where the confidence trigger fires
  std::vector<std::string> collections;  ///< empty: nothing is retrieved
  int64_t passages = 4;                  ///< most passages in the prompt
  double correct = 0.8;                  ///< relevance from which a passage is correct
  double incorrect = 0.65;               ///< relevance below which it is incorrect
  double confidence = 0.75;              ///< of the probe; below it, passages are retrieved
  int64_t probe_tokens = 16;             ///< 0: without a probe, every request retrieves
  When quote = When::kAuto;    ///< answer in a passage's words; kAuto: if the model is weak
  double sure = 0.5;           ///< of a probe with the passages; below it, they are quoted
  bool only_passages = false;  ///< without a correct passage: "I do not know"
  /// With only_passages, whether a question of a known form (question_form.h) that no sentence
  /// answers is refused; kAuto: unless the model is sure of an answer from the passages.
  When forms = When::kAuto;
};

struct ToolsSpec {
  std::vector<std::string> allowed;   ///< names of built-in tools and tools of MCP servers
  std::vector<std::string> approved;  ///< of these, tools with effects that run unasked
  int64_t rounds = 4;                 ///< generations with calls, at most
  int64_t calls = 8;                  ///< calls, at most
};

struct SearchSpec {
  enum class Strategy : uint8_t { kNone, kMajority, kBestOfN, kBeam, kDvts };
  Strategy strategy = Strategy::kNone;
  int64_t width = 4;         ///< candidates; of kBeam: states kept; of kDvts: subtrees
  int64_t branches = 2;      ///< continuations of a state, of kBeam and kDvts
  int64_t depth = 8;         ///< steps of an answer, at most
  int64_t step_tokens = 64;  ///< of a step, at most
  int64_t budget = 4096;     ///< tokens decoded and scored
};
std::string_view strategy_name(SearchSpec::Strategy strategy);

struct GateSpec {
  When when = When::kNever;  ///< kAuto: in the modes quality and ultra
  double accept = 0.5;       ///< score from which an answer is good
};

/// A question and its answer, shown to the model before the conversation.
struct ExampleSpec {
  std::string question;
  std::string answer;
};

/// One agent's turn. The last step writes the answer.
struct StepSpec {
  std::string name;
  std::string system;  ///< in place of the pipeline's; empty: that
  enum class HandOver : uint8_t { kLast, kAll, kNone };
  HandOver hand_over = HandOver::kLast;  ///< results of earlier steps that it sees
  std::vector<std::pair<std::string, std::string>> params;  ///< over those of the pipeline
  std::string thinking;                                     ///< as of the pipeline; empty: that
};

struct Pipeline {
  std::string name;
  std::string description;
  std::string model;   ///< empty: the default model
  std::string system;  ///< before the caller's own system message; may be empty
  Mode mode = Mode::kAuto;
  /// Settings by name, with values that Settings::set() accepts.
  std::vector<std::pair<std::string, std::string>> params;
  std::string thinking;  ///< a value of --reasoning in the modes quality and ultra; empty: "medium"
  std::vector<protocol::LoraChoice> adapters;  ///< of the model; empty: those of the server
  std::vector<std::string> engram;             ///< names of engram tables
  protocol::OutputFormat constraint;           ///< kText: none
  std::vector<ExampleSpec> examples;
  EnrichSpec enrich;
  ToolsSpec tools;
  SearchSpec search;
  GateSpec gate;
  std::vector<StepSpec> steps;                ///< empty: one generation
  std::map<std::string, std::string> routes;  ///< intent to the pipeline that takes it over
  bool read_intent = false;  ///< let the model classify requests that the other stages leave open
};

/// Reads a pipeline. `source`: the name of the file, for messages. Errors: kInvalidData, one line
/// "SOURCE:LINE: what is wrong" for each problem.
Result<Pipeline> parse_pipeline(std::string_view yaml, const std::string& source);

}  // namespace chimere::orchestrator

#endif  // CHIMERE_ORCHESTRATOR_PIPELINE_H_
