#include "serving/endpoints/local_model.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace chimere::serving {
namespace {

/// What the threads of a generation tell the one that waits for it.
class Mailbox {
 public:
  void wake() {
    {
      const std::scoped_lock lock(mutex_);
      news_ = true;
    }
    changed_.notify_one();
  }
  void fail(const protocol::ApiError& error) {
    {
      const std::scoped_lock lock(mutex_);
      if (!error_) error_ = error;
      news_ = true;
    }
    changed_.notify_one();
  }
  /// Until there is news, or a little while.
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(100), [&] { return news_; });
    news_ = false;
  }
  std::optional<protocol::ApiError> error() {
    const std::scoped_lock lock(mutex_);
    return error_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool news_ = false;
  std::optional<protocol::ApiError> error_;
};

/// Collects the generation instead of writing it.
class PieceWriter final : public protocol::GenerationWriter {
 public:
  PieceWriter(const protocol::ModelClient::OnPiece& on_piece, protocol::ChatReply& out)
      : on_piece_(on_piece), out_(out) {}

  const std::string& id() const override { return id_; }
  std::string open(std::span<const protocol::Choice> /*choices*/,
                   int64_t /*prompt_tokens*/) override {
    return "";
  }
  std::string piece(const protocol::Choice& part) override {
    const std::scoped_lock lock(mutex_);
    protocol::append_piece(part, out_.choice);
    if (on_piece_) waiting_.push_back(part);
    return "";
  }
  std::string close(const protocol::Usage& usage, const protocol::Timings& timings) override {
    out_.usage = usage;
    out_.timings = timings;
    return "";
  }
  std::string fail(const protocol::ApiError& /*error*/) override { return ""; }
  std::string whole(std::span<const protocol::Choice> /*choices*/, const protocol::Usage& /*usage*/,
                    const protocol::Timings& /*timings*/) override {
    return "";
  }

  /// Passes on what has arrived; false if the receiver wants no more.
  bool deliver() {
    std::vector<protocol::Choice> pieces;
    {
      const std::scoped_lock lock(mutex_);
      pieces.swap(waiting_);
    }
    for (const protocol::Choice& part : pieces) {
      if (!on_piece_(part)) return false;
    }
    return true;
  }

 private:
  const std::string id_;
  const protocol::ModelClient::OnPiece& on_piece_;
  std::mutex mutex_;
  std::vector<protocol::Choice> waiting_;
  protocol::ChatReply& out_;
};

}  // namespace

std::optional<protocol::ApiError> LocalModel::chat(const protocol::ChatRequest& request,
                                                   const OnPiece& on_piece,
                                                   protocol::ChatReply& out) {
  out = {};
  const auto mailbox = std::make_shared<Mailbox>();
  const auto stream = std::make_shared<ResponseStream>(
      [mailbox](ResponseStream::Urgency /*urgency*/) { mailbox->wake(); });
  const auto part = std::make_shared<Call>();
  part->request.head = outer_->request.head;
  part->stream = stream;
  part->route = outer_->route;
  part->form = outer_->form;
  part->request_id = outer_->request_id;
  part->key = outer_->key;
  part->model = outer_->model;
  part->on_error = [mailbox](const protocol::ApiError& error) { mailbox->fail(error); };

  protocol::ChatRequest wanted = request;
  wanted.stream = true;
  wanted.model.clear();
  wanted.n = 1;
  auto writer = std::make_shared<PieceWriter>(on_piece, out);
  chat_(part, std::move(wanted), [&](const std::vector<protocol::Warning>&) { return writer; });
  bool wanted_more = true;
  // The end of the stream is waited for in any case: the generation writes to `out` until then.
  while (true) {
    if (stream->take().ended) break;
    if (auto error = mailbox->error(); error && !stream->streaming()) return error;
    if (wanted_more && ((on_piece && !writer->deliver()) || abandoned_())) {
      wanted_more = false;
      stream->abandon();
    }
    mailbox->wait();
  }
  if (wanted_more && on_piece && !writer->deliver()) wanted_more = false;
  auto error = mailbox->error();
  if (error && !wanted_more && !abandoned_()) return std::nullopt;  // ended on purpose
  return error;
}

}  // namespace chimere::serving
