#include "vocabulary/bpe_trainer.h"

#include <algorithm>
#include <queue>

#include "text/pre_tokenizer.h"
#include "text/utf8.h"

namespace chimere::train {
namespace {

using text::append_utf8;
using text::ByteAlphabet;
using text::for_each_word;
using text::PreTokenizer;
using text::TokenType;
using text::Vocabulary;

using Pair = uint64_t;  // left id << 32 | right id: orders as the tie rule wants

Pair make_pair_key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
}
int32_t left_of(Pair p) { return static_cast<int32_t>(p >> 32); }
int32_t right_of(Pair p) { return static_cast<int32_t>(p & 0xFFFFFFFFu); }

struct Word {
  std::vector<int32_t> symbols;
  int64_t count = 0;
};

struct PairInfo {
  int64_t count = 0;
  std::vector<uint32_t> words;  ///< candidates that may contain it; possibly repeated or outdated
};

/// An entry of the queue; outdated when the pair's count has changed since.
struct Candidate {
  int64_t count;
  Pair pair;
  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

class Trainer {
 public:
  Trainer(const WordCounts& counts, const BpeTrainOptions& options);
  Vocabulary run();

 private:
  void add_pair(int32_t left, int32_t right, int64_t count, uint32_t word);
  void merge(Pair pair, int32_t merged);
  void merge_in_word(uint32_t index, Pair pair, int32_t merged);
  void append_named(const std::vector<std::string>& names, TokenType type, Vocabulary& out) const;

