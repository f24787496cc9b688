#include "constraints/grammar.h"

#include <algorithm>
#include <utility>

namespace chimere::constraints {
namespace {

constexpr char32_t kLastCharacter = 0x10FFFF;

void append_field(std::string& out, int64_t number) { out += std::to_string(number) + ","; }

/// Sorted ranges that neither overlap nor touch, without surrogates.
std::vector<Grammar::Range> normalised(std::vector<Grammar::Range> ranges) {
  std::ranges::sort(ranges, {}, &Grammar::Range::first);
  std::vector<Grammar::Range> merged;
  for (const Grammar::Range& range : ranges) {
    if (range.first > range.last) continue;
    if (!merged.empty() && range.first <= merged.back().last + 1) {
      merged.back().last = std::max(merged.back().last, range.last);
    } else {
      merged.push_back(range);
    }
  }
  std::vector<Grammar::Range> whole;
  for (const Grammar::Range& range : merged) {
    const Grammar::Range below = {range.first, std::min<char32_t>(range.last, 0xD7FF)};
    const Grammar::Range above = {std::max<char32_t>(range.first, 0xE000),
                                  std::min(range.last, kLastCharacter)};
    if (below.first <= below.last) whole.push_back(below);
    if (above.first <= above.last) whole.push_back(above);
  }
  return whole;
}

std::vector<Grammar::Range> complement(const std::vector<Grammar::Range>& ranges) {
  std::vector<Grammar::Range> others;
  char32_t next = 0;
  for (const Grammar::Range& range : ranges) {
    if (range.first > next) others.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCharacter) others.push_back({next, kLastCharacter});
  return others;
}

}  // namespace

Grammar::Id Grammar::add(Node node) {
  nodes_.push_back(std::move(node));
  return static_cast<Id>(nodes_.size() - 1);
}

Grammar::Id Grammar::literal(std::string_view text) {
  Node node;
  node.kind = Kind::kLiteral;
  node.text = text;
  return add(std::move(node));
}

Grammar::Id Grammar::bytes(const ByteSet& set) {
  Node node;
  node.kind = Kind::kBytes;
  node.bytes = set;
  return add(std::move(node));
}

Grammar::Id Grammar::characters(std::vector<Range> ranges, bool negated) {
  Node node;
  node.kind = Kind::kCharacters;
  node.ranges = normalised(std::move(ranges));
  if (negated) node.ranges = normalised(complement(node.ranges));
  return add(std::move(node));
}

Grammar::Id Grammar::token(int32_t token) {
  Node node;
  node.kind = Kind::kToken;
  node.value = token;
  return add(std::move(node));
}

Grammar::Id Grammar::sequence(std::vector<Id> parts) {
  Node node;
  node.kind = Kind::kSequence;
  node.parts = std::move(parts);
  return add(std::move(node));
}

Grammar::Id Grammar::choice(std::vector<Id> alternatives) {
  Node node;
  node.kind = Kind::kChoice;
  node.parts = std::move(alternatives);
  return add(std::move(node));
}

Grammar::Id Grammar::repeat(Id part, int32_t min, int32_t max) {
  Node node;
  node.kind = Kind::kRepeat;
  node.parts = {part};
  node.min = min;
  node.max = max;
  return add(std::move(node));
}

Grammar::Id Grammar::regex(std::string_view pattern) {
  Node node;
  node.kind = Kind::kRegex;
  node.text = pattern;
  return add(std::move(node));
}

Grammar::Id Grammar::json_schema(std::string_view schema, SchemaPlace place) {
  Node node;
  node.kind = Kind::kJsonSchema;
  node.text = schema;
  node.place = std::move(place);
  return add(std::move(node));
}

Grammar::Id Grammar::schema_text(std::string_view schema, std::string_view end, bool or_null,
                                 SchemaPlace place) {
  Node node;
  node.kind = Kind::kSchemaText;
  node.text = schema;
  node.end = end;
  node.value = or_null ? 1 : 0;
  node.place = std::move(place);
  return add(std::move(node));
}

Grammar::Id Grammar::text_until(std::string_view end) {
  Node node;
  node.kind = Kind::kTextUntil;
  node.text = end;
  return add(std::move(node));
}

Grammar::Id Grammar::text_without(const std::vector<std::string>& texts) {
  Node node;
  node.kind = Kind::kText;
  for (const std::string& text : texts) node.text.append(text).push_back('\0');
  return add(std::move(node));
}

int32_t Grammar::add_rule(std::string name) {
  rules_.emplace_back().name = std::move(name);
  return static_cast<int32_t>(rules_.size() - 1);
}

std::string Grammar::place_of(Id node) const {
  // Nodes are made bottom-up: the body of a rule comes after its parts.
  const Rule* found = nullptr;
  for (const auto end : {&Rule::last, &Rule::body}) {
    for (const Rule& rule : rules_) {
      if (rule.*end >= node && (found == nullptr || rule.*end < found->*end)) found = &rule;
    }
    if (found != nullptr) break;
  }
  if (found == nullptr || found->line == 0) return {};
  return "Grammar, line " + std::to_string(found->line) + ", rule " + found->name + ": ";
}

Grammar::Id Grammar::reference(int32_t rule) {
  Node node;
  node.kind = Kind::kRule;
  node.value = rule;
  return add(std::move(node));
}

int32_t Grammar::find_rule(std::string_view name) const {
  const auto found = std::ranges::find(rules_, name, &Rule::name);
  return found == rules_.end() ? -1 : static_cast<int32_t>(found - rules_.begin());
}

std::string Grammar::key() const {
  std::string key;
  append_field(key, root_);
  for (const Rule& rule : rules_) append_field(key, rule.body);
  for (const Node& node : nodes_) {
    key += ";";
    append_field(key, static_cast<int64_t>(node.kind));
    append_field(key, static_cast<int64_t>(node.text.size()));
    key += node.text;
    append_field(key, static_cast<int64_t>(node.end.size()));
    key += node.end;
    if (node.kind == Kind::kBytes) key += node.bytes.to_string();
    for (const Range& range : node.ranges) {
      append_field(key, range.first);
      append_field(key, range.last);
    }
    append_field(key, static_cast<int64_t>(node.parts.size()));
    for (const Id part : node.parts) append_field(key, part);
    append_field(key, node.value);
    append_field(key, node.min);
    append_field(key, node.max);
  }
  return key;
}

}  // namespace chimere::constraints
