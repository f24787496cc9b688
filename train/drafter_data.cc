#include "drafter_data.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <numeric>
#include <utility>

namespace chimere::train {
namespace {

constexpr int64_t kRowsMultiple = 8;    // bf16 products of other widths are slower
constexpr int64_t kChunk = 64;          // rows of the delta rule's chunks
constexpr int64_t kComputed = 1 << 15;  // rows at a time: bounds the target's activations

/// A tensor of this type and shape. Errors: kInvalidData.
Result<const gguf::TensorInfo*> find(const gguf::Reader& file, const char* name, DType type,
                                     size_t dimensions) {
  const gguf::TensorInfo* info = file.find_tensor(name);
  if (info == nullptr || info->type != type || info->dims.size() != dimensions) {
    return invalid_data(file.path() + ": the tensor " + name + " is missing, not " +
                        std::string(dtype_name(type)) + " or has not " +
                        std::to_string(dimensions) + " dimensions.");
  }
  return info;
}

Result<std::vector<std::string>> shards_of(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().extension() == ".gguf") paths.push_back(it->path().string());
  }
  if (error) return not_found("Cannot read the folder " + folder + ": " + error.message());
  if (paths.empty()) return not_found("The folder " + folder + " has no shards (*.gguf).");
  std::sort(paths.begin(), paths.end());
  return paths;
}

int64_t first_anchor(const HiddenSequence& s) { return std::max<int64_t>(0, s.prompt - 1); }

/// Whether these can be layers of a model.
bool are_layers(const std::vector<int64_t>& layers) {
  return !layers.empty() && layers.front() >= 0 &&
         std::adjacent_find(layers.begin(), layers.end(), std::greater_equal<>()) == layers.end();
}

/// A number from [from, to].
int64_t draw(std::mt19937_64& random, int64_t from, int64_t to) {
  return from + static_cast<int64_t>(random() % static_cast<uint64_t>(to - from + 1));
}

}  // namespace

Result<HiddenStates> HiddenStates::open(const std::vector<std::string>& folders, int64_t n_embd,
                                        int64_t n_vocab) {
  HiddenStates out;
  for (const std::string& folder : folders) {
    CHIMERE_TRY(const auto paths, shards_of(folder));
    for (const std::string& path : paths) CHIMERE_CHECK_OK(out.add(path, n_embd, n_vocab));
  }
  if (out.shards_.empty()) return invalid_argument("--data names no folder.");
  return out;
}

Status HiddenStates::add(const std::string& path, int64_t n_embd, int64_t n_vocab) {
  Shard shard;
  CHIMERE_TRY(shard.file, gguf::Reader::open(path));
  const gguf::Reader& file = *shard.file;
  CHIMERE_TRY(const std::string type, file.get_string("general.type"));
  if (type != "hidden-states") return invalid_data(path + " has no hidden states but " + type);
  CHIMERE_TRY(shard.set, file.get_string("hidden_states.set"));
  const bool has_rows = file.find_tensor("rows") != nullptr;
  if (shards_.empty()) has_rows_ = has_rows;
  if (has_rows != has_rows_) {
    return invalid_data(path +
                        (has_rows ? " has rows (hidden states), shards before it have none"
                                  : " has no rows (hidden states), shards before it have") +
                        ". Use shards of one kind.");
  }
  const auto width = file.get_int("hidden_states.embedding_length");
  if (width.ok() ? *width != n_embd : has_rows) {
    return invalid_data(path + ": hidden_states.embedding_length is not the target's, " +
                        std::to_string(n_embd) + ".");
  }
  CHIMERE_TRY(const auto* tokens, find(file, "tokens", DType::kI32, 1));
  CHIMERE_TRY(const auto* starts, find(file, "starts", DType::kI32, 1));
  CHIMERE_TRY(const auto* prompts, find(file, "prompts", DType::kI32, 1));
  const int64_t n = tokens->dims[0], m = starts->dims[0];
  if (prompts->dims[0] != m) {
    return invalid_data(path + ": the shapes of starts and prompts do not match.");
  }
  if (has_rows) CHIMERE_CHECK_OK(add_rows(shard, n_embd, n));
  shard.tokens = static_cast<const int32_t*>(tokens->data);
  const bool known = std::all_of(shard.tokens, shard.tokens + n,
                                 [&](int32_t token) { return token >= 0 && token < n_vocab; });
  if (!known) return invalid_data(path + ": tokens outside the target's vocabulary.");
  const auto* start = static_cast<const int32_t*>(starts->data);
  const auto* prompt = static_cast<const int32_t*>(prompts->data);
  for (int64_t i = 0; i < m; ++i) {
    const int64_t end = i + 1 < m ? start[i + 1] : n;
    const HiddenSequence s{shards_.size(), start[i], end - start[i], prompt[i]};
    if ((i == 0 && s.begin != 0) || s.size < 1 || end > n || s.prompt < 0 || s.prompt > s.size) {
      return invalid_data(path + ": sequence " + std::to_string(i) + " has impossible bounds.");
    }
    sequences_.push_back(s);
  }
  CHIMERE_CHECK_OK(file.check_unchanged());
  shards_.push_back(std::move(shard));
  return {};
}

