#include "model/rope_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <numbers>
#include <string>
#include <vector>

#include "kernels/api.h"
#include "model/model.h"
#include "model/rope_scaling.h"
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
    for (const char* type : {"yarn", "longrope", ""}) {
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
  const auto read = [&](const Change& change) {
    auto writer = test::make_tiny_model(shape);
    EXPECT_TRUE(writer.ok());
    change(*writer);
    const std::vector<uint8_t> bytes = writer->bytes();
    const auto file = gguf::Reader::from_bytes(bytes.data(), bytes.size());
    EXPECT_TRUE(file.ok());
    const auto scaling = read_rope_scaling(Keys(**file, "llama"));
    EXPECT_TRUE(scaling.ok());
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
  EXPECT_TRUE(yarn.yarn);
  EXPECT_EQ(yarn.original_context, 1024);
  EXPECT_EQ(yarn.beta_fast, 16);
  EXPECT_EQ(yarn.beta_slow, 1);
}

TEST(RopeScaling, YarnDividesSlowFrequenciesAlone) {
  const RopeScaling yarn = {.factor = 8, .yarn = true, .original_context = 4096};
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
  EXPECT_THAT(rope_divisors({.factor = 3}, 8, 1e4F), testing::Each(3.0F));
}

}  // namespace
}  // namespace chimere::model
