#include "constraints/json_schema/writer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <string_view>
#include <utility>

#include "constraints/json_schema/declared_properties.h"
#include "constraints/json_schema/loader.h"
#include "constraints/json_schema/uri.h"

namespace chimere::constraints {

Result<std::unique_ptr<JsonSchemaMachine>> JsonSchemaMachine::create(
    std::string_view schema, const JsonSchemaOptions& options) {
  auto writer = json_schema::Writer::create(schema, options);
  if (!writer.ok() && !options.undeclared_properties) {
    // Without them there may be no document, or the schema may be harder to expand.
    JsonSchemaOptions open = options;
    open.undeclared_properties = true;
    writer = json_schema::Writer::create(schema, open);
  }
  if (!writer.ok()) return std::move(writer).error();
  return std::unique_ptr<JsonSchemaMachine>(*std::move(writer));
}

Result<Regex> strings_of_schema(RegexArena& arena, std::string_view schema, bool or_null) {
  using json_schema::Values;
  Values values;
  CHIMERE_TRY(const json_schema::ValueId root, values.parse(schema));
  CHIMERE_TRY(json_schema::Schemas schemas, json_schema::load_schemas(values, root, arena, {}));
  json_schema::Expander expander(schemas, values, arena);
  const json_schema::GoalId goal = expander.goal_of(schemas.root);
  CHIMERE_TRY(const json_schema::Alternatives* alternatives, expander.expand(goal));
  std::vector<Regex> parts;
  for (const json_schema::StringSet& set : alternatives->strings) {
    const auto bound = [](uint64_t n, uint32_t otherwise) {
      return n > RegexArena::kMaxCount ? otherwise : static_cast<uint32_t>(n);
    };
    const uint32_t min = bound(set.min, RegexArena::kMaxCount);
    parts.push_back(
        arena.intersect(set.language, arena.length(min, bound(set.max, RegexArena::kUnbounded))));
  }
  Regex language = arena.unite(parts);
  if (or_null) {
    language = arena.intersect(language, arena.complement(arena.words({"null", "None"})));
    if (alternatives->null) language = arena.unite(language, arena.literal("null"));
  }
  if (const Status prepared = arena.prepare(language); !prepared.ok()) {
    return expander.located(goal, prepared.error());
  }
  return language;
}

}  // namespace chimere::constraints

