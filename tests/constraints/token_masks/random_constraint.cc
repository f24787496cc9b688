#include "random_constraint.h"

#include <utility>
#include <vector>

namespace chimere::constraints {
namespace {

using Random = std::mt19937;

template <typename T>
const T& one_of(Random& random, const std::vector<T>& of) {
  return of[random() % of.size()];
}

bool once_in(Random& random, unsigned n) { return random() % n == 0; }

const std::vector<std::string> kLiterals = {"a", "b",  "ab", "ba", "aab", "é",    "\n", " ",
                                            "1", "1.", "-",  ",",  "\"",  "</t>", "{}", "日"};
const std::vector<std::string> kPatterns = {
    "[ab]+",        "a*",        "[a-z]{1,3}", "(ab|a)+",  "[0-9]+",      "[^\"]*",
    "(a|é)*b?",     "[ab]{2,5}", "\\s*",       "a?b?a?",   "(aa|aab|b)+", "-?[0-9]+(\\.[0-9]+)?",
    "[^a]{0,2}",    ".{1,4}",    "(a{2})*",    "( |\\n)?", "(1|11)+",     "é+日*",
    "(a|ab)(b|ba)", "[\\s\\S]*", "a+b+|b+a+",  "(,[ab]+)*"};

std::string random_pattern(Random& random, int depth) {
  const std::string atom = once_in(random, 2) || depth == 0 ? one_of(random, kPatterns)
                                                            : random_pattern(random, depth - 1);
  if (once_in(random, 2)) return atom;
  const std::vector<std::string> counts = {"*", "+", "?", "{2}", "{1,3}", "{0,2}"};
  switch (random() % 3) {
    case 0:
      return "(" + atom + ")" + one_of(random, counts);
    case 1:
      return "(" + atom + "|" + random_pattern(random, 0) + ")";
    default:
      return "(" + atom + ")(" + random_pattern(random, 0) + ")";
  }
}

std::string random_schema(Random& random, int depth) {
  const auto number = [&](unsigned n) { return std::to_string(random() % n); };
  const auto inner = [&] { return random_schema(random, depth - 1); };
  switch (random() % (depth > 0 ? 10 : 7)) {
    case 0:
      return R"({"type":"string","maxLength":)" + number(6) + "}";
    case 1:
      return R"({"type":"string","pattern":"^(a|b|é)+[0-9]{0,2}$"})";
    case 2:
      return R"({"type":"integer","minimum":-)" + number(300) + R"(,"maximum":)" + number(3000) +
             "}";
    case 3:
      return R"({"type":["number","null"]})";
    case 4:
      return R"({"enum":["a","ab","é\"b",1,12,1.5,null,[],{"a":1}]})";
    case 5:
      return R"({"const":"ab</t>\n"})";
    case 6:
      return once_in(random, 3) ? "true" : R"({"type":"string"})";
    case 7:
      return R"({"type":"array","items":)" + inner() + R"(,"maxItems":)" + number(4) +
             (once_in(random, 2) ? R"(,"uniqueItems":true})" : "}");
    case 8:
      return R"({"anyOf":[)" + inner() + "," + inner() + "]}";
    default: {
      std::string schema = R"({"type":"object","properties":{"a":)" + inner() + R"(,"ab":)" +
                           inner() + R"(,"é":)" + inner() + "}";
      if (once_in(random, 2)) schema += R"(,"required":["ab"])";
      if (once_in(random, 2)) schema += R"(,"additionalProperties":)" + inner();
      return schema + "}";
    }
  }
}

/// A grammar and what it looks like in GBNF.
class RandomGrammar {
 public:
  explicit RandomGrammar(Random& random) : random_(random) {
    rules_ = 1 + static_cast<int>(random() % 4);
    for (int rule = 0; rule < rules_; ++rule) grammar.add_rule("r" + std::to_string(rule));
    for (int rule = 0; rule < rules_; ++rule) {
      text += "r" + std::to_string(rule) + " ::= ";
      std::vector<Grammar::Id> alternatives;
      for (unsigned n = 1 + random() % 3; n > 0; --n) {
        if (!alternatives.empty()) text += " | ";
        alternatives.push_back(alternative(rule));
      }
      text += "\n";
      grammar.define(rule,
                     alternatives.size() == 1 ? alternatives[0] : grammar.choice(alternatives));
    }
    grammar.set_root(grammar.reference(0));
  }

