#include "constraints/flatten_recursion.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace chimere::constraints {
namespace {

using Id = Grammar::Id;
using Ids = std::vector<Id>;

/// Rules with more alternatives, or longer ones, stay as they are.
constexpr size_t kMostParts = 1'000;

/// The nodes that `id` consists of, with those of `kind` taken apart; nullopt if they are more than
/// kMostParts.
std::optional<Ids> parts_of(const Grammar& grammar, Id id, Grammar::Kind kind) {
  Ids parts;
  Ids open = {id};
  for (size_t steps = 0; !open.empty(); ++steps) {
    if (steps > kMostParts || open.size() > kMostParts) return std::nullopt;
    const Id at = open.back();
    open.pop_back();
    const Grammar::Node& node = grammar.nodes()[static_cast<size_t>(at)];
    if (node.kind == kind) {
      open.insert(open.end(), node.parts.rbegin(), node.parts.rend());
    } else {
      parts.push_back(at);
    }
  }
  return parts;
}

/// The alternatives of a rule S by where they refer to S. What is between, before or after may
/// refer to S as well: whatever these occurrences derive, the alternatives derive the same texts as
/// the repetition, and so do the least solutions of both equations.
class RuleFlattener {
 public:
  RuleFlattener(Grammar& grammar, int32_t rule) : grammar_(grammar), rule_(rule) {}

  bool flatten() {
    const Grammar::Rule rule = grammar_.rules()[static_cast<size_t>(rule_)];
    if (rule.body < 0 || !read(rule.body)) return false;
    const bool ambiguous =
        !powers_.empty() || !between_.empty() || (!before_.empty() && !after_.empty());
    if (!ambiguous || others_.empty()) return false;
    grammar_.replace_body(rule_, repetition());
    return true;
  }

 private:
  const Grammar::Node& node(Id id) const { return grammar_.nodes()[static_cast<size_t>(id)]; }
  bool is_self(Id id) const {
    return node(id).kind == Grammar::Kind::kRule && node(id).value == rule_;
  }
  Id sequence(std::span<const Id> parts) {
    return parts.size() == 1 ? parts[0] : grammar_.sequence({parts.begin(), parts.end()});
  }
  Id choice(const Ids& parts) { return parts.size() == 1 ? parts[0] : grammar_.choice(parts); }
  Id any_number(Id part) { return grammar_.repeat(part, 0, Grammar::kUnbounded); }

  bool read(Id body);
  bool read_alternative(const Ids& parts);
  Id repetition();

  Grammar& grammar_;
  int32_t rule_;
  Ids others_;                    ///< neither begin nor end with S
  Ids before_;                    ///< p of p S
  Ids after_;                     ///< q of S q
  Ids between_;                   ///< u of S u S
  std::vector<uint32_t> powers_;  ///< S S: 2, S S S: 3
};

bool RuleFlattener::read(Id body) {
  const auto alternatives = parts_of(grammar_, body, Grammar::Kind::kChoice);
  if (!alternatives) return false;
  for (const Id alternative : *alternatives) {
    const auto parts = parts_of(grammar_, alternative, Grammar::Kind::kSequence);
    if (!parts || !read_alternative(*parts)) return false;
  }
  return true;
}

bool RuleFlattener::read_alternative(const Ids& parts) {
  const std::span<const Id> all = parts;
  if (all.size() == 1 && node(all[0]).kind == Grammar::Kind::kRepeat &&
      is_self(node(all[0]).parts[0])) {
    const int32_t min = node(all[0]).min;
    const int32_t max = node(all[0]).max;
    if (min > 2) return false;
    // S{0,n}, S{1,n} and S{2,n} repeat what S S does; no S at all is a text of its own.
    if (min == 0) others_.push_back(grammar_.sequence({}));
    if (max < 0 || max >= 2) powers_.push_back(2);
    return true;
  }
  if (std::ranges::all_of(all, [&](Id id) { return is_self(id); }) && !all.empty()) {
    if (all.size() > 1) powers_.push_back(static_cast<uint32_t>(all.size()));
    return true;  // S ::= S says nothing
  }
  const bool begins = !all.empty() && is_self(all.front());
  const bool ends = !all.empty() && is_self(all.back());
  if (begins && ends) {
    between_.push_back(sequence(all.subspan(1, all.size() - 2)));
  } else if (begins) {
    after_.push_back(sequence(all.subspan(1)));
  } else if (ends) {
    before_.push_back(sequence(all.first(all.size() - 1)));
  } else {
    others_.push_back(sequence(all));
  }
  return true;
}

Id RuleFlattener::repetition() {
  Id operand = choice(others_);
  if (!before_.empty()) operand = grammar_.sequence({any_number(choice(before_)), operand});
  if (!after_.empty()) operand = grammar_.sequence({operand, any_number(choice(after_))});
  const bool pairs = std::ranges::find(powers_, 2U) != powers_.end();
  if (!pairs && between_.empty() && !powers_.empty()) {
    // Each step adds as many operands as its power has besides the first.
    Ids steps;
    for (const uint32_t power : powers_) {
      steps.push_back(grammar_.sequence(Ids(power - size_t{1}, operand)));
    }
    return grammar_.sequence({operand, any_number(choice(steps))});
  }
  if (pairs && between_.empty()) return grammar_.repeat(operand, 1, Grammar::kUnbounded);
  if (!pairs) {
    const Id self = powers_.empty() ? -1 : grammar_.reference(rule_);
    for (const uint32_t power : powers_) {
      between_.push_back(sequence(Ids(power - size_t{2}, self)));
    }
  }
  if (between_.empty()) return operand;
  const Id between = pairs ? grammar_.optional(choice(between_)) : choice(between_);
  return grammar_.sequence({operand, any_number(grammar_.sequence({between, operand}))});
}

}  // namespace

std::optional<Grammar> flatten_recursion(const Grammar& grammar) {
  Grammar made = grammar;
  bool changed = false;
  for (size_t rule = 0; rule < grammar.rules().size(); ++rule) {
    changed = RuleFlattener(made, static_cast<int32_t>(rule)).flatten() || changed;
  }
  if (!changed) return std::nullopt;
  return made;
}

}  // namespace chimere::constraints
