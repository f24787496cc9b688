// Layout filters: pprint, striptags, wordwrap.
#include <algorithm>
#include <unordered_map>

#include "text/jinja/characters.h"
#include "text/jinja/runtime.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace chimere::text::jinja {
namespace {

/// Python's pprint.pformat(): repr() in lines of 80 columns, dictionaries sorted by key.
class PrettyPrinter {
 public:
  explicit PrettyPrinter(Budget& budget) : budget_(budget) {}

  /// `indent`: the column; `allowance`: what follows in the last line; `level`: 0 outside of lists.
  void write(const Value& value, int64_t indent, int64_t allowance, int level) {
    const MarkedText repr = sorted_repr(value);
    const bool divisible = (value.is_string() && !value.as_text().empty()) || value.is_dict() ||
                           (value.is_list() && !value.as_list().group);
    if (!divisible || count_characters(repr.bytes()) <= kWidth - indent - allowance) {
      out_.append(repr);
    } else if (value.is_string()) {
      write_string(value.as_text(), indent, allowance, level);
    } else if (value.is_dict()) {
      write_dict(value.as_dict(), indent, allowance, level);
    } else {
      write_list(value.as_list(), indent, allowance, level);
    }
  }

  MarkedText take() { return std::move(out_); }

 private:
  static constexpr int64_t kWidth = 80;

  void put(std::string_view bytes) {
    budget_.bytes(static_cast<int64_t>(bytes.size()));
    out_.append(bytes, true);
  }
  void new_line(int64_t indent) { put("\n" + std::string(static_cast<size_t>(indent), ' ')); }

  std::vector<std::pair<Value, Value>> sorted(const Dict& dict) {
    auto entries = dict.entries();
    std::ranges::stable_sort(entries, [&](const auto& a, const auto& b) {
      try {
        return compare(a.first, b.first, budget_) < 0;
      } catch (const TemplateError&) {
        return a.first.type_name() < b.first.type_name();
      }
    });
    return entries;
  }

  /// A copy whose repr() is sorted.
  Value sorted_copy(const Value& value) {
    budget_.step();
    if (value.is_dict()) {
      Dict dict;
      for (const auto& [key, item] : sorted(value.as_dict())) dict.set(key, sorted_copy(item));
      return Value::dict(std::move(dict));
    }
    if (!value.is_list() || value.as_list().group) return value;
    std::vector<Value> items;
    for (const Value& item : value.as_list().items) items.push_back(sorted_copy(item));
    budget_.bytes(static_cast<int64_t>(items.size() * sizeof(Value)));
    return value.as_list().tuple ? Value::tuple(std::move(items)) : Value::list(std::move(items));
  }

  MarkedText sorted_repr(const Value& value) {
    MarkedText repr;
    write_repr(sorted_copy(value), budget_, repr);
    return repr;
  }

  void write_dict(const Dict& dict, int64_t indent, int64_t allowance, int level) {
    put("{");
    bool first = true;
    size_t left = dict.entries().size();
    for (const auto& [key, item] : sorted(dict)) {
      if (!first) put(",");
      if (!std::exchange(first, false)) new_line(indent + 1);
      const MarkedText name = sorted_repr(key);
      out_.append(name);
      put(": ");
      write(item, indent + 3 + count_characters(name.bytes()), --left == 0 ? allowance + 1 : 1,
            level + 1);
    }
    put("}");
  }

  void write_list(const List& list, int64_t indent, int64_t allowance, int level) {
    const std::string_view end = !list.tuple ? "]" : list.items.size() == 1 ? ",)" : ")";
    put(list.tuple ? "(" : "[");
    for (size_t i = 0; i < list.items.size(); ++i) {
      const bool last = i + 1 == list.items.size();
      if (i > 0) {
        put(",");
        new_line(indent + 1);
      }
      write(list.items[i], indent + 1, last ? allowance + static_cast<int64_t>(end.size()) : 1,
            level + 1);
    }
    put(end);
  }

