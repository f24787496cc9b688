// The adapters of a model by name, and which of them a request uses.
#ifndef CHIMERE_ENGINE_ADAPTER_SET_H_
#define CHIMERE_ENGINE_ADAPTER_SET_H_

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "kernels/low_rank.h"

namespace chimere::engine {

/// The adapters of one request.
struct RequestAdapters {
  std::vector<kernels::AdapterUse> uses;  ///< in an order that depends on their contents alone
  /// Names the contents of the adapters and their scales; empty: none. Part of the scope in the
  /// prefix cache and of the key of saved states.
  std::string key;
};

struct LoadedAdapter {
  std::string name;
  std::string path;
  int32_t number = 0;    ///< Model::add_adapter()
  std::string contents;  ///< a hash of them, hexadecimal
  float scale = 1;       ///< of requests that choose no adapters; 0: they do not use it
};

/// What a request says of one adapter.
struct AdapterChoice {
  std::string name = {};  ///< or, if empty, `id`
  int64_t id = -1;        ///< place in AdapterSet::list()
  float scale = 1;
};

/// Thread-safe. Adapters are added before requests use the set.
class AdapterSet {
 public:
  /// Errors: kInvalidArgument (a second adapter of this name, or of these contents).
  Status add(LoadedAdapter adapter);

  bool empty() const { return adapters_.empty(); }
  std::vector<LoadedAdapter> list() const;
  /// Whether there is an adapter of this name.
  bool has(std::string_view name) const;
  /// The adapters of a request that chooses none: those with a scale.
  RequestAdapters defaults() const;
  /// The chosen adapters; those with scale 0 are left out. Errors: kNotFound (no such adapter),
  /// kInvalidArgument (one twice, too many, a scale that is no number).
  Result<RequestAdapters> choose(std::span<const AdapterChoice> choices) const;
  /// One adapter, at its default scale, or at 1 if that is 0. Errors: kNotFound.
  Result<RequestAdapters> only(std::string_view name) const;
  /// Sets the scales of requests that choose no adapters; adapters that are not named get 0.
  /// Errors: those of choose().
  Status set_defaults(std::span<const AdapterChoice> choices);

 private:
  using Chosen = std::vector<std::pair<const LoadedAdapter*, float>>;
  Result<Chosen> find(std::span<const AdapterChoice> choices) const;
  static RequestAdapters in_order(Chosen chosen);

  mutable std::mutex mutex_;  ///< for the scales
  std::vector<LoadedAdapter> adapters_;
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_ADAPTER_SET_H_
