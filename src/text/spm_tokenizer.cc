#include "text/spm_tokenizer.h"

#include <algorithm>
#include <cmath>

#include "text/utf8.h"

namespace chimere::text {
namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";  ///< U+2581

/// Longer pieces are never made from smaller ones: the splits of a piece are tried one by one when
/// the vocabulary is read. Published pieces have at most 384 bytes.
constexpr size_t kMaxPieceBytes = 512;

/// The number in "<0xNN>"; -1 for any other text.
int byte_of(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  int value = 0;
  for (const char c : text.substr(3, 2)) {
    const bool digit = c >= '0' && c <= '9';
    const bool letter = c >= 'A' && c <= 'F';
    if (!digit && !letter) return -1;
    value = value * 16 + (digit ? c - '0' : c - 'A' + 10);
  }
  return value;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  std::string out;
  size_t done = 0;
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, done)) {
    out.append(text, done, at - done).append(to);
    done = at + from.size();
  }
  text = out.append(text, done);
}

}  // namespace

SpmTokenizer::SpmTokenizer(Vocabulary vocabulary) : VocabularyTokenizer(std::move(vocabulary)) {
  byte_token_.fill(-1);
}

Result<std::unique_ptr<Tokenizer>> SpmTokenizer::create(Vocabulary vocabulary) {
  std::unique_ptr<SpmTokenizer> tokenizer(new SpmTokenizer(std::move(vocabulary)));
  CHIMERE_CHECK_OK(tokenizer->index());
  CHIMERE_CHECK_OK(tokenizer->index_pieces());
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

Status SpmTokenizer::index_pieces() {
  const std::vector<float>& scores = vocabulary_.scores;
  if (scores.size() != vocabulary_.tokens.size()) {
    return invalid_data("The vocabulary has " + std::to_string(vocabulary_.tokens.size()) +
                        " tokens but " + std::to_string(scores.size()) +
                        " scores (tokenizer.ggml.scores).");
  }
  std::vector<float> order(scores);
  if (std::ranges::any_of(order, [](float s) { return std::isnan(s); })) {
    return invalid_data("A score of the vocabulary is not a number (tokenizer.ggml.scores).");
  }
  std::ranges::sort(order, std::ranges::greater());
  order.erase(std::ranges::unique(order).begin(), order.end());
  std::vector<int32_t> ranks;
  for (int32_t id = 0; id < n_tokens(); ++id) {
    const auto place = std::ranges::lower_bound(order, scores[id], std::ranges::greater());
    ranks.push_back(static_cast<int32_t>(place - order.begin()));
    if (type(id) != TokenType::kByte) continue;
    const int byte = byte_of(vocabulary_.tokens[id]);
    if (byte < 0) {
      return invalid_data("The byte token " + std::to_string(id) +
                          " of the vocabulary is not written like <0x0A>.");
    }
    byte_token_[byte] = id;
  }
  index_merges(ranks);
  return {};
}

bool SpmTokenizer::is_space_run(int32_t id) const {
  return type(id) == TokenType::kUserDefined && !vocabulary_.tokens[id].empty() &&
         vocabulary_.tokens[id].find_first_not_of(' ') == std::string::npos;
}

std::string SpmTokenizer::added_text(int32_t id) const {
  std::string text = vocabulary_.tokens[id];
  if (is_space_run(id)) replace_all(text, " ", kSpace);
  return text;
}

std::string SpmTokenizer::mergeable_text(int32_t id) const {
  if (type(id) != TokenType::kNormal && !is_space_run(id)) return {};
  const std::string text = added_text(id);
  const bool usable =
      text.size() <= kMaxPieceBytes && is_valid_utf8(text) && find_piece(text) == id;
  return usable ? text : std::string();
}

int32_t SpmTokenizer::find_piece(std::string_view text) const {
  const int32_t id = find(text);
  if (id >= 0) return type(id) == TokenType::kNormal ? id : -1;
  if (!text.starts_with(kSpace)) return -1;
  const auto run = space_runs_.find(std::string(text));
  return run == space_runs_.end() ? -1 : run->second;
}

int32_t SpmTokenizer::add_character(uint32_t code) {
  const auto [it, added] = character_symbol_.try_emplace(code, -1);
  if (added) {
    std::string text;
    append_utf8(text, code);
    it->second = find_piece(text);
    if (it->second < 0) {
      it->second = n_tokens() + static_cast<int32_t>(extra_characters_.size());
      extra_characters_.push_back(code);
    }
  }
  return it->second;
}

/// A piece or a character; -1: neither.
int32_t SpmTokenizer::symbol_of(std::string_view text) const {
  const Utf8Char c = read_utf8(text, 0);
  if (static_cast<size_t>(c.length) != text.size()) return find_piece(text);
  const auto it = character_symbol_.find(c.code);
  return it == character_symbol_.end() ? -1 : it->second;
}

void SpmTokenizer::index_merges(const std::vector<int32_t>& ranks) {
  struct Split {
    int32_t left;
    int32_t right;
    int32_t whole;
  };
  for (int32_t id = 0; id < n_tokens(); ++id) {
    if (is_space_run(id)) space_runs_[added_text(id)] = id;
  }
  for (int32_t id = 0; id < n_tokens(); ++id) {
    const std::string text = mergeable_text(id);
    for (size_t at = 0; at < text.size();) {
      const Utf8Char c = read_utf8(text, at);
      add_character(c.code);
      at += c.length;
    }
  }
  std::vector<Split> splits;
  for (int32_t id = 0; id < n_tokens(); ++id) {
    const std::string whole = mergeable_text(id);
    const std::string_view text = whole;
    for (size_t at = 0; at < text.size();) {
      at += read_utf8(text, at).length;
      if (at == text.size()) break;
      const int32_t left = symbol_of(text.substr(0, at));
      if (left < 0) continue;
      const int32_t right = symbol_of(text.substr(at));
      if (right >= 0) splits.push_back({left, right, id});
    }
  }
  merges_ = std::make_unique<MergeTable>(splits.size());
  for (const Split& s : splits) merges_->add(s.left, s.right, {ranks[s.whole], s.whole});
}

class SpmTokenizer::Encoder final : public Fragments {
 public:
  explicit Encoder(const SpmTokenizer& owner) : t_(owner), merger_(*owner.merges_) {}

  void encode(std::string_view text, std::vector<int32_t>& out) override {
    escaped_.assign(t_.vocabulary_.add_space_prefix ? kSpace : "");
    for (const char c : text) {
      if (c == ' ') {
        escaped_ += kSpace;
      } else {
        escaped_ += c;
      }
    }
    unknown_ = false;
    for (size_t at = 0; at < escaped_.size();) {
      const Utf8Char c = read_utf8(escaped_, at);
      const auto symbol = c.kind == Utf8Char::Kind::kValid ? t_.character_symbol_.find(c.code)
                                                           : t_.character_symbol_.end();
      if (symbol != t_.character_symbol_.end()) {
        symbols_.push_back(symbol->second);
      } else {
        merge_symbols(out);  // no piece reaches across this character
        append_bytes(std::string_view(escaped_).substr(at, c.length), out);
      }
      at += c.length;
    }
    merge_symbols(out);
  }

 private:
  void merge_symbols(std::vector<int32_t>& out) {
    merger_.merge(symbols_);
    for (const int32_t symbol : symbols_) {
      if (symbol < t_.n_tokens()) {
        out.push_back(symbol);
        unknown_ = false;
        continue;
      }
      std::string text;
      append_utf8(text, t_.extra_characters_[symbol - t_.n_tokens()]);
      append_bytes(text, out);
    }
    symbols_.clear();
  }

  void append_bytes(std::string_view bytes, std::vector<int32_t>& out) {
    const bool spelled = std::ranges::all_of(
        bytes, [&](char c) { return t_.byte_token_[static_cast<uint8_t>(c)] >= 0; });
    if (spelled) {
      unknown_ = false;
      for (const char c : bytes) out.push_back(t_.byte_token_[static_cast<uint8_t>(c)]);
      return;
    }
    if (!unknown_ && t_.vocabulary_.unknown >= 0) out.push_back(t_.vocabulary_.unknown);
    unknown_ = true;
  }

  const SpmTokenizer& t_;
  BytePairMerger merger_;
  std::string escaped_;
  std::vector<int32_t> symbols_;
  bool unknown_ = false;  ///< the unknown token was written last: a run of them is written once
};

std::unique_ptr<VocabularyTokenizer::Fragments> SpmTokenizer::start() const {
  return std::make_unique<Encoder>(*this);
}

std::string SpmTokenizer::piece_bytes(int32_t id) const {
  if (type(id) == TokenType::kByte) {
    return std::string(1, static_cast<char>(byte_of(vocabulary_.tokens[id])));
  }
  std::string text = vocabulary_.tokens[id];
  replace_all(text, kSpace, " ");
  return text;
}

std::string SpmTokenizer::decode(std::span<const int32_t> ids, bool special) const {
  const auto is_piece = [&](int32_t id) { return !is_added(id) || is_space_run(id); };
  std::string out;
  bool first = vocabulary_.add_space_prefix;
  for (const int32_t id : ids) {
    if (!in_range(id)) continue;
    const std::string bytes = token_bytes(id, special);
    out += first && bytes.starts_with(' ') && is_piece(id) ? bytes.substr(1) : bytes;
    first = vocabulary_.add_space_prefix && !is_piece(id);
  }
  return out;
}

}  // namespace chimere::text
