// Constrained generation: what a request asks for, its compiled form, and the state of a
// generation.
#ifndef CHIMERE_CONSTRAINTS_CONSTRAINT_H_
#define CHIMERE_CONSTRAINTS_CONSTRAINT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "constraints/grammar.h"
#include "constraints/token_trie.h"
#include "constraints/work.h"
#include "text/reasoning_tags.h"

namespace chimere::constraints {

/// A text that begins or ends something, or a control token that does. A token of the vocabulary
/// that has text (user-defined ones) is recognised by its text.
struct Delimiter {
  std::string text;
  int32_t token = -1;  ///< a control token; -1: none. With a token, `text` is not looked at.
};

/// Reasoning before the content. Everything is allowed in it but the end of the generation.
struct ReasoningSpec {
  Delimiter open;
  Delimiter close;
  /// The prompt ends inside reasoning. Otherwise reasoning may begin with `open`.
  bool inside = false;
};

/// Reasoning between the tags of a model.
ReasoningSpec reasoning_spec(const text::ReasoningTags& tags, bool inside);

struct JsonSchemaSpec {
  std::string schema;  ///< JSON text
};
struct JsonObjectSpec {};
struct RegexSpec {
  std::string pattern;  ///< ECMA-262; matches as a whole
};
struct GbnfSpec {
  std::string text;  ///< llama.cpp's format; the root rule is `root`
};
struct ChoicesSpec {
  std::vector<std::string> texts;
};

/// Text in which triggers switch to grammars: tool calls. No trigger occurs in the text without a
/// text of its grammar behind it.
struct TriggeredSpec {
  struct Trigger {
    Delimiter begin;  ///< <tool_call>
    Grammar body;     ///< what follows `begin`, with the closing tag
    /// Only at the beginning of the content, behind white space.
    bool at_start = false;
  };
  std::vector<Trigger> triggers;
  /// What the text contains nowhere: closing tags. None begins with or is part of a trigger.
  std::vector<std::string> excluded;
  bool text_before = true;  ///< other text than white space may stand before the first call
  bool text_after = false;  ///< and behind a call
  int32_t min_calls = 0;    ///< the generation ends only after that many
  int32_t max_calls = -1;   ///< -1: any number
};

struct ConstraintSpec {
  std::variant<JsonObjectSpec, JsonSchemaSpec, RegexSpec, GbnfSpec, ChoicesSpec, Grammar,
               TriggeredSpec>
      content;
  std::optional<ReasoningSpec> reasoning;

  /// A text that is equal for equal specifications only.
  std::string key() const;
};

class Automaton;
class Matcher;

/// A compiled ConstraintSpec. Immutable from outside and thread-safe: all requests with the same
/// specification share one.
class Constraint {
 public:
  /// Errors: kInvalidArgument, kUnsupported, with a sentence that names the place (the JSON pointer
  /// of a schema, line and column of a grammar). Takes bounded time and memory for any input: a
  /// specification that takes more than kWorkPerCompilation is refused. `when_slow` is called, once
  /// at most, where it takes more than kWorkPerQuickCompilation.
  static Result<std::shared_ptr<Constraint>> compile(const ConstraintSpec& spec,
                                                     std::shared_ptr<const TokenTrie> trie,
                                                     const std::function<void()>& when_slow = {});
  Constraint(const Constraint&) = delete;
  Constraint& operator=(const Constraint&) = delete;

  /// The state before the first token of a generation.
  Matcher matcher();
  const TokenTrie& trie() const;
  /// Bytes of memory.
  size_t memory() const;

 private:
  explicit Constraint(std::shared_ptr<Automaton> automaton);

  std::shared_ptr<Automaton> automaton_;
};

/// The state of one generation under a Constraint. A copy is a fork. One thread at a time uses an
/// object; different matchers of one constraint may be used at the same time.
class Matcher {
 public:
  /// Whether every token but those that end a generation is allowed now, as inside reasoning.
  bool unconstrained();
  /// Bit t of word t / 32: whether token t may come next. Tokens that end a generation are allowed
  /// exactly when complete(). Valid until the next call of a function that is not const. Free if
  /// nothing was accepted or rolled back since the last call.
  std::span<const uint32_t> mask();
  /// Computes mask() and unconstrained() unless that takes more than `units` of work; false then.
  bool prepare(uint64_t units);
  /// While anyone holds one, calls of all matchers of this constraint may wait for prepare() on
  /// another thread.
  std::shared_ptr<const int> lease() const;
  bool leased() const;
  /// Whether `token` may come next. Costs a few operations for each of its bytes.
  bool allows(int32_t token);
  /// Appends a token. False, and no change, if it is not allowed.
  bool accept(int32_t token);
  /// Takes the last `tokens` accepted tokens back.
  void rollback(int32_t tokens);
  /// Whether the text so far is complete: the generation may end.
  bool complete();
  /// Whether nothing but the end of the generation is allowed (or a token has ended it). False
  /// after an error of status(), which the generation must end with.
  bool finished();
  /// Bytes that every continuation begins with, at most `limit`; without the symbols of control
  /// tokens. Empty if complete().
  std::string forced(size_t limit = 256);
  /// The same with guesses where only white space or an escape leaves a choice: a space after a
  /// colon or comma if one may stand there, otherwise none; no escape. May be the token_symbol() of
  /// a control token.
  std::string expected(size_t limit = 256);
  /// Where in `bytes`, which may follow, a token can begin that is allowed and ends after them;
  /// ascending offsets, the last one is the size of `bytes`. Empty after an error.
  std::vector<size_t> last_boundaries(std::string_view bytes);
  /// Memory for so many tokens, so that accept() seldom allocates.
  void reserve(size_t tokens) { states_.reserve(tokens + 1); }
  /// Number of tokens accepted and not taken back.
  int32_t accepted() const { return static_cast<int32_t>(states_.size()) - 1; }
  /// kOutOfMemory if the states of the constraint have outgrown their budget, kUnsupported if this
  /// generation took too much work (constraints/work.h) or needs a byte that no token begins with:
  /// the request must end with this error. From then on nothing but the end of the generation is
  /// allowed. Other generations continue.
  Status status() const { return status_; }

 private:
  friend class Constraint;
  explicit Matcher(std::shared_ptr<Automaton> automaton);
  State state() const { return states_.back(); }
  /// Of the state, which is not kDead.
  const StateFacts& facts();
  void fail(Status status);
  /// After a call of the automaton. False if it took too much work: its result is not valid.
  bool within_budget();

  std::shared_ptr<Automaton> automaton_;
  WorkBudget budget_;
  std::vector<State> states_;  ///< after each token; kDead: the generation has ended
  std::vector<uint32_t> mask_;
  State mask_state_ = kDead;  ///< that mask_ belongs to
  bool mask_valid_ = false;
  size_t stuck_ = 0;  ///< of states_, where status_ says that no token can follow; 0: nowhere
  StateFacts facts_;
  State facts_state_ = kDead;  ///< that facts_ belongs to
  bool unconstrained_ = false;
  State unconstrained_state_ = kDead;  ///< that unconstrained_ belongs to
  Status status_;
};

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_CONSTRAINT_H_
