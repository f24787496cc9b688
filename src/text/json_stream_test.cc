#include "text/json_stream.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "base/fresh_seed.h"

namespace chimere::text {
namespace {

/// Whether the whole text is one value with nothing behind it but white space.
bool stream_accepts(const std::string& text) {
  JsonStream json;
  for (size_t i = 0; i < text.size(); ++i) {
    const JsonStream::Step step = json.push(text[i]);
    if (step == JsonStream::Step::kError) return false;
    if (step == JsonStream::Step::kMore) continue;
    const size_t rest = step == JsonStream::Step::kDone ? i + 1 : i;
    return text.find_first_not_of(" \t\r\n", rest) == std::string::npos;
  }
  return json.may_end();
}

TEST(JsonStream, EqualsAParserOnDamagedDocuments) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const std::string documents[] = {
      R"({"a": [1, -2.5e+3, 0, true, false, null, "x\"\\\u00e9\n"], "b": {}, "c": []})",
      R"([[], {}, [{"k": "v"}], -0.0, 1E5, "", 12])",
      R"("text")",
      "-12.50",
      " [ 1 , 2 ] ",
      "null",
  };
  const std::string bytes = "{}[]\",:\\ \n0123456789.eE+-truefalsnu/ax";
  int valid = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text = documents[random() % std::size(documents)];
    for (size_t n = random() % 3; n > 0; --n) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text.erase(at, 1);
          break;
        case 1:
          text.insert(at, 1, bytes[random() % bytes.size()]);
          break;
        default:
          text[at] = bytes[random() % bytes.size()];
      }
      if (text.empty()) text = " ";
    }
    bool expected = true;
    try {
      expected = !nlohmann::json::parse(text).is_discarded();
    } catch (const nlohmann::json::parse_error&) {
      expected = false;
    } catch (const nlohmann::json::out_of_range&) {
      continue;  // a number that no f64 can hold
    }
    EXPECT_EQ(stream_accepts(text), expected) << text;
    valid += expected ? 1 : 0;
  }
  EXPECT_GT(valid, 1'000);
}

TEST(JsonStream, NestsDeeply) {
  constexpr size_t kDepth = 100'000;
  EXPECT_TRUE(stream_accepts(std::string(kDepth, '[') + std::string(kDepth, ']')));
}

}  // namespace
}  // namespace chimere::text
