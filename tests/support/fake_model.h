// Test support: a model whose logits are a hash of all tokens of its sequence, and a tokenizer
// whose tokens are single letters.
#ifndef CHIMERE_TESTS_SUPPORT_FAKE_MODEL_H_
#define CHIMERE_TESTS_SUPPORT_FAKE_MODEL_H_

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/log_sum_exp.h"
#include "model/model.h"
#include "state/state_store.h"
#include "text/tokenizer.h"

namespace chimere::test {

/// Keeps its running hash in a real state store, through the same calls as a real model: a lost,
/// mixed-up or doubly advanced state changes every later logit. Prefill and decode rows, and
/// different chunk boundaries, give different hashes.
class FakeModel : public model::Model {
 public:
  static constexpr int64_t kVocab = 40;

  explicit FakeModel(int64_t max_pages, int64_t max_slots = 64) {
    state::StateSpec spec;
    state::ComponentSpec kv;
    kv.bytes = 64 * 64;
    state::ComponentSpec hash;
    hash.kind = state::ComponentSpec::Kind::kRecurrent;
    hash.bytes = 64;
    hash.pending_bytes = 64;
    spec.components = {kv, hash};
    spec.max_pages = max_pages;
    spec.max_slots = max_slots;
    spec.max_pending_rows = max_slots;
    store_ = state::StateStore::create(spec).value();
  }

  const std::string& architecture() const override { return architecture_; }
  int64_t n_vocab() const override { return kVocab; }
  int64_t n_embd() const override { return 1; }
  int32_t n_layers() const override { return 4; }
  int64_t context_length() const override { return 4096; }
  int64_t active_weight_bytes() const override { return 1; }
  state::StateStore& states() override { return *store_; }

  Result<model::StepResult> forward(const model::StepPlan& plan) override {
    if (!in_flight_.empty()) return invalid_argument("a step is in flight");
    return compute(plan);
  }

  /// Steps are computed at once, but their results are delivered by wait() only.
  bool supports_overlap() const override { return overlap_supported; }
  Status launch(const model::StepPlan& plan) override {
    if (in_flight_.size() > 1) return invalid_argument("two steps are in flight");
    model::StepPlan known = plan;
    bool overlapped = false;
    bool prompts = false;
    for (auto& s : known.sequences) {
      if (!s.logits_of.empty() && !s.choice) return invalid_argument("a sequence has no choice");
      if (s.async_token) s.tokens = {chosen_.at(s.state)};
      overlapped |= s.async_token;
      prompts |= s.row_class == model::RowClass::kPrefill;
    }
    async_steps += static_cast<size_t>(overlapped);
    overlapped_prompts += static_cast<size_t>(prompts && !in_flight_.empty());
    CHIMERE_TRY(const model::StepResult result, compute(known));
    Launched& launched = in_flight_.emplace_back();
    launched.partial_logits = std::exchange(partial_logits_, {});
    std::vector<kernels::TokenChoice> choices;
    std::vector<const state::SequenceState*> chosen_for;
    for (const auto& s : plan.sequences) {
      if (!s.choice) continue;
      choices.push_back(*s.choice);
      chosen_for.push_back(s.state);
    }
    launched.chosen.resize(choices.size());
    kernels::make_ref_ops()->choose(result.top, choices, launched.chosen.data());
    chosen_.clear();
    for (size_t i = 0; i < choices.size(); ++i) chosen_[chosen_for[i]] = launched.chosen[i];
    if (wrong_choice_at == steps) ++launched.chosen[0];
    return {};
  }
  Result<model::StepResult> wait() override {
    if (in_flight_.empty()) return Model::wait();
    waited_ = std::move(in_flight_.front());
    in_flight_.pop_front();
    if (fail_wait_at == ++waits) return io_error("The GPU is lost.");
    PartialLogits& e = waited_.partial_logits;
    const auto n = static_cast<int64_t>(e.sums.size());
    return model::StepResult{{},
                             {e.top.data(), n, kVocab},
                             {e.selected.data(), n, kVocab},
                             e.sums.data(),
                             waited_.chosen.data()};
  }
  size_t steps_in_flight() const { return in_flight_.size(); }

