#include "model/rope_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <numbers>
#include <set>
#include <string>
#include <vector>

#include "kernels/api.h"
#include "model/model.h"
#include "model/rope_scaling.h"
#include "support/model_runner.h"
#include "support/tiny_model.h"

namespace chimere::model {
namespace {

using testing::HasSubstr;
using Change = std::function<void(gguf::Writer&)>;

/// What load_model() says of a tiny model with this change.
Error load_changed(const std::string& architecture, const Change& change) {
  test::TinyModel shape;
  shape.architecture = architecture;
  shape.n_layers = 1;
  shape.attention_interval = 1;
  auto writer = test::make_tiny_model(shape);
  EXPECT_TRUE(writer.ok());
  change(*writer);
  const std::vector<uint8_t> bytes = writer->bytes();
  auto file = gguf::Reader::from_bytes(bytes.data(), bytes.size());
  EXPECT_TRUE(file.ok());
  const auto ops = kernels::make_ref_ops();
  const auto loaded = load_model(**file, *ops, {});
  return loaded.ok() ? Error{} : loaded.error();
}

struct Case {
  std::string key;
  Change set;
};

Change real(const std::string& key, float value) {
  return [=](gguf::Writer& w) { w.set_f32(key, value); };
}

TEST(RopeKeys, RefusesByNameWhatWouldChangeTheRotation) {
  for (const std::string architecture : {"qwen35moe", "qwen35", "qwen3next", "qwen3moe", "qwen3"}) {
    const std::string rope = architecture + ".rope.";
    // Scaling without a type among them: nothing else says that it is there.
    std::vector<Case> cases;
    for (const char* key :
         {"scaling.attn_factor", "scaling.yarn_attn_factor", "scaling.yarn_ext_factor",
          "scaling.yarn_log_multiplier", "scaling.yarn_beta_fast", "scaling.yarn_beta_slow",
          "scaling.alpha", "freq_base_swa", "something_new"}) {
      cases.push_back({rope + key, real(rope + key, 4)});
    }
    for (const char* key : {"scaling.factor", "scale_linear"}) {
      cases.push_back({rope + key, real(rope + key, -2)});
      cases.push_back({rope + key, real(rope + key, 1e-6F)});
    }
    for (const char* type : {"yarn", "su", ""}) {
      cases.push_back({rope + "scaling.type",
                       [=](gguf::Writer& w) { w.set_string(rope + "scaling.type", type); }});
    }
    cases.push_back({rope + "scaling.factor",
                     [=](gguf::Writer& w) { w.set_string(rope + "scaling.factor", "1"); }});
    cases.push_back({rope + "scaling.original_context_length", [=](gguf::Writer& w) {
                       w.set_u32(rope + "scaling.original_context_length", 16);
                     }});
    for (const Case& c : cases) {
      const Error error = load_changed(architecture, c.set);
      EXPECT_EQ(error.code, Error::Code::kUnsupported) << c.key;
      EXPECT_THAT(error.message, HasSubstr(c.key));
    }
  }
  EXPECT_THAT(load_changed("qwen3", real("qwen3.rope.scaling.attn_factor", 4)).message,
              HasSubstr("qwen3.rope.scaling.attn_factor = 4"));
}

TEST(RopeKeys, AcceptsWhatChangesNothing) {
  for (const std::string architecture : {"qwen35moe", "qwen3"}) {
    const std::string rope = architecture + ".rope.";
    const Error error = load_changed(architecture, [&](gguf::Writer& w) {
      w.set_string(rope + "scaling.type", "none");
      w.set_f32(rope + "scaling.factor", 1);
      w.set_f32(rope + "scale_linear", 0);
      w.set_f32(rope + "scaling.attn_factor", 1);
      w.set_f32(rope + "scaling.yarn_log_multiplier", 0);
      w.set_bool(rope + "scaling.finetuned", true);
      w.set_u32(rope + "scaling.original_context_length", 1U << 20);
      w.set_i32s(rope + "dimension_sections", {2, 1, 1, 0});
      w.set_f32("another.rope.scaling.factor", 4);
    });
    EXPECT_EQ(error.message, "") << architecture;
  }
}

TEST(RopeScaling, IsReadFromTheFile) {
  test::TinyModel shape;
  shape.architecture = "llama";
  RopeOptions options;
  const auto read = [&](const Change& change) {
    auto writer = test::make_tiny_model(shape);
    EXPECT_TRUE(writer.ok());
    change(*writer);
    const std::vector<uint8_t> bytes = writer->bytes();
    const auto file = gguf::Reader::from_bytes(bytes.data(), bytes.size());
    EXPECT_TRUE(file.ok());
    const auto scaling = read_rope_scaling(Keys(**file, "llama", options));
    EXPECT_TRUE(scaling.ok()) << scaling.error().message;
    return *scaling;
  };
  EXPECT_FALSE(read([](gguf::Writer&) {}).scales());
  EXPECT_FALSE(read(real("llama.rope.scaling.factor", 0)).scales());
  EXPECT_EQ(read(real("llama.rope.scaling.factor", 4)).factor, 4);
  EXPECT_EQ(read(real("llama.rope.scale_linear", 2)).factor, 2);
  EXPECT_EQ(read(real("llama.rope.scaling.factor", 4)).magnitude(), 1);
  const RopeScaling none = read([](gguf::Writer& w) {
    w.set_string("llama.rope.scaling.type", "none");
    w.set_f32("llama.rope.scaling.factor", 4);
  });
  EXPECT_FALSE(none.scales());
  const RopeScaling yarn = read([](gguf::Writer& w) {
    w.set_string("llama.rope.scaling.type", "yarn");
    w.set_f32("llama.rope.scaling.factor", 4);
    w.set_u32("llama.rope.scaling.original_context_length", 1024);
    w.set_f32("llama.rope.scaling.yarn_beta_fast", 16);
  });
  EXPECT_EQ(yarn.type, RopeScalingType::kYarn);
  EXPECT_EQ(yarn.original_context, 1024);
  EXPECT_EQ(yarn.beta_fast, 16);
  EXPECT_EQ(yarn.beta_slow, 1);
  EXPECT_TRUE(yarn.truncate);
  const RopeScaling exact = read([](gguf::Writer& w) {
    w.set_string("llama.rope.scaling.type", "yarn");
    w.set_f32("llama.rope.scaling.factor", 4);
    w.set_bool("llama.rope.scaling.yarn_truncate", false);
  });
  EXPECT_FALSE(exact.truncate);
  const RopeScaling longrope = read([](gguf::Writer& w) {
    w.set_string("llama.rope.scaling.type", "longrope");
    w.set_f32("llama.rope.scaling.attn_factor", 1.2F);
    w.set_u32("llama.rope.scaling.original_context_length", 1024);
  });
  EXPECT_EQ(longrope.magnitude(), 1.2F);
  EXPECT_TRUE(longrope.is_long());
  EXPECT_TRUE(longrope.user);  // the context decides

  // What a user sets comes before the file's keys.
  const auto yarn_file = [](gguf::Writer& w) {
    w.set_string("llama.rope.scaling.type", "yarn");
    w.set_f32("llama.rope.scaling.factor", 4);
    w.set_f32("llama.rope.scaling.attn_factor", 1.5F);
  };
  EXPECT_FLOAT_EQ(read(yarn_file).magnitude(), 1.5F * (1 + 0.1F * std::log(4.0F)));
  options = {.type = RopeScalingType::kNone};
  EXPECT_FALSE(read(yarn_file).scales());
  EXPECT_EQ(read(yarn_file).magnitude(), 1);
  options = {.type = RopeScalingType::kLinear, .factor = 3};
  EXPECT_EQ(read(yarn_file).factor, 3);
  EXPECT_EQ(read(yarn_file).magnitude(), 1);
  options = {.factor = 2, .original_context = 100, .beta_fast = 8};
  EXPECT_EQ(read(yarn_file).type, RopeScalingType::kYarn);
  EXPECT_EQ(read(yarn_file).factor, 2);
  EXPECT_EQ(read(yarn_file).original_context, 100);
  EXPECT_EQ(read(yarn_file).beta_fast, 8);
  // The factor follows from the context.
  options = {.type = RopeScalingType::kYarn, .context = 8192};
  EXPECT_EQ(read([](gguf::Writer&) {}).factor, 2);
}

TEST(RopeScaling, RefusesOptionsThatContradictEachOther) {
  test::TinyModel shape;
  shape.architecture = "llama";
  const std::vector<uint8_t> bytes = test::make_tiny_model(shape)->bytes();
  const auto file = gguf::Reader::from_bytes(bytes.data(), bytes.size());
  ASSERT_TRUE(file.ok());
  const std::pair<RopeOptions, const char*> cases[] = {
      {{.type = RopeScalingType::kYarn}, "--rope-scale"},
      {{.type = RopeScalingType::kLongrope}, "longrope"},
      {{.factor = 1e9F}, "--rope-scale"},
      {{.freq_base = 0.5F}, "--rope-freq-base"},
      {{.type = RopeScalingType::kYarn, .factor = 2, .attn_factor = 100}, "--yarn-attn-factor"},
      {{.type = RopeScalingType::kYarn, .factor = 2, .ext_factor = NAN}, "--yarn-ext-factor"},
      {{.original_context = -1}, "--yarn-orig-ctx"},
  };
  for (const auto& [options, flag] : cases) {
    const auto scaling = read_rope_scaling(Keys(**file, "llama", options));
    ASSERT_FALSE(scaling.ok()) << flag;
    EXPECT_EQ(scaling.error().code, Error::Code::kInvalidArgument);
    EXPECT_THAT(scaling.error().message, HasSubstr(flag));
  }
}

/// States of other rotations are those of another model.
TEST(RopeScaling, IsPartOfTheModelKey) {
  test::TinyModel shape;
  shape.architecture = "llama";
  const std::vector<uint8_t> bytes = test::make_tiny_model(shape)->bytes();
  const auto file = gguf::Reader::from_bytes(bytes.data(), bytes.size());
  ASSERT_TRUE(file.ok());
  const auto ops = kernels::make_ref_ops();
  const auto key = [&](const RopeOptions& options) {
    auto loaded = load_model(**file, *ops, {.rope = options});
    EXPECT_TRUE(loaded.ok()) << loaded.error().message;
    return (*loaded)->states().fingerprint();
  };
  const RopeOptions all[] = {
      {},
      {.freq_base = 5e5F},
      {.type = RopeScalingType::kLinear, .factor = 2},
      {.type = RopeScalingType::kYarn, .factor = 2},
      {.type = RopeScalingType::kYarn, .factor = 2, .attn_factor = 1.1F},
      {.type = RopeScalingType::kNtk, .factor = 2},
      {.type = RopeScalingType::kDynamic, .context = 10000},
      {.type = RopeScalingType::kDynamic, .context = 20000},
  };
  std::set<uint64_t> keys;
  for (const RopeOptions& options : all) keys.insert(key(options));
  EXPECT_EQ(keys.size(), std::size(all));
  EXPECT_EQ(key({}), key({.context = 100}));
}

/// Logits of a model with YaRN's attention factor.
std::vector<float> logits_with_factor(std::vector<uint8_t> bytes, float attn_factor) {
  ModelOptions options = {.cache_k = DType::kF32, .cache_v = DType::kF32};
  options.rope = {
      .type = RopeScalingType::kYarn, .factor = 2, .ext_factor = 0, .attn_factor = attn_factor};
  const test::Runner runner(std::move(bytes), kernels::make_ref_ops(), options);
  EXPECT_NE(runner.model, nullptr) << runner.error.message;
  return test::answer(runner, {1, 2, 3, 4, 5, 6}, {7, 8});
}

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  float most = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    most = std::max(most, std::abs(a[i] - b[i]));
  }
  return most;
}