Status HiddenStates::add_rows(Shard& shard, int64_t n_embd, int64_t n) {
  const gguf::Reader& file = *shard.file;
  CHIMERE_TRY(const auto layers, file.get_int_array("hidden_states.layers"));
  if (shards_.empty()) layers_ = layers;
  if (!are_layers(layers) || layers != layers_) {
    return invalid_data(file.path() +
                        ": hidden_states.layers do not rise or differ from other shards'.");
  }
  row_size_ = n_embd * static_cast<int64_t>(layers.size());
  CHIMERE_TRY(const auto* rows, find(file, "rows", DType::kF16, 2));
  if (rows->dims[0] != row_size_ || rows->dims[1] != n) {
    return invalid_data(file.path() + ": the shapes of tokens and rows do not match.");
  }
  shard.rows = static_cast<const uint8_t*>(rows->data);
  return {};
}

Status HiddenStates::set_target(std::shared_ptr<const Model> target, std::vector<int64_t> layers) {
  if (has_rows_) return invalid_argument("The shards have rows: a target need not compute them.");
  const int64_t n_layer = target->config().n_layer;
  if (!are_layers(layers) || layers.back() >= n_layer) {
    return invalid_argument("Layers whose outputs are read rise, from 0 to " +
                            std::to_string(n_layer - 1) + " for this target.");
  }
  row_size_ = target->config().n_embd * static_cast<int64_t>(layers.size());
  target_ = std::move(target);
  layers_ = std::move(layers);
  return {};
}

std::span<const int32_t> HiddenStates::tokens(const HiddenSequence& s) const {
  return {shards_[s.shard].tokens + s.begin, static_cast<size_t>(s.size)};
}

void HiddenStates::copy_rows(const HiddenSequence& s, int64_t from, int64_t n, void* to) const {
  const auto bytes = static_cast<size_t>(row_size_) * 2;
  const auto row = static_cast<size_t>(s.begin + from);
  std::memcpy(to, shards_[s.shard].rows + row * bytes, static_cast<size_t>(n) * bytes);
}

torch::Tensor HiddenStates::compute_rows(const torch::Tensor& tokens) const {
  const torch::NoGradGuard no_grad;
  const int64_t n = tokens.size(1);
  // Whole chunks of the delta rule: its kernel on a GPU has seen no others. Rows do not depend on
  // tokens after them.
  const torch::Tensor whole =
      torch::constant_pad_nd(tokens, {0, (kChunk - n % kChunk) % kChunk}).contiguous();
  std::vector<torch::Tensor> rows;
  for (const torch::Tensor& part : whole.split(std::max<int64_t>(1, kComputed / whole.size(1)))) {
    rows.push_back(target_->layer_outputs(part, layers_).narrow(1, 0, n));
  }
  return torch::cat(rows);
}

Status HiddenStates::check_unchanged() const {
  for (const Shard& shard : shards_) CHIMERE_CHECK_OK(shard.file->check_unchanged());
  return {};
}

AnchorOrder::AnchorOrder(const HiddenStates& data, const AnchorChoice& choice)
    : data_(data), choice_(choice) {
  const auto& sequences = data_.sequences();
  for (size_t i = 0; i < sequences.size(); ++i) {
    const int64_t anchors = last_anchor(sequences[i]) - first_anchor(sequences[i]) + 1;
    if (anchors < 1) continue;
    const int64_t visits = data_.has_rows() ? 1 + (anchors - 1) / choice_.window : 1;
    visits_.insert(visits_.end(), static_cast<size_t>(visits), i);
  }
}

int64_t AnchorOrder::last_anchor(const HiddenSequence& s) const {
  const int64_t last = s.size - 2;
  return data_.has_rows() ? last : std::min(last, choice_.window);
}

Result<AnchorOrder> AnchorOrder::create(const HiddenStates& data, const AnchorChoice& choice) {
  if (choice.batch < 1 || choice.anchors < 1 || choice.window < 2 || choice.block < 2) {
    return invalid_argument(
        "A step has at least one sequence and one anchor, a window and a block 2 rows.");
  }
  if (data.layers().empty()) {
    return invalid_argument("The shards have no rows, and no target was given to compute them.");
  }
  AnchorOrder out(data, choice);
  if (out.visits_.empty()) {
    return invalid_data("No sequence of the shards has a generated token in its window.");
  }
  return out;
}

