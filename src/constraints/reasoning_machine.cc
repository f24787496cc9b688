#include "constraints/reasoning_machine.h"

#include <utility>

#include "constraints/white_space.h"

namespace chimere::constraints {
namespace {

/// Most bytes of white space between the reasoning and the content.
constexpr uint32_t kMaxSpaces = 8;

}  // namespace

ReasoningMachine::ReasoningMachine(std::string open, std::unique_ptr<TextMachine> reasoning,
                                   std::unique_ptr<Machine> content)
    : open_(std::move(open)), reasoning_(std::move(reasoning)), content_(std::move(content)) {
  places_.emplace_back();  // kDead
}

Result<std::unique_ptr<ReasoningMachine>> ReasoningMachine::create(
    std::string open, std::string close, bool inside, std::unique_ptr<Machine> content) {
  CHIMERE_TRY(auto reasoning,
              TextMachine::create({std::move(close)}, {}, TextMachine::Language::kUntil,
                                  TextMachine::Alphabet::kAnyToken));
  std::unique_ptr<ReasoningMachine> machine(
      new ReasoningMachine(std::move(open), std::move(reasoning), std::move(content)));
  Place start;
  if (inside) {
    start.phase = Phase::kInside;
    start.sub = machine->reasoning_->start();
  } else {
    start.phase = machine->open_.empty() ? Phase::kContent : Phase::kBefore;
    start.content = machine->content_->start();
  }
  machine->start_ = machine->intern(start);
  return machine;
}

State ReasoningMachine::intern(const Place& place) {
  const uint64_t key = uint64_t{place.sub} << 32 | place.content;
  const auto [found, is_new] = states_[static_cast<size_t>(place.phase)].try_emplace(
      key, static_cast<State>(places_.size()));
  if (is_new) places_.push_back(place);
  return found->second;
}

State ReasoningMachine::next(State state, uint8_t byte) {
  if (state == kDead) return kDead;
  Place place = places_[state];
  switch (place.phase) {
    case Phase::kBefore: {
      place.content = content_->next(place.content, byte);
      if (static_cast<uint8_t>(open_[place.sub]) == byte) {
        if (++place.sub < open_.size()) return intern(place);
        return intern({Phase::kInside, reasoning_->start(), kDead});
      }
      break;
    }
    case Phase::kInside: {
      place.sub = reasoning_->next(place.sub, byte);
      if (place.sub == kDead) return kDead;
      if (reasoning_->accepts(place.sub)) return intern({Phase::kBetween, 0, kDead});
      return intern(place);
    }
    case Phase::kBetween: {
      const State content = content_->next(content_->start(), byte);
      if (content == kDead && is_white_space(byte) && place.sub < kMaxSpaces) {
        ++place.sub;
        return intern(place);
      }
      place.content = content;
      break;
    }
    case Phase::kContent:
      place.content = content_->next(place.content, byte);
      break;
  }
  return place.content == kDead ? kDead : intern({Phase::kContent, 0, place.content});
}

bool ReasoningMachine::accepts(State state) {
  if (state == kDead) return false;
  const Place& place = places_[state];
  if (place.phase == Phase::kInside) return false;
  const State content = place.phase == Phase::kBetween ? content_->start() : place.content;
  return content != kDead && content_->accepts(content);
}

std::optional<Machine::Inner> ReasoningMachine::inner(State state) {
  const Place& place = places_[state];
  Inner inner;
  if (place.phase == Phase::kContent) {
    inner.machine = content_.get();
    inner.state = place.content;
    inner.uniform = true;
    inner.last = true;
    return inner;
  }
  if (place.phase != Phase::kInside) return std::nullopt;
  inner.machine = reasoning_.get();
  inner.state = place.sub;
  inner.uniform = true;
  return inner;
}

ByteSet ReasoningMachine::first_bytes(State state) {
  const Place& place = places_[state];
  if (state == kDead) return {};
  if (place.phase == Phase::kInside) return ByteSet().set();
  ByteSet bytes;
  if (place.phase == Phase::kBetween) {
    bytes = content_->first_bytes(content_->start());
    if (place.sub < kMaxSpaces) {
      for (const char c : {' ', '\n', '\r', '\t'}) bytes.set(static_cast<uint8_t>(c));
    }
    return bytes;
  }
  if (place.content != kDead) bytes = content_->first_bytes(place.content);
  if (place.phase == Phase::kBefore) bytes.set(static_cast<uint8_t>(open_[place.sub]));
  return bytes;
}

Status ReasoningMachine::status() const { return content_->status(); }

size_t ReasoningMachine::memory() const {
  constexpr size_t kNode = 48;  // about what a node of a standard hash table takes
  return places_.size() * (sizeof(Place) + kNode) + reasoning_->memory() + content_->memory();
}

}  // namespace chimere::constraints
