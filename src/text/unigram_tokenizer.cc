#include "text/unigram_tokenizer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "text/utf8.h"

namespace chimere::text {
namespace {

constexpr std::string_view kMarkedSpace = "\xE2\x96\x81";       ///< U+2581
constexpr std::string_view kUnknownCharacter = "\xEF\xBF\xBD";  ///< U+FFFD
constexpr double kUnknownPenalty = 10;

/// The number in "<0xNN>"; -1 for any other text.
int number_of_byte(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  const size_t high = kDigits.find(text[3]);
  const size_t low = kDigits.find(text[4]);
  if (high == std::string_view::npos || low == std::string_view::npos) return -1;
  return static_cast<int>(16 * high + low);
}

}  // namespace

UnigramTokenizer::UnigramTokenizer(Vocabulary vocabulary)
    : VocabularyTokenizer(std::move(vocabulary)) {
  byte_token_.fill(-1);
}

Result<std::unique_ptr<Tokenizer>> UnigramTokenizer::create(Vocabulary vocabulary) {
  std::unique_ptr<UnigramTokenizer> tokenizer(new UnigramTokenizer(std::move(vocabulary)));
  CHIMERE_CHECK_OK(tokenizer->index());
  CHIMERE_CHECK_OK(tokenizer->index_pieces());
  CHIMERE_TRY(tokenizer->characters_,
              CharacterMap::create(tokenizer->vocabulary_.precompiled_charsmap));
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

Status UnigramTokenizer::index_pieces() {
  const Vocabulary& v = vocabulary_;
  if (v.scores.size() != v.tokens.size()) {
    return invalid_data("The vocabulary has " + std::to_string(v.tokens.size()) + " tokens but " +
                        std::to_string(v.scores.size()) + " scores (tokenizer.ggml.scores).");
  }
  double worst = std::numeric_limits<double>::max();
  for (int32_t id = 0; id < n_tokens(); ++id) {
    if (type(id) == TokenType::kByte) {
      const int byte = number_of_byte(v.tokens[id]);
      if (byte >= 0) byte_token_[static_cast<size_t>(byte)] = id;
    }
    if (type(id) != TokenType::kNormal || v.tokens[id].empty()) continue;
    if (!std::isfinite(v.scores[id])) {
      return invalid_data("A score of the vocabulary is not finite (tokenizer.ggml.scores).");
    }
    worst = std::min(worst, static_cast<double>(v.scores[id]));
    sorted_.push_back(id);
  }
  if (sorted_.empty()) return invalid_data("The vocabulary has no pieces (tokenizer.ggml.tokens).");
  unknown_score_ = worst - kUnknownPenalty;
  const auto text = [&](int32_t id) -> const std::string& { return v.tokens[id]; };
  std::ranges::stable_sort(sorted_, {}, text);
  const auto same = std::ranges::unique(sorted_, {}, text);  // the first of equal pieces
  sorted_.erase(same.begin(), same.end());
  return {};
}

UnigramTokenizer::Range UnigramTokenizer::narrowed(Range range, size_t depth, char byte) const {
  const auto begin = sorted_.begin() + static_cast<std::ptrdiff_t>(range.begin);
  const auto end = sorted_.begin() + static_cast<std::ptrdiff_t>(range.end);
  // The piece that ends here comes first.
  const auto next = [&](int32_t id) {
    const std::string& text = vocabulary_.tokens[id];
    return depth < text.size() ? int{static_cast<uint8_t>(text[depth])} : -1;
  };
  const auto [first, last] =
      std::ranges::equal_range(begin, end, int{static_cast<uint8_t>(byte)}, {}, next);
  return {static_cast<size_t>(first - sorted_.begin()),
          static_cast<size_t>(last - sorted_.begin())};
}

class UnigramTokenizer::Encoder final : public Fragments {
 public:
  explicit Encoder(const UnigramTokenizer& owner) : t_(owner) {}

  void encode(std::string_view text, std::vector<int32_t>& out) override {
    normalise(text);
    if (normalised_.empty()) return;
    find_best();
    write(out);
  }

 private:
  /// The best division of the text up to a place.
  struct Best {
    double score = -std::numeric_limits<double>::infinity();
    size_t begin = 0;  ///< of its last piece
    int32_t id = -1;   ///< the last piece; -1: unknown
  };

  void normalise(std::string_view text) {
    normalised_.clear();
    pending_space_ = t_.vocabulary_.add_space_prefix;
    for (size_t at = 0; at < text.size();) {
      const CharacterMap::Match match = t_.characters_.match(text.substr(at));
      if (match.length > 0) {
        for (const char c : match.replacement) append(c);
        at += match.length;
        continue;
      }
      const Utf8Char c = read_utf8(text, at);
      const bool valid = c.kind == Utf8Char::Kind::kValid;
      const size_t length = valid ? static_cast<size_t>(c.length) : 1;
      for (const char byte : valid ? text.substr(at, length) : kUnknownCharacter) append(byte);
      at += length;
    }
  }

  void append(char byte) {
    const bool merges = t_.vocabulary_.remove_extra_spaces;
    if (byte == ' ' && merges) {
      pending_space_ |= !normalised_.empty();
      return;
    }
    if (pending_space_) normalised_ += kMarkedSpace;
    pending_space_ = false;
    if (byte == ' ') {
      normalised_ += kMarkedSpace;
    } else {
      normalised_ += byte;
    }
  }

  void find_best() {
    best_.assign(normalised_.size() + 1, {});
    best_[0].score = 0;
    for (size_t at = 0; at < normalised_.size();) {
      const auto length = static_cast<size_t>(read_utf8(normalised_, at).length);
      const double before = best_[at].score;
      bool whole = false;  // some piece is this character
      Range range = {0, t_.sorted_.size()};
      for (size_t end = at; end < normalised_.size();) {
        range = t_.narrowed(range, end - at, normalised_[end]);
        if (range.begin == range.end) break;
        ++end;
        const int32_t id = t_.sorted_[range.begin];
        if (t_.vocabulary_.tokens[id].size() != end - at) continue;
        whole |= end - at == length;
        offer({before + t_.vocabulary_.scores[id], at, id}, end);
      }
      if (!whole) offer({before + t_.unknown_score_, at, -1}, at + length);
      at += length;
    }
  }

  void offer(const Best& one, size_t end) {
    if (one.score > best_[end].score) best_[end] = one;
  }

  void write(std::vector<int32_t>& out) {
    ends_.clear();
    for (size_t end = normalised_.size(); end > 0; end = best_[end].begin) ends_.push_back(end);
    bool unknown = false;  // the unknown token was written last
    for (auto end = ends_.rbegin(); end != ends_.rend(); ++end) {
      const Best& piece = best_[*end];
      if (piece.id >= 0) {
        out.push_back(piece.id);
        unknown = false;
        continue;
      }
      const std::string_view bytes =
          std::string_view(normalised_).substr(piece.begin, *end - piece.begin);
      const auto token = [&](char c) { return t_.byte_token_[static_cast<uint8_t>(c)]; };
      if (std::ranges::all_of(bytes, [&](char c) { return token(c) >= 0; })) {
        for (const char c : bytes) out.push_back(token(c));
        unknown = false;
      } else if (!unknown) {
        if (t_.vocabulary_.unknown >= 0) out.push_back(t_.vocabulary_.unknown);
        unknown = true;
      }
    }
  }

  const UnigramTokenizer& t_;
  std::string normalised_;
  bool pending_space_ = false;  ///< a space goes before the next character
  std::vector<Best> best_;      ///< by end
  std::vector<size_t> ends_;
};

std::unique_ptr<VocabularyTokenizer::Fragments> UnigramTokenizer::start() const {
  return std::make_unique<Encoder>(*this);
}

std::string UnigramTokenizer::piece_bytes(int32_t id) const {
  const std::string& text = vocabulary_.tokens[id];
  if (type(id) == TokenType::kByte) {
    if (const int byte = number_of_byte(text); byte >= 0) {
      return std::string(1, static_cast<char>(byte));
    }
  }
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const bool space = std::string_view(text).substr(at).starts_with(kMarkedSpace);
    if (space) {
      out += ' ';
    } else {
      out += text[at];
    }
    at += space ? kMarkedSpace.size() : 1;
  }
  return out;
}

std::string UnigramTokenizer::decode(std::span<const int32_t> ids, bool special) const {
  const std::string text = Tokenizer::decode(ids, special);
  return vocabulary_.add_space_prefix && text.starts_with(' ') ? text.substr(1) : text;
}

}  // namespace chimere::text
