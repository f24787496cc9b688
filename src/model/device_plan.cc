#include "model/device_plan.h"

#include "kernels/cuda/pack_weights.h"

namespace chimere::model {
namespace {

/// Tables of experts, splits of attention, recorded steps and rounding up to the driver's granules.
constexpr int64_t kMargin = int64_t{192} << 20;

int64_t placed_bytes(const gguf::TensorInfo& tensor) {
  const int64_t n_in = tensor.dims[0];
  int64_t rows = 1;
  for (size_t i = 1; i < tensor.dims.size(); ++i) rows *= tensor.dims[i];
  return kernels::cuda::packed_bytes({tensor.type, rows, n_in, nullptr});
}

}  // namespace

DevicePlan plan_for_device(const gguf::Reader& file, Model& on_host, int64_t positions,
                           int64_t states, int64_t rows, int64_t wanted) {
  const state::StateStore& store = on_host.states();
  const bool tied = file.find_tensor("output.weight") == nullptr;
  DevicePlan plan;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    if (tensor.name == "token_embd.weight" && !tied) continue;
    plan.weights += placed_bytes(tensor);
  }
  plan.kv = positions * store.bytes_per_token();
  plan.state = store.bytes_per_slot();
  plan.states = states;
  plan.work = on_host.step_bytes(rows, wanted) + on_host.card_scratch_bytes(rows) + kMargin;
  return plan;
}

}  // namespace chimere::model