const HiddenSequence& AnchorOrder::visit(int64_t index) {
  const auto n = static_cast<int64_t>(visits_.size());
  if (index / n != epoch_) {
    epoch_ = index / n;
    order_ = visits_;
    std::mt19937_64 shuffle(choice_.seed * 1'000'003 + static_cast<uint64_t>(epoch_));
    std::shuffle(order_.begin(), order_.end(), shuffle);
  }
  return data_.sequences()[order_[static_cast<size_t>(index % n)]];
}

AnchorOrder::Window AnchorOrder::window(const HiddenSequence& s, std::mt19937_64& random) const {
  const int64_t w = choice_.window, last = last_anchor(s);
  Window out{&s, 0, {}};
  int64_t from = first_anchor(s), to = last;
  if (last > w) {
    // Each position is about equally likely to be in the window's second half.
    const int64_t near = draw(random, from, to);
    to = std::clamp(near + draw(random, 0, w / 2), w, last);
    out.first = to - w;
    if (out.first > 0) from = std::max(from, to - w / 2);
  }
  std::vector<int64_t> all(static_cast<size_t>(to - from + 1));
  std::iota(all.begin(), all.end(), from);
  const auto n = std::min(static_cast<int64_t>(all.size()), choice_.anchors);
  for (int64_t i = 0; i < n; ++i) {
    std::swap(all[static_cast<size_t>(i)],
              all[static_cast<size_t>(draw(random, i, static_cast<int64_t>(all.size()) - 1))]);
  }
  all.resize(static_cast<size_t>(n));
  out.anchors = std::move(all);
  return out;
}

Result<DrafterBatch> AnchorOrder::batch(int64_t step, bool pinned) {
  const int64_t b = choice_.batch, a = choice_.anchors, drafts = choice_.block - 1;
  std::mt19937_64 random((choice_.seed << 32) + static_cast<uint64_t>(step));
  std::vector<Window> windows;
  int64_t most = 1;
  for (int64_t i = 0; i < b; ++i) {
    windows.push_back(window(visit(step * b + i), random));
    most = std::max(most, windows.back().rows());
  }
  most = (most + kRowsMultiple - 1) / kRowsMultiple * kRowsMultiple;
  const auto options = torch::TensorOptions().pinned_memory(pinned);
  const auto integers = options.dtype(torch::kLong);
  DrafterBatch out{{},
                   {},
                   torch::zeros({b}, integers),
                   torch::zeros({b, a}, integers),
                   torch::zeros({b, a}, integers),
                   torch::full({b, a, drafts}, -1, integers)};
  auto* labels = out.labels.data_ptr<int64_t>();
  for (int64_t i = 0; i < b; ++i) {
    const Window& w = windows[static_cast<size_t>(i)];
    const auto tokens = data_.tokens(*w.sequence);
    out.first.data_ptr<int64_t>()[i] = w.first;
    for (int64_t j = 0; j < a; ++j) {
      const auto n = static_cast<int64_t>(w.anchors.size());
      const int64_t at = w.anchors[static_cast<size_t>(std::min(j, n - 1))];
      out.anchors.data_ptr<int64_t>()[i * a + j] = tokens[static_cast<size_t>(at)];
      out.positions.data_ptr<int64_t>()[i * a + j] = at;
      if (j >= n) continue;  // a text shorter than its anchors: a block without labels
      for (int64_t k = 0; k < drafts && at + 1 + k < w.sequence->size; ++k) {
        labels[(i * a + j) * drafts + k] = tokens[static_cast<size_t>(at + 1 + k)];
      }
    }
  }
  if (data_.has_rows()) {
    out.rows = torch::zeros({b, most, data_.row_size()}, options.dtype(torch::kHalf));
    auto* rows = static_cast<uint8_t*>(out.rows.data_ptr());
    at::parallel_for(0, b, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Window& w = windows[static_cast<size_t>(i)];
        data_.copy_rows(*w.sequence, w.first, w.rows(), rows + i * most * data_.row_size() * 2);
      }
    });
  } else {
    out.tokens = torch::zeros({b, most}, integers);
    auto* tokens = out.tokens.data_ptr<int64_t>();
    for (int64_t i = 0; i < b; ++i) {
      const Window& w = windows[static_cast<size_t>(i)];
      std::copy_n(data_.tokens(*w.sequence).begin(), w.rows(), tokens + i * most);
    }
  }
  CHIMERE_CHECK_OK(data_.check_unchanged());
  return out;
}

}  // namespace chimere::train
