#include "world.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <utility>

#include "fleet.h"
#include "kernels/log_sum_exp.h"

namespace chimere::fuzz {
namespace {

constexpr size_t kMaxJobs = 7;
constexpr size_t kMaxStepRows = 256;

uint32_t bits(float x) { return std::bit_cast<uint32_t>(x); }

/// Whether the first `n` are the largest of these logits in order, without the selected tokens and
/// those outside `mask` (empty: none are outside).
bool same_largest(std::span<const kernels::TopLogit> got, std::span<const float> logits,
                  std::span<const int32_t> selected, kernels::TokenMask mask, int32_t n) {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < static_cast<int32_t>(logits.size()); ++id) {
    const bool allowed = mask.empty() || kernels::contains(mask, id);
    if (allowed && std::ranges::find(selected, id) == selected.end()) ids.push_back(id);
  }
  const auto logit = [&](int32_t id) { return logits[static_cast<size_t>(id)]; };
  std::ranges::stable_sort(ids, [&](int32_t a, int32_t b) { return logit(a) > logit(b); });
  if (got.size() < static_cast<size_t>(n)) return false;
  for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
    if (i >= ids.size()) return got[i].id == -1;
    if (got[i].id != ids[i] || bits(got[i].value) != bits(logit(ids[i]))) return false;
  }
  return true;
}

/// Whether a row's selected logits and statistics equal those of the full row of logits.
bool same_selected(const model::StepResult& got, int64_t row, std::span<const float> logits,
                   std::span<const int32_t> selected) {
  for (size_t i = 0; i < selected.size(); ++i) {
    const float logit = logits[static_cast<size_t>(selected[i])];
    if (bits(got.selected.row(row)[i]) != bits(logit)) return false;
  }
  return true;
}
bool same_sums(const kernels::LogSumExp& got, std::span<const float> logits) {
  const auto want = kernels::row_log_sum_exp(logits.data(), static_cast<int64_t>(logits.size()));
  return got.e == want.e && got.xe == want.xe && got.largest == want.largest;
}

}  // namespace

std::optional<std::string> World::run() {
  open_cache();
  arrivals_left_ = 1 + below(9);
  popular_ = below(static_cast<uint32_t>(requests_.size()));
  for (size_t i = 0; i < requests_.size() && requests_[popular_].chunks.size() < 2; ++i) {
    popular_ = (popular_ + 1) % requests_.size();
  }
  const uint32_t ticks = 8 + below(25);
  for (uint32_t t = 0; t < ticks && !failure_; ++t) {
    if (jobs_.empty() && arrivals_left_ == 0) break;
    tick();
  }
  jobs_.clear();
  cache_.reset();
  const state::StateStore& states = model_.states();
  if (states.pages_in_use() + states.window_pages_in_use() + states.slots_in_use() +
          states.pending_rows_in_use() !=
      0) {
    fail(std::to_string(states.pages_in_use()) + " pages, " +
         std::to_string(states.slots_in_use()) + " slots and " +
         std::to_string(states.pending_rows_in_use()) +
         " pending rows are still in use at the end");
  }
  return failure_;
}

void World::tick() {
  while (arrivals_left_ > 0 && jobs_.size() < kMaxJobs && (jobs_.empty() || chance(40))) {
    --arrivals_left_;
    const size_t any = below(static_cast<uint32_t>(requests_.size()));
    jobs_.push_back(
        {chance(50) ? popular_ ^ below(2) : any, model_.states().create_sequence(), {}, {}, {}});
    if (chance(80)) recall(jobs_.back());
  }
  if (chance(4)) {
    cache_->save_all(std::chrono::steady_clock::time_point::max());
    open_cache();
    ++counts_.cache_starts;
  }
  for (Job& job : jobs_) {
    if (job.state == nullptr && chance(35)) come_back(job);
  }
  if (model_.has_drafts() && chance(60)) draft();
  step();
  remove_finished();
  if (model_.supports_overlap() && !failure_ && chance(25)) overlap_scheduling();
  // Jobs that a disturbance appends or moves here are skipped until the next tick.
  for (size_t i = jobs_.size(); i-- > 0;) {
    if (jobs_[i].state != nullptr) disturb(i);
  }
}