  /// A long string becomes several, split after line ends and white space.
  void write_string(const MarkedText& text, int64_t indent, int64_t allowance, int level) {
    if (level == 0) {
      ++indent;
      ++allowance;
    }
    const int64_t width = kWidth - indent;
    std::vector<MarkedText> chunks;
    const std::vector<MarkedText> lines = split_lines(text, true);
    const auto repr = [&](const MarkedText& s) { return sorted_repr(Value::string(s)); };
    for (size_t i = 0; i < lines.size(); ++i) {
      const int64_t end_width = i + 1 == lines.size() ? width - allowance : width;
      MarkedText line = repr(lines[i]);
      if (count_characters(line.bytes()) <= end_width) {
        chunks.push_back(std::move(line));
        continue;
      }
      MarkedText current;
      const std::vector<MarkedText> words = words_of(lines[i]);
      for (size_t word = 0; word < words.size(); ++word) {
        MarkedText candidate = current;
        candidate.append(words[word]);
        budget_.bytes(static_cast<int64_t>(candidate.size()));
        const int64_t room = word + 1 == words.size() ? end_width : width;
        if (count_characters(repr(candidate).bytes()) <= room) {
          current = std::move(candidate);
        } else {
          if (!current.empty()) chunks.push_back(repr(current));
          current = words[word];
        }
      }
      if (!current.empty()) chunks.push_back(repr(current));
    }
    const bool parentheses = level == 0 && chunks.size() > 1;
    if (parentheses) put("(");
    for (size_t i = 0; i < chunks.size(); ++i) {
      if (i > 0) new_line(indent);
      out_.append(chunks[i]);
    }
    if (parentheses) put(")");
  }

  /// Words with the white space after them.
  static std::vector<MarkedText> words_of(const MarkedText& text) {
    std::vector<MarkedText> words;
    size_t begin = 0;
    bool after_space = false;
    for (size_t at = 0; at < text.size();) {
      const Utf8Char c = read_utf8(text.bytes(), at);
      const bool space = is_space(c.code);
      if (after_space && !space) {
        words.push_back(text.substr(begin, at));
        begin = at;
      }
      after_space = space;
      at += c.length;
    }
    if (begin < text.size()) words.push_back(text.substr(begin, text.size()));
    return words;
  }

