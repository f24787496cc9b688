#include "protocol/requests.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string>
#include <tuple>

#include "protocol/rerank.h"

namespace chimere::protocol {
namespace {

const Settings kDefaults;
const std::string kHello = R"("messages":[{"role":"user","content":"hi"}])";

std::optional<ApiError> chat(const std::string& fields, ChatRequest& out) {
  return parse_chat("{" + kHello + (fields.empty() ? "" : "," + fields) + "}", kDefaults, {}, out);
}

/// The field for which a chat request with these fields is rejected.
std::string refused(const std::string& fields) {
  ChatRequest request;
  const auto error = chat(fields, request);
  if (!error) return "(accepted)";
  EXPECT_EQ(error->status(), 400);
  EXPECT_FALSE(error->message.empty());
  return error->param;
}

TEST(ChatRequest, ReadsEveryField) {
  ChatRequest r;
  const auto error = chat(
      R"("model":"mini","n":2,"temperature":0.5,"top_p":0,"top_k":7,"seed":11,"stop":["a","b"],)"
      R"("frequency_penalty":1,"presence_penalty":-1,"repeat_penalty":1.1,"min_p":0.1,"mirostat":2,)"
      R"("max_completion_tokens":9,"logprobs":true,"top_logprobs":3,"logit_bias":{"5":-100,"6":2.5},)"
      R"("stream":true,"stream_options":{"include_usage":true},"samplers":["top_k","temperature"],)"
      R"("dry_sequence_breakers":["\n"],"chat_template_kwargs":{"enable_thinking":false},)"
      R"("store":true,"service_tier":"auto","prompt_cache_key":"k","safety_identifier":"s",)"
      R"("metadata":{"a":"b"},"user":"u","response_format":{"type":"text"},"tool_choice":"none")",
      r);
  ASSERT_FALSE(error) << error->message;
  EXPECT_EQ(r.model, "mini");
  EXPECT_EQ(r.n, 2);
  EXPECT_EQ(r.settings.get(settings::kTemperature), 0.5);
  EXPECT_EQ(r.settings.get(settings::kTopP), 1e-6);
  EXPECT_EQ(r.settings.get(settings::kTopK), 7);
  EXPECT_EQ(r.settings.get(settings::kSeed), 11);
  EXPECT_EQ(r.settings.get(settings::kFrequencyPenalty), 1);
  EXPECT_EQ(r.settings.get(settings::kPresencePenalty), -1);
  EXPECT_EQ(r.settings.get(settings::kRepeatPenalty), 1.1);
  EXPECT_EQ(r.settings.get(settings::kMinP), 0.1);
  EXPECT_EQ(r.settings.get(settings::kMirostat), 2);
  EXPECT_EQ(r.settings.get(settings::kMaxTokens), 9);
  EXPECT_EQ(r.settings.get(settings::kSamplers), "top_k;temperature");
  EXPECT_EQ(r.settings.get(settings::kDryBreakers), R"(["\n"])");
  EXPECT_EQ(r.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(r.logprobs, 3);
  ASSERT_EQ(r.logit_bias.size(), 2U);
  EXPECT_EQ(r.logit_bias[0], std::make_pair(5, -INFINITY));
  EXPECT_EQ(r.logit_bias[1], std::make_pair(6, 2.5F));
  EXPECT_TRUE(r.stream);
  EXPECT_TRUE(r.include_usage);
  EXPECT_EQ(r.template_kwargs, R"({"enable_thinking":false})");
}

TEST(ChatRequest, NullIsAbsent) {
  EXPECT_EQ(refused(R"("stop":null,"n":null,"tools":null,"max_tokens":null,"seed":null)"),
            "(accepted)");
}

TEST(ChatRequest, ErrorsNameTheField) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("n":0)", "n"},
      {R"("n":17)", "n"},
      {R"("n":1.5)", "n"},
      {R"("n":18446744073709551615)", "n"},
      {R"("n":1e300)", "n"},
      {R"("temperature":-1)", "temperature"},
      {R"("temperature":"hot")", "temperature"},
      {R"("top_k":1.5)", "top_k"},
      {R"("max_tokens":0)", "max_tokens"},
      {R"("max_completion_tokens":-5)", "max_completion_tokens"},
      {R"("stop":[1])", "stop"},
      {R"("logit_bias":{"x":1})", "logit_bias"},
      {R"("logit_bias":{"1":101})", "logit_bias"},
      {R"("logit_bias":[1])", "logit_bias"},
      {R"("top_logprobs":2)", "top_logprobs"},
      {R"("logprobs":true,"top_logprobs":21)", "top_logprobs"},
      {R"("stream_options":true)", "stream_options"},
      {R"("functions":[{"name":"f"}])", "functions"},
      {R"("function_call":{"name":"f"})", "function_call"},
      {R"("tools":[{"type":"web_search"},{"function":{"name":"f"}},{"function":{"name":"f"}}])",
       "tools[2].function.name"},
      {R"("tools":[{"function":{"name":"f"}},{"function":{"name":"f"}}])",
       "tools[1].function.name"},
      {R"("tools":[{"function":{"name":"f","parameters":[]}}])", "tools[0].function.parameters"},
      {R"("tool_choice":"required")", "tool_choice"},
      {R"("tool_choice":"required","tools":[])", "tool_choice"},
      {R"("tool_choice":{"type":"function","function":{"name":"f"}})", "tool_choice.function.name"},
      {R"("tool_choice":{"type":"allowed_tools"})", "tool_choice"},
      {R"("response_format":{"type":"json_schema"})", "response_format.json_schema"},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"x"}})",
       "response_format.json_schema.schema"},
      {R"("response_format":{"type":"grammar"})", "response_format.type"},
      {R"("samplers":["unknown"])", "samplers"},
      {R"("seed":1.5)", "seed"},
      {R"("mirostat":3)", "mirostat"},
      {R"("reasoning":{"effort":"extreme"})", "reasoning.effort"},
      {R"("enable_thinking":1)", "enable_thinking"},
      {R"("logit_bias":[[1,true]])", "logit_bias"},
      {R"("chat_template_kwargs":{"messages":[]})", "chat_template_kwargs"},
  };
  for (const auto& [fields, param] : cases) EXPECT_EQ(refused(fields), param) << fields;
}

