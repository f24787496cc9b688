// Reasoning before the content.
#ifndef CHIMERE_CONSTRAINTS_REASONING_MACHINE_H_
#define CHIMERE_CONSTRAINTS_REASONING_MACHINE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "constraints/machine.h"
#include "constraints/text_machine.h"

namespace chimere::constraints {

/// Any tokens up to a closing text, a little white space, and a text of the content's machine. A
/// generation that does not begin inside reasoning may begin with the opening text, or with the
/// content; where both begin equally, it is reasoning as soon as the opening text is complete.
class ReasoningMachine final : public Machine {
 public:
  /// `open`, `close`: texts, or token_symbol()s. `open` may be empty if the reasoning has begun.
  /// Errors: those of TextMachine.
  static Result<std::unique_ptr<ReasoningMachine>> create(std::string open, std::string close,
                                                          bool inside,
                                                          std::unique_ptr<Machine> content);

  State start() override { return start_; }
  State next(State state, uint8_t byte) override;
  bool accepts(State state) override;
  std::optional<Inner> inner(State state) override;
  ByteSet first_bytes(State state) override;
  void count_work(WorkMeter& meter) override { content_->count_work(meter); }
  Status status() const override;
  size_t memory() const override;

 private:
  enum class Phase : uint8_t {
    kBefore,   ///< `sub`: bytes of the opening text; `content`: the same bytes as content
    kInside,   ///< `sub`: state of the reasoning
    kBetween,  ///< `sub`: bytes of white space
    kContent,  ///< `content`: state of the content
  };
  struct Place {
    Phase phase = Phase::kContent;
    uint32_t sub = 0;
    State content = kDead;
  };

  ReasoningMachine(std::string open, std::unique_ptr<TextMachine> reasoning,
                   std::unique_ptr<Machine> content);
  State intern(const Place& place);

  std::string open_;
  std::unique_ptr<TextMachine> reasoning_;
  std::unique_ptr<Machine> content_;
  std::vector<Place> places_;
  std::unordered_map<uint64_t, State> states_[4];  ///< by phase, then sub and content
  State start_ = kDead;
};

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_REASONING_MACHINE_H_
