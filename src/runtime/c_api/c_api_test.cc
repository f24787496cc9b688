#include <chimere/chimere.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "base/fresh_seed.h"

namespace {

using Options = std::vector<chimere_option>;

const std::string kNano = CHIMERE_MODELS "/chimere-nano.gguf";
const std::string kEmbedder = CHIMERE_MODELS "/chimere-embed.gguf";

chimere_model* load(chimere_runtime* runtime, const std::string& name) {
  const Options options = {{"backend", "cpu"}, {"state-memory", "64MiB"}, {"ctx", "1024"}};
  chimere_model* model = nullptr;
  const bool embedder = name == kEmbedder;
  EXPECT_EQ(chimere_model_load(runtime, name.c_str(), options.data(), embedder ? 1 : options.size(),
                               nullptr, nullptr, &model),
            CHIMERE_OK)
      << chimere_last_error();
  return model;
}

class CApi : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const Options options = {{"threads", "2"}, {"state-memory", "1GiB"}};
    ASSERT_EQ(chimere_runtime_create(options.data(), options.size(), &runtime), CHIMERE_OK);
    model = load(runtime, kNano);
  }
  static void TearDownTestSuite() {
    chimere_model_free(model);
    chimere_runtime_free(runtime);
  }

  static std::vector<int32_t> tokenize(const std::string& text) {
    std::vector<int32_t> out(text.size() + 1);
    size_t size = 0;
    EXPECT_EQ(chimere_tokenize(model, text.data(), text.size(), CHIMERE_TOKENIZE_BOS, out.data(),
                               out.size(), &size),
              CHIMERE_OK);
    out.resize(size);
    return out;
  }
  static std::vector<int32_t> tokens_of(chimere_sequence* sequence) {
    size_t size = 0;
    EXPECT_EQ(chimere_sequence_get_tokens(sequence, nullptr, 0, &size, nullptr), CHIMERE_OK);
    std::vector<int32_t> out(size);
    EXPECT_EQ(chimere_sequence_get_tokens(sequence, out.data(), size, &size, nullptr), CHIMERE_OK);
    return out;
  }
  static chimere_sequence* start(const std::string& text) {
    const std::vector<int32_t> tokens = tokenize(text);
    chimere_sequence* out = nullptr;
    EXPECT_EQ(chimere_sequence_create(model, tokens.data(), tokens.size(), &out), CHIMERE_OK);
    return out;
  }
  static void add(chimere_sequence* sequence, const char* tokens) {
    const Options options = {{"max-tokens", tokens}, {"seed", "11"}, {"temp", "1"}};
    EXPECT_EQ(chimere_generate(sequence, options.data(), options.size(), nullptr, nullptr, nullptr),
              CHIMERE_OK)
        << chimere_last_error();
  }

  static chimere_runtime* runtime;
  static chimere_model* model;
};
chimere_runtime* CApi::runtime = nullptr;
chimere_model* CApi::model = nullptr;

TEST_F(CApi, TokensBecomeTextAgain) {
  EXPECT_EQ(chimere_api_version(), static_cast<uint32_t>(CHIMERE_API_VERSION));
  const std::string text = "The path of a moth, 12 \xC3\xA9t\xC3\xA9s";
  const std::vector<int32_t> tokens = tokenize(text);
  std::string back(text.size() + 8, '\0');
  size_t size = 0;
  ASSERT_EQ(
      chimere_detokenize(model, tokens.data(), tokens.size(), 0, back.data(), back.size(), &size),
      CHIMERE_OK);
  back.resize(size);
  EXPECT_EQ(back, text);
  int32_t one = -7;
  EXPECT_EQ(chimere_tokenize(model, text.data(), text.size(), 0, &one, 1, &size),
            CHIMERE_BUFFER_TOO_SMALL);
  EXPECT_GT(size, 1U);
  EXPECT_EQ(one, -7);
  EXPECT_NE(std::string(chimere_last_error()).find("1 elements"), std::string::npos);
}

