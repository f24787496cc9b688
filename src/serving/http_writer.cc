#include "serving/http_writer.h"

#include <array>
#include <charconv>

namespace chimere::serving {
namespace {

const char* reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return status < 500 ? "Error" : "Internal Server Error";
  }
}

std::string head(const HttpResponse& response, bool keep_alive) {
  std::string out = "HTTP/1.1 " + std::to_string(response.status) + " " + reason(response.status) +
                    "\r\nContent-Type: " + response.content_type +
                    "\r\nX-Content-Type-Options: nosniff\r\n";
  for (const auto& [name, value] : response.headers) {
    out.append(name).append(": ").append(value).append("\r\n");
  }
  out += keep_alive ? "Connection: keep-alive\r\n" : "Connection: close\r\n";
  return out;
}

}  // namespace

std::string http_text(const HttpResponse& response, bool keep_alive) {
  return head(response, keep_alive) + "Content-Length: " + std::to_string(response.body.size()) +
         "\r\n\r\n" + response.body;
}

std::string http_stream_head(const HttpResponse& response, bool keep_alive, bool chunked) {
  return head(response, keep_alive) + (chunked ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n");
}

std::string http_chunk(std::string_view bytes) {
  std::array<char, 16> size{};
  char* const end = std::to_chars(size.data(), size.data() + size.size(), bytes.size(), 16).ptr;
  std::string out(size.data(), end);
  out += "\r\n";
  out += bytes;
  out += "\r\n";
  return out;
}

}  // namespace chimere::serving