TEST(ChatRequest, ValuesOfOtherServers) {
  const auto read = [](const std::string& fields) {
    ChatRequest r;
    const auto error = chat(fields, r);
    EXPECT_FALSE(error) << fields << ": " << error->message;
    return r;
  };
  EXPECT_EQ(read(R"("max_tokens":-1)").settings.get(settings::kMaxTokens), -1);
  EXPECT_EQ(read(R"("n_predict":42.0)").settings.get(settings::kMaxTokens), 42);
  EXPECT_EQ(read(R"("top_k":-1)").settings.get(settings::kTopK), 0);
  EXPECT_EQ(read(R"("top_k":7.0)").settings.get(settings::kTopK), 7);
  EXPECT_EQ(read(R"("seed":-1)").settings.get(settings::kSeed), -1);
  EXPECT_EQ(read(R"("seed":-5)").settings.get(settings::kSeed), (int64_t{1} << 53) - 5);
  EXPECT_EQ(read(R"("seed":18446744073709551615)").settings.get(settings::kSeed),
            (int64_t{1} << 53) - 1);
  EXPECT_EQ(read(R"("samplers":"kt")").settings.get(settings::kSamplers), "top_k;temperature");
  EXPECT_EQ(read(R"("samplers":"top_p;min_p")").settings.get(settings::kSamplers), "top_p;min_p");
  EXPECT_TRUE(read(R"("stop":["","a"])").stop == std::vector<std::string>{"a"});
  EXPECT_EQ(read(R"("logit_bias":[[15,-100],[16,false],[17,1]])").logit_bias.size(), 3U);
  EXPECT_EQ(read(R"("temperature":1)").notes.changed.size(), 0U);
  for (const auto& [fields, temperature] :
       {std::pair(R"("temperature":1e-8)", 0.0), {R"("temperature":1000000)", 100.0}}) {
    const ChatRequest r = read(fields);
    EXPECT_EQ(r.settings.get(settings::kTemperature), temperature);
    ASSERT_EQ(r.notes.changed.size(), 1U);
    EXPECT_EQ(r.notes.changed[0].param, "temperature");
  }
  for (const auto& [fields, reasoning] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"("reasoning_effort":"xhigh")", "high"},
           {R"("reasoning_effort":"minimal")", "low"},
           {R"("think":"low")", "low"},
           {R"("thinking":{"type":"disabled"})", "none"},
           {R"("thinking":{"type":"enabled","budget_tokens":64})", "64"},
           {R"("reasoning":{"effort":"low","exclude":true})", "low"},
           {R"("reasoning":{"max_tokens":9})", "9"},
           {R"("reasoning":{"enabled":false})", "none"},
           {R"("enable_thinking":false)", "none"},
           {R"("enable_thinking":true)", "auto"},
           {R"("enable_thinking":true,"reasoning_effort":"low")", "low"}}) {
    EXPECT_EQ(read(fields).settings.get(settings::kReasoning), reasoning) << fields;
  }
}

