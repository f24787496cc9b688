// Speculative decoding: a request's setting and its counters.
#ifndef CHIMERE_ENGINE_SPECULATION_SPECULATION_H_
#define CHIMERE_ENGINE_SPECULATION_SPECULATION_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace chimere::engine {

/// Which drafters a request uses. The generation is the same with every setting.
struct Speculation {
  uint32_t drafters = 0;  ///< bit i: entry i of drafter_types()
  /// Verify a draft in every step that has one; else only drafts that are expected to gain time.
  bool always = false;
  /// With `always`: verify all drafts, in every step. The number of steps does not depend on
  /// measured times then.
  bool all = false;
  /// Verify the tokens that a constraint leaves no choice about together, with any drafters.
  bool certain = true;

  static constexpr Speculation off() { return {}; }
  /// All drafters, when they pay.
  static constexpr Speculation automatic() { return {.drafters = ~uint32_t{0}}; }
  /// "off", "auto", or a DrafterType::mode; nothing if there is no such setting.
  static std::optional<Speculation> named(std::string_view name);
  /// Every name that named() takes, "off" and "auto" first.
  static std::vector<std::string_view> names();

  bool uses(size_t drafter) const { return ((drafters >> drafter) & 1U) != 0; }
  bool operator==(const Speculation&) const = default;
};

struct SpeculationCounts {
  int64_t drafted = 0;    ///< drafts that were verified
  int64_t accepted = 0;   ///< drafts that equalled the sampled token
  int64_t requested = 0;  ///< forward passes of drafters, whether their drafts were verified or not
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_SPECULATION_SPECULATION_H_