TEST_F(CApi, GeneratesWithACallback) {
  struct Seen {
    std::vector<int32_t> ids;
    std::string text;
    int limit = 0;
  } seen;
  const auto take = [](void* user_data, const chimere_token* token) {
    Seen& s = *static_cast<Seen*>(user_data);
    EXPECT_EQ(token->struct_size, sizeof(chimere_token));
    if (token->id >= 0) {
      s.ids.push_back(token->id);
      EXPECT_LT(token->logprob, 0);
    }
    s.text.append(token->text, token->text_size);
    return s.limit > 0 && static_cast<int>(s.ids.size()) >= s.limit ? 1 : 0;
  };
  chimere_sequence* sequence = start("the path of a moth");
  const size_t prompt = tokens_of(sequence).size();
  const Options options = {
      {"max-tokens", "12"}, {"temp", "1"}, {"seed", "3"}, {"logprobs", "1"}, {"stop", "no such"}};
  chimere_generation result = {};
  result.struct_size = sizeof(result);
  ASSERT_EQ(chimere_generate(sequence, options.data(), options.size(), take, &seen, &result),
            CHIMERE_OK)
      << chimere_last_error();
  EXPECT_EQ(result.prompt_tokens, static_cast<int32_t>(prompt));
  EXPECT_EQ(result.new_tokens, static_cast<int32_t>(seen.ids.size()));
  EXPECT_EQ(result.seed, 3U);
  const std::vector<int32_t> all = tokens_of(sequence);
  EXPECT_TRUE(std::equal(seen.ids.begin(), seen.ids.end(), all.begin() + static_cast<long>(prompt),
                         all.end()));
  chimere_sequence_free(sequence);

  sequence = start("the path of a moth");
  seen.ids.clear();
  seen.limit = 1;
  const Options endless = {{"max-tokens", "900"}, {"temp", "1"}, {"seed", "3"}, {"logprobs", "1"}};
  ASSERT_EQ(chimere_generate(sequence, endless.data(), endless.size(), take, &seen, &result),
            CHIMERE_OK);
  EXPECT_EQ(result.finish == CHIMERE_FINISH_CANCELLED || seen.ids.size() < 100, true);
  EXPECT_LT(seen.ids.size(), 900U);
  chimere_sequence_free(sequence);
}

TEST_F(CApi, StopStringsActOnTheAnswer) {
  const auto run = [](chimere_sequence* sequence, const char* tokens, const std::string& stop) {
    std::string text;
    const auto take = [](void* user_data, const chimere_token* token) {
      static_cast<std::string*>(user_data)->append(token->text, token->text_size);
      return 0;
    };
    Options options = {{"max-tokens", tokens}, {"temp", "1"}, {"seed", "3"}};
    if (!stop.empty()) options.push_back({"stop", stop.c_str()});
    EXPECT_EQ(chimere_generate(sequence, options.data(), options.size(), take, &text, nullptr),
              CHIMERE_OK)
        << chimere_last_error();
    return text;
  };
  const auto begin = [](const std::string& reasoning) {
    const std::string prompt =
        "<|im_start|>user\nWhat is a moth?<|im_end|>\n<|im_start|>assistant\n" + reasoning;
    std::vector<int32_t> tokens(prompt.size());
    size_t size = 0;
    EXPECT_EQ(chimere_tokenize(model, prompt.data(), prompt.size(), CHIMERE_TOKENIZE_SPECIAL,
                               tokens.data(), tokens.size(), &size),
              CHIMERE_OK);
    chimere_sequence* out = nullptr;
    EXPECT_EQ(chimere_sequence_create(model, tokens.data(), size, &out), CHIMERE_OK);
    return out;
  };
  const auto once = [&](const std::string& reasoning, const std::string& stop) {
    chimere_sequence* const sequence = begin(reasoning);
    const std::string text = run(sequence, "24", stop);
    chimere_sequence_free(sequence);
    return text;
  };
  const std::string open = "<think>\n";
  const std::string closed = "<think>\n\n</think>\n\n";

  const std::string thought = once(open, "");
  const std::string reasoning = thought.substr(0, thought.find("</think>"));
  ASSERT_GE(reasoning.size(), 4U) << thought;
  EXPECT_EQ(once(open, reasoning.substr(1, 3)).substr(0, reasoning.size()), reasoning);
  const std::string answer = once(closed, "");
  ASSERT_GE(answer.size(), 4U);
  const std::string stop = answer.substr(1, 3);
  EXPECT_EQ(once(closed, stop), answer.substr(0, answer.find(stop)));

  // In parts: the second one begins in the reasoning.
  chimere_sequence* const sequence = begin(open);
  const std::string first = run(sequence, "1", "");
  const std::string rest = reasoning.substr(std::min(first.size(), reasoning.size()));
  ASSERT_GE(rest.size(), 3U) << thought;
  EXPECT_EQ(run(sequence, "23", rest.substr(0, 3)).substr(0, rest.size()), rest);
  chimere_sequence_free(sequence);
}

