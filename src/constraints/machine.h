// The interface of the automata that constrained output is made of.
#ifndef CHIMERE_CONSTRAINTS_MACHINE_H_
#define CHIMERE_CONSTRAINTS_MACHINE_H_

#include <cstddef>
#include <cstdint>
#include <optional>

namespace chimere::constraints {

/// A state of a Machine. Equal ids of one machine are equal states.
using State = uint32_t;
/// No text of the language begins with the bytes read so far.
inline constexpr State kDead = 0;

/// A language of byte strings, as a deterministic automaton whose states are created when they are
/// reached. From every state but kDead an accepting state can be reached: an automaton never leads
/// into a dead end. A state is a value: keeping, copying and returning to one costs nothing.
///
/// Not thread-safe; a Constraint calls its machines under a lock.
class Machine {
 public:
  virtual ~Machine();

  virtual State start() = 0;
  /// The state after one more byte; kDead if no text of the language continues so.
  virtual State next(State state, uint8_t byte) = 0;
  /// Whether the bytes read so far are a text of the language.
  virtual bool accepts(State state) = 0;

  /// A machine inside this one that reads the next bytes, and its state. What the outer machine
  /// allows is then what the inner one allows, plus what follows the inner one's accepting states.
  /// Token masks of inner states are computed once for all outer states.
  struct Inner {
    Machine* machine = nullptr;
    State state = kDead;
  };
  virtual std::optional<Inner> inner(State /*state*/) { return std::nullopt; }

  /// A state with the same token mask: equal to `state` for texts of up to `longest` bytes.
  /// Counters that are far from their bounds share one.
  virtual State mask_class(State state, int32_t /*longest*/) { return state; }

  /// Identifies the language that follows `state` in all machines of the process, so that masks are
  /// shared between constraints; 0: unknown.
  virtual uint64_t shared_key(State /*state*/) { return 0; }

  /// Bytes of memory that the states take.
  virtual size_t memory() const = 0;
};

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_MACHINE_H_
