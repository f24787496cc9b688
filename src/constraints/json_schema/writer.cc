#include "constraints/json_schema/writer.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "constraints/json_schema/loader.h"
#include "constraints/json_schema/uri.h"

namespace chimere::constraints {

Result<std::unique_ptr<JsonSchemaMachine>> JsonSchemaMachine::create(
    std::string_view schema, const JsonSchemaOptions& options) {
  auto writer = json_schema::Writer::create(schema, options);
  if (!writer.ok() && !options.undeclared_properties) {
    // Without them it may be harder to decide what can be completed.
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
  writer->expander_ = std::make_unique<Expander>(writer->schemas_, writer->values_, writer->arena_);
  writer->leaves_ = std::make_unique<Leaves>(writer->arena_, options.canonical);
  writer->liveness_ = std::make_unique<Liveness>(*writer->expander_, *writer->leaves_);
  const GoalId goal = writer->expander_->goal_of(writer->schemas_.root);
  const bool inhabited = writer->liveness_->inhabited(goal);
  CHIMERE_CHECK_OK(writer->status());
  if (!inhabited) {
    return invalid_argument(error_place("") + "the schema contradicts itself: no value is valid");
  }
  if (!options.undeclared_properties) {
    writer->declared_ =
        std::make_unique<DeclaredProperties>(*writer->expander_, *writer->liveness_);
  }
  if (options.canonical) writer->order_.emplace(*writer->expander_, *writer->liveness_);
  writer->frames_ = std::make_unique<Frames>(*writer->expander_, *writer->liveness_,
                                             *writer->leaves_, writer->declared_.get(),
                                             writer->order_ ? &*writer->order_ : nullptr, goal);
  CHIMERE_CHECK_OK(writer->warm_up(goal));
  writer->liveness_->begin_document();
  writer->layouts_.emplace(writer->options_.whitespace, options.canonical);
  writer->start_ = writer->at(Kind::kValue, kRootFrame, writer->layouts_->start());
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
      if (declared_ != nullptr) (void)declared_->closed(id);
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

std::optional<State> Writer::blank(Place place, Gap gap, uint8_t byte) {
  const auto next = layouts_->blank(place.layout, gap, (*frames_)[place.frame].depth, byte);
  if (!next) return std::nullopt;
  place.layout = *next;
  return state(place);
}

std::optional<Writer::Place> Writer::end(Place place, Gap gap) {
  const auto ended = layouts_->end(place.layout, gap, (*frames_)[place.frame].depth);
  if (!ended) return std::nullopt;
  place.layout = *ended;
  return place;
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
      if (frame == kRootFrame) return begin_value(place, byte);
      const Gap gap = place.behind_colon ? Gap::kAfterColon : Gap::kAfterComma;
      if (const auto next = blank(place, gap, byte)) return *next;
      const auto begin = end(place, gap);
      return begin ? begin_value(*begin, byte) : kDead;
    }
    case Kind::kBeforeColon: {
      if (byte != ':') return kDead;
      Place value;
      value.kind = Kind::kValue;
      value.layout = place.layout;
      value.behind_colon = true;
      value.frame = frame;
      return state(value);
    }
    case Kind::kOpened:
      return read_opened(place, byte);
    case Kind::kBehind:
      return read_behind(place, byte);
    case Kind::kBeforeKey: {
      if (const auto next = blank(place, Gap::kAfterComma, byte)) return *next;
      const auto begin = end(place, Gap::kAfterComma);
      return begin && byte == '"' ? begin_key(frame, begin->layout) : kDead;
    }
  }
  return kDead;
}

State Writer::read_opened(const Place& place, uint8_t byte) {
  const FrameId frame = place.frame;
  // Behind canonical white space the brackets must not close.
  if (!options_.canonical || continues(frame)) {
    if (const auto next = blank(place, Gap::kAfterOpening, byte)) return *next;
  }
  if (byte == '}' || byte == ']') {
    const Layout closed = {place.layout.style, 0};
    return layouts_->may_be_empty(place.layout) ? close(frame, byte, closed) : kDead;
  }
  const auto begin = end(place, Gap::kAfterOpening);
  if (!begin) return kDead;
  if ((*frames_)[frame].object) return byte == '"' ? begin_key(frame, begin->layout) : kDead;
  Place value;
  value.layout = begin->layout;
  value.frame = frames_->with_item(frame);
  return value.frame == kNone ? kDead : begin_value(value, byte);
}

State Writer::read_behind(const Place& place, uint8_t byte) {
  const FrameId frame = place.frame;
  if (byte == ',') {
    if (place.layout.space != 0 || !continues(frame)) return kDead;
    if ((*frames_)[frame].object) return at(Kind::kBeforeKey, frame, place.layout);
    return at(Kind::kValue, frames_->with_item(frame), place.layout);
  }
  if (byte == '}' || byte == ']') {
    const auto closing = end(place, Gap::kBeforeClosing);
    return closing ? close(frame, byte, closing->layout) : kDead;
  }
  return closes(frame) ? blank(place, Gap::kBeforeClosing, byte).value_or(kDead) : kDead;
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

State Writer::finish(FrameId pending, uint32_t goals, ValueId value, Layout layout) {
  if (goals == kNone) return kDead;
  if (pending == kRootFrame) return at(Kind::kDone, kRootFrame, {});
  const FrameId frame = frames_->finish(pending, goals, value);
  return frame == kNone ? kDead : at(Kind::kBehind, frame, layout);
}

State Writer::close(FrameId frame, uint8_t byte, Layout layout) {
  const Frame& closed = (*frames_)[frame];
  if ((byte == '}') != closed.object) return kDead;
  const uint32_t goals =
      closed.object ? frames_->key_options(frame).closing : frames_->array_closing(frame);
  const bool keeps = goals != kNone && frames_->keeps_value(closed.parent);
  return finish(closed.parent, goals, keeps ? frames_->value_of(frame) : kNone, layout);
}

State Writer::begin_leaf(const Place& place, Kind kind, Machine* machine, bool keep_text,
                         uint8_t byte) {
  if (machine == nullptr) return kDead;
  const State inner = machine->next(machine->start(), byte);
  if (inner == kDead) return kDead;
  Place next;
  next.kind = kind;
  next.layout = place.layout;
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
    return frame == kNone ? kDead : at(Kind::kOpened, frame, place.layout);
  }
  const std::array<uint32_t, 3> goals = {begin.null, begin.yes, begin.no};
  for (uint32_t i = 0; i < kLiterals.size(); ++i) {
    if (byte != static_cast<uint8_t>(kLiterals[i][0]) || goals[i] == kNone) continue;
    Place next;
    next.kind = Kind::kLiteral;
    next.layout = place.layout;
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
  return finish(place.frame, goals[place.a], kept(place.frame, kTypes[place.a]), place.layout);
}

State Writer::read_string(const Place& place, uint8_t byte) {
  Machine* const machine = frames_->start(place.frame).strings;
  const State inner = machine->next(place.a, byte);
  if (inner == kDead) return kDead;
  if (byte == '"' && machine->accepts(inner)) {
    if (place.c == kNone) {
      return finish(place.frame, goals_of_leaf(place, inner), kNone, place.layout);
    }
    const std::string raw = texts_.text(place.c);
    const auto value = decode_json_string(std::string_view(raw).substr(1));
    if (!value) return kDead;
    return finish(place.frame, frames_->goals_of_string(place.frame, *value),
                  kept(place.frame, ValueType::kString, *value), place.layout);
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
  const State behind = finish(place.frame, goals, value, place.layout);
  return behind == kDead ? kDead : next(behind, byte);
}

State Writer::begin_key(FrameId object, Layout layout) {
  const KeyOptions& options = frames_->key_options(object);
  Place place;
  place.layout = layout;
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

State Writer::end_key(FrameId object, Symbol key, Layout layout) {
  if (key == kNone) return kDead;
  const FrameId frame = frames_->with_key(object, key);
  return frame == kNone ? kDead : at(Kind::kBeforeColon, frame, layout);
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
  return key ? end_key(place.frame, values_.symbol(*key), place.layout) : kDead;
}

State Writer::read_key(const Place& place, uint8_t byte) {
  const KeyOptions& options = frames_->key_options(place.frame);
  if (byte == '"' && place.a != kNone) {
    const Symbol key = key_at(values_, options.named, positions_[place.a]);
    if (key != kNone) return end_key(place.frame, key, place.layout);
  }
  Place next = place;
  if (place.a != kNone) {
    const bool escaped = !positions_[place.a].escape.empty();
    const auto position =
        byte == '"' && !escaped
            ? std::nullopt
            : advance_key(values_, options.named, positions_[place.a], byte, options_.canonical);
    next.a = position ? positions_.intern(*position) : kNone;
  }
  if (place.b != kDead) {
    next.b = options.others->next(place.b, byte);
    if (next.b != kDead && byte == '"' && options.others->accepts(next.b)) {
      const auto key = decode_json_string(texts_.text(place.c));
      return key ? end_key(place.frame, values_.symbol(*key), place.layout) : kDead;
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

size_t Writer::memory() const {
  constexpr size_t kPlace = 96;
  return places_.size() * kPlace + frames_->memory() + texts_.memory() + values_.memory() +
         arena_.memory() + leaves_->memory() + schemas_.nodes.size() * sizeof(Node);
}

}  // namespace chimere::constraints::json_schema