  Budget& budget_;
  MarkedText out_;
};

Value filter_pprint(Runtime& runtime, const Value& input, const Arguments&) {
  PrettyPrinter printer(runtime.budget);
  printer.write(input, 0, 0, 0);
  return Value::string(printer.take());
}

/// Without what stands between `open` and `close`.
MarkedText without(const MarkedText& text, std::string_view open, std::string_view close) {
  const std::string& bytes = text.bytes();
  MarkedText out;
  size_t done = 0;
  while (true) {
    const size_t begin = bytes.find(open, done);
    const size_t end = begin == std::string::npos ? begin : bytes.find(close, begin + open.size());
    if (end == std::string::npos) break;
    out.append(text, done, begin);
    done = end + close.size();
  }
  out.append(text, done, text.size());
  return out;
}

/// The character of an HTML entity "&name;" or "&#number;"; `name` is what stands between. Empty if
/// it is not known.
std::string entity_text(const std::string& name) {
  static const std::unordered_map<std::string_view, std::string_view> known = {
      {"amp", "&"}, {"lt", "<"}, {"gt", ">"},    {"quot", "\""},     {"AMP", "&"},
      {"LT", "<"},  {"GT", ">"}, {"QUOT", "\""}, {"nbsp", "\u00A0"}, {"apos", "'"}};
  const auto it = known.find(name);
  if (it != known.end()) return std::string(it->second);
  const bool hexadecimal = name.size() > 2 && (name[1] == 'x' || name[1] == 'X');
  const size_t digits = hexadecimal ? 2 : 1;
  const bool number = name.size() > digits && name.size() < 10 && name[0] == '#' &&
                      name.find_first_not_of(hexadecimal ? "0123456789abcdefABCDEF" : "0123456789",
                                             digits) == std::string::npos;
  if (!number) return {};
  const unsigned long code = std::stoul(name.substr(digits), nullptr, hexadecimal ? 16 : 10);
  const bool plain = (code >= 0x20 && code < 0x7F) || (code >= 0xA0 && code < 0xD800) ||
                     (code >= 0xE000 && code < 0xFDD0) || (code >= 0x10000 && code < 0x1FFFE);
  std::string out;
  if (plain) append_utf8(out, static_cast<uint32_t>(code));
  return out;
}

Value filter_striptags(Runtime& runtime, const Value& input, const Arguments&) {
  const MarkedText text = to_text(input, runtime.budget);
  runtime.budget.bytes(3 * static_cast<int64_t>(text.size()));
  const MarkedText words = without(without(text, "<!--", "-->"), "<", ">");
  Arguments none;
  const Value parts = call_string_method(runtime, Value::string(words), "split", none);
  none.positional = {parts};
  const Value joined = call_string_method(runtime, Value::string(" ", true), "join", none);
  const MarkedText& s = joined.as_text();
  MarkedText out;
  for (size_t at = 0; at < s.size();) {
    const std::string_view near = std::string_view(s.bytes()).substr(at, 12);
    const size_t length = near[0] == '&' ? near.find(';') : std::string_view::npos;
    const bool closed = length != std::string_view::npos;
    const std::string character =
        closed ? entity_text(std::string(near.substr(1, length - 1))) : "";
    if (character.empty()) {
      out.append(s, at, at + 1);
      ++at;
    } else {
      out.append(character, s.trusted_at(at));
      at += length + 1;
    }
  }
  return Value::string(std::move(out));
}

/// Lines of at most `width` characters, as Python's textwrap makes them.
class Wrapper {
 public:
  Wrapper(const MarkedText& text, int64_t width, bool break_long_words, bool break_on_hyphens)
      : text_(text),
        offsets_(character_offsets(text.bytes())),
        size_(static_cast<int64_t>(offsets_.size()) - 1),
        width_(width),
        break_long_words_(break_long_words),
        break_on_hyphens_(break_on_hyphens) {
    for (int64_t i = 0; i < size_; ++i) codes_.push_back(read_utf8(text.bytes(), offsets_[i]).code);
  }

  std::vector<MarkedText> lines() {
    std::vector<MarkedText> out;
    int64_t at = 0;  // of a chunk, or inside a long one that was broken
    while (at < size_) {
      int64_t end = chunk_end(at);
      if (!out.empty() && all_space(at, end)) at = end;
      if (at == size_) break;
      const int64_t begin = at;
      int64_t last = begin;  // where the last chunk of the line begins
      while (at < size_ && (end = chunk_end(at)) - begin <= width_) {
        last = at;
        at = end;
      }
      if (at < size_ && end - at > width_) {
        if (break_long_words_) {
          last = at;
          at = break_at(at, end, width_ - (at - begin));
          chunk_end_ = end;
        } else if (at == begin) {
          at = end;
        }
      }
      const int64_t stop = last > begin && all_space(last, at) ? last : at;
      if (begin == last && all_space(begin, at)) continue;
      out.push_back(text_.substr(offsets_[begin], offsets_[stop]));
    }
    return out;
  }

 private:
  uint32_t code(int64_t i) const { return i >= 0 && i < size_ ? codes_[i] : ' '; }
  bool is_blank(int64_t i) const { return code(i) == ' ' || (code(i) >= 9 && code(i) <= 13); }
  bool is_word(int64_t i) const {
    return is_letter(code(i)) || is_number(code(i)) || code(i) == '_';
  }
  bool is_word_or_mark(int64_t i) const {
    const uint32_t c = code(i);
    return is_word(i) ||
           (c > 0 && c < 0x80 &&
            std::string_view("!\"'&.,?").find(static_cast<char>(c)) != std::string_view::npos);
  }
  bool is_name(int64_t i) const { return is_word(i) && category(code(i)) != Category::kNd; }
  bool all_space(int64_t begin, int64_t end) const {
    return std::all_of(codes_.begin() + begin, codes_.begin() + end, is_space);
  }
  /// The end of a dash of two hyphens or more before a word; `at` if there is none.
  int64_t dash_end(int64_t at) const {
    int64_t end = at;
    while (code(end) == '-') ++end;
    return end - at >= 2 && is_word(end) ? end : at;
  }
  /// Whether a word may be split after the hyphen at `at`.
  bool cuts_at(int64_t at) const {
    const bool after = (is_name(at - 2) && is_name(at - 1)) ||
                       (is_name(at - 3) && code(at - 2) == '-' && is_name(at - 1));
    const int64_t next = code(at + 2) == '-' ? at + 3 : at + 2;
    return code(at) == '-' && after && is_name(at + 1) && is_name(next);
  }