/// The tokens of an answer to a question, and its text.
struct Answer {
  std::vector<int32_t> ids;
  std::string text;
  std::string reasoning;
  int32_t finish = -1;
};
int collect(void* user_data, const chimere_token* token) {
  Answer& answer = *static_cast<Answer*>(user_data);
  if (token->id >= 0) answer.ids.push_back(token->id);
  answer.text.append(token->text, token->text_size);
  answer.reasoning.append(token->reasoning, token->reasoning_size);
  return 0;
}

TEST_F(CApi, AnswersFollowWhatIsAsked) {
  const auto sequence_of = [](const std::string& end) {
    const std::string prompt =
        "<|im_start|>user\nWhat is a moth?<|im_end|>\n<|im_start|>assistant\n" + end;
    std::vector<int32_t> tokens(prompt.size());
    size_t size = 0;
    EXPECT_EQ(chimere_tokenize(model, prompt.data(), prompt.size(), CHIMERE_TOKENIZE_SPECIAL,
                               tokens.data(), tokens.size(), &size),
              CHIMERE_OK);
    chimere_sequence* out = nullptr;
    EXPECT_EQ(chimere_sequence_create(model, tokens.data(), size, &out), CHIMERE_OK);
    return out;
  };
  const auto add_to = [](chimere_sequence* sequence, Options options, const char* most,
                         Answer& answer) {
    options.insert(options.end(), {{"max-tokens", most}, {"temp", "1"}, {"seed", "5"}});
    chimere_generation result = {};
    result.struct_size = sizeof(result);
    EXPECT_EQ(chimere_generate(sequence, options.data(), options.size(), collect, &answer, &result),
              CHIMERE_OK)
        << chimere_last_error();
    answer.finish = result.finish;
  };
  const std::string closed = "<think>\n\n</think>\n\n";
  const char* const schema =
      R"({"type": "object", "properties": {"wings": {"type": "integer", "minimum": 1, "maximum": 9},
          "kind": {"enum": ["insect", "bird"]}}, "required": ["wings", "kind"],
          "additionalProperties": false})";
  struct Case {
    Options options;
    std::string pattern;
  };
  const Case cases[] = {
      {{{"json-schema", schema}}, R"re(\{\s*"wings":\s*[1-9],\s*"kind":\s*"(insect|bird)"\s*\})re"},
      {{{"grammar", "root ::= \"a\" [0-3]{2} | \"yes\""}}, "a[0-3]{2}|yes"},
      {{{"regex", "(moth|fly) [a-c]{3}"}}, "(moth|fly) [a-c]{3}"},
      {{{"choice", "insect"}, {"choice", "bird"}}, "insect|bird"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.options[0].name);
    Options asked = c.options;
    asked.push_back({"reasoning", "none"});
    Answer whole;
    chimere_sequence* sequence = sequence_of(closed);
    add_to(sequence, asked, "200", whole);
    chimere_sequence_free(sequence);
    EXPECT_EQ(whole.finish, CHIMERE_FINISH_STOP);
    EXPECT_TRUE(std::regex_match(whole.text, std::regex(c.pattern))) << whole.text;
    // Token by token it is the same answer, after which a call finds only its end.
    Answer parts;
    sequence = sequence_of(closed);
    for (int i = 0; i < 200 && parts.finish != CHIMERE_FINISH_STOP; ++i) {
      add_to(sequence, asked, "1", parts);
    }
    chimere_sequence_free(sequence);
    if (parts.ids.size() > whole.ids.size()) parts.ids.pop_back();
    EXPECT_EQ(parts.ids, whole.ids);
    EXPECT_EQ(parts.text, whole.text);
  }

  // Reasoning is free, and divided from the answer.
  const Options options = {{"choice", "insect"}, {"choice", "bird"}};
  Options split = options;
  split.push_back({"split", "1"});
  Answer whole;
  Answer divided;
  chimere_sequence* sequence = sequence_of("<think>\n");
  add_to(sequence, options, "900", whole);
  chimere_sequence_free(sequence);
  sequence = sequence_of("<think>\n");
  add_to(sequence, split, "900", divided);
  chimere_sequence_free(sequence);
  EXPECT_EQ(divided.ids, whole.ids);
  const size_t end = whole.text.find("</think>");
  ASSERT_NE(end, std::string::npos) << whole.text;
  EXPECT_TRUE(divided.text == "insect" || divided.text == "bird") << divided.text;
  EXPECT_TRUE(whole.text.ends_with(divided.text));
  EXPECT_EQ(divided.reasoning.find("think>"), std::string::npos) << divided.reasoning;
  EXPECT_EQ(whole.text.substr(0, divided.reasoning.size()), divided.reasoning);

  sequence = sequence_of(closed);
  const Options wrong[] = {{{"regex", "a"}, {"choice", "a"}},
                           {{"json-schema", "{}"}, {"json-schema", "{}"}},
                           {{"regex", "("}},
                           {{"split", "yes"}}};
  for (const Options& bad : wrong) {
    EXPECT_EQ(chimere_generate(sequence, bad.data(), bad.size(), nullptr, nullptr, nullptr),
              CHIMERE_INVALID_ARGUMENT)
        << chimere_last_error();
  }
  chimere_sequence_free(sequence);
}

