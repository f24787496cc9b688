// Serialisation of HTTP/1.1 responses.
#ifndef CHIMERE_SERVING_HTTP_WRITER_H_
#define CHIMERE_SERVING_HTTP_WRITER_H_

#include <string>
#include <string_view>

#include "serving/http_message.h"

namespace chimere::serving {

/// Head and body.
std::string http_text(const HttpResponse& response, bool keep_alive);
/// The head of a body of unknown length; `chunked`: with chunked transfer encoding, else the body
/// ends with the connection.
std::string http_stream_head(const HttpResponse& response, bool keep_alive, bool chunked);
/// `bytes` (at least one) as a chunk.
std::string http_chunk(std::string_view bytes);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_HTTP_WRITER_H_
