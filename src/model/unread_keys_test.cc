// Every key of a file is used, harmless or refused: answers are never silently others.
#include "model/unread_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/fresh_seed.h"
#include "model/arch/registry.h"
#include "support/encoder_model.h"
#include "support/family_model.h"
#include "support/model_runner.h"
#include "support/tiny_model.h"

namespace chimere::model {
namespace {

using test::Runner;
using testing::HasSubstr;
using Set = std::function<void(gguf::Writer&, const std::string& key)>;

Set real(float v) {
  return [v](gguf::Writer& w, const std::string& key) { w.set_f32(key, v); };
}
Set integer(uint32_t v) {
  return [v](gguf::Writer& w, const std::string& key) { w.set_u32(key, v); };
}
Set flag(bool v) {
  return [v](gguf::Writer& w, const std::string& key) { w.set_bool(key, v); };
}
Set integers(std::vector<int32_t> v) {
  return [v](gguf::Writer& w, const std::string& key) { w.set_i32s(key, v); };
}
Set words(std::string v) {
  return [v](gguf::Writer& w, const std::string& key) { w.set_string(key, v); };
}

constexpr int kTokens = 40;

/// A file of an architecture of the registry.
gguf::Writer tiny(const std::string& architecture, uint64_t seed) {
  if (test::is_encoder(architecture)) {
    test::EncoderModel shape = {.architecture = architecture, .seed = seed};
    shape.n_layers = 2;
    shape.n_embd = 32;
    shape.n_heads = 2;
    shape.n_ff = 48;
    return test::make_encoder_model(shape).value();
  }
  test::TinyModel shape;
  shape.architecture = architecture;
  shape.seed = seed;
  shape.n_vocab = kTokens;
  shape.n_layers = 3;
  shape.attention_interval = 3;
  shape.n_embd = 32;
  shape.n_v_heads = 6;
  return test::make_tiny_model(shape).value();
}

/// Logits of all rows of a text, or an encoder's hidden states.
std::vector<float> outputs(const Runner& runner) {
  EXPECT_NE(runner.model, nullptr) << runner.error.message;
  if (runner.model == nullptr) return {};
  const auto state = runner.model->states().create_sequence();
  std::vector<int32_t> tokens;
  for (int i = 0; i < 40; ++i) tokens.push_back(i * 7 % kTokens);
  return test::run(runner, *state, tokens, RowClass::kPrefill);
}

/// The first architecture of the registry that `row` shares its function with.
std::string first_like(const Architecture& row) {
  static const std::vector<Architecture> rows = {
#define CHIMERE_ARCHITECTURE_ROW(name, read) {name, read},
      CHIMERE_ARCHITECTURES(CHIMERE_ARCHITECTURE_ROW)
#undef CHIMERE_ARCHITECTURE_ROW
  };
  for (const Architecture& other : rows) {
    if (other.read == row.read) return other.name;
  }
  return row.name;
}

std::vector<Architecture> architectures() {
  std::vector<Architecture> all;
#define CHIMERE_ARCHITECTURE_ROW(name, read) all.push_back({name, read});
  CHIMERE_ARCHITECTURES(CHIMERE_ARCHITECTURE_ROW)
#undef CHIMERE_ARCHITECTURE_ROW
  std::erase_if(all, [](const Architecture& row) { return first_like(row) != row.name; });
  return all;
}

struct Case {
  const char* key;
  Set set;
};

TEST(UnreadKeys, KeysThatChangeNothingAreAccepted) {
  const Case cases[] = {
      {"vocab_size", integer(40)},
      {"tensor_data_layout", words("Meta AI original pth")},
      {"vision.block_count", integer(27)},
      {"audio.embedding_length", integer(27)},
      {"mm.tokens_per_image", integer(256)},
      {"image_token_id", integer(3)},
      {"mrope_sections", integers({6, 5, 5})},
      {"rope.mrope_section", integers({6, 5, 5})},
      {"expert_count", integer(0)},
      {"expert_used_count", integer(0)},
      {"leading_dense_block_count", integer(0)},
      {"ssm.inner_size", integer(64)},
      {"attention.causal", flag(true)},
      {"attention.sliding_window", integer(0)},
      {"attention.sliding_window", integer(1U << 20)},
      {"attention.sliding_window_pattern", integer(6)},
      {"attention.clamp_kqv", real(0)},
      {"attention.scale", real(0)},
      {"attn_logit_softcapping", real(0)},
      {"logit_scale", real(1)},
      {"residual_scale", real(1)},
      {"embedding_scale", real(0)},
      {"embedding_length_out", integer(32)},
      {"use_parallel_residual", flag(false)},
      {"swiglu_clamp_exp", integers({0, 0, 0})},
  };
  const std::vector<float> want = outputs(Runner(tiny("qwen3", 1).bytes()));
  for (const Case& c : cases) {
    SCOPED_TRACE(c.key);
    gguf::Writer writer = tiny("qwen3", 1);
    c.set(writer, std::string("qwen3.") + c.key);
    const Runner runner(writer.bytes());
    ASSERT_NE(runner.model, nullptr) << runner.error.message;
    EXPECT_EQ(outputs(runner), want);
  }
}

TEST(UnreadKeys, KeysThatWouldChangeAnswersAreRefusedByName) {
  const Case cases[] = {
      {"attention.causal", flag(false)},
      {"attention.sliding_window", integer(24)},
      {"attention.clamp_kqv", real(8)},
      {"attention.max_alibi_bias", real(8)},
      {"attention.output_scale", real(2)},
      {"attn_logit_softcapping", real(50)},
      {"final_logit_softcapping", real(30)},
      {"final_logit_softcapping", words("30")},
      {"logit_scale", real(0.5F)},
      {"residual_scale", real(0.22F)},
      {"embedding_scale", real(12)},
      {"embedding_length_out", integer(16)},
      {"use_parallel_residual", flag(true)},
      {"expert_count", integer(4)},
      {"nextn_predict_layers", integer(1)},
      {"full_attention_interval", integer(4)},
      {"swiglu_clamp_exp", integers({0, 7, 0})},
      {"a_key_of_tomorrow", integer(1)},
  };
  for (const Case& c : cases) {
    const std::string key = std::string("qwen3.") + c.key;
    gguf::Writer writer = tiny("qwen3", 1);
    c.set(writer, key);
    const Runner runner(writer.bytes());
    EXPECT_EQ(runner.model, nullptr) << key;
    EXPECT_EQ(runner.error.code, Error::Code::kUnsupported) << key;
    EXPECT_THAT(runner.error.message, HasSubstr(key + " = "));
    EXPECT_THAT(runner.error.message, HasSubstr("converted without it"));
  }
  // The window that the other key describes.
  gguf::Writer writer = tiny("qwen3", 1);
  writer.set_u32("qwen3.attention.sliding_window_pattern", 6);
  writer.set_u32("qwen3.attention.sliding_window", 24);
  EXPECT_THAT(Runner(writer.bytes()).error.message, HasSubstr("sliding_window_pattern = 6"));
}

TEST(UnreadKeys, ADeclaredRoutingReplacesTheArchitecturesOwn) {
  for (const char* architecture : {"gpt-oss", "nemotron_h_moe", "qwen2moe", "lfm2moe"}) {
    SCOPED_TRACE(architecture);
    const std::vector<float> own = outputs(Runner(tiny(architecture, 1).bytes()));
    for (const uint32_t function : {1U, 2U, 3U}) {
      gguf::Writer writer = tiny(architecture, 1);
      writer.set_u32(std::string(architecture) + ".expert_gating_func", function);
      writer.set_bool(std::string(architecture) + ".expert_weights_norm", function == 2);
      const Runner runner(writer.bytes());
      ASSERT_NE(runner.model, nullptr) << runner.error.message;
      const bool same = std::string(architecture) == "gpt-oss"    ? function == 3
                        : std::string(architecture) == "qwen2moe" ? function == 1
                                                                  : function == 2;
      EXPECT_EQ(outputs(runner) == own, same) << function;
    }
  }
}

TEST(UnreadKeys, ModernBertHasTheActivationOfItsFile) {
  const std::string key = "modern-bert.hidden_activation";
  const std::vector<float> gelu = outputs(Runner(tiny("modern-bert", 1).bytes()));
  for (const char* name : {"gelu", "silu", "relu"}) {
    gguf::Writer writer = tiny("modern-bert", 1);
    writer.set_string(key, name);
    const Runner runner(writer.bytes());
    if (std::string(name) == "relu") {
      EXPECT_THAT(runner.error.message, HasSubstr(key + " is 'relu'"));
    } else {
      ASSERT_NE(runner.model, nullptr) << runner.error.message;
      EXPECT_EQ(outputs(runner) == gelu, std::string(name) == "gelu");
    }
  }
}

/// Names of GGUF, of other converters, and unknown ones.
constexpr const char* kNames[] = {
    "vocab_size",
    "context_length",
    "embedding_length",
    "embedding_length_out",
    "block_count",
    "leading_dense_block_count",
    "feed_forward_length",
    "expert_feed_forward_length",
    "expert_shared_feed_forward_length",
    "expert_chunk_feed_forward_length",
    "use_parallel_residual",
    "tensor_data_layout",
    "expert_count",
    "expert_used_count",
    "expert_shared_count",
    "expert_group_count",
    "expert_group_used_count",
    "expert_weights_scale",
    "expert_weights_norm",
    "norm_top_k_prob",
    "expert_gating_func",
    "expert_group_scale",
    "moe_every_n_layers",
    "moe_latent_size",
    "nextn_predict_layers",
    "n_deepstack_layers",
    "pooling_type",
    "logit_scale",
    "attn_logit_softcapping",
    "router_logit_softcapping",
    "final_logit_softcapping",
    "swin_norm",
    "rescale_every_n_layers",
    "residual_scale",
    "embedding_scale",
    "interleave_moe_layer_step",
    "full_attention_interval",
    "activation_sparsity_scale",
    "altup.active_idx",
    "embedding_length_per_layer_input",
    "swiglu_clamp_exp",
    "hidden_activation",
    "num_loops",
    "dense_2_feat_in",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.max_alibi_bias",
    "attention.clamp_kqv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_epsilon",
    "attention.layer_norm_rms_epsilon",
    "attention.group_norm_groups",
    "attention.causal",
    "attention.q_lora_rank",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "attention.scale",
    "attention.output_scale",
    "attention.temperature_length",
    "attention.temperature_scale",
    "attention.shared_kv_layers",
    "attention.recurrent_layers",
    "attention.indexer.top_k",
    "rope.dimension_count",
    "rope.dimension_count_swa",
    "rope.dimension_sections",
    "rope.mrope_section",
    "rope.freq_base",
    "rope.freq_base_swa",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.alpha",
    "rope.scaling.attn_factor",
    "rope.scaling.finetuned",
    "rope.scaling.original_context_length",
    "rope.scaling.yarn_log_multiplier",
    "rope.scaling.yarn_ext_factor",
    "ssm.conv_kernel",
    "ssm.inner_size",
    "ssm.state_size",
    "ssm.time_step_rank",
    "ssm.group_count",
    "ssm.dt_b_c_rms",
    "ssm.v_head_reordered",
    "kda.head_dim",
    "wkv.head_size",
    "classifier.output_labels",
    "shortconv.l_cache",
    "vision.block_count",
    "image_token_id",
    "mrope_sections",
    "unheard_of",
    "unheard.of",
};

Set random_value(std::mt19937& rng) {
  switch (rng() % 5) {
    case 0:
      return flag(rng() % 2 == 0);
    case 1:
      return integer(std::vector<uint32_t>{0, 1, 2, 4, 16, 5000}[rng() % 6]);
    case 2:
      return real(std::vector<float>{0, 0.5F, 1, 30, 1e6F}[rng() % 5]);
    case 3:
      return integers({static_cast<int32_t>(rng() % 3), 1, static_cast<int32_t>(rng() % 3)});
    default:
      return words(std::vector<std::string>{"yarn", "linear", "none", "1"}[rng() % 4]);
  }
}

TEST(UnreadKeys, AKeyIsReadOrChangesNoBitOrIsRefusedByName) {
  constexpr int kChanges = 25;
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 rng(seed);
  int accepted = 0;
  int refused = 0;
  for (const Architecture& row : architectures()) {
    SCOPED_TRACE(row.name);
    if (row.read == dflash) continue;  // runs with its target only: block_drafter_test.cc
    const gguf::Writer original = tiny(row.name, rng());
    const Runner unchanged(original.bytes());
    ASSERT_NE(unchanged.model, nullptr) << unchanged.error.message;
    const std::vector<float> want = outputs(unchanged);
    for (int i = 0; i < kChanges; ++i) {
      const std::string key = kNames[rng() % std::size(kNames)];
      const std::string whole = std::string(row.name) + "." + key;
      SCOPED_TRACE(key);
      gguf::Writer writer = original;
      random_value(rng)(writer, whole);
      const Runner runner(writer.bytes());
      const Keys keys(*runner.file, row.name);
      (void)row.read(keys);
      if (keys.was_read(key)) continue;  // its value counts
      if (runner.model == nullptr) {
        EXPECT_THAT(runner.error.message, HasSubstr(whole));
        ++refused;
      } else {
        EXPECT_EQ(outputs(runner), want);
        ++accepted;
      }
    }
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace chimere::model
