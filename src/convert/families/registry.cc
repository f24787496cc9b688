#include "convert/families/registry.h"

#include <algorithm>

namespace chimere::convert {

const std::vector<const Family*>& families() {
  static const std::vector<const Family*> all = {
      &llama_family(),       &qwen2_family(),      &qwen3_family(),      &qwen2moe_family(),
      &qwen3next_family(),   &qwen35_family(),     &granite_family(),    &granitehybrid_family(),
      &mamba_family(),       &mamba2_family(),     &nemotron_h_family(), &falcon_h1_family(),
      &jamba_family(),       &lfm2_family(),       &gpt_oss_family(),    &bert_family(),
      &modern_bert_family(), &nomic_bert_family(), &zamba2_family(),     &dflash_family(),
  };
  return all;
}

const Family* find_family(std::string_view model_class) {
  for (const Family* family : families()) {
    if (std::ranges::find(family->classes, model_class) != family->classes.end()) return family;
  }
  return nullptr;
}

std::vector<std::string> model_classes() {
  std::vector<std::string> out;
  for (const Family* family : families()) {
    out.insert(out.end(), family->classes.begin(), family->classes.end());
  }
  std::ranges::sort(out);
  return out;
}

}  // namespace chimere::convert
