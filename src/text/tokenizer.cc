#include "text/tokenizer.h"

#include "text/utf8.h"

namespace chimere::text {

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool parse_special) const {
  const TextRange all{0, text.size()};
  const std::span<const TextRange> everywhere(&all, 1);
  return encode_where(text, {everywhere.first(parse_special ? 1 : 0), everywhere});
}

std::vector<int32_t> Tokenizer::encode_with_bos(std::string_view text, bool parse_special) const {
  std::vector<int32_t> tokens = encode(text, parse_special);
  if (add_bos() && bos() >= 0) tokens.insert(tokens.begin(), bos());
  return tokens;
}

std::vector<int32_t> Tokenizer::encode_trusted(std::string_view text,
                                               std::span<const TextRange> trusted) const {
  return encode_where(text, {trusted, trusted});
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool special) const {
  std::string out;
  for (const int32_t id : ids) out += token_bytes(id, special);
  return out;
}

namespace {
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
}

std::string StreamDecoder::push(std::string_view bytes) {
  pending_ += bytes;
  std::string out;
  size_t at = 0;
  while (at < pending_.size()) {
    const Utf8Char c = read_utf8(pending_, at);
    if (c.kind == Utf8Char::Kind::kTruncated) break;
    if (c.kind == Utf8Char::Kind::kValid) {
      out.append(pending_, at, c.length);
    } else {
      out += kReplacement;
    }
    at += c.length;
  }
  pending_.erase(0, at);
  return out;
}

std::string StreamDecoder::finish() {
  if (pending_.empty()) return {};
  pending_.clear();
  return std::string(kReplacement);
}

}  // namespace chimere::text
