// Filters of lists, dictionaries and other sequences.
#include <algorithm>
#include <charconv>
#include <unordered_map>
#include <utility>

#include "text/jinja/characters.h"
#include "text/jinja/runtime.h"

namespace chimere::text::jinja {
namespace {

std::vector<Value> items_of(Runtime& runtime, const Value& v) {
  return elements(v, runtime.budget);
}

/// Follows "a.b.0" from an item; none leaves the item as it is. `otherwise`, unless none, stands in
/// for what is missing.
Value follow(Runtime& runtime, const Value& item, const Value& path,
             const Value& otherwise = Value::none()) {
  if (path.is_none()) return item;
  const auto or_default = [&](const Value& v) {
    return v.is_undefined() && !otherwise.is_none() ? otherwise : v;
  };
  if (!path.is_string()) return or_default(get_item(runtime, item, path));
  Value at = item;
  std::string_view rest = path.as_bytes();
  while (true) {
    runtime.budget.step();
    const size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    int64_t index = 0;
    const auto [end, error] = std::from_chars(part.begin(), part.end(), index);
    const bool number = error == std::errc() && end == part.end() && part[0] != '-';
    const Value key = number ? Value::integer(index) : Value::string(part, true);
    at = or_default(get_item(runtime, at, key));
    if (dot == std::string_view::npos) return at;
    rest.remove_prefix(dot + 1);
  }
}

/// The key that sort, unique, min and max compare: strings in lower case unless case-sensitive.
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

/// The items of select, reject and map; none if the input is false.
std::vector<Value> items_if_true(Runtime& runtime, const Value& v) {
  return v.truth() ? items_of(runtime, v) : std::vector<Value>();
}

/// A generator of what `make` adds to a list. Where that fails, the generator fails when it gets
/// there, as Python computes items when they are wanted.
template <typename Make>
Value lazily(Make make) {
  std::vector<Value> out;
  std::string error;
  try {
    make(out);
  } catch (const TemplateError& e) {
    error = e.what();
  }
  return Value::generator(std::move(out), std::move(error));
}

/// select, reject and their attr forms.
template <bool kKeep, bool kAttribute>
Value filter_select(Runtime& runtime, const Value& input, const Arguments& a) {
  return lazily([&](std::vector<Value>& out) {
    const size_t first = kAttribute ? 1 : 0;
    if (input.truth() && a.positional.size() < first) fail("'selectattr' needs an attribute.");
    for (const Value& item : items_if_true(runtime, input)) {
      runtime.budget.step();
      const Value subject = kAttribute ? follow(runtime, item, a.positional[0]) : item;
      const bool holds =
          a.positional.size() > first
              ? apply_test(runtime, name_argument(a, first, "select"), subject, after(a, first + 1))
              : subject.truth();
      if (holds == kKeep) out.push_back(item);
    }
  });
}

Value filter_map(Runtime& runtime, const Value& input, const Arguments& a) {
  return lazily([&](std::vector<Value>& out) {
    if (!input.truth()) return;
    const auto named = [&](std::string_view name) -> const Value* {
      const auto it = std::ranges::find(a.named, name, [](const auto& n) { return n.first; });
      return it == a.named.end() ? nullptr : &it->second;
    };
    const Value* attribute = a.positional.empty() ? named("attribute") : nullptr;
    const Value* otherwise = named("default");
    if (attribute != nullptr && a.named.size() > (otherwise == nullptr ? 1 : 2)) {
      fail("'map' gets an argument that it does not know.");
    }
    if (attribute == nullptr && a.positional.empty()) fail("'map' needs the name of a filter.");
    for (const Value& item : items_of(runtime, input)) {
      runtime.budget.step();
      out.push_back(
          attribute != nullptr
              ? follow(runtime, item, *attribute, otherwise == nullptr ? Value::none() : *otherwise)
              : apply_filter(runtime, name_argument(a, 0, "map"), item, after(a, 1)));
    }
  });
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

bool is_generator(const Value& v) {
  const Iterable* i = v.as_iterable();
  return i != nullptr && i->kind == Iterable::Kind::kGenerator;
}

Value filter_first(Runtime& runtime, const Value& input, const Arguments&) {
  // A generator gives one item and keeps the others.
  Iterable* i = is_generator(input) ? input.as_iterable() : nullptr;
  if (i != nullptr && i->given < i->items.size()) return i->items[i->given++];
  const std::vector<Value> items = items_of(runtime, input);
  return items.empty() ? Value::undefined("first item") : items.front();
}

Value filter_last(Runtime& runtime, const Value& input, const Arguments&) {
  if (is_generator(input)) fail("'last' needs a list, not a generator.");
  const std::vector<Value> items = items_of(runtime, input);
  return items.empty() ? Value::undefined("last item") : items.back();
}

Value filter_list(Runtime& runtime, const Value& input, const Arguments&) {
  return Value::list(items_of(runtime, input));
}

Value filter_items(Runtime& runtime, const Value& input, const Arguments& a) {
  return lazily([&](std::vector<Value>& out) {
    if (input.is_undefined()) return;
    if (!input.is_dict()) fail("'items' needs a dictionary, not a " + input.type_name() + ".");
    out = items_of(runtime, call_method(runtime, input, "items", a));
  });
}

Value filter_dictsort(Runtime& runtime, const Value& input, const Arguments& a) {
  if (!input.is_dict()) fail("'dictsort' needs a dictionary, not a " + input.type_name() + ".");
  const bool case_sensitive = a.truth(0, "case_sensitive", false);
  const Value by = a.get(1, "by", Value::string("key", true));
  const bool reverse = a.integer(2, "reverse", 0) != 0;
  const bool by_value = by.is_string() && by.as_bytes() == "value";
  if (!by_value && !(by.is_string() && by.as_bytes() == "key")) {
    fail("'dictsort' sorts by key or by value.");
  }
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
  const bool reverse = a.integer(0, "reverse", 0) != 0;
  const bool case_sensitive = a.truth(1, "case_sensitive", false);
  const Value attribute = a.get(2, "attribute", Value::none());
  std::vector<Value> paths;
  if (attribute.is_string()) {
    for (std::string_view rest = attribute.as_bytes();; rest.remove_prefix(1)) {
      const size_t comma = std::min(rest.find(','), rest.size());
      paths.push_back(Value::string(rest.substr(0, comma), true));
      rest.remove_prefix(comma);
      if (rest.empty()) break;
    }
  } else {
    paths.push_back(attribute);
  }
  struct Item {
    std::vector<Value> keys;
    Value value;
  };
  std::vector<Item> keyed;
  for (const Value& item : items_of(runtime, input)) {
    runtime.budget.bytes(static_cast<int64_t>(sizeof(Item) + paths.size() * sizeof(Value)));
    keyed.push_back({{}, item});
    for (const Value& path : paths) {
      keyed.back().keys.push_back(folded(follow(runtime, item, path), case_sensitive));
    }
  }
  const auto less = [&](const Item& x, const Item& y) {
    for (size_t i = 0; i < paths.size(); ++i) {
      if (!equal(x.keys[i], y.keys[i], runtime.budget)) {
        return compare(x.keys[i], y.keys[i], runtime.budget) < 0;
      }
    }
    return false;
  };
  std::ranges::stable_sort(
      keyed, [&](const Item& x, const Item& y) { return reverse ? less(y, x) : less(x, y); });
  std::vector<Value> out;
  out.reserve(keyed.size());
  for (Item& item : keyed) out.push_back(std::move(item.value));
  return Value::list(std::move(out));
}

Value filter_unique(Runtime& runtime, const Value& input, const Arguments& a) {
  return lazily([&](std::vector<Value>& out) {
    const bool case_sensitive = a.truth(0, "case_sensitive", false);
    const Value attribute = a.get(1, "attribute", Value::none());
    Dict seen;
    for (const Value& item : items_of(runtime, input)) {
      runtime.budget.step();
      const Value key = folded(follow(runtime, item, attribute), case_sensitive);
      if (!can_be_key(key)) fail("'unique' cannot compare a " + key.type_name() + ".");
      if (seen.find(key) != nullptr) continue;
      runtime.budget.bytes(4 * sizeof(Value));
      seen.set(key, Value::none());
      out.push_back(item);
    }
  });
}

template <bool kMax>
Value filter_extreme(Runtime& runtime, const Value& input, const Arguments& a) {
  const bool case_sensitive = a.truth(0, "case_sensitive", false);
  const Value attribute = a.get(1, "attribute", Value::none());
  Value best = Value::undefined("item");
  Value best_key;
  bool any = false;
  for (const Value& item : items_of(runtime, input)) {
    const Value key = folded(follow(runtime, item, attribute), case_sensitive);
    if (std::exchange(any, true)) {
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
  if (total.is_string()) fail("'sum' adds numbers and lists; strings are joined.");
  for (const Value& item : items_of(runtime, input)) {
    total = arithmetic(runtime, "+", total, follow(runtime, item, attribute));
  }
  return total;
}

Value filter_reverse(Runtime& runtime, const Value& input, const Arguments&) {
  const Value minus = Value::integer(-1);
  if (input.is_string()) return get_slice(runtime, input, Value::none(), Value::none(), minus);
  const bool once = is_generator(input);
  std::vector<Value> items = items_of(runtime, input);
  std::ranges::reverse(items);
  return once ? Value::list(std::move(items)) : Value::generator(std::move(items));
}

Value filter_batch(Runtime& runtime, const Value& input, const Arguments& a) {
  return lazily([&](std::vector<Value>& out) {
    const Value& size = a.require(0, "linecount", "batch");
    const Value fill = a.get(1, "fill_with", Value::none());
    std::vector<Value> line;
    const auto count = [&] { return Value::integer(static_cast<int64_t>(line.size())); };
    for (const Value& item : items_of(runtime, input)) {
      // As in Jinja2, a size below one is never reached a second time.
      if (equal(count(), size, runtime.budget)) {
        out.push_back(Value::list(std::exchange(line, {})));
      }
      line.push_back(item);
    }
    if (!line.empty()) {
      if (!fill.is_none() && compare(count(), size, runtime.budget) < 0) {
        const int64_t missing = a.integer(0, "linecount", 0) - static_cast<int64_t>(line.size());
        runtime.budget.bytes(missing);  // first: the product could overflow
        runtime.budget.bytes(missing * static_cast<int64_t>(sizeof(Value)));
        line.insert(line.end(), static_cast<size_t>(missing), fill);
      }
      out.push_back(Value::list(std::move(line)));
    }
  });
}

/// Columns, filled from the first one; the longer ones come first.
Value filter_slice(Runtime& runtime, const Value& input, const Arguments& a) {
  return lazily([&](std::vector<Value>& out) {
    const int64_t slices = a.integer(0, "slices", 0);
    if (slices == 0) fail("'slice' needs at least one column.");
    const Value fill = a.get(1, "fill_with", Value::none());
    const std::vector<Value> items = items_of(runtime, input);
    const auto n = static_cast<int64_t>(items.size());
    const int64_t columns = std::max<int64_t>(slices, 0);
    runtime.budget.bytes(columns);  // first: the product could overflow
    runtime.budget.bytes(columns * static_cast<int64_t>(sizeof(Value) + sizeof(List)));
    int64_t done = 0;
    for (int64_t column = 0; column < columns; ++column) {
      const int64_t size = n / slices + (column < n % slices ? 1 : 0);
      std::vector<Value> line(items.begin() + done, items.begin() + done + size);
      done += size;
      if (!fill.is_none() && column >= n % slices) line.push_back(fill);
      out.push_back(Value::list(std::move(line)));
    }
  });
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
    const Value key = follow(runtime, item, attribute, otherwise);
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

const Filter* find_sequence_filter(std::string_view name) {
  static const std::unordered_map<std::string_view, Filter> table = {
      {"select", {filter_select<true, false>, "*"}},
      {"reject", {filter_select<false, false>, "*"}},
      {"selectattr", {filter_select<true, true>, "*"}},
      {"rejectattr", {filter_select<false, true>, "*"}},
      {"map", {filter_map, "*"}},
      {"join", {filter_join, "[d] [attribute]"}},
      {"length", {filter_length, ""}},
      {"count", {filter_length, ""}},
      {"first", {filter_first, ""}},
      {"last", {filter_last, ""}},
      {"list", {filter_list, ""}},
      {"items", {filter_items, ""}},
      {"dictsort", {filter_dictsort, "[case_sensitive] [by] [reverse]"}},
      {"sort", {filter_sort, "[reverse] [case_sensitive] [attribute]"}},
      {"unique", {filter_unique, "[case_sensitive] [attribute]"}},
      {"min", {filter_extreme<false>, "[case_sensitive] [attribute]"}},
      {"max", {filter_extreme<true>, "[case_sensitive] [attribute]"}},
      {"sum", {filter_sum, "[attribute] [start]"}},
      {"reverse", {filter_reverse, ""}},
      {"batch", {filter_batch, "linecount [fill_with]"}},
      {"slice", {filter_slice, "slices [fill_with]"}},
      {"groupby", {filter_groupby, "attribute [default] [case_sensitive]"}},
  };
  const auto it = table.find(name);
  return it == table.end() ? nullptr : &it->second;
}

}  // namespace chimere::text::jinja
