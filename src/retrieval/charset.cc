#include "retrieval/charset.h"

#include <iconv.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <memory>

#include "text/utf8.h"

namespace chimere::retrieval {
namespace {

std::string lower_case_of(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

/// The value behind "charset=" in a text in lower case; empty: there is none.
std::string charset_in(std::string_view text) {
  size_t at = text.find("charset");
  if (at == std::string_view::npos) return "";
  at += 7;
  while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at])) != 0) ++at;
  if (at >= text.size() || text[at] != '=') return "";
  ++at;
  while (at < text.size() && (text[at] == ' ' || text[at] == '"' || text[at] == '\'')) ++at;
  size_t end = at;
  while (end < text.size() && end - at < 40 &&
         (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '-' ||
          text[end] == '_' || text[end] == '.' || text[end] == ':'))
    ++end;
  return std::string(text.substr(at, end - at));
}

/// What browsers read under this name (the Encoding standard of the WHATWG).
std::string as_browsers_do(const std::string& name) {
  if (name == "iso-8859-1" || name == "latin1" || name == "us-ascii" || name == "ascii" ||
      name == "x-sjis")
    return name == "x-sjis" ? "shift_jis" : "windows-1252";
  if (name == "gb2312" || name == "gbk") return "gb18030";
  return name;
}

struct CloseConverter {
  void operator()(void* converter) const { iconv_close(static_cast<iconv_t>(converter)); }
};

/// Empty: iconv does not know the encoding.
std::string converted(std::string_view bytes, const std::string& charset) {
  const iconv_t raw = iconv_open("UTF-8", charset.c_str());
  if (raw == reinterpret_cast<iconv_t>(-1)) return "";  // NOLINT(performance-no-int-to-ptr)
  const std::unique_ptr<void, CloseConverter> converter(raw);
  std::string out;
  std::array<char, 4096> buffer{};
  char* in = const_cast<char*>(bytes.data());  // NOLINT: iconv's signature; it only reads
  size_t left = bytes.size();
  while (left > 0) {
    char* to = buffer.data();
    size_t room = buffer.size();
    const size_t done = iconv(raw, &in, &left, &to, &room);
    const int why = errno;
    out.append(buffer.data(), buffer.size() - room);
    if (done != static_cast<size_t>(-1) || why == E2BIG) continue;
    text::append_utf8(out, 0xfffd);  // a byte that the encoding does not have, or a cut character
    ++in;
    --left;
  }
  return out;
}

}  // namespace

std::string charset_of(std::string_view bytes, std::string_view media_type, bool html) {
  if (bytes.starts_with("\xef\xbb\xbf")) return "utf-8";
  if (bytes.starts_with("\xff\xfe")) return "utf-16le";
  if (bytes.starts_with("\xfe\xff")) return "utf-16be";
  std::string name = charset_in(lower_case_of(media_type.substr(0, 500)));
  if (!name.empty() || !html) return name;
  const std::string head = lower_case_of(bytes.substr(0, 1024));
  const size_t meta = head.find("<meta");
  return meta == std::string::npos ? "" : charset_in(std::string_view(head).substr(meta));
}

std::string to_utf8(std::string_view bytes, const std::string& charset) {
  const std::string name = as_browsers_do(lower_case_of(charset));
  if (name == "utf-16le" || name == "utf-16be") {
    if (bytes.starts_with("\xff\xfe") || bytes.starts_with("\xfe\xff")) bytes.remove_prefix(2);
  }
  if (name == "utf-8" || name == "utf8") return std::string(bytes);
  if (!name.empty()) {
    std::string text = converted(bytes, name);
    if (!text.empty() || bytes.empty()) return text;
  }
  return text::is_valid_utf8(bytes) ? std::string(bytes) : converted(bytes, "windows-1252");
}

}  // namespace chimere::retrieval
