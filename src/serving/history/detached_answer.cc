#include "serving/history/detached_answer.h"

#include <utility>

#include "protocol/history.h"
#include "protocol/orchestration.h"

namespace chimere::serving {
namespace {

/// Of the events of a generation that are kept; a client that comes back later than that receives
/// the whole message.
constexpr size_t kMostEventBytes = 2 << 20;
/// A piece of a response: what a slow client has not received waits in the buffer.
constexpr size_t kPieceBytes = 64 << 10;
/// How long it tries to store the whole message, as on a disk that is full.
constexpr double kMostFailingSeconds = 10;

}  // namespace

DetachedAnswer::DetachedAnswer(Place place, StoredMessage before, std::string model,
                               std::shared_ptr<ResponseStream> client,
                               const std::function<void()>& wake)
    : place_(std::move(place)),
      before_(std::move(before)),
      // Tokens wake no thread: drain() is called at short intervals.
      stream_(std::make_shared<ResponseStream>([wake](ResponseStream::Urgency urgency) {
        if (urgency == ResponseStream::Urgency::kNow) wake();
      })),
      client_(std::move(client)),
      events_(kMostEventBytes) {
  answer_.model = std::move(model);
}

std::string DetachedAnswer::open(std::span<const protocol::Choice> choices, int64_t prompt_tokens) {
  std::string events = inner_->open(choices, prompt_tokens);
  const std::scoped_lock lock(mutex_);
  events_.add(events);
  return events;
}

std::string DetachedAnswer::piece(const protocol::Choice& part) {
  std::string events = inner_->piece(part);
  const std::scoped_lock lock(mutex_);
  const bool empty = part.content.empty() && part.reasoning.empty() && part.tool_calls.empty();
  if (answer_.first_seconds < 0 && !empty) answer_.first_seconds = now();
  if (answer_.reasoning_seconds < 0 && !part.content.empty() && !answer_.whole.reasoning.empty()) {
    answer_.reasoning_seconds = now();
  }
  protocol::append_piece(part, answer_.whole);
  without_logprobs_ |= answer_.whole.logprobs.size() > protocol::kMostKeptLogprobs;
  if (without_logprobs_) answer_.whole.logprobs.clear();
  events_.add(events);
  return events;
}

std::string DetachedAnswer::step(std::string_view json) {
  std::string events = inner_->step(json);
  const std::scoped_lock lock(mutex_);
  answer_.steps.emplace_back(json);
  events_.add(events);
  return events;
}

void DetachedAnswer::set_orchestration(std::string_view json) {
  inner_->set_orchestration(json);
  const std::scoped_lock lock(mutex_);
  answer_.orchestration = json;
}

std::string DetachedAnswer::end(std::string events) {
  if (answer_.reasoning_seconds < 0 && !answer_.whole.reasoning.empty()) {
    answer_.reasoning_seconds = now();
  }
  answer_.total_seconds = now();
  held_after_ = events_.last();
  events_.add(events);
  return events;
}

std::string DetachedAnswer::close(const protocol::Usage& usage, const protocol::Timings& timings) {
  std::string events = inner_->close(usage, timings);
  const std::scoped_lock lock(mutex_);
  answer_.usage = usage;
  return end(std::move(events));
}

std::string DetachedAnswer::fail(const protocol::ApiError& error) {
  std::string events = inner_->fail(error);
  const std::scoped_lock lock(mutex_);
  if (error.code == "cancelled") {
    answer_.whole.finish_reason = "stopped";
  } else {
    answer_.error = error.message;
  }
  return end(std::move(events));
}

std::string DetachedAnswer::whole(std::span<const protocol::Choice> choices,
                                  const protocol::Usage& usage, const protocol::Timings& timings) {
  return inner_->whole(choices, usage, timings);
}

int64_t DetachedAnswer::visible() const {
  return held_after_ && state_ != State::kStored ? *held_after_ : events_.last();
}

StoredMessage DetachedAnswer::message() const {
  std::unique_lock lock(mutex_);
  const protocol::AnswerData answer = answer_;
  const bool complete = held_after_.has_value() || state_ == State::kRefused;
  lock.unlock();
  return extended(answer, complete);
}

StoredMessage DetachedAnswer::extended(const protocol::AnswerData& answer, bool complete) const {
  StoredMessage out = before_;
  out.content += answer.whole.content;
  out.reasoning += answer.whole.reasoning;
  out.data = protocol::answer_data(answer, before_.data);
  out.complete = complete;
  return out;
}

void DetachedAnswer::read(int64_t& after, ResponseStream::Piece& out) const {
  const std::scoped_lock lock(mutex_);
  // A reader of a generation that was refused comes back, and learns that there is none.
  if (state_ == State::kRefused || !events_.has_all_after(after)) {
    out.too_slow = true;
    return;
  }
  after = events_.read(after, visible(), kPieceBytes, out.bytes);
  if (state_ == State::kStored && after == events_.last()) out.ended = true;
}

void DetachedAnswer::serve(ResponseStream& reader, int64_t after, std::string first) {
  // The stream calls this, so that it is there.
  reader.on_take([self = shared_from_this(), &reader, after,
                  first = std::move(first)](ResponseStream::Piece& out) mutable {
    reader.collect(out);
    out.bytes += std::exchange(first, {});
    self->read(after, out);
    return true;
  });
}

void DetachedAnswer::attach(const std::shared_ptr<ResponseStream>& reader, Headers headers,
                            std::optional<int64_t> after) {
  std::string first;
  std::unique_lock lock(mutex_);
  if (after && *after <= visible() && events_.has_all_after(*after)) {
    lock.unlock();
  } else {
    // The last event, which ends the stream, follows in any case.
    after = state_ == State::kStored ? events_.last() - 1 : visible();
    const protocol::AnswerData answer = answer_;
    const bool complete = held_after_.has_value();
    lock.unlock();
    first = "id: " + std::to_string(*after) + "\n" +
            protocol::sse_event(protocol::conversation_message(extended(answer, complete)));
  }
  serve(*reader, *after, std::move(first));
  reader->start_events(std::move(headers));
  lock.lock();
  std::erase_if(readers_, [](const auto& other) { return other.expired(); });
  readers_.push_back(reader);
  lock.unlock();
  reader->announce();
}

void DetachedAnswer::stop(std::function<void(const StoredMessage&)> done) {
  {
    const std::scoped_lock lock(mutex_);
    if (state_ == State::kRunning || state_ == State::kEnded)
      on_stored_.push_back(std::exchange(done, {}));
  }
  if (done) return done(message());
  cancel();
}

DetachedAnswer::State DetachedAnswer::state() const {
  const std::scoped_lock lock(mutex_);
  return state_;
}

void DetachedAnswer::drain() {
  const ResponseStream::Piece piece = stream_->take();
  if (piece.too_slow) stream_->abandon();  // drain() itself was too slow: the generation ends
  if (piece.head) {
    const auto client = std::exchange(client_, nullptr);
    if (!stream_->streaming()) {
      client->respond(*piece.head);
      return release(State::kRefused);
    }
    serve(*client, 0);
    client->start_events_of(*piece.head);
    const std::scoped_lock lock(mutex_);
    readers_.push_back(client);
  }
  {
    const std::scoped_lock lock(mutex_);
    if (piece.ended) state_ = State::kEnded;
    if (std::exchange(announced_, visible()) == visible()) return;
  }
  announce();
}

void DetachedAnswer::save(ConversationStore& store) {
  const auto& [owner, conversation, id] = place_;
  std::unique_lock lock(mutex_);
  if (state_ == State::kRefused || state_ == State::kStored) return;
  const std::string content = answer_.whole.content.substr(saved_content_);
  const std::string reasoning = answer_.whole.reasoning.substr(saved_reasoning_);
  const bool last = state_ == State::kEnded;
  lock.unlock();
  if (last) {
    const Result<void> stored = store.update_message(owner, conversation, message());
    // A message that was deleted meanwhile stays deleted.
    if (stored.ok() || stored.error().code == Error::Code::kNotFound)
      return release(State::kStored);
    if (!failing_since_) failing_since_ = now();
    // Readers come back, and learn from the store how far the message is there.
    if (now() - *failing_since_ > kMostFailingSeconds) release(State::kRefused);
    return;
  }
  if (content.empty() && reasoning.empty()) return;
  const auto position = [](const std::string& before, size_t saved) {
    return static_cast<int64_t>(before.size() + saved);
  };
  const Result<void> stored =
      store.append(owner, conversation, id, position(before_.content, saved_content_), content,
                   position(before_.reasoning, saved_reasoning_), reasoning);
  if (stored.ok()) {
    saved_content_ += content.size();
    saved_reasoning_ += reasoning.size();
  } else if (stored.error().code == Error::Code::kNotFound) {
    cancel();  // the message was deleted
  } else if (stored.error().code == Error::Code::kInvalidArgument) {
    // A client has replaced the message by a shorter one.
    const StoredMessage whole = message();
    if (!store.update_message(owner, conversation, whole).ok()) return;
    saved_content_ = whole.content.size() - before_.content.size();
    saved_reasoning_ = whole.reasoning.size() - before_.reasoning.size();
  }
}

void DetachedAnswer::release(State state) {
  std::vector<std::function<void(const StoredMessage&)>> waiting;
  {
    const std::scoped_lock lock(mutex_);
    state_ = state;
    waiting.swap(on_stored_);
  }
  announce();
  if (waiting.empty()) return;
  const StoredMessage whole = message();
  for (const auto& done : waiting) done(whole);
}

void DetachedAnswer::announce() {
  std::vector<std::shared_ptr<ResponseStream>> readers;
  {
    const std::scoped_lock lock(mutex_);
    std::erase_if(readers_, [&](const std::weak_ptr<ResponseStream>& reader) {
      auto stream = reader.lock();
      if (stream == nullptr) return true;
      readers.push_back(std::move(stream));
      return false;
    });
  }
  for (const auto& reader : readers) reader->announce();
}

}  // namespace chimere::serving
