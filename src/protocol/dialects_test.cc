// Requests of the other APIs as the one internal request, and the events that they get.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "protocol/generation_writer.h"
#include "protocol/ollama_writer.h"
#include "protocol/requests.h"

namespace chimere::protocol {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> roles(const ChatRequest& request) {
  std::vector<std::string> out;
  for (const ChatMessage& m : request.messages) out.push_back(m.role);
  return out;
}

TEST(Messages, BlocksBecomeMessages) {
  MessagesRequest request;
  const auto error = parse_messages(
      R"({"max_tokens": 5, "system": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
          "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [
              {"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "I"},
              {"type": "tool_use", "id": "t1", "name": "f", "input": {"x": 1}}]},
            {"role": "user", "content": [
              {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "r"}]},
              {"type": "text", "text": "p"}, {"type": "text", "text": "q"}]}],
          "tools": [{"name": "f", "input_schema": {"type": "object"}}],
          "tool_choice": {"type": "any", "disable_parallel_tool_use": true}, "later": 1})",
      Settings(), {}, false, request);
  ASSERT_FALSE(error) << error->message;
  EXPECT_EQ(roles(request),
            (std::vector<std::string>{"system", "user", "assistant", "tool", "user"}));
  EXPECT_EQ(request.messages[0].content, "a\nb");
  EXPECT_EQ(request.messages[2].reasoning_content, "hm");
  EXPECT_EQ(request.messages[2].tool_calls.at(0).arguments, R"({"x":1})");
  EXPECT_EQ(request.messages[3].content, "r");
  EXPECT_EQ(request.messages[3].tool_call_id, "t1");
  EXPECT_EQ(request.messages[4].content, "p\nq");
  EXPECT_EQ(request.tool_choice.kind, ToolChoice::Kind::kRequired);
  EXPECT_FALSE(request.parallel_tool_calls);
  EXPECT_EQ(request.settings.get(settings::kReasoning), "none");
  EXPECT_EQ(request.notes.ignored, std::vector<std::string>{"later"});
}

TEST(Messages, BlocksOfTheWrongRoleAreRefused) {
  MessagesRequest request;
  const auto error = parse_messages(
      R"({"max_tokens": 5, "messages": [{"role": "user", "content": [
          {"type": "tool_use", "id": "a", "name": "f", "input": {}}]}]})",
      Settings(), {}, false, request);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->param, "messages[0].content[0].type");
}

TEST(Messages, UnknownFieldsAreRefusedOnRequest) {
  RequestLimits limits;
  limits.strict_fields = true;
  MessagesRequest request;
  const std::string body =
      R"({"max_tokens": 5, "later": 1, "messages": [{"role": "user", "content": "a"}]})";
  const auto error = parse_messages(body, Settings(), limits, false, request);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, "unknown_parameter");
  ChatRequest chat;
  limits.strict_fields = false;
  const std::string of_chat = R"({"later": 1, "messages": [{"role": "user", "content": "a"}]})";
  EXPECT_FALSE(parse_chat(of_chat, Settings(), limits, chat));
  EXPECT_EQ(chat.notes.ignored, std::vector<std::string>{"later"});
}

TEST(Responses, ItemsOfTheAssistantAreOneMessage) {
  ResponsesRequest request;
  const auto error = parse_responses(
      R"({"input": [{"role": "user", "content": "go"},
          {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
          {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I"}]},
          {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
          {"type": "function_call_output", "call_id": "c1", "output": "r"},
          {"type": "reasoning", "summary": [{"type": "summary_text", "text": "so"}]},
          {"type": "function_call", "call_id": "c2", "name": "f", "arguments": "{}"},
          {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "s"}]}]})",
      Settings(), {}, request);
  ASSERT_FALSE(error) << error->message;
  EXPECT_EQ(roles(request),
            (std::vector<std::string>{"user", "assistant", "tool", "assistant", "tool"}));
  EXPECT_EQ(request.messages[1].reasoning_content, "hm");
  EXPECT_EQ(request.messages[1].content, "I");
  EXPECT_EQ(request.messages[1].tool_calls.at(0).id, "c1");
  EXPECT_EQ(request.messages[3].reasoning_content, "so");
  EXPECT_EQ(request.messages[4].content, "s");
}

TEST(Ollama, NamesHaveNoHostAndNoTag) {
  for (const char* name : {"o/m:Q4", "hf.co/o/m:Q4", "huggingface.co/o/m:Q4", "o/m:Q4:latest",
                           "hf.co/o/m:Q4:latest"}) {
    EXPECT_EQ(ollama_model_name(name), "o/m:Q4") << name;
  }
  DeleteRequest request;
  ASSERT_FALSE(parse_ollama_delete(R"({"name": "hf.co/o/m"})", {}, request));
  EXPECT_EQ(request.model, "o/m");
  const auto error = parse_ollama_delete("{}", {}, request);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, "missing_field");
}

