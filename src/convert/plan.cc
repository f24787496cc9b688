#include "convert/plan.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace chimere::convert {
namespace {

constexpr size_t kMaxDigits = 5;
/// Ends of the names of the two tensors that make one in MXFP4.
constexpr std::string_view kBlocks = "_blocks";
constexpr std::string_view kScales = "_scales";

/// A name whose numbers are replaced by the wildcards of rules.
struct Pattern {
  std::string text;
  int layer = -1;
  int expert = -1;
};

Pattern pattern_of(const std::string& name) {
  Pattern out;
  size_t begin = 0;
  while (begin <= name.size()) {
    const size_t end = std::min(name.find('.', begin), name.size());
    const std::string part = name.substr(begin, end - begin);
    const bool number = !part.empty() && part.size() <= kMaxDigits &&
                        part.find_first_not_of("0123456789") == std::string::npos;
    if (begin > 0) out.text += '.';
    if (number && out.layer < 0) {
      out.layer = std::stoi(part);
      out.text += '*';
    } else if (number && out.expert < 0) {
      out.expert = std::stoi(part);
      out.text += '#';
    } else {
      out.text += part;
    }
    begin = end + 1;
  }
  return out;
}

/// Without the prefixes that say in which class of transformers the model lies.
std::string plain_name(std::string name) {
  constexpr std::string_view kPrefixes[] = {"model.", "backbone.", "language_model."};
  bool found = true;
  while (found) {
    found = false;
    for (const std::string_view prefix : kPrefixes) {
      if (!name.starts_with(prefix)) continue;
      name = name.substr(prefix.size());
      found = true;
    }
  }
  return name;
}

/// Image parts of a multimodal model; a file holds its language model.
bool is_other_modality(std::string_view name) {
  return name.starts_with("visual.") || name.starts_with("vision_tower.") ||
         name.starts_with("multi_modal_projector.");
}

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> out;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = std::min(text.find(at, begin), text.size());
    out.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

class Planner {
 public:
  Planner(const Family& family, const Config& config, const Rules& rules)
      : family_(family), config_(config) {
    for (const Rule& rule : rules) rules_[rule.from] = &rule;
  }

  /// `scales`: `tensor` has the blocks of MXFP4, and these are theirs.
  Status add(const SourceTensor& tensor, const SourceTensor* scales) {
    std::string source_name = tensor.name;
    if (scales != nullptr) source_name.resize(source_name.size() - kBlocks.size());
    CHIMERE_TRY(PlacedTensors placed, place(source_name, [&] {
                  return scales != nullptr ? mxfp4_source(tensor, *scales) : source(tensor);
                }));
    if (placed.tensors.empty()) out_.dropped.push_back(tensor.name);
    for (NamedTensor& one : placed.tensors) {
      if (placed.expert < 0) {
        out_.tensors.push_back(std::move(one));
      } else if (!experts_[one.name].emplace(placed.expert, std::move(one.tensor)).second) {
        return invalid_data("the tensor '" + tensor.name.substr(0, kShownBytes) +
                            "' is there twice");
      }
    }
    return {};
  }

  /// What the tensor `source_name` becomes; `values` is called unless it is dropped.
  Result<PlacedTensors> place(const std::string& source_name,
                              const std::function<Result<Tensor>()>& values) const {
    std::string name = plain_name(source_name);
    if (is_other_modality(name)) return PlacedTensors();
    if (family_.rename != nullptr) {
      CHIMERE_TRY(name, family_.rename(config_, name));
      if (name.empty()) return PlacedTensors();
    }
    std::string end;
    Pattern pattern = pattern_of(name);
    auto rule = rules_.find(pattern.text);
    for (const std::string_view suffix : {".weight", ".bias"}) {
      if (rule != rules_.end() || !pattern.text.ends_with(suffix)) continue;
      rule = rules_.find(pattern.text.substr(0, pattern.text.size() - suffix.size()));
      end = suffix;
    }
    if (rule == rules_.end()) {
      return unsupported("the tensor '" + source_name.substr(0, kShownBytes) +
                         "' is no part of a " + config_.model_class() + " that can be converted");
    }
    if (rule->second->to.empty()) return PlacedTensors();
    CHIMERE_TRY(Tensor tensor, values());
    Site site = {.config = config_, .layer = pattern.layer, .name = source_name, .targets = {}};
    for (std::string target : split(rule->second->to, '|')) {
      if (const size_t star = target.find('*'); star != std::string::npos) {
        target.replace(star, 1, std::to_string(pattern.layer));
      }
      site.targets.push_back(target + end);
    }
    PlacedTensors out;
    out.expert = pattern.expert;
    if (rule->second->how != nullptr) {
      CHIMERE_TRY(out.tensors, rule->second->how(site, std::move(tensor)));
    } else {
      out.tensors = only(site, std::move(tensor));
    }
    return out;
  }

