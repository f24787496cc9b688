// Parses arbitrary bytes as the body of a request to each route. Accepted requests must be valid.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/settings.h"
#include "fuzz.h"
#include "protocol/generation_writer.h"
#include "protocol/requests.h"
#include "protocol/volatile_lines.h"
#include "text/reasoning_splitter.h"

namespace protocol = chimere::protocol;

namespace {

constexpr std::string_view kSeeds[] = {
    R"({"messages":[{"role":"user","content":"hi"}],"temperature":0.5,"top_p":0,"n":2,"stop":["a"],"stream":true,)"
    R"("stream_options":{"include_usage":true},"logprobs":true,"top_logprobs":3,"logit_bias":{"5":-100}})",
    R"({"messages":[{"role":"developer","content":[{"type":"text","text":"a"}],"name":"b"}],"max_tokens":5,)"
    R"("chat_template_kwargs":{"enable_thinking":false},"samplers":["top_k"],"dry_sequence_breakers":["\n"]})",
    R"({"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},)"
    R"({"role":"tool","tool_call_id":"c","content":"1"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"a":[{}]},"strict":true}}],)"
    R"("tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":false,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{}}}})",
    R"({"prompt":["a","b"],"max_tokens":4,"echo":true,"best_of":1,"seed":7,"user":"u","mirostat":2})",
    R"({"prompt":[[1,2],[3]],"logprobs":2,"top_k":1e3,"suffix":null})",
    R"({"content":"\ud83d\ude00 text","add_special":true,"with_pieces":true})",
    R"({"tokens":[1,2,3]})",
    R"({"input":["a",[1,2]],"dimensions":4,"encoding_format":"base64","model":"m"})",
    R"({"texts":[{"text":"a","score":0.5},{"text":"b","score":1}],"source":"notes","engram":["a"]})",
    R"({"max_tokens":5,"system":[{"type":"text","text":"a"}],"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[)"
    R"({"type":"thinking","thinking":"h","signature":"s"},{"type":"tool_use","id":"t","name":"f","input":{"a":[1]}}]},{"role":"user",)"
    R"("content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"r"}],"is_error":true}]}],"tools":[{"name":"f",)"
    R"("input_schema":{}}],"tool_choice":{"type":"tool","name":"f"},"thinking":{"type":"enabled","budget_tokens":9},"stop_sequences":["a"]})",
    R"({"input":[{"role":"user","content":[{"type":"input_text","text":"a"}]},{"type":"reasoning","summary":[]},{"type":"function_call",)"
    R"("call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"r"}],"instructions":"i","store":true,)"
    R"("tools":[{"type":"function","name":"f","parameters":{}}],"text":{"format":{"type":"json_schema","schema":{}}},"previous_response_id":"r"})",
    R"({"model":"m:latest","messages":[{"role":"user","content":"a","images":[]},{"role":"assistant","tool_calls":[{"function":{"name":"f",)"
    R"("arguments":{"a":1}}}]},{"role":"tool","tool_name":"f","content":"r"}],"options":{"num_predict":-1,"stop":["a"]},"format":"json","think":"low"})",
    R"({"model":"m","prompt":"p","system":"s","raw":false,"keep_alive":0})",
    R"({"input_prefix":"a","input_suffix":"b","input_extra":[{"filename":"f","text":"t"}],"n_predict":4,"min_tokens":2,"cache_prompt":false})",
    R"({"text":"a","min_context":2,"n":5})",
    "Token usage: 12/200\nx-anthropic-billing-header: cch=1\nCurrent time: 09:30",
    "<think>hm</think> yes",
};

