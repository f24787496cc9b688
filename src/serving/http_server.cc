#include "serving/http_server.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/wake_descriptor.h"
#include "protocol/api_error.h"
#include "protocol/responses.h"
#include "serving/http_parser.h"
#include "serving/http_writer.h"
#include "serving/wake_queue.h"

namespace chimere::serving {
namespace {

namespace asio = boost::asio;
using asio::awaitable;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using TlsStream = asio::ssl::stream<tcp::socket>;

Clock::duration seconds(double s) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s));
}

/// State shared by the connections; used on the server's thread.
struct Shared {
  const HttpOptions& options;
  HttpHandler& handler;
  std::shared_ptr<WakeQueue> wake_queue;  ///< may outlive the server in response streams
  std::atomic<int64_t> connections = 0;
  int64_t active_requests = 0;  ///< connections with a request in progress
  bool stopping = false;
};

/// One client connection, on the server's thread. A reader coroutine fills `in_` all the time, so
/// that a disconnecting client is noticed while its response is computed; the other coroutine
/// consumes `in_`. Timers serve as condition variables: a change cancels the timer.
template <typename Stream>
class Connection : public Listener, public std::enable_shared_from_this<Connection<Stream>> {
 public:
  Connection(Shared& shared, Stream stream, std::string peer)
      : shared_(shared),
        stream_(std::move(stream)),
        peer_(std::move(peer)),
        changed_(stream_.get_executor()),
        space_(stream_.get_executor()),
        write_deadline_(stream_.get_executor()) {
    ++shared_.connections;
  }
  ~Connection() override { --shared_.connections; }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void start() {
    asio::co_spawn(
        stream_.get_executor(), [self = this->shared_from_this()] { return self->run(); },
        asio::detached);
  }

  void on_wake() override { changed_.cancel(); }

 private:
  /// Bytes of following requests that are read ahead.
  static constexpr size_t kReadAhead = 64 << 10;

  tcp::socket& socket() {
    if constexpr (std::is_same_v<Stream, TlsStream>) {
      return stream_.next_layer();
    } else {
      return stream_;
    }
  }

  void close() {
    error_code ignored;
    socket().shutdown(tcp::socket::shutdown_both, ignored);
    socket().close(ignored);
    gone_ = true;
    changed_.cancel();
    space_.cancel();
  }

  awaitable<void> run() {
    const auto self = this->shared_from_this();
    error_code ignored;
    socket().set_option(tcp::no_delay(true), ignored);
    socket().non_blocking(true, ignored);
    if constexpr (std::is_same_v<Stream, TlsStream>) {
      if (!co_await handshake()) co_return;
    }
    asio::co_spawn(
        stream_.get_executor(), [self] { return self->read(); }, asio::detached);
    while (co_await serve_one()) {
    }
    co_await linger();
    close();
  }

  awaitable<bool> handshake() {
    error_code error;
    limit_write(shared_.options.head_seconds);
    co_await stream_.async_handshake(asio::ssl::stream_base::server,
                                     asio::redirect_error(asio::use_awaitable, error));
    write_deadline_.cancel();
    co_return !error;
  }

  awaitable<void> read() {
    const auto self = this->shared_from_this();
    std::array<char, 4096> chunk;
    while (!gone_) {
      error_code error;
      if (in_.size() >= kReadAhead) {
        space_.expires_at(Clock::time_point::max());
        co_await space_.async_wait(asio::redirect_error(asio::use_awaitable, error));
        continue;
      }
      const size_t n = co_await stream_.async_read_some(
          asio::buffer(chunk), asio::redirect_error(asio::use_awaitable, error));
      if (error) {
        gone_ = true;
      } else if (discard_) {
        continue;
      } else {
        in_.append(chunk.data(), n);
      }
      changed_.cancel();
    }
  }

  /// Waits until a change is signalled. False at the deadline.
  awaitable<bool> wait(Clock::time_point deadline) {
    error_code error;
    changed_.expires_at(deadline);
    co_await changed_.async_wait(asio::redirect_error(asio::use_awaitable, error));
    co_return error == asio::error::operation_aborted;
  }

  void limit_write(double limit) {
    write_deadline_.expires_after(seconds(limit));
    write_deadline_.async_wait([weak = this->weak_from_this()](error_code error) {
      const auto self = weak.lock();
      if (!error && self) self->close();
    });
  }

