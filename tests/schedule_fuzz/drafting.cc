#include "drafting.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/engram_mixture.h"
#include "engine/prefix_cache.h"
#include "engine/speculation/dflash_drafter.h"
#include "engine/speculation/drafter.h"
#include "engine/speculation/lookup_drafter.h"
#include "engine/speculation/mtp_drafter.h"
#include "engine/speculation/table_drafter.h"
#include "engram/counts.h"
#include "engram/memory.h"
#include "engram/table.h"
#include "fleet.h"
#include "generations.h"
#include "support/block_drafter.h"

namespace chimere::fuzz {
namespace {

test::BlockDrafterCounts block_counts;

/// Reads the first two layers, of which the second is the last of some models.
constexpr engine::DrafterType kBlockDrafter = {
    .name = "block drafter",
    .mode = "block",
    .computes = true,
    .expected_rates = test::block_drafter_rates,
    .create = [](const engine::DrafterModels& models) -> std::unique_ptr<engine::Drafter> {
      if (models.draft->block_draft() != nullptr) return nullptr;
      return test::make_block_drafter(models, {0, 1}, block_counts);
    },
};

constexpr std::array<const engine::DrafterType*, 5> kDrafters = {
    &kBlockDrafter, &engine::kTableDrafter, &engine::kMtpDrafter, &engine::kLookupDrafter,
    &engine::kDflashDrafter};

engine::Speculation speculation_of(DraftSource source) {
  if (source == DraftSource::kAuto) return engine::Speculation::automatic();
  const uint32_t one = uint32_t{1} << static_cast<uint32_t>(source);
  return {.drafters = source == DraftSource::kAny ? ~uint32_t{0} : one, .always = true};
}

/// Texts in which each token usually has the same successor.
std::vector<std::vector<int32_t>> random_texts(std::mt19937& random) {
  std::vector<int32_t> all(kVocabulary - 2);
  std::iota(all.begin(), all.end(), 2);
  const std::vector<int32_t> block(std::begin(test::kBlockTokens), std::end(test::kBlockTokens));
  std::vector<std::vector<int32_t>> texts;
  for (std::vector<int32_t> tokens : {all, block}) {
    std::shuffle(tokens.begin(), tokens.end(), random);
    for (int i = 0; i < 4; ++i) {
      std::vector<int32_t>& text = texts.emplace_back();
      size_t at = random() % tokens.size();
      for (int t = 0; t < 80; ++t) {
        at = (random() % 5 == 0 ? random() : at + 1) % tokens.size();
        text.push_back(tokens[at]);
      }
    }
  }
  return texts;
}

/// One or two tables of different texts and orders.
Result<engram::Memory::Tables> random_tables(std::mt19937& random, const std::string& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  engram::Memory::Tables tables;
  const uint32_t n = 1 + random() % 2;
  for (uint32_t i = 0; i < n; ++i) {
    const int order = 1 + static_cast<int>(random() % 4);
    CHIMERE_TRY(const engram::Counts counts,
                engram::Counts::of(random_texts(random), order, {"texts", 20000, engram::kOne}));
    const std::string path = folder + "/" + std::to_string(i) + ".engr";
    CHIMERE_CHECK_OK(engram::write_table(path, counts, 1, {}));
    CHIMERE_TRY(std::shared_ptr<const engram::Table> table, engram::open_table(path, {}));
    tables.push_back(std::move(table));
  }
  return tables;
}

/// A request and where its drafts come from.
struct Drafted {
  engine::Request request;
  DraftSource source = DraftSource::kBlock;
  bool with_tables = false;
  engine::EngramOptions tables;

