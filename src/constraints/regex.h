// Regular languages over Unicode text: hash-consed expressions and their derivatives.
#ifndef CHIMERE_CONSTRAINTS_REGEX_H_
#define CHIMERE_CONSTRAINTS_REGEX_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "constraints/code_points.h"
#include "constraints/length_set.h"

namespace chimere::constraints {

/// An expression of a RegexArena. Equal ids are equal languages (not conversely).
using Regex = uint32_t;

/// How parse() reads a pattern.
enum class RegexSyntax {
  kEcma262Search,  ///< ECMA-262 with the u flag; a text matches if some part of it does (JSON
                   ///< Schema)
  kEcma262Full,    ///< the same, but the whole text must match
  kGbnfClass,      ///< one character class of a GBNF grammar: [a-z\n] or [^"\\]
};

/// Owns expressions. An expression denotes a set of texts, that is sequences of Unicode characters
/// without surrogates; lengths count characters. Operations simplify, so that derivatives of an
/// expression are finitely many. Ids stay valid as long as the arena.
///
/// Not thread-safe. Brzozowski, "Derivatives of regular expressions" (1964); Antimirov (1996) for
/// unions; counted repeats keep their counters and are never unrolled.
class RegexArena {
 public:
  /// An upper bound that is none.
  static constexpr uint32_t kUnbounded = UINT32_MAX;
  /// Largest count of a repeat.
  static constexpr uint32_t kMaxCount = 1'000'000'000;

  RegexArena();
  ~RegexArena();
  RegexArena(const RegexArena&) = delete;
  RegexArena& operator=(const RegexArena&) = delete;

  /// Whether an expression became too large: what was built since is meaningless.
  bool exhausted() const;
  /// The empty language.
  Regex none() const { return 0; }
  /// The language of the empty text.
  Regex epsilon() const { return 1; }
  /// All texts.
  Regex any() const { return 2; }
  /// All texts of one character.
  Regex any_character() const { return 3; }

  /// One text; it must be valid UTF-8 (otherwise the empty language).
  Regex literal(std::string_view utf8);
  /// Any one of the texts; those that are not valid UTF-8 are dropped. 10,000 texts cost
  /// milliseconds.
  Regex words(std::vector<std::string> texts);
  Regex characters(const CodePointSet& set);
  Regex concat(Regex a, Regex b);
  Regex concat(std::span<const Regex> parts);
  Regex unite(Regex a, Regex b);
  Regex unite(std::span<const Regex> parts);
  Regex intersect(Regex a, Regex b);
  Regex intersect(std::span<const Regex> parts);
  /// All texts that are not in the language of a.
  Regex complement(Regex a);
  /// min to max times a; max may be kUnbounded. Costs the same for all bounds.
  Regex repeat(Regex a, uint32_t min, uint32_t max);
  /// All texts of min to max characters; max may be kUnbounded.
  Regex length(uint32_t min, uint32_t max) { return repeat(any_character(), min, max); }

  /// The texts of a that begin with a character of the set.
  Regex begin_with(Regex a, const CodePointSet& set);
  /// The texts of a that end with a character of the set.
  Regex end_with(Regex a, const CodePointSet& set);

  /// The language of a pattern. Errors: kInvalidArgument for a malformed pattern, kUnsupported for
  /// a construct that this library does not express (back references, some look-around inside
  /// repeats, script properties); both name the construct and its offset in characters.
  Result<Regex> parse(std::string_view pattern, RegexSyntax syntax);

  /// The texts that continue `code` to a text of a.
  Regex derive(Regex a, uint32_t code);
  /// Whether the empty text belongs to the language.
  bool accepts(Regex a) const;
  bool matches(Regex a, std::string_view utf8);

  /// What derive() returns for every character: target of the characters from `first` up to the
  /// next segment's. The first segment begins at 0; surrogates lead to none(). Valid until the next
  /// call of a non-const function.
  struct Segment {
    uint32_t first = 0;
    Regex target = 0;
  };
  std::span<const Segment> segments(Regex a);

  /// Decides which derivatives of a are empty, as alive() needs. Expressions without
  /// intersection and complement need no work. Error kUnsupported: these parts of the expression
  /// have more than kMaxExplored derivatives.
  Status prepare(Regex a);
  /// Most derivatives of the intersections and complements of an expression that prepare()
  /// explores.
  static constexpr size_t kMaxExplored = 20'000;
  /// From now on each exploration has its limit, but not all of them together: what a document
  /// needs is part of the work of its generation (work.h).
  void limit_single_explorations();
  /// Whether the language is not empty, for a prepared expression and derivatives of one.
  bool alive(Regex a);
  /// Length of the shortest text of a prepared expression; UINT64_MAX if there is none.
  uint64_t shortest(Regex a);
  /// Whether the language is empty. Errors like prepare().
  Result<bool> empty(Regex a);
  /// Whether every text of a is one of b. Errors like prepare().
  Result<bool> subset(Regex a, Regex b);

  /// The first `limit` texts of the language in order of length; fewer if the language has fewer.
  /// Errors like prepare().
  Result<std::vector<std::string>> enumerate(Regex a, size_t limit);
  /// All texts if there are at most `limit`; nullopt if there are more. Errors like prepare().
  Result<std::optional<std::vector<std::string>>> finite(Regex a, size_t limit);

  /// The lengths in characters of the texts of a prepared expression, if they follow from its
  /// structure; nullopt: not known without exploring it.
  std::optional<LengthSet> lengths(Regex a);
  /// Splits the intersection of a with a window of lengths: returns an expression b and bounds such
  /// that a = b & length(min, max). Bounds are 0 and kUnbounded where there are none.
  struct Window {
    Regex language = 0;
    uint32_t min = 0;
    uint32_t max = kUnbounded;
  };
  Window window(Regex a);
  /// Whether a contains no intersection and no complement.
  bool positive(Regex a) const;
  /// An upper bound of the lengths of the shortest texts of all live derivatives of a; nullopt:
  /// not known.
  std::optional<uint64_t> longest_way(Regex a);

  /// Whether every text, whatever it is, can be continued to one of a. May miss it.
  bool open_ended(Regex a) const;
  /// Whether a is built from words() alone: a list of texts.
  bool is_words(Regex a) const;
  /// A number that equal expressions of different arenas of this process share, and others, up to
  /// collisions of 64 bits with a secret seed, do not.
  uint64_t fingerprint(Regex a) const;

  size_t memory() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_REGEX_H_