/// Drafts of the model for some of the generations, in chains of different lengths, to be verified
/// in the next step.
void World::draft() {
  std::vector<size_t> asking;
  std::vector<model::DraftStart> starts;
  for (size_t i = 0; i < jobs_.size(); ++i) {
    Job& job = jobs_[i];
    job.drafts.clear();
    if (job.state == nullptr) continue;
    const Request& request = request_of(job);
    const int32_t position = job.state->position();
    const bool decoding =
        position >= request.prompt && position + 1 < static_cast<int32_t>(request.tokens.size());
    if (!decoding || chance(30)) continue;
    asking.push_back(i);
    starts.push_back({job.state.get(), request.tokens[static_cast<size_t>(position)]});
  }
  if (asking.empty()) return;
  const auto choose = [&](size_t i, std::span<const float> logits) {
    return choose_draft(jobs_[asking[i]], logits);
  };
  const Status drafted = model_.draft(starts, 1 + static_cast<int>(below(5)), choose);
  if (drafted.ok()) return;
  for (const size_t i : asking) jobs_[i].drafts.clear();
  if (drafted.error().code != Error::Code::kOutOfMemory) return fail(drafted.error().message);
  ++counts_.refusals;
}

/// The request's next token, the most likely one, or a random one.
int32_t World::choose_draft(Job& job, std::span<const float> logits) {
  if (logits.size() != kVocabulary) fail("drafts are chosen from another vocabulary");
  const Request& request = request_of(job);
  const size_t next = static_cast<size_t>(job.state->position()) + 1 + job.drafts.size();
  const uint32_t kind = below(8);
  if (kind == 0) return -1;
  auto token = static_cast<int32_t>(below(kVocabulary));
  if (kind < 6 && next < request.tokens.size()) {
    token = request.tokens[next];
  } else if (kind == 6) {
    token = static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
  }
  job.drafts.push_back(token);
  return token;
}

void World::step() {
  std::vector<size_t> order(jobs_.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), rng_);
  const bool divided = model_.can_interleave() && chance(30);
  Step whole;
  Step inside;
  for (const size_t job : order) {
    if (jobs_[job].state == nullptr || chance(20)) continue;
    Part part;
    model::SequenceRows rows = plan_rows(job, part);
    Step& step = divided && chance(50) ? inside : whole;
    if (step.rows + rows.tokens.size() > kMaxStepRows) continue;
    step.rows += rows.tokens.size();
    step.plan.sequences.push_back(std::move(rows));
    step.parts.push_back(std::move(part));
  }
  if (whole.parts.empty()) return;
  whole.plan.update_draft_kv = chance(70);
  if (chance(20)) whole.plan.taps = {0};
  inside.plan.update_draft_kv = whole.plan.update_draft_kv;
  bool full = false;
  auto wait = static_cast<int32_t>(below(4));
  if (!inside.parts.empty()) {
    whole.plan.interleave = [&] {
      if (wait-- != 0) return;
      ++counts_.interleaved;
      full = !compute(inside);
    };
  }
  full |= !compute(whole);
  if (!full || failure_) return;
  remove_finished();  // the other one of the two steps may have completed them
  if (!jobs_.empty()) relieve();
}

/// False if a pool is exhausted.
bool World::compute(const Step& step) {
  auto result = model_.forward(step.plan);
  for (const Part& part : step.parts) {
    const state::SequenceState& state = *jobs_[part.job].state;
    const bool stays = !result.ok() || part.revocable;
    if ((state.position() == part.first) != stays ||
        (state.pending_rows() > 0) != (result.ok() && part.revocable)) {
      fail("a sequence's position is wrong after a step");
      return true;
    }
  }
  if (!result.ok()) {
    if (result.error().code != Error::Code::kOutOfMemory) fail(result.error().message);
    ++counts_.refusals;
    return false;
  }
  ++counts_.steps;
  count_drafts(step.parts);
  check_logits(step.parts, *result);
  commit(step.parts);
  return true;
}

