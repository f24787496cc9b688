#include "orchestrator/answer_run.h"

#include <algorithm>

#include "orchestrator/words.h"

namespace chimere::orchestrator {
namespace {

constexpr const char* kUnknown = "I do not know: the documents do not answer this question.";

int64_t unix_milliseconds_now() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

bool has_any(const std::vector<std::string>& words, std::initializer_list<std::string_view> list) {
  return std::ranges::any_of(
      words, [&](const std::string& w) { return std::ranges::find(list, w) != list.end(); });
}

}  // namespace

bool AnswerRun::caller_set(std::string_view setting) const {
  return std::ranges::find(request_.given, setting) != request_.given.end() ||
         (setting == settings::kMaxTokens.name && !request_.max_tokens.first.empty());
}

bool AnswerRun::plain_text() const {
  return request_.tools.empty() && request_.format.kind == protocol::OutputFormat::Kind::kText &&
         pipeline_->constraint.kind == protocol::OutputFormat::Kind::kText;
}

void AnswerRun::count(std::string_view purpose, const protocol::Usage& usage) {
  protocol::Usage& sum = report_.tokens[std::string(purpose)];
  sum.prompt_tokens += usage.prompt_tokens;
  sum.completion_tokens += usage.completion_tokens;
  sum.cached_tokens += usage.cached_tokens;
  sum.reasoning_tokens += usage.reasoning_tokens;
  sum.accepted_drafts += usage.accepted_drafts;
  sum.rejected_drafts += usage.rejected_drafts;
}

void AnswerRun::step(std::string_view name, const Json& details) {
  Json out = {{"name", name}};
  out.update(details);
  out["seconds"] = std::chrono::duration<double>(Clock::now() - began_).count();
  sink_.step(out.dump(-1, ' ', false, Json::error_handler_t::replace));
}

AnswerRun::Error AnswerRun::chat(std::string_view purpose, const protocol::ChatRequest& request,
                                 const protocol::ModelClient::OnPiece& on_piece,
                                 protocol::ChatReply& out) {
  auto error = model_.chat(request, on_piece, out);
  const std::string& callers = request_.settings.get(settings::kReasoning);
  if (error && error->status() == 400 && request.settings.get(settings::kReasoning) != callers) {
    // The model may have no reasoning that can be limited.
    protocol::ChatRequest plain = request;
    (void)plain.settings.set(settings::kReasoning, callers, "orchestrator");
    error = model_.chat(plain, on_piece, out);
  }
  if (!error) count(purpose, out.usage);
  return error;
}

AnswerRun::Error AnswerRun::chat_all(std::string_view purpose,
                                     std::span<const protocol::ChatRequest> requests,
                                     std::span<protocol::ChatReply> out) {
  auto error = model_.chat_all(requests, out);
  for (const protocol::ChatReply& reply : out) count(purpose, reply.usage);
  return error;
}

void AnswerRun::apply_params(const std::vector<std::pair<std::string, std::string>>& params,
                             protocol::ChatRequest& out) const {
  for (const auto& [name, value] : params) {
    const SettingInfo* const setting = settings::find(name);
    if (setting != nullptr && !caller_set(name))
      (void)out.settings.set(*setting, value, "pipeline");
  }
}

void AnswerRun::apply_thinking(const std::string& thinking, protocol::ChatRequest& out) const {
  if (thinking.empty() || caller_set(settings::kReasoning.name) ||
      !request_.template_kwargs.empty()) {
    return;
  }
  (void)out.settings.set(settings::kReasoning, thinking, "pipeline");
}

protocol::ChatRequest AnswerRun::base_request() const {
  protocol::ChatRequest out = request_;
  out.n = 1;
  apply_params(pipeline_->params, out);
  if (!pipeline_->system.empty()) {
    if (out.messages.front().role == "system") {
      out.messages.front().content = pipeline_->system + "\n\n" + out.messages.front().content;
    } else {
      text::ChatMessage system;
      system.role = "system";
      system.content = pipeline_->system;
      out.messages.insert(out.messages.begin(), std::move(system));
    }
  }
  if (!pipeline_->examples.empty()) {
    const bool system = out.messages.front().role == "system";
    auto at = out.messages.begin() + (system ? 1 : 0);
    for (const ExampleSpec& example : pipeline_->examples) {
      text::ChatMessage asked;
      asked.role = "user";
      asked.content = example.question;
      at = std::next(out.messages.insert(at, std::move(asked)));
      text::ChatMessage answered;
      answered.role = "assistant";
      answered.content = example.answer;
      at = std::next(out.messages.insert(at, std::move(answered)));
    }
  }
  if (!out.lora && !pipeline_->adapters.empty()) out.lora = pipeline_->adapters;
  if (out.engram.empty()) out.engram = pipeline_->engram;
  if (request_.tools.empty() && request_.format.kind == protocol::OutputFormat::Kind::kText) {
    out.format = pipeline_->constraint;
  }
  return out;
}

void AnswerRun::send(protocol::Choice part) {
  if (citations_) {
    part.content = citations_->push(part.content);
    if (!part.finish_reason.empty()) {
      part.content += citations_->finish();
      // An answer that cites nothing is followed by what the passages say.
      const bool uncited =
          std::ranges::find(citations_->cited(), true) == citations_->cited().end();
      if (uncited && part.finish_reason == "stop" && may_quote()) {
        const std::string quoted = quotation();
        if (!quoted.empty()) part.content += "\n\n" + quoted;
      }
    }
  }
  part.index = 0;
  if (request_.tools.empty()) {
    // The caller has no tools to call.
    part.tool_calls.clear();
    if (part.finish_reason == "tool_calls") part.finish_reason = "stop";
  }
  const bool empty = part.content.empty() && part.reasoning.empty() && part.tool_calls.empty() &&
                     part.logprobs.empty() && part.finish_reason.empty();
  if (!empty) sink_.piece(part);
}

void AnswerRun::send_whole(const protocol::Choice& whole) {
  protocol::Choice part = whole;
  if (part.finish_reason.empty()) part.finish_reason = "stop";
  send(std::move(part));
}

std::vector<text::Tool> AnswerRun::useful_tools() const {
  if (!plain_text() || pipeline_->tools.allowed.empty()) return {};
  const ToolPolicy policy(pipeline_->tools.allowed, pipeline_->tools.approved);
  const std::string_view question = question_of(request_);
  const std::vector<std::string> words = words_of(question);
  const bool sums = report_.intent.name == "math" &&
                    std::ranges::any_of(question, [](char c) { return c >= '0' && c <= '9'; });
  const bool dates = has_any(words, {"today", "tomorrow", "yesterday", "date", "aujourd'hui"}) ||
                     question.find("time is it") != std::string_view::npos;
  // Not where the model is sure without passages.
  const bool unanswered = pipeline_->enrich.when == When::kNever || !report_.verdict.empty();
  std::vector<text::Tool> out;
  for (text::Tool& tool : policy.offered(around_.tools)) {
    // A tool in the prompt costs tokens, so the built-in ones are offered where they can help.
    const bool helps = tool.name == "calculate" ? sums
                       : tool.name == "time"    ? dates
                       : tool.name == "search" || tool.name == "read"
                           ? !collections_.empty() && passages_.empty() && unanswered
                           : true;
    if (helps) out.push_back(std::move(tool));
  }
  return out;
}

AnswerRun::Error AnswerRun::continue_probe(protocol::ChatRequest request) {
  protocol::Choice part = probe_->choice;
  const bool ended = part.finish_reason == "stop";
  if (!ended) part.finish_reason.clear();
  send(part);
  if (ended) return std::nullopt;
  if (!request_.max_tokens.first.empty()) {
    const int64_t left = request_.max_tokens.second - probe_->certainty.tokens;
    if (left <= 0) {
      protocol::Choice end;
      end.finish_reason = "length";
      send(std::move(end));
      return std::nullopt;
    }
    (void)request.settings.set(settings::kMaxTokens, std::to_string(left), "orchestrator");
  }
  text::ChatMessage begun;
  begun.role = "assistant";
  begun.content = probe_->choice.content;
  request.messages.push_back(std::move(begun));
  protocol::ChatReply reply;
  return chat(
      "answer", request,
      [&](const protocol::Choice& piece) {
        send(piece);
        return !sink_.abandoned();
      },
      reply);
}

AnswerRun::Error AnswerRun::do_not_know() {
  protocol::Choice answer;
  answer.content = kUnknown;
  answer.finish_reason = "stop";
  citations_.reset();
  send(std::move(answer));
  return std::nullopt;
}

AnswerRun::Error AnswerRun::answer_with_tools(protocol::ChatRequest request) {
  const ToolPolicy policy(pipeline_->tools.allowed, pipeline_->tools.approved);
  const ToolContext context = {owner_, collections_, around_.passages};
  int64_t calls = 0;
  for (int64_t round = 0;; ++round) {
    // The last round has no tools, so that it ends with an answer.
    if (round >= pipeline_->tools.rounds || calls >= pipeline_->tools.calls) request.tools.clear();
    protocol::ChatReply reply;
    const auto on_piece = [&](const protocol::Choice& piece) {
      protocol::Choice part = piece;
      if (part.finish_reason == "tool_calls") part.finish_reason.clear();
      send(std::move(part));
      return !sink_.abandoned();
    };
    if (auto error = chat("answer", request, on_piece, reply)) return error;
    if (reply.choice.tool_calls.empty()) return std::nullopt;
    text::ChatMessage said;
    said.role = "assistant";
    said.content = reply.choice.content;
    for (const protocol::ToolCallPiece& call : reply.choice.tool_calls) {
      said.tool_calls.push_back({call.id, call.name, call.arguments});
    }
    request.messages.push_back(std::move(said));
    for (const protocol::ToolCallPiece& call : reply.choice.tool_calls) {
      text::ChatMessage result;
      result.role = "tool";
      result.tool_call_id = call.id;
      std::string outcome = "refused";
      if (++calls > pipeline_->tools.calls) {
        result.content = "Error: there were too many calls.";
      } else if (const std::string why = policy.refusal(around_.tools, call.name); !why.empty()) {
        result.content = "Error: " + why;
      } else {
        const auto began = Clock::now();
        auto value = around_.tools.find(call.name)->call(call.arguments, context);
        outcome = value.ok() ? "ok" : "failed";
        result.content = value.ok() ? *std::move(value) : "Error: " + value.error().message;
        report_.seconds.emplace_back("tool " + call.name,
                                     std::chrono::duration<double>(Clock::now() - began).count());
      }
      report_.tools.push_back(call.name + ": " + outcome);
      step("tool", {{"tool", call.name}, {"arguments", call.arguments}, {"outcome", outcome}});
      request.messages.push_back(std::move(result));
    }
  }
}

AnswerRun::Error AnswerRun::run_steps(protocol::ChatRequest& last) {
  std::vector<std::pair<std::string, std::string>> results;
  for (size_t i = 0; i < pipeline_->steps.size(); ++i) {
    const StepSpec& spec = pipeline_->steps[i];
    protocol::ChatRequest request = last;
    if (!spec.system.empty()) {
      const bool has = request.messages.front().role == "system";
      text::ChatMessage system;
      system.role = "system";
      system.content = spec.system;
      if (has) system.content += "\n" + request.messages.front().content;
      if (has) request.messages.erase(request.messages.begin());
      request.messages.insert(request.messages.begin(), std::move(system));
    }
    const size_t first = spec.hand_over == StepSpec::HandOver::kAll || results.empty() ? 0
                         : spec.hand_over == StepSpec::HandOver::kLast ? results.size() - 1
                                                                       : results.size();
    for (size_t r = first; r < results.size(); ++r) {
      request.messages.back().content +=
          "\n\nResult of the step '" + results[r].first + "':\n" + results[r].second;
    }
    apply_params(spec.params, request);
    apply_thinking(spec.thinking, request);
    if (i + 1 == pipeline_->steps.size()) {
      last = std::move(request);
      return std::nullopt;
    }
    step("step", {{"step", spec.name}, {"state", "begins"}});
    const auto began = Clock::now();
    // Only the last step's output is what the caller's format and limit speak of.
    request.tools.clear();
    request.format = {};
    request.logprobs = -1;
    protocol::ChatReply reply;
    if (auto error = chat("step " + spec.name, request, {}, reply)) return error;
    report_.seconds.emplace_back("step " + spec.name,
                                 std::chrono::duration<double>(Clock::now() - began).count());
    step("step", {{"step", spec.name}, {"state", "ended"}, {"text", reply.choice.content}});
    results.emplace_back(spec.name, std::move(reply.choice.content));
  }
  return std::nullopt;
}

AnswerRun::Error AnswerRun::answer(protocol::ChatRequest request) {
  const bool fast = report_.mode == Mode::kFast;
  const bool searched = report_.mode == Mode::kUltra && plain_text() &&
                        pipeline_->search.strategy != SearchSpec::Strategy::kNone;
  if (unstated_) {
    bool weak = false;
    if (may_quote()) {
      if (auto error = probe_passages(request, weak)) return error;
    }
    if (weak) return do_not_know();
  } else if (may_quote() && pipeline_->enrich.quote == When::kAlways) {
    if (const std::string text = quotation(); !text.empty()) return answer_quoted(text);
  }
  if (fast && !unstated_ && may_quote() && pipeline_->steps.empty()) {
    bool weak = false;
    if (auto error = probe_passages(request, weak)) return error;
    const std::string text = weak ? quotation() : "";
    if (!text.empty()) return answer_quoted(text);
  }
  if (std::vector<text::Tool> tools = useful_tools(); !tools.empty()) {
    request.tools = std::move(tools);
    return answer_with_tools(std::move(request));
  }
  // Logarithms of probabilities cannot be told of an answer that was chosen or rewritten.
  if ((gated() || searched) && request_.logprobs < 0) return answer_checked(request);
  if (fast && probe_ && pipeline_->steps.empty()) return continue_probe(std::move(request));
  protocol::ChatReply reply;
  return chat(
      "answer", request,
      [&](const protocol::Choice& piece) {
        send(piece);
        return !sink_.abandoned();
      },
      reply);
}

AnswerRun::Error AnswerRun::run(std::shared_ptr<const Pipeline> pipeline) {
  pipeline_ = std::move(pipeline);
  report_.model = model_.id();
  features_ = features_of(request_);
  if (auto error = understand()) return error;
  if (auto error = choose_mode()) return error;
  if (const auto to = pipeline_->routes.find(report_.intent.name); to != pipeline_->routes.end() &&
                                                                   report_.mode != Mode::kFast &&
                                                                   !report_.intent.stage.empty()) {
    const auto found = around_.pipelines->find(to->second);
    if (found != around_.pipelines->end() && found->second->name != pipeline_->name) {
      reason("intent " + report_.intent.name + " goes to pipeline " + to->second);
      pipeline_ = found->second;
      probe_.reset();
    }
  }
  report_.pipeline = pipeline_->name;
  step("route", {{"pipeline", report_.pipeline},
                 {"mode", mode_name(report_.mode)},
                 {"intent", report_.intent.name},
                 {"reasons", report_.reasons}});
  report_.seconds.emplace_back("route",
                               std::chrono::duration<double>(Clock::now() - began_).count());
  if (auto error = enrich()) return error;
  const bool unanswerable = !report_.verdict.empty() && passages_.empty();
  Error error;
  if (unanswerable && only_passages()) {
    error = do_not_know();
  } else {
    protocol::ChatRequest request = base_request();
    add_passages(request);
    const std::string& thinking = pipeline_->thinking.empty() ? "medium" : pipeline_->thinking;
    apply_thinking(report_.mode == Mode::kFast ? "none" : thinking, request);
    if (!pipeline_->steps.empty() && request.messages.back().role == "user") {
      error = run_steps(request);
    }
    if (!error) error = answer(std::move(request));
  }
  if (citations_) {
    for (size_t i = 0; i < report_.sources.size(); ++i) {
      report_.sources[i].cited = report_.sources[i].cited || citations_->cited()[i];
    }
  }
  report_.seconds.emplace_back("total",
                               std::chrono::duration<double>(Clock::now() - began_).count());
  return error;
}

Decision AnswerRun::decision() const {
  Decision out;
  out.time_ms = unix_milliseconds_now();
  out.owner = owner_;
  out.pipeline = report_.pipeline;
  out.intent = report_.intent.name;
  out.stage = report_.intent.stage;
  out.confidence = report_.intent.confidence;
  out.mode = report_.mode;
  out.complexity = report_.complexity;
  out.entropy = report_.entropy;
  out.features = features_;
  out.reasons = Json(report_.reasons).dump();
  out.metadata = report_.json().dump(-1, ' ', false, Json::error_handler_t::replace);
  out.score = score_;
  out.seconds = std::chrono::duration<double>(Clock::now() - began_).count();
  return out;
}

}  // namespace chimere::orchestrator
