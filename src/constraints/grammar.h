// A context-free grammar as plain data: what GBNF is parsed into and what tool calls are described
// by.
#ifndef CHIMERE_CONSTRAINTS_GRAMMAR_H_
#define CHIMERE_CONSTRAINTS_GRAMMAR_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "constraints/machine.h"

namespace chimere::constraints {

/// Expressions over bytes, rules and languages of other machines. Built bottom-up: every function
/// returns the index of a new node. Rules may be recursive in any way.
class Grammar {
 public:
  using Id = int32_t;
  static constexpr int32_t kUnbounded = -1;

  enum class Kind : uint8_t {
    kLiteral,     ///< text
    kBytes,       ///< one byte of a set
    kCharacters,  ///< one character of ranges of code points
    kToken,       ///< a control token
    kSequence,
    kChoice,
    kRepeat,
    kRule,        ///< a reference
    kRegex,       ///< text: a pattern, matched as a whole
    kJsonSchema,  ///< text: a schema
    kSchemaText,  ///< the same, of a string that is written as it is
    kTextUntil,   ///< text up to and with the first occurrence of `text`
    kText,        ///< text in which the texts of `text`, each with a zero byte behind, do not occur
  };
  struct Range {
    char32_t first = 0;
    char32_t last = 0;
    bool operator==(const Range&) const = default;
  };
  /// Where a schema stands, for errors.
  struct SchemaPlace {
    std::string owner;    ///< "of the tool 'f'"; may be empty
    std::string pointer;  ///< of what is the root of the schema's text, or its `nested`
    std::string nested;   ///< pointer within the text
  };
  struct Node {
    Kind kind = Kind::kSequence;
    std::string text;
    std::string end;  ///< kSchemaText: does not occur in the text
    SchemaPlace place;
    ByteSet bytes;
    std::vector<Range> ranges;
    std::vector<Id> parts;  ///< of sequences, choices and repeats (one)
    int32_t value = 0;      ///< kToken: the id; kRule: the rule
    int32_t min = 0;
    int32_t max = 0;  ///< kUnbounded: none
  };
  struct Rule {
    std::string name;
    Id body = -1;     ///< -1: not defined
    Id last = -1;     ///< the last node of its definition, which is the body unless it was replaced
    size_t line = 0;  ///< of its definition in the text that it was read from; 0: none
  };

  Id literal(std::string_view text);
  Id bytes(const ByteSet& set);
  /// One UTF-8 character of (with `negated`: outside of) the ranges.
  Id characters(std::vector<Range> ranges, bool negated = false);
  Id token(int32_t token);
  Id sequence(std::vector<Id> parts);
  Id choice(std::vector<Id> alternatives);
  /// Large bounds cost nothing. `max`: kUnbounded for none.
  Id repeat(Id part, int32_t min, int32_t max);
  Id optional(Id part) { return repeat(part, 0, 1); }
  /// A text that matches the ECMA-262 pattern as a whole.
  Id regex(std::string_view pattern);
  /// A JSON document that is valid under the schema.
  Id json_schema(std::string_view schema, SchemaPlace place = {});
  /// A string that is valid under the schema, written without quotes and escapes, in which `end`
  /// does not occur. `or_null`: "null" stands for null, and is no string.
  Id schema_text(std::string_view schema, std::string_view end, bool or_null,
                 SchemaPlace place = {});
  /// Any text up to and including the first `end` (raw parameters up to a closing tag).
  Id text_until(std::string_view end);
  /// Any text in which none of these occurs; they have no zero byte.
  Id text_without(const std::vector<std::string>& texts);

  /// A rule to be defined later; refer to it with reference().
  int32_t add_rule(std::string name);
  void define(int32_t rule, Id body, size_t line = 0) {
    rules_[rule].body = rules_[rule].last = body;
    rules_[rule].line = line;
  }
  /// Gives a rule that is defined another body of the same language, which may refer to its parts.
  void replace_body(int32_t rule, Id body) { rules_[rule].body = body; }
  Id reference(int32_t rule);
  int32_t find_rule(std::string_view name) const;  ///< -1: none
  /// "Grammar, line 3, rule x: ", the rule whose definition has the node; "" if it has no line.
  std::string place_of(Id node) const;

  void set_root(Id root) { root_ = root; }
  Id root() const { return root_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Rule>& rules() const { return rules_; }

  /// A text that is equal for equal grammars only.
  std::string key() const;

 private:
  Id add(Node node);

  std::vector<Node> nodes_;
  std::vector<Rule> rules_;
  Id root_ = -1;
};

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_GRAMMAR_H_
