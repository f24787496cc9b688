#include "constraints/trigger_machine.h"

#include <algorithm>
#include <utility>

#include "constraints/hash.h"
#include "constraints/token_trie.h"
#include "constraints/white_space.h"

namespace chimere::constraints {
namespace {

/// Most white space before a call where no text is allowed.
constexpr uint32_t kMaxSpacesBefore = 8;

}  // namespace

size_t TriggerMachine::PlaceHash::operator()(const Place& place) const {
  uint64_t hash = combine(static_cast<uint64_t>(place.trigger) + 1, place.body);
  hash = combine(hash, uint64_t{place.text} << 32 | place.beginning);
  return combine(hash, uint64_t{place.spaces} << 32 | static_cast<uint32_t>(place.calls));
}

Result<std::unique_ptr<TriggerMachine>> TriggerMachine::create(std::vector<Trigger> triggers,
                                                               const Options& options) {
  std::unique_ptr<TriggerMachine> machine(new TriggerMachine(options));
  std::vector<std::string> endings;
  for (size_t i = 0; i < triggers.size(); ++i) {
    if (triggers[i].begin.empty()) return invalid_argument("A trigger of tool calls is empty.");
    if (triggers[i].body->start() == kDead) {
      return invalid_argument("No call can follow the trigger " + triggers[i].begin + ".");
    }
    if (triggers[i].at_start) continue;
    endings.push_back(triggers[i].begin);
    machine->anywhere_.push_back(static_cast<int32_t>(i));
  }
  const bool calls_possible = !triggers.empty() && options.max_calls != 0;
  const bool later_calls = !machine->anywhere_.empty();
  const bool any_again = options.max_calls < 0 || options.max_calls > 1;
  // Text before the first call must be able to reach a call that is required.
  if ((options.min_calls > 0 && !calls_possible) ||
      (options.min_calls > 1 && !(later_calls && any_again)) ||
      (options.max_calls >= 0 && options.min_calls > options.max_calls)) {
    return invalid_argument("More tool calls are required than are possible.");
  }
  if (options.min_calls > 0 && !later_calls) machine->options_.text_before = false;
  machine->triggers_ = std::move(triggers);
  using Language = TextMachine::Language;
  using Alphabet = TextMachine::Alphabet;
  CHIMERE_TRY(machine->until_trigger_,
              TextMachine::create(endings, options.excluded, Language::kUntil, Alphabet::kText));
  CHIMERE_TRY(machine->without_trigger_,
              TextMachine::create(endings, options.excluded, Language::kWithout, Alphabet::kText));
  machine->places_.emplace_back();      // kDead
  machine->beginnings_.emplace_back();  // none
  Place start;
  if (machine->options_.text_before) start.text = machine->text_machine(0).start();
  if (machine->more_calls(0)) start.beginning = machine->add_root(true, start.text == kDead);
  if (later_calls) machine->later_root_ = machine->add_root(false, true);
  machine->start_ = machine->intern(start);
  return machine;
}

/// A tree of the beginnings of the triggers that may stand at one place; 0 if there are none.
uint32_t TriggerMachine::add_root(bool at_start, bool others) {
  uint32_t root = 0;
  for (size_t i = 0; i < triggers_.size(); ++i) {
    if (triggers_[i].at_start ? !at_start : !others) continue;
    if (root == 0) {
      root = static_cast<uint32_t>(beginnings_.size());
      beginnings_.emplace_back().root = true;
    }
    uint32_t at = root;
    for (const char c : triggers_[i].begin) {
      if (beginnings_[at].trigger >= 0) break;  // a shorter trigger is read first
      const auto byte = static_cast<uint8_t>(c);
      const auto& children = beginnings_[at].children;
      const auto child = std::ranges::find(children, byte, &std::pair<uint8_t, uint32_t>::first);
      if (child != children.end()) {
        at = child->second;
        continue;
      }
      const auto made = static_cast<uint32_t>(beginnings_.size());
      beginnings_[at].children.emplace_back(byte, made);
      beginnings_.emplace_back();
      at = made;
    }
    if (beginnings_[at].trigger < 0) {
      beginnings_[at].trigger = static_cast<int32_t>(i);
      beginnings_[at].children.clear();
    }
  }
  return root;
}

State TriggerMachine::intern(const Place& place) {
  const auto [found, is_new] = states_.try_emplace(place, static_cast<State>(places_.size()));
  if (is_new) places_.push_back(place);
  return found->second;
}

TriggerMachine::Place TriggerMachine::after_call(int32_t calls) {
  Place place;
  place.calls = calls;
  if (options_.text_after) {
    place.text = text_machine(calls).start();
  } else if (more_calls(calls)) {
    place.beginning = later_root_;
  }
  return place;
}

State TriggerMachine::begin_body(int32_t trigger, int32_t calls) {
  Place place;
  place.trigger = trigger;
  place.body = triggers_[static_cast<size_t>(trigger)].body->start();
  place.calls = std::min(calls + 1, std::max(options_.min_calls, options_.max_calls));
  return intern(place);
}

State TriggerMachine::next(State state, uint8_t byte) {
  if (state == kDead) return kDead;
  Place place = places_[state];
  if (place.trigger < 0) return next_in_text(place, byte);
  Machine& body = *triggers_[static_cast<size_t>(place.trigger)].body;
  const State after = body.next(place.body, byte);
  if (after != kDead) {
    place.body = after;
    return intern(place);
  }
  return body.accepts(place.body) ? next_in_text(after_call(place.calls), byte) : kDead;
}

State TriggerMachine::next_in_text(const Place& place, uint8_t byte) {
  Place after = place;
  if (place.text != kDead) {
    TextMachine& text = text_machine(place.calls);
    after.text = text.next(place.text, byte);
    const int32_t ending = text.ending(after.text);
    if (ending >= 0) return begin_body(anywhere_[static_cast<size_t>(ending)], place.calls);
  }
  if (place.beginning != 0) {
    const Node& node = beginnings_[place.beginning];
    const auto child = std::ranges::find(node.children, byte, &std::pair<uint8_t, uint32_t>::first);
    after.beginning = 0;
    if (child != node.children.end()) {
      after.beginning = child->second;
      const int32_t trigger = beginnings_[child->second].trigger;
      if (trigger >= 0) return begin_body(trigger, place.calls);
    } else if (node.root && is_white_space(byte) && place.spaces < kMaxSpacesBefore) {
      after.beginning = place.beginning;
      ++after.spaces;
    }
    if (after.beginning == 0) after.spaces = 0;
  }
  return after.text == kDead && after.beginning == 0 ? kDead : intern(after);
}

bool TriggerMachine::text_accepts(const Place& place) {
  if (place.calls < options_.min_calls) return false;
  if (place.text != kDead) return text_machine(place.calls).whole(place.text);
  return place.beginning == 0 || beginnings_[place.beginning].root;
}

bool TriggerMachine::accepts(State state) {
  if (state == kDead) return false;
  const Place& place = places_[state];
  if (place.trigger < 0) return text_accepts(place);
  return place.calls >= options_.min_calls &&
         triggers_[static_cast<size_t>(place.trigger)].body->accepts(place.body);
}

std::optional<Machine::Inner> TriggerMachine::inner(State state) {
  const Place& place = places_[state];
  if (place.trigger >= 0) {
    Machine& body = *triggers_[static_cast<size_t>(place.trigger)].body;
    // What may follow the call is not inside.
    if (body.accepts(place.body)) return std::nullopt;
    std::optional<Inner> inner = body.inner(place.body);
    if (inner) inner->last = false;
    return inner;
  }
  if (place.text == kDead || place.beginning != 0) return std::nullopt;
  Inner inner;
  inner.machine = &text_machine(place.calls);
  inner.state = place.text;
  inner.uniform = true;
  return inner;
}

State TriggerMachine::after(State state, State accepting) {
  Place place = places_[state];
  if (place.trigger < 0) return kDead;
  place.body = triggers_[static_cast<size_t>(place.trigger)].body->after(place.body, accepting);
  return place.body == kDead ? kDead : intern(place);
}

ByteSet TriggerMachine::first_bytes(State state) {
  if (state == kDead) return {};
  const Place& place = places_[state];
  if (place.trigger >= 0) {
    Machine& body = *triggers_[static_cast<size_t>(place.trigger)].body;
    if (!body.accepts(place.body)) return body.first_bytes(place.body);
  }
  return ByteSet().set();
}

void TriggerMachine::count_work(WorkMeter& meter) {
  for (const Trigger& trigger : triggers_) trigger.body->count_work(meter);
}

Status TriggerMachine::status() const {
  for (const Trigger& trigger : triggers_) CHIMERE_CHECK_OK(trigger.body->status());
  return {};
}

size_t TriggerMachine::memory() const {
  constexpr size_t kNode = 32;  // about what a node of a standard hash table takes
  size_t bytes = places_.size() * (2 * sizeof(Place) + kNode) + until_trigger_->memory() +
                 without_trigger_->memory();
  for (const Trigger& trigger : triggers_) bytes += trigger.body->memory();
  return bytes;
}

}  // namespace chimere::constraints
