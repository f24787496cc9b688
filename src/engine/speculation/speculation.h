// What a request says about drafts, and what it hears of them.
#ifndef CHIMERE_ENGINE_SPECULATION_SPECULATION_H_
#define CHIMERE_ENGINE_SPECULATION_SPECULATION_H_

#include <cstdint>

namespace chimere::engine {

/// Where drafts come from. Whatever it is, the generation is what it would have been without them.
enum class Speculation {
  kOff,
  kAuto,   ///< from both, when they are worth their time
  kMtp,    ///< the model's MTP head, in every step
  kNgram,  ///< what followed the longest suffix of prompt and generation where it occurred before
};

struct SpeculationCounts {
  int64_t drafted = 0;   ///< rows that verified a draft
  int64_t accepted = 0;  ///< drafts that were the token
  int64_t asked = 0;     ///< drafts that the model was asked for, verified or not
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_SPECULATION_SPECULATION_H_