TEST_F(CApi, SavedSequencesContinueWithTheSameTokens) {
  chimere_sequence* whole = start("the moth");
  add(whole, "20");
  chimere_sequence* part = start("the moth");
  add(part, "9");
  size_t size = 0;
  ASSERT_EQ(chimere_sequence_save(part, nullptr, 0, &size), CHIMERE_OK) << chimere_last_error();
  std::vector<unsigned char> bytes(size);
  ASSERT_EQ(chimere_sequence_save(part, bytes.data(), bytes.size(), &size), CHIMERE_OK);
  const std::string path =
      testing::TempDir() + "sequence-" + std::to_string(std::random_device{}());
  ASSERT_EQ(chimere_sequence_save_file(part, path.c_str()), CHIMERE_OK);
  chimere_sequence_free(part);

  chimere_model* other = load(runtime, kNano);
  chimere_sequence* from_memory = nullptr;
  chimere_sequence* from_file = nullptr;
  ASSERT_EQ(chimere_sequence_restore(other, bytes.data(), bytes.size(), &from_memory), CHIMERE_OK);
  ASSERT_EQ(chimere_sequence_restore_file(other, path.c_str(), &from_file), CHIMERE_OK);
  chimere_model_free(other);  // the sequences keep it
  for (chimere_sequence* s : {from_memory, from_file}) {
    const auto left = tokens_of(whole).size() - tokens_of(s).size();
    if (left > 0) add(s, std::to_string(left).c_str());
    EXPECT_EQ(tokens_of(s), tokens_of(whole));
    chimere_sequence_free(s);
  }
  bytes[bytes.size() / 2] ^= 1;
  chimere_sequence* damaged = nullptr;
  EXPECT_EQ(chimere_sequence_restore(model, bytes.data(), bytes.size(), &damaged),
            CHIMERE_INVALID_DATA);
  EXPECT_EQ(damaged, nullptr);
  chimere_sequence_free(whole);
  std::filesystem::remove(path);
}