  /// The request with tables of its own: one object serves one text.
  Result<engine::Request> with(const engram::Memory::Tables& all) const {
    engine::Request r = request;
    if (!with_tables) return r;
    text::ReasoningTags tags;
    tags.open = {"<|think|>", small_tokenizer().find("<|think|>")};
    tags.close = {"<|/think|>", small_tokenizer().find("<|/think|>")};
    CHIMERE_TRY(r.sampling.auxiliary, engine::EngramMixture::create(all, tables, tags));
    return r;
  }
};

void choose_sampling(std::mt19937& random, sampling::SamplingParams& s) {
  s.temperature = std::array{0.F, 0.F, 0.7F, 1.5F}[random() % 4];
  s.top_k = std::array{0, 0, 5, 20}[random() % 4];
  s.top_p = random() % 3 == 0 ? 0.9F : 1.F;
  s.min_p = random() % 4 == 0 ? 0.05F : 0.F;
  s.presence_penalty = random() % 4 == 0 ? 0.5F : 0.F;
  s.repeat_penalty = random() % 5 == 0 ? 1.2F : 1.F;
  s.dry.multiplier = random() % 5 == 0 ? 0.8F : 0.F;
  s.xtc_probability = random() % 5 == 0 ? 0.5F : 0.F;
  s.mirostat = s.temperature > 0 && random() % 6 == 0 ? 2 : 0;
  s.logprobs = std::array{-1, 0, 3}[random() % 3];
  s.seed = random();
  // In two of three generations a draft is often right by chance.
  if (random() % 3 != 0) s.logit_bias = test::only_block_tokens(kVocabulary);
}

engine::RequestAdapters random_adapters(std::mt19937& random) {
  engine::RequestAdapters adapters;
  for (int32_t number = 0; number < kAdapters; ++number) {
    if (random() % 5 != 0) continue;
    const float scale = 0.5F * static_cast<float>(1 + random() % 3);
    adapters.uses.push_back({number, scale});
    adapters.key += std::to_string(number) + "*" + std::to_string(scale) + " ";
  }
  return adapters;
}

Drafted random_request(std::mt19937& random, DraftSource source,
                       std::span<const std::vector<int32_t>> prompts) {
  Drafted d;
  d.source = source;
  d.with_tables = source == DraftSource::kTables || random() % 3 == 0;
  d.tables.gating = random() % 2 == 0 ? engram::Gating::kLearned : engram::Gating::kKneserNey;
  d.tables.while_thinking = random() % 2 == 0;
  engine::Request& r = d.request;
  r.prompt = prompts[random() % prompts.size()];
  r.speculation = speculation_of(source);
  choose_sampling(random, r.sampling);
  r.adapters = random_adapters(random);
  r.max_tokens = static_cast<int32_t>(10 + random() % 31);
  r.min_tokens = static_cast<int32_t>(random() % 10);
  if (random() % 4 == 0) r.stop = {"z", "dd"};
  if (random() % 5 == 0) {
    r.thinking = random_thinking(random);
    r.prompt.push_back(r.thinking->open);
  }
  r.warmup = random() % 4 == 0;
  return d;
}

/// The first two requests have the drafters that every model can use. `dflash`: the draft model is
/// a DFlash model.
std::vector<Drafted> random_requests(std::mt19937& random, bool dflash) {
  const std::vector<std::vector<int32_t>> prompts = random_prompts(random);
  std::vector<Drafted> requests;
  const size_t n = 2 + random() % 4;
  for (size_t i = 0; i < n; ++i) {
    auto source = static_cast<DraftSource>(i < 2 ? i : random() % kDraftSourceNames.size());
    if (source == DraftSource::kBlock || source == DraftSource::kDflash) {
      source = dflash ? DraftSource::kDflash : DraftSource::kBlock;
    }
    requests.push_back(random_request(random, source, prompts));
  }
  std::shuffle(requests.begin(), requests.end(), random);
  return requests;
}

/// Runs the requests together; they arrive at different times.
Result<std::vector<engine::Outcome>> run_together(const std::vector<Drafted>& requests,
                                                  const engram::Memory::Tables& tables,
                                                  engine::Engine& engine, std::mt19937& random) {
  std::vector<engine::Outcome> outcomes(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    CHIMERE_TRY(engine::Request r, requests[i].with(tables));
    r.on_finish = [&outcomes, i](engine::Outcome o) { outcomes[i] = std::move(o); };
    CHIMERE_TRY(const engine::RequestId id, engine.submit(std::move(r)));
    for (uint32_t steps = random() % 8; steps > 0; --steps) engine.step();
    if (random() % 12 == 0) engine.cancel(id);
  }
  while (engine.step()) {
  }
  return outcomes;
}

void count(const Drafted& d, const engine::Outcome& outcome, DraftingCounts& counts) {
  DraftingCounts::Drafts& drafts = counts.drafts[static_cast<size_t>(d.source)];
  drafts.drafted += outcome.speculation.drafted();
  drafts.accepted += outcome.speculation.accepted();
  ++(d.request.sampling.temperature == 0 ? counts.greedy : counts.sampled);
  counts.with_tables += d.with_tables ? 1 : 0;
  counts.cancelled += outcome.reason == engine::FinishReason::kCancelled ? 1 : 0;
  counts.from_cache += outcome.reused_tokens > 0 ? 1 : 0;
}

}  // namespace

void DraftingCounts::add(const DraftingCounts& other) {
  for (size_t i = 0; i < drafts.size(); ++i) {
    drafts[i].drafted += other.drafts[i].drafted;
    drafts[i].accepted += other.drafts[i].accepted;
  }
  greedy += other.greedy;
  sampled += other.sampled;
  with_tables += other.with_tables;
  cancelled += other.cancelled;
  from_cache += other.from_cache;
  suspended += other.suspended;
}

std::optional<std::string> drafted_generations(model::Model& model, model::Model& draft_model,
                                               model::Model& solo, uint32_t seed,
                                               const std::string& folder, DraftingCounts& counts) {
  std::mt19937 random(seed);
  const auto tables = random_tables(random, folder);
  if (!tables.ok()) return tables.error().message;
  engine::PrefixCacheOptions cache_options;
  cache_options.device_states = 3;
  cache_options.memory_bytes = 1 << 20;
  auto cache = engine::PrefixCache::create(model.states(), std::move(cache_options));
  if (!cache.ok()) return cache.error().message;
  engine::EngineOptions options;
  options.max_step_rows = 200;
  options.max_running = static_cast<int32_t>(1 + random() % 6);
  options.cache = cache->get();
  options.draft_model = &draft_model;
  options.drafters = kDrafters;
  auto engine = engine::Engine::create(model, small_tokenizer(), options);
  if (!engine.ok()) return engine.error().message;
  const std::vector<Drafted> requests =
      random_requests(random, draft_model.block_draft() != nullptr);
  block_counts = {};
  const auto outcomes = run_together(requests, *tables, **engine, random);
  if (!outcomes.ok()) return outcomes.error().message;
  if (!block_counts.fault.empty()) return "block drafter: " + block_counts.fault;
  if (block_counts.proposals > 0 && block_counts.observed == 0) {
    return "the block drafter observed no rows";
  }
  counts.suspended += (*engine)->counters().evictions;
  for (size_t i = 0; i < requests.size(); ++i) {
    const Drafted& d = requests[i];
    const engine::Outcome& got = (*outcomes)[i];
    const auto fail = [&](const std::string& what) {
      return "generation " + std::to_string(i) + " of " + std::to_string(requests.size()) +
             " with drafts of " + std::string(kDraftSourceNames[static_cast<size_t>(d.source)]) +
             ": " + what;
    };
    if (got.reason == engine::FinishReason::kError) return fail(got.error.message);
    auto alone = d.with(*tables);
    if (!alone.ok()) return fail(alone.error().message);
    const auto want = run_alone(solo, std::move(alone).value());
    if (!want.ok()) return fail(want.error().message);
    if (const auto differs = difference(got, *want)) return fail(*differs);
    count(d, got, counts);
  }
  engine->reset();
  while ((*cache)->evict_context_rows()) {
  }
  if (draft_model.states().pages_in_use() != 0) return "the block drafter's states are kept";
  return std::nullopt;
}

}  // namespace chimere::fuzz
