#include "orchestrator/search/answer_search.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "orchestrator/words.h"

namespace chimere::orchestrator {
namespace {

using protocol::ApiError;
using protocol::ChatReply;
using protocol::ChatRequest;
using Strategy = SearchSpec::Strategy;

/// What separates the steps of an answer.
constexpr const char* kStepEnd = "\n\n";

class Search {
 public:
  Search(const ChatRequest& request, const SearchSpec& spec, const SearchModel& model,
         SearchResult& out)
      : request_(request), spec_(spec), model_(model), out_(out) {
    seed_ = request.settings.get(settings::kSeed);
    if (seed_ < 0) seed_ = 1;
  }

  /// Whole answers, sampled at the same time.
  std::optional<ApiError> samples() {
    std::vector<Candidate> states(static_cast<size_t>(spec_.width));
    // As many at a time as the budget certainly allows, judged by what the first ones cost.
    size_t done = 0;
    size_t batch = std::min<size_t>(2, states.size());
    while (done < states.size()) {
      const std::span<Candidate> now(states.data() + done, batch);
      if (auto error = extend(now, false)) return error;
      done += batch;
      const int64_t each = std::max<int64_t>(1, out_.spent / static_cast<int64_t>(done));
      const int64_t left = std::max<int64_t>(0, spec_.budget - out_.spent) / each;
      batch =
          static_cast<size_t>(std::min<int64_t>(left, static_cast<int64_t>(states.size() - done)));
      if (batch == 0) break;
    }
    states.resize(done);
    if (spec_.strategy == Strategy::kMajority) {
      vote(states);
    } else if (auto error = score(states)) {
      return error;
    } else {
      // Those between which the judge sees no difference: the majority's first.
      std::vector<Candidate> voted = states;
      vote(voted);
      std::vector<size_t> order(states.size());
      std::iota(order.begin(), order.end(), size_t{0});
      std::ranges::stable_sort(order, std::greater<>(), [&](size_t i) { return voted[i].score; });
      std::ranges::transform(order, voted.begin(), [&](size_t i) { return states[i]; });
      states = std::move(voted);
    }
    finish(std::move(states));
    report(1);
    return std::nullopt;
  }

  /// kBeam and kDvts: rounds of steps. A round that the budget does not allow is left out; the
  /// states are then finished as they are.
  std::optional<ApiError> tree() {
    std::vector<Candidate> states(static_cast<size_t>(spec_.width));
    for (size_t i = 0; i < states.size(); ++i) states[i].subtree = static_cast<int64_t>(i);
    int64_t last_round = 0;
    for (int64_t depth = 0; depth < spec_.depth && !states.empty(); ++depth) {
      const int64_t before = out_.spent;
      if (depth > 0 && before + last_round > spec_.budget) break;
      std::vector<Candidate> children;
      for (const Candidate& state : states) {
        for (int64_t b = 0; b < spec_.branches; ++b) children.push_back(state);
      }
      if (auto error = extend(children, true)) return error;
      if (auto error = score(children)) return error;
      states = select(std::move(children));
      last_round = out_.spent - before;
      report(depth + 1, states);
      std::vector<Candidate> open;
      for (Candidate& state : states) {
        (state.finished ? ended_ : open).push_back(std::move(state));
      }
      states = std::move(open);
    }
    // What the budget or the depth cut off is completed without further branching, best first.
    std::ranges::sort(states, std::greater<>(), &Candidate::score);
    if (!states.empty() && (ended_.empty() || states.front().score > best_ended())) {
      states.resize(1);
      if (auto error = extend(states, false)) return error;
      if (auto error = score(states)) return error;
      ended_.push_back(std::move(states.front()));
    }
    finish(std::move(ended_));
    return std::nullopt;
  }

 private:
  double best_ended() const { return std::ranges::max(ended_, {}, &Candidate::score).score; }