  /// Writes what the socket accepts without blocking. Most events of a stream need no more, and no
  /// deadline.
  size_t write_at_once(std::string_view bytes) {
    if constexpr (std::is_same_v<Stream, TlsStream>) {
      return 0;
    } else {
      error_code error;
      const size_t n = stream_.write_some(asio::buffer(bytes), error);
      return error ? 0 : n;  // a lasting error recurs in the next write
    }
  }

  awaitable<bool> write(std::string bytes) {
    bytes.erase(0, write_at_once(bytes));
    if (bytes.empty()) co_return true;
    error_code error;
    // The deadline grows with the number of kMaxWaiting-sized pieces.
    limit_write(shared_.options.write_seconds *
                (1 + static_cast<double>(bytes.size()) / ResponseStream::kMaxWaiting));
    co_await asio::async_write(stream_, asio::buffer(bytes),
                               asio::redirect_error(asio::use_awaitable, error));
    write_deadline_.cancel();
    if (error) gone_ = true;
    co_return !gone_;
  }

  void parse(HttpParser& parser) {
    in_.erase(0, parser.push(in_));
    if (in_.empty()) in_.shrink_to_fit();  // idle connections hold little memory
    space_.cancel();
  }

  /// Sends a response after which the connection is closed.
  awaitable<bool> refuse(const HttpHead& head, HttpResponse response) {
    for (auto& header : shared_.handler.extra_headers(head)) {
      response.headers.push_back(std::move(header));
    }
    co_await write(http_text(response, false));
    co_return false;
  }

  awaitable<bool> refuse(const HttpHead& head, const protocol::ApiError& error) {
    return refuse(head, shared_.handler.reject(head, error));
  }

  awaitable<bool> refuse_timeout(const HttpHead& head) {
    return refuse(head, {"request_timeout", "The request did not arrive in time."});
  }

  /// Reads one request and answers it. False when the connection must be closed.
  awaitable<bool> serve_one() {
    const HttpOptions& o = shared_.options;
    HttpParser parser(o.max_head, o.max_body);
    bool begun = false;
    Clock::time_point deadline = Clock::now() + seconds(first_ ? o.head_seconds : o.idle_seconds);
    first_ = false;
    while (true) {
      if (!in_.empty() && !begun) {
        begun = true;
        deadline = Clock::now() + seconds(o.head_seconds);
      }
      parse(parser);
      if (parser.state() != HttpParser::State::kHead) break;
      if (gone_ || (shared_.stopping && !begun)) co_return false;
      if (!co_await wait(deadline)) {
        if (!begun) co_return false;
        co_return co_await refuse_timeout(parser.head());
      }
    }
    if (parser.state() == HttpParser::State::kFailed) {
      co_return co_await refuse(parser.head(), parser.error());
    }
    if (auto refusal = shared_.handler.refuse(parser.head())) {
      co_return co_await refuse(parser.head(), *std::move(refusal));
    }
    if (!co_await read_body(parser)) co_return false;
    HttpRequest request{parser.head(), parser.take_body(), peer_};
    const bool keep = request.head.keep_alive;
    const bool chunked = !request.head.http_1_0;
    const bool head_only = request.head.method == "HEAD";
    auto stream = std::make_shared<ResponseStream>(
        [wake_queue = shared_.wake_queue, weak = std::weak_ptr<Listener>(this->weak_from_this())](
            ResponseStream::Urgency urgency) { wake_queue->add(weak, urgency); });
    ++shared_.active_requests;
    shared_.handler.handle(std::move(request), stream);
    const bool sent = co_await send_response(*stream, keep, chunked, head_only);
    stream->abandon();
    --shared_.active_requests;
    co_return sent;
  }

  awaitable<bool> read_body(HttpParser& parser) {
    if (parser.state() == HttpParser::State::kBody && parser.head().expects_continue &&
        in_.empty()) {
      if (!co_await write("HTTP/1.1 100 Continue\r\n\r\n")) co_return false;
    }
    const Clock::time_point deadline = Clock::now() + seconds(shared_.options.body_seconds);
    while (parser.state() == HttpParser::State::kBody) {
      const size_t before = in_.size();
      parse(parser);
      if (parser.state() != HttpParser::State::kBody) break;
      if (in_.size() < before) continue;
      if (gone_) co_return false;
      if (!co_await wait(deadline)) co_return co_await refuse_timeout(parser.head());
    }
    if (parser.state() == HttpParser::State::kFailed) {
      co_return co_await refuse(parser.head(), parser.error());
    }
    co_return true;
  }