model::SequenceRows World::plan_rows(size_t job, Part& part) {
  const Request& request = request_of(jobs_[job]);
  model::SequenceRows rows;
  rows.state = jobs_[job].state.get();
  rows.adapters = request.adapters;
  part.job = job;
  part.first = rows.state->position();
  if (part.first < request.prompt) {
    plan_chunks(request, rows);
    part.correct = static_cast<int32_t>(rows.tokens.size());
  } else {
    plan_steps(request, rows, part);
  }
  for (int32_t row = 0; row < static_cast<int32_t>(rows.tokens.size()); ++row) {
    if (chance(50)) rows.logits_of.push_back(row);
  }
  if (chance(10)) std::shuffle(rows.logits_of.begin(), rows.logits_of.end(), rng_);
  if (chance(40)) rows.top = chance(50) ? 1 : 1 + static_cast<int32_t>(below(kVocabulary));
  if (rows.top > 0) {
    rows.sums = chance(30);
    if (chance(40)) {
      const auto most = 1 + below(chance(80) ? 12 : kVocabulary);
      for (size_t i = 0; i < rows.logits_of.size(); ++i) rows.selected.push_back(some_ids(most));
    }
  }
  part.logits_of = rows.logits_of;
  part.top = rows.top;
  if (rows.top > 0 && chance(40)) {
    for (size_t i = 0; i < rows.logits_of.size(); ++i) part.masks.push_back(some_mask());
    rows.masks.assign(part.masks.begin(), part.masks.end());
  }
  part.selected = rows.selected;
  part.sums = rows.sums;
  part.revocable = rows.revocable;
  return rows;
}

/// At most `most` token ids in ascending order.
/// Half of the tokens, few or none; or an empty vector, which stands for all.
std::vector<uint32_t> World::some_mask() {
  std::vector<uint32_t> mask;
  const uint32_t kind = below(4);
  if (kind == 0) return mask;
  mask.resize(static_cast<size_t>(kernels::mask_words(model_.n_vocab())));
  for (uint32_t& word : mask) {
    word = kind == 1 ? static_cast<uint32_t>(rng_()) : kind == 2 ? 1U << below(32) : 0;
  }
  return mask;
}

std::vector<int32_t> World::some_ids(uint32_t most) {
  std::vector<int32_t> ids(below(most + 1));
  for (int32_t& id : ids) id = static_cast<int32_t>(below(kVocabulary));
  std::ranges::sort(ids);
  const auto again = std::ranges::unique(ids);
  ids.erase(again.begin(), again.end());
  return ids;
}

/// The next one to three chunks of the prompt.
void World::plan_chunks(const Request& request, model::SequenceRows& rows) {
  rows.row_class = model::RowClass::kPrefill;
  int32_t at = 0;
  for (const int32_t size : request.chunks) {
    if (at >= rows.state->position() &&
        (rows.chunks.empty() || (rows.chunks.size() < 3 && chance(50)))) {
      rows.chunks.push_back(size);
      rows.tokens.insert(rows.tokens.end(), request.tokens.begin() + at,
                         request.tokens.begin() + at + size);
    } else if (!rows.chunks.empty()) {
      break;
    }
    at += size;
  }
}

/// One or more tokens of the generation, or a verification whose last rows may be wrong drafts.
void World::plan_steps(const Request& request, model::SequenceRows& rows, Part& part) {
  const auto left = static_cast<int32_t>(request.tokens.size()) - part.first;
  const std::vector<int32_t> drafts = std::exchange(jobs_[part.job].drafts, {});
  if (!drafts.empty()) {
    const auto begin = request.tokens.begin() + part.first;
    rows.revocable = true;
    rows.tokens.assign(1, *begin);
    rows.tokens.insert(rows.tokens.end(), drafts.begin(), drafts.end());
    const auto known = std::ranges::mismatch(rows.tokens, std::span(begin, request.tokens.end()));
    part.correct = static_cast<int32_t>(known.in1 - rows.tokens.begin());
    part.drafts = drafts.size();
    return;
  }
  rows.revocable = chance(40);
  const bool several = rows.revocable || chance(15);
  part.correct = std::min(left, several ? 1 + static_cast<int32_t>(below(5)) : 1);
  const auto begin = request.tokens.begin() + part.first;
  rows.tokens.assign(begin, begin + part.correct);
  if (rows.revocable) {
    for (uint32_t wrong = below(4); wrong > 0; --wrong) {
      rows.tokens.push_back(static_cast<int32_t>(below(kVocabulary)));
    }
  }
}

void World::count_drafts(const std::vector<Part>& parts) {
  size_t fewest = SIZE_MAX;
  size_t most = 0;
  for (const Part& part : parts) {
    if (part.drafts == 0) continue;
    fewest = std::min(fewest, part.drafts);
    most = std::max(most, part.drafts);
    counts_.drafts_accepted += part.correct - 1;
    counts_.drafts_rejected += static_cast<int64_t>(part.drafts) - (part.correct - 1);
  }
  if (most > 0 && fewest < most) ++counts_.mixed_depths;
}

