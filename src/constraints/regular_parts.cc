#include "constraints/regular_parts.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "constraints/code_points.h"
#include "constraints/json_schema.h"
#include "constraints/json_schema/node.h"
#include "text/utf8.h"

namespace chimere::constraints {
namespace {

/// Larger parts stay with the grammar, whose work does not depend on nesting.
constexpr uint32_t kMaxRegularDepth = 48;
constexpr uint32_t kMaxRegularSize = 20'000;
/// Rules may be defined behind their uses: each pass reaches one level further.
constexpr int kRegularPasses = 16;
/// Counted repetitions of more than single characters are left to the grammar beyond this: the
/// derivatives of nested counters are too many.
constexpr int32_t kMaxRegularCount = 32;

constexpr std::string_view kRoot = "the root";

struct RegularPart {
  std::optional<Regex> language;
  uint32_t depth = 0;
  uint32_t size = 0;
};

class RegularFinder {
 public:
  RegularFinder(const Grammar& grammar, RegexArena& arena)
      : grammar_(grammar), arena_(arena), parts_(grammar.nodes().size()) {}

  Result<std::vector<std::optional<Regex>>> find() {
    for (int pass = 0; pass < kRegularPasses && changed_; ++pass) {
      changed_ = false;
      for (size_t i = 0; i < parts_.size(); ++i) {
        if (!parts_[i].language) CHIMERE_CHECK_OK(visit(i));
      }
    }
    std::vector<std::optional<Regex>> languages;
    languages.reserve(parts_.size());
    for (const RegularPart& part : parts_) languages.push_back(part.language);
    return languages;
  }

 private:
  void set(size_t i, Regex language, uint32_t depth, uint32_t size) {
    parts_[i] = {language, depth, size};
    changed_ = true;
  }
  const RegularPart& part(Grammar::Id id) const { return parts_[static_cast<size_t>(id)]; }

  Status visit(size_t i) {
    const Grammar::Node& node = grammar_.nodes()[i];
    switch (node.kind) {
      case Grammar::Kind::kLiteral:
        if (text::is_valid_utf8(node.text)) set(i, arena_.literal(node.text), 1, 1);
        return {};
      case Grammar::Kind::kCharacters: {
        std::vector<CodeRange> ranges;
        for (const Grammar::Range& range : node.ranges) ranges.push_back({range.first, range.last});
        set(i, arena_.characters(CodePointSet(ranges)), 1, 1);
        return {};
      }
      case Grammar::Kind::kRegex: {
        CHIMERE_TRY(const Regex language, arena_.parse(node.text, RegexSyntax::kEcma262Full));
        CHIMERE_CHECK_OK(arena_.prepare(language));
        set(i, language, 1, static_cast<uint32_t>(node.text.size()));
        return {};
      }
      case Grammar::Kind::kSchemaText: {
        auto strings = strings_of_schema(arena_, node.text, node.value != 0);
        if (!strings.ok()) return at_place(node.place, std::move(strings).error());
        const Regex end[] = {arena_.any(), arena_.literal(node.end), arena_.any()};
        const Regex language = arena_.intersect(*strings, arena_.complement(arena_.concat(end)));
        const Status prepared = arena_.prepare(language);
        if (!prepared.ok()) return at_place(node.place, prepared.error());
        set(i, language, 1, static_cast<uint32_t>(node.text.size()));
        return {};
      }
      case Grammar::Kind::kRule: {
        const Grammar::Id body = grammar_.rules()[static_cast<size_t>(node.value)].body;
        if (body < 0 || !part(body).language || part(body).depth >= kMaxRegularDepth) return {};
        set(i, *part(body).language, part(body).depth + 1, part(body).size);
        return {};
      }
      case Grammar::Kind::kSequence:
      case Grammar::Kind::kChoice:
      case Grammar::Kind::kRepeat:
        combine_parts(i, node);
        return {};
      default:
        return {};
    }
  }

  void combine_parts(size_t i, const Grammar::Node& node) {
    uint32_t depth = 0;
    uint64_t size = 1;
    std::vector<Regex> languages;
    for (const Grammar::Id id : node.parts) {
      if (!part(id).language) return;
      depth = std::max(depth, part(id).depth + 1);
      size += part(id).size;
      languages.push_back(*part(id).language);
    }
    if (depth > kMaxRegularDepth || size > kMaxRegularSize) return;
    if (node.kind == Grammar::Kind::kSequence) {
      set(i, arena_.concat(languages), depth, static_cast<uint32_t>(size));
    } else if (node.kind == Grammar::Kind::kChoice) {
      set(i, arena_.unite(languages), depth, static_cast<uint32_t>(size));
    } else {
      const Grammar::Kind repeated = grammar_.nodes()[static_cast<size_t>(node.parts[0])].kind;
      const bool plain = node.max == 1 || (node.min <= 1 && node.max < 0) ||
                         repeated == Grammar::Kind::kCharacters ||
                         (node.min <= kMaxRegularCount && node.max <= kMaxRegularCount);
      if (!plain || node.min > static_cast<int32_t>(RegexArena::kMaxCount) ||
          node.max > static_cast<int32_t>(RegexArena::kMaxCount)) {
        return;
      }
      const uint32_t max = node.max < 0 ? RegexArena::kUnbounded : static_cast<uint32_t>(node.max);
      set(i, arena_.repeat(languages[0], static_cast<uint32_t>(node.min), max), depth,
          static_cast<uint32_t>(size));
    }
  }

  const Grammar& grammar_;
  RegexArena& arena_;
  std::vector<RegularPart> parts_;
  bool changed_ = true;
};

}  // namespace

Error at_place(const Grammar::SchemaPlace& place, Error error) {
  if (place.owner.empty() && place.pointer.empty()) return error;
  std::string_view rest = error.message;
  std::string pointer = place.pointer;
  if (rest.starts_with(json_schema::kErrorPlace)) {
    rest.remove_prefix(json_schema::kErrorPlace.size());
    if (rest.starts_with(kRoot)) {
      rest.remove_prefix(kRoot.size() + 2);
    } else {
      const size_t end = rest.find("\": ");
      std::string_view within = rest.substr(1, end - 1);
      if (within.starts_with(place.nested)) within.remove_prefix(place.nested.size());
      pointer += within;
      rest.remove_prefix(end + 3);
    }
  }
  error.message = "JSON schema" + (place.owner.empty() ? "" : " " + place.owner) + ", at " +
                  (pointer.empty() ? std::string(kRoot) : "\"" + pointer + "\"") + ": " +
                  std::string(rest);
  return error;
}

Result<std::vector<std::optional<Regex>>> regular_parts(const Grammar& grammar, RegexArena& arena) {
  return RegularFinder(grammar, arena).find();
}

}  // namespace chimere::constraints
