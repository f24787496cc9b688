#include "text/jinja/value.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/characters.h"
#include "text/utf8.h"

namespace chimere::text::jinja {
namespace {

std::shared_ptr<List> make_list(std::vector<Value> items, bool tuple) {
  auto list = std::make_shared<List>();
  list->tuple = tuple;
  list->can_be_key = tuple;
  for (const Value& item : items) {
    list->nesting = std::max(list->nesting, item.nesting() + 1);
    list->can_be_key = list->can_be_key && can_be_key(item);
    const int64_t more = item.is_list() ? item.as_list().leaves : 1;
    if (__builtin_add_overflow(list->leaves, more, &list->leaves)) list->leaves = INT64_MAX;
  }
  if (list->nesting > kMaxNesting) fail("Lists are nested too deeply.");
  list->items = std::move(items);
  return list;
}

/// The kind and the bytes of a key; 1, 1.0 and true are the same key. Requires can_be_key.
std::string key_of(const Value& key) {
  if (key.is_string()) return "s" + key.as_bytes();
  if (key.is_none()) return "n";
  if (key.is_bool() || key.is_integer()) return "i" + std::to_string(key.as_integer());
  if (key.is_real()) {
    const double d = key.as_real();
    if (std::abs(d) < 9e15 && d == std::floor(d)) {
      return "i" + std::to_string(static_cast<int64_t>(d));
    }
    return "r" + format_real(d);
  }
  if (key.is_undefined()) return "u";
  if (key.is_list()) {
    if (key.as_list().leaves > 10'000) fail("A tuple is too large to be the key of a dictionary.");
    std::string members = "t";
    for (const Value& item : key.as_list().items) {
      const std::string member = key_of(item);
      members += std::to_string(member.size()) + ":" + member;
    }
    return members;
  }
  return "p" + std::to_string(reinterpret_cast<uintptr_t>(key.address()));
}

}  // namespace

Value Value::undefined(std::string_view name) {
  return Value(Undefined{std::make_shared<const std::string>(name)});
}
Value Value::string(MarkedText text) {
  return Value(std::make_shared<const MarkedText>(std::move(text)));
}
Value Value::list(std::vector<Value> items) {
  return Value(ListPtr(make_list(std::move(items), false)));
}
Value Value::tuple(std::vector<Value> items) {
  return Value(ListPtr(make_list(std::move(items), true)));
}
Value Value::group(Value grouper, Value list) {
  const std::shared_ptr<List> made = make_list({std::move(grouper), std::move(list)}, true);
  made->group = true;
  return Value(ListPtr(made));
}
Value Value::dict(Dict dict) { return Value(std::make_shared<const Dict>(std::move(dict))); }

Value Value::range(int64_t start, int64_t stop, int64_t step, Budget& budget) {
  auto made = std::make_shared<Iterable>();
  made->kind = Iterable::Kind::kRange;
  made->start = start;
  made->stop = stop;
  made->step = step;
  constexpr size_t kMaxRange = 100'000;  // that of Jinja's sandbox
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (made->items.size() >= kMaxRange) {
      fail("'range' gives at most " + std::to_string(kMaxRange) + " numbers.");
    }
    budget.bytes(sizeof(Value));
    made->items.push_back(Value::integer(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return Value(std::move(made));
}

Value Value::generator(std::vector<Value> items, std::string error) {
  auto made = std::make_shared<Iterable>();
  made->error = std::move(error);
  for (const Value& item : items) made->nesting = std::max(made->nesting, item.nesting() + 1);
  if (made->nesting > kMaxNesting) fail("Lists are nested too deeply.");
  made->items = std::move(items);
  return Value(std::move(made));
}

double Value::as_real() const {
  return is_real() ? std::get<double>(v_) : static_cast<double>(as_integer());
}

const std::string& Value::undefined_name() const {
  static const std::string unknown = "value";
  const auto& name = std::get<Undefined>(v_).name;
  return name == nullptr ? unknown : *name;
}

Iterable* Value::as_iterable() const {
  const auto* p = std::get_if<std::shared_ptr<Iterable>>(&v_);
  return p == nullptr ? nullptr : p->get();
}
Namespace* Value::as_namespace() const {
  const auto* p = std::get_if<std::shared_ptr<Namespace>>(&v_);
  return p == nullptr ? nullptr : p->get();
}
Loop* Value::as_loop() const {
  const auto* p = std::get_if<std::shared_ptr<Loop>>(&v_);
  return p == nullptr ? nullptr : p->get();
}
Cycler* Value::as_cycler() const {
  const auto* p = std::get_if<std::shared_ptr<Cycler>>(&v_);
  return p == nullptr ? nullptr : p->get();
}
const Callable* Value::as_callable() const {
  const auto* p = std::get_if<std::shared_ptr<const Callable>>(&v_);
  return p == nullptr ? nullptr : p->get();
}

const void* Value::address() const {
  const auto of = []<typename T>(const T& v) -> const void* {
    if constexpr (requires { v.get(); }) {
      return v.get();
    } else {
      return nullptr;
    }
  };
  return is_string() ? nullptr : std::visit(of, v_);
}

bool Value::truth() const {
  if (is_undefined() || is_none()) return false;
  if (is_real()) return as_real() != 0;
  if (is_number()) return as_integer() != 0;
  if (is_string()) return !as_text().empty();
  if (is_list()) return !as_list().items.empty();
  if (is_dict()) return !as_dict().entries().empty();
  const Iterable* i = as_iterable();
  return i == nullptr || i->kind == Iterable::Kind::kGenerator || !i->items.empty();
}

int Value::nesting() const {
  if (is_list()) return as_list().nesting;
  if (is_dict()) return as_dict().nesting();
  if (const Iterable* i = as_iterable()) return i->nesting;
  if (const Callable* c = as_callable()) return c->self.nesting() + 1;
  return 0;
}

std::string Value::type_name() const {
  if (is_undefined()) return "undefined";
  if (is_none()) return "NoneType";
  if (is_bool()) return "bool";
  if (is_integer()) return "int";
  if (is_real()) return "float";
  if (is_string()) return "str";
  if (is_list()) return as_list().tuple ? "tuple" : "list";
  if (is_dict()) return "dict";
  if (const Iterable* i = as_iterable()) {
    const char* names[] = {"range", "dict_keys", "dict_values", "dict_items", "generator"};
    return names[static_cast<size_t>(i->kind)];
  }
  if (as_namespace() != nullptr) return "namespace";
  if (as_loop() != nullptr) return "loop";
  if (as_cycler() != nullptr) return as_cycler()->joiner ? "joiner" : "cycler";
  return "function";
}

bool can_be_key(const Value& value) {
  if (value.is_dict()) return false;
  if (const Iterable* i = value.as_iterable()) {
    return i->kind != Iterable::Kind::kKeys && i->kind != Iterable::Kind::kItems;
  }
  return !value.is_list() || value.as_list().can_be_key;
}

const Value* Dict::find(const Value& key) const {
  if (!can_be_key(key)) return nullptr;
  const auto it = index_.find(key_of(key));
  return it == index_.end() ? nullptr : &entries_[it->second].second;
}

const Value* Dict::find(std::string_view key) const {
  const auto it = index_.find("s" + std::string(key));
  return it == index_.end() ? nullptr : &entries_[it->second].second;
}

void Dict::set(const Value& key, Value value) {
  if (!can_be_key(key)) {
    fail("A value of type " + key.type_name() + " cannot be the key of a dictionary.");
  }
  const std::string name = key_of(key);
  nesting_ = std::max({nesting_, key.nesting() + 1, value.nesting() + 1});
  if (nesting_ > kMaxNesting) fail("Dictionaries are nested too deeply.");
  const auto [it, is_new] = index_.emplace(name, entries_.size());
  if (is_new) {
    entries_.emplace_back(key, std::move(value));
  } else {
    entries_[it->second].second = std::move(value);
  }
}

namespace {

/// Ranges are equal if their numbers are, keys and items of dictionaries in any order; all else if
/// it is the same object.
bool equal_iterables(const Iterable& a, const Iterable& b, Budget& budget) {
  if (&a == &b) return true;
  if (a.kind == Iterable::Kind::kValues || a.kind == Iterable::Kind::kGenerator) return false;
  if (a.items.size() != b.items.size()) return false;
  return std::ranges::all_of(a.items, [&](const Value& x) {
    return std::ranges::any_of(b.items, [&](const Value& y) { return equal(x, y, budget); });
  });
}

}  // namespace

bool equal(const Value& a, const Value& b, Budget& budget) {
  budget.step();
  if (a.is_number() && b.is_number()) {
    if (a.is_real() || b.is_real()) return a.as_real() == b.as_real();
    return a.as_integer() == b.as_integer();
  }
  if (a.is_string() && b.is_string()) return a.as_bytes() == b.as_bytes();
  if (a.is_list() && b.is_list()) {
    const List& x = a.as_list();
    const List& y = b.as_list();
    if (x.tuple != y.tuple || x.items.size() != y.items.size()) return false;
    for (size_t i = 0; i < x.items.size(); ++i) {
      if (!equal(x.items[i], y.items[i], budget)) return false;
    }
    return true;
  }
  if (a.is_dict() && b.is_dict()) {
    if (a.as_dict().entries().size() != b.as_dict().entries().size()) return false;
    for (const auto& [key, value] : a.as_dict().entries()) {
      const Value* other = b.as_dict().find(key);
      if (other == nullptr || !equal(value, *other, budget)) return false;
    }
    return true;
  }
  if (a.is_none() || a.is_undefined()) return a.is_none() ? b.is_none() : b.is_undefined();
  const Iterable* x = a.as_iterable();
  const Iterable* y = b.as_iterable();
  if (x != nullptr && y != nullptr && x->kind == y->kind) return equal_iterables(*x, *y, budget);
  const Callable* f = a.as_callable();
  const Callable* g = b.as_callable();
  if (f != nullptr && g != nullptr && f->kind == Callable::Kind::kGlobal) {
    return g->kind == f->kind && g->name == f->name;
  }
  return a.address() != nullptr && a.address() == b.address();
}

int compare(const Value& a, const Value& b, Budget& budget) {
  budget.step();
  if (a.is_number() && b.is_number()) {
    if (a.is_real() || b.is_real()) {
      return a.as_real() < b.as_real() ? -1 : a.as_real() > b.as_real() ? 1 : 0;
    }
    return a.as_integer() < b.as_integer() ? -1 : a.as_integer() > b.as_integer() ? 1 : 0;
  }
  // The order of UTF-8 bytes is the order of code points.
  if (a.is_string() && b.is_string()) return a.as_bytes().compare(b.as_bytes());
  if (a.is_list() && b.is_list() && a.as_list().tuple == b.as_list().tuple) {
    const auto& x = a.as_list().items;
    const auto& y = b.as_list().items;
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (!equal(x[i], y[i], budget)) return compare(x[i], y[i], budget);
    }
    return x.size() < y.size() ? -1 : x.size() > y.size() ? 1 : 0;
  }
  if (a.as_iterable() != nullptr && equal(a, b, budget) && !can_be_key(a)) return 0;  // as sets
  fail("A value of type " + a.type_name() + " and one of type " + b.type_name() +
       " have no order.");
}

bool contains(const Value& container, const Value& item, Budget& budget) {
  if (container.is_string()) {
    if (!item.is_string()) {
      fail("Only a string can be searched for in a string, not a " + item.type_name() + ".");
    }
    budget.step(static_cast<int64_t>(container.as_text().size() / 64));
    return container.as_bytes().find(item.as_bytes()) != std::string::npos;
  }
  if (container.is_dict()) {
    if (!can_be_key(item)) fail("A " + item.type_name() + " cannot be the key of a dictionary.");
    return container.as_dict().find(item) != nullptr;
  }
  if (container.is_list()) {
    return std::ranges::any_of(container.as_list().items,
                               [&](const Value& v) { return equal(v, item, budget); });
  }
  if (container.is_undefined()) return false;
  if (Iterable* i = container.as_iterable()) {
    if (i->kind == Iterable::Kind::kKeys && !can_be_key(item)) {
      fail("A " + item.type_name() + " cannot be the key of a dictionary.");
    }
    const auto rest = i->items.begin() + static_cast<std::ptrdiff_t>(i->given);
    const auto found =
        std::find_if(rest, i->items.end(), [&](const Value& v) { return equal(v, item, budget); });
    const bool is_in = found != i->items.end();
    // A generator has given what was looked at.
    if (i->kind == Iterable::Kind::kGenerator) i->given += found - rest + (is_in ? 1 : 0);
    if (!is_in && !i->error.empty()) fail(std::exchange(i->error, ""));
    return is_in;
  }
  fail("Nothing can be searched for in a " + container.type_name() + ".");
}

bool can_be_looped_over(const Value& value) {
  return value.is_undefined() || value.is_string() || value.is_list() || value.is_dict() ||
         value.as_iterable() != nullptr;
}

std::vector<Value> elements(const Value& value, Budget& budget, std::string* error) {
  if (value.is_undefined()) return {};
  if (value.is_list()) {
    budget.bytes(static_cast<int64_t>(value.as_list().items.size() * sizeof(Value)));
    return value.as_list().items;
  }
  if (Iterable* i = value.as_iterable()) {
    budget.bytes(static_cast<int64_t>(i->items.size() * sizeof(Value)));
    const auto rest = i->items.begin() + static_cast<std::ptrdiff_t>(i->given);
    if (i->kind == Iterable::Kind::kGenerator) i->given = i->items.size();
    if (error != nullptr) {
      *error = std::exchange(i->error, "");
    } else if (!i->error.empty()) {
      fail(std::exchange(i->error, ""));
    }
    return {rest, i->items.end()};
  }
  std::vector<Value> out;
  if (value.is_dict()) {
    for (const auto& [key, _] : value.as_dict().entries()) out.push_back(key);
  } else if (value.is_string()) {
    const std::vector<size_t> offsets = character_offsets(value.as_bytes());
    budget.bytes(static_cast<int64_t>(offsets.size() * sizeof(MarkedText)));
    for (size_t i = 0; i + 1 < offsets.size(); ++i) {
      out.push_back(Value::string(value.as_text().substr(offsets[i], offsets[i + 1])));
    }
  } else {
    fail("A value of type " + value.type_name() + " cannot be looped over.");
  }
  budget.bytes(static_cast<int64_t>(out.size() * sizeof(Value)));
  return out;
}

int64_t length(const Value& value) {
  if (value.is_undefined()) return 0;
  if (value.is_list()) return static_cast<int64_t>(value.as_list().items.size());
  if (value.is_dict()) return static_cast<int64_t>(value.as_dict().entries().size());
  if (value.is_string()) return count_characters(value.as_bytes());
  if (const Iterable* i = value.as_iterable();
      i != nullptr && i->kind != Iterable::Kind::kGenerator) {
    return static_cast<int64_t>(i->items.size());
  }
  if (const Loop* loop = value.as_loop()) return static_cast<int64_t>(loop->items.size());
  fail("A value of type " + value.type_name() + " has no length.");
}

}  // namespace chimere::text::jinja
