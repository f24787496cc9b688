#include "constraints/json_schema/alternatives.h"

#include <algorithm>

#include "constraints/work.h"

namespace chimere::constraints::json_schema {

namespace {

template <typename T>
void sort_unique(std::vector<T>& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

template <typename T>
std::vector<T> merged(const std::vector<T>& a, const std::vector<T>& b) {
  std::vector<T> out;
  out.reserve(a.size() + b.size());
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out));
  return out;
}

template <typename T>
void append_new(std::vector<T>& to, const std::vector<T>& from) {
  for (const T& item : from) {
    if (std::find(to.begin(), to.end(), item) == to.end()) to.push_back(item);
  }
}

uint64_t hash_list(uint64_t hash, const std::vector<uint32_t>& list) {
  hash = hash_mix(hash, list.size());
  for (const uint32_t item : list) hash = hash_mix(hash, item);
  return hash;
}

uint64_t hash_pairs(uint64_t hash, const std::vector<std::pair<uint32_t, uint32_t>>& list) {
  hash = hash_mix(hash, list.size());
  for (const auto& [a, b] : list) hash = hash_mix(hash_mix(hash, a), b);
  return hash;
}

std::optional<NumberAlternative> intersect_numbers(const NumberAlternative& a,
                                                   const NumberAlternative& b) {
  NumberAlternative out;
  out.plain = a.plain || b.plain;
  if (!a.values && !b.values) {
    out.set = a.set.intersect(b.set);
    return out;
  }
  const NumberAlternative& list = a.values ? a : b;
  const NumberAlternative& filter = a.values ? b : a;
  out.values.emplace();
  for (const Decimal& value : *list.values) {
    if (filter.contains(value)) out.values->push_back(value);
  }
  if (out.values->empty()) return std::nullopt;
  return out;
}

bool is_any_number(const NumberAlternative& number) {
  const NumberSet& set = number.set;
  return !number.values && !number.plain && !set.min && !set.max && !set.integer &&
         !set.not_integer && set.multiple_of.empty() && set.not_multiple_of.empty() &&
         set.excluded.empty();
}

bool equal_numbers(const NumberAlternative& a, const NumberAlternative& b) {
  if (a.plain != b.plain) return false;
  if (a.values || b.values) return a.values == b.values;
  return a.set.min == b.set.min && a.set.max == b.set.max &&
         a.set.exclusive_min == b.set.exclusive_min && a.set.exclusive_max == b.set.exclusive_max &&
         a.set.integer == b.set.integer && a.set.not_integer == b.set.not_integer &&
         a.set.multiple_of == b.set.multiple_of && a.set.not_multiple_of == b.set.not_multiple_of &&
         a.set.excluded == b.set.excluded;
}

void add_number(std::vector<NumberAlternative>& list, const NumberAlternative& number) {
  for (NumberAlternative& have : list) {
    if (is_any_number(have) || equal_numbers(have, number)) return;
    if (have.values && number.values && have.plain == number.plain) {
      have.values->insert(have.values->end(), number.values->begin(), number.values->end());
      sort_unique(*have.values);
      return;
    }
  }
  if (is_any_number(number)) list.clear();
  list.push_back(number);
}

}  // namespace

bool NumberAlternative::contains(const Decimal& value) const {
  if (values) return std::binary_search(values->begin(), values->end(), value);
  return set.contains(value);
}

bool NumberAlternative::contains(const Decimal& value, std::string_view text) const {
  return contains(value) && (!plain || text.find_first_of(".eE") == std::string_view::npos);
}

uint64_t RecordHash::operator()(const ObjectScope& scope) const {
  uint64_t hash = hash_mix(scope.rest, (scope.evaluates ? 2 : 0) + (scope.rest_evaluates ? 1 : 0));
  hash = hash_pairs(hash_pairs(hash, scope.named), scope.patterns);
  return hash_list(hash, scope.covers);
}

uint64_t RecordHash::operator()(const ArrayScope& scope) const {
  const uint64_t hash =
      hash_mix(scope.rest, (scope.evaluates ? 2 : 0) + (scope.rest_evaluates ? 1 : 0));
  return hash_list(hash_list(hash, scope.prefix), scope.covers);
}

uint64_t RecordHash::operator()(const ObjectRecord& record) const {
  uint64_t hash = hash_mix(record.min, record.max);
  hash = hash_list(hash_list(hash_list(hash, record.scopes), record.required), record.names);
  hash = hash_list(hash, record.differs);
  for (const SomeProperty& some : record.some) {
    hash = hash_mix(hash_mix(hash, some.names), some.goal);
  }
  for (const auto& [key, list] : record.dependent) hash = hash_list(hash_mix(hash, key), list);
  return hash;
}

uint64_t RecordHash::operator()(const ArrayRecord& record) const {
  uint64_t hash = hash_mix(hash_mix(record.min, record.max), record.unique ? 1 : 0);
  hash = hash_list(hash_list(hash, record.scopes), record.evaluating_contains);
  hash = hash_list(hash, record.differs);
  for (const SomeItems& some : record.some) {
    hash = hash_mix(hash_mix(hash_mix(hash_mix(hash, some.from), some.goal), some.min), some.max);
  }
  return hash;
}

Records::Records(RegexArena& arena) : arena_(arena) {
  objects_.intern({});
  arrays_.intern({});
}

Alternatives Records::anything() { return of_types(kAllTypes); }

