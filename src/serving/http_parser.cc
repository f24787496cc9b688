#include "serving/http_parser.h"

#include <algorithm>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <utility>

namespace chimere::serving {
namespace {

namespace http = boost::beast::http;

/// Whether a header continues on the next line.
bool has_folded_line(std::string_view raw) {
  return raw.find("\r\n ") != std::string_view::npos ||
         raw.find("\r\n\t") != std::string_view::npos;
}

}  // namespace

struct HttpParser::Beast {
  http::request_parser<http::string_body> parser;
};

HttpParser::HttpParser(size_t max_head, uint64_t max_body) : beast_(std::make_unique<Beast>()) {
  beast_->parser.header_limit(static_cast<uint32_t>(max_head));
  beast_->parser.body_limit(max_body);
  beast_->parser.eager(false);
}

HttpParser::~HttpParser() = default;

void HttpParser::fail(protocol::ErrorCode code, std::string message) {
  state_ = State::kFailed;
  error_ = {code, std::move(message)};
}

void HttpParser::read_head(std::string_view raw) {
  const auto& message = beast_->parser.get();
  if (message.version() != 10 && message.version() != 11) {
    return fail({"bad_http_request", 505}, "This server supports HTTP/1.1 only.");
  }
  if (has_folded_line(raw))
    return fail("bad_http_request", "A header is folded over several lines.");
  head_.http_1_0 = message.version() == 10;
  head_.method = message.method_string();
  const std::string_view target(message.target().data(), message.target().size());
  head_.path = target.substr(0, target.find_first_of("?#"));
  if (const size_t at = target.find('?'); at == head_.path.size() && at < target.size()) {
    head_.query = target.substr(at + 1, target.find('#') - at - 1);
  }
  head_.keep_alive = message.keep_alive();
  for (const auto& field : message) {
    const std::string_view name(field.name_string().data(), field.name_string().size());
    const std::string_view value(field.value().data(), field.value().size());
    head_.headers.emplace_back(lower_case(name), value);
  }
  const auto count = [&](std::string_view name) {
    return std::ranges::count(head_.headers, name, &Headers::value_type::first);
  };
  const auto hosts = count("host");
  const auto lengths = count("content-length");
  const auto encodings = count("transfer-encoding");
  if (hosts > 1 || (hosts == 0 && !head_.http_1_0)) {
    return fail("bad_http_request", "The request must have one Host header.");
  }
  if (lengths + encodings > 1) {
    return fail("bad_http_request", "The request specifies the length of its body more than once.");
  }
  const std::string_view length = head_.header("content-length");
  if (lengths == 1 && length.find_first_not_of("0123456789") != std::string_view::npos) {
    return fail("bad_http_request", "The Content-Length must be one number.");
  }
  if (encodings == 1 &&
      (head_.http_1_0 || lower_case(head_.header("transfer-encoding")) != "chunked")) {
    return fail("bad_http_request",
                "The only supported Transfer-Encoding is chunked, in HTTP/1.1.");
  }
  head_.expects_continue = lower_case(head_.header("expect")) == "100-continue";
  state_ = beast_->parser.is_done() ? State::kDone : State::kBody;
}

size_t HttpParser::push(std::string_view bytes) {
  size_t used = 0;
  while (state_ == State::kHead || state_ == State::kBody) {
    if (state_ == State::kBody && beast_->parser.is_done()) {
      state_ = State::kDone;
      break;
    }
    boost::system::error_code error;
    const std::string_view rest = bytes.substr(used);
    if (rest.empty()) break;
    const size_t n = beast_->parser.put(boost::asio::buffer(rest.data(), rest.size()), error);
    used += n;
    if (error == http::error::need_more) break;
    if (error == http::error::header_limit) {
      fail({"bad_http_request", 431}, "The headers exceed the limit of this server.");
    } else if (error == http::error::body_limit) {
      if (state_ == State::kHead) read_head(rest);  // the answer depends on the path
      fail({"bad_http_request", 413}, "The body exceeds the limit of this server (--max-body).");
    } else if (error) {
      fail("bad_http_request", "This is not a valid HTTP request: " + error.message() + ".");
    } else if (state_ == State::kHead && beast_->parser.is_header_done()) {
      read_head(rest.substr(0, n));
      if (state_ == State::kBody) break;  // the caller checks the head first
    } else if (n == 0) {
      break;
    }
  }
  return used;
}

std::string HttpParser::take_body() { return std::move(beast_->parser.get().body()); }

}  // namespace chimere::serving
