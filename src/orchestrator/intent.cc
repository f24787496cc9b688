#include "orchestrator/intent.h"

#include <algorithm>
#include <utility>

#include "orchestrator/words.h"

namespace chimere::orchestrator {
namespace {

/// From this probability on the classifier decides: 95% of such examples are right in
/// cross-validation.
constexpr double kSure = 0.7;

}  // namespace

IntentCascade::IntentCascade(std::vector<IntentSpec> intents, Embed embed)
    : intents_(std::move(intents)),
      embed_(std::move(embed)),
      words_(lexicon_of(intents_)),
      classifier_(intents_, words_) {
  for (size_t i = 0; i < intents_.size(); ++i) {
    for (const std::string& phrase : intents_[i].phrases) {
      phrases_.add(phrase, static_cast<uint32_t>(i));
    }
    for (const std::string& ending : intents_[i].files) files_[lower(ending)] = i;
  }
  rule_precision_ = precision(&IntentCascade::rule);
  file_precision_ = precision(&IntentCascade::file);
}

double IntentCascade::precision(std::optional<size_t> (IntentCascade::*stage)(std::string_view)
                                    const) const {
  double right = 1;
  double decided = 2;
  for (size_t i = 0; i < intents_.size(); ++i) {
    for (const std::string& text : intents_[i].examples) {
      const auto said = (this->*stage)(text);
      decided += said ? 1 : 0;
      right += said == i ? 1 : 0;
    }
  }
  return right / decided;
}

std::optional<size_t> IntentCascade::rule(std::string_view question) const {
  const std::vector<std::string> words = intent_words(question);
  const auto phrases = phrases_.hits(words);
  if (phrases.empty()) return std::nullopt;
  const uint32_t intent = phrases.front().classes.front();
  for (const IntentLexicon::Hit& hit : phrases) {
    if (hit.classes != std::vector<uint32_t>{intent}) return std::nullopt;
  }
  const auto within_phrase = [&phrases](const IntentLexicon::Hit& hit) {
    return std::ranges::any_of(phrases, [&hit](const IntentLexicon::Hit& phrase) {
      return hit.begin >= phrase.begin && hit.begin < phrase.begin + phrase.words;
    });
  };
  for (const IntentLexicon::Hit& hit : words_.hits(words)) {
    const bool same = std::ranges::any_of(
        hit.classes, [intent](uint32_t c) { return intent_of_class(c) == intent; });
    if (!same && !within_phrase(hit)) return std::nullopt;
  }
  return intent;
}

std::optional<size_t> IntentCascade::file(std::string_view question) const {
  std::optional<size_t> intent;
  const auto add = [&](const std::string& ending) {
    const auto found = files_.find(ending);
    if (found == files_.end()) return true;
    if (intent && *intent != found->second) return false;
    intent = found->second;
    return true;
  };
  for (const std::string& word : words_of(question)) {
    const size_t dot = word.rfind('.');
    if (dot == std::string::npos || dot == 0) continue;
    if (!add(word.substr(dot + 1))) return std::nullopt;
  }
  constexpr std::string_view kFence = "```";
  for (size_t at = question.find(kFence); at != std::string_view::npos;
       at = question.find(kFence, at + kFence.size())) {
    const size_t begin = at + kFence.size();
    const size_t end = question.find('\n', begin);
    if (end == std::string_view::npos) break;
    if (!add(lower(question.substr(begin, end - begin)))) return std::nullopt;
  }
  if (!intent) return std::nullopt;
  const auto by_words = sure(classifier_.probabilities(question), "words");
  if (by_words && by_words->name != intents_[*intent].name) return std::nullopt;
  return intent;
}

std::optional<Intent> IntentCascade::by_rules(std::string_view question) const {
  const auto intent = rule(question);
  if (!intent) return std::nullopt;
  return Intent{intents_[*intent].name, "rules", rule_precision_};
}

std::optional<Intent> IntentCascade::by_files(std::string_view question) const {
  const auto intent = file(question);
  if (!intent) return std::nullopt;
  return Intent{intents_[*intent].name, "files", file_precision_};
}

std::optional<Intent> IntentCascade::sure(const std::vector<double>& probabilities,
                                          const char* stage) const {
  const auto best = std::ranges::max_element(probabilities);
  if (best == probabilities.end() || *best < kSure) return std::nullopt;
  return Intent{intents_[static_cast<size_t>(best - probabilities.begin())].name, stage, *best};
}

std::optional<Intent> IntentCascade::by_words(std::string_view question) const {
  return sure(classifier_.probabilities(question), "words");
}

std::optional<Intent> IntentCascade::by_examples(std::string_view question) const {
  if (!embed_) return std::nullopt;
  std::call_once(neighbours_->made, [this] {
    auto made = IntentNeighbours::create(intents_, classifier_, embed_);
    if (made.ok()) neighbours_->examples = *std::move(made);
  });
  if (!neighbours_->examples) return std::nullopt;
  const auto probabilities =
      neighbours_->examples->probabilities(question, classifier_.probabilities(question));
  return probabilities.ok() ? sure(*probabilities, "examples") : std::nullopt;
}

std::vector<Intent> IntentCascade::ranked(std::string_view question) const {
  const std::vector<double> probabilities = classifier_.probabilities(question);
  std::vector<Intent> out;
  for (size_t i = 0; i < intents_.size(); ++i) {
    out.push_back({intents_[i].name, "", probabilities[i]});
  }
  std::ranges::stable_sort(out, std::greater<>(), &Intent::confidence);
  return out;
}

}  // namespace chimere::orchestrator
