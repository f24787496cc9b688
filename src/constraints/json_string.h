// The automaton of JSON strings whose values lie in a regular language.
#ifndef CHIMERE_CONSTRAINTS_JSON_STRING_H_
#define CHIMERE_CONSTRAINTS_JSON_STRING_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/result.h"
#include "constraints/machine.h"
#include "constraints/regex.h"

namespace chimere::constraints {

/// JSON strings (RFC 8259) with both quotes. Values are compared after decoding: every character
/// may be written raw or as any of its escapes. Raw control characters, invalid UTF-8 and lone
/// surrogates do not belong to the language.
class JsonStringMachine final : public Machine {
 public:
  struct Options {
    /// Bounds of the number of characters (code points) of the value.
    uint64_t min_length = 0;
    uint64_t max_length = UINT64_MAX;
    /// Whether the opening quote belongs to the text; false: it was read before.
    bool opening_quote = true;
    /// Whether characters are escaped only where JSON requires it, in their shortest form.
    bool canonical = false;
  };

  /// Strings whose value lies in `language` and in the bounds. For an enumeration pass
  /// arena.words(...). `arena` must outlive the machine. Errors: kInvalidArgument if no string is
  /// left; kUnsupported if RegexArena::prepare() refuses the language, or if its lengths together
  /// with both bounds take too much work.
  static Result<std::unique_ptr<JsonStringMachine>> create(RegexArena& arena, Regex language,
                                                           const Options& options);
  static Result<std::unique_ptr<JsonStringMachine>> create(RegexArena& arena, Regex language) {
    return create(arena, language, Options());
  }
  ~JsonStringMachine() override;

  State start() override;
  State next(State state, uint8_t byte) override;
  bool accepts(State state) override;
  ByteSet first_bytes(State state) override;
  State mask_class(State state, int32_t longest) override;
  CharacterClasses stays(State state, int32_t length) override;
  uint64_t shared_key(State state) override;
  size_t memory() const override;

 private:
  struct Impl;
  explicit JsonStringMachine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_JSON_STRING_H_
