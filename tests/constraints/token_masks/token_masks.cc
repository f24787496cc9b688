// Token masks against the bytes that a constraint reads.
//
//   token_masks CASES MODEL
//
// Random constraints, with a small vocabulary of overlapping tokens and with the model's. On the
// way through random texts, a token must be in the mask exactly when its bytes can be read one by
// one by an automaton that has computed no mask.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fresh_seed.h"
#include "constraints/build_machine.h"
#include "constraints/constraint.h"
#include "constraints/testing.h"
#include "constraints/token_trie.h"
#include "gguf/reader.h"
#include "model/vocabulary.h"
#include "random_constraint.h"
#include "text/tokenizer.h"

namespace chimere::constraints {
namespace {

constexpr int kSteps = 10;
/// All tokens of a vocabulary of up to that many are looked at, and as many of a larger one.
constexpr size_t kTokens = 600;

template <typename T>
T value_of(Result<T> result) {
  if (result.ok()) return *std::move(result);
  std::fprintf(stderr, "%s\n", result.error().message.c_str());
  std::exit(2);
}

/// All bytes, and texts over what the constraints are made of, with parts of characters.
std::unique_ptr<text::Tokenizer> small_vocabulary(std::mt19937& random) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (const char* text : {"<|x|>", "<think>", "</think>", "<t>", "</t>", "é", "日", "\xE6\x97",
                           "\xA5"
                           "a",
                           "ab</t>", ">a", "\xC3",
                           "\xA9"
                           "b",
                           "\":", "\",", "{\"", "1.5"}) {
    tokens.emplace_back(text);
  }
  constexpr std::string_view kAlphabet = "aaabbb1., \n\"-</t>{}[]:";
  while (tokens.size() < kTokens - 1) {
    std::string text;
    for (unsigned n = 2 + random() % 4; n > 0; --n) text += kAlphabet[random() % kAlphabet.size()];
    tokens.push_back(std::move(text));
  }
  return std::make_unique<TestTokenizer>(std::move(tokens));
}

struct Vocabulary {
  std::string name;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::shared_ptr<const TokenTrie> trie;
};

struct Counts {
  int compiled = 0;
  int64_t tokens = 0;
  int64_t allowed = 0;
  int wrong = 0;
};

std::string printable(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    if (c >= ' ' && c < 0x7F) {
      out += c;
    } else {
      char code[8];
      std::snprintf(code, sizeof(code), "\\x%02X", static_cast<unsigned char>(c));
      out += code;
    }
  }
  return out;
}

/// The walk through one text.
class Walk {
 public:
  Walk(const RandomConstraint& constraint, const Vocabulary& vocabulary, Matcher matcher,
       Machine& machine, std::mt19937& random, Counts& counts)
      : constraint_(constraint),
        trie_(*vocabulary.trie),
        vocabulary_(vocabulary),
        matcher_(std::move(matcher)),
        machine_(machine),
        state_(machine.start()),
        random_(random),
        counts_(counts) {}

  void run() {
    for (int step = 0; step < kSteps; ++step) {
      if (matcher_.finished() || !step_once()) return;
    }
  }

 private:
  State read(std::string_view bytes) {
    State state = state_;
    for (const char c : bytes) {
      if (state == kDead) break;
      state = machine_.next(state, static_cast<uint8_t>(c));
    }
    return state;
  }
  void wrong(const char* what, int32_t token) {
    // The first few say enough.
    if (++counts_.wrong > 5) return;
    std::printf("%s: the mask %s token %d '%s' after '%s' of\n%s\n", vocabulary_.name.c_str(), what,
                token, printable(trie_.bytes(token)).c_str(), printable(text_).c_str(),
                constraint_.text.c_str());
  }
  /// A token that may be looked at: of a large vocabulary, one of those that begin with a byte that
  /// can be read, mostly.
  int32_t draw(const ByteSet& first) {
    const auto n = static_cast<uint32_t>(trie_.vocabulary_size());
    for (int attempt = 0;; ++attempt) {
      const auto token = static_cast<int32_t>(random_() % n);
      const std::string_view bytes = trie_.bytes(token);
      if (attempt > 50 || (!bytes.empty() && first[static_cast<uint8_t>(bytes[0])])) return token;
    }
  }
  bool step_once();

  const RandomConstraint& constraint_;
  const TokenTrie& trie_;
  const Vocabulary& vocabulary_;
  Matcher matcher_;
  Machine& machine_;
  State state_;
  std::mt19937& random_;
  Counts& counts_;
  std::string text_;
};