TEST(Ollama, GenerateIsAChat) {
  OllamaRequest request;
  const auto error = parse_ollama(
      R"({"model": "m:latest", "prompt": "p", "system": "s", "think": false,
          "options": {"num_predict": -2, "temperature": 0.5, "num_ctx": 4096}})",
      Settings(), {}, false, request);
  ASSERT_FALSE(error) << error->message;
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(roles(request), (std::vector<std::string>{"system", "user"}));
  EXPECT_TRUE(request.stream);
  EXPECT_EQ(request.settings.get(settings::kReasoning), "none");
}

/// The data of server-sent events, without what is random or the time.
std::vector<Json> data_of(const std::string& events) {
  std::vector<Json> out;
  constexpr std::string_view kData = "data: ";
  size_t at = 0;
  while ((at = events.find(kData, at)) != std::string::npos) {
    at += kData.size();
    out.push_back(Json::parse(events.substr(at, events.find('\n', at) - at)));
  }
  return out;
}

std::vector<std::string> types_of(const std::string& events) {
  std::vector<std::string> out;
  for (const Json& event : data_of(events)) out.push_back(event["type"]);
  return out;
}

/// Reasoning, text and a call in four parts.
std::vector<Choice> parts() {
  std::vector<Choice> out(4);
  out[0].reasoning = "hm";
  out[1].content = "I ";
  out[2].content = "call";
  out[2].tool_calls = {{0, "c", "f", "{\"x\""}};
  out[3].tool_calls = {{0, "", "", ": 1}"}};
  out[3].finish_reason = "tool_calls";
  return out;
}

TEST(AnthropicWriter, SendsTheEventsInTheirOrder) {
  const auto writer = anthropic_writer("msg_1", "m", true, false);
  std::string events = writer->open({}, 9);
  for (const Choice& part : parts()) events += writer->piece(part);
  Usage usage;
  usage.prompt_tokens = 9;
  usage.cached_tokens = 4;
  usage.completion_tokens = 3;
  events += writer->close(usage, {});
  EXPECT_EQ(
      types_of(events),
      (std::vector<std::string>{
          "message_start", "ping", "content_block_start", "content_block_delta",
          "content_block_delta", "content_block_stop", "content_block_start", "content_block_delta",
          "content_block_delta", "content_block_stop", "content_block_start", "content_block_delta",
          "content_block_delta", "content_block_stop", "message_delta", "message_stop"}));
  const auto all = data_of(events);
  EXPECT_EQ(all[14]["delta"]["stop_reason"], "tool_use");
  EXPECT_EQ(all[14]["usage"]["input_tokens"], 5);
  EXPECT_EQ(all[14]["usage"]["cache_read_input_tokens"], 4);
}

TEST(AnthropicWriter, CarriesReasoningThatItLeavesOut) {
  const auto writer = anthropic_writer("msg_1", "m", false, true);
  std::string events = writer->open({}, 9);
  for (const Choice& part : parts()) events += writer->piece(part);
  Usage usage;
  usage.prompt_tokens = 9;
  usage.cached_tokens = 4;
  events += writer->close(usage, {});
  EXPECT_EQ(events.find("thinking_delta"), std::string::npos);
  Json block;
  for (const Json& event : data_of(events)) {
    if (!event.contains("delta")) continue;
    if (event["delta"].contains("signature")) {
      block = {{"type", "thinking"}, {"thinking", ""}, {"signature", event["delta"]["signature"]}};
    }
    if (event.contains("usage")) {
      EXPECT_EQ(event["usage"]["input_tokens"], 0);
      EXPECT_EQ(event["usage"]["cache_creation_input_tokens"], 5);
    }
  }
  ASSERT_TRUE(block.is_object());
  const Json text = {{"type", "text"}, {"text", "I call"}};
  const Json body = {
      {"max_tokens", 5},
      {"messages",
       {{{"role", "user"}, {"content", "go"}},
        {{"role", "assistant"}, {"content", {block, text}}},
        {{"role", "user"},
         {"content",
          {{{"type", "text"}, {"text", "on"}, {"cache_control", {{"type", "ephemeral"}}}}}}}}}};
  MessagesRequest request;
  ASSERT_FALSE(parse_messages(body.dump(), Settings(), {}, false, request));
  EXPECT_EQ(request.messages[1].reasoning_content, "hm");
  EXPECT_TRUE(request.marks_cache);
}

