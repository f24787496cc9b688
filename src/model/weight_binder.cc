#include "model/weight_binder.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>

#include "kernels/api.h"
#include "state/checksum.h"

namespace chimere::model {
namespace {

// Enough to see what is wrong: a file of another architecture would give hundreds of problems.
constexpr size_t kMaxListedProblems = 8;

constexpr std::string_view kBlock = "blk.";
constexpr std::string_view kEmbedding = "token_embd.weight";

/// First words of the names of tensors that belong to other parts of a model than its text model:
/// vision, audio, what projects them, and further heads.
constexpr std::string_view kOtherParts =
    " v a s mm mtp vision visual audio vision_model vision_tower audio_model audio_tower resampler "
    "projector mm_projector multi_modal_projector medusa_head v_head value_head ";

/// "128 x 64"; a trailing dimension of 1 is omitted.
std::string shape_text(const std::vector<int64_t>& dims) {
  std::string text;
  for (const int64_t d : dims) text += (text.empty() ? "" : " x ") + std::to_string(d);
  return text;
}

std::vector<int64_t> without_trailing_ones(std::vector<int64_t> dims) {
  while (dims.size() > 1 && dims.back() == 1) dims.pop_back();
  return dims;
}

bool linear_type(DType type) {
  return dtype_info(type).quantised || type == DType::kF32 || type == DType::kF16 ||
         type == DType::kBF16;
}

std::string list_text(const std::vector<std::string>& items) {
  std::string text;
  for (size_t i = 0; i < std::min(items.size(), kMaxListedProblems); ++i) {
    text += (i > 0 ? "; " : "") + items[i];
  }
  if (items.size() > kMaxListedProblems) {
    text += "; and " + std::to_string(items.size() - kMaxListedProblems) + " more";
  }
  return text;
}

}  // namespace

const gguf::TensorInfo* WeightBinder::lookup(const std::string& name) const {
  const bool vocabulary = name == kEmbedding || name == "output.weight";
  if (target_ != nullptr && vocabulary && file_.find_tensor(kEmbedding) == nullptr) {
    return target_->find_tensor(name);
  }
  const gguf::TensorInfo* tensor = file_.find_tensor(name);
  // Ollama's converters write this one without its suffix.
  constexpr std::string_view kSuffix = ".bias";
  if (tensor != nullptr || !name.ends_with(".ssm_dt.bias")) return tensor;
  return file_.find_tensor(name.substr(0, name.size() - kSuffix.size()));
}

std::string WeightBinder::part_of(const std::string& tensor) const {
  const std::string part = tensor.substr(0, std::min(tensor.find('.'), tensor.size()));
  if (kOtherParts.find(" " + part + " ") != std::string_view::npos) return part;
  int block = 0;
  const char* const number = tensor.data() + std::min(tensor.size(), kBlock.size());
  const bool numbered =
      tensor.starts_with(kBlock) &&
      std::from_chars(number, tensor.data() + tensor.size(), block).ec == std::errc();
  const std::string name = std::string(kBlock) + std::to_string(block);
  const bool head = numbered && block >= first_left_out_ && has(name + ".nextn.eh_proj.weight");
  return head ? name : std::string();
}

const gguf::TensorInfo* WeightBinder::find(const std::string& name,
                                           const std::vector<int64_t>& dims) {
  const gguf::TensorInfo* tensor = lookup(name);
  if (tensor == nullptr) {
    problems_.push_back(name + " is missing");
    return nullptr;
  }
  bound_.insert(tensor->name);
  if (without_trailing_ones(tensor->dims) != without_trailing_ones(dims)) {
    problems_.push_back(name + " is " + shape_text(tensor->dims) + ", not " + shape_text(dims));
    return nullptr;
  }
  return tensor;
}

WeightView WeightBinder::view(const std::string& name, const std::vector<int64_t>& dims) {
  const int64_t n_in = dims[0];
  const int64_t n_rows = dims.size() == 3 ? dims[1] * dims[2] : dims[1];
  const gguf::TensorInfo* tensor = find(name, dims);
  if (tensor == nullptr) return {};
  if (!linear_type(tensor->type) || n_in % dtype_info(tensor->type).block_elements != 0) {
    problems_.push_back(name + " has type " + std::string(dtype_name(tensor->type)) +
                        ", which cannot hold a weight matrix with rows of " + std::to_string(n_in));
    return {};
  }
  return {tensor->type, n_rows, n_in, tensor->data};
}

const float* WeightBinder::f32(const std::string& name, const std::vector<int64_t>& dims) {
  const gguf::TensorInfo* tensor = find(name, dims);
  if (tensor == nullptr) return nullptr;
  if (tensor->type != DType::kF32) {
    problems_.push_back(name + " has type " + std::string(dtype_name(tensor->type)) + ", not f32");
    return nullptr;
  }
  active_bytes_ += static_cast<int64_t>(tensor->bytes);
  return static_cast<const float*>(tensor->data);
}

int64_t WeightBinder::rows_of(const std::string& name) const {
  const gguf::TensorInfo* tensor = lookup(name);
  if (tensor == nullptr) return 0;
  return tensor->dims.size() < 2 ? 1 : tensor->dims[1];
}

const float* WeightBinder::vector(const std::string& name, int64_t n) { return f32(name, {n}); }

const float* WeightBinder::f32_matrix(const std::string& name, int64_t n_out, int64_t n_in) {
  return f32(name, {n_in, n_out});
}

void WeightBinder::add_target(AdapterTarget target, WeightView& w) {
  if (w.data == nullptr) return;
  w.target = static_cast<int32_t>(targets_.size());
  targets_.push_back(std::move(target));
}

void WeightBinder::mark_in_experts(const WeightView& w) {
  if (w.target >= 0) targets_[static_cast<size_t>(w.target)].in_experts = true;
}

WeightView WeightBinder::fixed_matrix(const std::string& name, int64_t n_out, int64_t n_in) {
  const WeightView w = view(name, {n_in, n_out});
  active_bytes_ += w.bytes();
  return w;
}

WeightView WeightBinder::matrix(const std::string& name, int64_t n_out, int64_t n_in) {
  WeightView w = fixed_matrix(name, n_out, n_in);
  add_target({.tensor = name, .n_in = n_in, .part_rows = n_out}, w);
  return w;
}

WeightView WeightBinder::table(const std::string& name, int64_t n_rows, int64_t n_in) {
  const WeightView w = view(name, {n_in, n_rows});
  if (w.data != nullptr) active_bytes_ += row_bytes(w.type, n_in);
  return w;
}

WeightView WeightBinder::gathered(const std::string& name, int64_t n_all, int64_t n_in,
                                  std::span<const int64_t> rows) {
  const WeightView all = view(name, {n_in, n_all});
  if (all.data == nullptr) return {};
  const auto bytes = static_cast<size_t>(row_bytes(all.type, n_in));
  copies_.push_back(std::make_unique_for_overwrite<uint8_t[]>(rows.size() * bytes));
  uint8_t* const copy = copies_.back().get();
  for (size_t i = 0; i < rows.size(); ++i) std::memcpy(copy + i * bytes, all.row(rows[i]), bytes);
  WeightView w = {all.type, static_cast<int64_t>(rows.size()), n_in, copy};
  add_target({.tensor = name,
              .n_in = n_in,
              .part_rows = n_all,
              .rows = std::vector<int64_t>(rows.begin(), rows.end())},
             w);
  active_bytes_ += w.bytes();
  return w;
}

std::vector<WeightView> WeightBinder::experts(const std::string& name, int n_experts, int n_used,
                                              int64_t n_out, int64_t n_in) {
  if (const size_t at = name.find("_exps.weight"); at != std::string::npos && !has(name)) {
    const std::string of_expert = name.substr(0, at) + ".";
    if (has(of_expert + "0.weight"))
      return separate_experts(of_expert, n_experts, n_used, n_out, n_in);
  }
  WeightView all = view(name, {n_in, n_out, n_experts});
  add_target(
      {.tensor = name, .n_in = n_in, .part_rows = n_out, .parts = n_experts, .in_experts = true},
      all);
  std::vector<WeightView> each(static_cast<size_t>(n_experts));
  if (all.data == nullptr) return each;
  for (size_t e = 0; e < each.size(); ++e) {
    each[e] = all.rows_from(static_cast<int64_t>(e) * n_out, n_out);
  }
  active_bytes_ += n_used * each[0].bytes();
  return each;
}

std::vector<WeightView> WeightBinder::separate_experts(const std::string& prefix, int n_experts,
                                                       int n_used, int64_t n_out, int64_t n_in) {
  std::vector<WeightView> each;
  for (int e = 0; e < n_experts; ++e) {
    const std::string name = prefix + std::to_string(e) + ".weight";
    each.push_back(view(name, {n_in, n_out}));
    add_target({.tensor = name, .n_in = n_in, .part_rows = n_out, .in_experts = true}, each.back());
  }
  active_bytes_ += n_used * each[0].bytes();
  return each;
}

Status WeightBinder::finish() const {
  if (!problems_.empty()) {
    return invalid_data("the file's tensors do not fit its hyper-parameters: " +
                        list_text(problems_));
  }
  std::vector<std::string> unknown;
  for (const gguf::TensorInfo& tensor : file_.tensors()) {
    if (!bound_.contains(tensor.name) && part_of(tensor.name).empty()) {
      unknown.push_back(tensor.name);
    }
  }
  if (!unknown.empty()) {
    return unsupported("the file has tensors that this architecture does not use: " +
                       list_text(unknown));
  }
  return {};
}

std::string WeightBinder::left_out() const {
  std::map<std::string, int> parts;
  int all = 0;
  for (const gguf::TensorInfo& tensor : file_.tensors()) {
    if (bound_.contains(tensor.name)) continue;
    ++parts[part_of(tensor.name)];
    ++all;
  }
  std::string text;
  for (const auto& [part, n] : parts) {
    text += (text.empty() ? "" : ", ") + part + ".* (" + std::to_string(n) + ")";
  }
  if (all == 0) return text;
  return "Only the text model of the file is run: " + std::to_string(all) +
         (all == 1 ? " tensor is" : " tensors are") + " left out, " + text + ".";
}

uint64_t model_key(const gguf::Reader& file, const std::string& architecture,
                   const std::map<std::string, float>& options) {
  std::vector<uint8_t> bytes;
  auto append_text = [&bytes](std::string_view text) {
    state::append_u64(bytes, text.size());
    bytes.insert(bytes.end(), text.begin(), text.end());
  };
  state::append_u64(bytes, kernels::kNumericsVersion);
  for (const std::string& key : file.keys()) {
    if (!key.starts_with(architecture + ".")) continue;
    append_text(key);
    std::visit(
        [&](const auto& v) {
          using T = std::decay_t<decltype(v)>;
          if constexpr (std::is_arithmetic_v<T> && sizeof(T) == sizeof(uint64_t)) {
            state::append_u64(bytes, std::bit_cast<uint64_t>(v));
          } else if constexpr (std::is_same_v<T, std::string>) {
            append_text(v);
          }
        },
        *file.find(key));
  }
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    append_text(tensor.name);
    state::append_u64(bytes, static_cast<uint64_t>(tensor.type));
    for (const int64_t d : tensor.dims) state::append_u64(bytes, static_cast<uint64_t>(d));
  }
  for (const auto& [option, value] : options) {
    append_text(option);
    state::append_u64(bytes, std::bit_cast<uint32_t>(value));
  }
  return state::checksum(bytes);
}

}  // namespace chimere::model
