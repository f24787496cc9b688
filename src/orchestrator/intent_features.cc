#include "orchestrator/intent_features.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "orchestrator/words.h"

namespace chimere::orchestrator {
namespace {

/// Of a longer request, its beginning and its end are read.
constexpr size_t kHead = 1200;
constexpr size_t kTail = 400;
/// Words at the beginning whose pairs are features.
constexpr size_t kPairs = 14;
/// Hits of the lexicon whose order is a feature.
constexpr size_t kOrdered = 4;
/// How much the parts weigh against each other, chosen by cross-validation.
constexpr float kWordsWeight = 2.0F;
constexpr float kOpeningWeight = 0.4F;
constexpr float kClassWeight = 0.4F;
constexpr float kShapeWeight = 0.5F;

bool is_digit_of_number(char c) { return c >= '0' && c <= '9'; }

uint64_t hash_of(std::string_view kind, std::string_view name) {
  uint64_t h = 14695981039346656037ULL;
  const auto mix = [&h](std::string_view part) {
    for (const char c : part) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    h = (h ^ 0xFF) * 1099511628211ULL;
  };
  mix(kind);
  mix(name);
  return h;
}

std::string singular(std::string word) {
  if (word.size() > 3 && word.ends_with('s') && !word.ends_with("ss")) word.pop_back();
  return word;
}

std::string part_of(std::string_view text) {
  if (text.size() <= kHead + kTail) return std::string(text);
  return std::string(text.substr(0, kHead)) + " " + std::string(text.substr(text.size() - kTail));
}

/// The index of the word with which a request begins: "Hello, could you please write" begins with
/// "write".
size_t opening_of(const std::vector<std::string>& words) {
  static constexpr auto kPolite = std::to_array<std::string_view>(
      {"hi", "hello", "hey", "please", "kindly", "ok", "bonjour", "salut", "peux-tu", "pourrais-tu",
       "pouvez-vou", "pourriez-vou"});
  static constexpr auto kAsking = std::to_array<std::string_view>({"can", "could", "would"});
  size_t i = 0;
  while (i + 1 < words.size()) {
    if (std::ranges::find(kPolite, words[i]) != kPolite.end()) {
      ++i;
    } else if (std::ranges::find(kAsking, words[i]) != kAsking.end() && words[i + 1] == "you" &&
               i + 2 < words.size()) {
      i += 2;
    } else {
      break;
    }
  }
  return i;
}

/// Features of one kind, together of length `weight`.
class Group {
 public:
  Group(std::string_view kind, std::vector<IntentFeature>& out)
      : kind_(kind), out_(out), begin_(out.size()) {}
  void add(std::string_view name) { out_.emplace_back(hash_of(kind_, name), 1.0F); }
  void normalise(float weight) {
    unite();
    const size_t count = out_.size() - begin_;
    const float value = weight / std::sqrt(static_cast<float>(std::max<size_t>(count, 1)));
    for (size_t i = begin_; i < out_.size(); ++i) out_[i].second = value;
  }
  void set(float value) {
    unite();
    for (size_t i = begin_; i < out_.size(); ++i) out_[i].second = value;
  }

 private:
  void unite() {
    const auto begin = out_.begin() + static_cast<std::ptrdiff_t>(begin_);
    std::sort(begin, out_.end());
    out_.erase(std::unique(begin, out_.end()), out_.end());
  }

