// Speculative decoding: a request's setting and its counters.
#ifndef CHIMERE_ENGINE_SPECULATION_SPECULATION_H_
#define CHIMERE_ENGINE_SPECULATION_SPECULATION_H_

#include <algorithm>
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

/// Drafts of one source that were verified.
struct DraftCounts {
  std::string_view source;  ///< DrafterType::name, or kConstraintSource
  int64_t drafted = 0;
  int64_t accepted = 0;  ///< of these, those that equalled the sampled token
};

/// The source of drafts that a constraint expects.
inline constexpr std::string_view kConstraintSource = "constraint";

/// Counts of one generation, or of all of an engine.
struct SpeculationCounts {
  std::vector<DraftCounts> sources;  ///< those whose drafts were verified
  int64_t requested = 0;  ///< forward passes of drafters, whether their drafts were verified or not
  /// Generations that went without drafts of a drafter, at least once, for want of memory.
  int64_t memory_shortages = 0;

  void add(std::string_view source, int64_t drafted, int64_t accepted) {
    auto found = std::ranges::find(sources, source, &DraftCounts::source);
    if (found == sources.end()) found = sources.insert(found, DraftCounts{source});
    found->drafted += drafted;
    found->accepted += accepted;
  }
  /// Of all sources.
  int64_t drafted() const { return sum(&DraftCounts::drafted); }
  int64_t accepted() const { return sum(&DraftCounts::accepted); }

 private:
  int64_t sum(int64_t DraftCounts::*member) const {
    int64_t all = 0;
    for (const DraftCounts& of_source : sources) all += of_source.*member;
    return all;
  }
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_SPECULATION_SPECULATION_H_
