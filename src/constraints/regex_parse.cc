// From the syntax tree of a pattern to its language.
//
// Assertions (^ $ \b and look-around) restrict the text before or after a position. Along one
// sequence of parts, what stands before the position is a language of its own (`before`), and so is
// what stands after it: an assertion is an intersection with one of them, its negation an
// intersection with the complement. A group that contains assertions is written out once for each
// of its alternatives.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "constraints/regex.h"
#include "constraints/regex_impl.h"
#include "constraints/regex_syntax.h"
#include "text/utf8.h"

namespace chimere::constraints {
namespace {

using Kind = PatternNode::Kind;

/// Sequences that groups with assertions may be written out to.
constexpr int kMaxSequences = 500;
/// Repeats of groups with assertions are written out up to this count.
constexpr uint32_t kMaxCopies = 4;

class PatternCompiler {
 public:
  PatternCompiler(RegexArena& arena, const Pattern& pattern) : arena_(arena), pattern_(pattern) {
    constexpr CodeRange kWord[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    word_ = CodePointSet(kWord);
    other_ = word_.complement();
  }

  Result<Regex> compile(bool search) {
    CHIMERE_TRY(const Regex language, compile_root(search));
    if (!arena_.exhausted()) return language;
    return unsupported("the pattern is too large from character " +
                       std::to_string(too_large_at_.value_or(0)) + " on");
  }

 private:
  Result<Regex> compile_root(bool search) {
    const PatternNode& root = pattern_.nodes[pattern_.root];
    const Regex any = arena_.any();
    if (!root.asserts) {
      const Regex inner = plain(pattern_.root);
      return search ? arena_.concat(any, arena_.concat(inner, any)) : inner;
    }
    std::vector<Part> parts;
    if (search) parts.push_back({.language = any});
    parts.push_back({.node = pattern_.root, .is_node = true});
    if (search) parts.push_back({.language = any});
    return sequence(Context(), std::move(parts));
  }

  /// A part of a sequence: a node or a finished language.
  struct Part {
    Regex language = 0;
    uint32_t node = 0;
    bool is_node = false;
  };
  struct Context {
    bool hidden_left = false;   ///< text that is not seen stands before the sequence
    bool hidden_right = false;  ///< ... after it
    bool never_at_end = false;  ///< the text does not end inside the sequence
  };

  Error refused(const PatternNode& node, const std::string& what) const {
    return unsupported(what + " at character " + std::to_string(node.offset) +
                       " of the pattern is not supported");
  }

  /// The language of a node without assertions.
  Regex plain(uint32_t id) {
    const Regex language = plain_node(pattern_.nodes[id]);
    if (!too_large_at_ && arena_.exhausted()) too_large_at_ = pattern_.nodes[id].offset;
    return language;
  }

  Regex plain_node(const PatternNode& node) {
    switch (node.kind) {
      case Kind::kSet:
        return arena_.characters(node.set);
      case Kind::kConcat: {
        std::vector<Regex> parts;
        for (size_t i = 0; i < node.children.size();) {
          std::string text;
          size_t end = i;
          while (end < node.children.size() && append_single(node.children[end], text)) ++end;
          if (end > i + 1) {
            parts.push_back(arena_.literal(text));
            i = end;
          } else {
            parts.push_back(plain(node.children[i++]));
          }
        }
        return arena_.concat(parts);
      }
      case Kind::kAlternate: {
        std::vector<std::string> words;
        std::vector<Regex> parts;
        for (const uint32_t child : node.children) {
          std::string text;
          if (append_literal(child, text)) {
            words.push_back(std::move(text));
          } else {
            parts.push_back(plain(child));
          }
        }
        const bool single_characters = std::ranges::all_of(words, [](const std::string& word) {
          return !word.empty() && text::read_utf8(word, 0).length == static_cast<int>(word.size());
        });
        if (single_characters) {
          for (const std::string& word : words) {
            parts.push_back(arena_.characters(CodePointSet::of(text::read_utf8(word, 0).code)));
          }
        } else {
          parts.push_back(arena_.words(std::move(words)));
        }
        return arena_.unite(parts);
      }
      default:
        return arena_.repeat(plain(node.children.front()), node.min, node.max);
    }
  }

  /// Appends the character that a node stands for, if it is exactly one.
  bool append_single(uint32_t id, std::string& out) const {
    const PatternNode& node = pattern_.nodes[id];
    if (node.kind != Kind::kSet || node.set.ranges().size() != 1) return false;
    const CodeRange range = node.set.ranges().front();
    if (range.first != range.last) return false;
    text::append_utf8(out, range.first);
    return true;
  }

  bool append_literal(uint32_t id, std::string& out) const {
    const PatternNode& node = pattern_.nodes[id];
    if (node.kind != Kind::kConcat) return append_single(id, out);
    return std::ranges::all_of(node.children,
                               [&](uint32_t child) { return append_single(child, out); });
  }

  /// The language of parts that follow one another in a text that begins with them.
  Result<Regex> sequence(Context context, std::vector<Part> parts) {
    if (++sequences_ > kMaxSequences) {
      const auto first = std::ranges::find(parts, true, &Part::is_node);
      const size_t offset = first == parts.end() ? 0 : pattern_.nodes[first->node].offset;
      return unsupported("too many groups with assertions in the pattern, at character " +
                         std::to_string(offset));
    }
    std::ranges::reverse(parts);  // the next part is at the back
    std::vector<Regex> read;
    while (!parts.empty()) {
      const Part part = parts.back();
      parts.pop_back();
      if (!part.is_node) {
        read.push_back(part.language);
        continue;
      }
      const PatternNode& node = pattern_.nodes[part.node];
      if (!node.asserts) {
        read.push_back(plain(part.node));
        continue;
      }
      if (node.kind == Kind::kConcat) {
        for (auto it = node.children.rbegin(); it != node.children.rend(); ++it) {
          parts.push_back({.node = *it, .is_node = true});
        }
        continue;
      }
      const Regex before = arena_.concat(read);
      if (before == arena_.none()) return before;
      read.assign(1, before);
      switch (node.kind) {
        case Kind::kAlternate: {
          std::vector<std::vector<Part>> choices;
          for (const uint32_t child : node.children) {
            choices.push_back({{.node = child, .is_node = true}});
          }
          return alternatives(context, before, choices, parts);
        }
        case Kind::kRepeat:
          return repeated(context, before, node, parts);
        case Kind::kTextStart: {
          if (context.hidden_left && arena_.accepts(before)) return refused(node, "^");
          read.assign(1, arena_.intersect(before, arena_.epsilon()));
          break;
        }
        case Kind::kLook:
          if (node.behind) {
            CHIMERE_TRY(read.front(), look_behind(context, before, node));
            break;
          }
          return look_ahead(context, before, node, parts);
        case Kind::kTextEnd: {
          if (context.never_at_end) return arena_.none();
          if (context.hidden_right) return refused(node, "$ inside a look-behind");
          CHIMERE_TRY(const Regex after, rest(context, before, parts));
          return arena_.concat(before, arena_.intersect(after, arena_.epsilon()));
        }
        default:
          return boundary(context, before, node, parts);
      }
    }
    return arena_.concat(read);
  }

  /// What follows `before`.
  Result<Regex> rest(Context context, Regex before, const std::vector<Part>& reversed) {
    context.hidden_left = context.hidden_left || before != arena_.epsilon();
    return sequence(context, std::vector<Part>(reversed.rbegin(), reversed.rend()));
  }

  Result<Regex> alternatives(Context context, Regex before,
                             const std::vector<std::vector<Part>>& choices,
                             const std::vector<Part>& reversed) {
    std::vector<Regex> out;
    for (const std::vector<Part>& choice : choices) {
      std::vector<Part> parts = {{.language = before}};
      parts.insert(parts.end(), choice.begin(), choice.end());
      parts.insert(parts.end(), reversed.rbegin(), reversed.rend());
      CHIMERE_TRY(const Regex language, sequence(context, std::move(parts)));
      out.push_back(language);
    }
    return arena_.unite(out);
  }

  Result<Regex> repeated(Context context, Regex before, const PatternNode& node,
                         const std::vector<Part>& reversed) {
    const Part inner = {.node = node.children.front(), .is_node = true};
    if (pattern_.nodes[inner.node].kind == Kind::kLook) {
      // Looking once is looking many times.
      std::vector<std::vector<Part>> choices = {{}};
      if (node.min > 0) choices.front().push_back(inner);
      return alternatives(context, before, choices, reversed);
    }
    if (node.max > kMaxCopies && !context.hidden_right && only_ends(inner.node)) {
      return repeated_up_to_end(context, before, node, reversed);
    }
    if (node.max > kMaxCopies) return repeated_character(context, before, node, reversed);
    std::vector<std::vector<Part>> choices;
    for (uint32_t count = node.min; count <= node.max; ++count) {
      choices.emplace_back(count, inner);
    }
    return alternatives(context, before, choices, reversed);
  }

  /// Whether $ is the only assertion inside a node.
  bool only_ends(uint32_t id) const {
    const PatternNode& node = pattern_.nodes[id];
    if (!node.asserts || node.kind == Kind::kTextEnd) return true;
    return (node.kind == Kind::kConcat || node.kind == Kind::kAlternate ||
            node.kind == Kind::kRepeat) &&
           std::ranges::all_of(node.children, [&](uint32_t child) { return only_ends(child); });
  }

  /// A repeat whose copies may ask for the end of the text: (item(,|$))*
  Result<Regex> repeated_up_to_end(Context context, Regex before, const PatternNode& node,
                                   const std::vector<Part>& reversed) {
    const Part inner = {.node = node.children.front(), .is_node = true};
    // Copies inside the text, and the last copy if it ends with the text. Copies after that one
    // are empty; where those are possible, they make up for any least count.
    CHIMERE_TRY(const Regex inside, sequence({true, false, true}, {inner}));
    CHIMERE_TRY(const Regex at_end, sequence({true, false, false}, {inner}));
    // The copies stand before what follows.
    Context behind = context;
    behind.hidden_left = true;
    CHIMERE_TRY(const Regex after, rest(behind, before, reversed));
    Regex out = arena_.concat(arena_.repeat(inside, node.min, node.max), after);
    if (arena_.accepts(after) && !context.never_at_end) {
      const uint32_t least = arena_.accepts(at_end) || node.min == 0 ? 0 : node.min - 1;
      const uint32_t most =
          node.max == RegexArena::kUnbounded ? RegexArena::kUnbounded : node.max - 1;
      out = arena_.unite(out, arena_.concat(arena_.repeat(inside, least, most), at_end));
    }
    return arena_.concat(before, out);
  }

  /// Many characters at each of which the text that follows is looked at, up to the end of the
  /// text: ((?!stop).)*$
  Result<Regex> repeated_character(Context context, Regex before, const PatternNode& node,
                                   const std::vector<Part>& reversed) {
    const Error refusal = refused(node, "an assertion inside a repeat");
    std::vector<uint32_t> parts = {node.children.front()};
    while (pattern_.nodes[parts.front()].kind == Kind::kConcat) {
      const auto& children = pattern_.nodes[parts.front()].children;
      if (children.empty()) return refusal;
      parts.erase(parts.begin());
      parts.insert(parts.begin(), children.begin(), children.end());
    }
    const uint32_t character = parts.back();
    if (pattern_.nodes[character].kind != Kind::kSet || context.hidden_right) return refusal;
    parts.pop_back();
    CHIMERE_TRY(const Regex after, rest({true, false}, before, reversed));
    if (after != arena_.epsilon()) return refusal;
    std::vector<Regex> allowed;
    for (const uint32_t part : parts) {
      const PatternNode& look = pattern_.nodes[part];
      if (look.kind != Kind::kLook || look.behind) return refusal;
      CHIMERE_TRY(const Regex seen, looked_at({true, false}, look));
      allowed.push_back(look.negative ? arena_.complement(seen) : seen);
    }
    const Regex wrong = arena_.intersect(arena_.complement(arena_.intersect(allowed)),
                                         arena_.length(1, RegexArena::kUnbounded));
    const Regex characters = arena_.repeat(plain(character), node.min, node.max);
    const Regex right = arena_.complement(arena_.concat(arena_.any(), wrong));
    return arena_.concat(before, arena_.intersect(characters, right));
  }

  /// The texts that begin as a look-ahead wants.
  Result<Regex> looked_at(Context context, const PatternNode& look) {
    return sequence(context,
                    {{.node = look.children.front(), .is_node = true}, {.language = arena_.any()}});
  }

  Result<Regex> look_ahead(Context context, Regex before, const PatternNode& node,
                           const std::vector<Part>& reversed) {
    if (context.hidden_right) return refused(node, "look-ahead inside a look-behind");
    Context inner = context;
    inner.hidden_left = inner.hidden_left || before != arena_.epsilon();
    CHIMERE_TRY(const Regex seen, looked_at(inner, node));
    CHIMERE_TRY(const Regex after, rest(context, before, reversed));
    const Regex wanted = node.negative ? arena_.complement(seen) : seen;
    return arena_.concat(before, arena_.intersect(after, wanted));
  }

  /// `before` restricted to texts that end as a look-behind wants.
  Result<Regex> look_behind(Context context, Regex before, const PatternNode& node) {
    CHIMERE_TRY(const Regex seen,
                sequence({false, true}, {{.language = arena_.any()},
                                         {.node = node.children.front(), .is_node = true}}));
    if (context.hidden_left) {
      // Exact only if the look-behind never reaches beyond what is seen.
      const PatternNode& inner = pattern_.nodes[node.children.front()];
      if (inner.asserts) return refused(node, "look-behind");
      const auto lengths = arena_.lengths(plain(node.children.front()));
      if (!lengths || (!lengths->empty() && lengths->max() > arena_.shortest(before))) {
        return refused(node, "look-behind");
      }
    }
    return arena_.intersect(before, node.negative ? arena_.complement(seen) : seen);
  }

  Result<Regex> boundary(Context context, Regex before, const PatternNode& node,
                         const std::vector<Part>& reversed) {
    if (context.hidden_right || (context.hidden_left && arena_.accepts(before))) {
      return refused(node, node.negative ? "\\B" : "\\b");
    }
    // The ends of the text count as characters that are no word characters.
    const auto empty_of = [&](Regex language) {
      return arena_.accepts(language) ? arena_.epsilon() : arena_.none();
    };
    const Regex left_word = arena_.end_with(before, word_);
    const Regex left_other = arena_.unite(empty_of(before), arena_.end_with(before, other_));
    CHIMERE_TRY(const Regex after, rest(context, before, reversed));
    const Regex right_word = arena_.begin_with(after, word_);
    const Regex right_other = arena_.unite(empty_of(after), arena_.begin_with(after, other_));
    if (node.negative) {
      return arena_.unite(arena_.concat(left_word, right_word),
                          arena_.concat(left_other, right_other));
    }
    return arena_.unite(arena_.concat(left_word, right_other),
                        arena_.concat(left_other, right_word));
  }

  RegexArena& arena_;
  const Pattern& pattern_;
  CodePointSet word_;
  CodePointSet other_;
  int sequences_ = 0;
  std::optional<size_t> too_large_at_;  ///< in characters
};

}  // namespace

Result<Regex> RegexArena::parse(std::string_view pattern, RegexSyntax syntax) {
  if (syntax == RegexSyntax::kGbnfClass) {
    CHIMERE_TRY(const auto set, read_gbnf_class(pattern));
    return characters(set);
  }
  const bool search = syntax == RegexSyntax::kEcma262Search;
  std::string key(1, search ? 's' : 'f');
  key += pattern;
  if (const auto known = impl_->parsed.find(key); known != impl_->parsed.end()) {
    return known->second;
  }
  CHIMERE_TRY(const Pattern tree, read_pattern(pattern));
  CHIMERE_TRY(const Regex language, PatternCompiler(*this, tree).compile(search));
  impl_->parsed.emplace(std::move(key), language);
  return language;
}

}  // namespace chimere::constraints
