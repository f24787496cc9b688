// The automata of strings and numbers.
#ifndef CHIMERE_CONSTRAINTS_JSON_SCHEMA_LEAVES_H_
#define CHIMERE_CONSTRAINTS_JSON_SCHEMA_LEAVES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/result.h"
#include "constraints/json_schema/alternatives.h"
#include "constraints/machine.h"
#include "constraints/regex.h"

namespace chimere::constraints::json_schema {

/// The value of a JSON string of which `raw` is the text between the quotes, or nullopt.
std::optional<std::string> decode_json_string(std::string_view raw);

/// A union of languages.
class UnionMachine final : public Machine {
 public:
  /// `strings`: the parts are JSON strings, which are accepted only behind a quote.
  UnionMachine(std::vector<Machine*> parts, bool strings)
      : parts_(std::move(parts)), strings_(strings) {
    states_.intern({});
  }
  State start() override;
  State next(State state, uint8_t byte) override;
  bool accepts(State state) override;
  std::optional<Inner> inner(State state) override;
  ByteSet first_bytes(State state) override;
  CharacterClasses stays(State state, int32_t length) override;
  size_t memory() const override { return memory_; }

  static constexpr size_t kMaxParts = 16;
  /// Bit i: part i has read the text so far; and accepts it. Of the first kMaxParts parts.
  uint32_t alive(State state) const;
  uint32_t accepting(State state) const;
  /// Part i and its state.
  Inner part(State state, size_t i) const;

 private:
  State intern(std::vector<uint32_t> states);

  std::vector<Machine*> parts_;
  bool strings_;
  Lists states_;  ///< a state for each part; 0: none is left
  size_t memory_ = 0;
};

/// The text between the quotes of a JSON string.
class StringBodyMachine final : public Machine {
 public:
  /// `strings`: any string, without its opening quote.
  explicit StringBodyMachine(std::unique_ptr<Machine> strings) : strings_(std::move(strings)) {}
  State start() override { return strings_->start(); }
  State next(State state, uint8_t byte) override;
  bool accepts(State state) override { return strings_->next(state, '"') != kDead; }
  uint64_t shared_key(State state) override;
  size_t memory() const override { return strings_->memory(); }
  /// Reads the closing quote, too; its states before the quote are this machine's.
  Machine& with_quote() { return *strings_; }

 private:
  std::unique_ptr<Machine> strings_;
};

/// Creates machines and keeps them.
class Leaves {
 public:
  /// `canonical`: JsonSchemaOptions::canonical.
  Leaves(RegexArena& arena, bool canonical) : arena_(arena), canonical_(canonical) {}

  /// JSON strings in one of the sets; nullptr: there are none. Errors: kUnsupported.
  Result<Machine*> strings(const std::vector<StringSet>& sets);
  /// The union of two or more machines, in ascending order.
  UnionMachine* unite(const std::vector<Machine*>& parts, bool strings);
  /// Whether the strings of the sets are listed.
  bool listed(const std::vector<StringSet>& sets) const;
  /// JSON numbers in one of the sets; nullptr: there are none. Errors: kUnsupported.
  Result<Machine*> numbers(const std::vector<NumberAlternative>& sets);
  /// Strings of a language, without their opening quote; nullptr: there are none.
  Result<Machine*> keys(Regex language);
  /// The text of any string between its quotes.
  StringBodyMachine& string_body();

  /// Whether a string belongs to the set.
  bool contains(const StringSet& set, std::string_view value);
  size_t memory() const;

 private:
  Result<Machine*> string_machine(const StringSet& set, bool opening_quote);
  Result<Machine*> number_machine(const NumberAlternative& set);

  RegexArena& arena_;
  bool canonical_;
  std::map<std::tuple<Regex, uint64_t, uint64_t, bool>, std::unique_ptr<Machine>> strings_;
  std::map<std::string, std::unique_ptr<Machine>> numbers_;
  std::map<std::vector<Machine*>, std::unique_ptr<UnionMachine>> unions_;
  std::unique_ptr<StringBodyMachine> body_;
};

}  // namespace chimere::constraints::json_schema

#endif  // CHIMERE_CONSTRAINTS_JSON_SCHEMA_LEAVES_H_
