#include "kernels/cuda/step_outputs.h"

#include <type_traits>

namespace chimere::kernels::cuda {

Status FetchedOutputs::fetch(Device& device, const StepOutputs& outputs) {
  outputs_ = outputs;
  const TopLogits& top = outputs.top;
  const auto get = [&](Output& output, auto*& data, int64_t count) -> Status {
    const size_t bytes = data == nullptr ? 0 : static_cast<size_t>(count) * sizeof(*data);
    CHIMERE_TRY(uint8_t* const at, copy(output, device, data, bytes));
    data = reinterpret_cast<std::remove_reference_t<decltype(data)>>(at);
    return {};
  };
  const int64_t logits = outputs.logits.rows * outputs.logits.stride;
  CHIMERE_CHECK_OK(get(logits_, outputs_.logits.data, logits));
  CHIMERE_CHECK_OK(get(top_, outputs_.top.data, top.rows * top.count));
  CHIMERE_CHECK_OK(get(selected_, outputs_.selected.data, top.rows * outputs.selected.count));
  CHIMERE_CHECK_OK(get(sums_, outputs_.sums, top.rows));
  return get(chosen_, outputs_.chosen, top.rows);
}

Result<uint8_t*> FetchedOutputs::copy(Output& to, Device& device, const void* from, size_t bytes) {
  if (bytes == 0) return static_cast<uint8_t*>(nullptr);
  if (bytes > to.bytes) {
    CHIMERE_TRY(to.memory, device.pinned(bytes));
    to.bytes = bytes;
  }
  device.stream().copy(to.memory->data(), from, bytes);
  return to.memory->data();
}

}  // namespace chimere::kernels::cuda
