// The states of a JSON document that is written under a schema.
#ifndef CHIMERE_CONSTRAINTS_JSON_SCHEMA_WRITER_H_
#define CHIMERE_CONSTRAINTS_JSON_SCHEMA_WRITER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "constraints/json_schema.h"
#include "constraints/json_schema/declared_properties.h"
#include "constraints/json_schema/expansion.h"
#include "constraints/json_schema/frames.h"
#include "constraints/json_schema/key_reader.h"
#include "constraints/json_schema/layout.h"
#include "constraints/json_schema/leaves.h"
#include "constraints/json_schema/liveness.h"
#include "constraints/json_schema/node.h"
#include "constraints/json_schema/values.h"
#include "constraints/regex.h"

namespace chimere::constraints::json_schema {

inline constexpr std::array<std::string_view, 3> kLiterals = {"null", "true", "false"};

/// Bytes that were read, as a chain: equal texts have equal ids.
class ReadTexts {
 public:
  static constexpr uint32_t kEmpty = 0;
  ReadTexts() : bytes_(1) {}
  uint32_t append(uint32_t text, uint8_t byte);
  std::string text(uint32_t id) const;
  size_t memory() const { return bytes_.size() * 64; }

 private:
  struct Byte {
    uint32_t before = 0;
    uint8_t byte = 0;
  };
  std::vector<Byte> bytes_;
  std::unordered_map<uint64_t, uint32_t> index_;
};

class Writer final : public JsonSchemaMachine {
 public:
  static Result<std::unique_ptr<Writer>> create(std::string_view schema,
                                                const JsonSchemaOptions& options);

  State start() override { return start_; }
  State next(State from, uint8_t byte) override;
  bool accepts(State state) override;
  std::optional<Inner> inner(State state) override;
  State after(State state, State accepting) override;
  CharacterClasses stays(State /*state*/, int32_t /*length*/) override { return 0; }
  ByteSet first_bytes(State state) override;
  size_t memory() const override;
  Status status() const override { return liveness_->status(); }

 private:
  enum class Kind : uint8_t {
    kDeadEnd,
    kDone,
    kValue,        ///< before a value; frame reads it
    kLiteral,      ///< inside null, true or false; a: which, b: bytes read
    kString,       ///< a: state of the machine, c: text or kNone
    kNumber,       ///< the same
    kOpened,       ///< behind { or [; frame is its own
    kKey,          ///< inside a key; a: position, b: state of KeyOptions::others, c: text
    kOpenKey,      ///< inside any key; a: state of the body, c: text
    kBeforeColon,  ///< behind a key; frame reads its value
    kBehind,       ///< behind a property or an item
    kBeforeKey,    ///< behind a comma of an object
  };
  struct Place {
    Kind kind = Kind::kDeadEnd;
    Layout layout;
    bool behind_colon = false;
    FrameId frame = kRootFrame;
    uint32_t a = 0, b = 0, c = 0;
    bool operator==(const Place&) const = default;
  };
  std::optional<Inner> inner_of_key(const Place& place);
  Inner inner_of_value(const Place& place);
  /// Adds those of `keys`, ordered by text, that continue the key read so far to the exceptions.
  bool add_special(uint32_t text, const std::vector<Symbol>& keys, Inner& inner);
  bool compared_uniformly(const Place& place, Inner& inner);
  struct PlaceHash {
    uint64_t operator()(const Place& place) const {
      uint64_t hash = uint64_t{place.layout.style} << 32 | static_cast<uint64_t>(place.kind) << 16 |
                      uint64_t{place.layout.space} << 1 | (place.behind_colon ? 1 : 0);
      hash = hash_mix(hash_mix(hash, place.frame), place.a);
      return hash_mix(hash_mix(hash, place.b), place.c);
    }
  };

  explicit Writer(const JsonSchemaOptions& options) : options_(options) { places_.intern({}); }

  Status warm_up(GoalId root);
  /// llguidance's options, a member of the schema.
  Status read_guidance(ValueId schema);

  State state(const Place& place) { return places_.intern(place); }
  State at(Kind kind, FrameId frame, Layout layout) {
    Place place;
    place.kind = kind;
    place.layout = layout;
    place.frame = frame;
    return state(place);
  }
  /// The state after one more byte of white space; nullopt: it is none or not allowed.
  std::optional<State> blank(Place place, Gap gap, uint8_t byte);
  /// The place, if the white space before it is complete.
  std::optional<Place> end(Place place, Gap gap);
  State read_opened(const Place& place, uint8_t byte);
  State read_behind(const Place& place, uint8_t byte);
  State begin_value(const Place& place, uint8_t byte);
  State begin_leaf(const Place& place, Kind kind, Machine* machine, bool keep_text, uint8_t byte);
  State read_string(const Place& place, uint8_t byte);
  State read_number(const Place& place, uint8_t byte);
  State read_literal(const Place& place, uint8_t byte);
  State begin_key(FrameId object, Layout layout);
  State read_key(const Place& place, uint8_t byte);
  State read_open_key(const Place& place, uint8_t byte);
  State end_key(FrameId object, Symbol key, Layout layout);
  /// The goals of a string or a number whose machine, the one that reads at `place`, has come to
  /// an accepting state; kNone: the value itself decides.
  uint32_t goals_of_leaf(const Place& place, State accepting);
  /// The state behind some key that is neither declared nor seen.
  State behind_other_key(FrameId object, Layout layout);
  State close(FrameId frame, uint8_t byte, Layout layout);
  State finish(FrameId pending, uint32_t goals, ValueId value, Layout layout);
  /// The id of a value, or kNone if no record needs it.
  ValueId kept(FrameId pending, ValueType type, std::string_view text = {});
  bool closes(FrameId frame);
  bool continues(FrameId frame);

  JsonSchemaOptions options_;
  Values values_;
  RegexArena arena_;
  Schemas schemas_;
  std::unique_ptr<Expander> expander_;
  std::unique_ptr<Leaves> leaves_;
  std::unique_ptr<Liveness> liveness_;
  std::unique_ptr<DeclaredProperties> declared_;  ///< nullptr: others are allowed
  std::optional<PropertyOrder> order_;
  std::unique_ptr<Frames> frames_;
  std::optional<LayoutRules> layouts_;
  std::unordered_map<uint64_t, State> behind_other_key_;  ///< by object and style
  ReadTexts texts_;
  Interner<KeyPosition, KeyPositionHash> positions_;
  Interner<Place, PlaceHash> places_;
  State start_ = kDead;
};

}  // namespace chimere::constraints::json_schema

#endif  // CHIMERE_CONSTRAINTS_JSON_SCHEMA_WRITER_H_
