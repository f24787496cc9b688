#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fresh_seed.h"
#include "base/settings.h"
#include "constraints/constraint.h"
#include "constraints/token_trie.h"
#include "engine/engine.h"
#include "engine/output_constraint.h"
#include "engine/prefix_cache.h"
#include "engine/speculation/cost_curve.h"
#include "engine/speculation/draft_statistics.h"
#include "engine/speculation/drafter.h"
#include "engine/speculation/drafters.h"
#include "engine/speculation/proposal.h"
#include "engine/speculation/sequence_drafts.h"
#include "engine/speculation/suffix_automaton.h"
#include "support/engine_runs.h"
#include "support/fake_model.h"

namespace chimere::engine {
namespace {

using test::FakeModel;
using test::FakeTokenizer;

/// Length of the longest suffix of `text` that also ends before its end.
int32_t longest_repeated_suffix(const std::vector<int32_t>& text) {
  const size_t n = text.size();
  int32_t best = 0;
  for (size_t end = 1; end < n; ++end) {
    size_t k = 0;
    while (k < end && text[end - 1 - k] == text[n - 1 - k]) ++k;
    best = std::max(best, static_cast<int32_t>(k));
  }
  return best;
}

TEST(SuffixAutomaton, FindsTheLongestSuffixThatOccurredBefore) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 40; ++round) {
    const auto letters = static_cast<uint32_t>(1 + random() % 5);
    SuffixAutomaton automaton;
    std::vector<int32_t> text;
    for (int i = 0; i < 150; ++i) {
      text.push_back(static_cast<int32_t>(random() % letters) * 1000003);
      automaton.push(text.back());
      const int32_t length = automaton.match_length();
      ASSERT_EQ(length, longest_repeated_suffix(text));
      if (length == 0) continue;
      const auto next = static_cast<size_t>(automaton.match_next());
      ASSERT_LT(next, text.size());
      ASSERT_GE(next, static_cast<size_t>(length));
      for (size_t k = 1; k <= static_cast<size_t>(length); ++k) {
        ASSERT_EQ(text[next - k], text[text.size() - k]);
      }
    }
  }
}

TEST(SuffixAutomaton, PrefersALatePosition) {
  SuffixAutomaton automaton;
  for (const int32_t t : {1, 2, 3, 1, 2, 4, 1, 2}) automaton.push(t);
  EXPECT_EQ(automaton.match_length(), 2);
  EXPECT_EQ(automaton.match_next(), 5);
}

/// The drafts of one generation that looks its text up, with measured costs of a step of one row
/// and of two rows.
class Lookups {
 public:
  Lookups(double one_row, double two_rows) {
    for (int i = 0; i < 9; ++i) {
      drafters_.record_step(1, 1, one_row);
      drafters_.record_step(2, 1, two_rows);
    }
    Speculation when_it_pays = *Speculation::named("ngram");
    when_it_pays.always = false;
    drafts = drafters_.start(when_it_pays, {}, nullptr);
  }
  void propose(const std::vector<int32_t>& history) {
    drafters_.propose(std::vector<DraftingSequence>{{drafts.get(), history, nullptr, 8}}, 1, 64);
  }
  void record_step(int32_t rows, double seconds) { drafters_.record_step(rows, 1, seconds); }

  std::unique_ptr<SequenceDrafts> drafts;

 private:
  FakeModel model_{4};
  Drafters drafters_{{model_}, drafter_types()};
};

/// Lookups that are wrong are no longer verified, and verified again once they are right, without
/// spending rows on it.
TEST(Drafters, ScoreUnverifiedLookups) {
  Lookups lookups(1.0, 1.45);  // a row pays if half of the drafts are accepted
  // Recurring pairs, each followed by a different token; then recurring whole texts.
  std::vector<int32_t> history;
  int rows = 0;
  int right = 0;
  const auto push = [&](int32_t token) {
    lookups.propose(history);
    const auto drafts = lookups.drafts->drafts();
    rows += static_cast<int>(drafts.size());
    int32_t accepted = !drafts.empty() && drafts[0] == token ? 1 : 0;
    right += accepted;
    lookups.drafts->end(accepted, false);
    history.push_back(token);
  };
  for (int32_t i = 0; i < 60; ++i) {
    push(1);
    push(2);
    push(100 + i);
  }
  EXPECT_LE(rows, 2);
  const size_t half = history.size();
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < half; ++i) push(history[i]);
  }
  EXPECT_GT(right, 300);
}