  awaitable<bool> send_response(ResponseStream& stream, bool keep, bool chunked, bool head_only) {
    bool started = false;
    while (true) {
      ResponseStream::Piece piece = stream.take();
      if (piece.too_slow || gone_) co_return false;
      keep &= !shared_.stopping;
      if (piece.head && !stream.streaming()) {
        std::string text = http_text(*piece.head, keep);
        if (head_only) text.resize(text.size() - piece.head->body.size());
        const bool sent = co_await write(std::move(text));
        co_return sent&& keep;
      }
      std::string out;
      if (piece.head) {
        started = true;
        keep &= chunked;  // otherwise closing the connection ends the body
        out = http_stream_head(*piece.head, keep, chunked);
      }
      if (!piece.bytes.empty()) out += chunked ? http_chunk(piece.bytes) : piece.bytes;
      if (piece.ended && chunked) out += kLastChunk;
      if (!out.empty()) {
        if (!co_await write(std::move(out))) co_return false;
        if (!piece.ended) continue;  // more data may have arrived during the write
      }
      if (piece.ended) co_return keep;
      const Clock::time_point deadline =
          started ? Clock::now() + seconds(shared_.options.keep_alive_seconds)
                  : Clock::time_point::max();
      if (!co_await wait(deadline)) stream.keep_alive();
    }
  }

  /// Closing a socket with unread input would reset the connection and could discard the response:
  /// shuts down the sending side and discards input for a moment.
  awaitable<void> linger() {
    discard_ = true;
    in_.clear();
    space_.cancel();
    error_code ignored;
    socket().shutdown(tcp::socket::shutdown_send, ignored);
    const Clock::time_point deadline = Clock::now() + std::chrono::milliseconds(500);
    while (!gone_) {
      if (!co_await wait(deadline)) break;
    }
  }

  Shared& shared_;
  Stream stream_;
  std::string peer_;
  asio::steady_timer changed_;
  asio::steady_timer space_;
  asio::steady_timer write_deadline_;
  std::string in_;
  bool first_ = true;
  bool gone_ = false;     ///< client disconnected or connection closed
  bool discard_ = false;  ///< ignore further input
};

Error cannot_listen(const HttpOptions& options, const error_code& error) {
  const std::string where = options.host + ":" + std::to_string(options.port);
  if (error == asio::error::address_in_use) {
    const int other = options.port < 65535 ? options.port + 1 : options.port - 1;
    return io_error("Port " + std::to_string(options.port) + " of " + options.host +
                    " is in use by another program; stop it or use another port, for example "
                    "--port " +
                    std::to_string(other) + ".");
  }
  if (error == asio::error::access_denied) {
    return io_error(
        "No permission to listen on " + where +
        "; ports below 1024 need a privilege: use another one, for example --port 8080.");
  }
  return invalid_argument("Cannot listen on " + where + ": " + error.message() +
                          "; check --host and --port.");
}

}  // namespace

struct HttpServer::Impl {
  Impl(const HttpOptions& o, HttpHandler& handler, std::shared_ptr<WakeQueue> wake_queue)
      : options(o),
        shared{options, handler, std::move(wake_queue)},
        acceptor(io),
        signals(io),
        hangups(io),
        wake(io),
        poll_timer(io) {}

  Status open_wake_descriptor() {
    error_code error;
    wake.assign(shared.wake_queue->descriptor(), error);
    if (error) return io_error("The wake-up descriptor cannot be used: " + error.message() + ".");
    return {};
  }

  awaitable<void> dispatch_wake_ups() {
    std::array<char, 8> count;
    error_code error;
    while (!error) {
      co_await wake.async_read_some(asio::buffer(count),
                                    asio::redirect_error(asio::use_awaitable, error));
      notify_listeners();
    }
  }

  void notify_listeners() {
    const auto next = shared.wake_queue->notify_listeners();
    if (!next) return;
    poll_timer.expires_at(*next);
    poll_timer.async_wait([this](error_code error) {
      if (!error) notify_listeners();
    });
  }

  Status listen() {
    error_code error;
    tcp::resolver resolver(io);
    const auto found =
        resolver.resolve(options.host, std::to_string(options.port),
                         tcp::resolver::passive | tcp::resolver::numeric_service, error);
    if (error) return cannot_listen(options, error);
    const tcp::endpoint endpoint = *found.begin();
    acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(tcp::acceptor::max_listen_connections, error);
    if (error) return cannot_listen(options, error);
    // Registered before the port is visible to others, so that a signal always ends the server
    // gracefully.
    signals.add(SIGTERM, error);
    signals.add(SIGINT, error);
    return {};
  }

