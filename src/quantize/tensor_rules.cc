#include "quantize/tensor_rules.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace chimere::quantize {
namespace {

constexpr std::pair<Role, std::string_view> kRoles[] = {
    {Role::kEmbedding, "embedding"},
    {Role::kOutput, "output"},
    {Role::kAttention, "attention"},
    {Role::kRecurrent, "recurrent"},
    {Role::kRecurrentGate, "recurrent_gate"},
    {Role::kDense, "dense"},
    {Role::kExperts, "experts"},
    {Role::kSharedExpert, "shared_expert"},
    {Role::kDraft, "draft"},
    {Role::kOther, "other"},
};

bool has(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}

// Parts of names that a tensor of the role has; the first row that applies.
struct RoleRule {
  std::string_view part;
  Role role;
};
constexpr RoleRule kRoleRules[] = {
    {"_shexp", Role::kSharedExpert},    {"_exps", Role::kExperts},
    {".nextn.", Role::kDraft},          {"ssm_alpha", Role::kRecurrentGate},
    {"ssm_beta", Role::kRecurrentGate}, {"ssm_ba", Role::kRecurrentGate},
    {"ssm_dt", Role::kRecurrentGate},   {"ssm_x", Role::kRecurrentGate},
    {"ssm_", Role::kRecurrent},         {"shortconv", Role::kRecurrent},
    {".attn_", Role::kAttention},       {".ffn_", Role::kDense},
};

// Names that hold parameters other than the matrices of products.
constexpr std::string_view kKept[] = {"_norm.weight",          "ffn_gate_inp",      "ssm_conv1d",
                                      "shortconv.conv.weight", "attn_rel_b.weight", "position_embd",
                                      "token_types.weight"};

}  // namespace

std::string_view role_name(Role role) {
  for (const auto& [value, name] : kRoles) {
    if (value == role) return name;
  }
  return "other";
}

std::optional<Role> parse_role(std::string_view name) {
  for (const auto& [value, known] : kRoles) {
    if (known == name) return value;
  }
  return std::nullopt;
}

std::vector<std::string> role_names() {
  std::vector<std::string> names;
  for (const auto& row : kRoles) names.emplace_back(row.second);
  return names;
}

Role role_of(std::string_view tensor, bool recurrent_block) {
  if (tensor == "token_embd.weight") return Role::kEmbedding;
  if (tensor == "output.weight") return Role::kOutput;
  for (const RoleRule& rule : kRoleRules) {
    if (!has(tensor, rule.part)) continue;
    return rule.role == Role::kAttention && recurrent_block ? Role::kRecurrent : rule.role;
  }
  return Role::kOther;
}

int block_of(std::string_view tensor) {
  constexpr std::string_view kPrefix = "blk.";
  if (!tensor.starts_with(kPrefix)) return -1;
  tensor.remove_prefix(kPrefix.size());
  int block = -1;
  const auto parsed = std::from_chars(tensor.data(), tensor.data() + tensor.size(), block);
  return parsed.ec == std::errc() && block >= 0 ? block : -1;
}

std::vector<bool> recurrent_blocks(const std::vector<gguf::TensorInfo>& tensors) {
  constexpr int kMaxBlocks = 100'000;
  std::vector<bool> recurrent;
  std::vector<bool> attention;
  for (const gguf::TensorInfo& tensor : tensors) {
    const int block = block_of(tensor.name);
    if (block < 0 || block >= kMaxBlocks) continue;
    const auto at = static_cast<size_t>(block);
    if (at >= recurrent.size()) {
      recurrent.resize(at + 1);
      attention.resize(at + 1);
    }
    if (has(tensor.name, ".ssm_") || has(tensor.name, ".shortconv")) recurrent[at] = true;
    if (has(tensor.name, ".attn_output.") || has(tensor.name, ".attn_q.")) attention[at] = true;
  }
  for (size_t i = 0; i < recurrent.size(); ++i) recurrent[i] = recurrent[i] && !attention[i];
  return recurrent;
}

bool is_quantised_tensor(const gguf::TensorInfo& tensor) {
  const bool matrix =
      std::count_if(tensor.dims.begin(), tensor.dims.end(), [](int64_t d) { return d > 1; }) >= 2;
  const DTypeInfo& info = dtype_info(tensor.type);
  const bool numbers = info.quantised || tensor.type == DType::kF32 || tensor.type == DType::kF16 ||
                       tensor.type == DType::kBF16;
  return matrix && numbers && tensor.name.ends_with(".weight") &&
         std::ranges::none_of(kKept, [&](auto part) { return has(tensor.name, part); });
}

DType fitting_type(DType type, int64_t n_in) {
  const auto fits = [n_in](DType t) { return n_in % dtype_info(t).block_elements == 0; };
  if (fits(type)) return type;
  DType other = DType::kF16;
  switch (type) {
    case DType::kIQ1_S:
    case DType::kIQ1_M:
    case DType::kIQ2_XXS:
    case DType::kIQ2_XS:
    case DType::kIQ2_S:
    case DType::kIQ3_XXS:
    case DType::kIQ3_S:
    case DType::kIQ4_XS:
    case DType::kQ2_K:
    case DType::kQ3_K:
    case DType::kIQ2_K:
    case DType::kIQ3_K:
      other = DType::kIQ4_NL;
      break;
    case DType::kTQ1_0:
    case DType::kTQ2_0:
      other = DType::kQ4_0;
      break;
    case DType::kQ4_K:
    case DType::kIQ4_K:
      other = DType::kQ5_0;
      break;
    case DType::kQ5_K:
    case DType::kIQ5_K:
      other = DType::kQ5_1;
      break;
    case DType::kQ6_K:
      other = DType::kQ8_0;
      break;
    default:
      break;
  }
  return fits(other) ? other : DType::kF16;
}

double bits_per_weight(DType type) {
  const DTypeInfo& info = dtype_info(type);
  return 8.0 * info.block_bytes / info.block_elements;
}

bool matches(std::string_view pattern, std::string_view text) {
  size_t p = 0;
  size_t t = 0;
  size_t star = std::string_view::npos;  // last * seen, and what it has taken up to now
  size_t taken = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++taken;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace chimere::quantize
