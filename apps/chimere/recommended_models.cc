#include "recommended_models.h"

#include <array>

namespace chimere::app {
namespace {

// docs/models.md has the same rows; the test `terminal` compares them.
constexpr auto kRecommended = std::to_array<RecommendedModel>({
    {"unsloth/Qwen3.5-0.8B-GGUF:Q8_0", 0.8, "short answers on any machine"},
    {"unsloth/Qwen3.5-4B-GGUF:Q4_K_M", 2.7, "everyday questions, summaries"},
    {"unsloth/Qwen3.5-9B-GGUF:Q4_K_M", 5.7, "better answers, slower on a processor"},
    {"unsloth/Qwen3.6-27B-GGUF:Q4_K_M", 17, "the best of these; slow without a GPU"},
    {"unsloth/Qwen3.6-35B-A3B-GGUF:Q4_K_M", 22, "experts: fast for its size, also without a GPU"},
});

}  // namespace

const std::string_view kRecommendedDate = "November 2026";

std::span<const RecommendedModel> recommended_models() { return kRecommended; }

std::vector<RecommendedModel> models_for_memory(int64_t bytes, size_t most) {
  // Weights, KV cache and the rest of the machine.
  constexpr double kMargin = 1.25;
  std::vector<RecommendedModel> out;
  for (size_t i = kRecommended.size(); i > 0 && out.size() < most; --i) {
    const RecommendedModel& model = kRecommended.at(i - 1);
    if (bytes == 0 || model.gigabytes * 1e9 * kMargin <= static_cast<double>(bytes)) {
      out.push_back(model);
    }
  }
  return out;
}

}  // namespace chimere::app
