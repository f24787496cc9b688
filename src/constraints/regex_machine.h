// The automaton of a regular expression over UTF-8 bytes.
#ifndef CHIMERE_CONSTRAINTS_REGEX_MACHINE_H_
#define CHIMERE_CONSTRAINTS_REGEX_MACHINE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/result.h"
#include "constraints/machine.h"
#include "constraints/regex.h"

namespace chimere::constraints {

/// The texts of a regular language as they are, in UTF-8.
class RegexMachine final : public Machine {
 public:
  /// `arena` must outlive the machine. Errors: an empty language (kInvalidArgument); one that
  /// RegexArena::prepare() refuses.
  static Result<std::unique_ptr<RegexMachine>> create(RegexArena& arena, Regex language);
  ~RegexMachine() override;

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
  explicit RegexMachine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_REGEX_MACHINE_H_