bool Walk::step_once() {
  const std::span<const uint32_t> mask = matcher_.mask();
  const auto in_mask = [&](int32_t token) {
    return (mask[static_cast<size_t>(token) / 32] >> (static_cast<uint32_t>(token) % 32) & 1U) != 0;
  };
  if (!matcher_.status().ok()) return false;  // an ambiguous grammar
  const ByteSet first = machine_.first_bytes(state_);
  const bool all = static_cast<size_t>(trie_.vocabulary_size()) <= kTokens;
  std::vector<int32_t> allowed;
  std::optional<int32_t> refused;
  const size_t looked_at = all ? static_cast<size_t>(trie_.vocabulary_size()) : kTokens;
  for (size_t i = 0; i < looked_at; ++i) {
    const int32_t token = all ? static_cast<int32_t>(i) : draw(first);
    const std::string_view bytes = trie_.bytes(token);
    const bool expected = trie_.is_end_of_generation(token)
                              ? machine_.accepts(state_)
                              : !bytes.empty() && read(bytes) != kDead;
    ++counts_.tokens;
    counts_.allowed += expected ? 1 : 0;
    const bool escaped = constraint_.escapes && bytes.find('\\') != std::string_view::npos;
    if (in_mask(token) != expected && !(escaped && !expected)) {
      wrong(expected ? "lacks" : "allows", token);
      return false;
    }
    if (expected && !bytes.empty()) allowed.push_back(token);
    if (!expected && !trie_.is_end_of_generation(token)) refused = token;
  }
  if (refused && matcher_.accept(*refused)) wrong("aside, accept() allows", *refused);
  if (allowed.empty()) {
    if (all && !machine_.accepts(state_)) wrong("has no", -1);
    return false;
  }
  // Long tokens are where parts overlap.
  int32_t token = allowed[random_() % allowed.size()];
  const int32_t other = allowed[random_() % allowed.size()];
  if (trie_.bytes(other).size() > trie_.bytes(token).size()) token = other;
  if (!matcher_.accept(token)) {
    if (matcher_.status().ok()) wrong("allows and accept() refuses", token);
    return false;  // else an ambiguous grammar
  }
  state_ = read(trie_.bytes(token));
  text_ += trie_.bytes(token);
  return true;
}

void check(const RandomConstraint& constraint, const Vocabulary& vocabulary, std::mt19937& random,
           Counts& counts) {
  const auto compiled = Constraint::compile(constraint.spec, vocabulary.trie);
  if (!compiled.ok()) return;  // no text, or a combination that is not supported
  ++counts.compiled;
  const auto machine = value_of(build_machine(constraint.spec, *vocabulary.trie));
  WorkMeter unlimited;
  unlimited.begin(UINT64_MAX);
  machine->count_work(unlimited);
  for (int walk = 0; walk < 2; ++walk) {
    Walk(constraint, vocabulary, (*compiled)->matcher(), *machine, random, counts).run();
  }
}

bool check_all(int cases, const std::string& path) {
  std::mt19937 random(fresh_seed());
  const auto file = value_of(gguf::Reader::open(path));
  std::vector<Vocabulary> vocabularies(2);
  vocabularies[0] = {"small vocabulary", small_vocabulary(random), nullptr};
  vocabularies[1] = {
      path, value_of(text::Tokenizer::create(value_of(model::vocabulary_from_gguf(*file)))),
      nullptr};
  for (Vocabulary& vocabulary : vocabularies) {
    vocabulary.trie = TokenTrie::create(*vocabulary.tokenizer);
  }
  Counts counts;
  for (int i = 0; i < cases; ++i) {
    const RandomConstraint constraint = random_constraint(random);
    for (const Vocabulary& vocabulary : vocabularies) check(constraint, vocabulary, random, counts);
  }
  std::printf("%d constraints, compiled %d times; %lld tokens, %lld of them allowed, %d wrong\n",
              cases, counts.compiled, static_cast<long long>(counts.tokens),
              static_cast<long long>(counts.allowed), counts.wrong);
  return counts.wrong == 0 && counts.compiled > cases && 20 * counts.allowed > counts.tokens;
}

}  // namespace
}  // namespace chimere::constraints

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: token_masks CASES MODEL\n");
    return 2;
  }
  return chimere::constraints::check_all(std::atoi(argv[1]), argv[2]) ? 0 : 1;
}
