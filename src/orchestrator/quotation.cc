#include "orchestrator/quotation.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "orchestrator/relevance.h"
#include "orchestrator/words.h"

namespace chimere::orchestrator {
namespace {

constexpr size_t kMostQuoted = 400;
/// What words of the title and the headings are worth beside those of the part itself.
constexpr double kContext = 0.9;
/// For the line that says what a name is for, and for the option that is asked about.
constexpr double kPurpose = 0.5;

bool has_stem(const std::vector<std::string>& sorted, const std::string& word) {
  return std::ranges::binary_search(sorted, word);
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

/// Cut after a sentence, else between words.
std::string shortened(std::string text) {
  if (text.size() <= kMostQuoted) return text;
  std::string out;
  for (const std::string& sentence : sentences_of(text)) {
    if (out.size() + sentence.size() > kMostQuoted) break;
    out += sentence;
  }
  if (!out.empty()) return on_one_line(out);
  const size_t end = text.rfind(' ', kMostQuoted);
  size_t size = end == std::string::npos || end == 0 ? kMostQuoted : end;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0U) == 0x80) --size;
  text.resize(size);
  return text + " ...";
}

/// A line that begins an option: "-x, --extract", "--objects".
bool begins_option(std::string_view line) {
  return line.size() > 1 && line[0] == '-' && line[1] != ' ' && line[1] != '\t';
}

/// A heading of a manual page in plain text: capitals alone.
bool is_capitals(std::string_view line) {
  return !line.empty() && line.size() < 60 &&
         std::ranges::all_of(line, [](char c) { return (c >= 'A' && c <= 'Z') || c == ' '; });
}

/// The line "NAME - what it is for" of a manual page, with this name among those before the dash.
bool is_purpose_of(std::string_view part, const std::vector<std::string>& names) {
  size_t dash = part.find(" - ");
  if (dash == std::string_view::npos) dash = part.find(" -- ");
  if (dash > 120 || begins_option(part)) return false;  // npos, too
  const std::vector<std::string> before = words_of(part.substr(0, dash));
  return !before.empty() && before.size() <= 8 && std::ranges::any_of(before, [&](const auto& w) {
    return std::ranges::find(names, w) != names.end();
  });
}

/// The options in a text: "-x", "--extract". `most`: words that are looked at.
std::vector<std::string> options_in(std::string_view text, size_t most) {
  std::vector<std::string> out;
  for (size_t n = 0; n < most && !text.empty(); ++n) {
    const size_t begin = std::min(text.find_first_not_of(" \n\t"), text.size());
    text.remove_prefix(begin);
    const std::string_view word = text.substr(0, text.find_first_of(" \n\t"));
    text.remove_prefix(word.size());
    const size_t end = word.find_first_of(",=[;:?!)'\"");
    const std::string_view option = word.substr(0, end);
    if (option.size() > 1 && option[0] == '-' && option.find_first_not_of('-') != option.npos) {
      out.emplace_back(option);
    }
  }
  return out;
}

bool describes_option(std::string_view part, const std::vector<std::string>& asked) {
  constexpr size_t kNames = 6;  // "-x, --extract, --get NAME"
  if (asked.empty() || !begins_option(part)) return false;
  return std::ranges::any_of(options_in(part, kNames), [&](const std::string& option) {
    return std::ranges::find(asked, option) != asked.end();
  });
}

}  // namespace

std::vector<std::string> quotable_parts(std::string_view passage) {
  std::vector<std::string> out;
  std::string part;
  const auto end_part = [&] {
    std::string whole = on_one_line(part);
    part.clear();
    if (whole.empty() || is_capitals(whole)) return;
    if (whole.size() <= kMostQuoted || begins_option(whole)) {
      return out.push_back(shortened(std::move(whole)));
    }
    for (const std::string& sentence : sentences_of(whole)) {
      out.push_back(shortened(on_one_line(sentence)));
    }
  };
  while (!passage.empty()) {
    const size_t end = std::min(passage.find('\n'), passage.size());
    const std::string_view line = trimmed(passage.substr(0, end));
    passage.remove_prefix(std::min(passage.size(), end + 1));
    if (line.empty() || begins_option(line) || is_capitals(line)) end_part();
    part += line;
    part += '\n';
    if (is_capitals(line)) end_part();
  }
  end_part();
  return out;
}

std::optional<Quotation> quote(std::string_view question, std::span<const Passage> passages) {
  const WeighedWords wanted = weighed_words(question, passages);
  if (wanted.total <= 0) return std::nullopt;
  const std::vector<std::string> asked = options_in(question, question.size());
  std::vector<std::string> names;
  for (const std::string& word : words_of(question)) {
    if (!is_function_word(word) && !is_weak_word(word)) names.push_back(word);
  }
  std::optional<Quotation> best;
  for (size_t p = 0; p < passages.size(); ++p) {
    const std::vector<std::string> context =
        stems_of(passages[p].name + " " + passages[p].place + " " + subject_of(passages[p].name) +
                 " " + subject_of(passages[p].document));
    for (std::string& part : quotable_parts(passages[p].text)) {
      const std::vector<std::string> words = stems_of(part);
      double covered = 0;
      double own = 0;
      for (size_t w = 0; w < wanted.stems.size(); ++w) {
        const bool here = has_stem(words, wanted.stems[w]);
        if (here) own += wanted.weights[w];
        covered += here                                 ? wanted.weights[w]
                   : has_stem(context, wanted.stems[w]) ? kContext * wanted.weights[w]
                                                        : 0;
      }
      if (own <= 0) continue;
      const auto news = std::ranges::count_if(words, [&](const std::string& w) {
        return std::ranges::find(wanted.stems, w) == wanted.stems.end();
      });
      double score = covered / wanted.total;
      if (news < 2) score *= 0.5;  // it only repeats the question
      const bool purpose = asked.empty() && names.size() <= 1 && is_purpose_of(part, names);
      if (purpose || describes_option(part, asked)) score += kPurpose;
      // Earlier passages and parts win ties.
      if (!best || score > best->score + 1e-9) best = Quotation{p, std::move(part), score};
    }
  }
  if (best) best->score = std::min(best->score, 1.0);
  return best;
}

bool abstains(std::string_view text) {
  const std::string said = lower(text.substr(0, 400));
  return std::ranges::any_of(
      std::initializer_list<std::string_view>{"do not know", "don't know", "don’t know", "not sure",
                                              "cannot answer", "can't answer", "no information",
                                              "ne sais pas", "ne connais pas"},
      [&](std::string_view phrase) { return said.find(phrase) != std::string::npos; });
}

std::optional<double> support_of(std::string_view text, std::string_view question,
                                 std::span<const Passage> passages) {
  const std::vector<std::string> asked = stems_of(question);
  std::string telling;
  for (const std::string& word : words_of(text)) {
    if (!is_weak_word(word)) telling += word + " ";
  }
  std::vector<std::string> words = stems_of(telling);
  std::erase_if(words, [&](const std::string& w) { return has_stem(asked, w); });
  if (words.empty()) return std::nullopt;
  double best = 0;
  for (const Passage& p : passages) {
    const std::vector<std::string> have = stems_of(p.name + " " + p.place + " " + p.text);
    const auto hits =
        std::ranges::count_if(words, [&](const std::string& w) { return has_stem(have, w); });
    best = std::max(best, static_cast<double>(hits) / static_cast<double>(words.size()));
  }
  return best;
}

}  // namespace chimere::orchestrator
