#include "constraints/json_schema/values.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "constraints/decimal.h"

namespace chimere::constraints::json_schema {

namespace {

/// Builds values from the events of nlohmann's parser, which keeps its own stack.
class ValueBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit ValueBuilder(Values& values) : values_(values) {}

  bool null() override { return scalar(ValueType::kNull); }
  bool boolean(bool value) override { return scalar(value ? ValueType::kTrue : ValueType::kFalse); }
  bool number_integer(int64_t value) override { return number(std::to_string(value)); }
  bool number_unsigned(uint64_t value) override { return number(std::to_string(value)); }
  bool number_float(double /*val*/, const std::string& text) override { return number(text); }
  // The names of the base class.
  // NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name)
  bool string(std::string& text) override {
    JsonValue value;
    value.type = ValueType::kString;
    value.text = values_.symbol(text);
    return add(std::move(value));
  }
  bool binary(nlohmann::json::binary_t& /*val*/) override { return false; }
  bool start_object(size_t /*elements*/) override {
    open_.emplace_back();
    open_.back().value.type = ValueType::kObject;
    return true;
  }
  bool key(std::string& text) override {
    open_.back().key = values_.symbol(text);
    return true;
  }
  bool end_object() override {
    Open done = std::move(open_.back());
    open_.pop_back();
    auto& members = done.members;
    std::vector<Symbol> order;
    for (const auto& [name, value] : members) order.push_back(name);
    std::stable_sort(members.begin(), members.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (size_t i = 0; i < members.size(); ++i) {
      if (i + 1 < members.size() && members[i].first == members[i + 1].first) continue;
      done.value.keys.push_back(members[i].first);
      done.value.items.push_back(members[i].second);
    }
    const ValueId id = values_.intern(std::move(done.value));
    if (!std::ranges::is_sorted(order)) values_.set_written_order(id, std::move(order));
    return place(id);
  }
  bool start_array(size_t /*elements*/) override {
    open_.emplace_back();
    open_.back().value.type = ValueType::kArray;
    return true;
  }
  bool end_array() override {
    JsonValue value = std::move(open_.back().value);
    open_.pop_back();
    return add(std::move(value));
  }
  bool parse_error(size_t position, const std::string& /*last_token*/,
                   const nlohmann::json::exception& /*ex*/) override {
    error_at_ = position;
    return false;
  }

  ValueId root() const { return root_; }
  size_t error_at() const { return error_at_; }

 private:
  struct Open {
    JsonValue value;
    Symbol key = 0;
    std::vector<std::pair<Symbol, ValueId>> members;
  };

  bool scalar(ValueType type) {
    JsonValue value;
    value.type = type;
    return add(std::move(value));
  }
  bool number(const std::string& text) {
    const auto decimal = Decimal::parse(text);
    if (!decimal) return false;
    JsonValue value;
    value.type = ValueType::kNumber;
    value.text = values_.symbol(decimal->text());
    return add(std::move(value));
  }
  bool add(JsonValue value) { return place(values_.intern(std::move(value))); }
  bool place(ValueId id) {
    if (open_.empty()) {
      root_ = id;
    } else if (open_.back().value.type == ValueType::kArray) {
      open_.back().value.items.push_back(id);
    } else {
      open_.back().members.emplace_back(open_.back().key, id);
    }
    return true;
  }

  Values& values_;
  std::vector<Open> open_;
  ValueId root_ = kNone;
  size_t error_at_ = 0;
};

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15ULL;
  return hash ^ (hash >> 29);
}

uint64_t hash_of(const JsonValue& value) {
  uint64_t hash = mix(static_cast<uint64_t>(value.type) + 1, value.text);
  for (const Symbol key : value.keys) hash = mix(hash, key);
  for (const ValueId item : value.items) hash = mix(hash, item);
  return hash;
}

}  // namespace

Values::Values() { symbol(""); }

Result<ValueId> Values::parse(std::string_view json) {
  ValueBuilder builder(*this);
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &builder) || builder.root() == kNone) {
    return invalid_argument("JSON schema: not valid JSON (at byte " +
                            std::to_string(builder.error_at()) + ")");
  }
  return builder.root();
}

Symbol Values::symbol(std::string_view text) {
  if (const auto found = symbols_.find(text); found != symbols_.end()) return found->second;
  const auto id = static_cast<Symbol>(texts_.size());
  texts_.emplace_back(text);
  symbols_.emplace(texts_.back(), id);
  memory_ += sizeof(std::string) + text.size() + 48;
  return id;
}

Symbol Values::find_symbol(std::string_view text) const {
  const auto found = symbols_.find(text);
  return found == symbols_.end() ? kNone : found->second;
}

ValueId Values::intern(JsonValue value) {
  const uint64_t hash = hash_of(value);
  const auto [begin, end] = index_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    if (values_[it->second] == value) return it->second;
  }
  const auto id = static_cast<ValueId>(values_.size());
  memory_ += sizeof(JsonValue) + 4 * (value.keys.size() + value.items.size()) + 48;
  values_.push_back(std::move(value));
  index_.emplace(hash, id);
  return id;
}

const std::vector<Symbol>& Values::written_order(ValueId object) const {
  const auto found = orders_.find(object);
  return found != orders_.end() ? found->second : values_[object].keys;
}

void Values::set_written_order(ValueId object, std::vector<Symbol> keys) {
  memory_ += 4 * keys.size() + 48;
  orders_.emplace(object, std::move(keys));
}

ValueId Values::member(ValueId object, Symbol key) const {
  if (object == kNone || key == kNone) return kNone;
  const JsonValue& value = values_[object];
  if (value.type != ValueType::kObject) return kNone;
  const auto found = std::lower_bound(value.keys.begin(), value.keys.end(), key);
  if (found == value.keys.end() || *found != key) return kNone;
  return value.items[static_cast<size_t>(found - value.keys.begin())];
}

}  // namespace chimere::constraints::json_schema
