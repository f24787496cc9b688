// Speculative decoding: a request's setting and its counters.
#ifndef CHIMERE_ENGINE_SPECULATION_SPECULATION_H_
#define CHIMERE_ENGINE_SPECULATION_SPECULATION_H_

#include <cstdint>

namespace chimere::engine {

/// Source of the drafts. The generation is the same with every setting.
enum class Speculation {
  kOff,
  kAuto,   ///< model, lookup and tables, when they pay
  kMtp,    ///< the model's MTP head, in every step
  kNgram,  ///< prompt lookup: what followed the longest suffix where it occurred before
};

struct SpeculationCounts {
  int64_t drafted = 0;    ///< drafts that were verified
  int64_t accepted = 0;   ///< drafts that equalled the sampled token
  int64_t requested = 0;  ///< drafts requested from the model, verified or not
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_SPECULATION_SPECULATION_H_
