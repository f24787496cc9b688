#include "orchestrator/intent.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "orchestrator/intent_tables.h"
#include "orchestrator/words.h"

namespace chimere::orchestrator {
namespace {

/// The best intent and its distance to the second one.
struct Best {
  std::string_view name;
  double score = 0;
  double margin = 0;
};

Best best_of(const std::map<std::string_view, double>& scores) {
  Best out;
  double second = 0;
  for (const auto& [name, score] : scores) {
    if (score > out.score) {
      second = out.score;
      out.name = name;
      out.score = score;
    } else {
      second = std::max(second, score);
    }
  }
  out.margin = out.score - second;
  return out;
}

struct FileType {
  std::string_view extension;
  std::string_view intent;
};
constexpr auto kFileTypes = std::to_array<FileType>(
    {{"py", "code"},       {"cc", "code"},      {"cpp", "code"},      {"h", "code"},
     {"rs", "code"},       {"js", "code"},      {"ts", "code"},       {"go", "code"},
     {"java", "code"},     {"rb", "code"},      {"sql", "code"},      {"cs", "code"},
     {"php", "code"},      {"kt", "code"},      {"swift", "code"},    {"pcap", "security"},
     {"evtx", "security"}, {"yar", "security"}, {"yara", "security"}, {"bib", "research"}});

constexpr auto kCodeFences = std::to_array<std::string_view>(
    {"```python", "```c", "```cpp", "```c++", "```rust", "```js", "```javascript", "```ts",
     "```java", "```go", "```sql", "```ruby", "```php"});

/// Similarities of this and less say nothing; a shipped constant, measured on the shipped embedder.
constexpr double kNearEnough = 0.45;
constexpr size_t kNeighbours = 5;

}  // namespace

std::span<const std::string_view> intent_names() {
  static constexpr auto kNames = std::to_array<std::string_view>(
      {"chat", "how-to", "code", "security", "research", "physiotherapy", "math", "write"});
  return kNames;
}

std::optional<Intent> intent_by_rules(std::string_view question) {
  std::string text = " ";
  for (const std::string& word : words_of(question)) text += word + " ";
  std::map<std::string_view, double> scores;
  for (const IntentRule& rule : kIntentRules) {
    const std::string phrase = " " + std::string(rule.phrase) + " ";
    if (text.find(phrase) != std::string::npos) scores[rule.intent] += rule.weight;
  }
  const Best best = best_of(scores);
  // One weak word decides nothing.
  if (best.score < 1.5 || best.margin < 1) return std::nullopt;
  // Surer with the margin; chosen, not fitted to questions.
  return Intent{std::string(best.name), "rules", 1 - 0.35 * std::exp(-0.7 * (best.margin - 1))};
}

std::optional<Intent> intent_by_files(std::string_view question) {
  const std::string text = lower(question);
  for (const std::string_view fence : kCodeFences) {
    const size_t at = text.find(fence);
    if (at != std::string::npos && at + fence.size() < text.size() &&
        text[at + fence.size()] == '\n') {
      return Intent{"code", "files", 0.9};
    }
  }
  std::map<std::string_view, double> scores;
  for (const std::string& word : words_of(question)) {
    const size_t dot = word.rfind('.');
    if (dot == std::string::npos || dot == 0) continue;
    const auto found =
        std::ranges::find(kFileTypes, std::string_view(word).substr(dot + 1), &FileType::extension);
    if (found != kFileTypes.end()) scores[found->intent] += 1;
  }
  const Best best = best_of(scores);
  if (best.score < 1 || best.margin < 1) return std::nullopt;
  return Intent{std::string(best.name), "files", 0.85};
}

Result<IntentExamples> IntentExamples::create(Embed embed) {
  std::vector<std::string> texts;
  for (const IntentExample& example : kIntentExamples) texts.emplace_back(example.text);
  CHIMERE_TRY(auto vectors, embed(texts));
  if (vectors.size() != texts.size()) {
    return invalid_data("The embedder returned another number of vectors than of texts.");
  }
  IntentExamples out;
  out.embed_ = std::move(embed);
  for (size_t i = 0; i < vectors.size(); ++i) {
    out.examples_.push_back({kIntentExamples[i].intent, std::move(vectors[i])});
  }
  return out;
}

std::optional<Intent> IntentExamples::classify(std::string_view question) const {
  auto vectors = embed_({std::string(question)});
  if (!vectors.ok() || vectors->size() != 1) return std::nullopt;
  const std::vector<float>& query = vectors->front();
  std::vector<std::pair<double, std::string_view>> near;
  for (const Example& example : examples_) {
    double dot = 0;
    for (size_t i = 0; i < std::min(query.size(), example.vector.size()); ++i) {
      dot += double{query[i]} * double{example.vector[i]};
    }
    near.emplace_back(dot, example.intent);
  }
  std::ranges::sort(near, std::greater<>());
  near.resize(std::min(near.size(), kNeighbours));
  if (near.empty() || near.front().first < kNearEnough) return std::nullopt;
  std::map<std::string_view, double> votes;
  double all = 0;
  for (const auto& [similarity, intent] : near) {
    const double vote = std::exp(8 * (similarity - near.front().first));
    votes[intent] += vote;
    all += vote;
  }
  const Best best = best_of(votes);
  const double share = best.score / all;
  if (share < 0.6) return std::nullopt;
  return Intent{std::string(best.name), "examples", 0.9 * share};
}

}  // namespace chimere::orchestrator
