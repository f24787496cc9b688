// Filters of lists, dictionaries and other sequences.
#include <algorithm>
#include <charconv>
#include <unordered_map>
#include <unordered_set>

#include "text/jinja/characters.h"
#include "text/jinja/runtime.h"

namespace chimere::text::jinja {
namespace {

std::vector<Value> items_of(Runtime& runtime, const Value& v) {
  return elements(v, runtime.budget);
}

/// Follows "a.b.0" from an item; none leaves the item as it is.
Value follow(Runtime& runtime, const Value& item, const Value& path) {
  if (path.is_none()) return item;
  if (path.is_integer()) return get_item(runtime, item, path);
  if (!path.is_string()) fail("An attribute must be named by a string.");
  Value at = item;
  std::string_view rest = path.as_bytes();
  while (true) {
    runtime.budget.step();
    const size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    int64_t index = 0;
    const auto [end, error] = std::from_chars(part.begin(), part.end(), index);
    const bool number = error == std::errc() && end == part.end() && part[0] != '-';
    at = get_item(runtime, at, number ? Value::integer(index) : Value::string(part, true));
    if (dot == std::string_view::npos) return at;
    rest.remove_prefix(dot + 1);
  }
}

/// What sort, unique, min and max look at: strings in lower case unless told otherwise.
Value folded(const Value& v, bool case_sensitive) {
  return v.is_string() && !case_sensitive ? Value::string(lower(v.as_text())) : v;
}

Arguments after(const Arguments& a, size_t skip) {
  Arguments rest;
  rest.positional.assign(
      a.positional.begin() + static_cast<std::ptrdiff_t>(std::min(skip, a.positional.size())),
      a.positional.end());
  rest.named = a.named;
  return rest;
}

const std::string& name_argument(const Arguments& a, size_t at, std::string_view filter) {
  const Value& v = a.require(at, "name", filter);
  if (!v.is_string()) fail("'" + std::string(filter) + "' needs a name.");
  return v.as_bytes();
}

/// select, reject and their attr forms.
template <bool kKeep, bool kAttribute>
Value filter_select(Runtime& runtime, const Value& input, const Arguments& a) {
  std::vector<Value> out;
  const size_t first = kAttribute ? 1 : 0;
  for (const Value& item : items_of(runtime, input)) {
    runtime.budget.step();
    const Value subject =
        kAttribute ? follow(runtime, item, a.require(0, "attribute", "selectattr")) : item;
    const bool holds =
        a.positional.size() > first
            ? apply_test(runtime, name_argument(a, first, "select"), subject, after(a, first + 1))
            : subject.truth();
    if (holds == kKeep) out.push_back(item);
  }
  return Value::list(std::move(out));
}

Value filter_map(Runtime& runtime, const Value& input, const Arguments& a) {
  const Value* attribute = nullptr;
  const Value* otherwise = nullptr;
  for (const auto& [name, value] : a.named) {
    if (name == "attribute") attribute = &value;
    if (name == "default") otherwise = &value;
  }
  std::vector<Value> out;
  for (const Value& item : items_of(runtime, input)) {
    runtime.budget.step();
    if (attribute != nullptr) {
      const Value found = follow(runtime, item, *attribute);
      out.push_back(found.is_undefined() && otherwise != nullptr && !otherwise->is_none()
                        ? *otherwise
                        : found);
    } else {
      out.push_back(apply_filter(runtime, name_argument(a, 0, "map"), item, after(a, 1)));
    }
  }
  return Value::list(std::move(out));
}

Value filter_join(Runtime& runtime, const Value& input, const Arguments& a) {
  const MarkedText separator = to_text(a.get(0, "d", Value::string("", true)), runtime.budget);
  const Value attribute = a.get(1, "attribute", Value::none());
  MarkedText out;
  bool first = true;
  for (const Value& item : items_of(runtime, input)) {
    runtime.budget.bytes(static_cast<int64_t>(separator.size()));
    if (!first) out.append(separator);
    first = false;
    write_str(follow(runtime, item, attribute), runtime.budget, out);
  }
  return Value::string(std::move(out));
}

Value filter_length(Runtime&, const Value& input, const Arguments&) {
  return Value::integer(length(input));
}

Value filter_first(Runtime& runtime, const Value& input, const Arguments&) {
  const std::vector<Value> items = items_of(runtime, input);
  return items.empty() ? Value::undefined("first item") : items.front();
}

Value filter_last(Runtime& runtime, const Value& input, const Arguments&) {
  const std::vector<Value> items = items_of(runtime, input);
  return items.empty() ? Value::undefined("last item") : items.back();
}

Value filter_list(Runtime& runtime, const Value& input, const Arguments&) {
  return Value::list(items_of(runtime, input));
}

Value filter_items(Runtime& runtime, const Value& input, const Arguments& a) {
  if (input.is_undefined()) return Value::list({});
  if (!input.is_dict()) fail("'items' needs a dictionary, not a " + input.type_name() + ".");
  return call_method(runtime, input, "items", a);
}

Value filter_dictsort(Runtime& runtime, const Value& input, const Arguments& a) {
  if (!input.is_dict()) fail("'dictsort' needs a dictionary, not a " + input.type_name() + ".");
  const bool case_sensitive = a.truth(0, "case_sensitive", false);
  const Value by = a.get(1, "by", Value::string("key", true));
  const bool reverse = a.truth(2, "reverse", false);
  const bool by_value = by.is_string() && by.as_bytes() == "value";
  auto entries = input.as_dict().entries();
  std::ranges::stable_sort(entries, [&](const auto& x, const auto& y) {
    const Value p = folded(by_value ? x.second : x.first, case_sensitive);
    const Value q = folded(by_value ? y.second : y.first, case_sensitive);
    return reverse ? compare(q, p, runtime.budget) < 0 : compare(p, q, runtime.budget) < 0;
  });
  std::vector<Value> out;
  out.reserve(entries.size());
  for (const auto& [key, value] : entries) out.push_back(Value::tuple({key, value}));
  return Value::list(std::move(out));
}

Value filter_sort(Runtime& runtime, const Value& input, const Arguments& a) {
  const bool reverse = a.truth(0, "reverse", false);
  const bool case_sensitive = a.truth(1, "case_sensitive", false);
  const Value attribute = a.get(2, "attribute", Value::none());
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : items_of(runtime, input)) {
    keyed.emplace_back(folded(follow(runtime, item, attribute), case_sensitive), item);
  }
  std::ranges::stable_sort(keyed, [&](const auto& x, const auto& y) {
    return reverse ? compare(y.first, x.first, runtime.budget) < 0
                   : compare(x.first, y.first, runtime.budget) < 0;
  });
  std::vector<Value> out;
  out.reserve(keyed.size());
  for (auto& [_, item] : keyed) out.push_back(std::move(item));
  return Value::list(std::move(out));
}

Value filter_unique(Runtime& runtime, const Value& input, const Arguments& a) {
  const bool case_sensitive = a.truth(0, "case_sensitive", false);
  const Value attribute = a.get(1, "attribute", Value::none());
  std::vector<Value> out;
  std::unordered_set<std::string> seen;
  for (const Value& item : items_of(runtime, input)) {
    MarkedText key;
    const Value named = folded(follow(runtime, item, attribute), case_sensitive);
    if (!can_be_key(named)) fail("'unique' cannot compare a " + named.type_name() + ".");
    write_repr(named, runtime.budget, key);
    if (seen.insert(key.bytes()).second) out.push_back(item);
  }
  return Value::list(std::move(out));
}

template <bool kMax>
Value filter_extreme(Runtime& runtime, const Value& input, const Arguments& a) {
  const bool case_sensitive = a.truth(0, "case_sensitive", false);
  const Value attribute = a.get(1, "attribute", Value::none());
  Value best = Value::undefined("item");
  Value best_key;
  for (const Value& item : items_of(runtime, input)) {
    const Value key = folded(follow(runtime, item, attribute), case_sensitive);
    if (!best_key.is_undefined()) {
      const int order = compare(key, best_key, runtime.budget);
      if (kMax ? order <= 0 : order >= 0) continue;
    }
    best = item;
    best_key = key;
  }
  return best;
}

Value filter_sum(Runtime& runtime, const Value& input, const Arguments& a) {
  const Value attribute = a.get(0, "attribute", Value::none());
  Value total = a.get(1, "start", Value::integer(0));
  for (const Value& item : items_of(runtime, input)) {
    total = arithmetic(runtime, "+", total, follow(runtime, item, attribute));
  }
  return total;
}

Value filter_reverse(Runtime& runtime, const Value& input, const Arguments&) {
  const Value minus = Value::integer(-1);
  if (input.is_string()) return get_slice(runtime, input, Value::none(), Value::none(), minus);
  std::vector<Value> items = items_of(runtime, input);
  std::ranges::reverse(items);
  return Value::list(std::move(items));
}

Value filter_batch(Runtime& runtime, const Value& input, const Arguments& a) {
  const int64_t size = a.integer(0, "linecount", 0);
  if (size < 1) fail("'batch' needs a size of at least one.");
  const Value fill = a.get(1, "fill_with", Value::none());
  std::vector<Value> out;
  std::vector<Value> line;
  for (const Value& item : items_of(runtime, input)) {
    if (static_cast<int64_t>(line.size()) == size)
      out.push_back(Value::list(std::exchange(line, {})));
    line.push_back(item);
  }
  if (!line.empty()) {
    while (!fill.is_none() && static_cast<int64_t>(line.size()) < size) {
      runtime.budget.bytes(sizeof(Value));
      line.push_back(fill);
    }
    out.push_back(Value::list(std::move(line)));
  }
  return Value::list(std::move(out));
}

/// Columns, filled from the first one; the longer ones come first.
Value filter_slice(Runtime& runtime, const Value& input, const Arguments& a) {
  const int64_t slices = a.integer(0, "slices", 0);
  if (slices < 1) fail("'slice' needs at least one column.");
  const Value fill = a.get(1, "fill_with", Value::none());
  const std::vector<Value> items = items_of(runtime, input);
  const auto n = static_cast<int64_t>(items.size());
  runtime.budget.bytes(slices);  // first: the product could overflow
  runtime.budget.bytes(slices * static_cast<int64_t>(sizeof(Value) + sizeof(List)));
  std::vector<Value> out;
  int64_t done = 0;
  for (int64_t column = 0; column < slices; ++column) {
    const int64_t size = n / slices + (column < n % slices ? 1 : 0);
    std::vector<Value> line(items.begin() + done, items.begin() + done + size);
    done += size;
    if (!fill.is_none() && column >= n % slices) line.push_back(fill);
    out.push_back(Value::list(std::move(line)));
  }
  return Value::list(std::move(out));
}

Value filter_groupby(Runtime& runtime, const Value& input, const Arguments& a) {
  const Value& attribute = a.require(0, "attribute", "groupby");
  const Value otherwise = a.get(1, "default", Value::none());
  const bool case_sensitive = a.truth(2, "case_sensitive", false);
  struct Item {
    Value key;
    Value raw_key;
    Value value;
  };
  std::vector<Item> keyed;
  for (const Value& item : items_of(runtime, input)) {
    runtime.budget.bytes(sizeof(Item));
    Value key = follow(runtime, item, attribute);
    if (key.is_undefined() && !otherwise.is_none()) key = otherwise;
    keyed.push_back({folded(key, case_sensitive), key, item});
  }
  std::ranges::stable_sort(keyed, [&](const Item& x, const Item& y) {
    return compare(x.key, y.key, runtime.budget) < 0;
  });
  std::vector<Value> groups;
  for (size_t begin = 0; begin < keyed.size();) {
    std::vector<Value> members;
    size_t end = begin;
    while (end < keyed.size() && equal(keyed[begin].key, keyed[end].key, runtime.budget)) {
      members.push_back(keyed[end++].value);
    }
    // The name of a group is that of its first member, in the case it is written in.
    groups.push_back(Value::group(keyed[begin].raw_key, Value::list(std::move(members))));
    begin = end;
  }
  return Value::list(std::move(groups));
}

}  // namespace

FilterFunction find_sequence_filter(std::string_view name) {
  static const std::unordered_map<std::string_view, FilterFunction> table = {
      {"select", filter_select<true, false>},
      {"reject", filter_select<false, false>},
      {"selectattr", filter_select<true, true>},
      {"rejectattr", filter_select<false, true>},
      {"map", filter_map},
      {"join", filter_join},
      {"length", filter_length},
      {"count", filter_length},
      {"first", filter_first},
      {"last", filter_last},
      {"list", filter_list},
      {"items", filter_items},
      {"dictsort", filter_dictsort},
      {"sort", filter_sort},
      {"unique", filter_unique},
      {"min", filter_extreme<false>},
      {"max", filter_extreme<true>},
      {"sum", filter_sum},
      {"reverse", filter_reverse},
      {"batch", filter_batch},
      {"slice", filter_slice},
      {"groupby", filter_groupby},
  };
  const auto it = table.find(name);
  return it == table.end() ? nullptr : it->second;
}

}  // namespace chimere::text::jinja