TEST(ChatRequest, FieldsThatMeetEachOther) {
  ChatRequest r;
  ASSERT_FALSE(chat(R"("max_tokens":100,"max_completion_tokens":-1)", r));
  EXPECT_EQ(r.settings.get(settings::kMaxTokens), 100);
  ASSERT_FALSE(chat(R"("max_tokens":-1,"n_predict":7)", r));
  EXPECT_EQ(r.settings.get(settings::kMaxTokens), 7);
  ASSERT_FALSE(chat(R"("enable_thinking":true,"chat_template_kwargs":{"date":"x"})", r));
  EXPECT_EQ(r.template_kwargs, R"({"enable_thinking":true,"date":"x"})");
  ASSERT_FALSE(chat(R"("think":true,"chat_template_kwargs":{"enable_thinking":false})", r));
  EXPECT_EQ(r.template_kwargs, R"({"enable_thinking":false})");
  ASSERT_FALSE(chat(R"("reasoning_effort":"","reasoning":{"effort":"none"})", r));
  EXPECT_EQ(r.settings.get(settings::kReasoning), "none");
}

TEST(Json, TheModelsNameIsFoundBehindHalfOfAPair) {
  std::string name;
  ASSERT_FALSE(
      read_model_name(R"({"messages":[{"role":"user","content":"x\ud83d"}],"model":"b"})", name));
  EXPECT_EQ(name, "b");
}

TEST(ChatRequest, UnknownFieldsAreNoted) {
  ChatRequest r;
  ASSERT_FALSE(chat(R"("later":1,"verbosity":"low","reasoning":{"exclude":true})", r));
  EXPECT_EQ(r.notes.ignored, (std::vector<std::string>{"reasoning.exclude", "later", "verbosity"}));
  const std::vector<Warning> warnings = warnings_of(r.notes);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0].message,
            "The fields 'reasoning.exclude', 'later', 'verbosity' are unknown here and ignored.");
}

TEST(ChatRequest, MessagesThatClientsSendBack) {
  ChatRequest r;
  const auto error = parse_chat(
      R"({"messages":[{"role":"user","content":null},{"role":"user","content":[]},)"
      R"({"role":"assistant","content":"b","parsed":{"a":1},"annotations":[],"id":"m",)"
      R"("reasoning":"r","finish_reason":"stop","reasoning_details":[]},)"
      R"({"role":"assistant","content":null,"refusal":"no","tool_calls":[]},)"
      R"({"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function",)"
      R"("function":{"name":"f","arguments":"{}","parsed_arguments":{}}}]},)"
      R"({"role":"function","name":"f","content":"x"},)"
      R"({"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},)"
      R"({"type":"output_text","text":"b","annotations":[]}]}]})",
      kDefaults, {}, r);
  ASSERT_FALSE(error) << error->message;
  ASSERT_EQ(r.messages.size(), 7U);
  EXPECT_EQ(r.messages[2].reasoning_content, "r");
  EXPECT_EQ(r.messages[3].content, "no");
  EXPECT_EQ(r.messages[4].tool_calls.at(0).arguments, "{}");
  EXPECT_EQ(r.messages[5].role, "tool");
  EXPECT_EQ(r.messages[6].content, "ab");
  EXPECT_EQ(std::ranges::count(r.notes.ignored, "messages[2].parsed"), 1);
}

TEST(ChatRequest, Messages) {
  const auto parse = [](const std::string& messages, ChatRequest& out) {
    return parse_chat(R"({"messages":)" + messages + "}", kDefaults, {}, out);
  };
  ChatRequest r;
  const auto error = parse(
      R"([{"role":"developer","content":"be kind"},)"
      R"({"role":"user","name":"Ann","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},)"
      R"({"role":"assistant","content":null,"reasoning_content":"hm","refusal":null,"audio":null,)"
      R"("annotations":null,"function_call":null,"tool_calls":null},{"role":"user","content":"c"}])",
      r);
  ASSERT_FALSE(error) << error->message;
  EXPECT_EQ(r.messages[0].role, "system");
  EXPECT_EQ(r.messages[1].content, "ab");
  EXPECT_EQ(r.messages[1].name, "Ann");
  EXPECT_EQ(r.messages[2].reasoning_content, "hm");

  const std::pair<const char*, const char*> cases[] = {
      {"[]", "messages"},
      {"{}", "messages"},
      {"[1]", "messages[0]"},
      {R"([{"content":"x"}])", "messages[0].role"},
      {R"([{"role":"king","content":"x"}])", "messages[0].role"},
      {R"([{"role":"user","content":"x","tool_calls":[{"function":{"name":"f"}}]}])",
       "messages[0].tool_calls"},
      {R"([{"role":"assistant","tool_calls":[{"id":"c","function":{"arguments":"{}"}}]}])",
       "messages[0].tool_calls[0].function.name"},
      {R"([{"role":"user","content":"x"},{"role":"user","content":3}])", "messages[1].content"},
      {R"([{"role":"user","content":[{"type":"image_url","image_url":{}}]}])",
       "messages[0].content[0].type"},
      {R"([{"role":"assistant","content":"x","function_call":{"name":"f"}}])",
       "messages[0].function_call"},
  };
  for (const auto& [messages, param] : cases) {
    ChatRequest bad;
    const auto refusal = parse(messages, bad);
    ASSERT_TRUE(refusal) << messages;
    EXPECT_EQ(refusal->param, param) << messages;
  }
}