/// A cost that was measured badly once does not end drafting.
TEST(Drafters, MeasureTheCostOfLookupsAgain) {
  Lookups lookups(1.0, 30.0);
  std::vector<int32_t> history;
  int with_drafts = 0;
  constexpr int kRounds = 2000;
  for (int i = 0; i < kRounds; ++i) {
    history.push_back(i % 10);
    lookups.propose(history);
    const auto n = static_cast<int32_t>(lookups.drafts->drafts().size());
    with_drafts += n > 0 ? 1 : 0;
    lookups.drafts->end(n, false);
    for (int32_t k = 1; k <= n; ++k) history.push_back((i + k) % 10);
    i += n;
    lookups.record_step(1 + n, 1 + 0.1 * n);
  }
  EXPECT_GT(with_drafts, 20);
}

/// The drafts of one of eight generations under a constraint. A step takes 8 seconds and `row`
/// seconds more for each draft.
class ConstrainedDrafts {
 public:
  static constexpr int32_t kSequences = 8;

  explicit ConstrainedDrafts(double row) : row_(row) {
    const auto trie = constraints::TokenTrie::create(tokenizer_, FakeModel::kVocab);
    const constraints::GbnfSpec letters{"root ::= \"" + std::string(2000, 'B') + "\""};
    const auto compiled = constraints::Constraint::compile({letters, {}}, trie).value();
    constraint_.emplace(compiled->matcher(), tokenizer_, FakeModel::kVocab);
    drafts_ = drafters_.start(Speculation::off(), {}, &*constraint_);
  }
  /// The drafts of the next step, which are all accepted.
  int32_t step() {
    drafters_.propose(std::vector<DraftingSequence>{{drafts_.get(), history_, nullptr, 8}},
                      kSequences, 64);
    const auto n = static_cast<int32_t>(drafts_->drafts().size());
    for (int32_t i = 0; i <= n; ++i) {
      EXPECT_TRUE(constraint_->accept(tokenizer_.encode("B", false)[0]).value());
    }
    drafts_->end(n, false);
    drafters_.record_step(kSequences + n, kSequences, kSequences + row_ * n);
    return n;
  }

 private:
  double row_;
  FakeTokenizer tokenizer_;
  FakeModel model_{64};
  Drafters drafters_{{model_}, drafter_types()};
  std::optional<OutputConstraint> constraint_;
  std::unique_ptr<SequenceDrafts> drafts_;
  std::vector<int32_t> history_ = {5};
};

/// Certain text is verified together where a row costs less than a step's share, and otherwise only
/// to measure that.
TEST(SequenceDrafts, CertainTokensAreVerifiedTogetherWherePossibleAtAGain) {
  for (const double row : {0.5, 0.95}) {
    ConstrainedDrafts generation(row);
    int steps = 0;
    int with_drafts = 0;
    for (; steps < 150; ++steps) with_drafts += generation.step() > 0 ? 1 : 0;
    if (row < 0.9) {
      EXPECT_GT(with_drafts, 130);
    } else {
      EXPECT_GT(with_drafts, 0);
      EXPECT_LT(with_drafts, 10);
    }
  }
}

/// A GPU whose next steps are the first of their shape as often as `first` says.
class CapturesSteps final : public FakeModel {
 public:
  using FakeModel::FakeModel;
  int64_t first_steps() const override { return first; }

  int64_t first = 0;
};

