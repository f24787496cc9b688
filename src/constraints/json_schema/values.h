// JSON values as ids: equal ids are equal values.
#ifndef CHIMERE_CONSTRAINTS_JSON_SCHEMA_VALUES_H_
#define CHIMERE_CONSTRAINTS_JSON_SCHEMA_VALUES_H_

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"

namespace chimere::constraints::json_schema {

/// A string of a Values table.
using Symbol = uint32_t;
/// A value of a Values table.
using ValueId = uint32_t;
inline constexpr uint32_t kNone = 0xFFFFFFFF;

enum class ValueType : uint8_t { kNull, kFalse, kTrue, kNumber, kString, kArray, kObject };

/// An immutable JSON value. Numbers are equal by value, objects in any order of their keys.
struct JsonValue {
  ValueType type = ValueType::kNull;
  Symbol text = 0;             ///< of a string; of a number Decimal::text()
  std::vector<Symbol> keys;    ///< of an object, ascending
  std::vector<ValueId> items;  ///< of an array, or of the keys
  bool operator==(const JsonValue&) const = default;
};

/// Strings and values, each stored once.
class Values {
 public:
  Values();
  Values(const Values&) = delete;
  Values& operator=(const Values&) = delete;

  /// Reads a JSON text, without recursion. The last of equal keys counts. Errors:
  /// kInvalidArgument.
  Result<ValueId> parse(std::string_view json);

  Symbol symbol(std::string_view text);
  /// kNone if no value has this string.
  Symbol find_symbol(std::string_view text) const;
  const std::string& text(Symbol symbol) const { return texts_[symbol]; }

  ValueId intern(JsonValue value);
  /// The keys of an object in the order in which a text that was parsed has them; ascending if none
  /// has.
  const std::vector<Symbol>& written_order(ValueId object) const;
  void set_written_order(ValueId object, std::vector<Symbol> keys);
  const JsonValue& operator[](ValueId id) const { return values_[id]; }

  /// The value of a key; kNone if `object` is none or lacks it.
  ValueId member(ValueId object, Symbol key) const;
  ValueId member(ValueId object, std::string_view key) const {
    return member(object, find_symbol(key));
  }
  size_t memory() const { return memory_; }

 private:
  struct ViewHash {
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  std::deque<std::string> texts_;
  std::unordered_map<std::string_view, Symbol, ViewHash> symbols_;
  std::deque<JsonValue> values_;
  std::unordered_multimap<uint64_t, ValueId> index_;
  std::unordered_map<ValueId, std::vector<Symbol>> orders_;  ///< those that are not ascending
  size_t memory_ = 0;
};

}  // namespace chimere::constraints::json_schema

#endif  // CHIMERE_CONSTRAINTS_JSON_SCHEMA_VALUES_H_