TEST(ChatRequest, Tools) {
  ChatRequest r;
  const auto error = chat(
      R"("tools":[{"type":"function","function":{"name":"get_weather","description":"Weather",)"
      R"("parameters":{"type":"object","required":["b","a"],"properties":{"b":{},"a":{}}},)"
      R"("strict":true}},{"type":"function","function":{"name":"now"}}],)"
      R"("tool_choice":{"type":"function","function":{"name":"now"}},"parallel_tool_calls":false)",
      r);
  ASSERT_FALSE(error) << error->message;
  ASSERT_EQ(r.tools.size(), 2U);
  EXPECT_EQ(r.tools[0].name, "get_weather");
  EXPECT_EQ(r.tools[0].description, "Weather");
  EXPECT_EQ(r.tools[0].parameters,
            R"({"type":"object","required":["b","a"],"properties":{"b":{},"a":{}}})");
  EXPECT_TRUE(r.tools[0].strict);
  EXPECT_EQ(r.tools[1].parameters, "");
  EXPECT_FALSE(r.tools[1].strict);
  EXPECT_EQ(r.tool_choice.kind, ToolChoice::Kind::kNamed);
  EXPECT_EQ(r.tool_choice.name, "now");
  EXPECT_FALSE(r.parallel_tool_calls);
  // Values that change nothing.
  for (const char* harmless :
       {R"("tools":[])", R"("tools":[],"tool_choice":"auto")", R"("tool_choice":"none")",
        R"("parallel_tool_calls":true)", R"("parallel_tool_calls":false,"tools":null)"}) {
    EXPECT_EQ(refused(harmless), "(accepted)") << harmless;
  }
}

TEST(ChatRequest, ResponseFormat) {
  ChatRequest r;
  ASSERT_FALSE(chat(R"("response_format":{"type":"json_object"})", r));
  EXPECT_EQ(r.format.kind, OutputFormat::Kind::kJsonObject);
  ASSERT_FALSE(chat(R"("response_format":{"type":"json_schema","json_schema":{"name":"n",)"
                    R"("strict":true,"schema":{"b":1,"a":[{}]}}})",
                    r));
  EXPECT_EQ(r.format.kind, OutputFormat::Kind::kJsonSchema);
  EXPECT_EQ(r.format.text, R"({"b":1,"a":[{}]})");
  EXPECT_EQ(r.format.name, "n");
  EXPECT_TRUE(r.format.strict);
}

TEST(ChatRequest, FormatsOfOtherServers) {
  using Kind = OutputFormat::Kind;
  struct Case {
    const char* body;
    Kind kind;
    const char* text;
    const char* field;
  };
  for (const Case& c : {
           Case{R"("grammar":"root ::= \"a\"")", Kind::kGrammar, R"(root ::= "a")", "grammar"},
           {R"("grammar":"")", Kind::kText, "", ""},
           {R"("json_schema":{"type":"null"})", Kind::kJsonSchema, R"({"type":"null"})",
            "json_schema"},
           {R"("response_format":{"type":"json_object","schema":{"a":1}})", Kind::kJsonSchema,
            R"({"a":1})", "response_format"},
           {R"("structured_outputs":{"regex":"a+"})", Kind::kRegex, "a+",
            "structured_outputs.regex"},
           {R"("structured_outputs":{"json":"{}"})", Kind::kJsonSchema, "{}",
            "structured_outputs.json"},
           {R"("structured_outputs":{"json_object":true})", Kind::kJsonObject, "",
            "structured_outputs.json_object"},
           {R"("structured_outputs":{"json_object":false},"response_format":{"type":"text"})",
            Kind::kText, "", "response_format"},
           {R"("guided_choice":["x","y"])", Kind::kChoice, "", "guided_choice"},
       }) {
    ChatRequest r;
    const auto error = chat(c.body, r);
    ASSERT_FALSE(error) << error->message;
    EXPECT_EQ(r.format.kind, c.kind) << c.body;
    EXPECT_EQ(r.format.text, c.text);
    EXPECT_EQ(r.format.field, c.field);
    EXPECT_EQ(r.format.choices.size(), c.kind == Kind::kChoice ? 2U : 0U);
  }
  EXPECT_EQ(refused(R"("grammar":"a","guided_regex":"b")"), "guided_regex");
  EXPECT_EQ(refused(R"("structured_outputs":{"regex":"a","choice":["b"]})"),
            "structured_outputs.choice");
  EXPECT_EQ(refused(R"("response_format":{"type":"text","schema":{}})"), "response_format.schema");
}

