// What the orchestrator says about an answer: the metadata of the response, and what is logged.
#ifndef CHIMERE_ORCHESTRATOR_REPORT_H_
#define CHIMERE_ORCHESTRATOR_REPORT_H_

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/pipeline.h"
#include "protocol/responses.h"

namespace chimere::orchestrator {

using Json = nlohmann::ordered_json;

/// What a request is about.
struct Intent {
  std::string name = "chat";
  std::string stage;      ///< "rules", "files", "words", "examples", "model"; empty: a mere guess
  double confidence = 0;  ///< probability that the name is right
};

/// A passage that the answer may cite.
struct Source {
  int64_t number = 0;  ///< n of the citation [n]
  std::string name;    ///< of the document
  std::string place;   ///< in the document: heading, line or page; may be empty
  std::string collection;
  std::string document;  ///< path or address; may be empty
  std::string text;      ///< the passage as the model was given it
  double relevance = 0;
  std::string quote = {};  ///< the part of it that the answer quotes; empty: none
  bool cited = false;
};

struct Report {
  std::string pipeline;
  std::string model;
  Mode mode = Mode::kFast;
  Intent intent;
  std::vector<Intent> candidates;    ///< the most probable intents by their words
  double complexity = 0;             ///< 0 to 1
  std::optional<double> entropy;     ///< mean of the probe's tokens, in nats
  std::vector<std::string> reasons;  ///< of the decisions, in order
  std::string verdict;  ///< of the passages: "correct", "ambiguous", "incorrect"; empty: none
  bool quoted = false;  ///< the answer is, or ends with, a quotation of a passage
  std::vector<Source> sources;
  std::map<std::string, protocol::Usage> tokens;  ///< by purpose
  std::vector<std::pair<std::string, double>> scores;
  std::vector<std::pair<std::string, double>> seconds;  ///< by stage
  std::vector<std::string> tools;                       ///< "NAME: outcome" of each call

  /// All purposes together.
  protocol::Usage usage() const;
  Json json() const;
};

}  // namespace chimere::orchestrator

#endif  // CHIMERE_ORCHESTRATOR_REPORT_H_