void World::check_logits(const std::vector<Part>& parts, const model::StepResult& result) {
  int64_t out = 0;
  int64_t out_top = 0;
  for (const Part& part : parts) {
    Request& request = request_of(jobs_[part.job]);
    if (request.solo.empty()) {
      auto solo = run_solo(solo_, request);
      if (!solo.ok()) return fail("solo run: " + solo.error().message);
      request.solo = std::move(solo).value();
    }
    for (size_t i = 0; i < part.logits_of.size(); ++i) {
      const int32_t row = part.logits_of[i];
      const int64_t at = part.top > 0 ? out_top++ : out++;
      if (row >= part.correct) continue;  // after a wrong draft
      const int64_t position = part.first + row;
      const auto want =
          std::span(request.solo).subspan(static_cast<size_t>(position) * kVocabulary, kVocabulary);
      ++counts_.rows_checked;
      counts_.top_rows_checked += part.top > 0;
      bool same = false;
      if (part.top > 0) {
        const std::vector<int32_t> selected =
            part.selected.empty() ? std::vector<int32_t>() : part.selected[i];
        counts_.selected_checked += static_cast<int64_t>(selected.size());
        counts_.sums_checked += part.sums;
        const kernels::TokenMask mask = part.masks.empty() ? kernels::TokenMask() : part.masks[i];
        counts_.masks_checked += mask.empty() ? 0 : 1;
        same = same_largest(result.top.row(at), want, selected, mask, part.top) &&
               same_selected(result, at, want, selected) &&
               (!part.sums || same_sums(result.sums[at], want));
      } else {
        same = std::memcmp(result.logits.row(at), want.data(), want.size_bytes()) == 0;
      }
      if (!same) {
        return fail("the logits of position " + std::to_string(position) + " of request " +
                    std::to_string(jobs_[part.job].request) + " (prompt of " +
                    std::to_string(request.prompt) + ") differ from its solo run, in a step with " +
                    std::to_string(parts.size()) + " sequences" +
                    (part.top > 0 ? ", among the largest" : ""));
      }
    }
  }
  if (out != result.logits.rows || out_top != result.top.rows) {
    fail("the number of logits rows is wrong");
  }
}

/// Accepts some or all of the correct rows of every verification.
void World::commit(const std::vector<Part>& parts) {
  for (const Part& part : parts) {
    if (!part.revocable) continue;
    Job& job = jobs_[part.job];
    if (chance(15)) job.checkpoints.push_back(job.state->checkpoint());  // of the state before
    const int32_t keep = chance(70)
                             ? part.correct
                             : static_cast<int32_t>(below(static_cast<uint32_t>(part.correct) + 1));
    counts_.rows_taken_back += job.state->pending_rows() - keep;
    if (const Status status = job.state->commit(keep); !status.ok()) fail(status.error().message);
  }
}

/// The rows of a block drafter, which are all taken back: tokens, input vectors, and a block that
/// is not causal where the model takes one.
void World::draft_block(Job& job) {
  model::SequenceRows rows;
  rows.state = job.state.get();
  rows.revocable = true;
  const uint32_t n = 1 + below(6);
  for (uint32_t i = 0; i < n; ++i) {
    rows.logits_of.push_back(static_cast<int32_t>(i));
    if (chance(50)) {
      rows.tokens.push_back(static_cast<int32_t>(below(kVocabulary)));
      continue;
    }
    rows.tokens.push_back(model::SequenceRows::kEmbeddingRow);
    for (int64_t e = 0; e < model_.n_embd(); ++e) {
      rows.embeddings.push_back(static_cast<float>(below(2001)) / 1000 - 1);
    }
  }
  rows.block = static_cast<int32_t>(below(n + 1));
  model::StepPlan plan = {{std::move(rows)}};
  auto result = model_.forward(plan);
  if (!result.ok() && result.error().code == Error::Code::kUnsupported) {
    plan.sequences[0].block = 0;
    result = model_.forward(plan);
  }
  if (!result.ok()) {
    if (result.error().code != Error::Code::kOutOfMemory) fail(result.error().message);
    ++counts_.refusals;
    return;
  }
  ++counts_.drafted_blocks;
  counts_.non_causal_blocks += plan.sequences[0].block > 1;
  if (const Status status = job.state->commit(0); !status.ok()) fail(status.error().message);
}

