#include "orchestrator/report.h"

#include <cmath>

namespace chimere::orchestrator {
namespace {

/// Three digits are enough for people and make responses repeatable to read.
double rounded(double value) { return std::round(value * 1e6) / 1e6; }

}  // namespace

protocol::Usage Report::usage() const {
  protocol::Usage out;
  for (const auto& [purpose, usage] : tokens) {
    out.prompt_tokens += usage.prompt_tokens;
    out.completion_tokens += usage.completion_tokens;
    out.cached_tokens += usage.cached_tokens;
    out.reasoning_tokens += usage.reasoning_tokens;
    out.accepted_drafts += usage.accepted_drafts;
    out.rejected_drafts += usage.rejected_drafts;
  }
  return out;
}

Json Report::json() const {
  Json out = {{"pipeline", pipeline}, {"model", model}, {"mode", mode_name(mode)}};
  out["route"] = {{"intent", intent.name},
                  {"stage", intent.stage.empty() ? Json() : Json(intent.stage)},
                  {"confidence", rounded(intent.confidence)},
                  {"complexity", rounded(complexity)},
                  {"entropy", entropy ? Json(rounded(*entropy)) : Json()},
                  {"reasons", reasons}};
  for (const Intent& candidate : candidates) {
    out["route"]["candidates"][candidate.name] = rounded(candidate.confidence);
  }
  if (!verdict.empty()) out["passages"] = verdict;
  if (quoted) out["quoted"] = true;
  out["sources"] = Json::array();
  for (const Source& s : sources) {
    out["sources"].push_back({{"n", s.number},
                              {"name", s.name},
                              {"place", s.place},
                              {"document", s.document.empty() ? s.name : s.document},
                              {"collection", s.collection},
                              {"text", s.text},
                              {"relevance", rounded(s.relevance)},
                              {"cited", s.cited}});
    if (!s.quote.empty()) out["sources"].back()["quote"] = s.quote;
  }
  out["tokens"] = Json::object();
  for (const auto& [purpose, usage] : tokens) {
    out["tokens"][purpose] = {{"prompt", usage.prompt_tokens},
                              {"cached", usage.cached_tokens},
                              {"completion", usage.completion_tokens}};
  }
  out["scores"] = Json::object();
  for (const auto& [name, score] : scores) out["scores"][name] = rounded(score);
  if (!tools.empty()) out["tools"] = tools;
  out["seconds"] = Json::object();
  for (const auto& [stage, time] : seconds) out["seconds"][stage] = rounded(time);
  return out;
}

}  // namespace chimere::orchestrator