TEST(ChatRequest, SchemasMayBeNestedDeeply) {
  std::string schema = "{}";
  const std::string open = R"({"items":)";
  constexpr int kDepth = 60'000;
  std::string begin;
  for (int i = 0; i < kDepth; ++i) begin += open;
  schema = begin + schema + std::string(kDepth, '}');
  ChatRequest r;
  const auto error = chat(
      R"("response_format":{"type":"json_schema","json_schema":{"schema":)" + schema + "}}", r);
  ASSERT_FALSE(error) << error->message;
  EXPECT_EQ(r.format.text, schema);
}

TEST(ChatRequest, CallsAndTheirResults) {
  ChatRequest r;
  const auto error =
      parse_chat(R"({"messages":[{"role":"tool","tool_call_id":"b","content":"early"},)"
                 R"({"role":"assistant","content":null,"tool_calls":[)"
                 R"({"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\": 1}"}},)"
                 R"({"id":"b","index":1,"function":{"name":"g","arguments":{"y":[]}}},)"
                 R"({"id":"c","type":"function","function":{"name":"h"}}]},)"
                 R"({"role":"assistant","content":"no calls","tool_calls":[]},)"
                 R"({"role":"tool","tool_call_id":"a","content":[{"type":"text","text":"4"},)"
                 R"({"type":"text","text":"2"}]},{"role":"tool","content":""}]})",
                 kDefaults, {}, r);
  ASSERT_FALSE(error) << error->message;
  const std::vector<ToolCall>& calls = r.messages[1].tool_calls;
  ASSERT_EQ(calls.size(), 3U);
  EXPECT_EQ(calls[0].id, "a");
  EXPECT_EQ(calls[0].name, "f");
  EXPECT_EQ(calls[0].arguments, R"({"x": 1})");
  EXPECT_EQ(calls[1].arguments, R"({"y":[]})");
  EXPECT_EQ(calls[2].arguments, "");
  EXPECT_EQ(r.messages[2].content, "no calls");
  EXPECT_EQ(r.messages[3].role, "tool");
  EXPECT_EQ(r.messages[3].tool_call_id, "a");
  EXPECT_EQ(r.messages[3].content, "42");
  EXPECT_EQ(r.messages[4].tool_call_id, "");
}

TEST(ChatRequest, AnyLimitOfTokensIsTaken) {
  const auto limit = [](const std::string& fields) {
    ChatRequest r;
    const auto error = chat(fields, r);
    EXPECT_FALSE(error) << error->message;
    return std::tuple(r.max_tokens.first, r.max_tokens.second,
                      r.settings.get(settings::kMaxTokens));
  };
  EXPECT_EQ(limit(""), std::tuple("", 0, -1));
  EXPECT_EQ(limit(R"("max_tokens":7)"), std::tuple("max_tokens", 7, 7));
  EXPECT_EQ(limit(R"("max_tokens":9,"max_completion_tokens":9)"),
            std::tuple("max_completion_tokens", 9, 9));
  EXPECT_EQ(limit(R"("max_tokens":2147483647)"), std::tuple("max_tokens", 2147483647, 1 << 24));
}

TEST(ChatRequest, TwoLimitsThatDifferAreRefused) {
  const auto error = [](const std::string& fields) {
    ChatRequest r;
    return chat(fields, r).value_or(ApiError{"invalid_json", "accepted"});
  };
  const ApiError tokens = error(R"("max_tokens":7,"max_completion_tokens":9)");
  EXPECT_EQ(tokens.code, "conflicting_fields");
  EXPECT_EQ(tokens.param, "max_completion_tokens");
  EXPECT_NE(tokens.message.find("'max_tokens' is 7"), std::string::npos) << tokens.message;
  const ApiError reasoning = error(R"("reasoning_effort":"low","thinking_budget":9)");
  EXPECT_EQ(reasoning.code, "conflicting_fields");
  EXPECT_EQ(reasoning.param, "thinking_budget");
}

