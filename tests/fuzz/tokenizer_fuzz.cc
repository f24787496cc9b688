// Encodes arbitrary bytes, which must round-trip, and reads arbitrary bytes as a vocabulary.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string_view>

#include "fuzz.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer.h"
#include "text/unicode.h"
#include "vocabulary/bpe_trainer.h"

namespace text = chimere::text;
namespace train = chimere::train;

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
    train::BpeTrainOptions options;
    options.pre = pre;
    options.vocab_size = 300;
    options.control_tokens = {"<|im_start|>", "<|im_end|>"};
    options.user_defined_tokens = {"<think>", "  "};
    const train::WordCounts words = {{" the", 9}, {"the", 5}, {"é\n", 4}, {"123", 3}, {"\xFF", 2}};
    entry = *text::Tokenizer::create(*train::train_bpe(words, options));
  }
  return *entry;
}

void round_trip(const std::string& pre, std::string_view input) {
  const text::Tokenizer& t = tokenizer(pre);
  const bool wants_nfc = (*text::PreTokenizer::create(pre))->wants_nfc();
  const auto same = [&](const std::string& decoded) {
    return wants_nfc ? text::nfc(decoded) == text::nfc(input) : decoded == input;
  };
  for (const bool special : {false, true}) {
    const auto ids = t.encode(input, special);
    check(same(t.decode(ids, true)), "a text does not round-trip");
    for (const int32_t id : ids)
      check(special || !t.is_control(id), "a text became a control token");
  }
  const text::TextRange half{0, input.size() / 2};
  check(same(t.decode(t.encode_trusted(input, std::span(&half, 1)), true)),
        "a partly trusted text does not round-trip");
  text::StreamDecoder decoder;
  for (const char c : input) (void)decoder.push(std::string_view(&c, 1));
  (void)decoder.finish();
}

/// SentencePiece writes U+2581 for a space: only that character does not round-trip.
void round_trip_pieces(std::string_view input) {
  static const std::unique_ptr<text::Tokenizer> t = [] {
    text::Vocabulary v;
    v.model = "llama";
    v.add_space_prefix = true;
    for (int b = 0; b < 256; ++b) {
      char name[8];
      std::snprintf(name, sizeof name, "<0x%02X>", b);
      v.tokens.emplace_back(name);
      v.types.push_back(6);
    }
    for (const char* piece :
         {"\u2581", "\u2581t", "h", "e", "he", "\u2581the", "\u00e9", "<s", "s", "<", ">"}) {
      v.tokens.emplace_back(piece);
      v.types.push_back(1);
    }
    for (const char* named : {"<s>", "<think>", "  "}) {
      v.tokens.emplace_back(named);
      v.types.push_back(named[1] == 's' ? 3 : 4);
    }
    for (size_t i = 0; i < v.tokens.size(); ++i) v.scores.push_back(-static_cast<float>(i));
    return *text::Tokenizer::create(std::move(v));
  }();
  const bool has_mark = input.find("\u2581") != std::string_view::npos;
  for (const bool special : {false, true}) {
    const auto ids = t->encode(input, special);
    check(has_mark || t->decode(ids, true) == input, "a text does not round-trip");
    for (const int32_t id : ids)
      check(special || !t->is_control(id), "a text became a control token");
  }
}

/// Lines are tokens, or merges if they hold a space; a digit in front of a token is its type.
void damaged_vocabulary(const std::string& model, const std::string& pre, std::string_view input) {
  text::Vocabulary v;
  v.model = model;
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
      v.scores.push_back(static_cast<float>(line.size() % 5));
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
  const std::string& pre = names[data[0] / 4 % names.size()];
  switch (data[0] % 4) {
    case 0:
      round_trip(pre, input);
      break;
    case 1:
      damaged_vocabulary("gpt2", pre, input);
      break;
    case 2:
      round_trip_pieces(input);
      break;
    default:
      damaged_vocabulary(data[0] / 4 % 2 == 0 ? "llama" : "bert", pre, input);
  }
  return 0;
}

std::vector<std::vector<uint8_t>> fuzz_seeds() {
  std::vector<std::vector<uint8_t>> seeds;
  for (const std::string_view seed :
       {std::string_view("\0Hello the  world's 12345 \xC3\xA9\n<|im_end|> <think>\t\r\n", 48),
        std::string_view("\2 the <s> \xC3\xA9 \xE2\x96\x81<think>  \xFF"),
        std::string_view("\3"
                         "6<0x41>\n1a\n1\xE2\x96\x81\n1\xE2\x96\x81"
                         "a\n3<s>\n4  \n1ab\n1b\n2<unk>\n"),
        std::string_view("\7"
                         "1\xE2\x96\x81un\n1aff\n1\xE2\x96\x81!\n2[UNK]\n3[CLS]\n1s\n"),
        std::string_view("\4\xE6\xBC\xA2\xE5\xAD\x97 \xF0\x9F\x91\xA9\xE2\x80\x8D A\xCC\x81 DON'T"),
        std::string_view("\1"
                         "1a\n1b\n1ab\n3<s>\n4<t>\na b\nab a\n1\xC4\xA0\n")}) {
    seeds.emplace_back(seed.begin(), seed.end());
  }
  return seeds;
}
