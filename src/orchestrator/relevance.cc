#include "orchestrator/relevance.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "orchestrator/words.h"

namespace chimere::orchestrator {
namespace {

/// From here on a passage supports a sentence.
constexpr double kSupports = 0.6;
/// Below this a model's own citation is taken back.
constexpr double kKeeps = 0.4;

/// The weight of a word that every passage has.
constexpr double kLeast = 0.3;
/// That of a common word of requests that no passage has.
constexpr double kWeak = 0.1;

bool contains(const std::vector<std::string>& sorted, const std::string& word) {
  return std::ranges::binary_search(sorted, word);
}

struct Citation {
  size_t begin = 0;
  size_t end = 0;  ///< behind the bracket
  size_t number = 0;
};

std::vector<Citation> citations_in(std::string_view text) {
  std::vector<Citation> out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '[') continue;
    size_t at = i + 1;
    size_t number = 0;
    while (at < text.size() && at - i <= 4 && text[at] >= '0' && text[at] <= '9') {
      number = number * 10 + static_cast<size_t>(text[at++] - '0');
    }
    if (at == i + 1 || at >= text.size() || text[at] != ']') continue;
    out.push_back({i, at + 1, number});
    i = at;
  }
  return out;
}

}  // namespace

std::vector<std::string> stems_of(std::string_view text) {
  std::vector<std::string> out;
  for (const std::string& word : words_of(text)) {
    if (!is_function_word(word)) out.push_back(stem(word));
  }
  std::ranges::sort(out);
  const auto repeated = std::ranges::unique(out);
  out.erase(repeated.begin(), repeated.end());
  return out;
}

std::vector<std::string> content_words(std::string_view text) {
  std::vector<std::string> out;
  for (std::string& word : words_of(text)) {
    if (!is_function_word(word) && std::ranges::find(out, word) == out.end()) {
      out.push_back(std::move(word));
    }
  }
  return out;
}

std::string subject_of(std::string_view name) {
  if (const size_t slash = name.rfind('/'); slash != std::string_view::npos) {
    const bool path = name.find(' ') == std::string_view::npos;
    if (path) name.remove_prefix(slash + 1);
  }
  if (name.ends_with(".gz")) name.remove_suffix(3);
  std::string_view first = name.substr(0, name.find_first_of(" (,:"));
  const size_t dot = first.rfind('.');
  if (dot != std::string_view::npos && dot > 0 && first.size() - dot <= 5)
    first = first.substr(0, dot);
  return lower(first);
}

WeighedWords weighed_words(std::string_view question, std::span<const Passage> passages) {
  WeighedWords out;
  std::vector<std::string> weak;
  for (const std::string& word : words_of(question)) {
    if (is_weak_word(word)) weak.push_back(stem(word));
  }
  std::vector<std::vector<std::string>> texts;
  std::vector<std::string> subjects;
  texts.reserve(passages.size());
  for (const Passage& p : passages) {
    texts.push_back(stems_of(p.name + " " + p.place + " " + p.text));
    subjects.push_back(stem(subject_of(p.name)));
    if (!p.document.empty()) subjects.push_back(stem(subject_of(p.document)));
  }
  const auto n = static_cast<double>(passages.size());
  const double unknown = kLeast + std::log((n + 1) / 0.5);
  out.stems = stems_of(question);
  for (const std::string& word : out.stems) {
    const auto have = static_cast<double>(
        std::ranges::count_if(texts, [&](const auto& text) { return contains(text, word); }));
    double weight = kLeast + std::log((n + 1) / (have + 0.5));
    if (std::ranges::find(subjects, word) != subjects.end()) {
      weight = 2 * unknown;
    } else if (std::ranges::find(weak, word) != weak.end()) {
      weight = have > 0 ? kLeast : kWeak;
    }
    out.weights.push_back(weight);
    out.total += weight;
  }
  return out;
}

std::vector<double> relevance_of(std::string_view question, std::span<const Passage> passages) {
  const WeighedWords wanted = weighed_words(question, passages);
  std::vector<double> out(passages.size(), 0.0);
  if (wanted.total <= 0) return out;
  for (size_t p = 0; p < passages.size(); ++p) {
    const Passage& passage = passages[p];
    const std::vector<std::string> text =
        stems_of(passage.name + " " + subject_of(passage.name) + " " +
                 subject_of(passage.document) + " " + passage.place + " " + passage.text);
    double covered = 0;
    for (size_t w = 0; w < wanted.stems.size(); ++w) {
      covered += contains(text, wanted.stems[w]) ? wanted.weights[w] : 0;
    }
    out[p] = covered / wanted.total;
  }
  return out;
}