  /// The end of the chunk that begins at `at`: white space, a word or a part of one.
  int64_t chunk_end(int64_t at) {
    if (at < chunk_end_) return chunk_end_;
    int64_t end = at + 1;
    if (is_blank(at)) {
      while (end < size_ && is_blank(end)) ++end;
    } else if (break_on_hyphens_ && is_word_or_mark(at - 1) && at > 0 && dash_end(at) > at) {
      end = dash_end(at);
    } else {
      for (; end < size_ && !is_blank(end); ++end) {
        if (!break_on_hyphens_) continue;
        if (cuts_at(end)) {
          ++end;
          break;
        }
        if (is_word_or_mark(end - 1) && dash_end(end) > end) break;
      }
    }
    chunk_end_ = end;
    return end;
  }

  /// Where a chunk that is too long is broken when `room` characters are left.
  int64_t break_at(int64_t begin, int64_t end, int64_t room) const {
    const int64_t stop = std::min(begin + room, end);
    if (break_on_hyphens_) {
      for (int64_t at = stop - 1; at > begin; --at) {
        if (codes_[at] != '-') continue;
        const bool only_hyphens = std::all_of(codes_.begin() + begin, codes_.begin() + at,
                                              [](uint32_t c) { return c == '-'; });
        return only_hyphens ? stop : at + 1;
      }
    }
    return stop;
  }

  const MarkedText& text_;
  std::vector<size_t> offsets_;
  int64_t size_;
  int64_t width_;
  bool break_long_words_;
  bool break_on_hyphens_;
  std::vector<uint32_t> codes_;
  int64_t chunk_end_ = 0;
};

Value filter_wordwrap(Runtime& runtime, const Value& input, const Arguments& a) {
  if (!input.is_string()) fail("'wordwrap' needs a string, not a " + input.type_name() + ".");
  const Value wrap = a.get(2, "wrapstring", Value::none());
  const MarkedText end = wrap.is_none() ? MarkedText("\n", true) : to_text(wrap, runtime.budget);
  if (!wrap.is_none() && !wrap.is_string()) fail("'wordwrap' needs a string between lines.");
  MarkedText out;
  bool first = true;
  for (const MarkedText& paragraph : split_lines(input.as_text(), false)) {
    const int64_t width = a.integer(0, "width", 79);
    if (width <= 0) fail("'wordwrap' needs a width of at least one.");
    runtime.budget.bytes(16 * static_cast<int64_t>(paragraph.size()));
    std::vector<MarkedText> lines = Wrapper(paragraph, width, a.truth(1, "break_long_words", true),
                                            a.truth(3, "break_on_hyphens", true))
                                        .lines();
    if (lines.empty()) lines.emplace_back();
    for (const MarkedText& line : lines) {
      runtime.budget.bytes(static_cast<int64_t>(line.size() + end.size()));
      if (!std::exchange(first, false)) out.append(end);
      out.append(line);
    }
  }
  return Value::string(std::move(out));
}

}  // namespace

const Filter* find_layout_filter(std::string_view name) {
  static const std::unordered_map<std::string_view, Filter> table = {
      {"pprint", {filter_pprint, ""}},
      {"striptags", {filter_striptags, ""}},
      {"wordwrap", {filter_wordwrap, "[width] [break_long_words] [wrapstring] [break_on_hyphens]"}},
  };
  const auto it = table.find(name);
  return it == table.end() ? nullptr : &it->second;
}

}  // namespace chimere::text::jinja
