#include "retrieval/words_query.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <utility>

namespace chimere::retrieval {
namespace {

constexpr std::array<std::string_view, 72> kCommon = {
    "a",     "about", "all",   "an",     "and",   "any",     "are",   "as",   "at",
    "be",    "by",    "can",   "could",  "did",   "do",      "does",  "for",  "from",
    "give",  "has",   "have",  "how",    "i",     "if",      "in",    "into", "is",
    "it",    "its",   "me",    "my",     "need",  "of",      "on",    "one",  "or",
    "our",   "out",   "s",     "should", "so",    "some",    "tell",  "that", "the",
    "their", "them",  "then",  "there",  "these", "this",    "those", "to",   "us",
    "use",   "used",  "using", "want",   "was",   "we",      "what",  "when", "where",
    "which", "who",   "why",   "will",   "with",  "without", "would", "you",  "your"};

bool in_word(unsigned char c) { return std::isalnum(c) != 0 || c >= 0x80; }

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

bool has_character(std::string_view word) {
  return std::ranges::any_of(word, [](char c) { return in_word(static_cast<unsigned char>(c)); });
}

}  // namespace

std::vector<std::string> words_of_query(std::string_view query) {
  constexpr size_t kMostWords = 48;
  constexpr size_t kMostBytes = 100;
  std::vector<std::string> all;
  std::vector<std::string> rare;
  size_t at = 0;
  while (at < query.size() && rare.size() < kMostWords && all.size() < 4 * kMostWords) {
    while (at < query.size() && !in_word(static_cast<unsigned char>(query[at]))) ++at;
    size_t end = at;
    const auto belongs = [&](size_t i) {
      const auto c = static_cast<unsigned char>(query[i]);
      // Punctuation inside a word: "no-color", "resolv.conf", "a_b", "c++" is "c".
      return in_word(c) ||
             ((c == '-' || c == '_' || c == '.' || c == '\'') && i + 1 < query.size() &&
              in_word(static_cast<unsigned char>(query[i + 1])));
    };
    while (end < query.size() && belongs(end)) ++end;
    if (end == at) break;
    std::string word = lower(query.substr(at, std::min(end - at, kMostBytes)));
    at = end;
    if (!has_character(word) || std::ranges::find(all, word) != all.end()) continue;
    all.push_back(word);
    if (std::ranges::find(kCommon, std::string_view(word)) == kCommon.end()) rare.push_back(word);
  }
  if (!rare.empty()) return rare;
  all.resize(std::min(all.size(), kMostWords));
  return all;
}

std::string any_of(const std::vector<std::string>& words) {
  std::string expression;
  for (const std::string& word : words) {
    if (!expression.empty()) expression += " OR ";
    expression += '"';
    for (const char c : word) {
      if (c == '"') expression += '"';
      expression += c;
    }
    expression += '"';
  }
  return expression;
}

Result<std::vector<TextsToScore>> texts_to_score(
    const std::vector<std::string>& words, int64_t most,
    const std::function<Result<int64_t>(const std::string& expression, int64_t limit)>& count) {
  struct Counted {
    int64_t texts;
    std::string word;
  };
  std::vector<Counted> counted;
  for (const std::string& word : words) {
    CHIMERE_TRY(const int64_t texts, count(any_of({word}), std::numeric_limits<int64_t>::max()));
    if (texts > 0) counted.push_back({texts, word});
  }
  std::vector<TextsToScore> found;
  if (counted.empty()) return found;
  std::ranges::stable_sort(counted, {}, &Counted::texts);
  std::vector<std::string> all;
  for (const Counted& c : counted) all.push_back(c.word);

  int64_t left = most;
  // Every text that is chosen has one of the words: the second part leaves none out.
  const auto take = [&](const std::string& chosen, size_t n_phrases, int64_t texts) {
    TextsToScore score = {"(" + chosen + ") AND (" + any_of(all) + ")",
                          std::vector<int64_t>(n_phrases, 0), std::min(texts, left)};
    for (const Counted& c : counted) score.texts_with_phrase.push_back(c.texts);
    left -= score.most;
    found.push_back(std::move(score));
  };
  std::vector<std::string> rare;
  int64_t sum = 0;
  for (const Counted& c : counted) {
    if (sum + c.texts > most) break;
    sum += c.texts;
    rare.push_back(c.word);
  }
  if (!rare.empty()) {
    take(any_of(rare), rare.size(), sum);
    return found;
  }
  std::string wider = any_of({all.front()});
  size_t n_wider = 1;
  for (size_t n = 2; n <= all.size(); ++n) {
    const std::string narrower = wider + " AND " + any_of({all[n - 1]});
    CHIMERE_TRY(const int64_t texts, count(narrower, left + 1));
    if (texts > 0 && texts <= left) take(narrower, n, texts);
    if (texts <= most) break;
    wider = narrower;
    n_wider = n;
  }
  const std::string in_headings = "{title heading} : (" + any_of(all) + ")";
  CHIMERE_TRY(const int64_t texts, count(in_headings, left + 1));
  if (texts > 0 && texts <= left) take(in_headings, all.size(), texts);
  if (left > 0) take(wider, n_wider, left);
  return found;
}

}  // namespace chimere::retrieval
