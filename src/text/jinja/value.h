// The values of templates, which behave like Python's.
#ifndef CHIMERE_TEXT_JINJA_VALUE_H_
#define CHIMERE_TEXT_JINJA_VALUE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/budget.h"
#include "text/jinja/marked_text.h"

namespace chimere::text::jinja {

class Value;
class Dict;
struct List;
struct Iterable;
struct Namespace;
struct Loop;
struct Cycler;
struct Callable;
struct Scope;
struct Statement;

/// A missing name, key or attribute: empty when printed or looped over, an error to access.
struct Undefined {
  std::shared_ptr<const std::string> name;
};

/// Immutable and cheap to copy (namespaces alone can change). Lists and dictionaries nest at most
/// kMaxNesting deep; making deeper ones fails.
class Value {
 public:
  Value() : v_(Undefined{}) {}
  static Value undefined(std::string_view name);
  static Value none() { return Value(std::monostate{}); }
  static Value boolean(bool b) { return Value(b); }
  static Value integer(int64_t i) { return Value(i); }
  static Value real(double d) { return Value(d); }
  static Value string(MarkedText text);
  static Value string(std::string_view bytes, bool trusted) {
    return string(MarkedText(bytes, trusted));
  }
  static Value list(std::vector<Value> items);
  static Value tuple(std::vector<Value> items);
  /// A tuple whose members have the names `grouper` and `list`, too.
  static Value group(Value grouper, Value list);
  static Value dict(Dict dict);
  /// Requires a step that is not zero.
  static Value range(int64_t start, int64_t stop, int64_t step, Budget& budget);
  /// What can be gone through once.
  static Value generator(std::vector<Value> items, std::string error = "");
  static Value of(std::shared_ptr<Iterable> i) { return Value(std::move(i)); }
  static Value of(std::shared_ptr<Namespace> n) { return Value(std::move(n)); }
  static Value of(std::shared_ptr<Loop> l) { return Value(std::move(l)); }
  static Value of(std::shared_ptr<Cycler> c) { return Value(std::move(c)); }
  static Value of(std::shared_ptr<const Callable> c) { return Value(std::move(c)); }

  bool is_undefined() const { return holds<Undefined>(); }
  bool is_none() const { return holds<std::monostate>(); }
  bool is_bool() const { return holds<bool>(); }
  bool is_integer() const { return holds<int64_t>(); }  ///< not true of booleans
  bool is_real() const { return holds<double>(); }
  bool is_number() const { return is_bool() || is_integer() || is_real(); }
  bool is_string() const { return holds<StringPtr>(); }
  bool is_list() const { return holds<ListPtr>(); }  ///< lists and tuples
  bool is_dict() const { return holds<DictPtr>(); }

  /// These require the kind.
  bool as_bool() const { return std::get<bool>(v_); }
  int64_t as_integer() const { return is_bool() ? int64_t{as_bool()} : std::get<int64_t>(v_); }
  double as_real() const;  ///< of any number
  const MarkedText& as_text() const { return *std::get<StringPtr>(v_); }
  const std::string& as_bytes() const { return as_text().bytes(); }
  const List& as_list() const { return *std::get<ListPtr>(v_); }
  const Dict& as_dict() const { return *std::get<DictPtr>(v_); }
  const std::string& undefined_name() const;

  /// nullptr if it is another kind.
  Iterable* as_iterable() const;
  Namespace* as_namespace() const;
  Loop* as_loop() const;
  Cycler* as_cycler() const;
  const Callable* as_callable() const;

  /// The address of a shared object; nullptr: the value is compared by its content.
  const void* address() const;
  bool truth() const;
  int nesting() const;
  /// Python's name of the type, for messages.
  std::string type_name() const;

