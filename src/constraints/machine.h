// The interface of the automata that constrained output is made of.
#ifndef CHIMERE_CONSTRAINTS_MACHINE_H_
#define CHIMERE_CONSTRAINTS_MACHINE_H_

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "constraints/character_class.h"
#include "constraints/work.h"

namespace chimere::constraints {

/// A state of a Machine. Equal ids of one machine are equal states.
using State = uint32_t;
/// No text of the language begins with the bytes read so far.
inline constexpr State kDead = 0;

/// What is asked of a state after each token.
struct StateFacts {
  bool accepts = false;
  bool ends = false;      ///< accepts, and no text continues
  bool forced = false;    ///< every text continues with the same byte, and none ends
  bool expected = false;  ///< the same but for white space and escapes (Matcher::expected())
};

using ByteSet = std::bitset<256>;

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
    /// What the outer machine allows after a text of the inner one depends only on the accepting
    /// state that the text leads to, except for `exceptions`. Without it, the outer machine is
    /// walked through every such text.
    bool uniform = false;
    /// Bytes that the inner machine can read after an accepting state may be read by what follows
    /// it as well: the outer machine is walked by itself. Otherwise the inner machine alone reads
    /// them.
    bool overlaps = false;
    /// With `uniform`: after() has to be known, and what follows a text of the inner machine may
    /// depend on whether a whole string behind it is the same; tokens with one are read to the end.
    bool compares = false;
    /// Nothing follows the texts of the inner machine: what it allows from `state` is what the
    /// outer one allows.
    bool last = false;
    /// Texts from `state` after which the outer machine is walked by itself: texts that the inner
    /// machine accepts and the outer one continues in another way or not at all (names of declared
    /// properties, names that were seen already), and texts that only the outer one reads. Only
    /// those that the bytes read so far still allow are listed; most states have none.
    std::vector<std::string> exceptions;
  };
  /// Called once for each new token mask.
  virtual std::optional<Inner> inner(State /*state*/) { return std::nullopt; }

  /// With Inner::uniform: a state that allows what this machine allows in `state` behind a text
  /// that is none of the exceptions and that leads the inner machine to `accepting`; kDead: not
  /// known, or nothing. The bytes that the inner machine reads from `accepting` do not count.
  virtual State after(State /*state*/, State /*accepting*/) { return kDead; }

  /// Classes of characters such that every text of up to `length` bytes of them can be read from
  /// the state, and either no beginning of the text is accepted or each is. May leave classes out.
  virtual CharacterClasses stays(State state, int32_t length);

  /// A superset of the bytes that next() does not refuse, if that is cheap to tell. Saves calls of
  /// next() for new states.
  virtual ByteSet first_bytes(State /*state*/) { return ByteSet().set(); }

  /// A state that allows the same texts of up to `longest` bytes, for any `longest`. Counters that
  /// are far from their bounds share one.
  virtual State mask_class(State state, int32_t /*longest*/) { return state; }

  /// Counts the work of new states in `meter`, which outlives the machine, from now on. When it is
  /// exhausted, next() answers kDead for states that are not known, and remembers nothing of it.
  virtual void count_work(WorkMeter& /*meter*/) {}

  /// Identifies the language that follows `state` in all machines of the process, so that masks are
  /// shared between constraints; 0: unknown.
  virtual uint64_t shared_key(State /*state*/) { return 0; }

  /// An error if a state could not be computed within its budgets. States that were reached since
  /// may be wrong: the generation must end with the error.
  virtual Status status() const { return {}; }

  /// Bytes of memory that the states take.
  virtual size_t memory() const = 0;
};

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_MACHINE_H_