  bool can_interleave() const override { return interleave_supported; }
  bool logits_on_gpu() const override { return on_gpu; }
  bool has_drafts() const override { return true; }
  /// Two of three drafts are drawn from the logits that the token will be drawn from.
  Status draft(std::span<const model::DraftStart> starts, int depth,
               const model::ChooseDraft& choose) override {
    std::vector<state::RowsWanted> wanted;
    for (const auto& s : starts) {
      wanted.push_back({.sequence = s.state, .rows = depth, .scratch = true});
    }
    CHIMERE_TRY(const auto reservation, store_->reserve(wanted));
    std::vector<uint64_t> hashes;
    std::vector<int32_t> tokens;
    for (size_t i = 0; i < starts.size(); ++i) {
      hashes.push_back(state_before(reservation, i));
      tokens.push_back(starts[i].token);
    }
    for (int d = 0; d < depth; ++d) {
      for (size_t i = 0; i < starts.size(); ++i) {
        if (tokens[i] < 0) continue;
        hashes[i] = mix(hashes[i] ^ (static_cast<uint64_t>(tokens[i]) * 2 + 1));
        logits_.clear();
        add_logits(hashes[i] % 3 == 0 ? hashes[i] + 1 : hashes[i]);
        tokens[i] = choose(i, logits_);
        drafts += tokens[i] >= 0 ? 1 : 0;
      }
    }
    return {};
  }

  Status read_logits(int64_t row, std::span<float> out) override {
    ++rows_read;
    const auto at = partial_logits_.left.begin() + row * kVocab;
    std::copy_n(at, kVocab, out.begin());
    return {};
  }

  bool interleave_supported = false;
  bool overlap_supported = false;  ///< launch() and wait() are available
  size_t async_steps = 0;  ///< steps launched before the tokens of the previous one were known
  size_t overlapped_prompts = 0;      ///< steps with prompt rows launched while one was in flight
  size_t waits = 0;                   ///< calls of wait() that found a step
  size_t fail_wait_at = 0;            ///< the wait() that fails; 0: none
  size_t wrong_choice_at = 0;         ///< the step that reports a wrong first token; 0: none
  bool on_gpu = true;                 ///< partial logits are used where they suffice
  size_t drafts = 0;                  ///< drafts after which another one was requested
  size_t partial_logit_rows = 0;      ///< rows for which partial logits were requested
  std::atomic<size_t> rows_read = 0;  ///< rows read in full by read_logits()
  size_t steps = 0;
  size_t interleaved = 0;
  size_t max_rows = 0;
  size_t max_sequences = 0;
  size_t fail_at = 0;  ///< the step that fails; 0: none

 private:
  /// Partial logits of consecutive rows.
  struct PartialLogits {
    std::vector<kernels::TopLogit> top;
    std::vector<float> selected;
    std::vector<float> left;  ///< the logits without the selected ones
    std::vector<kernels::LogSumExp> sums;
  };

  struct Launched {
    PartialLogits partial_logits;
    std::vector<int32_t> chosen;
  };

  Result<model::StepResult> compute(const model::StepPlan& plan) {
    ++steps;
    size_t rows = 0;
    std::vector<state::RowsWanted> wanted;
    for (const auto& s : plan.sequences) {
      wanted.push_back({s.state, static_cast<int32_t>(s.tokens.size()), s.revocable});
      rows += s.tokens.size();
    }
    max_rows = std::max(max_rows, rows);
    max_sequences = std::max(max_sequences, plan.sequences.size());
    if (fail_at == steps) return io_error("The file was cut.");
    CHIMERE_TRY(auto reservation, store_->reserve(wanted));
    logits_.clear();
    partial_logits_ = {};
    size_t row = 0;
    const auto interleave = [&] {
      if (!interleave_supported || !plan.interleave || interleaving_) return;
      interleaving_ = true;
      ++interleaved;
      const std::vector<float> mine = std::exchange(logits_, {});
      const PartialLogits my_partial_logits = std::exchange(partial_logits_, {});
      plan.interleave();
      logits_ = mine;
      partial_logits_ = my_partial_logits;
      interleaving_ = false;
    };
    interleave();
    for (size_t i = 0; i < plan.sequences.size(); ++i) {
      const auto& s = plan.sequences[i];
      uint64_t hash = state_before(reservation, i);
      if (reservation.fold_from()[i] >= 0) write(reservation.read_slots()[i], hash);
      size_t chunk = 0;
      int32_t left = s.row_class == model::RowClass::kPrefill ? s.chunks.at(0) : 0;
      for (size_t r = 0; r < s.tokens.size(); ++r, ++row) {
        hash = mix(hash ^ (static_cast<uint64_t>(s.tokens[r]) * 2 +
                           (s.row_class == model::RowClass::kDecode)));
        if (s.row_class == model::RowClass::kPrefill && --left == 0) {
          hash = mix(hash + 12345);
          if (++chunk < s.chunks.size()) left = s.chunks[chunk];
        }
        if (const int32_t slot = reservation.write_slots()[row]; slot >= 0) write(slot, hash);
        if (const int32_t kept = reservation.keep_rows()[row]; kept >= 0) {
          std::memcpy(row_block(kept), &hash, sizeof(hash));
        }
        for (size_t l = 0; l < s.logits_of.size(); ++l) {
          if (static_cast<size_t>(s.logits_of[l]) != r) continue;
          if (s.top == 0) {
            add_logits(hash);
          } else {
            add_partial_logits(hash, s.selected.empty() ? std::vector<int32_t>() : s.selected[l],
                               s.masks.empty() ? kernels::TokenMask() : s.masks[l]);
          }
        }
      }
      interleave();
    }
    reservation.apply();
    const auto n = static_cast<int64_t>(logits_.size()) / kVocab;
    PartialLogits& e = partial_logits_;
    const auto n_top = static_cast<int64_t>(e.sums.size());
    return model::StepResult{ConstMatrixView(logits_.data(), n, kVocab, kVocab),
                             {e.top.data(), n_top, kVocab},
                             {e.selected.data(), n_top, kVocab},
                             e.sums.data()};
  }

