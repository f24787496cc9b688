#include "protocol/responses.h"

#include <gtest/gtest.h>

#include "protocol/api_error.h"
#include "protocol/json_text.h"
#include "protocol/rerank.h"

namespace chimere::protocol {
namespace {

const ResponseHead kHead{"chatcmpl-1", 17, "mini", "fp"};

TEST(Responses, IncompleteCharactersBecomeReplacementsAndKeepTheirBytes) {
  Choice choice;
  choice.content = "x\xC3";
  choice.finish_reason = "length";
  choice.has_logprobs = true;
  choice.logprobs = {{{"\xC3", -0.5F}, {{"\xC3", -0.5F}, {"y", -2}}}};
  const Json response = Json::parse(chat_response(kHead, {{choice}}, {5, 2, 4, 0}));
  EXPECT_EQ(response["object"], "chat.completion");
  const Json& choice_json = response["choices"][0];
  EXPECT_EQ(choice_json["message"]["content"], "x\xEF\xBF\xBD");
  EXPECT_FALSE(choice_json["message"].contains("reasoning_content"));
  EXPECT_EQ(choice_json["logprobs"]["content"][0]["bytes"], Json::array({0xC3}));
  EXPECT_EQ(choice_json["logprobs"]["content"][0]["top_logprobs"][1]["token"], "y");
  EXPECT_EQ(response["usage"]["total_tokens"], 7);
  EXPECT_EQ(response["usage"]["prompt_tokens_details"]["cached_tokens"], 4);
}

TEST(Responses, ChunksCarryOnlyWhatIsNew) {
  Choice piece;
  piece.reasoning = "hm";
  const Json first = Json::parse(chat_chunk(kHead, piece, true));
  EXPECT_EQ(first["choices"][0]["delta"], Json({{"reasoning_content", "hm"}}));
  EXPECT_TRUE(first["choices"][0]["finish_reason"].is_null());
  EXPECT_TRUE(first.at("usage").is_null());
  const Json plain = Json::parse(chat_chunk(kHead, piece, false));
  EXPECT_FALSE(plain.contains("usage"));
  const Json last = Json::parse(chat_usage_chunk(kHead, {1, 2, 0, 1}));
  EXPECT_EQ(last["choices"], Json::array());
  EXPECT_EQ(last["usage"]["completion_tokens_details"]["reasoning_tokens"], 1);
}

TEST(Responses, PlainTextHasTheSameChunks) {
  // A head that contains the marker of the content.
  const ResponseHead head{"\x01", 17, "mi\x01ni\"", "f\\p"};
  for (const char* text : {"lo", "a \"b\"\n\\", "\x01", "gr\xC3\xBC\xC3\x9F", "x\xC3"}) {
    for (const bool null_usage : {false, true}) {
      Choice piece;
      piece.index = 3;
      piece.content = text;
      EXPECT_EQ(TextChunks(head, true, 3, null_usage).chunk(text),
                chat_chunk(head, piece, null_usage));
      EXPECT_EQ(TextChunks(head, false, 3, null_usage).chunk(text),
                completion_chunk(head, piece, null_usage));
    }
  }
}

TEST(Responses, CallsOfTools) {
  Choice choice;
  choice.finish_reason = "tool_calls";
  choice.tool_calls = {{0, "call_1", "f", R"({"a":"\u00fc"})"}, {1, "call_2", "g", "{}"}};
  const Json whole = Json::parse(chat_response(kHead, {{choice}}, {}))["choices"][0];
  EXPECT_TRUE(whole["message"]["content"].is_null());
  EXPECT_EQ(whole["finish_reason"], "tool_calls");
  EXPECT_EQ(whole["message"]["tool_calls"],
            Json::parse(R"([{"id":"call_1","type":"function","function":{"name":"f",
                "arguments":"{\"a\":\"\\u00fc\"}"}},
                {"id":"call_2","type":"function","function":{"name":"g","arguments":"{}"}}])"));
  choice.content = "text";
  EXPECT_EQ(Json::parse(chat_response(kHead, {{choice}}, {}))["choices"][0]["message"]["content"],
            "text");

  Choice begin;
  begin.tool_calls = {{1, "call_2", "g", ""}};
  EXPECT_EQ(Json::parse(chat_chunk(kHead, begin, false))["choices"][0]["delta"],
            Json::parse(R"({"tool_calls":[{"index":1,"id":"call_2","type":"function",
                "function":{"name":"g","arguments":""}}]})"));
  Choice more;
  more.tool_calls = {{1, "", "", "{\"a"}};
  EXPECT_EQ(Json::parse(chat_chunk(kHead, more, false))["choices"][0]["delta"],
            Json::parse(R"({"tool_calls":[{"index":1,"function":{"arguments":"{\"a"}}]})"));
}