/// The attention factor multiplies the rotated elements of queries and keys: as if those of the
/// queries alone were multiplied by its square.
TEST(RopeScaling, AFactorOfHeadsThatAreRotatedInPart) {
  constexpr float kFactor = 1.5F;
  test::TinyModel shape;
  shape.architecture = "qwen35";
  shape.n_layers = 1;
  shape.attention_interval = 1;
  ASSERT_LT(shape.rope_dims, shape.head_dim);
  std::vector<uint8_t> bytes = test::make_tiny_model(shape)->bytes();
  const std::vector<float> plain = logits_with_factor(bytes, 1);
  const std::vector<float> scaled = logits_with_factor(bytes, kFactor);
  const auto file = gguf::Reader::from_bytes(bytes.data(), bytes.size());
  const gguf::TensorInfo* const norm = (*file)->find_tensor("blk.0.attn_q_norm.weight");
  ASSERT_NE(norm, nullptr);
  uint8_t* const at = bytes.data() + (static_cast<const uint8_t*>(norm->data) - bytes.data());
  for (int i = 0; i < shape.rope_dims; ++i) {
    float value = 0;
    std::memcpy(&value, at + static_cast<size_t>(i) * sizeof(value), sizeof(value));
    value *= kFactor * kFactor;
    std::memcpy(at + static_cast<size_t>(i) * sizeof(value), &value, sizeof(value));
  }
  const std::vector<float> wanted = logits_with_factor(bytes, 1);
  EXPECT_LE(largest_difference(scaled, wanted), 1e-5F);
  EXPECT_GT(largest_difference(scaled, plain), 1e-3F);
}

