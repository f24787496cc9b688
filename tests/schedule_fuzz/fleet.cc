#include "fleet.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <random>
#include <utility>

#include "kernels/cuda/cuda_ops.h"
#include "support/family_model.h"
#include "support/synthetic_model.h"
#include "support/tiny_adapter.h"
#include "support/tiny_drafter.h"

namespace chimere::fuzz {
namespace {

/// A random element of `options`.
template <typename T>
T pick(std::mt19937& rng, std::initializer_list<T> options) {
  return options.begin()[rng() % options.size()];
}

/// Types of the keys and values of model `number`: 30 models cover every type with every
/// architecture, several runs every pair.
void choose_cache_types(uint64_t seed, uint64_t number, int head_dim,
                        model::ModelOptions& options) {
  constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0};
  const size_t fitting = head_dim % 32 == 0 ? 5 : 3;
  options.cache_k = kTypes[(seed + number + number / 6) % fitting];
  options.cache_v = kTypes[(seed / 5 + 2 * number) % fitting];
}

constexpr const char* kFirst[] = {"qwen35moe", "qwen3moe",  "qwen35",
                                  "qwen3",     "qwen3next", test::kSynthetic};

/// Three models in five are of the first architectures, of which every second one has MTP heads,
/// the others of the other families. Two rounds of five have each of the former, as many rounds as
/// half the families each of the latter.
std::string choose_architecture(uint64_t seed, uint64_t number) {
  constexpr uint64_t kRound = 5;
  const uint64_t in_round = number % kRound;
  if (in_round % 2 == 0) {
    return kFirst[(seed + 3 * (number / kRound) + in_round / 2) % std::size(kFirst)];
  }
  return test::kFamilies[(seed + 2 * (number / kRound) + in_round / 2) %
                         std::size(test::kFamilies)];
}

/// Six models cover every format of weights, a long run every architecture with each.
void choose_formats(uint64_t seed, uint64_t number, test::TinyModel& m) {
  std::vector<DType> formats(std::begin(test::kWeightFormats), std::end(test::kWeightFormats));
  std::shuffle(formats.begin(), formats.end(), std::mt19937(static_cast<uint32_t>(seed)));
  const uint64_t at = 4 * number;
  m.experts = formats[at % formats.size()];
  m.mixers = formats[(at + 1) % formats.size()];
  m.embedding = formats[(at + 2) % formats.size()];
  m.head = formats[(at + 3) % formats.size()];
}

void choose_shape(std::mt19937& rng, test::TinyModel& m) {
  m.n_vocab = kVocabulary;
  m.attention_interval = m.n_layers = pick(rng, {2, 2, 3});
  m.n_kv_heads = pick(rng, {1, 2});
  m.n_heads = m.n_kv_heads * pick(rng, {1, 2, 6});
  m.head_dim = pick(rng, {16, 32, 64});
  m.n_k_heads = pick(rng, {1, 2});
  m.n_v_heads = m.n_k_heads * pick(rng, {1, 2, 3});
  m.state_dim = pick(rng, {16, 32, 64});
  const bool mamba2 = m.architecture == "mamba2" || m.architecture == "granitehybrid" ||
                      m.architecture == "falcon-h1" || m.architecture == "zamba2" ||
                      m.architecture.starts_with("nemotron");
  if (mamba2 && m.state_dim == 64) m.state_dim = 128;  // GPUs multiply chunks on tensor cores
  m.n_experts = pick(rng, {3, 4, 6});
  m.n_used = pick(rng, {2, 3});
  m.tied_head = pick(rng, {false, false, true});
  m.fused_attention = pick(rng, {false, true});
  m.fused_gate_up = pick(rng, {false, true});
  m.fused_ba = m.architecture == "qwen3next" && pick(rng, {false, true});
  m.fused_in = m.architecture == "qwen3next" && pick(rng, {false, true});
  m.qkv_bias = m.architecture == "llama" && pick(rng, {false, true});
  m.rope_freqs = m.architecture == "llama" && pick(rng, {false, true});
  if (m.architecture == "llama") {
    m.window = pick(rng, {0, 0, 30, 100});
    m.all_biases = pick(rng, {false, true});
    m.llama_experts = pick(rng, {false, false, true});
    m.separate_experts = m.llama_experts && pick(rng, {false, true});
  }
  if (m.architecture == "gpt-oss") m.window = pick(rng, {5, 30, 64, 100});
  if (m.architecture.starts_with("nemotron")) m.n_layers = 3;  // one of each kind
  // The smallest shapes of whole blocks, for speed.
  const int stream =
      std::max({dtype_info(m.experts).block_elements, dtype_info(m.mixers).block_elements,
                dtype_info(m.embedding).block_elements, dtype_info(m.head).block_elements});
  m.n_embd = stream <= 32 ? 64 : stream;
  m.n_ff = m.n_ff_shared = std::max(32, dtype_info(m.experts).block_elements);
}

std::string describe(const test::TinyModel& m, const model::ModelOptions& options) {
  const auto name = [](DType type) { return std::string(dtype_name(type)); };
  return m.architecture + ", experts " + name(m.experts) + ", mixers " + name(m.mixers) +
         ", embedding " + name(m.embedding) + ", head " + name(m.head) + ", keys " +
         name(options.cache_k) + ", values " + name(options.cache_v) + ", experts' top-p " +
         std::to_string(options.expert_top_p);
}

/// On the CPU if `device` is nullptr.
Status make_ops(FleetModel::Instance& instance, int threads, kernels::cuda::Device* device,
                const kernels::cuda::WeightPlacement& places) {
  instance.pool = std::make_unique<ThreadPool>(threads);
  if (device != nullptr) {
    CHIMERE_TRY(instance.ops, kernels::cuda::make_cuda_ops(*device, *instance.pool, places));
  } else {
    instance.ops = kernels::make_cpu_ops(*instance.pool);
  }
  return {};
}

Status load(FleetModel::Instance& instance, const gguf::Reader& file, int threads,
            kernels::cuda::Device* device, const model::ModelOptions& options,
            const kernels::cuda::WeightPlacement& places = {}) {
  CHIMERE_CHECK_OK(make_ops(instance, threads, device, places));
  CHIMERE_TRY(instance.model, test::load_any_model(file, *instance.ops, options));
  return {};
}

Status load_oracle(FleetModel::Instance& instance, const gguf::Reader& file,
                   const model::ModelOptions& options) {
  instance.ops = kernels::make_ref_ops();
  CHIMERE_TRY(instance.model, test::load_any_model(file, *instance.ops, options));
  return {};
}

Status open(const gguf::Writer& writer, FleetModel::Drafter& drafter) {
  drafter.bytes = writer.bytes();
  CHIMERE_TRY(drafter.file, gguf::Reader::from_bytes(drafter.bytes.data(), drafter.bytes.size()));
  return {};
}

/// A plain transformer, whatever the target is, and a drafter of the target's size.
Status load_drafters(FleetModel& m, uint64_t seed, kernels::cuda::Device* first,
                     kernels::cuda::Device* second) {
  test::TinyModel shape;
  shape.architecture = "qwen3";
  shape.seed = seed;
  shape.n_layers = 2;
  shape.n_embd = 32;
  shape.n_heads = 2;
  shape.n_kv_heads = 1;
  shape.n_vocab = kVocabulary;
  CHIMERE_TRY(const gguf::Writer plain, test::make_tiny_model(shape));
  CHIMERE_CHECK_OK(open(plain, m.plain));
  CHIMERE_CHECK_OK(load(m.plain.with_threads[0], *m.plain.file, 1, first, {}));
  CHIMERE_CHECK_OK(load(m.plain.with_threads[1], *m.plain.file, 2, second, {}));

  shape.n_embd = static_cast<int>(m.solo.model->n_embd());
  // The second layer is the last of some models.
  CHIMERE_TRY(const gguf::Writer dflash,
              test::make_tiny_drafter({.seed = seed, .taps = {0, 1}, .mask_token = 3}, shape));
  CHIMERE_CHECK_OK(open(dflash, m.dflash));
  const auto load_dflash = [&m](FleetModel::Instance& instance) -> Status {
    CHIMERE_TRY(instance.model,
                model::load_block_drafter(*m.dflash.file, *m.file, *instance.ops, {}));
    return {};
  };
  CHIMERE_CHECK_OK(make_ops(m.dflash.with_threads[0], 1, first, {}));
  CHIMERE_CHECK_OK(make_ops(m.dflash.with_threads[1], 2, second, {}));
  CHIMERE_CHECK_OK(load_dflash(m.dflash.with_threads[0]));
  return load_dflash(m.dflash.with_threads[1]);
}

/// Gives every instance the same adapters, which change what all of them can change.
Status add_adapters(FleetModel& m, uint64_t seed) {
  const bool experts = m.with_threads[0].ops->adapts_experts();
  std::vector<model::AdapterTarget> targets;
  for (const model::AdapterTarget& t : m.solo.model->adapter_targets()) {
    if (experts || !t.in_experts) targets.push_back(t);
  }
  for (int i = 0; i < kAdapters; ++i) {
    const test::TinyAdapter shape = {.seed = seed + static_cast<uint64_t>(i),
                                     .rank = 1 + 4 * i,
                                     .size = 0.3F,
                                     .type = i == 1 ? DType::kF16 : DType::kF32};
    CHIMERE_TRY(const gguf::Writer writer,
                test::make_tiny_adapter(shape, m.solo.model->architecture(), targets));
    const std::vector<uint8_t> bytes = writer.bytes();
    CHIMERE_TRY(const auto file, gguf::Reader::from_bytes(bytes.data(), bytes.size()));
    for (FleetModel::Instance* instance :
         {&m.with_threads[0], &m.with_threads[1], &m.solo, &m.oracle}) {
      model::Model& model = *instance->model;
      CHIMERE_TRY(model::Adapter adapter,
                  model::read_adapter(*file, model.architecture(), model.adapter_targets()));
      CHIMERE_TRY(const int32_t number, model.add_adapter(std::move(adapter)));
      if (number != i) return invalid_argument("the adapters have other numbers");
    }
  }
  return {};
}

}  // namespace