Alternatives Records::of_types(uint8_t types) {
  Alternatives out;
  out.null = (types & kNullBit) != 0;
  out.yes = out.no = (types & kBooleanBit) != 0;
  if ((types & kStringBit) != 0) out.strings.emplace_back();
  if ((types & (kIntegerBit | kFractionBit)) != 0) {
    out.numbers.emplace_back();
    out.numbers[0].set.integer = (types & kFractionBit) == 0;
    out.numbers[0].set.not_integer = (types & kIntegerBit) == 0;
  }
  if ((types & kObjectBit) != 0) out.objects.push_back(kAnyRecord);
  if ((types & kArrayBit) != 0) out.arrays.push_back(kAnyRecord);
  return out;
}

RecordId Records::object(ObjectRecord record) { return objects_.intern(std::move(record)); }

RecordId Records::array(ArrayRecord record) { return arrays_.intern(std::move(record)); }

RecordId Records::intersect_objects(RecordId a, RecordId b) {
  if (a == b || b == kAnyRecord) return a;
  if (a == kAnyRecord) return b;
  const ObjectRecord& left = objects_[a];
  const ObjectRecord& right = objects_[b];
  ObjectRecord out;
  out.min = std::max(left.min, right.min);
  out.max = std::min(left.max, right.max);
  out.required = merged(left.required, right.required);
  if (out.min > out.max || out.required.size() > out.max) return kNone;
  out.scopes = merged(left.scopes, right.scopes);
  out.names = merged(left.names, right.names);
  out.some = left.some;
  append_new(out.some, right.some);
  out.differs = merged(left.differs, right.differs);
  out.dependent = left.dependent;
  append_new(out.dependent, right.dependent);
  return object(std::move(out));
}

RecordId Records::intersect_arrays(RecordId a, RecordId b) {
  if (a == b || b == kAnyRecord) return a;
  if (a == kAnyRecord) return b;
  const ArrayRecord& left = arrays_[a];
  const ArrayRecord& right = arrays_[b];
  ArrayRecord out;
  out.min = std::max(left.min, right.min);
  out.max = std::min(left.max, right.max);
  if (out.min > out.max) return kNone;
  out.scopes = merged(left.scopes, right.scopes);
  out.some = left.some;
  append_new(out.some, right.some);
  out.evaluating_contains = merged(left.evaluating_contains, right.evaluating_contains);
  out.unique = left.unique || right.unique;
  out.differs = merged(left.differs, right.differs);
  return array(std::move(out));
}

bool Records::intersect(Alternatives& a, const Alternatives& b) {
  a.null = a.null && b.null;
  a.yes = a.yes && b.yes;
  a.no = a.no && b.no;
  const size_t largest =
      std::max({a.strings.size() * b.strings.size(), a.numbers.size() * b.numbers.size(),
                a.objects.size() * b.objects.size(), a.arrays.size() * b.arrays.size()});
  if (largest > kMaxPairsAtOnce && std::min(a.size(), b.size()) > 1) return false;
  // Single records, as in deeply nested schemas, cost less than combinations.
  constexpr size_t kCombination = 4;
  constexpr uint64_t kUnitsPerPair = 8;
  pairs_ += largest > 1 ? kCombination * largest : 1;
  WorkScope::add(kUnitsPerPair * largest + 1);
  if (pairs_ > kCombination * kMaxPairs || WorkScope::exhausted()) return false;

  std::vector<StringSet> strings;
  for (const StringSet& left : a.strings) {
    for (const StringSet& right : b.strings) {
      const StringSet both = {arena_.intersect(left.language, right.language),
                              std::max(left.min, right.min), std::min(left.max, right.max)};
      if (both.min > both.max || both.language == arena_.none()) continue;
      if (std::find(strings.begin(), strings.end(), both) == strings.end()) strings.push_back(both);
    }
  }
  a.strings = std::move(strings);

  std::vector<NumberAlternative> numbers;
  for (const NumberAlternative& left : a.numbers) {
    for (const NumberAlternative& right : b.numbers) {
      if (const auto both = intersect_numbers(left, right)) add_number(numbers, *both);
    }
  }
  a.numbers = std::move(numbers);

  std::vector<RecordId> records;
  for (const RecordId left : a.objects) {
    for (const RecordId right : b.objects) {
      const RecordId both = intersect_objects(left, right);
      if (both != kNone) records.push_back(both);
    }
  }
  sort_unique(records);
  a.objects = std::move(records);
  records.clear();
  for (const RecordId left : a.arrays) {
    for (const RecordId right : b.arrays) {
      const RecordId both = intersect_arrays(left, right);
      if (both != kNone) records.push_back(both);
    }
  }
  sort_unique(records);
  a.arrays = std::move(records);
  return a.size() <= kMaxAlternatives;
}

bool Records::unite(Alternatives& a, const Alternatives& b, bool absorb) {
  a.null = a.null || b.null;
  a.yes = a.yes || b.yes;
  a.no = a.no || b.no;
  for (const StringSet& string : b.strings) {
    const auto same = std::find_if(a.strings.begin(), a.strings.end(), [&](const StringSet& have) {
      return have.min == string.min && have.max == string.max;
    });
    if (same == a.strings.end()) {
      a.strings.push_back(string);
    } else if (same->language != string.language) {
      same->language = arena_.unite(same->language, string.language);
    }
  }
  for (const NumberAlternative& number : b.numbers) add_number(a.numbers, number);
  const auto add_records = [absorb](std::vector<RecordId>& to, const std::vector<RecordId>& from) {
    to = merged(to, from);
    if (absorb && !to.empty() && to[0] == kAnyRecord) to.resize(1);
  };
  add_records(a.objects, b.objects);
  add_records(a.arrays, b.arrays);
  return a.size() <= kMaxAlternatives;
}

}  // namespace chimere::constraints::json_schema