  static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
  }
  uint8_t* slot(int32_t s) { return store_->component_base(1) + s * store_->slot_stride(); }
  uint8_t* row_block(int32_t b) { return store_->pending_base(1) + b * store_->row_stride(); }
  /// A pending row keeps the hash after it: the last one to fold is the state.
  uint64_t state_before(const state::Reservation& reservation, size_t i) {
    const int32_t end = reservation.fold_begin()[i + 1];
    if (end == reservation.fold_begin()[i]) return read(reservation.read_slots()[i]);
    uint64_t hash = 0;
    std::memcpy(&hash, row_block(reservation.fold_rows()[static_cast<size_t>(end) - 1]),
                sizeof(hash));
    return hash;
  }
  uint64_t read(int32_t s) {
    uint64_t hash = 0;
    std::memcpy(&hash, slot(s), sizeof(hash));
    return hash;
  }
  void write(int32_t s, uint64_t hash) { std::memcpy(slot(s), &hash, sizeof(hash)); }
  void add_logits(uint64_t hash) {
    for (int64_t v = 0; v < kVocab; ++v) {
      logits_.push_back(static_cast<float>(mix(hash + static_cast<uint64_t>(v) * 977) % 4096) /
                        512);
    }
  }

  /// All tokens of the set that are not selected, in order: more than any request asks for.
  void add_partial_logits(uint64_t hash, const std::vector<int32_t>& selected,
                          kernels::TokenMask mask) {
    std::vector<float> before = std::exchange(logits_, {});
    add_logits(hash);
    std::vector<float> logits = std::exchange(logits_, std::move(before));
    partial_logits_.sums.push_back(kernels::row_log_sum_exp(logits.data(), kVocab));
    std::vector<float> taken(kVocab, -INFINITY);
    MatrixView view = {logits.data(), 1, kVocab, kVocab};
    std::vector<int32_t> ids = selected;
    ids.resize(kVocab, -1);
    const auto ops = kernels::make_ref_ops();
    ops->gather_logits(view, ids, {taken.data(), 1, kVocab});
    std::vector<kernels::TopLogit> top(kVocab);
    ops->top_logits(view, mask, {top.data(), 1, kVocab});
    partial_logits_.selected.insert(partial_logits_.selected.end(), taken.begin(), taken.end());
    partial_logits_.top.insert(partial_logits_.top.end(), top.begin(), top.end());
    partial_logits_.left.insert(partial_logits_.left.end(), logits.begin(), logits.end());
    ++partial_logit_rows;
  }

  std::string architecture_ = "fake";
  std::unique_ptr<state::StateStore> store_;
  std::vector<float> logits_;
  PartialLogits partial_logits_;
  std::deque<Launched> in_flight_;
  Launched waited_;
  std::map<const state::SequenceState*, int32_t> chosen_;
  bool interleaving_ = false;
};

/// Token 0 ends a generation, 1 starts a message, the others are letters.
class FakeTokenizer : public text::Tokenizer {
 public:
  std::string token_bytes(int32_t id, bool) const override {
    return id < 2 ? "" : std::string(1, static_cast<char>('A' + id - 2));
  }
  int32_t n_tokens() const override { return FakeModel::kVocab; }
  int32_t bos() const override { return -1; }
  int32_t eos() const override { return 0; }
  bool add_bos() const override { return false; }
  bool add_eos() const override { return false; }
  bool is_control(int32_t id) const override { return id < 2; }
  bool is_end_of_generation(int32_t id) const override { return id == 0; }
  int32_t find(std::string_view text) const override { return text == "<|im_start|>" ? 1 : -1; }

 private:
  std::vector<int32_t> encode_where(std::string_view text,
                                    const text::AddedTokenRanges&) const override {
    std::vector<int32_t> ids;
    for (const char c : text) {
      const int32_t id = c - 'A' + 2;
      ids.push_back(id >= 2 && id < FakeModel::kVocab ? id : 1);
    }
    return ids;
  }
};

}  // namespace chimere::test

#endif  // CHIMERE_TESTS_SUPPORT_FAKE_MODEL_H_