  const BpeTrainOptions& options_;
  std::vector<Word> words_;
  std::vector<std::string> bytes_of_;  ///< raw bytes of each symbol
  std::vector<Pair> merges_;
  std::unordered_map<Pair, PairInfo> pairs_;
  std::unordered_map<Pair, int64_t> changed_;  ///< change of count by the merge in flight
  std::priority_queue<Candidate> queue_;
};

Trainer::Trainer(const WordCounts& counts, const BpeTrainOptions& options) : options_(options) {
  for (int b = 0; b < 256; ++b) bytes_of_.emplace_back(1, static_cast<char>(b));
  // Sorted, so that nothing depends on the order of a hash table.
  std::vector<std::pair<std::string_view, int64_t>> sorted(counts.begin(), counts.end());
  std::ranges::sort(sorted);
  words_.reserve(sorted.size());
  for (const auto& [text, count] : sorted) {
    Word word;
    word.count = count;
    for (const char c : text) word.symbols.push_back(static_cast<uint8_t>(c));
    const auto index = static_cast<uint32_t>(words_.size());
    for (size_t i = 0; i + 1 < word.symbols.size(); ++i) {
      add_pair(word.symbols[i], word.symbols[i + 1], count, index);
    }
    words_.push_back(std::move(word));
  }
  for (const auto& [pair, info] : pairs_) queue_.push({info.count, pair});
}

void Trainer::add_pair(int32_t left, int32_t right, int64_t count, uint32_t word) {
  PairInfo& info = pairs_[make_pair_key(left, right)];
  info.count += count;
  if (info.words.empty() || info.words.back() != word) info.words.push_back(word);
}

void Trainer::merge_in_word(uint32_t index, Pair pair, int32_t merged) {
  Word& word = words_[index];
  std::vector<int32_t>& s = word.symbols;
  const int32_t left = left_of(pair);
  const int32_t right = right_of(pair);
  size_t out = 0;
  for (size_t i = 0; i < s.size(); ++i) {
    if (i + 1 < s.size() && s[i] == left && s[i + 1] == right) {
      s[out++] = merged;
      ++i;
    } else {
      s[out++] = s[i];
    }
  }
  s.resize(out);
}

void Trainer::merge(Pair pair, int32_t merged) {
  merges_.push_back(pair);
  std::vector<uint32_t> where = std::move(pairs_[pair].words);
  std::ranges::sort(where);
  where.erase(std::unique(where.begin(), where.end()), where.end());
  changed_.clear();
  const auto count_word = [&](uint32_t index, int64_t sign) {
    const Word& word = words_[index];
    for (size_t i = 0; i + 1 < word.symbols.size(); ++i) {
      changed_[make_pair_key(word.symbols[i], word.symbols[i + 1])] += sign * word.count;
    }
  };
  for (const uint32_t index : where) {
    count_word(index, -1);
    merge_in_word(index, pair, merged);
    count_word(index, +1);
    const std::vector<int32_t>& s = words_[index].symbols;
    for (size_t i = 0; i + 1 < s.size(); ++i) {
      if (s[i] == merged || s[i + 1] == merged) add_pair(s[i], s[i + 1], 0, index);
    }
  }
  for (const auto& [key, change] : changed_) {
    if (change == 0) continue;
    const auto it = pairs_.find(key);
    it->second.count += change;
    if (it->second.count > 0) {
      queue_.push({it->second.count, key});
    } else {
      pairs_.erase(it);
    }
  }
}

Vocabulary Trainer::run() {
  const size_t named = options_.control_tokens.size() + options_.user_defined_tokens.size();
  const size_t learned = static_cast<size_t>(options_.vocab_size) - named;
  std::unordered_map<std::string, int32_t> made;
  for (int32_t b = 0; b < 256; ++b) made[bytes_of_[b]] = b;
  while (bytes_of_.size() < learned && !queue_.empty()) {
    const Candidate best = queue_.top();
    queue_.pop();
    const auto it = pairs_.find(best.pair);
    if (it == pairs_.end() || it->second.count != best.count) continue;
    if (best.count < options_.min_count) break;
    const std::string bytes = bytes_of_[left_of(best.pair)] + bytes_of_[right_of(best.pair)];
    if (bytes.size() > options_.max_token_bytes) continue;
    // The same bytes may be reached in two ways: they are one token.
    const auto [token, is_new] = made.emplace(bytes, static_cast<int32_t>(bytes_of_.size()));
    if (is_new) bytes_of_.push_back(bytes);
    merge(best.pair, token->second);
  }
  const ByteAlphabet& alphabet = ByteAlphabet::get();
  Vocabulary out;
  out.model = "gpt2";
  out.pre = options_.pre;
  for (const std::string& bytes : bytes_of_) {
    out.tokens.push_back(alphabet.encode(bytes));
    out.types.push_back(static_cast<int32_t>(TokenType::kNormal));
  }
  for (const Pair pair : merges_) {
    out.merges.push_back(alphabet.encode(bytes_of_[left_of(pair)]) + " " +
                         alphabet.encode(bytes_of_[right_of(pair)]));
  }
  append_named(options_.user_defined_tokens, TokenType::kUserDefined, out);
  append_named(options_.control_tokens, TokenType::kControl, out);
  return out;
}

void Trainer::append_named(const std::vector<std::string>& names, TokenType type,
                           Vocabulary& out) const {
  for (const std::string& name : names) {
    out.tokens.push_back(name);
    out.types.push_back(static_cast<int32_t>(type));
  }
}

}  // namespace

Status count_words(std::string_view pre, std::string_view text, WordCounts& counts) {
  std::string key;
  return for_each_word(pre, text, [&](std::string_view word) {
    key.assign(word);
    ++counts[key];
  });
}

Result<Vocabulary> train_bpe(const WordCounts& words, const BpeTrainOptions& options) {
  const size_t named = options.control_tokens.size() + options.user_defined_tokens.size();
  if (options.vocab_size < 0 || static_cast<size_t>(options.vocab_size) < 256 + named) {
    return invalid_argument("A vocabulary of " + std::to_string(options.vocab_size) +
                            " tokens cannot hold the 256 bytes and " + std::to_string(named) +
                            " named tokens; ask for more.");
  }
  return Trainer(words, options).run();
}

}  // namespace chimere::train