/// The same without norms, where rows of the queries' weights stand for them.
TEST(RopeScaling, AFactorOfHeadsWithoutNormsThatAreRotatedInPart) {
  constexpr float kFactor = 1.5F;
  constexpr int kRotated = 8;
  test::TinyModel shape;
  shape.architecture = "llama";
  shape.n_layers = 2;
  shape.qkv_bias = true;
  ASSERT_LT(kRotated, shape.head_dim);
  auto writer = test::make_tiny_model(shape);
  ASSERT_TRUE(writer.ok());
  writer->set_u32("llama.rope.dimension_count", kRotated);
  std::vector<uint8_t> bytes = writer->bytes();
  const std::vector<float> plain = logits_with_factor(bytes, 1);
  const std::vector<float> scaled = logits_with_factor(bytes, kFactor);
  const auto file = gguf::Reader::from_bytes(bytes.data(), bytes.size());
  ASSERT_TRUE(file.ok());
  for (const std::string block : {"blk.0.", "blk.1."}) {
    for (const std::string name : {"attn_q.weight", "attn_q.bias"}) {
      const gguf::TensorInfo* const tensor = (*file)->find_tensor(block + name);
      ASSERT_NE(tensor, nullptr);
      const int width = name == "attn_q.bias" ? 1 : shape.n_embd;
      uint8_t* at = bytes.data() + (static_cast<const uint8_t*>(tensor->data) - bytes.data());
      for (int i = 0; i < shape.n_heads * shape.head_dim * width; ++i, at += sizeof(float)) {
        if (i / width % shape.head_dim >= kRotated) continue;
        float value = 0;
        std::memcpy(&value, at, sizeof(value));
        value *= kFactor * kFactor;
        std::memcpy(at, &value, sizeof(value));
      }
    }
  }
  const std::vector<float> wanted = logits_with_factor(bytes, 1);
  EXPECT_LE(largest_difference(scaled, wanted), 2e-5F);
  EXPECT_GT(largest_difference(scaled, plain), 1e-3F);
}