TEST(CompletionRequest, PromptsOfEveryKind) {
  const auto prompts = [](const std::string& prompt, const std::string& more = "") {
    CompletionRequest r;
    const auto error = parse_completion("{\"prompt\":" + prompt + more + "}", kDefaults, {}, r);
    return error ? std::string("refused ") + error->param : std::to_string(r.prompts.size());
  };
  EXPECT_EQ(prompts(R"("x")"), "1");
  EXPECT_EQ(prompts(R"(["x","y"])"), "2");
  EXPECT_EQ(prompts("[1,2,3]"), "1");
  EXPECT_EQ(prompts("[[1,2],[3]]"), "2");
  EXPECT_EQ(prompts("[[1,-2]]"), "refused prompt");
  EXPECT_EQ(prompts("[1,\"x\"]"), "refused prompt");
  EXPECT_EQ(prompts("[]"), "refused prompt");
  EXPECT_EQ(prompts("{}"), "refused prompt");
  EXPECT_EQ(prompts("\"\""), "refused prompt");
  EXPECT_EQ(prompts(R"(["x",""])"), "refused prompt");
  EXPECT_EQ(prompts("null"), "refused prompt");
  EXPECT_EQ(prompts(R"(["x","y"])", R"(,"n":9)"), "refused n");
  EXPECT_EQ(prompts(R"("x")", R"(,"suffix":"y")"), "refused suffix");
  EXPECT_EQ(prompts(R"("x")", R"(,"best_of":2)"), "refused best_of");
  EXPECT_EQ(prompts(R"("x")", R"(,"best_of":2,"n":2)"), "1");
  EXPECT_EQ(prompts(R"("x")", R"(,"echo":true,"logprobs":1)"), "1");
  EXPECT_EQ(prompts(R"("x")", R"(,"echo":true,"max_tokens":0)"), "1");
  EXPECT_EQ(prompts(R"("x")", R"(,"max_tokens":0)"), "refused max_tokens");
  EXPECT_EQ(prompts(R"("x")", R"(,"max_tokens":-1)"), "1");
  EXPECT_EQ(prompts(R"("x")", R"(,"max_tokens":100000000)"), "1");
}

TEST(TokenRequests, AcceptTextsMessagesAndIds) {
  TokenizeRequest t;
  ASSERT_FALSE(parse_tokenize(R"({"content":"a","add_special":true})", {}, t));
  EXPECT_EQ(t.content, "a");
  EXPECT_TRUE(t.add_special);
  TokenizeRequest m;
  ASSERT_FALSE(parse_tokenize("{" + kHello + "}", {}, m));
  EXPECT_EQ(m.messages.size(), 1U);
  EXPECT_TRUE(parse_tokenize("{}", {}, m));
  DetokenizeRequest d;
  ASSERT_FALSE(parse_detokenize(R"({"tokens":[1,2]})", d));
  EXPECT_EQ(d.tokens, (std::vector<int32_t>{1, 2}));
  EXPECT_TRUE(parse_detokenize(R"({"tokens":[-1]})", d));
  EXPECT_TRUE(parse_detokenize(R"({"tokens":3})", d));
}

TEST(RerankRequest, ReadsDocumentsOfBothForms) {
  RerankRequest r;
  ASSERT_FALSE(parse_rerank(
      R"({"model":"m","query":"q","documents":["a",{"text":"b"}],"top_n":1,"return_documents":false})",
      {}, r));
  EXPECT_EQ(r.query, "q");
  EXPECT_EQ(r.documents, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(r.top, 1);
  EXPECT_FALSE(r.return_documents);
  CohereRerankRequest cohere;
  ASSERT_FALSE(parse_cohere_rerank(
      R"({"query":"q","documents":["a"],"max_tokens_per_doc":5,"priority":0})", {}, cohere));
  EXPECT_EQ(cohere.document_tokens, 5);
  for (const char* body :
       {R"({"query":"q","documents":["a","b","c"]})",
        R"({"query":"q","documents":[{"title":"x"}]})",
        R"({"query":"q","documents":[{"text":"x","title":"y"}]})", R"({"documents":["a"]})",
        R"({"query":"q"})", R"({"query":"q","documents":["a"],"top_n":0})"}) {
    EXPECT_TRUE(parse_rerank(body, {.embeddings = 2}, r)) << body;
  }
}

TEST(ScoreRequest, PairsOneTextOrAsMany) {
  ScoreRequest r;
  ASSERT_FALSE(parse_score(R"({"text_1":"a","text_2":["b","c"]})", {}, r));
  EXPECT_EQ(r.first.size(), 1U);
  EXPECT_EQ(r.second.size(), 2U);
  ASSERT_FALSE(parse_score(R"({"text_1":["a","b"],"text_2":["c","d"]})", {}, r));
  const auto error = parse_score(R"({"text_1":["a","b"],"text_2":"c"})", {}, r);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->param, "text_1");
}

