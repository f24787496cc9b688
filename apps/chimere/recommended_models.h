// Models worth pulling, as docs/models.md lists them.
#ifndef CHIMERE_APPS_CHIMERE_RECOMMENDED_MODELS_H_
#define CHIMERE_APPS_CHIMERE_RECOMMENDED_MODELS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace chimere::app {

struct RecommendedModel {
  std::string_view name;  ///< for `chimere pull`
  double gigabytes;       ///< size of the file, about
  std::string_view note;
};

/// When the table was last looked through.
extern const std::string_view kRecommendedDate;
/// From the smallest to the largest.
std::span<const RecommendedModel> recommended_models();

/// At most `most` of those that fit into so many bytes of memory with room for a context, the
/// largest first; all count if the memory is unknown (0).
std::vector<RecommendedModel> models_for_memory(int64_t bytes, size_t most);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_RECOMMENDED_MODELS_H_
