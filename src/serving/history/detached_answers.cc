#include "serving/history/detached_answers.h"

#include <algorithm>
#include <map>
#include <utility>

namespace chimere::serving {
namespace {

using protocol::ApiError;

/// Pages draw 60 frames a second. Between them tokens need not wake a thread, which would cost the
/// engine's thread more than all other work for a token.
constexpr std::chrono::milliseconds kDrainInterval{4};
/// What was generated longer ago than that is stored, but for the time that the disk takes.
constexpr std::chrono::milliseconds kSaveInterval{400};

bool same(const DetachedAnswer::Place& a, const DetachedAnswer::Place& b) {
  return a.owner == b.owner && a.conversation == b.conversation && a.message == b.message;
}

bool runs(const DetachedAnswer& answer) {
  const DetachedAnswer::State state = answer.state();
  return state == DetachedAnswer::State::kRunning || state == DetachedAnswer::State::kEnded;
}

}  // namespace

ApiError from_history(const Error& error) {
  switch (error.code) {
    case Error::Code::kNotFound:
      return {"conversation_not_found", error.message};
    case Error::Code::kInvalidArgument:
      return {"history_gap", error.message};
    default:
      return {"history_failed", error.message};
  }
}

DetachedAnswers::DetachedAnswers(ConversationStore& store)
    : store_(store), drains_([this] { drain_all(); }), saves_([this] { save_all(); }) {}

DetachedAnswers::~DetachedAnswers() { stop(); }

std::optional<ApiError> DetachedAnswers::begin(const DetachedAnswer::Place& place,
                                               const std::string& model,
                                               std::shared_ptr<ResponseStream> client,
                                               std::shared_ptr<DetachedAnswer>& out) {
  sweep();
  {
    const std::scoped_lock lock(mutex_);
    size_t running = 0;
    for (const Entry& entry : entries_) {
      if (entry.ended || entry.answer->place().owner != place.owner) continue;
      ++running;
      if (same(entry.answer->place(), place)) {
        return ApiError{"generation_running",
                        "The message '" + place.message + "' is being generated; stop that first."};
      }
    }
    if (running >= kMostRunning) {
      return ApiError{"too_many_parallel_requests",
                      "The server generates " + std::to_string(running) +
                          " messages of conversations for this key; wait for the end of one.",
                      "", 1};
    }
    // After the check: an earlier generation of the message has stored its end.
    auto before = store_.message(place.owner, place.conversation, place.message);
    if (!before.ok()) return from_history(before.error());
    std::erase_if(entries_, [&](const Entry& e) { return same(e.answer->place(), place); });
    const auto wake = [signals = signals_] {
      {
        const std::scoped_lock locked(signals->mutex);
        signals->begun_or_ended = true;
        signals->to_save = true;
      }
      signals->changed.notify_all();
    };
    out =
        std::make_shared<DetachedAnswer>(place, *std::move(before), model, std::move(client), wake);
    entries_.push_back({out, std::nullopt});
    wake();
  }
  return std::nullopt;
}

std::shared_ptr<DetachedAnswer> DetachedAnswers::find(const DetachedAnswer::Place& place) {
  sweep();
  const std::scoped_lock lock(mutex_);
  for (const Entry& entry : entries_) {
    if (same(entry.answer->place(), place)) return entry.answer;
  }
  return nullptr;
}

DetachedAnswers::Answers DetachedAnswers::running() {
  const std::scoped_lock lock(mutex_);
  Answers out;
  for (const Entry& entry : entries_) {
    if (!entry.ended) out.push_back(entry.answer);
  }
  return out;
}

bool DetachedAnswers::sweep() {
  const auto now = Clock::now();
  const std::scoped_lock lock(mutex_);
  for (Entry& entry : entries_) {
    if (!entry.ended && !runs(*entry.answer)) entry.ended = now;
  }
  std::erase_if(entries_, [&](const Entry& entry) {
    const bool refused = entry.answer->state() == DetachedAnswer::State::kRefused;
    return entry.ended && (refused || now - *entry.ended > kKept);
  });
  // From the newest on.
  std::map<std::string, size_t> kept;
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
    if (entry->ended && ++kept[entry->answer->place().owner] > kMostEnded) entry->answer = nullptr;
  }
  std::erase_if(entries_, [](const Entry& entry) { return entry.answer == nullptr; });
  return !entries_.empty();
}

void DetachedAnswers::drain_all() {
  while (true) {
    bool any = false;
    bool to_save = false;
    for (const auto& answer : running()) {
      if (answer->state() == DetachedAnswer::State::kRunning) answer->drain();
      any |= answer->state() == DetachedAnswer::State::kRunning;
      to_save |= answer->state() == DetachedAnswer::State::kEnded;
    }
    std::unique_lock lock(signals_->mutex);
    if (to_save && !std::exchange(signals_->to_save, true)) signals_->changed.notify_all();
    if (signals_->stopping) return;
    const auto woken = [&] { return signals_->begun_or_ended || signals_->stopping; };
    if (any) {
      signals_->changed.wait_for(lock, kDrainInterval, woken);
    } else {
      signals_->changed.wait(lock, woken);
    }
    signals_->begun_or_ended = false;
  }
}

void DetachedAnswers::save_all() {
  while (true) {
    const Answers all = running();
    for (const auto& answer : all) answer->save(store_);
    const bool any = sweep();
    std::unique_lock lock(signals_->mutex);
    if (signals_->stopping) return;
    const auto woken = [&] { return signals_->to_save || signals_->stopping; };
    if (!all.empty()) {
      signals_->changed.wait_for(lock, kSaveInterval, woken);
    } else if (any) {
      signals_->changed.wait_for(lock, kKept, woken);
    } else {
      signals_->changed.wait(lock, woken);
    }
    signals_->to_save = false;
  }
}

void DetachedAnswers::cancel_all() {
  for (const auto& answer : running()) answer->cancel();
}

void DetachedAnswers::stop() {
  {
    const std::scoped_lock lock(signals_->mutex);
    signals_->stopping = true;
  }
  signals_->changed.notify_all();
  if (drains_.joinable()) drains_.join();
  if (saves_.joinable()) saves_.join();
  for (const auto& answer : running()) {
    if (answer->state() == DetachedAnswer::State::kRunning) answer->drain();
    answer->save(store_);
  }
}

}  // namespace chimere::serving
