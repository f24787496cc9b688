#include "model/device_plan.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/api.h"
#include "kernels/cuda/host_experts.h"
#include "kernels/cuda/log_sum_exp.h"
#include "kernels/cuda/pack_weights.h"
#include "kernels/cuda/top_logits.h"
#include "model/layers/mtp_head.h"

namespace chimere::model {
namespace {

/// For tables of experts, attention splits, captured graphs, and rounding up to the driver's
/// allocation granularity.
constexpr int64_t kMargin = int64_t{192} << 20;

/// A tensor's size on the GPU, and its additional size if it is unpacked.
struct Placed {
  int64_t bytes = 0;
  int64_t unpacking_bytes = 0;
};

/// Size of the tensor's first `max_rows` rows.
Placed placed(const gguf::TensorInfo& tensor,
              int64_t max_rows = std::numeric_limits<int64_t>::max()) {
  const int64_t n_in = tensor.dims[0];
  int64_t rows = 1;
  for (size_t i = 1; i < tensor.dims.size(); ++i) rows *= tensor.dims[i];
  const WeightView w = {tensor.type, std::min(rows, max_rows), n_in, nullptr};
  const int64_t bytes = kernels::cuda::packed_bytes(w);
  return {bytes, kernels::cuda::packed_bytes(w, true) - bytes};
}

/// Size of a tensor of the MTP head: its embedding table stays on the host, and of its output head,
/// if it has one, only the rows that drafts are chosen from are copied.
Placed placed_for_drafts(const gguf::TensorInfo& tensor, int64_t n_vocab) {
  if (tensor.name.ends_with("nextn.embed_tokens.weight")) return {};
  if (!tensor.name.ends_with("nextn.shared_head_head.weight")) return placed(tensor);
  return placed(tensor, MtpHead::short_list(n_vocab));
}

/// N of "blk.N.name".
std::optional<int> block_of(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int block = 0;
  const char* const begin = name.data() + kPrefix.size();
  const auto [end, error] = std::from_chars(begin, name.data() + name.size(), block);
  if (error != std::errc()) return std::nullopt;
  return block;
}

/// Pending rows that must fit: two sequences that verify the longest drafts.
constexpr int64_t kPendingRows = 32;

/// Number of the file's layers without MTP heads.
int64_t layers_of(const gguf::Reader& file) {
  const auto architecture = file.get_string("general.architecture");
  if (!architecture.ok()) return 0;
  const auto blocks = file.get_int(*architecture + ".block_count");
  const auto drafts = file.get_int(*architecture + ".nextn_predict_layers");
  return blocks.ok() ? *blocks - (drafts.ok() ? *drafts : 0) : 0;
}

}  // namespace

int64_t DevicePlan::host_experts() const {
  return std::accumulate(experts.begin(), experts.begin() + host_expert_layers, int64_t{0});
}

int64_t DevicePlan::staging() const {
  if (host_expert_layers == 0) return 0;
  return kernels::cuda::host_expert_buffers(host_expert_layers) *
         *std::max_element(experts.begin(), experts.begin() + host_expert_layers);
}

DevicePlan DevicePlan::without_drafts() const {
  DevicePlan plan = *this;
  plan.weights -= drafts.weights;
  plan.unpacking_bytes -= drafts.unpacking_bytes;
  plan.kv -= drafts.kv;
  plan.state -= drafts.state;
  plan.pending_row -= drafts.pending_row;
  plan.work -= drafts.work;
  plan.interleaved -= drafts.interleaved;
  plan.drafts = {};
  return plan;
}

bool DevicePlan::fit(int64_t allowed) {
  const auto most = static_cast<int>(experts.size());
  for (host_expert_layers = 0; host_expert_layers <= most; ++host_expert_layers) {
    if (total() <= allowed) return true;
  }
  host_expert_layers = 0;
  return false;
}

int64_t DevicePlan::reserve_pending_rows(int64_t allowed, int64_t max_pending_rows) const {
  if (pending_row == 0) return max_pending_rows;
  const int64_t more = std::max<int64_t>(0, allowed - total()) / 8 / pending_row;
  return pending_rows + std::min(more, std::max<int64_t>(0, max_pending_rows - pending_rows));
}

DevicePlan::Reserve DevicePlan::reserve(int64_t allowed, int64_t positions, int64_t max_positions,
                                        int64_t max_states, int64_t max_pending_rows) const {
  constexpr int64_t kPage = kernels::kKvPageTokens;
  const int64_t rows = reserve_pending_rows(allowed, max_pending_rows);
  const int64_t more_rows = std::max<int64_t>(0, rows - pending_rows);
  const int64_t left = std::max<int64_t>(0, allowed - total()) - more_rows * pending_row;
  const int64_t page_bytes = kv / positions * kPage;
  const int64_t more_pages = std::max<int64_t>(0, max_positions - positions) / kPage;
  const int64_t more_states = std::max<int64_t>(0, max_states - states);
  const int64_t share = std::max(left / 2, left - more_states * state);
  const int64_t pages = page_bytes > 0 ? std::min(more_pages, share / page_bytes) : more_pages;
  const int64_t rest = left - pages * page_bytes;
  return {positions + pages * kPage,
          states + (state > 0 ? std::min(more_states, rest / state) : more_states), rows};
}

void DevicePlan::unpack(int64_t allowed) {
  unpacked = false;
  unpacked = unpacking_bytes > 0 && host_expert_layers == 0 &&
             total() + unpacking_bytes <= allowed - allowed / 16;
}

DevicePlan plan_for_device(const gguf::Reader& file, Model& on_host, int64_t positions,
                           int64_t states, int64_t rows, int64_t wanted) {
  const state::StateStore& store = on_host.states();
  const bool tied = file.find_tensor("output.weight") == nullptr;
  const int64_t layers = layers_of(file);
  DevicePlan plan;
  std::map<int, int64_t> experts;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    if (tensor.name == "token_embd.weight" && !tied) continue;
    const std::optional<int> block = block_of(tensor.name);
    if (block && *block >= layers) {
      // Only the first MTP head is run.
      if (*block == layers && on_host.has_drafts()) {
        const Placed part = placed_for_drafts(tensor, on_host.n_vocab());
        plan.drafts.weights += part.bytes;
        plan.drafts.unpacking_bytes += part.unpacking_bytes;
      }
      continue;
    }
    const Placed part = placed(tensor);
    plan.weights += part.bytes;
    plan.unpacking_bytes += part.unpacking_bytes;
    if (block && tensor.name.ends_with("_exps.weight")) experts[*block] += part.bytes;
  }
  for (const auto& [block, bytes] : experts) plan.experts.push_back(bytes);
  plan.weights += plan.drafts.weights;
  plan.unpacking_bytes += plan.drafts.unpacking_bytes;
  for (const state::ComponentSpec& c : store.spec().components) {
    if (c.layer < layers) continue;
    if (c.paged()) {
      plan.drafts.kv += positions * c.bytes / store.spec().page_tokens;
    } else {
      plan.drafts.state += c.bytes;
      plan.drafts.pending_row += c.pending_bytes;
    }
  }
  plan.kv = positions * store.bytes_per_token();
  plan.state = store.bytes_per_slot();
  plan.states = states;
  plan.pending_row = store.bytes_per_pending_row();
  plan.pending_rows = plan.pending_row > 0 ? kPendingRows : 0;
  plan.work = on_host.step_bytes(rows, wanted) + on_host.gpu_scratch_bytes(rows) +
              std::max(kernels::cuda::top_logits_scratch_bytes(wanted, on_host.n_vocab(),
                                                               kernels::kMaxTopLogits),
                       kernels::cuda::log_sum_exp_scratch_bytes(wanted, on_host.n_vocab())) +
              kMargin;
  plan.interleaved = on_host.step_bytes(wanted, wanted);
  plan.drafts.work = on_host.draft_step_bytes(rows);
  plan.drafts.interleaved = on_host.draft_step_bytes(wanted);
  return plan;
}

}  // namespace chimere::model