TEST(Drafters, StepsThatAreTheFirstOfTheirShapeAreNotMeasured) {
  CapturesSteps model(64);
  Drafters drafters({model}, drafter_types());
  for (const double seconds : {90.0, 70.0}) {
    ++model.first;
    drafters.record_step(8, 1, seconds);
  }
  EXPECT_EQ(drafters.step_costs().seconds(8), 0);
  drafters.record_step(8, 1, 2.0);
  EXPECT_EQ(drafters.step_costs().seconds(8), 2.0);
  // But a shape that is captured again and again costs what that takes.
  for (int i = 0; i < 20; ++i) {
    ++model.first;
    drafters.record_step(8, 1, 70.0);
  }
  EXPECT_EQ(drafters.step_costs().seconds(8), 70.0);
}

TEST(SequenceDrafts, IdleEndsWithTheRoundThatFindsADraft) {
  Lookups lookups(1.0, 1.1);
  std::vector<int32_t> history;
  const auto push = [&](int32_t token) {
    lookups.drafts->end(0, false);
    history.push_back(token);
    lookups.propose(history);
  };
  for (int32_t i = 0; i < SequenceDrafts::kIdleAfter; ++i) {
    EXPECT_FALSE(lookups.drafts->idle());
    push(100 + i);
  }
  EXPECT_TRUE(lookups.drafts->idle());
  push(100);
  EXPECT_TRUE(lookups.drafts->idle());
  push(101);
  EXPECT_FALSE(lookups.drafts->drafts().empty());
  EXPECT_FALSE(lookups.drafts->idle());
}

TEST(ProposalBuilder, EndsWithTheFirstDraftThatDoesNotPay) {
  CostCurve steps(0);
  CostCurve passes(0);
  for (const int32_t rows : {1, 2, 3}) steps.add(rows, 1 + 0.3 * rows);
  passes.add(1, 0.2);
  const Acceptance rates({0.9, 0.1});
  const DraftCosts costs = {&steps, &passes, 1};
  // A token takes 1.3, a row 0.33, a pass 0.2: rows pay above 0.254, passes above 0.408.
  ProposalBuilder chain(rates, costs, 8, 0, nullptr);
  int kept = 0;
  while (chain.add({100 + kept, 0})) ++kept;
  EXPECT_EQ(kept, 8) << "0.9^8 > 0.254";
  EXPECT_TRUE(chain.full());
  EXPECT_FALSE(chain.worth_pass(0));
  const Proposal p = chain.take();
  EXPECT_NEAR(p.probability, std::pow(0.9, 8), 1e-9);
  double gain = 0;
  for (int i = 1; i <= 8; ++i) gain += std::pow(0.9, i) * 1.3 - 0.33;
  EXPECT_NEAR(p.gain, gain, 1e-9);
  EXPECT_EQ(p.tokens.size(), 8U);
  EXPECT_EQ(p.evidence.size(), 8U);

  ProposalBuilder doubtful(rates, costs, 8, 0, nullptr);
  EXPECT_FALSE(doubtful.add({5, 1}));
  EXPECT_EQ(doubtful.take().first.token, 5) << "a shadow draft";

  ProposalBuilder always(rates, costs, 8, 1, nullptr);
  EXPECT_TRUE(always.add({5, 1}));
  EXPECT_FALSE(always.add({6, 0})) << "only the first draft is kept in any case";
  EXPECT_FALSE(always.worth_pass(0));
  EXPECT_EQ(always.take().tokens, std::vector<int32_t>{5});

  ProposalBuilder all(rates, costs, 3, 3, nullptr);
  for (const int32_t token : {5, 6, 7}) {
    EXPECT_TRUE(all.worth_pass(1));
    EXPECT_TRUE(all.add({token, 1}));
  }
  EXPECT_FALSE(all.worth_pass(1));
  EXPECT_FALSE(all.add({8, 0}));
}