TEST(ResponsesWriter, CarriesReasoningOnRequest) {
  for (const char* text : {"", "h", "hm", "hm?", "Größe \xE2\x82\xAC"}) {
    Choice whole;
    whole.reasoning = std::string("r") + text;
    whole.content = "a";
    whole.finish_reason = "stop";
    const auto writer = responses_writer({"resp_1", 5, "m", "f", {}}, "{}", false, true);
    Json item = Json::parse(writer->whole({&whole, 1}, {}, {}))["output"][0];
    item.erase("content");
    const Json body = {
        {"input",
         {item, {{"role", "assistant"}, {"content", "a"}}, {{"role", "user"}, {"content", "b"}}}},
        {"include", {"reasoning.encrypted_content"}}};
    ResponsesRequest request;
    ASSERT_FALSE(parse_responses(body.dump(), Settings(), {}, request));
    EXPECT_TRUE(request.carry_reasoning);
    EXPECT_EQ(request.messages[0].reasoning_content, whole.reasoning);
  }
  ResponsesRequest request;
  ASSERT_FALSE(parse_responses(
      R"({"input": [{"type": "reasoning", "encrypted_content": "gAAAA", "summary": [{"type": "summary_text", "text": "s"}]},
          {"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]})",
      Settings(), {}, request));
  EXPECT_EQ(request.messages[0].reasoning_content, "s");
}

TEST(ResponsesWriter, AFailureEndsTheOpenItem) {
  const auto writer = responses_writer({"resp_1", 5, "m", "f", {}}, "{}", false, false);
  std::string events = writer->open({}, 9);
  Choice part;
  part.content = "half";
  events += writer->piece(part);
  events += writer->fail({"cancelled", "No."});
  const auto all = data_of(events);
  EXPECT_EQ(all.back()["type"], "response.failed");
  EXPECT_EQ(all.back()["response"]["status"], "cancelled");
  EXPECT_EQ(all.back()["response"]["output"][0]["status"], "incomplete");
  EXPECT_EQ(all.back()["response"]["output"][0]["content"][0]["text"], "half");
}

TEST(Tools, ThoseOfOtherTypesAreLeftOut) {
  ResponsesRequest request;
  const std::string body =
      R"({"input": "a", "tools": [{"type": "web_search"}, {"type": "function", "name": "f"},
          {"type": "namespace", "name": "n", "tools": []}]})";
  ASSERT_FALSE(parse_responses(body, Settings(), {}, request));
  ASSERT_EQ(request.tools.size(), 1);
  EXPECT_EQ(request.tools[0].name, "f");
  ASSERT_EQ(request.notes.changed.size(), 1);
  EXPECT_NE(request.notes.changed[0].message.find("'web_search', 'n'"), std::string::npos);
  const auto error = parse_responses(body, Settings(), {.strict_fields = true}, request);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->param, "tools[0].type");
  ASSERT_TRUE(parse_responses(
      R"({"input": "a", "tool_choice": "required", "tools": [{"type": "web_search"}]})", Settings(),
      {}, request));
}

TEST(ResponsesWriter, NumbersItsEventsAndEndsWithTheWholeResponse) {
  const auto writer = responses_writer({"resp_1", 5, "m", "f", {}}, "{}", false, false);
  std::string events = writer->open({}, 9);
  for (const Choice& part : parts()) events += writer->piece(part);
  events += writer->close({}, {});
  const auto all = data_of(events);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i]["sequence_number"], i);
  EXPECT_EQ(all.back()["type"], "response.completed");
  const Json& output = all.back()["response"]["output"];
  ASSERT_EQ(output.size(), 3);
  EXPECT_EQ(output[0]["content"][0]["text"], "hm");
  EXPECT_EQ(output[1]["content"][0]["text"], "I call");
  EXPECT_EQ(output[2]["arguments"], "{\"x\": 1}");
  EXPECT_EQ(output[2]["call_id"], "c");
  EXPECT_EQ(Json::parse(writer->whole(parts(), {}, {}))["output"], output);
}

