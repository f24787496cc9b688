#include "protocol/answer_data.h"

#include <utility>

#include "protocol/json_text.h"

namespace chimere::protocol {
namespace {

Json usage_json(const Usage& u) {
  return {{"prompt", u.prompt_tokens},           {"cached", u.cached_tokens},
          {"completion", u.completion_tokens},   {"reasoning", u.reasoning_tokens},
          {"draftsAccepted", u.accepted_drafts}, {"draftsRejected", u.rejected_drafts}};
}

Json token_json(const TokenLogprobs& t) {
  Json out = {{"text", t.token.bytes}, {"logprob", t.token.value}, {"top", Json::array()}};
  for (const Logprob& l : t.top) out["top"].push_back(Json::array({l.bytes, l.value}));
  if (t.from_draft) out["drafted"] = true;
  return out;
}

/// A step {"name", "seconds", ...} with what else it says in "details".
Json step_json(const std::string& text) {
  Json step = Json::parse(text, nullptr, false);
  if (!step.is_object()) return Json::object();
  Json out = Json::object();
  for (const char* name : {"name", "seconds"}) {
    if (const auto found = step.find(name); found != step.end()) {
      out[name] = *found;
      step.erase(name);
    }
  }
  out["details"] = std::move(step);
  return out;
}

void append(Json& out, const char* name, Json values) {
  if (values.empty()) return;
  Json& list = out[name];
  if (!list.is_array()) list = Json::array();
  for (Json& value : values) list.push_back(std::move(value));
}

}  // namespace

std::string answer_data(const AnswerData& answer, std::string_view before) {
  Json out = before.empty() ? Json::object() : Json::parse(before, nullptr, false);
  if (!out.is_object()) out = Json::object();
  const auto set_time = [&](const char* name, double seconds) {
    if (seconds >= 0) out[name] = seconds * 1000;
  };
  out.erase("error");
  out.erase("finish");
  out["model"] = answer.model;
  set_time("firstMs", answer.first_seconds);
  set_time("reasoningMs", answer.reasoning_seconds);
  set_time("totalMs", answer.total_seconds);
  if (!answer.whole.finish_reason.empty()) out["finish"] = answer.whole.finish_reason;
  if (!answer.error.empty()) out["error"] = answer.error;
  if (answer.usage) out["usage"] = usage_json(*answer.usage);
  Json calls = Json::array();
  for (const ToolCallPiece& call : answer.whole.tool_calls) {
    calls.push_back({{"id", call.id}, {"name", call.name}, {"arguments", call.arguments}});
  }
  if (!calls.empty()) out["toolCalls"] = std::move(calls);
  Json steps = Json::array();
  for (const std::string& step : answer.steps) steps.push_back(step_json(step));
  append(out, "steps", std::move(steps));
  const Json odo = Json::parse(answer.orchestration, nullptr, false);
  if (odo.is_object()) {
    for (const auto& [name, kept] :
         {std::pair("sources", "sources"), {"passages", "verdict"}, {"mode", "mode"}}) {
      if (const auto found = odo.find(name); found != odo.end()) out[kept] = *found;
    }
  }
  if (answer.whole.logprobs.size() <= kMostKeptLogprobs) {
    Json tokens = Json::array();
    for (const TokenLogprobs& t : answer.whole.logprobs) tokens.push_back(token_json(t));
    append(out, "tokens", std::move(tokens));
  }
  return to_text(out);
}

}  // namespace chimere::protocol
