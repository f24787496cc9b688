#include "drafter_model.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "attention.h"
#include "fused.h"
#include "model/block_draft.h"
#include "model/keys.h"
#include "quant/quant.h"
#include "quantise.h"

namespace chimere::train {
namespace {

using torch::Tensor;

constexpr const char* kArchitecture = "dflash";
constexpr const char* kWindow = "attention.sliding_window";
constexpr const char* kWindowPattern = "attention.sliding_window_pattern";
constexpr const char* kMaskToken = "tokenizer.ggml.mask_token_id";

std::string key(const char* name) { return std::string(kArchitecture) + "." + name; }

std::string in_layer(int64_t layer, const char* name) {
  return "blk." + std::to_string(layer) + "." + name + ".weight";
}

struct IntegerKey {
  const char* name;
  int64_t DrafterConfig::*field;
};
constexpr IntegerKey kIntegers[] = {
    {"block_count", &DrafterConfig::n_layer},
    {"context_length", &DrafterConfig::context},
    {"embedding_length", &DrafterConfig::n_embd},
    {"feed_forward_length", &DrafterConfig::n_ff},
    {"attention.head_count", &DrafterConfig::n_head},
    {"attention.head_count_kv", &DrafterConfig::n_head_kv},
    {"attention.key_length", &DrafterConfig::head_dim},
    {"vocab_size", &DrafterConfig::n_vocab},
    {"block_size", &DrafterConfig::block},
};

/// A tensor in f32 on the CPU. Errors: it is missing, has another number of dimensions, or no
/// floats.
Result<Tensor> decoded(const gguf::Reader& file, const std::string& name, size_t dimensions) {
  const gguf::TensorInfo* info = file.find_tensor(name);
  if (info == nullptr || info->dims.size() != dimensions) {
    return invalid_data("The target has no tensor " + name + " of " + std::to_string(dimensions) +
                        " dimensions.");
  }
  const DTypeInfo& type = dtype_info(info->type);
  const bool floats = info->type == DType::kF32 || info->type == DType::kF16 ||
                      info->type == DType::kBF16 || type.quantised;
  if (!floats) {
    return invalid_data("The target's " + name + " has the type " + std::string(type.name) + ".");
  }
  Tensor value = torch::empty(std::vector<int64_t>(info->dims.rbegin(), info->dims.rend()));
  quant::decode(info->type, info->data, value.data_ptr<float>(), value.numel());
  return value;
}

}  // namespace

Result<DrafterTarget> read_target(const gguf::Reader& file, torch::Device device,
                                  torch::Dtype compute) {
  CHIMERE_TRY(const std::string architecture, file.get_string("general.architecture"));
  DrafterTarget out;
  CHIMERE_TRY(const Tensor embedding, decoded(file, "token_embd.weight", 2));
  CHIMERE_TRY(const Tensor norm, decoded(file, "output_norm.weight", 1));
  out.embedding = embedding.to(device);
  out.norm = norm.to(device);
  if (file.find_tensor("output.weight") != nullptr) {
    CHIMERE_TRY(const Tensor output, decoded(file, "output.weight", 2));
    out.output = output.to(device).to(compute);
  } else {
    out.output = out.embedding.to(compute);
  }
  if (out.output.sizes() != out.embedding.sizes() || norm.size(0) != embedding.size(1)) {
    return invalid_data("The target's embedding, output norm and output matrix do not match.");
  }
  CHIMERE_TRY(out.context, file.get_int(architecture + ".context_length"));
  CHIMERE_TRY(out.eps, file.get_float(architecture + ".attention.layer_norm_rms_epsilon"));
  if (const auto base = file.get_float(architecture + ".rope.freq_base"); base.ok()) {
    out.rope_base = *base;
  }
  CHIMERE_CHECK_OK(file.check_unchanged());
  return out;
}

void DrafterConfig::fit(const DrafterTarget& target) {
  n_vocab = target.embedding.size(0);
  n_embd = target.embedding.size(1);
  context = target.context;
  rope_base = target.rope_base;
  eps = target.eps;
}

Status DrafterConfig::check_shape() const {
  if (n_head < 1 || n_head_kv < 1 || n_head % n_head_kv != 0) {
    return invalid_data(
        "A drafter's number of heads is a multiple of that of its key-value heads.");
  }
  if (head_dim < 1 || head_dim > model::kMaxHeadDim || head_dim % model::kHeadDimUnit != 0) {
    return invalid_data("A head has " + std::to_string(head_dim) +
                        " elements; the engine runs heads of a multiple of " +
                        std::to_string(model::kHeadDimUnit) + ", at most " +
                        std::to_string(model::kMaxHeadDim) + ".");
  }
  if (block < model::kMinDraftBlock || block > model::kMaxDraftBlock) {
    return invalid_data("A block has " + std::to_string(block) +
                        " rows; the engine runs blocks of " +
                        std::to_string(model::kMinDraftBlock) + " to " +
                        std::to_string(model::kMaxDraftBlock) + ", the newest token included.");
  }
  return {};
}

Status DrafterConfig::check() const {
  CHIMERE_CHECK_OK(check_shape());
  constexpr int64_t kMost = 1 << 24;  // of anything: products of two stay far from overflow
  for (const auto& [name, field] : kIntegers) {
    const int64_t value = this->*field;
    if (value < 1 || value > kMost) {
      return invalid_data(key(name) + " is " + std::to_string(value) + ", not between 1 and " +
                          std::to_string(kMost) + ".");
    }
  }
  if (window != 0 && (window < block || window > kMost)) {
    return invalid_data(key("attention.sliding_window") + " is " + std::to_string(window) +
                        "; a window has at least the rows of a block.");
  }
  if (mask_token < 0 || mask_token >= n_vocab) {
    return invalid_data("The mask token " + std::to_string(mask_token) +
                        " is not in the target's vocabulary of " + std::to_string(n_vocab) + ".");
  }
  if (taps.empty() || taps.front() < 0 || !std::is_sorted(taps.begin(), taps.end()) ||
      std::adjacent_find(taps.begin(), taps.end()) != taps.end()) {
    return invalid_data("A drafter reads at least one layer of its target, in rising order.");
  }
  return {};
}

BlockDrafter::BlockDrafter(const DrafterConfig& config, const DrafterTarget& target, uint64_t seed)
    : config_(config), target_(target) {
  const DrafterConfig& c = config_;
  torch::Generator generator = torch::make_generator<at::CPUGeneratorImpl>(seed);
  const auto add = [&](const std::string& name, const Tensor& value) {
    parameters_[name] = value.to(device()).set_requires_grad(true);
  };
  const auto ones = [&](const std::string& name, int64_t n) { add(name, torch::ones({n})); };
  // Output matrices of residual branches start small.
  const auto matrix = [&](const std::string& name, int64_t out, int64_t in, double scale = 1.0) {
    add(name, torch::randn({out, in}, generator) * scale / std::sqrt(double(in)));
  };
  const double small = 1.0 / std::sqrt(2.0 * double(c.n_layer));
  const int64_t width = c.n_head * c.head_dim, kv = c.n_head_kv * c.head_dim;
  matrix("fc.weight", c.n_embd, c.n_embd * static_cast<int64_t>(c.taps.size()));
  ones("enc.output_norm.weight", c.n_embd);
  add("output_norm.weight", target_.norm.clone());
  for (int64_t i = 0; i < c.n_layer; ++i) {
    ones(in_layer(i, "attn_norm"), c.n_embd);
    matrix(in_layer(i, "attn_q"), width, c.n_embd);
    matrix(in_layer(i, "attn_k"), kv, c.n_embd);
    matrix(in_layer(i, "attn_v"), kv, c.n_embd);
    matrix(in_layer(i, "attn_output"), c.n_embd, width, small);
    ones(in_layer(i, "attn_q_norm"), c.head_dim);
    ones(in_layer(i, "attn_k_norm"), c.head_dim);
    ones(in_layer(i, "ffn_norm"), c.n_embd);
    matrix(in_layer(i, "ffn_gate"), c.n_ff, c.n_embd);
    matrix(in_layer(i, "ffn_up"), c.n_ff, c.n_embd);
    matrix(in_layer(i, "ffn_down"), c.n_embd, c.n_ff, small);
  }
}

Tensor BlockDrafter::weight(const std::string& name) const {
  const Tensor& value = parameters_.at(name);
  return quantised_ && has_four_bits(name, value) ? rounded_to_four_bits(value) : value;
}

Tensor BlockDrafter::linear(const Tensor& x, const std::string& name) const {
  return torch::linear(x, weight(name).to(x.scalar_type()));
}

Tensor BlockDrafter::norm(const Tensor& x, const std::string& name) const {
  return rms_norm(x, weight(name), config_.eps, target_.output.scalar_type());
}

Tensor BlockDrafter::rotated(const Tensor& y, const std::string& norm_name,
                             const Tensor& positions) const {
  const Tensor heads =
      y.view({y.size(0), y.size(1), y.size(2) / config_.head_dim, config_.head_dim});
  const Tensor normed = rms_norm(heads, weight(norm_name), config_.eps, torch::kFloat);
  return rotate(normed, positions, config_.head_dim, config_.rope_base).to(y.scalar_type());
}

DrafterContext BlockDrafter::read(const Tensor& rows, const Tensor& first) const {
  const int64_t b = rows.size(0), w = rows.size(1);
  const Tensor projected = linear(rows.to(target_.output.scalar_type()), "fc.weight");
  const Tensor c = norm(projected, "enc.output_norm.weight");
  const Tensor positions = first.unsqueeze(1) + torch::arange(w, first.options());
  DrafterContext out{{}, {}, first};
  for (int64_t i = 0; i < config_.n_layer; ++i) {
    const Tensor k = linear(c, in_layer(i, "attn_k")), v = linear(c, in_layer(i, "attn_v"));
    out.keys.push_back(rotated(k, in_layer(i, "attn_k_norm"), positions).transpose(1, 2));
    out.values.push_back(v.view({b, w, config_.n_head_kv, config_.head_dim}).transpose(1, 2));
  }
  return out;
}

Tensor BlockDrafter::attention(const Tensor& x, int64_t i, const DrafterContext& context,
                               const Places& places) const {
  const int64_t b = x.size(0), s = places.block, a = x.size(1) / s, d = config_.head_dim;
  const int64_t h = config_.n_head_kv, g = config_.n_head / h, w = context.keys[0].size(2);
  const Tensor q =
      rotated(linear(x, in_layer(i, "attn_q")), in_layer(i, "attn_q_norm"), places.positions);
  const Tensor k =
      rotated(linear(x, in_layer(i, "attn_k")), in_layer(i, "attn_k_norm"), places.positions);
  const Tensor v = linear(x, in_layer(i, "attn_v"));
  // The queries of a group share keys: they are rows of one product.
  const Tensor queries =
      q.view({b, a, s, h, g, d}).permute({0, 3, 1, 4, 2, 5}).reshape({b, h, a, g * s, d});
  const auto own = [&](const Tensor& y) {
    return y.view({b, a, s, h, d}).permute({0, 3, 1, 2, 4});
  };
  const auto layer = static_cast<size_t>(i);
  const Tensor before =
      torch::matmul(queries.reshape({b, h, a * g * s, d}), context.keys[layer].transpose(-1, -2))
          .view({b, h, a, g * s, w})
          .to(torch::kFloat)
          .masked_fill(places.unseen, -INFINITY);
  const Tensor within = torch::matmul(queries, own(k).transpose(-1, -2)).to(torch::kFloat);
  const Tensor shares =
      (torch::cat({before, within}, -1) / std::sqrt(double(d))).softmax(-1).to(x.scalar_type());
  const Tensor of_context =
      torch::matmul(shares.narrow(-1, 0, w).reshape({b, h, a * g * s, w}), context.values[layer]);
  const Tensor mixed =
      of_context.view({b, h, a, g * s, d}) + torch::matmul(shares.narrow(-1, w, s), own(v));
  return linear(
      mixed.view({b, h, a, g, s, d}).permute({0, 2, 4, 1, 3, 5}).reshape({b, a * s, h * g * d}),
      in_layer(i, "attn_output"));
}

Tensor BlockDrafter::feed_forward(const Tensor& x, int64_t i) const {
  const Tensor gate = torch::silu(linear(x, in_layer(i, "ffn_gate")));
  return linear(gate * linear(x, in_layer(i, "ffn_up")), in_layer(i, "ffn_down"));
}

Tensor BlockDrafter::forward(const DrafterContext& context, const Tensor& anchors,
                             const Tensor& positions, int64_t block) const {
  const int64_t b = anchors.size(0), a = anchors.size(1), w = context.keys[0].size(2);
  const Tensor masks = torch::full({b, a, block - 1}, config_.mask_token, anchors.options());
  const Tensor tokens = torch::cat({anchors.unsqueeze(-1), masks}, -1).view({b, a * block});
  const Tensor places = torch::arange(block, positions.options());
  const Tensor rows = context.first.unsqueeze(1) + torch::arange(w, positions.options());
  const Tensor of_rows = positions.unsqueeze(-1) + places;  // [B, A, block]
  Tensor unseen = (rows.unsqueeze(1) >= positions.unsqueeze(-1)).view({b, 1, a, 1, w});
  if (config_.window > 0) {
    const Tensor left = rows.view({b, 1, 1, w}) <= of_rows.unsqueeze(-1) - config_.window;
    unseen = unseen | left.repeat({1, 1, config_.n_head / config_.n_head_kv, 1}).unsqueeze(1);
  }
  const Places at{of_rows.view({b, a * block}), unseen, block};
  Tensor x = torch::embedding(target_.embedding, tokens);  // stays f32
  for (int64_t i = 0; i < config_.n_layer; ++i) {
    x = x + attention(norm(x, in_layer(i, "attn_norm")), i, context, at);
    x = x + feed_forward(norm(x, in_layer(i, "ffn_norm")), i);
  }
  return norm(x, "output_norm.weight").view({b, a, block, config_.n_embd});
}

Tensor BlockDrafter::logits(const Tensor& rows, int64_t first, int64_t anchor,
                            int64_t block) const {
  const auto scalar = [&](int64_t value) {
    return torch::full({1}, value, torch::TensorOptions(device()).dtype(torch::kLong));
  };
  const DrafterContext context = read(rows.unsqueeze(0), scalar(first));
  const Tensor hidden = forward(context, scalar(anchor).unsqueeze(0),
                                scalar(first + rows.size(0)).unsqueeze(0), block);
  return torch::linear(hidden.view({block, -1}).narrow(0, 1, block - 1), target_.output)
      .to(torch::kFloat);
}

Status write_drafter(const BlockDrafter& model, Mix mix, const std::string& path) {
  const DrafterConfig& c = model.config();
  gguf::Writer out;
  out.set_string("general.architecture", kArchitecture);
  out.set_string("general.name", "chimere-drafter");
  out.set_string("general.description", "Drafts blocks of tokens for the model it was trained on.");
  out.set_string("general.license", "apache-2.0");
  out.set_u32("general.quantization_version", 2);
  out.set_u32("general.alignment", 32);
  for (const auto& [name, field] : kIntegers) {
    out.set_u32(key(name), static_cast<uint32_t>(c.*field));
  }
  out.set_u32(key("attention.value_length"), static_cast<uint32_t>(c.head_dim));
  out.set_f32(key("attention.layer_norm_rms_epsilon"), static_cast<float>(c.eps));
  out.set_f32(key("rope.freq_base"), static_cast<float>(c.rope_base));
  std::vector<int32_t> layers;  // llama.cpp counts a layer's input: v is the output of layer v - 1
  for (const int64_t tap : c.taps) layers.push_back(static_cast<int32_t>(tap + 1));
  out.set_i32s(key("target_layers"), layers);
  if (c.window > 0) {
    out.set_u32(key(kWindow), static_cast<uint32_t>(c.window));
    out.set_bools(key(kWindowPattern), std::vector<bool>(static_cast<size_t>(c.n_layer), true));
  }
  out.set_u32(kMaskToken, static_cast<uint32_t>(c.mask_token));
  for (const auto& [name, value] : model.parameters()) {
    CHIMERE_CHECK_OK(add_tensor(out, name, value, mix));
  }
  return out.write(path);
}

Result<std::unique_ptr<BlockDrafter>> read_drafter(const gguf::Reader& file,
                                                   const DrafterTarget& target) {
  CHIMERE_TRY(const std::string architecture, file.get_string("general.architecture"));
  if (architecture != kArchitecture) {
    return unsupported("Drafters are dflash files, this is " + architecture + ".");
  }
  DrafterConfig c;
  for (const auto& [name, field] : kIntegers) {
    CHIMERE_TRY(c.*field, file.get_int(key(name)));
  }
  CHIMERE_TRY(c.eps, file.get_float(key("attention.layer_norm_rms_epsilon")));
  CHIMERE_TRY(c.rope_base, file.get_float(key("rope.freq_base")));
  CHIMERE_TRY(c.mask_token, file.get_int(kMaskToken));
  if (const auto window = file.get_int(key(kWindow)); window.ok()) {
    c.window = *window;
    const gguf::Value* pattern = file.find(key(kWindowPattern));
    const auto* array = pattern != nullptr ? std::get_if<gguf::Array>(pattern) : nullptr;
    const auto* flags = array != nullptr ? std::get_if<std::vector<bool>>(&array->items) : nullptr;
    if (flags != nullptr && std::count(flags->begin(), flags->end(), false) > 0) {
      return unsupported("Drafters with a window in some of their layers cannot be trained.");
    }
  }
  CHIMERE_TRY(c.taps, file.get_int_array(key("target_layers")));
  for (int64_t& tap : c.taps) --tap;
  CHIMERE_CHECK_OK(c.check());
  if (c.n_vocab != target.embedding.size(0) || c.n_embd != target.embedding.size(1)) {
    return invalid_data("The drafter is for a target with " + std::to_string(c.n_vocab) +
                        " tokens and rows of " + std::to_string(c.n_embd) + ".");
  }
  // Before memory is taken for what the metadata says; read_parameters() compares the rest.
  int64_t elements = 0;
  for (const gguf::TensorInfo& info : file.tensors()) {
    int64_t n = 1;
    for (const int64_t d : info.dims) n *= d;
    elements += n;
  }
  const auto layers = static_cast<double>(c.n_layer);
  if (layers * double(c.n_ff) * double(c.n_embd) * 3 > double(elements) ||
      layers * double(c.n_head * c.head_dim) * double(c.n_embd) * 2 > double(elements)) {
    return invalid_data("The file has fewer weights than its metadata requires.");
  }
  auto model = std::make_unique<BlockDrafter>(c, target, 0);
  CHIMERE_CHECK_OK(read_parameters(file, model->parameters()));
  return model;
}

}  // namespace chimere::train