TEST(ResponsesWriter, LogprobsAreThoseOfTheTextOfMessages) {
  const auto of = [](const char* bytes) { return TokenLogprobs{{bytes, -1}, {{bytes, -1}}}; };
  std::vector<Choice> parts(4);
  parts[0].reasoning = "hi";
  parts[0].logprobs = {of("h"), of("i")};
  parts[1].logprobs = {of("</think>")};
  parts[2].content = "hi";
  parts[2].logprobs = {of("h"), of("i")};
  parts[3].content = " you";
  parts[3].logprobs = {of(" you")};
  parts[3].finish_reason = "stop";
  Choice all;
  all.reasoning = "hi";
  all.content = "hi you";
  all.finish_reason = "stop";
  for (const Choice& part : parts) {
    all.logprobs.insert(all.logprobs.end(), part.logprobs.begin(), part.logprobs.end());
  }
  const auto stream = responses_writer({"resp_1", 5, "m", "f", {}}, "{}", false, false);
  std::string events;
  for (const Choice& part : parts) events += stream->piece(part);
  events += stream->close({}, {});
  const auto sent = data_of(events);
  std::string deltas;
  for (const Json& event : sent) {
    if (event["type"] != "response.output_text.delta") continue;
    for (const Json& token : event["logprobs"]) deltas += token["token"].get<std::string>() + "|";
  }
  EXPECT_EQ(deltas, "h|i| you|");
  const auto whole = responses_writer({"resp_1", 5, "m", "f", {}}, "{}", false, false);
  const Json once = Json::parse(whole->whole({&all, 1}, {}, {}));
  for (const Json& output : {sent.back()["response"]["output"], once["output"]}) {
    const Json& logprobs = output[1]["content"][0]["logprobs"];
    ASSERT_EQ(logprobs.size(), 3);
    EXPECT_EQ(logprobs[2]["token"], " you");
    EXPECT_EQ(logprobs[2]["top_logprobs"][0]["logprob"], -1);
  }
}

TEST(Responses, LogprobsAreIncludedOnRequest) {
  const auto wanted = [](const std::string& more) {
    ResponsesRequest request;
    const auto error = parse_responses("{\"input\": \"hi\"" + more + "}", Settings(), {}, request);
    EXPECT_FALSE(error) << error->message;
    return request.logprobs;
  };
  EXPECT_EQ(wanted(""), -1);
  EXPECT_EQ(wanted(R"(, "top_logprobs": 0)"), -1);
  EXPECT_EQ(wanted(R"(, "include": ["message.output_text.logprobs"])"), 0);
  EXPECT_EQ(wanted(R"(, "top_logprobs": 3, "include": ["message.output_text.logprobs"])"), 3);
  EXPECT_EQ(wanted(R"(, "top_logprobs": 2)"), 2);
}

TEST(OllamaWriter, SendsLogprobs) {
  Choice part;
  part.content = "a";
  part.has_logprobs = true;
  part.logprobs = {{{"a", -0.5}, {{"a", -0.5}, {"b", -2}}}};
  const auto line = Json::parse(ollama_writer("o", "m", false)->piece(part));
  EXPECT_EQ(line["logprobs"][0]["logprob"], -0.5);
  EXPECT_EQ(line["logprobs"][0]["top_logprobs"][1]["token"], "b");
  part.finish_reason = "stop";
  const auto whole = Json::parse(ollama_writer("o", "m", true)->whole({&part, 1}, {}, {}));
  EXPECT_EQ(whole["logprobs"].size(), 1);
}

TEST(OllamaWriter, SendsWholeCalls) {
  const auto writer = ollama_writer("o", "m", true);
  std::string lines;
  for (const Choice& part : parts()) lines += writer->piece(part);
  lines += writer->close({}, {});
  std::vector<Json> all;
  for (size_t at = 0; at < lines.size();) {
    const size_t end = lines.find('\n', at);
    all.push_back(Json::parse(lines.substr(at, end - at)));
    at = end + 1;
  }
  ASSERT_EQ(all.size(), 5);
  EXPECT_EQ(all[0]["message"]["thinking"], "hm");
  EXPECT_EQ(all[3]["message"]["tool_calls"][0]["function"]["arguments"]["x"], 1);
  EXPECT_EQ(all[4]["done"], true);
  EXPECT_EQ(all[4]["done_reason"], "stop");
  std::vector<Choice> cut = parts();
  cut.back().tool_calls.clear();
  cut.back().finish_reason = "length";
  const auto other = ollama_writer("o", "m", true);
  std::string text;
  for (const Choice& part : cut) text += other->piece(part);
  EXPECT_EQ(text.find("tool_calls"), std::string::npos) << "a call that was cut off";
}

TEST(Errors, HaveTheFormOfTheirApi) {
  const ApiError error{"model_not_found", "No.", "model"};
  EXPECT_EQ(
      Json::parse(error_body(error, ApiForm::kAnthropic)),
      Json::parse(R"({"type": "error", "error": {"type": "not_found_error", "message": "No."}})"));
  EXPECT_EQ(Json::parse(error_body(error, ApiForm::kOllama)), Json::parse(R"({"error": "No."})"));
}

}  // namespace
}  // namespace chimere::protocol