  Grammar grammar;
  std::string text;

 private:
  Grammar::Id alternative(int rule) {
    // An alternative without references, so that most rules have texts.
    const bool refers = !once_in(random_, 3);
    std::vector<Grammar::Id> parts;
    for (unsigned n = random_() % 4 + (once_in(random_, 8) ? 0 : 1); n > 0; --n) {
      if (!parts.empty()) text += " ";
      parts.push_back(repeated(rule, refers));
    }
    if (parts.empty()) text += "\"\"";
    return grammar.sequence(parts);
  }
  Grammar::Id repeated(int rule, bool refers) {
    const Grammar::Id id = part(rule, refers);
    switch (random_() % 6) {
      case 0:
        text += "*";
        return grammar.repeat(id, 0, Grammar::kUnbounded);
      case 1:
        text += "?";
        return grammar.optional(id);
      case 2: {
        const auto min = static_cast<int32_t>(random_() % 3);
        const auto max = min + static_cast<int32_t>(random_() % 3);
        text += "{" + std::to_string(min) + "," + std::to_string(max) + "}";
        return grammar.repeat(id, min, max);
      }
      default:
        return id;
    }
  }
  Grammar::Id part(int rule, bool refers) {
    switch (random_() % (refers ? 10 : 7)) {
      case 0:
      case 1: {
        const std::string& literal = one_of(random_, kLiterals);
        text += "\"" + literal + "\"";
        return grammar.literal(literal);
      }
      case 2: {
        const bool negated = once_in(random_, 4);
        text += negated ? "[^ab]" : "[a-b]";
        return grammar.characters({{'a', 'b'}}, negated);
      }
      case 3:
      case 4: {
        const std::string& pattern = one_of(random_, kPatterns);
        text += "/" + pattern + "/";
        return grammar.regex(pattern);
      }
      case 5: {
        const std::string schema = random_schema(random_, static_cast<int>(random_() % 2));
        text += "schema(" + schema + ")";
        return grammar.json_schema(schema);
      }
      case 6: {
        const std::string& end = one_of(random_, kLiterals);
        text += "until(" + end + ")";
        return grammar.text_until(end);
      }
      case 7:
        text += "r" + std::to_string(rule);
        return grammar.reference(rule);
      default: {
        const auto other = static_cast<int32_t>(random_() % static_cast<unsigned>(rules_));
        text += "r" + std::to_string(other);
        return grammar.reference(other);
      }
    }
  }

  Random& random_;
  int rules_ = 0;
};

}  // namespace

RandomConstraint random_constraint(Random& random) {
  RandomConstraint made;
  switch (random() % 8) {
    case 0: {
      made.text = random_pattern(random, 2);
      made.spec.content = RegexSpec{made.text};
      break;
    }
    case 1: {
      made.text = random_schema(random, 2);
      made.spec.content = JsonSchemaSpec{made.text};
      made.escapes = true;
      break;
    }
    case 2: {
      RandomGrammar body(random);
      TriggeredSpec spec;
      TriggeredSpec::Trigger& trigger = spec.triggers.emplace_back();
      trigger.begin.text = "<t>";
      trigger.body = std::move(body.grammar);
      spec.text_after = once_in(random, 2);
      made.text = "after <t>: " + body.text;
      made.spec.content = std::move(spec);
      made.escapes = true;
      break;
    }
    default: {
      RandomGrammar grammar(random);
      made.text = std::move(grammar.text);
      made.spec.content = std::move(grammar.grammar);
      made.escapes = true;
      break;
    }
  }
  if (once_in(random, 8)) {
    made.spec.reasoning = ReasoningSpec{{"<think>", -1}, {"</think>", -1}, once_in(random, 2)};
    made.text += " after reasoning";
  }
  return made;
}

}  // namespace chimere::constraints