TEST(Speculation, NamesAreTheSettingsChoices) {
  std::vector<std::string_view> choices(settings::kSpeculate.choices.begin(),
                                        settings::kSpeculate.choices.end());
  EXPECT_EQ(Speculation::names(), choices);
  for (const std::string_view name : choices) EXPECT_TRUE(Speculation::named(name)) << name;
  EXPECT_FALSE(Speculation::named("mpt"));
  EXPECT_EQ(Speculation::named("off"), Speculation::off());
  EXPECT_EQ(Speculation::named("auto"), Speculation::automatic());
  EXPECT_TRUE(reads_draft_kv(*Speculation::named("mtp")));
  EXPECT_TRUE(reads_draft_kv(Speculation::automatic()));
  EXPECT_FALSE(reads_draft_kv(*Speculation::named("ngram")));
  EXPECT_FALSE(reads_draft_kv(Speculation::off()));
}

TEST(SuffixAutomaton, ARepeatedTokenIsNoProblem) {
  SuffixAutomaton automaton;
  for (int i = 0; i < 50000; ++i) automaton.push(7);
  EXPECT_EQ(automaton.match_length(), 49999);
}

TEST(CostCurve, InterpolatesBetweenMedians) {
  CostCurve curve(0.5);
  EXPECT_EQ(curve.seconds(3), 0);
  for (const double s : {1.0, 1.1, 90.0, 0.9, 1.0}) curve.add(1, s);
  EXPECT_EQ(curve.seconds(1), 1.0);
  EXPECT_EQ(curve.seconds(3), 2.0);  // growth
  curve.add(5, 3.0);
  EXPECT_EQ(curve.seconds(3), 2.0);  // half way
  EXPECT_EQ(curve.seconds(5), 3.0);
  EXPECT_GT(curve.seconds(6), 3.0);
  EXPECT_EQ(curve.measured(5), 1);
  EXPECT_EQ(curve.measured(2), 0);
  CostCurve above(1);
  above.add(4, 8.0);
  EXPECT_EQ(above.seconds(1), 2.0);
  for (int i = 0; i < 20; ++i) above.add(4, 4.0);  // old measurements are forgotten
  EXPECT_EQ(above.seconds(4), 4.0);
}

TEST(CostCurve, TheSlopeIsThatOfALine) {
  CostCurve curve(0.5);
  EXPECT_EQ(curve.slope(), 0);
  curve.add(2, 3.0);
  EXPECT_NEAR(curve.slope(), 1.0, 1e-12) << "growth, as long as one size is known";
  for (const int32_t rows : {1, 3, 4, 7}) curve.add(rows, 1.0 + rows);
  EXPECT_NEAR(curve.slope(), 1.0, 1e-12);
  CostCurve flat(0.5);
  for (const int32_t rows : {1, 2, 3}) flat.add(rows, 5.0 - rows);
  EXPECT_NEAR(flat.slope(), 4.0 / 50, 1e-12) << "more rows never take less";
}

TEST(DraftPolicy, IdlesLongerAfterEachFailedTrial) {
  using DraftDecision = DraftPolicy::DraftDecision;
  // Rounds with drafts, and the number of rounds that updated the MTP head's KV cache.
  const auto run = [](bool gain_expected, int rounds, std::vector<int>& probes,
                      std::vector<int>& drafts) {
    DraftPolicy policy;
    int updates = 0;
    for (int round = 1; round <= rounds; ++round) {
      const DraftDecision decision = policy.decide(gain_expected);
      updates += policy.reads_rows() ? 1 : 0;
      EXPECT_FALSE(policy.reads_prompts() && policy.mean() < 0);
      if (decision == DraftDecision::kProbe) probes.push_back(round);
      if (decision != DraftDecision::kDraft) continue;
      drafts.push_back(round);
      policy.record_gain(drafts.size() % 2 == 0 ? 0.4 : -0.6);
    }
    return updates;
  };
  std::vector<int> probes;
  std::vector<int> drafts;
  EXPECT_EQ(run(false, 4000, probes, drafts), 15) << "without an expected gain, only probes";
  EXPECT_EQ(probes, (std::vector<int>{4, 8, 12, 16 + 512, 16 + 512 + 64 + 2048}));
  EXPECT_TRUE(drafts.empty());

  probes.clear();
  const int updates = run(true, 40000, probes, drafts);
  ASSERT_EQ(drafts.size(), 4U * 12) << "failed trials";
  EXPECT_EQ(drafts[0], 17) << "a short run has a trial, too";
  EXPECT_GT(drafts[12] - drafts[11], 512);
  for (size_t i = 24; i < 48; i += 12) {
    EXPECT_NEAR(drafts[i] - drafts[i - 1], 4 * (drafts[i - 12] - drafts[i - 13]), 400);
  }
  EXPECT_EQ(updates, 16 + 12 + 3 * (48 + 12));

  DraftPolicy good;
  while (good.decide(true) != DraftDecision::kDraft) {
  }
  for (int round = 0; round < 1000; ++round) {
    good.record_gain(round % 2 == 0 ? 0.6 : -0.3);
    ASSERT_EQ(good.decide(true), DraftDecision::kDraft);
  }
  EXPECT_TRUE(good.reads_prompts());
  EXPECT_NEAR(good.mean(), 0.15, 0.05);
}

