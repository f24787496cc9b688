#include "text/word_piece_tokenizer.h"

#include <algorithm>

#include "text/unicode.h"
#include "text/utf8.h"

namespace chimere::text {
namespace {

constexpr std::string_view kBegins = "\xE2\x96\x81";  ///< U+2581
constexpr size_t kMaxWordCharacters = 100;

struct CodeRange {
  uint32_t first;
  uint32_t last;
};

/// Blocks that BERT takes for Chinese. One begins at U+2B920 where U+2B820 was meant: Hugging
/// Face's library has it so, and models were trained with it.
constexpr CodeRange kChinese[] = {
    {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},   {0x20000, 0x2A6DF},
    {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F},
};

bool is_chinese(uint32_t code) {
  return std::ranges::any_of(
      kChinese, [&](CodeRange range) { return code >= range.first && code <= range.last; });
}

bool is_space(uint32_t code) {
  return (code >= 9 && code <= 13) || code == 0x85 || category(code) == Category::kZs ||
         category(code) == Category::kZl || category(code) == Category::kZp;
}

/// Characters that are dropped: control characters and non-characters.
bool is_dropped(uint32_t code) {
  if (code == '\t' || code == '\n' || code == '\r') return false;
  return code == 0 || code == 0xFFFD || is_other(code);
}

bool stands_alone(uint32_t code) {
  const bool ascii_mark = (code >= '!' && code <= '/') || (code >= ':' && code <= '@') ||
                          (code >= '[' && code <= '`') || (code >= '{' && code <= '~');
  return ascii_mark || is_punctuation(code) || is_chinese(code);
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> WordPieceTokenizer::create(Vocabulary vocabulary) {
  std::unique_ptr<WordPieceTokenizer> tokenizer(new WordPieceTokenizer(std::move(vocabulary)));
  CHIMERE_CHECK_OK(tokenizer->index());
  for (const std::string& text : tokenizer->vocabulary_.tokens) {
    tokenizer->longest_piece_ = std::max(tokenizer->longest_piece_, text.size());
  }
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

int32_t WordPieceTokenizer::find_piece(std::string_view text) const {
  const int32_t id = find(text);
  return id >= 0 && !is_added(id) ? id : -1;
}

class WordPieceTokenizer::Encoder final : public Fragments {
 public:
  explicit Encoder(const WordPieceTokenizer& owner) : t_(owner) {}

  void encode(std::string_view text, std::vector<int32_t>& out) override {
    const Vocabulary& v = t_.vocabulary_;
    const std::string decomposed = v.strip_accents ? nfd(clean(text)) : clean(text);
    for (size_t at = 0; at < decomposed.size();) {
      const Utf8Char c = read_utf8(decomposed, at);
      at += c.length;
      if (v.strip_accents && category(c.code) == Category::kMn) continue;
      if (!v.lowercase) {
        add_character(c.code, out);
        continue;
      }
      const std::string lower = lower_case(c.code);
      for (size_t i = 0; i < lower.size();) {
        const Utf8Char part = read_utf8(lower, i);
        add_character(part.code, out);
        i += part.length;
      }
    }
    finish_word(out);
  }

 private:
  /// Without control characters and bytes that are not UTF-8, and with spaces around Chinese.
  static std::string clean(std::string_view text) {
    std::string out;
    for (size_t at = 0; at < text.size();) {
      const Utf8Char c = read_utf8(text, at);
      at += c.length;
      if (c.kind != Utf8Char::Kind::kValid || is_dropped(c.code)) continue;
      const bool alone = is_chinese(c.code);  // before a decomposition changes it
      if (alone || is_space(c.code)) out += ' ';
      if (!is_space(c.code)) append_utf8(out, c.code);
      if (alone) out += ' ';
    }
    return out;
  }

  void add_character(uint32_t code, std::vector<int32_t>& out) {
    if (is_space(code) || stands_alone(code)) finish_word(out);
    if (is_space(code)) return;
    append_utf8(word_, code);
    ++characters_;
    if (stands_alone(code)) finish_word(out);
  }

  void finish_word(std::vector<int32_t>& out) {
    if (word_.empty()) return;
    const size_t before = out.size();
    if (characters_ > kMaxWordCharacters || !cut(out)) {
      out.resize(before);
      if (t_.vocabulary_.unknown >= 0) out.push_back(t_.vocabulary_.unknown);
    }
    word_.clear();
    characters_ = 0;
  }

  /// Writes the pieces of word_; false if none fits somewhere.
  bool cut(std::vector<int32_t>& out) {
    const std::string marked = std::string(kBegins) + word_;
    for (size_t at = 0; at < marked.size();) {
      const std::string_view rest = std::string_view(marked).substr(at);
      // The mark alone is no beginning of a word, and what begins one does not continue with
      // another.
      const bool ends_early = at > 0 && rest.starts_with(kBegins);
      size_t length = ends_early ? 0 : std::min(rest.size(), t_.longest_piece_);
      int32_t id = -1;
      for (; length > (at == 0 ? kBegins.size() : 0); --length) {
        id = t_.find_piece(rest.substr(0, length));
        if (id >= 0) break;
      }
      if (id < 0) return false;
      out.push_back(id);
      at += length;
    }
    return true;
  }

  const WordPieceTokenizer& t_;
  std::string word_;
  size_t characters_ = 0;
};

std::unique_ptr<VocabularyTokenizer::Fragments> WordPieceTokenizer::start() const {
  return std::make_unique<Encoder>(*this);
}

std::string WordPieceTokenizer::piece_bytes(int32_t id) const {
  const std::string& text = vocabulary_.tokens[id];
  return text.starts_with(kBegins) ? " " + text.substr(kBegins.size()) : text;
}

std::string WordPieceTokenizer::decode(std::span<const int32_t> ids, bool special) const {
  const std::string text = Tokenizer::decode(ids, special);
  return text.starts_with(' ') ? text.substr(1) : text;
}

}  // namespace chimere::text
