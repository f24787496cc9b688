#include "bytes_model.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>

#include "kernels/cpu/unpacked_iq3_s.h"
#include "state/state_store.h"
#include "tensor/dtype.h"

namespace chimere::app {
namespace {

/// "blk.7.ffn_up_exps.weight" -> 7; -1 for tensors outside the blocks.
int64_t block_of(std::string_view name) {
  if (!name.starts_with("blk.")) return -1;
  int64_t block = -1;
  name.remove_prefix(4);
  std::from_chars(name.data(), name.data() + name.size(), block);
  return block;
}

}  // namespace

BytesModel::BytesModel(const runtime::LoadedModel& loaded) {
  const gguf::Reader& file = *loaded.file;
  const std::string prefix = loaded.model->architecture() + ".";
  const auto key = [&](const char* name, int64_t otherwise) {
    const auto value = file.get_int(prefix + name);
    return value.ok() ? *value : otherwise;
  };
  // The last blocks may be an MTP head, which the main model does not read.
  const int64_t blocks = key("block_count", 0) - key("nextn_predict_layers", 0);
  double packed = 0;  // of the experts whose type is unpacked, as they lie in the file
  for (const gguf::TensorInfo& t : file.tensors()) {
    if (t.name.find("_exps.") == std::string::npos || block_of(t.name) >= blocks) continue;
    const auto bytes = static_cast<double>(t.bytes);
    experts_ += bytes;
    if (t.type == DType::kIQ3_S) packed += bytes;
  }
  const auto all = static_cast<double>(key("expert_count", 1));
  n_experts_ = std::max(all, 1.0);
  used_ = static_cast<double>(key("expert_used_count", 1)) / n_experts_;
  used_by_generations_ = used_;
  dense_ = static_cast<double>(loaded.model->active_weight_bytes()) - used_ * experts_;
  if (loaded.unpacked_bytes > 0) {
    constexpr int64_t kBlock = kernels::cpu::UnpackedIq3S::kElements;
    const auto in_memory = static_cast<double>(kernels::cpu::unpacked_row_bytes(kBlock));
    experts_ += packed * (in_memory / static_cast<double>(row_bytes(DType::kIQ3_S, kBlock)) - 1);
  }
  const state::StateStore& states = loaded.model->states();
  state_ = static_cast<double>(states.bytes_per_slot());
  per_token_ = static_cast<double>(states.bytes_per_token());
}

double BytesModel::weights(int64_t rows, double used) const {
  return dense_ + experts_ * (1 - std::pow(1 - used, static_cast<double>(rows)));
}

double BytesModel::prompt_step(int64_t position, int64_t rows) const {
  double bytes = weights(rows, used_);
  for (int64_t at = 0; at < rows; at += kernels::kMaxChunkRows) {
    const int64_t chunk = std::min<int64_t>(kernels::kMaxChunkRows, rows - at);
    bytes += 2 * state_ + per_token_ * static_cast<double>(position + at + chunk);
  }
  return bytes;
}

double BytesModel::decode_step(int64_t position, int64_t batch) const {
  return weights(batch, used_by_generations_) +
         static_cast<double>(batch) * (2 * state_ + per_token_ * static_cast<double>(position + 1));
}

}  // namespace chimere::app
