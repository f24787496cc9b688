#include "engine/prefix_cache/device_tier.h"

#include <memory>
#include <utility>

namespace chimere::engine {

void DeviceTier::add(PrefixNode& node, state::Checkpoint state) {
  node.state.device = std::make_shared<const state::Checkpoint>(std::move(state));
  ++states_;
}

void DeviceTier::drop(PrefixNode& node) {
  if (node.state.device == nullptr) return;
  node.state.device.reset();
  --states_;
  lost_ += !has_state(node.state);
}

void DeviceTier::copied(PrefixNode& node) {
  --copying_;
  drop(node);
}

PrefixNode* DeviceTier::victim() {
  return index_.oldest(
      [](const PrefixNode& n) { return n.state.device != nullptr && n.state.pins == 0; });
}

}  // namespace chimere::engine