std::string_view verdict_name(Verdict verdict) {
  constexpr std::string_view kNames[] = {"", "incorrect", "ambiguous", "correct"};
  return kNames[static_cast<size_t>(verdict)];
}

Verdict verdict_of(std::span<const double> relevance, const EnrichSpec& spec) {
  double best = 0;
  for (const double r : relevance) best = std::max(best, r);
  if (relevance.empty() || best < spec.incorrect) return Verdict::kIncorrect;
  return best >= spec.correct ? Verdict::kCorrect : Verdict::kAmbiguous;
}

std::string refine(std::string_view question, std::string_view passage, size_t most) {
  if (passage.size() <= most) return std::string(passage);
  const std::vector<std::string> wanted = stems_of(question);
  const std::vector<std::string> sentences = sentences_of(passage);
  std::vector<std::pair<double, size_t>> order;
  for (size_t i = 0; i < sentences.size(); ++i) {
    const std::vector<std::string> words = stems_of(sentences[i]);
    const auto hits =
        std::ranges::count_if(wanted, [&](const auto& w) { return contains(words, w); });
    // The first sentences say what a page is about.
    order.emplace_back(-static_cast<double>(hits) - (i == 0 ? 0.5 : 0), i);
  }
  std::ranges::sort(order);
  std::vector<bool> kept(sentences.size(), false);
  size_t size = 0;
  for (const auto& [score, i] : order) {
    if (size + sentences[i].size() > most) continue;
    size += sentences[i].size();
    kept[i] = true;
  }
  std::string out;
  for (size_t i = 0; i < sentences.size(); ++i) {
    if (kept[i]) out += sentences[i];
  }
  return out.empty() ? std::string(passage.substr(0, most)) : out;
}

Citations::Citations(const std::vector<std::string>& texts) : cited_(texts.size(), false) {
  for (const std::string& text : texts) sources_.push_back(stems_of(text));
}

double Citations::support(const std::vector<std::string>& words, size_t source) const {
  if (words.empty()) return 0;
  const auto hits = std::ranges::count_if(
      words, [&](const std::string& w) { return contains(sources_[source], w); });
  return static_cast<double>(hits) / static_cast<double>(words.size());
}

std::string Citations::checked(const std::string& sentence) {
  std::string bare;
  std::vector<size_t> numbers;
  size_t at = 0;
  for (const Citation& c : citations_in(sentence)) {
    size_t end = c.begin;
    while (end > at && sentence[end - 1] == ' ') --end;
    bare += sentence.substr(at, end - at);
    at = c.end;
    numbers.push_back(c.number);
  }
  bare += sentence.substr(at);
  const std::vector<std::string> words = stems_of(bare);
  std::vector<size_t> kept;
  for (const size_t n : numbers) {
    const bool valid = n >= 1 && n <= sources_.size();
    if (valid && support(words, n - 1) >= kKeeps && std::ranges::find(kept, n) == kept.end()) {
      kept.push_back(n);
    }
  }
  if (kept.empty() && words.size() >= 2) {
    size_t best = 0;
    for (size_t s = 1; s < sources_.size(); ++s) {
      if (support(words, s) > support(words, best)) best = s;
    }
    if (!sources_.empty() && support(words, best) >= kSupports) kept.push_back(best + 1);
  }
  if (kept.empty()) return bare;
  std::string marks;
  for (const size_t n : kept) {
    marks += " [" + std::to_string(n) + "]";
    cited_[n - 1] = true;
  }
  size_t end = bare.find_last_not_of(" \n\t\r");
  end = end == std::string::npos ? 0 : end + 1;
  if (end > 0 && (bare[end - 1] == '.' || bare[end - 1] == '!' || bare[end - 1] == '?')) --end;
  return bare.substr(0, end) + marks + bare.substr(end);
}

std::string Citations::push(std::string_view text) {
  waiting_ += text;
  std::vector<std::string> sentences = sentences_of(waiting_);
  std::string out;
  // The last one may continue, and may be followed by its citation.
  for (size_t i = 0; i + 1 < sentences.size(); ++i) out += checked(sentences[i]);
  waiting_ = sentences.empty() ? "" : std::move(sentences.back());
  return out;
}

std::string Citations::finish() {
  std::string out;
  if (!waiting_.empty()) out = checked(std::exchange(waiting_, {}));
  return out;
}

}  // namespace chimere::orchestrator
