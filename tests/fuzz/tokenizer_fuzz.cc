// Any bytes as a text, which must come back from its ids; and any bytes as a vocabulary.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string_view>

#include "fuzz.h"
#include "text/bpe_trainer.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer.h"

namespace text = chimere::text;

namespace {

void check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

const text::Tokenizer& tokenizer(const std::string& pre) {
  static std::map<std::string, std::unique_ptr<text::Tokenizer>> made;
  auto& entry = made[pre];
  if (entry == nullptr) {
    text::BpeTrainOptions options;
    options.pre = pre;
    options.vocab_size = 300;
    options.control_tokens = {"<|im_start|>", "<|im_end|>"};
    options.user_defined_tokens = {"<think>", "  "};
    const text::WordCounts words = {{" the", 9}, {"the", 5}, {"é\n", 4}, {"123", 3}, {"\xFF", 2}};
    entry = *text::Tokenizer::create(*text::train_bpe(words, options));
  }
  return *entry;
}

void round_trip(const std::string& pre, std::string_view input) {
  const text::Tokenizer& t = tokenizer(pre);
  for (const bool special : {false, true}) {
    const auto ids = t.encode(input, special);
    check(t.decode(ids, true) == input, "a text does not come back");
    for (const int32_t id : ids)
      check(special || !t.is_control(id), "a text became a control token");
  }
  const text::TextRange half{0, input.size() / 2};
  check(t.decode(t.encode_trusted(input, std::span(&half, 1)), true) == input,
        "a partly trusted text does not come back");
  text::StreamDecoder decoder;
  for (const char c : input) (void)decoder.push(std::string_view(&c, 1));
  (void)decoder.finish();
}

/// Lines are tokens, or merges if they hold a space; a digit in front of a token is its type.
void damaged_vocabulary(const std::string& pre, std::string_view input) {
  text::Vocabulary v;
  v.model = "gpt2";
  v.pre = pre;
  while (!input.empty()) {
    const size_t end = input.find('\n');
    const std::string line(input.substr(0, end));
    input.remove_prefix(end == std::string_view::npos ? input.size() : end + 1);
    if (line.find(' ') != std::string::npos) {
      v.merges.push_back(line);
    } else if (!line.empty()) {
      v.types.push_back(line[0] - '0');
      v.tokens.push_back(line.substr(1));
    }
  }
  v.eos = static_cast<int32_t>(v.tokens.size()) - 1;
  const auto t = text::Tokenizer::create(v);
  if (!t.ok()) {
    check(!t.error().message.empty(), "an error without a message");
    return;
  }
  for (const std::string& token : v.tokens) {
    for (const int32_t id : (*t)->encode(token + token, true)) {
      check(id >= 0 && id < (*t)->n_tokens(), "an id out of range");
      (void)(*t)->token_bytes(id, true);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<std::string> names = text::PreTokenizer::known_names();
  if (size < 1) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string& pre = names[data[0] / 2 % names.size()];
  if (data[0] % 2 == 0) {
    round_trip(pre, input);
  } else {
    damaged_vocabulary(pre, input);
  }
  return 0;
}

std::vector<std::vector<uint8_t>> fuzz_seeds() {
  std::vector<std::vector<uint8_t>> seeds;
  for (const std::string_view seed :
       {std::string_view("\0Hello the  world's 12345 \xC3\xA9\n<|im_end|> <think>\t\r\n", 48),
        std::string_view("\2\xE6\xBC\xA2\xE5\xAD\x97 \xF0\x9F\x91\xA9\xE2\x80\x8D A\xCC\x81 DON'T"),
        std::string_view("\1"
                         "1a\n1b\n1ab\n3<s>\n4<t>\na b\nab a\n1\xC4\xA0\n")}) {
    seeds.emplace_back(seed.begin(), seed.end());
  }
  return seeds;
}