namespace chimere::constraints::json_schema {

namespace {

constexpr std::array<std::string_view, 3> kLiterals = {"null", "true", "false"};

/// What follows `depth` bytes of a key in its shortest form, with the closing quote.
/// The bytes before may end inside of a character.
std::string rest_of_key(std::string_view key, size_t depth) {
  constexpr std::string_view kShort = "\"\\\b\f\n\r\t";
  constexpr std::string_view kLetters = "\"\\bfnrt";
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const char c : key.substr(depth)) {
    const auto byte = static_cast<uint8_t>(c);
    if (const size_t at = kShort.find(c); at != std::string_view::npos) {
      out += '\\';
      out += kLetters[at];
    } else if (byte < 0x20) {
      out += "\\u00";
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace

uint32_t ReadTexts::append(uint32_t text, uint8_t byte) {
  const uint64_t key = static_cast<uint64_t>(text) << 8 | byte;
  const auto [found, added] = index_.emplace(key, static_cast<uint32_t>(bytes_.size()));
  if (added) bytes_.push_back({text, byte});
  return found->second;
}

std::string ReadTexts::text(uint32_t id) const {
  std::string out;
  for (; id != kEmpty; id = bytes_[id].before) out += static_cast<char>(bytes_[id].byte);
  std::reverse(out.begin(), out.end());
  return out;
}

Result<std::unique_ptr<Writer>> Writer::create(std::string_view schema,
                                               const JsonSchemaOptions& options) {
  std::unique_ptr<Writer> writer(new Writer(options));
  CHIMERE_TRY(const ValueId root, writer->values_.parse(schema));
  CHIMERE_CHECK_OK(writer->read_guidance(root));
  LoadOptions load;
  load.assert_formats = options.assert_formats;
  CHIMERE_TRY(writer->schemas_, load_schemas(writer->values_, root, writer->arena_, load));
  if (!options.undeclared_properties) refuse_undeclared_properties(writer->schemas_);
  writer->expander_ = std::make_unique<Expander>(writer->schemas_, writer->values_, writer->arena_);
  writer->leaves_ = std::make_unique<Leaves>(writer->arena_, options.canonical);
  writer->liveness_ = std::make_unique<Liveness>(*writer->expander_, *writer->leaves_);
  const GoalId goal = writer->expander_->goal_of(writer->schemas_.root);
  const bool inhabited = writer->liveness_->inhabited(goal);
  CHIMERE_CHECK_OK(writer->status());
  if (!inhabited) {
    return invalid_argument(error_place("") + "the schema contradicts itself: no value is valid");
  }
  writer->frames_ =
      std::make_unique<Frames>(*writer->expander_, *writer->liveness_, *writer->leaves_, goal);
  CHIMERE_CHECK_OK(writer->warm_up(goal));
  writer->liveness_->begin_document();
  writer->start_ = writer->at(Kind::kValue, kRootFrame);
  return writer;
}

Status Writer::read_guidance(ValueId schema) {
  const ValueId guidance = values_.member(schema, "x-guidance");
  if (guidance == kNone) return {};
  const auto at = [](const std::string& name) { return error_place("/x-guidance" + name); };
  if (values_[guidance].type != ValueType::kObject) {
    return invalid_argument(at("") + "\"x-guidance\" must be an object");
  }
  const std::vector<Symbol> names = values_[guidance].keys;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string& name = values_.text(names[i]);
    const JsonValue& value = values_[values_[guidance].items[i]];
    const bool yes = value.type == ValueType::kTrue;
    if (name == "whitespace_flexible" || name == "lenient" || name == "coerce_one_of") {
      if (!yes && value.type != ValueType::kFalse) {
        return invalid_argument(at("/" + name) + "must be true or false");
      }
    }
    if (name == "whitespace_flexible") {
      if (!yes) options_.whitespace = {false, false, 0};
      continue;
    }
    // oneOf is exact, with or without coercion.
    if (name == "coerce_one_of" || (name == "lenient" && !yes)) continue;
    const bool separator = value.type == ValueType::kString &&
                           ((name == "item_separator" && values_.text(value.text) == ",") ||
                            (name == "key_separator" && values_.text(value.text) == ":"));
    if (separator) continue;
    return unsupported(at("/" + escape_pointer_token(name)) + "this option is not supported");
  }
  return {};
}

/// Expands what single schemas lead to, so that schemas that are not supported are refused before
/// anything is written.
Status Writer::warm_up(GoalId root) {
  constexpr size_t kMostGoals = 2'000;
  std::vector<GoalId> queue = {root};
  std::unordered_set<GoalId> seen = {root};
  const auto add = [&](GoalId goal) {
    if (goal != kAnything && goal != kNothing && seen.insert(goal).second) queue.push_back(goal);
  };
  const std::vector<uint32_t> none;
  JsonValue array;
  array.type = ValueType::kArray;
  JsonValue object;
  object.type = ValueType::kObject;
  const ValueId empty_array = values_.intern(std::move(array));
  const GoalId different = expander_->excluding({empty_array, values_.intern(std::move(object))});
  for (size_t i = 0; i < queue.size() && i < kMostGoals; ++i) {
    liveness_->inhabited(queue[i]);
    CHIMERE_CHECK_OK(liveness_->status());
    CHIMERE_TRY(const Alternatives* alternatives, expander_->expand(queue[i]));
    const auto strings = leaves_->strings(alternatives->strings);
    if (!strings.ok()) return expander_->located(queue[i], strings.error());
    const auto numbers = leaves_->numbers(alternatives->numbers);
    if (!numbers.ok()) return expander_->located(queue[i], numbers.error());
    for (const RecordId id : alternatives->objects) {
      if (seen.size() > kMostGoals) break;
      // As when such an object begins: what cannot be decided is refused here.
      (void)liveness_->completable(id, {none, 0, &none});
      CHIMERE_CHECK_OK(liveness_->status());
      for (const GoalId goal : liveness_->property_goals(id)) add(goal);
    }
    for (const RecordId id : alternatives->arrays) {
      if (seen.size() > kMostGoals) break;
      (void)liveness_->completable_array(id, {0, liveness_->no_counts(id), &none});
      const uint64_t uniform = expander_->uniform_from(id);
      for (uint64_t at = 0; at <= std::min<uint64_t>(uniform, kMostGoals); ++at) {
        for (const GoalId goal : liveness_->item_goals(id, at)) {
          add(goal);
          // Items that must differ from those before: any arrays and objects show what that means.
          if (expander_->records().array(id).unique) add(expander_->conjunction(goal, different));
        }
      }
    }
    CHIMERE_CHECK_OK(liveness_->status());
  }
  return {};
}

std::optional<State> Writer::space(Place place, uint8_t byte, bool lines) {
  const JsonWhitespace& allowed = options_.whitespace;
  if (byte == ' ' && place.space == kNoSpace && allowed.spaces) {
    place.space = kOneSpace;
    return state(place);
  }
  if (!lines || !allowed.lines) return std::nullopt;
  if (byte == '\n' && place.space == kNoSpace) {
    place.space = kLine;
    return state(place);
  }
  const bool blank = byte == ' ' || byte == '\t';
  if (blank && place.space >= kLine && place.space - kLine < allowed.max_indent) {
    ++place.space;
    return state(place);
  }
  return std::nullopt;
}

bool Writer::closes(FrameId frame) {
  return (*frames_)[frame].object ? frames_->key_options(frame).closing != kNone
                                  : frames_->array_closing(frame) != kNone;
}

bool Writer::continues(FrameId frame) {
  return (*frames_)[frame].object ? frames_->key_options(frame).any()
                                  : frames_->with_item(frame) != kNone;
}

State Writer::next(State from, uint8_t byte) {
  const Place place = places_[from];
  const FrameId frame = place.frame;
  switch (place.kind) {
    case Kind::kDeadEnd:
    case Kind::kDone:
      return kDead;
    case Kind::kString:
      return read_string(place, byte);
    case Kind::kNumber:
      return read_number(place, byte);
    case Kind::kLiteral:
      return read_literal(place, byte);
    case Kind::kKey:
      return read_key(place, byte);
    case Kind::kOpenKey:
      return read_open_key(place, byte);
    case Kind::kValue: {
      if (frame != kRootFrame || place.space != kNoSpace) {
        if (const auto next = space(place, byte, !place.behind_colon)) return *next;
      }
      return begin_value(place, byte);
    }
    case Kind::kBeforeColon: {
      if (byte != ':') return kDead;
      Place value;
      value.kind = Kind::kValue;
      value.behind_colon = true;
      value.frame = frame;
      return state(value);
    }
    case Kind::kOpened: {
      if (const auto next = space(place, byte, true)) return *next;
      if (byte == '}' || byte == ']') return close(frame, byte);
      if ((*frames_)[frame].object) return byte == '"' ? begin_key(frame) : kDead;
      const FrameId item = frames_->with_item(frame);
      if (item == kNone) return kDead;
      Place value;
      value.frame = item;
      return begin_value(value, byte);
    }
    case Kind::kBehind: {
      if (byte == ',') {
        if (place.space != kNoSpace || !continues(frame)) return kDead;
        if ((*frames_)[frame].object) return at(Kind::kBeforeKey, frame);
        return at(Kind::kValue, frames_->with_item(frame));
      }
      if (byte == '}' || byte == ']') return close(frame, byte);
      if (!closes(frame)) return kDead;
      return space(place, byte, true).value_or(kDead);
    }
    case Kind::kBeforeKey: {
      if (const auto next = space(place, byte, true)) return *next;
      return byte == '"' ? begin_key(frame) : kDead;
    }
  }
  return kDead;
}

ValueId Writer::kept(FrameId pending, ValueType type, std::string_view text) {
  if (!frames_->keeps_value(pending)) return kNone;
  JsonValue value;
  value.type = type;
  if (type == ValueType::kNumber) {
    const auto decimal = Decimal::parse(text);
    value.text = values_.symbol(decimal ? decimal->text() : text);
  } else {
    value.text = values_.symbol(text);
  }
  return values_.intern(std::move(value));
}

State Writer::finish(FrameId pending, uint32_t goals, ValueId value) {
  if (goals == kNone) return kDead;
  if (pending == kRootFrame) return at(Kind::kDone, kRootFrame);
  const FrameId frame = frames_->finish(pending, goals, value);
  return frame == kNone ? kDead : at(Kind::kBehind, frame);
}

State Writer::close(FrameId frame, uint8_t byte) {
  const Frame& closed = (*frames_)[frame];
  if ((byte == '}') != closed.object) return kDead;
  const uint32_t goals =
      closed.object ? frames_->key_options(frame).closing : frames_->array_closing(frame);
  const bool keeps = goals != kNone && frames_->keeps_value(closed.parent);
  return finish(closed.parent, goals, keeps ? frames_->value_of(frame) : kNone);
}

State Writer::begin_leaf(const Place& place, Kind kind, Machine* machine, bool keep_text,
                         uint8_t byte) {
  if (machine == nullptr) return kDead;
  const State inner = machine->next(machine->start(), byte);
  if (inner == kDead) return kDead;
  Place next;
  next.kind = kind;
  next.frame = place.frame;
  next.a = inner;
  next.c = keep_text ? texts_.append(ReadTexts::kEmpty, byte) : kNone;
  return state(next);
}

State Writer::begin_value(const Place& place, uint8_t byte) {
  const ValueStart& begin = frames_->start(place.frame);
  const bool keeps = frames_->keeps_value(place.frame);
  if (byte == '"') {
    const bool by_value = begin.string_goals == kNone && begin.string_union == nullptr;
    return begin_leaf(place, Kind::kString, begin.strings, keeps || by_value, byte);
  }
  if (byte == '-' || (byte >= '0' && byte <= '9')) {
    const bool by_value = begin.number_goals == kNone && begin.number_union == nullptr;
    return begin_leaf(place, Kind::kNumber, begin.numbers, keeps || by_value, byte);
  }
  if (byte == '{' || byte == '[') {
    const FrameId frame =
        byte == '{' ? frames_->open_object(place.frame) : frames_->open_array(place.frame);
    return frame == kNone ? kDead : at(Kind::kOpened, frame);
  }
  const std::array<uint32_t, 3> goals = {begin.null, begin.yes, begin.no};
  for (uint32_t i = 0; i < kLiterals.size(); ++i) {
    if (byte != static_cast<uint8_t>(kLiterals[i][0]) || goals[i] == kNone) continue;
    Place next;
    next.kind = Kind::kLiteral;
    next.frame = place.frame;
    next.a = i;
    next.b = 1;
    return state(next);
  }
  return kDead;
}

State Writer::read_literal(const Place& place, uint8_t byte) {
  const std::string_view literal = kLiterals[place.a];
  if (byte != static_cast<uint8_t>(literal[place.b])) return kDead;
  if (place.b + 1 < literal.size()) {
    Place next = place;
    ++next.b;
    return state(next);
  }
  const ValueStart& begin = frames_->start(place.frame);
  const std::array<uint32_t, 3> goals = {begin.null, begin.yes, begin.no};
  constexpr std::array<ValueType, 3> kTypes = {ValueType::kNull, ValueType::kTrue,
                                               ValueType::kFalse};
  return finish(place.frame, goals[place.a], kept(place.frame, kTypes[place.a]));
}

State Writer::read_string(const Place& place, uint8_t byte) {
  Machine* const machine = frames_->start(place.frame).strings;
  const State inner = machine->next(place.a, byte);
  if (inner == kDead) return kDead;
  if (byte == '"' && machine->accepts(inner)) {
    if (place.c == kNone) return finish(place.frame, goals_of_leaf(place, inner), kNone);
    const std::string raw = texts_.text(place.c);
    const auto value = decode_json_string(std::string_view(raw).substr(1));
    if (!value) return kDead;
    return finish(place.frame, frames_->goals_of_string(place.frame, *value),
                  kept(place.frame, ValueType::kString, *value));
  }
  Place next = place;
  next.a = inner;
  if (next.c != kNone) next.c = texts_.append(next.c, byte);
  return state(next);
}

uint32_t Writer::goals_of_leaf(const Place& place, State accepting) {
  const ValueStart& begin = frames_->start(place.frame);
  const bool string = place.kind == Kind::kString;
  if (const UnionMachine* const all = string ? begin.string_union : begin.number_union) {
    return frames_->goals_of_parts(string ? begin.string_parts : begin.number_parts,
                                   all->accepting(accepting));
  }
  return string ? begin.string_goals : begin.number_goals;
}

State Writer::read_number(const Place& place, uint8_t byte) {
  Machine* const machine = frames_->start(place.frame).numbers;
  const State inner = machine->next(place.a, byte);
  if (inner != kDead) {
    Place next = place;
    next.a = inner;
    if (next.c != kNone) next.c = texts_.append(next.c, byte);
    return state(next);
  }
  if (place.frame == kRootFrame || !machine->accepts(place.a)) return kDead;
  uint32_t goals = goals_of_leaf(place, place.a);
  ValueId value = kNone;
  if (place.c != kNone) {
    const std::string text = texts_.text(place.c);
    goals = frames_->goals_of_number(place.frame, text);
    value = kept(place.frame, ValueType::kNumber, text);
  }
  // The state behind a value reads no further number: this does not recur.
  const State behind = finish(place.frame, goals, value);
  return behind == kDead ? kDead : next(behind, byte);
}

State Writer::begin_key(FrameId object) {
  const KeyOptions& options = frames_->key_options(object);
  Place place;
  place.frame = object;
  if (options.any_other) {
    place.kind = Kind::kOpenKey;
    place.a = leaves_->string_body().start();
    return state(place);
  }
  if (!options.any()) return kDead;
  place.kind = Kind::kKey;
  KeyPosition position;
  position.end = static_cast<uint32_t>(options.named.size());
  place.a = options.named.empty() ? kNone : positions_.intern(std::move(position));
  place.b = options.others != nullptr ? options.others->start() : kDead;
  return state(place);
}

State Writer::end_key(FrameId object, Symbol key) {
  if (key == kNone) return kDead;
  const FrameId frame = frames_->with_key(object, key);
  return frame == kNone ? kDead : at(Kind::kBeforeColon, frame);
}

State Writer::read_open_key(const Place& place, uint8_t byte) {
  Machine& body = leaves_->string_body();
  const State inner = body.next(place.a, byte);
  if (inner != kDead) {
    Place next = place;
    next.a = inner;
    next.c = texts_.append(place.c, byte);
    return state(next);
  }
  if (byte != '"' || !body.accepts(place.a)) return kDead;
  const auto key = decode_json_string(texts_.text(place.c));
  return key ? end_key(place.frame, values_.symbol(*key)) : kDead;
}

State Writer::read_key(const Place& place, uint8_t byte) {
  const KeyOptions& options = frames_->key_options(place.frame);
  if (byte == '"' && place.a != kNone) {
    const Symbol key = key_at(values_, options.named, positions_[place.a]);
    if (key != kNone) return end_key(place.frame, key);
  }
  Place next = place;
  if (place.a != kNone) {
    const bool escaped = !positions_[place.a].escape.empty();
    const auto position = byte == '"' && !escaped
                              ? std::nullopt
                              : advance_key(values_, options.named, positions_[place.a], byte);
    next.a = position ? positions_.intern(*position) : kNone;
  }
  if (place.b != kDead) {
    next.b = options.others->next(place.b, byte);
    if (next.b != kDead && byte == '"' && options.others->accepts(next.b)) {
      const auto key = decode_json_string(texts_.text(place.c));
      return key ? end_key(place.frame, values_.symbol(*key)) : kDead;
    }
    next.c = next.b != kDead ? texts_.append(place.c, byte) : ReadTexts::kEmpty;
  }
  return next.a == kNone && next.b == kDead ? kDead : state(next);
}

bool Writer::accepts(State state) {
  const Place& place = places_[state];
  if (place.kind == Kind::kDone) return true;
  return place.kind == Kind::kNumber && place.frame == kRootFrame &&
         frames_->start(place.frame).numbers->accepts(place.a);
}

std::optional<Machine::Inner> Writer::inner(State state) {
  const Place place = places_[state];
  Inner out;
  if (place.kind == Kind::kString || place.kind == Kind::kNumber) {
    return inner_of_value(place);
  }
  if (place.kind == Kind::kKey && place.b != kDead) return inner_of_key(place);
  if (place.kind != Kind::kOpenKey) return std::nullopt;
  out.machine = &leaves_->string_body().with_quote();
  out.state = place.a;
  const KeyOptions& options = frames_->key_options(place.frame);
  // Names that go on behind half an escape cannot be listed; those that a token writes with escapes
  // of its own are not.
  out.uniform = options.uniform && add_special(place.c, options.special, out);
  return out;
}

bool Writer::add_special(uint32_t text, const std::vector<Symbol>& keys, Inner& inner) {
  if (keys.empty()) return true;
  const auto read = decode_json_string(texts_.text(text));
  if (!read) return false;
  const auto less = [&](Symbol key, const std::string& name) { return values_.text(key) < name; };
  for (auto it = std::lower_bound(keys.begin(), keys.end(), *read, less);
       it != keys.end() && values_.text(*it).starts_with(*read); ++it) {
    inner.exceptions.push_back(rest_of_key(values_.text(*it), read->size()));
  }
  return true;
}

Machine::Inner Writer::inner_of_value(const Place& place) {
  const ValueStart& begin = frames_->start(place.frame);
  const bool string = place.kind == Kind::kString;
  const UnionMachine* const all = string ? begin.string_union : begin.number_union;
  // Where one part of a union is left, it is the machine.
  const uint32_t alive = all != nullptr ? all->alive(place.a) : 0;
  Inner out;
  if (all != nullptr && std::has_single_bit(alive)) {
    out = all->part(place.a, static_cast<size_t>(std::countr_zero(alive)));
  } else {
    out.machine = string ? begin.strings : begin.numbers;
    out.state = place.a;
  }
  out.uniform = place.c == kNone;
  if (!out.uniform && string) out.uniform = compared_uniformly(place, out);
  return out;
}

/// Whether a string that is kept for comparisons with other values, unless it is one of a few, has
/// no influence on what may follow it. Adds these to the exceptions.
bool Writer::compared_uniformly(const Place& place, Inner& inner) {
  constexpr size_t kMostValues = 200;
  constexpr uint64_t kManyCharacters = 1'000;
  const ValueStart& begin = frames_->start(place.frame);
  if (!frames_->keeps_value(place.frame) || begin.string_goals == kNone) return false;
  for (const auto& [goal, alternatives] : begin.goals) {
    for (const StringSet& set : alternatives->strings) {
      if (set.language != arena_.any() || set.min > kManyCharacters || set.max < kManyCharacters) {
        return false;
      }
    }
  }
  const auto read = decode_json_string(std::string_view(texts_.text(place.c)).substr(1));
  if (!read) return false;
  // Texts inside of all values that are compared.
  std::vector<ValueId> queue;
  for (FrameId frame = place.frame; frames_->keeps_value(frame); frame = (*frames_)[frame].parent) {
    if (frames_->compares_with_constants(frame)) return false;
    const std::vector<ValueId>& values = liveness_->lists()[(*frames_)[frame].values];
    queue.insert(queue.end(), values.begin(), values.end());
    if (frame == kRootFrame) break;
  }
  for (size_t i = 0; i < queue.size(); ++i) {
    if (queue.size() > kMostValues) return false;
    if (queue[i] == kNone) continue;
    const JsonValue& value = values_[queue[i]];
    queue.insert(queue.end(), value.items.begin(), value.items.end());
    if (value.type == ValueType::kString && values_.text(value.text).starts_with(*read)) {
      inner.exceptions.push_back(rest_of_key(values_.text(value.text), read->size()));
    }
  }
  std::ranges::sort(inner.exceptions);
  inner.exceptions.erase(std::ranges::unique(inner.exceptions).begin(), inner.exceptions.end());
  inner.compares = true;
  return true;
}

State Writer::behind_other_key(FrameId object) {
  const auto [found, added] = behind_other_key_.emplace(object, kDead);
  if (!added) return found->second;
  const std::vector<Symbol> special = frames_->key_options(object).special;
  std::string name = "?";
  while (std::ranges::any_of(special, [&](Symbol key) { return values_.text(key) == name; })) {
    name += '?';
  }
  const State state = end_key(object, values_.symbol(name));
  behind_other_key_[object] = state;
  return state;
}

State Writer::after(State state, State accepting) {
  const Place place = places_[state];
  if (place.kind == Kind::kString && place.c != kNone && frames_->keeps_value(place.frame)) {
    // A string that no value in the document, and no string in a token, is equal to.
    constexpr size_t kLongerThanTokens = 700;
    return finish(place.frame, goals_of_leaf(place, accepting),
                  kept(place.frame, ValueType::kString, std::string(kLongerThanTokens, '?')));
  }
  if ((place.kind == Kind::kString || place.kind == Kind::kNumber) && place.c == kNone) {
    const ValueStart& begin = frames_->start(place.frame);
    const bool string = place.kind == Kind::kString;
    const UnionMachine* const all = string ? begin.string_union : begin.number_union;
    const uint32_t alive = all != nullptr ? all->alive(place.a) : 0;
    if (!std::has_single_bit(alive)) {
      return finish(place.frame, goals_of_leaf(place, accepting), kNone);
    }
    const auto& parts = string ? begin.string_parts : begin.number_parts;
    return finish(place.frame, frames_->goals_of_parts(parts, alive), kNone);
  }
  if (place.kind == Kind::kOpenKey && frames_->key_options(place.frame).uniform) {
    return behind_other_key(place.frame);
  }
  return kDead;
}

/// A key among named ones and those of a machine: the named ones are exceptions.
std::optional<Machine::Inner> Writer::inner_of_key(const Place& place) {
  const KeyOptions& options = frames_->key_options(place.frame);
  Inner out;
  out.machine = options.others;
  out.state = place.b;
  out.uniform = options.uniform && add_special(place.c, options.special, out);
  if (place.a == kNone) return out;
  const KeyPosition& position = positions_[place.a];
  if (!position.escape.empty()) return std::nullopt;
  for (uint32_t i = position.first; i < position.end; ++i) {
    out.exceptions.push_back(rest_of_key(values_.text(options.named[i]), position.depth));
  }
  out.exceptions.emplace_back("\\");  // names that go on with an escape
  return out;
}

ByteSet Writer::first_bytes(State state) {
  const Place place = places_[state];
  ByteSet out;
  const auto blanks = [&] {
    for (const char c : {' ', '\n', '\t'}) out.set(static_cast<uint8_t>(c));
  };
  switch (place.kind) {
    case Kind::kDeadEnd:
    case Kind::kDone:
      return out;
    case Kind::kKey:
      if (place.b != kDead || place.a == kNone) return out.set();
      return key_bytes(values_, frames_->key_options(place.frame).named, positions_[place.a]);
    case Kind::kBeforeColon:
      out.set(':');
      return out;
    case Kind::kBeforeKey:
      blanks();
      out.set('"');
      return out;
    case Kind::kLiteral:
      out.set(static_cast<uint8_t>(kLiterals[place.a][place.b]));
      return out;
    case Kind::kBehind:
      blanks();
      out.set(',');
      out.set((*frames_)[place.frame].object ? '}' : ']');
      return out;
    case Kind::kOpened:
      blanks();
      out.set((*frames_)[place.frame].object ? '}' : ']');
      if ((*frames_)[place.frame].object) {
        out.set('"');
        return out;
      }
      [[fallthrough]];
    case Kind::kValue:
      blanks();
      for (const char c : {'"', '-', '{', '[', 't', 'f', 'n'}) out.set(static_cast<uint8_t>(c));
      for (char c = '0'; c <= '9'; ++c) out.set(static_cast<uint8_t>(c));
      return out;
    default:
      return out.set();
  }
}

size_t Writer::memory() const {
  constexpr size_t kPlace = 96;
  return places_.size() * kPlace + frames_->memory() + texts_.memory() + values_.memory() +
         arena_.memory() + leaves_->memory() + schemas_.nodes.size() * sizeof(Node);
}

}  // namespace chimere::constraints::json_schema