  /// Generates a step, or the rest, of each state.
  std::optional<ApiError> extend(std::span<Candidate> states, bool one_step) {
    std::vector<ChatRequest> requests;
    for (const Candidate& state : states) {
      ChatRequest& request = requests.emplace_back(request_);
      if (!state.text.empty()) {
        text::ChatMessage begun;
        begun.role = "assistant";
        begun.content = state.text;
        request.messages.push_back(std::move(begun));
      }
      (void)request.settings.set(settings::kSeed, std::to_string(seed_++), "search");
      const bool given =
          std::ranges::find(request.given, settings::kTemperature.name) != request.given.end();
      if (!given && request.settings.get(settings::kTemperature) < 0.5) {
        // Equal candidates are worth one.
        (void)request.settings.set(settings::kTemperature, "0.8", "search");
      }
      if (one_step) {
        (void)request.settings.set(settings::kMaxTokens, std::to_string(spec_.step_tokens),
                                   "search");
        request.stop.emplace_back(kStepEnd);
      }
    }
    std::vector<ChatReply> replies(requests.size());
    if (auto error = model_.generate(requests, replies)) return error;
    for (size_t i = 0; i < states.size(); ++i) {
      const protocol::Choice& choice = replies[i].choice;
      out_.spent += cost_of(replies[i].usage);
      ++out_.generations;
      states[i].text += choice.content;
      states[i].finish_reason = choice.finish_reason;
      const bool step_ended =
          one_step && (choice.stop_text == kStepEnd || choice.finish_reason == "length");
      states[i].finished = !step_ended || choice.context_full;
      if (choice.stop_text == kStepEnd) states[i].text += kStepEnd;
    }
    return std::nullopt;
  }

  std::optional<ApiError> score(std::span<Candidate> states) {
    std::vector<std::string> answers;
    for (const Candidate& state : states) answers.push_back(state.text);
    std::vector<double> scores;
    if (auto error = model_.judge(answers, scores, out_.spent)) return error;
    for (size_t i = 0; i < states.size(); ++i) states[i].score = scores[i];
    return std::nullopt;
  }

  void vote(std::span<Candidate> states) const {
    std::map<std::string, int64_t> votes;
    for (const Candidate& state : states) ++votes[final_answer(state.text)];
    for (Candidate& state : states) {
      state.score =
          static_cast<double>(votes[final_answer(state.text)]) / static_cast<double>(states.size());
    }
  }

  /// kBeam: the best `width` of all; kDvts: the best of each subtree.
  std::vector<Candidate> select(std::vector<Candidate> children) const {
    std::ranges::stable_sort(children, std::greater<>(), &Candidate::score);
    std::vector<Candidate> out;
    for (Candidate& child : children) {
      const bool taken =
          spec_.strategy == Strategy::kDvts
              ? std::ranges::find(out, child.subtree, &Candidate::subtree) != out.end()
              : out.size() >= static_cast<size_t>(spec_.width);
      if (!taken) out.push_back(std::move(child));
    }
    return out;
  }

  void finish(std::vector<Candidate> states) {
    std::ranges::stable_sort(states, std::greater<>(), &Candidate::score);
    if (!states.empty()) out_.best = states.front();
    if (out_.best.finish_reason.empty()) out_.best.finish_reason = "stop";
    out_.finished = std::move(states);
  }

  void report(int64_t round) { report(round, out_.finished); }
  void report(int64_t round, std::span<const Candidate> states) {
    if (model_.on_round) model_.on_round(round, states, out_.spent);
  }

  const ChatRequest& request_;
  const SearchSpec& spec_;
  const SearchModel& model_;
  SearchResult& out_;
  int64_t seed_;
  std::vector<Candidate> ended_;
};

}  // namespace

int64_t cost_of(const protocol::Usage& usage) {
  return usage.prompt_tokens - usage.cached_tokens + usage.completion_tokens;
}

std::string final_answer(std::string_view text) {
  std::string last;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::vector<std::string> words = words_of(text.substr(0, end));
    if (!words.empty()) {
      last.clear();
      for (const std::string& word : words) {
        if (word[0] >= '0' && word[0] <= '9') last = word;
      }
      if (last.empty()) {
        for (const std::string& word : words) last += (last.empty() ? "" : " ") + word;
      }
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return last;
}

std::optional<ApiError> search_answer(const ChatRequest& request, const SearchSpec& spec,
                                      const SearchModel& model, SearchResult& out) {
  out = {};
  Search search(request, spec, model, out);
  const bool tree = spec.strategy == Strategy::kBeam || spec.strategy == Strategy::kDvts;
  return tree ? search.tree() : search.samples();
}

}  // namespace chimere::orchestrator
