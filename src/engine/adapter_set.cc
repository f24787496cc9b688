#include "engine/adapter_set.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "state/checksum.h"

namespace chimere::engine {

Status AdapterSet::add(LoadedAdapter adapter) {
  for (const LoadedAdapter& other : adapters_) {
    if (other.name == adapter.name) {
      return invalid_argument("There are two adapters '" + adapter.name + "': " + other.path +
                              " and " + adapter.path + "; rename one file.");
    }
    if (other.contents == adapter.contents) {
      return invalid_argument("The adapters " + other.path + " and " + adapter.path +
                              " have the same contents; give one of them.");
    }
  }
  adapters_.push_back(std::move(adapter));
  return {};
}

std::vector<LoadedAdapter> AdapterSet::list() const {
  const std::scoped_lock lock(mutex_);
  return adapters_;
}

bool AdapterSet::has(std::string_view name) const {
  return std::ranges::any_of(adapters_, [&](const LoadedAdapter& a) { return a.name == name; });
}

RequestAdapters AdapterSet::in_order(Chosen chosen) {
  std::erase_if(chosen, [](const auto& c) { return c.second == 0; });
  std::ranges::sort(chosen, {},
                    [](const auto& c) -> const std::string& { return c.first->contents; });
  RequestAdapters out;
  for (const auto& [adapter, scale] : chosen) {
    out.uses.push_back({adapter->number, scale});
    out.key += (out.key.empty() ? "" : "+") + adapter->contents + "*" +
               state::hexadecimal(std::bit_cast<uint32_t>(scale));
  }
  return out;
}

RequestAdapters AdapterSet::defaults() const {
  const std::scoped_lock lock(mutex_);
  Chosen all;
  for (const LoadedAdapter& a : adapters_) all.emplace_back(&a, a.scale);
  return in_order(std::move(all));
}

Result<AdapterSet::Chosen> AdapterSet::find(std::span<const AdapterChoice> choices) const {
  Chosen chosen;
  for (const AdapterChoice& choice : choices) {
    const auto found = std::ranges::find_if(adapters_, [&](const LoadedAdapter& a) {
      return choice.name.empty() ? &a - adapters_.data() == choice.id : a.name == choice.name;
    });
    if (found == adapters_.end()) {
      std::string names;
      for (const LoadedAdapter& a : adapters_)
        names += (names.empty() ? "'" : ", '") + a.name + "'";
      return not_found("There is no adapter " +
                       (choice.name.empty() ? std::to_string(choice.id) : "'" + choice.name + "'") +
                       (names.empty() ? "; the model was loaded without adapters (--lora)."
                                      : "; the model has " + names + "."));
    }
    if (!std::isfinite(choice.scale)) {
      return invalid_argument("The scale of adapter '" + found->name + "' is no number.");
    }
    if (std::ranges::any_of(chosen, [&](const auto& c) { return c.first == &*found; })) {
      return invalid_argument("The adapter '" + found->name + "' is given twice.");
    }
    chosen.emplace_back(&*found, choice.scale);
  }
  const auto used = std::ranges::count_if(chosen, [](const auto& c) { return c.second != 0; });
  if (used > kernels::kMaxRowAdapters) {
    return invalid_argument("A request can use at most " +
                            std::to_string(kernels::kMaxRowAdapters) + " adapters at once.");
  }
  return chosen;
}

Result<RequestAdapters> AdapterSet::choose(std::span<const AdapterChoice> choices) const {
  CHIMERE_TRY(Chosen chosen, find(choices));
  return in_order(std::move(chosen));
}

Result<RequestAdapters> AdapterSet::only(std::string_view name) const {
  const std::scoped_lock lock(mutex_);
  for (const LoadedAdapter& a : adapters_) {
    if (a.name == name) return in_order({{&a, a.scale != 0 ? a.scale : 1}});
  }
  return not_found("There is no adapter '" + std::string(name) + "'.");
}

Status AdapterSet::set_defaults(std::span<const AdapterChoice> choices) {
  CHIMERE_TRY(const Chosen chosen, find(choices));
  const std::scoped_lock lock(mutex_);
  for (LoadedAdapter& a : adapters_) {
    const auto named = std::ranges::find_if(chosen, [&](const auto& c) { return c.first == &a; });
    a.scale = named == chosen.end() ? 0 : named->second;
  }
  return {};
}

}  // namespace chimere::engine