TEST(EmbeddingsRequest, AcceptsTextsAndTokens) {
  EmbeddingsRequest r;
  ASSERT_FALSE(parse_embeddings(
      R"({"model":"m","input":["a","b"],"dimensions":7,"encoding_format":"base64","user":"u"})", {},
      r));
  EXPECT_EQ(r.model, "m");
  EXPECT_EQ(r.inputs.size(), 2U);
  EXPECT_EQ(r.dimensions, 7);
  EXPECT_TRUE(r.base64);
  EmbeddingsRequest ids;
  ASSERT_FALSE(parse_embeddings(R"({"input":[1,2],"encoding_format":"float"})", {}, ids));
  EXPECT_EQ(std::get<std::vector<int32_t>>(ids.inputs.at(0)), (std::vector<int32_t>{1, 2}));
  EXPECT_FALSE(ids.base64);
  const auto refused = [](const std::string& body) {
    EmbeddingsRequest bad;
    const auto error = parse_embeddings(body, {.embeddings = 2}, bad);
    return error ? error->param : "accepted";
  };
  EXPECT_EQ(refused(R"({"input":["a","b"]})"), "accepted");
  EXPECT_EQ(refused(R"({"input":["a","b","c"]})"), "input");
  EXPECT_EQ(refused("{}"), "input");
  EXPECT_EQ(refused(R"({"input":[]})"), "input");
  EXPECT_EQ(refused(R"({"input":[[]]})"), "input");
  EXPECT_EQ(refused(R"({"input":"a","dimensions":0})"), "dimensions");
  EXPECT_EQ(refused(R"({"input":"a","encoding_format":"int8"})"), "encoding_format");
}

TEST(EmbeddingsAndRerankRequests, NoteUnknownFields) {
  const RequestLimits strict{.strict_fields = true};
  const auto check = [&](const char* name, auto parse, auto request) {
    SCOPED_TRACE(name);
    ASSERT_FALSE(parse(RequestLimits(), request));
    EXPECT_EQ(request.notes.ignored, std::vector<std::string>{"later"});
    const auto error = parse(strict, request);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code, "unknown_parameter");
    EXPECT_EQ(error->param, "later");
  };
  constexpr std::string_view kDocuments = R"({"query":"q","documents":["a"],"later":1})";
  check(
      "embeddings",
      [](const auto& limits, auto& out) {
        return parse_embeddings(R"({"input":"a","later":1})", limits, out);
      },
      EmbeddingsRequest());
  check(
      "embed",
      [](const auto& limits, auto& out) {
        return parse_cohere_embed(R"({"texts":["a"],"later":1})", limits, out);
      },
      EmbeddingsRequest());
  check(
      "ollama",
      [](const auto& limits, auto& out) {
        return parse_ollama_embed(R"({"input":"a","later":1})", limits, false, out);
      },
      EmbeddingsRequest());
  check(
      "rerank",
      [&](const auto& limits, auto& out) { return parse_rerank(kDocuments, limits, out); },
      RerankRequest());
  check(
      "cohere",
      [&](const auto& limits, auto& out) { return parse_cohere_rerank(kDocuments, limits, out); },
      CohereRerankRequest());
  check(
      "score",
      [](const auto& limits, auto& out) {
        return parse_score(R"({"text_1":"a","text_2":"b","later":1})", limits, out);
      },
      ScoreRequest());
}

TEST(EngramRequest, TextsNeedAScore) {
  EngramRequest r;
  ASSERT_FALSE(parse_engram(
      R"({"texts":[{"text":"a","score":1},{"text":"b","score":0.25}],"source":"notes"})", {}, r));
  ASSERT_EQ(r.texts.size(), 2U);
  EXPECT_EQ(r.texts[1].text, "b");
  EXPECT_EQ(r.texts[1].score, 0.25);
  EXPECT_EQ(r.source, "notes");
  const auto refused = [](const std::string& body) {
    EngramRequest bad;
    const auto error = parse_engram(body, {.engram_texts = 2}, bad);
    return error ? error->param : "accepted";
  };
  EXPECT_EQ(refused("{}"), "texts");
  EXPECT_EQ(refused(R"({"texts":[]})"), "texts");
  EXPECT_EQ(refused(R"({"texts":["a"]})"), "texts[0]");
  EXPECT_EQ(refused(R"({"texts":[{"text":"a"}]})"), "texts[0].score");
  EXPECT_EQ(refused(R"({"texts":[{"text":"a","score":"1"}]})"), "texts[0].score");
  EXPECT_EQ(refused(R"({"texts":[{"text":"a","score":1.5}]})"), "texts[0].score");
  EXPECT_EQ(refused(R"({"texts":[{"text":"a","score":1},{"score":1}]})"), "texts[1].text");
  EXPECT_EQ(refused(R"({"texts":[{"text":"a","score":1,"x":1}]})"), "texts[0].x");
  EXPECT_EQ(refused(R"({"texts":[{"text":"a","score":1},{"text":"a","score":1},{}]})"), "texts");
  EXPECT_EQ(refused(R"({"texts":[{"text":"a","score":1}],"table":"x"})"), "table");
}