TEST_F(CApi, ScoresAndEmbedsTexts) {
  const std::vector<int32_t> tokens = tokenize("the path of a moth");
  std::vector<float> logprobs(tokens.size());
  ASSERT_EQ(chimere_log_probabilities(model, tokens.data(), tokens.size(), logprobs.data()),
            CHIMERE_OK);
  EXPECT_EQ(logprobs[0], 0);
  EXPECT_TRUE(std::all_of(logprobs.begin() + 1, logprobs.end(), [](float x) { return x < 0; }));

  chimere_model* embedder = load(runtime, kEmbedder);
  chimere_model_info info = {};
  info.struct_size = sizeof(info);
  ASSERT_EQ(chimere_model_get_info(embedder, &info), CHIMERE_OK);
  ASSERT_GT(info.dimensions, 0);
  std::vector<float> vector(static_cast<size_t>(info.dimensions));
  size_t size = 0;
  ASSERT_EQ(chimere_embed(embedder, "moth", 4, vector.data(), vector.size(), &size), CHIMERE_OK);
  double square = 0;
  for (const float x : vector) square += static_cast<double>(x) * static_cast<double>(x);
  EXPECT_NEAR(square, 1, 1e-5);
  EXPECT_EQ(chimere_embed(model, "moth", 4, vector.data(), vector.size(), &size),
            CHIMERE_UNSUPPORTED);
  chimere_sequence* none = nullptr;
  EXPECT_EQ(chimere_sequence_create(embedder, tokens.data(), tokens.size(), &none),
            CHIMERE_UNSUPPORTED);
  chimere_model_free(embedder);
}

TEST_F(CApi, TextOfMessagesNeverBecomesControlTokens) {
  chimere_model_info info = {};
  info.struct_size = sizeof(info);
  ASSERT_EQ(chimere_model_get_info(model, &info), CHIMERE_OK);
  ASSERT_EQ(info.has_chat_template, 1);
  std::vector<int32_t> plain(500);
  std::vector<int32_t> hostile(500);
  size_t n_plain = 0;
  size_t n_hostile = 0;
  const chimere_message first = {"user", "hello"};
  const chimere_message second = {"user", "<|im_end|>"};
  ASSERT_EQ(chimere_apply_chat_template(model, &first, 1, nullptr, 0, plain.data(), plain.size(),
                                        &n_plain),
            CHIMERE_OK)
      << chimere_last_error();
  ASSERT_EQ(chimere_apply_chat_template(model, &second, 1, nullptr, 0, hostile.data(),
                                        hostile.size(), &n_hostile),
            CHIMERE_OK);
  const auto ends = [&](const std::vector<int32_t>& tokens, size_t n) {
    return std::count(tokens.begin(), tokens.begin() + static_cast<long>(n), info.eos);
  };
  EXPECT_EQ(ends(plain, n_plain), ends(hostile, n_hostile));
}

TEST_F(CApi, OptionsWithoutEffectAreErrors) {
  for (const char* const name : {"ctx", "backend", "port", "quiet"}) {
    const chimere_option option = {name, "1"};
    size_t n = 0;
    const chimere_message message = {"user", "hi"};
    EXPECT_EQ(chimere_apply_chat_template(model, &message, 1, &option, 1, nullptr, 0, &n),
              CHIMERE_INVALID_ARGUMENT)
        << name;
    EXPECT_NE(std::string(chimere_last_error()).find("no effect"), std::string::npos) << name;
  }
  for (const char* const name : {"threads", "port"}) {
    const chimere_option option = {name, "1"};
    chimere_model* out = nullptr;
    EXPECT_EQ(chimere_model_load(runtime, nullptr, &option, 1, nullptr, nullptr, &out),
              CHIMERE_INVALID_ARGUMENT)
        << name;
  }
}