TEST(RopeScaling, NtkDividesTheSlowestFrequencyByTheFactor) {
  const std::vector<float> fixed =
      rope_divisors({.type = RopeScalingType::kNtk, .factor = 4}, 16, 1e4F);
  EXPECT_EQ(fixed.front(), 1);
  EXPECT_FLOAT_EQ(fixed.back(), 4);
  const RopeScaling dynamic = {
      .type = RopeScalingType::kDynamic, .factor = 2, .original_context = 64, .context = 133};
  EXPECT_FLOAT_EQ(rope_divisors(dynamic, 16, 1e4F).back(), 2.0F * 133 / 64 - 1);
  RopeScaling shorter = dynamic;
  shorter.context = 50;
  EXPECT_FALSE(shorter.scales());
}

TEST(RopeScaling, YarnDividesSlowFrequenciesAlone) {
  const RopeScaling yarn = {.type = RopeScalingType::kYarn, .factor = 8, .original_context = 4096};
  constexpr int kDims = 64;
  const std::vector<float> divisors = rope_divisors(yarn, kDims, 1e4F);
  ASSERT_EQ(divisors.size(), 32U);
  for (size_t i = 0; i < divisors.size(); ++i) {
    const double turns =
        4096 * std::pow(1e4, -2.0 * static_cast<double>(i) / kDims) / (2 * std::numbers::pi);
    // The limits are rounded to whole indices, away from each other.
    if (turns > 2 * 32) {
      EXPECT_EQ(divisors[i], 1) << i;
    }
    if (turns < 0.5) {
      EXPECT_EQ(divisors[i], 8) << i;
    }
    if (i > 0) {
      EXPECT_GE(divisors[i], divisors[i - 1]);
    }
  }
  EXPECT_GT(divisors[16], 1);
  EXPECT_LT(divisors[16], 8);
  EXPECT_NEAR(yarn.magnitude(), 1 + 0.1 * std::log(8.0), 1e-6);
  // Without rounding (gpt-oss) the share is linear between the limits themselves.
  RopeScaling exact = yarn;
  exact.truncate = false;
  const std::vector<float> smooth = rope_divisors(exact, kDims, 1e4F);
  const auto limit = [](double turns) {
    return kDims * std::log(4096 / (turns * 2 * std::numbers::pi)) / (2 * std::log(1e4));
  };
  for (size_t i = 0; i < smooth.size(); ++i) {
    const double past = (static_cast<double>(i) - limit(32)) / (limit(1) - limit(32));
    const double share = std::min(1.0, std::max(0.0, past));
    EXPECT_NEAR(smooth[i], 1 / (share / 8 + 1 - share), 1e-5) << i;
  }
  EXPECT_NE(smooth, divisors);
  EXPECT_THAT(rope_divisors({.type = RopeScalingType::kLinear, .factor = 3}, 8, 1e4F),
              testing::Each(3.0F));
}

}  // namespace
}  // namespace chimere::model