  const std::string_view kind_;
  std::vector<IntentFeature>& out_;
  const size_t begin_;
};

void add_words(const std::vector<std::string>& words, std::vector<IntentFeature>& out) {
  Group group("word", out);
  for (size_t i = 0; i < words.size(); ++i) {
    group.add(words[i]);
    if (words[i].size() > 6) group.add(words[i].substr(0, 5) + "*");
    if (i + 1 < std::min(words.size(), kPairs)) group.add(words[i] + " " + words[i + 1]);
  }
  group.normalise(kWordsWeight);
}

void add_opening(const std::vector<std::string>& words, std::vector<IntentFeature>& out) {
  Group group("opening", out);
  std::string opening;
  const size_t begin = opening_of(words);
  for (size_t i = begin; i < std::min(words.size(), begin + 3); ++i) {
    opening += words[i] + " ";
    group.add(opening);
  }
  group.set(kOpeningWeight);
}

void add_classes(const std::vector<std::string>& words, const IntentLexicon& lexicon,
                 std::vector<IntentFeature>& out) {
  const auto hits = lexicon.hits(words);
  std::vector<std::string> names;  // of the hits: their classes, without repetitions
  Group any("class", out);
  for (const IntentLexicon::Hit& hit : hits) {
    std::string name;
    for (const uint32_t c : hit.classes) {
      any.add(std::to_string(c));
      name += std::to_string(c) + "|";
    }
    if (names.empty() || names.back() != name) names.push_back(std::move(name));
  }
  if (hits.empty()) any.add("none");
  any.normalise(kClassWeight);
  Group order("order", out);
  for (size_t i = 0; i < std::min(names.size(), kOrdered); ++i) {
    order.add(std::to_string(i) + ":" + names[i]);
    if (i == 0) continue;
    order.add(names[0] + ">" + names[i]);
    order.add(std::to_string(i) + ":" + names[i - 1] + ">" + names[i]);
  }
  if (!hits.empty()) {
    // Single classes in the order of the hits generalise to combinations that no example has.
    for (const uint32_t c : hits.front().classes) {
      order.add("first:" + std::to_string(c) +
                (hits.front().begin == opening_of(words) ? "^" : ""));
      if (hits.size() == 1) continue;
      for (const uint32_t d : hits[1].classes) {
        order.add("two:" + std::to_string(c) + ">" + std::to_string(d));
      }
    }
    if (hits.size() > 1) {
      for (const uint32_t c : hits[1].classes) order.add("second:" + std::to_string(c));
    }
    for (const uint32_t c : hits.back().classes) order.add("last:" + std::to_string(c));
  }
  order.set(kClassWeight / 2);
}

void add_shape(std::string_view text, const std::vector<std::string>& words,
               std::vector<IntentFeature>& out) {
  Group group("shape", out);
  const auto has = [text](std::string_view what) {
    return text.find(what) != std::string_view::npos;
  };
  if (text.ends_with('?')) group.add("question");
  if (text.ends_with('!')) group.add("exclamation");
  if (has("\n")) group.add("lines");
  if (has("```")) group.add("fence");
  if (has(": ")) group.add("colon");
  if (has("\"") || has("«")) group.add("quote");
  if (has("();") || has(") {") || has("){") || has("];") || has("->") || has("==")) {
    group.add("code");
  }
  if (has("/etc/") || has("/usr/") || has("/var/") || has("/home/") || has("~/")) {
    group.add("path");
  }
  if (has("^") || has(" + ") || has(" * ") || has(" = ") || has("=0") || has("√")) {
    group.add("operator");
  }
  if (has("[") && has("]")) group.add("brackets");
  if (has("{")) group.add("braces");
  if (has(";")) group.add("semicolon");
  if (has("_")) group.add("underscore");
  if (has("()")) group.add("call");
  if (has("=\"") || has("='")) group.add("attribute");
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    const bool upper = text[i] >= 'A' && text[i] <= 'Z';
    if (text[i] == '=' && i > 0 && text[i - 1] >= 'A' && text[i - 1] <= 'Z') group.add("field");
    if (i > 0 && upper && text[i - 1] >= 'a' && text[i - 1] <= 'z') group.add("camel");
    if (is_digit_of_number(text[i]) && text[i + 1] == ':' && i + 2 < text.size() &&
        is_digit_of_number(text[i + 2])) {
      group.add("time");
    }
  }
  for (const std::string_view word : word_views(text)) {
    const auto dots = std::ranges::count(word, '.');
    if (dots == 3 && is_digit_of_number(word.front()) && is_digit_of_number(word.back())) {
      group.add("address");
    }
    if (word.size() > 6 && (word.ends_with("Error") || word.ends_with("Exception"))) {
      group.add("error");
    }
  }
  size_t digits = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    digits += is_digit_of_number(text[i]) && (i == 0 || !is_digit_of_number(text[i - 1])) ? 1 : 0;
  }
  group.add("numbers " + std::to_string(std::min<size_t>(digits, 3)));
  group.add("length " + std::to_string(words.size() < 3    ? 0
                                       : words.size() < 6  ? 1
                                       : words.size() < 12 ? 2
                                       : words.size() < 25 ? 3
                                                           : 4));
  group.set(kShapeWeight);
}

}  // namespace

size_t intent_of_class(uint32_t of_class) { return of_class / kKindsOfWords; }

void IntentLexicon::add(std::string_view phrase, uint32_t of_class) {
  std::string key;
  size_t count = 0;
  for (const std::string& word : intent_words(phrase)) {
    key += (key.empty() ? "" : " ") + word;
    ++count;
  }
  if (count == 0) return;
  longest_ = std::max(longest_, count);
  std::vector<uint32_t>& classes = phrases_[key];
  if (std::ranges::find(classes, of_class) == classes.end()) classes.push_back(of_class);
}

std::vector<IntentLexicon::Hit> IntentLexicon::hits(const std::vector<std::string>& words) const {
  std::vector<Hit> out;
  for (size_t i = 0; i < words.size();) {
    Hit best;
    std::string key;
    for (size_t n = 0; n < std::min(longest_, words.size() - i); ++n) {
      key += (n == 0 ? "" : " ") + words[i + n];
      if (const auto found = phrases_.find(key); found != phrases_.end()) {
        best = {i, n + 1, found->second};
      }
    }
    i += std::max<size_t>(best.words, 1);
    if (best.words > 0) out.push_back(std::move(best));
  }
  return out;
}

std::vector<std::string> intent_words(std::string_view text) {
  std::vector<std::string> out = words_of(part_of(text));
  for (std::string& word : out) {
    const bool number = std::ranges::all_of(
        word, [](char c) { return is_digit_of_number(c) || c == '.' || c == '-'; });
    word = number ? "0" : singular(std::move(word));
  }
  return out;
}

std::vector<IntentFeature> intent_features(std::string_view text, const IntentLexicon& lexicon) {
  std::vector<IntentFeature> out;
  const std::vector<std::string> words = intent_words(text);
  add_words(words, out);
  add_opening(words, out);
  add_classes(words, lexicon, out);
  add_shape(text, words, out);
  return out;
}

}  // namespace chimere::orchestrator