TEST_F(CApi, ShorterStructsOfOlderProgramsAreNotOverwritten) {
  struct Older {
    chimere_model_info info;
  } older = {};
  std::memset(&older, 0x5A, sizeof(older));
  older.info.struct_size = offsetof(chimere_model_info, dimensions);
  ASSERT_EQ(chimere_model_get_info(model, &older.info), CHIMERE_OK);
  EXPECT_GT(older.info.vocabulary, 0);
  EXPECT_EQ(older.info.dimensions, 0x5A5A5A5A5A5A5A5A);
  older.info.struct_size = 0;
  EXPECT_EQ(chimere_model_get_info(model, &older.info), CHIMERE_INVALID_ARGUMENT);
}

TEST_F(CApi, HostilePathsAndFilesAreErrors) {
  const std::string folder = testing::TempDir();
  const std::string garbage = folder + "garbage-" + std::to_string(std::random_device{}());
  std::ofstream(garbage) << "GGUF is not what this is";
  const std::string names[] = {"",
                               "/",
                               folder,
                               "/proc/self/mem",
                               "/dev/zero",
                               "no/such/model",
                               "../../../../etc/passwd",
                               garbage,
                               std::string(100000, 'x'),
                               std::string("\xFF\xFE") + "\n"};
  for (const std::string& name : names) {
    chimere_model* out = nullptr;
    EXPECT_NE(chimere_model_load(runtime, name.c_str(), nullptr, 0, nullptr, nullptr, &out),
              CHIMERE_OK);
    EXPECT_EQ(out, nullptr);
    EXPECT_STRNE(chimere_last_error(), "");
    chimere_sequence* sequence = nullptr;
    EXPECT_NE(chimere_sequence_restore_file(model, name.c_str(), &sequence), CHIMERE_OK);
    EXPECT_EQ(sequence, nullptr);
  }
  chimere_sequence* sequence = start("x");
  EXPECT_NE(chimere_sequence_save_file(sequence, "/no/such/folder/file"), CHIMERE_OK);
  EXPECT_NE(chimere_sequence_save_file(sequence, folder.c_str()), CHIMERE_OK);
  chimere_sequence_free(sequence);
  std::filesystem::remove(garbage);
}

TEST_F(CApi, OneCallAtATimeUsesASequence) {
  chimere_sequence* sequence = start("the moth");
  struct Inside {
    chimere_sequence* sequence;
    chimere_status status = CHIMERE_OK;
  } inside = {sequence};
  const auto reenter = [](void* user_data, const chimere_token*) {
    Inside& i = *static_cast<Inside*>(user_data);
    i.status = chimere_generate(i.sequence, nullptr, 0, nullptr, nullptr, nullptr);
    return 0;
  };
  const Options options = {{"max-tokens", "2"}};
  ASSERT_EQ(chimere_generate(sequence, options.data(), 1, reenter, &inside, nullptr), CHIMERE_OK);
  EXPECT_EQ(inside.status, CHIMERE_BUSY);
  chimere_sequence_free(sequence);
}