  Status load_certificates() {
    if (options.tls_certificate.empty() && options.tls_key.empty()) return {};
    tls.emplace(asio::ssl::context::tls_server);
    error_code error;
    tls->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1 |
                         asio::ssl::context::no_tlsv1_1,
                     error);
    if (!error) tls->use_certificate_chain_file(options.tls_certificate, error);
    if (!error) tls->use_private_key_file(options.tls_key, asio::ssl::context::pem, error);
    if (!error) return {};
    return invalid_argument("The certificate '" + options.tls_certificate + "' with the key '" +
                            options.tls_key + "' cannot be used: " + error.message() +
                            "; pass PEM files as --tls-certificate and --tls-key.");
  }

  awaitable<void> accept() {
    while (acceptor.is_open()) {
      error_code error;
      tcp::socket socket =
          co_await acceptor.async_accept(asio::redirect_error(asio::use_awaitable, error));
      if (error) {
        // Out of descriptors: wait for connections to close.
        asio::steady_timer pause(io, std::chrono::milliseconds(50));
        co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
        continue;
      }
      if (shared.connections >= options.max_connections) continue;  // the destructor closes it
      const tcp::endpoint remote = socket.remote_endpoint(error);
      const std::string peer = error ? "" : remote.address().to_string();
      if (tls) {
        std::make_shared<Connection<TlsStream>>(shared, TlsStream(std::move(socket), *tls), peer)
            ->start();
      } else {
        std::make_shared<Connection<tcp::socket>>(shared, std::move(socket), peer)->start();
      }
    }
  }

  void watch_signals(std::function<void()> on_signal) {
    signals.async_wait([this, on_signal = std::move(on_signal)](error_code error, int) {
      if (error) return;
      on_signal();
      signals.async_wait([](error_code again, int) {
        if (!again) std::_Exit(130);
      });
    });
  }

  void watch_hangups(std::function<void()> on_hangup) {
    hangups.async_wait([this, on_hangup = std::move(on_hangup)](error_code error, int) {
      if (error) return;
      on_hangup();
      watch_hangups(on_hangup);
    });
  }

  /// Waits for the requests in progress; idle connections are closed without waiting.
  awaitable<void> wait_for_responses(Clock::time_point deadline) {
    asio::steady_timer pause(io);
    while (shared.active_requests > 0 && Clock::now() < deadline) {
      error_code ignored;
      pause.expires_after(std::chrono::milliseconds(20));
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }
    io.stop();
  }

  // Connections are destroyed with the io_context and use the members before it.
  HttpOptions options;
  Shared shared;
  std::optional<asio::ssl::context> tls;
  asio::io_context io{1};
  tcp::acceptor acceptor;
  asio::signal_set signals;
  asio::signal_set hangups;
  asio::posix::stream_descriptor wake;
  asio::steady_timer poll_timer;
};

HttpResponse HttpHandler::reject(const HttpHead& /*head*/, const protocol::ApiError& error) {
  return {error.status(), protocol::error_body(error)};
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;

Result<std::unique_ptr<HttpServer>> HttpServer::create(const HttpOptions& options,
                                                       HttpHandler& handler) {
  CHIMERE_TRY(WakeDescriptor wake, WakeDescriptor::create());
  auto impl =
      std::make_unique<Impl>(options, handler, std::make_shared<WakeQueue>(std::move(wake)));
  CHIMERE_CHECK_OK(impl->open_wake_descriptor());
  CHIMERE_CHECK_OK(impl->load_certificates());
  CHIMERE_CHECK_OK(impl->listen());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

uint16_t HttpServer::port() const {
  error_code error;
  return impl_->acceptor.local_endpoint(error).port();
}

void HttpServer::run(std::function<void()> on_signal, std::function<void()> on_hangup) {
  impl_->watch_signals(std::move(on_signal));
#ifdef SIGHUP
  if (on_hangup) {
    error_code error;
    impl_->hangups.add(SIGHUP, error);
    impl_->watch_hangups(std::move(on_hangup));
  }
#endif
  asio::co_spawn(impl_->io, impl_->accept(), asio::detached);
  asio::co_spawn(impl_->io, impl_->dispatch_wake_ups(), asio::detached);
  impl_->io.run();
}

void HttpServer::stop(double limit) {
  asio::post(impl_->io, [impl = impl_.get(), limit] {
    error_code ignored;
    impl->acceptor.close(ignored);
    impl->shared.stopping = true;
    asio::co_spawn(impl->io, impl->wait_for_responses(Clock::now() + seconds(limit)),
                   asio::detached);
  });
}

int64_t HttpServer::connections() const { return impl_->shared.connections; }

}  // namespace chimere::serving