TEST(DraftPolicy, AStepOfSeveralSequencesEndsATrialOnce) {
  DraftPolicy policy;
  const auto next = [&policy] {
    int rounds = 1;
    while (policy.decide(true) == DraftPolicy::DraftDecision::kNone) ++rounds;
    return rounds;
  };
  while (policy.decide(true) != DraftPolicy::DraftDecision::kDraft) {
  }
  for (int sequence = 0; sequence < 8; ++sequence) policy.record_gain(-1);
  EXPECT_EQ(next(), 512);
}

TEST(DraftPolicy, ReadsFewRowsBeforeTheFirstDecision) {
  DraftPolicy policy;
  for (int i = 0; i < 64; ++i) policy.begin_round();
  EXPECT_TRUE(policy.reads_rows());
  policy.begin_round();
  EXPECT_FALSE(policy.reads_rows()) << "other drafters, or a constraint, have drafted all the time";
}

/// Gains of single rounds vary by more than one token.
TEST(DraftPolicy, StopsWhenItIsCertainThatNothingIsGained) {
  // Rounds with drafts before drafting stops, at most 300, in rising order.
  const auto rounds_of = [](double gain) {
    std::mt19937 random(7);
    std::normal_distribution<double> noise(0, 1.2);
    std::vector<int> all(99);
    for (int& rounds : all) {
      DraftPolicy policy;
      while (policy.decide(true) != DraftPolicy::DraftDecision::kDraft) {
      }
      do {
        policy.record_gain(gain + noise(random));
      } while (++rounds < 300 && policy.decide(true) == DraftPolicy::DraftDecision::kDraft);
    }
    std::ranges::sort(all);
    return all;
  };
  const std::vector<int> good = rounds_of(0.4);
  EXPECT_EQ(good[20], 300) << "at most a fifth of good drafters fail";
  const std::vector<int> bad = rounds_of(-0.5);
  EXPECT_LE(bad[50], 12);
  EXPECT_LT(bad.back(), 100);
}

using Sources = std::vector<std::string_view>;

Sources sources_of(const SpeculationCounts& counts) {
  Sources names;
  for (const DraftCounts& of : counts.sources) names.push_back(of.source);
  std::ranges::sort(names);
  return names;
}

Outcome run(const Request& request, FakeModel& model) {
  const FakeTokenizer tokenizer;
  const auto engine = Engine::create(model, tokenizer, {}).value();
  Outcome outcome = test::ask(*engine, request);
  const SpeculationCounts totals = engine->counters().speculation;
  EXPECT_EQ(sources_of(totals), sources_of(outcome.speculation));
  EXPECT_EQ(totals.drafted(), outcome.speculation.drafted());
  EXPECT_EQ(totals.accepted(), outcome.speculation.accepted());
  return outcome;
}

std::vector<int32_t> ids(const Outcome& o) {
  std::vector<int32_t> all;
  for (const auto& t : o.tokens) all.push_back(t.id);
  return all;
}