/// A pool is exhausted: evicts or cancels a job.
void World::relieve() {
  if (chance(50) && cache_->evict()) {
    ++counts_.forced_evictions;
    return;
  }
  Job& job = jobs_[below(static_cast<uint32_t>(jobs_.size()))];
  job.checkpoints.clear();
  if (job.state != nullptr && chance(70)) evict(job);
}

void World::disturb(size_t i) {
  Job& job = jobs_[i];
  remember(job);
  const uint32_t what = below(100);
  if (what < 14) {
    job.checkpoints.push_back(job.state->checkpoint());
  } else if (what < 22 && !job.checkpoints.empty()) {
    ++counts_.restores;
    job.state = job.checkpoints[below(static_cast<uint32_t>(job.checkpoints.size()))].restore();
  } else if (what < 30 && jobs_.size() < kMaxJobs) {
    fork(i);
  } else if (what < 38) {
    evict(job);
  } else if (what < 41) {
    ++counts_.cancellations;
    remove(i);
  } else if (what < 46) {
    draft_block(job);
  }
}

/// Forks a job, with the sibling's tokens if they have not diverged yet.
void World::fork(size_t i) {
  ++counts_.forks;
  Job twin;
  twin.request = jobs_[i].request;
  twin.state = jobs_[i].state->fork();
  if (twin.state->position() <= request_of(jobs_[i]).shared && chance(70)) twin.request ^= 1U;
  jobs_.push_back(std::move(twin));
}

void World::evict(Job& job) {
  ++counts_.evictions;
  job.blob = job.state->checkpoint().to_blob();
  job.state.reset();
}

void World::come_back(Job& job) {
  auto state = model_.states().from_blob(job.blob);
  if (!state.ok()) {
    if (state.error().code != Error::Code::kOutOfMemory) return fail(state.error().message);
    ++counts_.refusals;
    return relieve();
  }
  ++counts_.returns;
  job.state = std::move(state).value();
}

void World::open_cache() {
  engine::PrefixCacheOptions options;
  options.device_states = 1 + below(6);
  options.memory_bytes = chance(70) ? 8 << 20 : 0;
  options.disk = {folder_, 1 << 20, 0};
  options.weights = state::WeightsHash::known({1, 2});
  options.log = [this](const std::string& what) { fail(what); };
  auto cache = engine::PrefixCache::create(model_.states(), std::move(options));
  if (!cache.ok()) return fail(cache.error().message);
  cache_ = std::move(cache).value();
}

/// Gives the state to the prefix cache if it is at a chunk border of the prompt.
void World::remember(const Job& job) {
  const Request& request = request_of(job);
  const int32_t position = job.state->position();
  int32_t end = 0;
  for (const int32_t size : request.chunks) {
    end += size;
    if (end != position) continue;
    cache_->keep(cache_scope(request),
                 std::span(request.tokens).first(static_cast<size_t>(position)),
                 job.state->checkpoint(), {});
    ++counts_.cached;
    counts_.adapted += request.adapters.empty() ? 0 : 1;
  }
}

/// Continues from the cached prefix of the prompt.
void World::recall(Job& job) {
  const Request& request = request_of(job);
  std::vector<int64_t> ends;
  int64_t end = 0;
  for (const int32_t size : request.chunks) ends.push_back(end += size);
  const auto prompt = std::span(request.tokens).first(static_cast<size_t>(request.prompt));
  engine::PrefixCache::Search search;
  engine::PrefixCache::Found found = cache_->find(cache_scope(request), prompt, ends, &search);
  while (found.loading) {
    cache_->wait();
    cache_->poll();
    found = cache_->find(cache_scope(request), prompt, ends, &search);
  }
  const engine::CacheTier tier =
      search.loads > 0 && found.state ? engine::CacheTier::kDisk : found.tier;
  ++counts_.hits[static_cast<size_t>(tier)];
  if (found.state) job.state = found.state->restore();
}

void World::remove(size_t i) {
  std::swap(jobs_[i], jobs_.back());
  jobs_.pop_back();
}

void World::remove_finished() {
  for (size_t i = jobs_.size(); i-- > 0;) {
    const Job& job = jobs_[i];
    if (job.state == nullptr) continue;
    if (job.state->position() == static_cast<int32_t>(request_of(job).tokens.size())) {
      ++counts_.completions;
      remove(i);
    }
  }
}

}  // namespace chimere::fuzz