  Result<TensorPlan> finish() {
    for (auto& [name, parts] : experts_) {
      std::vector<Tensor> all;
      for (auto& [expert, tensor] : parts) {
        if (expert != static_cast<int>(all.size())) {
          return invalid_data(name + ": the weights of expert " + std::to_string(all.size()) +
                              " are missing");
        }
        all.push_back(std::move(tensor));
      }
      auto whole = stacked(std::move(all));
      if (!whole.ok()) return invalid_data(name + " has " + whole.error().message);
      out_.tensors.push_back({name, *std::move(whole)});
    }
    if (family_.extra != nullptr) {
      CHIMERE_TRY(NamedTensors extra, family_.extra(config_));
      for (NamedTensor& one : extra) out_.tensors.push_back(std::move(one));
    }
    std::ranges::sort(out_.tensors, {}, [](const NamedTensor& t) {
      return std::tuple(t.name.starts_with("blk."), pattern_of(t.name).layer, t.name);
    });
    for (size_t i = 1; i < out_.tensors.size(); ++i) {
      if (out_.tensors[i].name == out_.tensors[i - 1].name) {
        return invalid_data("several tensors of the source would become " + out_.tensors[i].name);
      }
    }
    return std::move(out_);
  }

 private:
  const Family& family_;
  const Config& config_;
  std::unordered_map<std::string, const Rule*> rules_;
  std::map<std::string, std::map<int, Tensor>> experts_;
  TensorPlan out_;
};

const SourceTensor* find_source(const Checkpoint& checkpoint, Names plain) {
  for (const SourceTensor* tensor : checkpoint.tensors()) {
    const std::string name = plain_name(tensor->name);
    if (std::ranges::find(plain, std::string_view(name)) != plain.end()) return tensor;
  }
  return nullptr;
}

/// An output matrix with the bytes of the embedding.
bool equal_output(const Checkpoint& checkpoint) {
  const SourceTensor* const in =
      find_source(checkpoint, {"embeddings.weight", "embedding.weight", "embed_tokens.weight"});
  const SourceTensor* const out = find_source(checkpoint, {"lm_head.weight"});
  return in != nullptr && out != nullptr && in->type == out->type && in->shape == out->shape &&
         std::memcmp(in->bytes.data(), out->bytes.data(), in->bytes.size()) == 0;
}

}  // namespace

Result<TensorPlan> plan_tensors(const Family& family, const Config& config,
                                const Checkpoint& checkpoint) {
  CHIMERE_TRY(const Rules rules, family.rules(config));
  Planner planner(family, config, rules);
  const bool drop_output = family.drop_equal_output && equal_output(checkpoint);
  std::unordered_map<std::string_view, const SourceTensor*> by_name;
  for (const SourceTensor* tensor : checkpoint.tensors()) by_name[tensor->name] = tensor;
  const auto other = [&](const std::string& name, std::string_view end, std::string_view instead) {
    if (!name.ends_with(end)) return static_cast<const SourceTensor*>(nullptr);
    const auto found =
        by_name.find(name.substr(0, name.size() - end.size()) + std::string(instead));
    return found == by_name.end() ? nullptr : found->second;
  };
  for (const SourceTensor* tensor : checkpoint.tensors()) {
    if (drop_output && plain_name(tensor->name) == "lm_head.weight") continue;
    if (other(tensor->name, kScales, kBlocks) != nullptr) continue;  // read with the blocks
    CHIMERE_CHECK_OK(planner.add(*tensor, other(tensor->name, kBlocks, kScales)));
  }
  CHIMERE_TRY(TensorPlan plan, planner.finish());
  if (family.drafter) return plan;
  const auto embedding = std::ranges::find(plan.tensors, "token_embd.weight", &NamedTensor::name);
  if (embedding == plan.tensors.end() || embedding->tensor.shape.size() != 2) {
    return invalid_data(checkpoint.folder + " has no matrix of token embeddings");
  }
  return plan;
}

Result<PlacedTensors> place_tensor(const Family& family, const Config& config,
                                   const std::string& name, const Tensor& values) {
  CHIMERE_TRY(const Rules rules, family.rules(config));
  return Planner(family, config, rules).place(name, [&]() -> Result<Tensor> { return values; });
}

DType file_type_of(const NamedTensor& tensor, DType wanted) {
  const std::string& name = tensor.name;
  if (tensor.tensor.read_stored) return tensor.tensor.stored;
  if (tensor.tensor.shape.size() < 2 || name.ends_with("_norm.weight")) return DType::kF32;
  constexpr std::string_view kF32[] = {".ffn_gate_inp.weight", ".ffn_gate_inp_shexp.weight",
                                       ".ssm_conv1d.weight", ".shortconv.conv.weight"};
  const bool kept = std::ranges::any_of(kF32, [&](auto end) { return name.ends_with(end); });
  if (kept || name == "position_embd.weight" || name == "token_types.weight" ||
      !name.ends_with(".weight")) {
    return DType::kF32;
  }
  if (tensor.tensor.width() % dtype_info(wanted).block_elements != 0) return DType::kF16;
  return wanted;
}

}  // namespace chimere::convert
