// Texts in other encodings than UTF-8.
#ifndef CHIMERE_RETRIEVAL_CHARSET_H_
#define CHIMERE_RETRIEVAL_CHARSET_H_

#include <string>
#include <string_view>

namespace chimere::retrieval {

/// The name of the encoding of a text or HTML page: its byte order mark, else the `charset` of the
/// media type, else for HTML that of a <meta> element in the first 1,024 bytes; empty: none says.
std::string charset_of(std::string_view bytes, std::string_view media_type, bool html);

/// The text in UTF-8. Bytes that the encoding does not have become U+FFFD. Without a name, or with
/// one that iconv does not know: UTF-8 if it is valid, else Windows-1252.
std::string to_utf8(std::string_view bytes, const std::string& charset);

}  // namespace chimere::retrieval

#endif  // CHIMERE_RETRIEVAL_CHARSET_H_