 private:
  using StringPtr = std::shared_ptr<const MarkedText>;
  using ListPtr = std::shared_ptr<const List>;
  using DictPtr = std::shared_ptr<const Dict>;
  using Storage =
      std::variant<Undefined, std::monostate, bool, int64_t, double, StringPtr, ListPtr, DictPtr,
                   std::shared_ptr<Iterable>, std::shared_ptr<Namespace>, std::shared_ptr<Loop>,
                   std::shared_ptr<Cycler>, std::shared_ptr<const Callable>>;
  explicit Value(Storage v) : v_(std::move(v)) {}
  template <typename T>
  bool holds() const {
    return std::holds_alternative<T>(v_);
  }
  Storage v_;
};

struct List {
  std::vector<Value> items;
  bool tuple = false;
  bool group = false;  ///< see Value::group
  int nesting = 1;
  bool can_be_key = false;  ///< a tuple of what can be keys
  int64_t leaves = 1;       ///< of a tuple that can be a key, tuples inside counted as they repeat
};

/// Whether Python could hash the value: all but lists, dictionaries and tuples of them.
bool can_be_key(const Value& value);

/// What is no list but can be looped over.
struct Iterable {
  enum class Kind {
    kRange,
    kKeys,  ///< of a dictionary, as are the next two
    kValues,
    kItems,
    kGenerator,  ///< what map, select and their like give: every item is given once
  };
  Kind kind = Kind::kGenerator;
  std::vector<Value> items;
  size_t given = 0;   ///< by a generator
  std::string error;  ///< what a generator fails with behind its items; empty: nothing
  int64_t start = 0;  ///< of a range, as are the next two
  int64_t stop = 0;
  int64_t step = 1;
  int nesting = 1;
};

/// Keeps the order of insertion. Keys are all that can_be_key.
class Dict {
 public:
  const std::vector<std::pair<Value, Value>>& entries() const { return entries_; }
  const Value* find(const Value& key) const;  ///< a key that cannot be one is never found
  const Value* find(std::string_view key) const;
  void set(const Value& key, Value value);  ///< fails for keys that cannot be one
  void set(std::string_view key, Value value) { set(Value::string(key, true), std::move(value)); }
  int nesting() const { return nesting_; }

 private:
  std::vector<std::pair<Value, Value>> entries_;
  std::unordered_map<std::string, size_t> index_;  ///< by the key's kind and bytes
  int nesting_ = 1;
};

struct Namespace {
  Dict members;
};

/// The variable `loop` inside a for.
struct Loop {
  std::vector<Value> items;
  std::string error;  ///< what a generator fails with behind its items; empty: nothing
  size_t index = 0;
  int depth = 1;
  bool has_changed_value = false;
  Value changed_value;
  /// Of a recursive loop, which can be called: its statement and the scope it stands in.
  const Statement* definition = nullptr;
  std::shared_ptr<Scope> scope;
};

/// What cycler() and joiner() make. A joiner is a cycler that is called: it gives an empty string
/// once and its separator from then on.
struct Cycler {
  std::vector<Value> items;
  size_t at = 0;
  bool joiner = false;
};

/// What can be called: a method bound to a value, a global function, a macro or its caller().
struct Callable {
  enum class Kind { kMethod, kGlobal, kMacro, kCaller };
  Kind kind = Kind::kGlobal;
  std::string name;
  Value self;  ///< of a method
  /// Of a macro or a caller: its definition and the scope it stands in, which lives as long as the
  /// evaluation.
  const Statement* definition = nullptr;
  Scope* scope = nullptr;
};

/// Python's str() and repr(). Every byte is charged to the budget.
void write_str(const Value& value, Budget& budget, MarkedText& out);
void write_repr(const Value& value, Budget& budget, MarkedText& out);
MarkedText to_text(const Value& value, Budget& budget);
/// Python's repr of a float: the shortest digits that read back as the same number.
std::string format_real(double d);

bool equal(const Value& a, const Value& b, Budget& budget);
/// Negative, zero, positive; fails for kinds that Python does not order.
int compare(const Value& a, const Value& b, Budget& budget);
/// Python's `a in b`.
bool contains(const Value& container, const Value& item, Budget& budget);
bool can_be_looped_over(const Value& value);
/// What a for loop goes through (a generator has nothing left then, and what it
/// fails with behind its items goes to `error`, if given); fails for kinds that cannot be looped
/// over.
std::vector<Value> elements(const Value& value, Budget& budget, std::string* error = nullptr);
/// len(); fails for kinds without one.
int64_t length(const Value& value);

}  // namespace chimere::text::jinja

#endif  // CHIMERE_TEXT_JINJA_VALUE_H_