void require(bool truth, const char* what) {
  if (truth) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

void check(const std::optional<protocol::ApiError>& error) {
  if (error) require(error->status() == 400 && !error->message.empty(), "a refusal says nothing");
}

void check(const protocol::GenerationFields& f) {
  require(1 <= f.n && f.n <= 16 && f.logprobs <= 20 && f.stop.size() <= 16, "a limit was passed");
  for (const auto& [id, bias] : f.logit_bias) require(id >= 0 && bias <= 100, "a bias is wild");
}

/// Lines of a system message are neither lost nor made.
void check_lines(std::string_view text) {
  static const auto rules = *protocol::parse_volatile_rules("tokens,clock");
  std::vector<protocol::ChatMessage> conversation(2);
  conversation[0].role = "system";
  conversation[0].content = text;
  conversation[1].role = "user";
  const protocol::VolatileLines lines(rules, conversation);
  lines.append_moved(conversation);
  const auto letters = [](std::string_view s) {
    return std::ranges::count_if(s, [](char c) { return c != '\n'; });
  };
  require(letters(text) == letters(conversation[0].content) + letters(conversation[1].content),
          "a moved line is lost");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const chimere::Settings defaults;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  protocol::ChatRequest chat;
  auto error = protocol::parse_chat(body, defaults, {}, chat);
  check(error);
  if (!error) {
    check(chat);
    require(!chat.messages.empty(), "a chat has no message");
  }
  protocol::MessagesRequest messages;
  for (const bool counting : {false, true}) {
    error = protocol::parse_messages(body, defaults, {}, counting, messages);
    check(error);
    if (!error) {
      check(messages);
      require(!messages.messages.empty(), "Messages have no message");
    }
  }
  protocol::ResponsesRequest responses;
  error = protocol::parse_responses(body, defaults, {}, responses);
  check(error);
  if (!error) {
    check(responses);
    require(!responses.messages.empty() && responses.messages.back().role != "assistant",
            "a response has nothing to answer");
    require(!protocol::input_items_response(responses.input).empty(), "the input is no list");
  }
  for (const bool as_chat : {false, true}) {
    protocol::OllamaRequest ollama;
    error = protocol::parse_ollama(body, defaults, {}, as_chat, ollama);
    check(error);
    if (!error) check(ollama);
  }
  protocol::InfillRequest infill;
  error = protocol::parse_infill(body, defaults, {}, infill);
  check(error);
  if (!error) check(infill);
  protocol::EngramLookupRequest lookup;
  error = protocol::parse_engram_lookup(body, {}, lookup);
  check(error);
  if (!error) require(lookup.least >= 1 && lookup.most <= 64, "a limit was passed");
  check_lines(body);
  protocol::EngramRequest engram;
  error = protocol::parse_engram(body, {}, engram);
  check(error);
  if (!error) {
    require(!engram.texts.empty() && engram.texts.size() <= 256,
            "a write has no text, or too many");
    for (const auto& t : engram.texts) require(0 <= t.score && t.score <= 1, "a score is wild");
  }
  protocol::CompletionRequest completion;
  error = protocol::parse_completion(body, defaults, {}, completion);
  check(error);
  if (!error) {
    check(completion);
    require(!completion.prompts.empty(), "a completion has no prompt");
  }
  protocol::EmbeddingsRequest embeddings;
  error = protocol::parse_embeddings(body, {}, embeddings);
  check(error);
  if (!error) {
    require(!embeddings.inputs.empty() && embeddings.inputs.size() <= 2048 &&
                embeddings.dimensions >= 0,
            "embeddings of nothing, or of too much");
  }
  protocol::TokenizeRequest tokenize;
  error = protocol::parse_tokenize(body, {}, tokenize);
  check(error);
  if (!error) require(tokenize.content || !tokenize.messages.empty(), "there is nothing to split");
  protocol::DetokenizeRequest detokenize;
  error = protocol::parse_detokenize(body, detokenize);
  check(error);
  if (!error) {
    for (const int32_t token : detokenize.tokens) require(token >= 0, "a token is negative");
  }
  // Reasoning and answer must not depend on how the text is split.
  for (const auto start : {chimere::text::ReasoningSplitter::Start::kThinking,
                           chimere::text::ReasoningSplitter::Start::kMayThink}) {
    const chimere::text::ReasoningTags tags{
        .open = {"<think>"}, .close = {"</think>"}, .answer_open = "<r>", .answer_close = "</r>"};
    chimere::text::ReasoningSplitter whole(start, tags);
    chimere::text::ReasoningSplitter pieces(start, tags);
    chimere::text::ReasoningSplitter::Piece a = whole.push(body);
    const auto rest = whole.finish();
    std::string reasoning;
    std::string content;
    for (const char c : body) {
      const auto piece = pieces.push({&c, 1});
      reasoning += piece.reasoning;
      content += piece.content;
    }
    const auto last = pieces.finish();
    require(a.reasoning + rest.reasoning == reasoning + last.reasoning, "reasoning differs");
    require(a.content + rest.content == content + last.content, "answers differ");
  }
  return 0;
}

std::vector<std::vector<uint8_t>> fuzz_seeds() {
  std::vector<std::vector<uint8_t>> seeds;
  for (const std::string_view seed : kSeeds) seeds.emplace_back(seed.begin(), seed.end());
  return seeds;
}
