// Open objects and arrays of a document that is being written.
#ifndef CHIMERE_CONSTRAINTS_JSON_SCHEMA_FRAMES_H_
#define CHIMERE_CONSTRAINTS_JSON_SCHEMA_FRAMES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "constraints/json_schema/declared_properties.h"
#include "constraints/json_schema/expansion.h"
#include "constraints/json_schema/leaves.h"
#include "constraints/json_schema/liveness.h"
#include "constraints/json_schema/property_order.h"

namespace chimere::constraints::json_schema {

using FrameId = uint32_t;
/// What is outside of the document.
inline constexpr FrameId kRootFrame = 0;

/// A record that an open object or array satisfies so far.
struct Candidate {
  RecordId record = 0;
  GoalId goal = 0;        ///< of the frame's value, that it is an alternative of
  uint32_t progress = 0;  ///< bits of ObjectProgress::done, or an index of Liveness::lists()
  bool operator==(const Candidate&) const = default;
};

/// An open object or array, immutable. Every candidate can be completed.
struct Frame {
  bool object = false;
  FrameId parent = kRootFrame;
  uint32_t depth = 0;  ///< brackets that are open
  std::vector<Candidate> candidates;
  uint32_t seen = 0;   ///< Liveness::lists(): keys of an object, ascending
  uint64_t items = 0;  ///< of an array; saturated where more make no difference
  Symbol key = kNone;  ///< of the property whose value is read
  /// Whether the values of its properties or items are kept in `values` (of lists(), in the order
  /// of `seen` or of the items): some record needs to compare them.
  bool keeps = false;
  uint32_t values = 0;
  uint32_t goals = kNone;  ///< Liveness::lists(): goals of the value that is read
  bool operator==(const Frame&) const = default;
};

struct FrameHash {
  uint64_t operator()(const Frame& frame) const;
};

/// How a value may begin that has to satisfy one of several goals, and which goals the simple ones
/// satisfy (indexes of Liveness::lists(); kNone: not allowed).
struct ValueStart {
  uint32_t null = kNone, yes = kNone, no = kNone;
  Machine* strings = nullptr;
  Machine* numbers = nullptr;
  /// The goals that every string or number of the machines satisfies; kNone: it depends on the
  /// value.
  uint32_t string_goals = kNone, number_goals = kNone;
  /// If it depends on which part of a union accepts: the machine again, and goals by part.
  UnionMachine* string_union = nullptr;
  UnionMachine* number_union = nullptr;
  std::vector<std::vector<GoalId>> string_parts, number_parts;
  std::vector<std::pair<GoalId, const Alternatives*>> goals;
  std::vector<Candidate> objects, arrays;
};

/// What may follow in an object when no property is open.
struct KeyOptions {
  uint32_t closing = kNone;     ///< goals that the object satisfies if it ends here; kNone: it may
                                ///< not end
  std::vector<Symbol> named;    ///< allowed keys, ordered by text
  bool any_other = false;       ///< and every other key that is not named and not seen
  bool ordered = false;         ///< only keys in the order of declaration
  bool uniform = false;         ///< with the same goals for all of these, and those of `others`
  std::vector<Symbol> special;  ///< with `uniform`: keys that are read as others and that these
                                ///< goals are not for, ordered by text
  Machine* others = nullptr;    ///< or the other keys of this machine
  bool any() const { return !named.empty() || any_other || others != nullptr; }
};

/// Creates frames. All results are kept.
class Frames {
 public:
  /// `declared`: nullptr: objects may have other properties than their schema declares. `order`:
  /// nullptr: they may have them in any order.
  Frames(Expander& expander, Liveness& liveness, Leaves& leaves, DeclaredProperties* declared,
         PropertyOrder* order, GoalId root);

  const Frame& operator[](FrameId id) const { return frames_[id]; }
  uint32_t size() const { return frames_.size(); }

  const ValueStart& start(FrameId pending);
  FrameId open_object(FrameId pending);
  FrameId open_array(FrameId pending);

  const KeyOptions& key_options(FrameId object);
  /// The frame that reads the value of a key; kNone if the key is not allowed.
  FrameId with_key(FrameId object, Symbol key);

  /// The goals that an array satisfies if it ends here; kNone: it may not end.
  uint32_t array_closing(FrameId array);
  /// The frame that reads a further item; kNone if there may be none.
  FrameId with_item(FrameId array);

  /// The frame after its value, which satisfies these goals. Not for kRootFrame. `value`: the value
  /// itself if keeps_value().
  FrameId finish(FrameId pending, uint32_t satisfied, ValueId value);
  bool keeps_value(FrameId pending) const { return frames_[pending].keeps; }
  /// Whether values of the frame are compared with values of the schema.
  bool compares_with_constants(FrameId id) const;
  /// The value of an open object or array that keeps its values.
  ValueId value_of(FrameId id);

  /// The goals of a frame's value that a string or a number satisfies.
  uint32_t goals_of_string(FrameId pending, std::string_view value);
  uint32_t goals_of_number(FrameId pending, std::string_view value);

  /// The same, by the parts of a union that accept (bits).
  uint32_t goals_of_parts(const std::vector<std::vector<GoalId>>& parts, uint32_t accepting);

  size_t memory() const { return memory_; }

 private:
  void find_key_options(const Frame& frame, KeyOptions& out);
  bool divide_other_keys(const Frame& frame, KeyOptions& out);
  FrameId intern(Frame frame);
  ObjectProgress progress(const Frame& frame, const Candidate& candidate) {
    return {liveness_.lists()[frame.seen], candidate.progress, &liveness_.lists()[frame.values]};
  }
  ArrayProgress array_progress(const Frame& frame, const Candidate& candidate) {
    return {frame.items, candidate.progress, &liveness_.lists()[frame.values]};
  }
  bool compares(const Frame& frame) const;
  uint32_t list(std::vector<uint32_t> items);

  Expander& expander_;
  Liveness& liveness_;
  Leaves& leaves_;
  DeclaredProperties* declared_;
  PropertyOrder* order_;
  Interner<Frame, FrameHash> frames_;
  std::unordered_map<uint32_t, std::unique_ptr<ValueStart>> starts_;
  std::unordered_map<FrameId, std::unique_ptr<KeyOptions>> key_options_;
  std::unordered_map<uint64_t, FrameId> with_key_;
  std::map<std::tuple<FrameId, uint32_t, ValueId>, FrameId> finished_;
  std::unordered_map<FrameId, FrameId> with_item_;
  std::unordered_map<FrameId, uint32_t> array_closing_;
  size_t memory_ = 0;
};

}  // namespace chimere::constraints::json_schema

#endif  // CHIMERE_CONSTRAINTS_JSON_SCHEMA_FRAMES_H_