TEST(ChatRequest, NamesEngramTables) {
  ChatRequest r;
  ASSERT_FALSE(parse_chat("{" + kHello + R"(,"engram":["a","b"]})", kDefaults, {}, r));
  EXPECT_EQ(r.engram, (std::vector<std::string>{"a", "b"}));
  for (const char* bad : {"\"a\"", "[1]", R"(["a","b","c"])"}) {
    const auto error =
        parse_chat("{" + kHello + ",\"engram\":" + bad + "}", kDefaults, {.engrams = 2}, r);
    ASSERT_TRUE(error) << bad;
    EXPECT_EQ(error->param, "engram");
  }
}

TEST(Json, HostileBodiesAreErrors) {
  const std::string deep = std::string(100'000, '[');
  const std::string long_list = "[" + std::string(3'000'000, ',') + "]";
  for (const std::string& body :
       {std::string(), std::string(" \n"), std::string("{"), std::string("[]"), std::string("3"),
        std::string("{\"a\":1e999}"), std::string("{\"a\":\"\xFF\"}"),
        std::string("{\"a\":\"\\ud80\"}"), std::string("{} {}"), std::string("\0{}", 3),
        "{\"a\":" + deep, "{\"a\":" + long_list + "}"}) {
    ChatRequest r;
    const auto error = parse_chat(body, kDefaults, {}, r);
    ASSERT_TRUE(error) << body.substr(0, 20);
    EXPECT_EQ(error->code, "invalid_json") << body.substr(0, 20);
  }
}

TEST(Json, HalvesOfSurrogatePairsAreReplaced) {
  const std::pair<const char*, const char*> cases[] = {
      {R"(a \ud83d)", "a \xEF\xBF\xBD"},
      {R"(\ude00\uD83d b)", "\xEF\xBF\xBD\xEF\xBF\xBD b"},
      {R"(\ud83d\ud83d\ude00)", "\xEF\xBF\xBD\xF0\x9F\x98\x80"},
      {R"(\\ud83d \\\ud83d)", "\\ud83d \\\xEF\xBF\xBD"},
      {R"(\ud83d\ude00 \u00e9)", "\xF0\x9F\x98\x80 \xC3\xA9"},
  };
  for (const auto& [written, text] : cases) {
    ChatRequest r;
    const auto error =
        parse_chat(R"({"messages":[{"role":"user","content":")" + std::string(written) + "\"}]}",
                   kDefaults, {}, r);
    ASSERT_FALSE(error) << written << ": " << error->message;
    EXPECT_EQ(r.messages[0].content, text) << written;
  }
}

TEST(Json, AnObjectHasEachNameOnce) {
  const std::pair<std::string, const char*> cases[] = {
      {"{" + kHello + R"(,"temperature":0,"temperature":1})", "temperature"},
      {"{" + kHello + R"(,"temp\u0065rature":0,"temperature":1})", "temperature"},
      {"{" + kHello + "," + kHello + "}", "messages"},
      {R"({"messages":[{"role":"user","content":"a"},{"role":"user","role":"user","content":"b"}]})",
       "messages[1].role"},
      {"{" + kHello + R"(,"logit_bias":{"5":1,"5":2}})", "logit_bias.5"},
      {"{" + kHello + R"(,"x":[[],[0,{"a":{},"a":1}]]})", "x[1][1].a"},
  };
  for (const auto& [body, param] : cases) {
    ChatRequest r;
    const auto error = parse_chat(body, kDefaults, {}, r);
    ASSERT_TRUE(error) << body;
    EXPECT_EQ(error->status(), 400);
    EXPECT_EQ(error->code, "duplicate_field") << body;
    EXPECT_EQ(error->param, param) << body;
  }
  ChatRequest r;
  // Names of two objects.
  EXPECT_FALSE(chat(R"("metadata":{"a":"1"},"chat_template_kwargs":{"a":{"a":1}})", r));
}

}  // namespace
}  // namespace chimere::protocol
