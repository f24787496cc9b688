// The reasoning before constrained content.
#ifndef CHIMERE_CONSTRAINTS_REASONING_BEFORE_H_
#define CHIMERE_CONSTRAINTS_REASONING_BEFORE_H_

#include <optional>
#include <string_view>

#include "constraints/constraint.h"
#include "text/reasoning_splitter.h"
#include "text/reasoning_tags.h"

namespace chimere::constraints {

/// ConstraintSpec::reasoning of a generation that starts like this; nothing: it has none. `wanted`:
/// a value of --reasoning.
inline std::optional<ReasoningSpec> reasoning_before(const text::ReasoningTags& tags,
                                                     text::ReasoningSplitter::Start start,
                                                     std::string_view wanted) {
  using Start = text::ReasoningSplitter::Start;
  if (start == Start::kContent || (start == Start::kMayThink && wanted == "none")) return {};
  return reasoning_spec(tags, start == Start::kThinking);
}

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_REASONING_BEFORE_H_
