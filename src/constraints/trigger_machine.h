// Text in which triggers switch to other machines: a model's content with tool calls.
#ifndef CHIMERE_CONSTRAINTS_TRIGGER_MACHINE_H_
#define CHIMERE_CONSTRAINTS_TRIGGER_MACHINE_H_

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

/// Texts and calls in turn. A call is a trigger and a text of the trigger's machine, which reads
/// all bytes that it can.
class TriggerMachine final : public Machine {
 public:
  struct Trigger {
    std::string begin;  ///< a text, or a token_symbol()
    bool at_start = false;
    std::unique_ptr<Machine> body;
  };
  struct Options {
    std::vector<std::string> excluded;  ///< from the text
    bool text_before = true;
    bool text_after = false;
    int32_t min_calls = 0;
    int32_t max_calls = -1;  ///< -1: any number
  };

  /// Errors: kInvalidArgument if no text satisfies the options; those of TextMachine.
  static Result<std::unique_ptr<TriggerMachine>> create(std::vector<Trigger> triggers,
                                                        const Options& options);

  State start() override { return start_; }
  State next(State state, uint8_t byte) override;
  bool accepts(State state) override;
  std::optional<Inner> inner(State state) override;
  ByteSet first_bytes(State state) override;
  State after(State state, State accepting) override;
  void count_work(WorkMeter& meter) override;
  Status status() const override;
  size_t memory() const override;

 private:
  /// Either in a body, or in text and at the same time at the beginning of a trigger.
  struct Place {
    int32_t trigger = -1;  ///< its body is being read; -1: none
    State body = kDead;
    State text = kDead;      ///< of the text machine; kDead: text is not allowed here
    uint32_t beginning = 0;  ///< node of beginnings_; 0: none
    uint32_t spaces = 0;     ///< bytes of white space before `beginning`
    int32_t calls = 0;       ///< those begun, not counted beyond what matters
    bool operator==(const Place&) const = default;
  };
  struct PlaceHash {
    size_t operator()(const Place& place) const;
  };
  struct Node {
    std::vector<std::pair<uint8_t, uint32_t>> children;
    int32_t trigger = -1;  ///< that ends here
    bool root = false;
  };

  explicit TriggerMachine(const Options& options) : options_(options) {}
  uint32_t add_root(bool at_start, bool others);
  bool more_calls(int32_t calls) const {
    return options_.max_calls < 0 || calls < options_.max_calls;
  }
  TextMachine& text_machine(int32_t calls) {
    return more_calls(calls) ? *until_trigger_ : *without_trigger_;
  }
  State intern(const Place& place);
  Place after_call(int32_t calls);
  State begin_body(int32_t trigger, int32_t calls);
  State next_in_text(const Place& place, uint8_t byte);
  bool text_accepts(const Place& place);

  Options options_;
  std::vector<Trigger> triggers_;
  std::vector<int32_t> anywhere_;  ///< triggers by ending of until_trigger_
  std::unique_ptr<TextMachine> until_trigger_;
  std::unique_ptr<TextMachine> without_trigger_;
  std::vector<Node> beginnings_;
  uint32_t later_root_ = 0;  ///< of the triggers after the first call, where text is not allowed
  std::vector<Place> places_;
  std::unordered_map<Place, State, PlaceHash> states_;
  State start_ = kDead;
};

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_TRIGGER_MACHINE_H_
