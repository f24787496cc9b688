#include "orchestrator/words.h"

#include <algorithm>
#include <array>

#include "orchestrator/weak_words_tables.h"

namespace chimere::orchestrator {
namespace {

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         static_cast<unsigned char>(c) > 127;
}

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

}  // namespace

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  // À to Þ but ×, whose second bytes in UTF-8 lie 32 below those of à to þ.
  for (size_t i = 0; i + 1 < out.size(); ++i) {
    const auto second = static_cast<unsigned char>(out[i + 1]);
    if (out[i] != '\xC3' || second < 0x80 || second > 0x9E || second == 0x97) continue;
    out[i + 1] = static_cast<char>(second + 0x20);
  }
  return out;
}

std::vector<std::string_view> word_views(std::string_view text) {
  std::vector<std::string_view> out;
  size_t i = 0;
  while (i < text.size()) {
    if (!is_word(text[i])) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < text.size()) {
      const char c = text[end];
      const bool inside = (c == '-' || c == '.') && end + 1 < text.size() && is_word(text[end + 1]);
      if (!is_word(c) && !inside && c != '+') break;
      ++end;
    }
    out.push_back(text.substr(i, end - i));
    i = end;
  }
  return out;
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> out;
  for (const std::string_view word : word_views(text)) out.push_back(lower(word));
  return out;
}

bool is_function_word(std::string_view word) {
  static constexpr auto kWords = std::to_array<std::string_view>(
      {"a",       "about", "an",      "and",     "are",   "as",    "at",    "be",     "by",
       "can",     "ce",    "command", "comment", "could", "dans",  "de",    "des",    "do",
       "does",    "du",    "elle",    "en",      "est",   "et",    "file",  "for",    "from",
       "give",    "has",   "have",    "help",    "how",   "i",     "if",    "il",     "in",
       "is",      "it",    "its",     "la",      "le",    "les",   "make",  "me",     "my",
       "need",    "not",   "of",      "on",      "or",    "ou",    "our",   "please", "pour",
       "program", "que",   "quel",    "quelle",  "qui",   "s",     "say",   "should", "show",
       "some",    "t",     "tell",    "that",    "the",   "their", "there", "this",   "to",
       "un",      "une",   "use",     "used",    "using", "want",  "was",   "we",     "what",
       "when",    "where", "which",   "who",     "why",   "will",  "with",  "would",  "you",
       "your"});
  return std::ranges::find(kWords, word) != kWords.end();
}

bool is_weak_word(std::string_view word) { return std::ranges::binary_search(kWeakWords, word); }

std::string stem(std::string_view word) {
  std::string out(word);
  for (const std::string_view ending : {"ing", "ies", "ed", "es", "s"}) {
    if (out.size() > ending.size() + 3 && out.ends_with(ending)) {
      out.resize(out.size() - ending.size());
      break;
    }
  }
  return out.size() > 7 ? out.substr(0, 7) : out;
}

std::vector<std::string> sentences_of(std::string_view text) {
  std::vector<std::string> out;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool mark = text[i] == '.' || text[i] == '!' || text[i] == '?';
    const bool sentence = mark && (i + 1 == text.size() || is_space(text[i + 1]));
    const bool paragraph = text[i] == '\n' && i + 1 < text.size() && text[i + 1] == '\n';
    if (!sentence && !paragraph) continue;
    size_t end = i + 1;
    while (end < text.size() && is_space(text[end])) ++end;
    out.emplace_back(text.substr(begin, end - begin));
    begin = end;
    i = end - 1;
  }
  if (begin < text.size()) out.emplace_back(text.substr(begin));
  return out;
}

std::string on_one_line(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (!is_space(c)) out += c;
    if (is_space(c) && !out.empty() && out.back() != ' ') out += ' ';
  }
  if (out.ends_with(' ')) out.pop_back();
  return out;
}

std::string_view question_of(const protocol::ChatRequest& request) {
  for (auto it = request.messages.rbegin(); it != request.messages.rend(); ++it) {
    if (it->role == "user") return it->content;
  }
  return {};
}

}  // namespace chimere::orchestrator
