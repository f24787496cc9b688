// Random but valid model files of the architectures around the main one: transformers, and hybrids
// of attention with Mamba, Mamba 2 or short convolutions.
#ifndef CHIMERE_TESTS_SUPPORT_FAMILY_MODEL_H_
#define CHIMERE_TESTS_SUPPORT_FAMILY_MODEL_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gguf/writer.h"
#include "support/tiny_model.h"

namespace chimere::test {

inline constexpr const char* kFamilies[] = {"llama",      "qwen2",          "qwen2moe",  "granite",
                                            "granitemoe", "granitehybrid",  "mamba",     "mamba2",
                                            "nemotron_h", "nemotron_h_moe", "falcon-h1", "jamba",
                                            "lfm2",       "lfm2moe",        "gpt-oss",   "zamba2"};

bool is_family(std::string_view architecture);

/// Shapes that llama.cpp accepts, for comparisons: six layers, f32, 96 tokens.
TinyModel family_for_peers(const std::string& architecture, uint64_t seed);

/// Of TinyModel, n_k_heads are the groups of Mamba 2, n_v_heads its heads, and their product with
/// state_dim the inner width of Mamba; every attention_interval-th layer of a hybrid is attention,
/// every third of nemotron_h. Errors: those of make_tiny_model().
Result<gguf::Writer> make_family_model(const TinyModel& model);

}  // namespace chimere::test

#endif  // CHIMERE_TESTS_SUPPORT_FAMILY_MODEL_H_
