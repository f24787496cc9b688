#include "constraints/json_schema/frames.h"

#include <algorithm>

namespace chimere::constraints::json_schema {

uint64_t FrameHash::operator()(const Frame& frame) const {
  uint64_t hash = hash_mix(frame.parent, frame.object ? 2 : 1);
  hash = hash_mix(hash_mix(hash, frame.seen), frame.items);
  hash = hash_mix(hash_mix(hash, frame.key), frame.goals);
  hash = hash_mix(hash, frame.keeps ? frame.values : kNone);
  for (const Candidate& candidate : frame.candidates) {
    hash = hash_mix(hash_mix(hash, candidate.record), candidate.goal);
    hash = hash_mix(hash, candidate.progress);
  }
  return hash;
}

Frames::Frames(Expander& expander, Liveness& liveness, Leaves& leaves, DeclaredProperties* declared,
               PropertyOrder* order, GoalId root)
    : expander_(expander),
      liveness_(liveness),
      leaves_(leaves),
      declared_(declared),
      order_(order) {
  Frame outside;
  outside.goals = list({root});
  intern(std::move(outside));
}

uint32_t Frames::list(std::vector<uint32_t> items) {
  std::sort(items.begin(), items.end());
  items.erase(std::unique(items.begin(), items.end()), items.end());
  return liveness_.lists().intern(std::move(items));
}

FrameId Frames::intern(Frame frame) {
  const size_t bytes = sizeof(Frame) + sizeof(Candidate) * frame.candidates.size() + 64;
  const uint32_t before = frames_.size();
  const FrameId id = frames_.intern(std::move(frame));
  if (frames_.size() > before) memory_ += bytes;
  return id;
}

namespace {

/// The machines of goals with the goals, each machine once, ascending.
using MachineGoals = std::map<Machine*, std::vector<GoalId>>;

/// The union of the machines if it is worth it; fills the goals of its parts.
UnionMachine* union_of(Leaves& leaves, MachineGoals& goals, bool strings,
                       std::vector<std::vector<GoalId>>& parts) {
  if (goals.size() < 2 || goals.size() > UnionMachine::kMaxParts) return nullptr;
  std::vector<Machine*> machines;
  for (auto& [machine, list] : goals) {
    machines.push_back(machine);
    parts.push_back(std::move(list));
  }
  return leaves.unite(machines, strings);
}

}  // namespace

const ValueStart& Frames::start(FrameId pending) {
  const uint32_t goals = frames_[pending].goals;
  auto& slot = starts_[goals];
  if (slot) return *slot;
  slot = std::make_unique<ValueStart>();
  ValueStart& out = *slot;
  std::vector<uint32_t> null, yes, no, strings, numbers;
  std::vector<StringSet> string_sets;
  std::vector<NumberAlternative> number_sets;
  MachineGoals string_machines;
  MachineGoals number_machines;
  bool complete = true;  // every goal has its machine
  bool listed = true;
  const std::vector<uint32_t> none;
  const std::vector<uint32_t> list_of_goals = liveness_.lists()[goals];
  for (const GoalId goal : list_of_goals) {
    const auto expanded = expander_.expand(goal);
    if (!expanded.ok()) continue;  // not reached: goals of frames are inhabited
    const Alternatives& alternatives = **expanded;
    out.goals.emplace_back(goal, &alternatives);
    if (alternatives.null) null.push_back(goal);
    if (alternatives.yes) yes.push_back(goal);
    if (alternatives.no) no.push_back(goal);
    if (!alternatives.strings.empty()) {
      strings.push_back(goal);
      string_sets.insert(string_sets.end(), alternatives.strings.begin(),
                         alternatives.strings.end());
      listed = listed && leaves_.listed(alternatives.strings);
      if (const auto machine = leaves_.strings(alternatives.strings); machine.ok()) {
        if (*machine != nullptr) string_machines[*machine].push_back(goal);
      } else {
        complete = false;
      }
    }
    if (!alternatives.numbers.empty()) {
      numbers.push_back(goal);
      number_sets.insert(number_sets.end(), alternatives.numbers.begin(),
                         alternatives.numbers.end());
      if (const auto machine = leaves_.numbers(alternatives.numbers); machine.ok()) {
        if (*machine != nullptr) number_machines[*machine].push_back(goal);
      } else {
        complete = false;
      }
    }
    for (const RecordId any : alternatives.objects) {
      const RecordId record = declared_ != nullptr ? declared_->closed(any) : any;
      if (liveness_.completable(record, {none, 0, &none})) out.objects.push_back({record, goal, 0});
    }
    for (const RecordId record : alternatives.arrays) {
      const uint32_t counts = liveness_.no_counts(record);
      if (liveness_.completable_array(record, {0, counts, &none})) {
        out.arrays.push_back({record, goal, counts});
      }
    }
  }
  if (!null.empty()) out.null = list(std::move(null));
  if (!yes.empty()) out.yes = list(std::move(yes));
  if (!no.empty()) out.no = list(std::move(no));
  if (string_machines.size() == 1 && complete) {
    out.strings = string_machines.begin()->first;
    out.string_goals = list(std::move(string_machines.begin()->second));
  } else if (complete && !listed) {
    out.strings = out.string_union = union_of(leaves_, string_machines, true, out.string_parts);
  }
  if (number_machines.size() == 1 && complete) {
    out.numbers = number_machines.begin()->first;
    out.number_goals = list(std::move(number_machines.begin()->second));
  } else if (complete) {
    out.numbers = out.number_union = union_of(leaves_, number_machines, false, out.number_parts);
  }
  // Otherwise the value decides which goals it satisfies. Lists of texts are one machine.
  if (out.strings == nullptr) {
    if (const auto machine = leaves_.strings(string_sets); machine.ok()) out.strings = *machine;
    if (strings.size() == 1) out.string_goals = list(std::move(strings));
  }
  if (out.numbers == nullptr) {
    if (const auto machine = leaves_.numbers(number_sets); machine.ok()) out.numbers = *machine;
    if (numbers.size() == 1) out.number_goals = list(std::move(numbers));
  }
  const bool any = out.null != kNone || out.yes != kNone || out.no != kNone ||
                   out.strings != nullptr || out.numbers != nullptr || !out.objects.empty() ||
                   !out.arrays.empty();
  if (!any) liveness_.report_dead_end();
  return out;
}

bool Frames::compares(const Frame& frame) const {
  const Records& records = expander_.records();
  return frames_[frame.parent].keeps ||
         std::any_of(frame.candidates.begin(), frame.candidates.end(),
                     [&](const Candidate& candidate) {
                       if (frame.object) return !records.object(candidate.record).differs.empty();
                       const ArrayRecord& array = records.array(candidate.record);
                       return array.unique || !array.differs.empty();
                     });
}

bool Frames::compares_with_constants(FrameId id) const {
  const Records& records = expander_.records();
  const Frame& frame = frames_[id];
  return std::ranges::any_of(frame.candidates, [&](const Candidate& candidate) {
    return frame.object ? !records.object(candidate.record).differs.empty()
                        : !records.array(candidate.record).differs.empty();
  });
}

ValueId Frames::value_of(FrameId id) {
  const Frame& frame = frames_[id];
  JsonValue value;
  value.type = frame.object ? ValueType::kObject : ValueType::kArray;
  if (frame.object) value.keys = liveness_.lists()[frame.seen];
  value.items = liveness_.lists()[frame.values];
  return expander_.values().intern(std::move(value));
}

FrameId Frames::open_object(FrameId pending) {
  Frame frame;
  frame.object = true;
  frame.parent = pending;
  frame.depth = frames_[pending].depth + 1;
  frame.candidates = start(pending).objects;
  frame.seen = frame.values = list({});
  frame.keeps = compares(frame);
  return frame.candidates.empty() ? kNone : intern(std::move(frame));
}

FrameId Frames::open_array(FrameId pending) {
  Frame frame;
  frame.parent = pending;
  frame.depth = frames_[pending].depth + 1;
  frame.candidates = start(pending).arrays;
  frame.values = list({});
  frame.keeps = compares(frame);
  return frame.candidates.empty() ? kNone : intern(std::move(frame));
}

/// Where patterns decide about other keys: reads each class of them with a machine of its own.
bool Frames::divide_other_keys(const Frame& frame, KeyOptions& out) {
  if (frame.candidates.size() != 1) return false;
  const std::vector<Regex> classes = liveness_.key_classes(frame.candidates[0].record);
  if (classes.size() < 2 || classes.size() > UnionMachine::kMaxParts) return false;
  std::vector<Machine*> machines;
  for (const Regex names : classes) {
    const auto machine = leaves_.keys(names);
    if (!machine.ok() || *machine == nullptr) return false;
    machines.push_back(*machine);
  }
  std::ranges::sort(machines);
  out.others = leaves_.unite(machines, true);
  out.any_other = false;
  out.uniform = true;
  return true;
}

const KeyOptions& Frames::key_options(FrameId object) {
  auto& slot = key_options_[object];
  if (slot) return *slot;
  slot = std::make_unique<KeyOptions>();
  slot->ordered = order_ != nullptr;
  find_key_options(frames_[object], *slot);
  if (slot->ordered && slot->closing == kNone && !slot->any()) {
    // What is missing would have been before.
    *slot = KeyOptions();
    find_key_options(frames_[object], *slot);
  }
  if (slot->closing == kNone && !slot->any()) liveness_.report_dead_end();
  return *slot;
}

void Frames::find_key_options(const Frame& frame, KeyOptions& out) {
  const Values& values = expander_.values();
  const auto by_text = [&](Symbol a, Symbol b) { return values.text(a) < values.text(b); };
  std::vector<uint32_t> closing;
  RegexArena& arena = expander_.arena();
  std::vector<Regex> others;
  out.uniform = true;
  for (const Candidate& candidate : frame.candidates) {
    const ObjectProgress at = progress(frame, candidate);
    if (liveness_.complete(candidate.record, at)) closing.push_back(candidate.goal);
    std::vector<Symbol> allowed = liveness_.allowed_keys(candidate.record, at);
    bool any_name = true;
    if (out.ordered) {
      const PropertyOrder::Next next = order_->next(candidate.record, at);
      std::erase_if(allowed, [&](Symbol key) { return !order_->in_order(next, at, key); });
      any_name = order_->in_order(next, at, kNone);
    }
    out.named.insert(out.named.end(), allowed.begin(), allowed.end());
    out.any_other = out.any_other || (any_name && liveness_.all_other_keys(candidate.record, at));
    out.uniform = out.uniform && liveness_.uniform_others(candidate.record);
  }
  if (frame.candidates.size() > 1) {
    std::sort(out.named.begin(), out.named.end(), by_text);
    out.named.erase(std::unique(out.named.begin(), out.named.end()), out.named.end());
  }
  if (!closing.empty()) out.closing = list(std::move(closing));
  const std::vector<Symbol>& seen = liveness_.lists()[frame.seen];
  if (out.any_other) {
    if (!out.uniform && !divide_other_keys(frame, out)) return;
    out.special = seen;
    if (out.any_other) {
      for (const Candidate& candidate : frame.candidates) {
        const std::vector<Symbol>& keys = liveness_.special_keys(candidate.record);
        out.special.insert(out.special.end(), keys.begin(), keys.end());
      }
    }
    std::sort(out.special.begin(), out.special.end(), by_text);
    out.special.erase(std::unique(out.special.begin(), out.special.end()), out.special.end());
    return;
  }
  for (const Candidate& candidate : frame.candidates) {
    const ObjectProgress at = progress(frame, candidate);
    if (out.ordered && !order_->in_order(order_->next(candidate.record, at), at, kNone)) continue;
    const Regex language = liveness_.other_keys(candidate.record, at);
    if (language != arena.none()) others.push_back(language);
  }
  out.uniform = frame.candidates.size() == 1 && liveness_.one_class(frame.candidates[0].record);
  if (others.empty()) return;
  // A key that one candidate names may be another one's other key: both are read by name.
  std::vector<std::string> taken;
  for (const Symbol key : seen) taken.push_back(values.text(key));
  for (const Symbol key : out.named) taken.push_back(values.text(key));
  Regex language = arena.unite(others);
  if (!taken.empty()) {
    language = arena.intersect(language, arena.complement(arena.words(std::move(taken))));
  }
  const auto machine = leaves_.keys(language);
  if (machine.ok()) {
    out.others = *machine;
  } else {
    liveness_.undecided(frame.candidates[0].record, machine.error());
  }
}

FrameId Frames::with_key(FrameId object, Symbol key) {
  const uint64_t id = static_cast<uint64_t>(object) << 32 | key;
  if (const auto found = with_key_.find(id); found != with_key_.end()) return found->second;
  Frame frame = frames_[object];
  std::vector<uint32_t> goals;
  std::vector<Candidate> left;
  const std::vector<Symbol>& seen = liveness_.lists()[frame.seen];
  const bool ordered = key_options(object).ordered;
  if (!std::binary_search(seen.begin(), seen.end(), key)) {
    for (const Candidate& candidate : frame.candidates) {
      const ObjectProgress at = progress(frame, candidate);
      if (ordered && !order_->in_order(order_->next(candidate.record, at), at, key)) continue;
      const auto outcomes = liveness_.property_outcomes(candidate.record, at, key);
      for (const Outcome& outcome : outcomes) goals.push_back(outcome.goal);
      if (!outcomes.empty()) left.push_back(candidate);
    }
  }
  FrameId out = kNone;
  if (!left.empty()) {
    frame.candidates = std::move(left);
    frame.key = key;
    frame.goals = list(std::move(goals));
    out = intern(std::move(frame));
  }
  memory_ += 48;
  with_key_.emplace(id, out);
  return out;
}

uint32_t Frames::array_closing(FrameId array) {
  const auto [found, added] = array_closing_.emplace(array, kNone);
  if (!added) return found->second;
  const Frame& frame = frames_[array];
  std::vector<uint32_t> closing;
  for (const Candidate& candidate : frame.candidates) {
    if (liveness_.complete_array(candidate.record, array_progress(frame, candidate))) {
      closing.push_back(candidate.goal);
    }
  }
  if (!closing.empty()) found->second = list(std::move(closing));
  return found->second;
}

FrameId Frames::with_item(FrameId array) {
  if (const auto found = with_item_.find(array); found != with_item_.end()) return found->second;
  Frame frame = frames_[array];
  std::vector<uint32_t> goals;
  std::vector<Candidate> left;
  for (const Candidate& candidate : frame.candidates) {
    const auto outcomes =
        liveness_.item_outcomes(candidate.record, array_progress(frame, candidate));
    for (const Outcome& outcome : outcomes) goals.push_back(outcome.goal);
    if (!outcomes.empty()) left.push_back(candidate);
  }
  FrameId out = kNone;
  if (!left.empty()) {
    frame.candidates = std::move(left);
    frame.goals = list(std::move(goals));
    out = intern(std::move(frame));
  }
  memory_ += 48;
  with_item_.emplace(array, out);
  if (out == kNone && array_closing(array) == kNone) liveness_.report_dead_end();
  return out;
}

FrameId Frames::finish(FrameId pending, uint32_t satisfied, ValueId value) {
  const auto id = std::tuple(pending, satisfied, value);
  if (const auto found = finished_.find(id); found != finished_.end()) return found->second;
  Frame frame = frames_[pending];
  const std::vector<uint32_t> goals = liveness_.lists()[satisfied];
  const auto holds = [&](GoalId goal) {
    return std::binary_search(goals.begin(), goals.end(), goal);
  };
  std::vector<Candidate> left;
  for (Candidate candidate : frame.candidates) {
    bool any = false;
    if (frame.object) {
      const auto outcomes =
          liveness_.property_outcomes(candidate.record, progress(frame, candidate), frame.key);
      for (const Outcome& outcome : outcomes) {
        if (!holds(outcome.goal)) continue;
        candidate.progress |= outcome.after;
        any = true;
      }
    } else {
      const auto outcomes =
          liveness_.item_outcomes(candidate.record, array_progress(frame, candidate));
      // The last outcome that holds counts most conditions.
      for (const Outcome& outcome : outcomes) {
        if (!holds(outcome.goal)) continue;
        candidate.progress = outcome.after;
        any = true;
      }
    }
    if (any) left.push_back(candidate);
  }
  FrameId out = kNone;
  if (!left.empty()) {
    frame.candidates = std::move(left);
    frame.goals = kNone;
    if (frame.object) {
      std::vector<uint32_t> seen = liveness_.lists()[frame.seen];
      const auto place = std::lower_bound(seen.begin(), seen.end(), frame.key) - seen.begin();
      seen.insert(seen.begin() + place, frame.key);
      frame.seen = liveness_.lists().intern(std::move(seen));
      if (frame.keeps) {
        std::vector<uint32_t> values = liveness_.lists()[frame.values];
        values.insert(values.begin() + place, value);
        frame.values = liveness_.lists().intern(std::move(values));
      }
      frame.key = kNone;
    } else {
      ++frame.items;
      if (frame.keeps) {
        std::vector<uint32_t> values = liveness_.lists()[frame.values];
        values.push_back(value);
        frame.values = liveness_.lists().intern(std::move(values));
      }
      // Behind all bounds, arrays of any length are the same.
      uint64_t most = frame.keeps ? kNoLimit : 0;
      for (const Candidate& candidate : frame.candidates) {
        const ArrayRecord& array = expander_.records().array(candidate.record);
        const uint64_t bound = array.max != kNoLimit
                                   ? kNoLimit
                                   : std::max(array.min, expander_.uniform_from(candidate.record));
        most = std::max(most, bound);
      }
      frame.items = std::min(frame.items, most);
    }
    out = intern(std::move(frame));
  }
  memory_ += 48;
  finished_.emplace(id, out);
  return out;
}

uint32_t Frames::goals_of_parts(const std::vector<std::vector<GoalId>>& parts, uint32_t accepting) {
  std::vector<uint32_t> out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if ((accepting >> i & 1) != 0) out.insert(out.end(), parts[i].begin(), parts[i].end());
  }
  return out.empty() ? kNone : list(std::move(out));
}

uint32_t Frames::goals_of_string(FrameId pending, std::string_view value) {
  const ValueStart& begin = start(pending);
  if (begin.string_goals != kNone) return begin.string_goals;
  std::vector<uint32_t> out;
  for (const auto& [goal, alternatives] : begin.goals) {
    if (std::any_of(alternatives->strings.begin(), alternatives->strings.end(),
                    [&](const StringSet& set) { return leaves_.contains(set, value); })) {
      out.push_back(goal);
    }
  }
  return out.empty() ? kNone : list(std::move(out));
}

uint32_t Frames::goals_of_number(FrameId pending, std::string_view value) {
  const ValueStart& begin = start(pending);
  if (begin.number_goals != kNone) return begin.number_goals;
  const auto decimal = Decimal::parse(value);
  if (!decimal) return kNone;
  std::vector<uint32_t> out;
  for (const auto& [goal, alternatives] : begin.goals) {
    if (std::any_of(alternatives->numbers.begin(), alternatives->numbers.end(),
                    [&](const NumberAlternative& set) { return set.contains(*decimal, value); })) {
      out.push_back(goal);
    }
  }
  return out.empty() ? kNone : list(std::move(out));
}

}  // namespace chimere::constraints::json_schema