TEST(Responses, UsageReportsDrafts) {
  const Json usage = Json::parse(chat_usage_chunk(kHead, {1, 9, 0, 1, 4, 2}))["usage"];
  EXPECT_EQ(usage["completion_tokens_details"]["accepted_prediction_tokens"], 4);
  EXPECT_EQ(usage["completion_tokens_details"]["rejected_prediction_tokens"], 2);
}

TEST(Responses, AFullQueueAndFullMemoryDiffer) {
  const Error full{Error::Code::kOutOfMemory, "Full."};
  EXPECT_EQ(from_submit(full).status(), 429);
  EXPECT_EQ(from_submit(full).code, "queue_full");
  EXPECT_EQ(from_engine(full).status(), 503);
  EXPECT_EQ(from_engine(full).code, "out_of_memory");
  EXPECT_GT(from_engine(full).retry_after, 0);
  EXPECT_EQ(from_engram(full).status(), 507);
  EXPECT_EQ(from_engram({Error::Code::kNotFound, "No."}).status(), 404);
  for (const auto code :
       {Error::Code::kInvalidArgument, Error::Code::kCancelled, Error::Code::kIo}) {
    EXPECT_EQ(from_submit({code, "x"}).status(), from_engine({code, "x"}).status());
    EXPECT_EQ(from_engram({code, "x"}).status(), from_engine({code, "x"}).status());
  }
}

TEST(Responses, CompletionOffsetsContinue) {
  Choice piece;
  piece.content = "lo!";
  piece.text_offset = 3;
  piece.has_logprobs = true;
  piece.logprobs = {{{"lo", -1}, {}}, {{"!", -2}, {}}};
  const Json chunk = Json::parse(completion_chunk(kHead, piece, false));
  EXPECT_EQ(chunk["choices"][0]["logprobs"]["text_offset"], Json::array({3, 5}));
}

TEST(Responses, AnErrorNamesTheField) {
  const Json error = Json::parse(error_body(bad_field("No.", "n")))["error"];
  EXPECT_EQ(error["param"], "n");
  EXPECT_EQ(error["type"], "invalid_request_error");
  const Json other = Json::parse(error_body({"queue_full", "Later.", "", 1}))["error"];
  EXPECT_EQ(other["type"], "rate_limit_error");
  EXPECT_EQ(other["code"], "queue_full");
  EXPECT_TRUE(other["param"].is_null());
}

TEST(RerankResponse, HasTheShapesOfJinaCohereAndVllm) {
  const std::string text = "a\"b";
  const RankedDocument ranked[] = {{2, 0.5, &text}, {0, 0.25, nullptr}};
  EXPECT_EQ(
      rerank_response("m", ranked, 7),
      R"({"model":"m","object":"list","usage":{"prompt_tokens":7,"total_tokens":7},"results":)"
      R"([{"index":2,"relevance_score":0.5,"document":{"text":"a\"b"}},)"
      R"({"index":0,"relevance_score":0.25}]})");
  EXPECT_EQ(cohere_rerank_response("r-1", ranked),
            R"({"id":"r-1","results":[{"index":2,"relevance_score":0.5},)"
            R"({"index":0,"relevance_score":0.25}],)"
            R"("meta":{"api_version":{"version":"2"},"billed_units":{"search_units":1}}})");
  const double scores[] = {0.5, 1};
  EXPECT_EQ(
      score_response("s-1", "m", 17, scores, 3),
      R"({"id":"s-1","object":"list","created":17,"model":"m","data":)"
      R"([{"index":0,"object":"score","score":0.5},{"index":1,"object":"score","score":1.0}],)"
      R"("usage":{"prompt_tokens":3,"total_tokens":3}})");
}

TEST(EmbeddingsResponse, NumbersAndBase64) {
  const std::vector<std::vector<float>> vectors = {{0.5F, -1, 0.1F}, {}};
  EXPECT_EQ(embeddings_response("a\"b", vectors, false, 3),
            R"({"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5,-1,0.1]},)"
            R"({"object":"embedding","index":1,"embedding":[]}],"model":"a\"b",)"
            R"("usage":{"prompt_tokens":3,"total_tokens":3}})");
  // 12, 4 and 8 bytes: zero, two and one character of padding.
  const auto packed = [](const std::vector<float>& v) {
    const std::string response = embeddings_response("m", {&v, 1}, true, 1);
    const size_t begin = response.find("\"embedding\":\"") + 13;
    return response.substr(begin, response.find('"', begin) - begin);
  };
  EXPECT_EQ(packed({0.5F, -1, 0.1F}), "AAAAPwAAgL/NzMw9");
  EXPECT_EQ(packed({0.5F}), "AAAAPw==");
  EXPECT_EQ(packed({0.5F, -1}), "AAAAPwAAgL8=");
}

}  // namespace
}  // namespace chimere::protocol