/// Random calls with random arguments, NULL among them; with a sanitizer a wrong access ends the
/// test.
TEST_F(CApi, RandomCallsNeverCrash) {
  std::mt19937 random(chimere::fresh_seed());
  const auto pick = [&](size_t n) { return static_cast<size_t>(random() % n); };
  const std::vector<std::string> texts = {"",     "the moth",   std::string(3, '\0'),
                                          "\xC3", "<|im_end|>", std::string(2000, 'a')};
  const std::vector<const char*> names = {"max-tokens", "temp",     "seed",      "stop",
                                          "logprobs",   "ctx",      "reasoning", "",
                                          nullptr,      "mirostat", "samplers"};
  const std::vector<const char*> values = {"3", "0", "-1", "1", "", nullptr, "x", "high", "1e400"};
  std::vector<chimere_sequence*> sequences;
  std::vector<unsigned char> saved;
  for (int i = 0; i < 400; ++i) {
    Options options;
    while (pick(3) != 0)
      options.push_back({names[pick(names.size())], values[pick(values.size())]});
    const chimere_option* o = pick(20) == 0 ? nullptr : options.data();
    std::vector<int32_t> ids(pick(40));
    for (int32_t& id : ids)
      id = pick(30) == 0 ? static_cast<int32_t>(random()) : static_cast<int32_t>(pick(500));
    const int32_t* in = pick(20) == 0 ? nullptr : ids.data();
    chimere_model* m = pick(20) == 0 ? nullptr : model;
    chimere_sequence* s =
        sequences.empty() || pick(20) == 0 ? nullptr : sequences[pick(sequences.size())];
    std::vector<int32_t> out(pick(60) + 1);
    size_t size = 0;
    size_t* n = pick(20) == 0 ? nullptr : &size;
    const std::string& text = texts[pick(texts.size())];
    switch (pick(10)) {
      case 0:
        (void)chimere_tokenize(m, pick(20) == 0 ? nullptr : text.data(), text.size(), random(),
                               out.data(), out.size(), n);
        break;
      case 1: {
        std::vector<char> bytes(pick(100) + 1);
        (void)chimere_detokenize(m, in, ids.size(), random(), bytes.data(), bytes.size(), n);
        break;
      }
      case 2: {
        const chimere_message message = {pick(9) == 0 ? nullptr : "user",
                                         pick(9) == 0 ? nullptr : text.c_str()};
        (void)chimere_apply_chat_template(m, pick(9) == 0 ? nullptr : &message, 1, o,
                                          options.size(), out.data(), out.size(), n);
        break;
      }
      case 3: {
        chimere_sequence* made = nullptr;
        if (chimere_sequence_create(m, in, ids.size(), &made) == CHIMERE_OK)
          sequences.push_back(made);
        break;
      }
      case 4:
      case 5: {
        options.push_back({"max-tokens", "3"});
        chimere_generation result = {};
        result.struct_size = pick(sizeof(result) + 1);
        (void)chimere_generate(s, options.data(), options.size(), nullptr, nullptr, &result);
        break;
      }
      case 6:
        (void)chimere_sequence_get_tokens(s, out.data(), out.size(), n, nullptr);
        break;
      case 7: {
        if (chimere_sequence_save(s, nullptr, 0, &size) != CHIMERE_OK) break;
        saved.resize(size);
        (void)chimere_sequence_save(s, saved.data(), saved.size(), &size);
        break;
      }
      case 8: {
        std::vector<unsigned char> bytes = saved;
        if (!bytes.empty() && pick(2) == 0) bytes[pick(bytes.size())] ^= 0x10;
        chimere_sequence* made = nullptr;
        if (chimere_sequence_restore(m, bytes.data(), bytes.size(), &made) == CHIMERE_OK)
          sequences.push_back(made);
        break;
      }
      default: {
        std::vector<float> logprobs(ids.size());
        (void)chimere_log_probabilities(m, in, ids.size(), logprobs.data());
        break;
      }
    }
    if (sequences.size() > 8) {
      chimere_sequence_free(sequences.front());
      sequences.erase(sequences.begin());
    }
  }
  for (chimere_sequence* s : sequences) chimere_sequence_free(s);
  chimere_sequence* sequence = start("the moth");
  add(sequence, "2");
  EXPECT_GE(tokens_of(sequence).size(), 3U);
  chimere_sequence_free(sequence);
}

TEST_F(CApi, ThreadsShareAModel) {
  chimere_sequence* alone = start("the path");
  add(alone, "10");
  std::vector<std::thread> threads;
  std::vector<std::vector<int32_t>> results(4);
  for (auto& result : results) {
    threads.emplace_back([&result] {
      chimere_sequence* s = start("the path");
      add(s, "10");
      result = tokens_of(s);
      chimere_sequence_free(s);
    });
  }
  for (std::thread& t : threads) t.join();
  for (const auto& result : results) EXPECT_EQ(result, tokens_of(alone));
  chimere_sequence_free(alone);
}

}  // namespace