std::vector<std::string> fleet_architectures() {
  std::vector<std::string> all(std::begin(kFirst), std::end(kFirst));
  all.insert(all.end(), std::begin(test::kFamilies), std::end(test::kFamilies));
  return all;
}

Result<FleetModel> load_fleet_model(
    uint64_t seed, uint64_t number,
    std::span<const std::unique_ptr<kernels::cuda::Device>> devices) {
  kernels::cuda::Device* const first = devices.empty() ? nullptr : devices.front().get();
  kernels::cuda::Device* const second = devices.empty() ? nullptr : devices.back().get();
  std::seed_seq seq{static_cast<uint32_t>(seed), static_cast<uint32_t>(number)};
  std::mt19937 rng(seq);
  test::TinyModel shape;
  shape.seed = seed + number;
  shape.architecture = choose_architecture(seed, number);
  choose_formats(seed, number, shape);
  choose_shape(rng, shape);
  const bool has_mtp =
      shape.architecture.starts_with("qwen35") || shape.architecture == "qwen3next";
  // Every short run has drafts.
  const bool leaves_mtp_out = number >= 5 && (seed + number) % 4 == 0;
  shape.n_mtp_layers = has_mtp && !leaves_mtp_out ? 1 : 0;
  model::ModelOptions tight;
  tight.max_tokens = 14 * kernels::kKvPageTokens;
  tight.max_states = 14;
  tight.max_pending_rows = 24;
  tight.max_step_rows = 256;
  choose_cache_types(seed, number, shape.head_dim, tight);
  tight.expert_top_p = pick(rng, {1.0F, 0.5F, 0.7F, 0.9F});
  const bool any_sum = shape.architecture == test::kSynthetic ||
                       shape.architecture == "nemotron_h_moe" || shape.architecture == "qwen2moe" ||
                       shape.architecture == "jamba";
  if (any_sum) tight.expert_top_p = 1;  // the experts' weights do not sum to 1
  model::ModelOptions roomy = tight;
  roomy.max_tokens = 4096;
  tight.drafts = true;  // the solo runs have no MTP head

  FleetModel m;
  m.name = describe(shape, tight);
  m.architecture = shape.architecture;
  CHIMERE_TRY(const gguf::Writer writer, test::make_any_model(shape));
  m.bytes = writer.bytes();
  CHIMERE_TRY(m.file, gguf::Reader::from_bytes(m.bytes.data(), m.bytes.size()));
  CHIMERE_CHECK_OK(load(m.with_threads[0], *m.file, 1, first, tight));
  if (second == nullptr) {
    // All pages, or fewer with more states or pending rows: memory moves between the pools.
    const state::StateStore& states = m.with_threads[0].model->states();
    tight.max_state_bytes = states.max_pages() * states.page_stride() + 8 * states.bytes_per_slot();
  }
  kernels::cuda::WeightPlacement places;
  tight.host_expert_layers = std::uniform_int_distribution<int>(0, shape.n_layers)(rng);
  places.unpacked = pick(rng, {false, true});
  CHIMERE_CHECK_OK(load(m.with_threads[1], *m.file, 2, second, tight, places));
  CHIMERE_CHECK_OK(load(m.solo, *m.file, 1, first, roomy));
  CHIMERE_CHECK_OK(load_oracle(m.oracle, *m.file, roomy));
  CHIMERE_CHECK_OK(load_drafters(m, seed + number, first, second));
  CHIMERE_CHECK_OK(add_adapters(m, seed + number));
  return m;
}

}  // namespace chimere::fuzz
