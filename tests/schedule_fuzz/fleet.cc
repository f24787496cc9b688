#include "fleet.h"

#include <utility>

#include "support/tiny_model.h"

namespace chimere::fuzz {
namespace {

struct Variant {
  std::string name;
  test::TinyModel shape;
};

/// Types of the keys and values of model `index`: every type is there in a run with five models,
/// every pair in some run.
void choose_cache_types(uint64_t seed, size_t index, int head_dim, model::ModelOptions& options) {
  constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0};
  const size_t fitting = head_dim % 32 == 0 ? 5 : 3;
  options.cache_k = kTypes[(seed + index) % fitting];
  options.cache_v = kTypes[(seed / 5 + 2 * index) % fitting];
}

test::TinyModel smallest() {
  test::TinyModel m;
  m.n_layers = 2;
  m.attention_interval = 2;
  m.n_heads = 2;
  m.n_kv_heads = 1;
  m.head_dim = 32;
  m.n_v_heads = 4;
  m.n_vocab = kVocabulary;
  return m;
}

std::vector<Variant> variants() {
  std::vector<Variant> all;
  all.push_back({"f32", smallest()});

  test::TinyModel wide_group = smallest();
  wide_group.n_heads = 6;
  wide_group.head_dim = 64;
  all.push_back({"f32, six queries a head", wide_group});

  test::TinyModel q8 = smallest();
  q8.experts = q8.mixers = q8.embedding = q8.head = DType::kQ8_0;
  q8.n_layers = 3;
  q8.attention_interval = 3;
  q8.n_heads = 4;
  q8.n_kv_heads = 2;
  q8.state_dim = 32;
  all.push_back({"q8_0", q8});

  test::TinyModel half = smallest();
  half.experts = DType::kF16;
  half.mixers = DType::kBF16;
  half.n_k_heads = 1;
  half.n_v_heads = 3;
  half.tied_head = true;
  all.push_back({"f16 and bf16", half});

  test::TinyModel k = smallest();
  k.n_embd = 256;
  k.n_ff = 256;
  k.n_ff_shared = 256;
  k.n_experts = 4;
  k.n_k_heads = 2;
  k.n_v_heads = 4;
  k.state_dim = 64;
  k.experts = DType::kIQ3_S;
  k.mixers = DType::kQ5_K;
  k.embedding = DType::kQ4_K;
  k.head = DType::kQ6_K;
  all.push_back({"k-quants and iq3_s", k});
  return all;
}

Status load(FleetModel::Instance& instance, const gguf::Reader& file, int threads, bool oracle,
            const model::ModelOptions& options) {
  instance.pool = std::make_unique<ThreadPool>(threads);
  instance.ops = oracle ? kernels::make_ref_ops() : kernels::make_cpu_ops(*instance.pool);
  CHIMERE_TRY(instance.model, model::load_model(file, *instance.ops, options));
  return {};
}

}  // namespace

Result<std::vector<FleetModel>> load_fleet(uint64_t seed) {
  std::vector<FleetModel> fleet;
  for (Variant& variant : variants()) {
    variant.shape.seed = seed + fleet.size();
    FleetModel m;
    m.name = variant.name;
    CHIMERE_TRY(const gguf::Writer writer, test::make_tiny_model(variant.shape));
    m.bytes = writer.bytes();
    CHIMERE_TRY(m.file, gguf::Reader::from_bytes(m.bytes.data(), m.bytes.size()));
    model::ModelOptions tight;
    tight.max_tokens = 14 * kernels::kKvPageTokens;
    tight.max_states = 22;
    tight.max_step_rows = 256;
    choose_cache_types(seed, fleet.size(), variant.shape.head_dim, tight);
    m.name += ", keys " + std::string(dtype_name(tight.cache_k)) + ", values " +
              std::string(dtype_name(tight.cache_v));
    model::ModelOptions roomy = tight;
    roomy.max_tokens = 4096;
    CHIMERE_CHECK_OK(load(m.with_threads[0], *m.file, 1, false, tight));
    CHIMERE_CHECK_OK(load(m.with_threads[1], *m.file, 2, false, tight));
    CHIMERE_CHECK_OK(load(m.solo, *m.file, 1, false, roomy));
    CHIMERE_CHECK_OK(load(m.oracle, *m.file, 1, true, roomy));
    fleet.push_back(std::move(m));
  }
  return fleet;
}

}  // namespace chimere::fuzz