TEST(Speculation, CountsDraftsBySource) {
  SpeculationCounts counts;
  EXPECT_EQ(counts.drafted(), 0);
  counts.add("dflash", 15, 9);
  counts.add("ngram", 4, 4);
  counts.add("dflash", 15, 2);
  EXPECT_EQ(sources_of(counts), (Sources{"dflash", "ngram"}));
  EXPECT_EQ(counts.sources[0].drafted, 30);
  EXPECT_EQ(counts.sources[0].accepted, 11);
  EXPECT_EQ(counts.drafted(), 34);
  EXPECT_EQ(counts.accepted(), 15);
  Sources names = {kConstraintSource};
  for (const DrafterType* type : drafter_types()) names.push_back(type->name);
  std::ranges::sort(names);
  EXPECT_EQ(names, (Sources{"constraint", "dflash", "mtp", "ngram", "tables"}));
}

TEST(Speculation, SavesStepsAndChangesNoToken) {
  Request request;
  request.prompt = {5, 6, 7};
  request.sampling.temperature = 1;
  request.sampling.logit_bias = {{0, -1e9F}};  // the model never ends the generation
  request.max_tokens = 300;
  for (const uint64_t seed : {1, 2, 3}) {
    request.sampling.seed = seed;
    request.speculation = Speculation::off();
    FakeModel plain(64);
    const Outcome expected = run(request, plain);
    ASSERT_EQ(expected.tokens.size(), 300U);
    EXPECT_EQ(expected.speculation.drafted(), 0);

    request.speculation = *Speculation::named("mtp");
    FakeModel model(64);
    const Outcome fast = run(request, model);
    EXPECT_EQ(ids(fast), ids(expected));
    EXPECT_GT(fast.speculation.accepted(), 100);
    EXPECT_LT(fast.speculation.accepted(), fast.speculation.drafted());
    EXPECT_EQ(sources_of(fast.speculation), Sources{"mtp"});
    EXPECT_EQ(model.steps, plain.steps - static_cast<size_t>(fast.speculation.accepted()));
    EXPECT_EQ(model.states().slots_in_use(), 0);
    EXPECT_EQ(model.states().pending_rows_in_use(), 0);
  }
}

TEST(Speculation, VerifiesAllDraftsInEveryStep) {
  constexpr int64_t kChain = 4;
  Request request;
  request.prompt = {5, 6, 7};
  request.sampling.temperature = 1;
  request.sampling.logit_bias = {{0, -1e9F}};
  request.max_tokens = 300;
  request.speculation = *Speculation::named("mtp");
  request.speculation.all = true;
  FakeModel model(64);
  const Outcome o = run(request, model);
  ASSERT_EQ(o.tokens.size(), 300U);
  const auto decode_steps = static_cast<int64_t>(model.steps) - 1;
  EXPECT_EQ(o.speculation.accepted(), 299 - decode_steps);
  // The last steps can use 3, 2, 1 and no drafts.
  EXPECT_GE(o.speculation.drafted(), kChain * decode_steps - (1 + 2 + 3 + 4));
}

TEST(Speculation, LookupDraftsRepetitions) {
  Request request;
  for (int i = 0; i < 100; ++i) request.prompt.push_back(2 + i % 10);
  // Only two tokens, one of them far more likely: the generation repeats itself.
  for (int32_t id = 0; id < FakeModel::kVocab; ++id) {
    if (id != 5 && id != 6) request.sampling.logit_bias.push_back({id, -1e9F});
  }
  request.sampling.logit_bias.push_back({5, 20});
  request.sampling.temperature = 1;
  request.max_tokens = 200;
  FakeModel plain(64);
  const Outcome expected = run(request, plain);
  request.speculation = *Speculation::named("ngram");
  FakeModel model(64);
  const Outcome fast = run(request, model);
  EXPECT_EQ(ids(fast), ids(expected));
  // The number of drafts per step depends on measured step costs.
  EXPECT_GT(fast.speculation.accepted(), 40);
  EXPECT_EQ(sources_of(fast.speculation), Sources{"ngram"});
  EXPECT_LT(model.steps, plain.steps - 40);
}

/// Predicts one successor of each token with near certainty.
class Successors final : public sampling::AuxiliaryLm {
 public:
  Status tokens(std::span<const int32_t> history, std::vector<int32_t>& out) override {
    out.push_back(likeliest(history).id);
    return {};
  }
  Status mix(const sampling::AuxiliaryView& view, std::span<const int32_t> history,
             sampling::AuxiliaryMixture& mixture) override {
    const auto sums = view.sums != nullptr ? *view.sums : sampling::log_sum_exp(view.logits);
    mixture.log_sum = sampling::distribution_of(sums).log_sum;
    mixture.shares = {likeliest(history)};
    return {};
  }
  sampling::TokenMass likeliest(std::span<const int32_t> history) override {
    return {static_cast<int32_t>(1 + (history.back() + 4) % (FakeModel::kVocab - 1)), 0.99F};
  }
};

TEST(Speculation, DraftsFromTheTablesOfARequest) {
  Request request;
  request.prompt = {5};
  request.sampling.temperature = 1;
  request.sampling.auxiliary = std::make_shared<Successors>();
  request.max_tokens = 30;
  FakeModel plain(64);
  const Outcome expected = run(request, plain);
  request.speculation = *Speculation::named("ngram");
  FakeModel model(64);
  const Outcome fast = run(request, model);
  EXPECT_EQ(ids(fast), ids(expected));
  EXPECT_GT(fast.speculation.accepted(), 8);
  const Sources sources = sources_of(fast.speculation);
  EXPECT_EQ(std::ranges::count(sources, std::string_view("tables")), 1);
  EXPECT_LT(model.steps, plain.steps);
}

/// Counts the prefill rows whose KV is written for the MTP head.
class CountsDraftKv final : public FakeModel {
 public:
  using FakeModel::FakeModel;

  Result<model::StepResult> forward(const model::StepPlan& plan) override {
    for (const model::SequenceRows& s : plan.sequences) {
      if (s.row_class != model::RowClass::kPrefill) continue;
      prefill += s.tokens.size();
      if (plan.update_draft_kv) with_draft_kv += s.tokens.size();
    }
    return FakeModel::forward(plan);
  }

  size_t prefill = 0;
  size_t with_draft_kv = 0;
};

TEST(Speculation, WarmUpsWriteTheKvOfTheMtpHead) {
  const FakeTokenizer tokenizer;
  for (const std::string_view mode : {"off", "mtp"}) {
    SCOPED_TRACE(mode);
    CountsDraftKv model(64);
    const auto cache = PrefixCache::create(model.states(), {}).value();
    const auto engine = Engine::create(model, tokenizer, {.cache = cache.get()}).value();
    Request request;
    request.prompt.assign(70, 9);
    request.sampling.temperature = 1;
    request.sampling.logit_bias = {{0, -1e9F}};
    request.max_tokens = 150;
    request.speculation = *Speculation::named(mode);
    ASSERT_TRUE(engine->submit(std::move(request)).ok());
    while (engine->step()) {
    }
    EXPECT_GE(engine->counters().warmup_tokens, 64);
    EXPECT_GT(model.prefill, 70U);
    EXPECT_EQ(model.with_draft_kv, mode == "mtp" ? model.prefill : 0U);
  }
}

TEST(Speculation, ContinuesWithoutDraftsWhenMemoryIsFull) {
  Request request;
  request.prompt.assign(60, 9);
  request.sampling.temperature = 1;
  request.sampling.logit_bias = {{0, -1e9F}};
  request.speculation = *Speculation::named("mtp");
  FakeModel model(2, 2);  // two pages, and as many pending rows
  const Outcome o = run(request, model);
  EXPECT_EQ(o.reason, FinishReason::kContextFull) << o.error.message;
  EXPECT_EQ(o.tokens.size(), 128U - 60U);
}

}  // namespace
}  // namespace chimere::engine
