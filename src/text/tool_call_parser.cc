#include "text/tool_call_parser.h"

#include <algorithm>
#include <map>
#include <utility>

#include "text/json_stream.h"
#include "text/text_matcher.h"
#include "text/tool_call_harmony.h"
#include "text/tool_call_reader.h"
#include "text/tool_values.h"

namespace chimere::text {
namespace {

using Kind = ToolEvent::Kind;
using Style = ToolFormat::Style;

/// Longest text between the marker of a call and its name's end, and longest key.
constexpr size_t kMostHeld = size_t{64} << 10U;

bool is_name_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.' || c == ':' || c == '/';
}

/// `text` up to its first brace.
std::string before_brace(const std::string& text) { return text.substr(0, text.find('{')); }

std::string behind_brace(const std::string& text) {
  const size_t at = text.find('}');
  return at == std::string::npos ? text : text.substr(at + 1);
}

/// Calls between markers. Reads byte by byte, so that the result does not depend on how the text is
/// split.
class MarkedReader final : public ToolCallReader {
 public:
  MarkedReader(const ToolFormat& format, std::span<const Tool> tools)
      : ToolCallReader(tools), format_(format) {
    const std::string opener = format.section_open + format.call_open;
    const std::string next = format.separator + format.call_open;
    const bool object = format.style == Style::kObject;
    opener_ = TextMatcher(object ? before_brace(opener) : opener);
    next_ = TextMatcher(object ? before_brace(next) : next);
    section_close_ = TextMatcher(format.section_close);
    call_close_ = TextMatcher(object ? behind_brace(format.call_close) : format.call_close);
    after_name_ = TextMatcher(format.after_name);
    after_id_ = TextMatcher(format.after_id);
    parameter_open_ = TextMatcher(format.parameter_open);
    after_key_ = TextMatcher(format.after_key);
    const size_t tag = format.parameter_close.find_first_not_of(" \t\r\n");
    if (tag != std::string::npos) value_close_ = format.parameter_close.substr(tag);
    line_around_value_ =
        format.after_key.ends_with('\n') && format.parameter_close.starts_with('\n');
    for (const Tool& tool : tools) {
      if (format.style == Style::kTagged) parameters_[tool.name] = ToolParameters(tool.parameters);
    }
  }

  void push(char c) override { feed(c); }

  void finish(bool cut_off) override {
    switch (state_) {
      case State::kSection:
        // Nothing but a call or the end of the section was allowed to follow.
        if (cut_off) held_.clear();
        [[fallthrough]];
      case State::kText:
        if (held_.empty() && after_call_) space_.clear();
        return content(space_and_held());
      case State::kTagValue: {
        // The last bytes may begin a closing tag.
        std::string out;
        if (cut_off) held_.clear();
        for (const char c : held_) value_.push(c, out);
        arguments(out);
        return end_call();
      }
      case State::kPythonValue:
        return end_call();
      default:
        break;
    }
    if (begun_) {
      if (state_ == State::kTags && !cut_off) arguments("}");
      end_call();
      if (!cut_off) content(held_);
    } else if (!cut_off) {
      content(raw_);
    }
  }

 private:
  enum class State {
    kText,
    kSection,  ///< behind a call: another one, the end of the section, or text
    kObject,   ///< in the object of a call, before its arguments and behind them
    kSkip,     ///< in the value of another member of the object
    kName,     ///< in a name outside JSON
    kAfterName,
    kId,
    kAfterId,
    kArguments,  ///< in the JSON object of the arguments
    kTags,       ///< before a tagged parameter or the end of the call
    kTagKey,
    kAfterKey,
    kTagValue,
    kPythonKey,
    kPythonValue,
    kClose,  ///< in what ends a call
  };
  enum class Member { kKeyOrEnd, kKey, kColon, kValue, kCommaOrEnd };

  void feed(char c) {
    if (!begun_ && state_ != State::kText && state_ != State::kSection) {
      raw_ += c;
      if (raw_.size() > kMostHeld) return give_up();
    }
    switch (state_) {
      case State::kText:
        return text_byte(c);
      case State::kSection:
        return section_byte(c);
      case State::kObject:
        return object_byte(c);
      case State::kSkip:
        return skip_byte(c);
      case State::kName:
        return name_byte(c);
      case State::kAfterName:
        return match(after_name_, c, &MarkedReader::name_done);
      case State::kId:
        return id_byte(c);
      case State::kAfterId:
        return match(after_id_, c, &MarkedReader::begin_arguments);
      case State::kArguments:
        return argument_byte(c);
      case State::kTags:
        return tag_byte(c);
      case State::kTagKey:
        return key_byte(c);
      case State::kAfterKey:
        return match(after_key_, c, &MarkedReader::begin_value);
      case State::kTagValue:
        return value_byte(c);
      case State::kPythonKey:
        return python_key_byte(c);
      case State::kPythonValue:
        return python_value_byte(c);
      case State::kClose:
        return close_byte(c);
    }
  }

  // Outside calls.

  std::string space_and_held() { return std::exchange(space_, "") + std::exchange(held_, ""); }

  void text_byte(char c) {
    if (opener_.empty()) {
      // A call without a marker is the first thing of the content.
      if (at_start_ && c == '{') return begin_call(std::exchange(space_, "") + c, true);
    } else if (!held_.empty() || c == opener_.first()) {
      if (held_.empty()) opener_.restart();
      if (opener_.advance(c)) {
        held_ += c;
        if (!opener_.done()) return;
        return begin_call(space_and_held(), false);
      }
      // The text is no opener; a later byte of it may begin one.
      std::string again = std::exchange(held_, "");
      at_start_ = false;
      after_call_ = false;
      content(std::exchange(space_, "") + again.substr(0, 1));
      again.erase(0, 1);
      for (const char held : again) feed(held);
      return feed(c);
    }
    constexpr size_t kMostSpace = 1024;
    if (is_white_space(c) && space_.size() < kMostSpace) {
      space_ += c;
      return;
    }
    at_start_ = false;
    after_call_ = false;
    content(std::exchange(space_, "") + c);
  }

  /// A call has broken the format: what was held is content, and the last byte may begin another.
  void give_up() {
    if (begun_) {
      end_call();
    } else {
      std::string raw = std::exchange(raw_, "");
      const char last = raw.back();
      raw.pop_back();
      content(raw);
      reset();
      return feed(last);
    }
    reset();
  }

  /// The same after the call's beginning, where the byte was not kept.
  void give_up(char c) {
    if (!begun_) return give_up();
    const bool in_key =
        state_ == State::kPythonKey || state_ == State::kTagKey || state_ == State::kAfterKey;
    end_call();
    if (in_key) content(key_);
    reset();
    feed(c);
  }

  void reset() {
    state_ = State::kText;
    at_start_ = false;
    begun_ = false;
    raw_.clear();
    held_.clear();
    name_.clear();
    id_.clear();
    kept_arguments_.clear();
    opener_.restart();
  }

  // The beginning of a call.

  /// `raw`: the text that is content if there is no call; `in_object`: it ends with the brace.
  void begin_call(std::string raw, bool in_object) {
    reset();
    raw_ = std::move(raw);
    state_ = format_.style == Style::kObject ? State::kObject : State::kName;
    in_object_ = in_object;
    member_ = in_object ? Member::kKeyOrEnd : Member::kValue;
    has_arguments_ = false;
  }

  bool begin_event() {
    if (!known(name_)) return false;
    begin(name_, id_);
    begun_ = true;
    raw_.clear();
    return true;
  }

  using Next = void (MarkedReader::*)();
  void match(TextMatcher& matcher, char c, Next next) {
    if (!matcher.advance(c)) return give_up(c);
    if (matcher.done()) (this->*next)();
  }

  void name_byte(char c) {
    if (is_name_byte(c)) {
      name_ += c;
      return;
    }
    if (name_.empty()) {
      if (is_white_space(c)) return;
      return give_up();
    }
    if (format_.ids == ToolFormat::Ids::kNumbered) {
      const size_t colon = name_.rfind(':');
      if (colon != std::string::npos &&
          name_.find_first_not_of("0123456789", colon + 1) == std::string::npos) {
        name_.resize(colon);
      }
    }
    after_name_.restart();
    state_ = State::kAfterName;
    if (after_name_.empty()) {
      name_done();
    } else if (is_white_space(c)) {
      return;
    }
    // name_done() may have released the byte with the name.
    if (state_ == State::kAfterName) return match(after_name_, c, &MarkedReader::name_done);
    if (state_ != State::kText) refeed(c);
  }

  /// Feeds a byte that raw_ has already.
  void refeed(char c) {
    if (!begun_ && !raw_.empty()) raw_.pop_back();
    feed(c);
  }

  void name_done() {
    if (!after_id_.empty()) {
      state_ = State::kId;
      return;
    }
    begin_arguments();
  }

  void id_byte(char c) {
    if (is_name_byte(c)) {
      id_ += c;
      return;
    }
    after_id_.restart();
    state_ = State::kAfterId;
    match(after_id_, c, &MarkedReader::begin_arguments);
  }

  void begin_arguments() {
    if (!begin_event()) return give_up();
    json_ = {};
    switch (format_.style) {
      case Style::kTagged:
        arguments("{");
        any_parameter_ = false;
        expect_tag();
        break;
      case Style::kPython:
        arguments("{");
        any_parameter_ = false;
        state_ = State::kPythonKey;
        break;
      default:
        state_ = State::kArguments;
        break;
    }
  }

  // JSON.

  void argument_byte(char c) {
    if (json_.empty() && c != '{') {
      if (is_white_space(c)) return;
      return give_up(c);
    }
    const JsonStream::Step step = json_.push(c);
    if (step == JsonStream::Step::kError) {
      // A line break inside a string is what models write most often against JSON's rules.
      if (!json_.in_string()) return give_up(c);
      const std::string quoted = json_quoted({&c, 1});
      return add_argument(quoted.substr(1, quoted.size() - 2));
    }
    add_argument({&c, 1});
    if (step != JsonStream::Step::kDone) return;
    if (format_.style == Style::kObject) {
      state_ = State::kObject;
      member_ = Member::kCommaOrEnd;
    } else {
      begin_close();
    }
  }

  void add_argument(std::string_view json) {
    if (begun_) {
      arguments(json);
    } else {
      kept_arguments_ += json;
    }
  }

  void object_byte(char c) {
    if (is_white_space(c) && member_ != Member::kKey) return;
    switch (member_) {
      case Member::kKeyOrEnd:
      case Member::kCommaOrEnd:
        if (c == '}') return object_done(c);
        if (c == ',' && member_ == Member::kCommaOrEnd) {
          member_ = Member::kKeyOrEnd;
          return;
        }
        if (c != '"' || member_ == Member::kCommaOrEnd) return give_up(c);
        key_.clear();
        member_ = Member::kKey;
        return;
      case Member::kKey:
        if (c == '"') {
          // Content may be an object, too, if calls have no marker.
          const bool other = opener_.empty() && !begun_ && key_ != format_.name_key &&
                             key_ != format_.arguments_key;
          if (other) return give_up(c);
          member_ = Member::kColon;
        } else {
          key_ += c;
          if (key_.size() > kMostHeld) give_up(c);
        }
        return;
      case Member::kColon:
        if (c != ':') return give_up(c);
        member_ = Member::kValue;
        return;
      case Member::kValue:
        break;
    }
    if (!in_object_) {
      if (c != '{') return give_up(c);
      in_object_ = true;
      member_ = Member::kKeyOrEnd;
      return;
    }
    json_ = {};
    if (key_ == format_.arguments_key && !has_arguments_) {
      if (c != '{') return give_up(c);
      has_arguments_ = true;
      state_ = State::kArguments;
      return argument_byte(c);
    }
    skipped_.clear();
    state_ = State::kSkip;
    skip_byte(c);
  }

  void skip_byte(char c) {
    const JsonStream::Step step = json_.push(c);
    if (step == JsonStream::Step::kError) return give_up(c);
    if (key_ == format_.name_key && !begun_ && step != JsonStream::Step::kAfter) skipped_ += c;
    if (step == JsonStream::Step::kMore) return;
    state_ = State::kObject;
    member_ = Member::kCommaOrEnd;
    if (key_ == format_.name_key && !begun_) {
      // A name has no escapes.
      if (skipped_.size() < 2 || skipped_.front() != '"') return give_up();
      name_ = skipped_.substr(1, skipped_.size() - 2);
      if (!begin_event()) return give_up();
      if (has_arguments_) arguments(std::exchange(kept_arguments_, ""));
    }
    if (step == JsonStream::Step::kAfter) refeed(c);
  }

  void object_done(char c) {
    if (!begun_) return give_up(c);
    if (!has_arguments_) arguments("{}");
    begin_close();
  }

  // Tagged parameters.

  void expect_tag() {
    parameter_open_.restart();
    call_close_.restart();
    may_open_ = true;
    may_close_ = true;
    held_.clear();
    state_ = State::kTags;
  }

  void tag_byte(char c) {
    if (held_.empty() && is_white_space(c)) return;
    held_ += c;
    may_open_ = may_open_ && parameter_open_.advance(c);
    may_close_ = may_close_ && call_close_.advance(c);
    if (may_open_ && parameter_open_.done()) {
      held_.clear();
      key_.clear();
      state_ = State::kTagKey;
    } else if (may_close_ && call_close_.done()) {
      held_.clear();
      arguments("}");
      call_done();
    } else if (!may_open_ && !may_close_) {
      arguments("}");
      end_call();
      std::string again = std::exchange(held_, "");
      reset();
      for (const char held : again) feed(held);
    }
  }

  void key_byte(char c) {
    if (c != after_key_.first()) {
      key_ += c;
      if (key_.size() > kMostHeld) give_up(c);
      return;
    }
    after_key_.restart();
    state_ = State::kAfterKey;
    match(after_key_, c, &MarkedReader::begin_value);
  }

  void begin_value() {
    while (!key_.empty() && is_white_space(key_.back())) key_.pop_back();
    arguments((any_parameter_ ? ", " : "") + json_quoted(key_) + ": ");
    any_parameter_ = true;
    value_ = TaggedValue(parameters_[name_].kind(key_));
    held_.clear();
    skip_line_ = line_around_value_;
    state_ = State::kTagValue;
  }

  void value_byte(char c) {
    if (skip_line_) {
      // A line break ends the opening tag's line.
      skip_line_ = false;
      if (c == '\n') return;
    }
    held_ += c;
    const auto may_close = [&] {
      std::string_view rest = held_;
      if (line_around_value_ && rest.starts_with('\n')) rest.remove_prefix(1);
      return std::string_view(value_close_).starts_with(rest);
    };
    std::string out;
    while (!held_.empty() && !may_close()) {
      value_.push(held_.front(), out);
      held_.erase(0, 1);
    }
    const bool closed = held_.ends_with(value_close_) && !held_.empty();
    if (closed) value_.finish(out);
    arguments(out);
    if (closed) expect_tag();
  }

  // Python.

  void python_key_byte(char c) {
    if (is_white_space(c)) return;
    if (c == ')' && key_.empty()) {
      arguments("}");
      return call_done();
    }
    if (c == ',' && key_.empty() && any_parameter_) return;
    if (c != '=') {
      const bool letter = is_name_byte(c) || static_cast<uint8_t>(c) >= 0x80;
      if (!letter || key_.size() > kMostHeld) return give_up(c);
      key_ += c;
      return;
    }
    if (key_.empty()) return give_up(c);
    arguments((any_parameter_ ? ", " : "") + json_quoted(key_) + ": ");
    key_.clear();
    any_parameter_ = true;
    python_ = {};
    state_ = State::kPythonValue;
  }

  void python_value_byte(char c) {
    std::string out;
    const PythonValue::Step step = python_.push(c, out);
    arguments(out);
    if (step == PythonValue::Step::kError) return give_up(c);
    if (step == PythonValue::Step::kMore) return;
    state_ = State::kPythonKey;
    python_key_byte(c);
  }

  // The end of a call.

  void begin_close() {
    held_.clear();
    call_close_.restart();
    state_ = State::kClose;
    if (call_close_.empty()) call_done();
  }

  void close_byte(char c) {
    if (!call_close_.started() && is_white_space(c)) return;
    if (call_close_.advance(c)) {
      held_ += c;
      if (call_close_.done()) call_done();
      return;
    }
    end_call();
    std::string again = std::exchange(held_, "") + c;
    reset();
    // The first byte is no marker's: it did not continue the call.
    for (const char held : again) feed(held);
  }

  void end_call() {
    end();
    begun_ = false;
  }

  void call_done() {
    end_call();
    const bool lone = section_close_.empty() && next_.empty();
    reset();
    after_call_ = true;
    if (lone) return;
    next_.restart();
    section_close_.restart();
    may_open_ = !next_.empty();
    may_close_ = !section_close_.empty();
    state_ = State::kSection;
  }

  void section_byte(char c) {
    if (held_.empty() && is_white_space(c)) {
      constexpr size_t kMostSpace = 1024;
      if (space_.size() < kMostSpace) space_ += c;
      return;
    }
    held_ += c;
    may_open_ = may_open_ && next_.advance(c);
    may_close_ = may_close_ && section_close_.advance(c);
    if (may_open_ && next_.done()) {
      return begin_call(space_and_held(), false);
    }
    if (may_close_ && section_close_.done()) {
      reset();
      space_.clear();
      return;
    }
    if (may_open_ || may_close_) return;
    const std::string again = std::exchange(held_, "");
    state_ = State::kText;
    for (const char held : again) feed(held);
  }

  const ToolFormat format_;
  std::map<std::string, ToolParameters> parameters_;
  TextMatcher opener_;
  TextMatcher next_;
  TextMatcher section_close_;
  TextMatcher call_close_;
  TextMatcher after_name_;
  TextMatcher after_id_;
  TextMatcher parameter_open_;
  TextMatcher after_key_;
  std::string value_close_;
  bool line_around_value_ = false;

  State state_ = State::kText;
  bool at_start_ = true;     ///< nothing but white space so far
  std::string space_;        ///< white space before what is undecided
  std::string held_;         ///< what may begin a text of the format
  bool after_call_ = false;  ///< nothing but white space since a call
  bool begun_ = false;       ///< the call's event is out
  std::string raw_;          ///< of a call whose event is not out
  std::string name_;
  std::string id_;
  std::string kept_arguments_;  ///< that stood before the name
  JsonStream json_;
  // kObject.
  Member member_ = Member::kKeyOrEnd;
  bool in_object_ = false;
  bool has_arguments_ = false;
  std::string key_;
  std::string skipped_;
  // kTagged and kPython.
  bool any_parameter_ = false;
  bool may_open_ = false;
  bool may_close_ = false;
  bool skip_line_ = false;
  TaggedValue value_{ParameterKind::kText};
  PythonValue python_;
};

}  // namespace

ToolCallParser::ToolCallParser(const ToolFormat& format, std::span<const Tool> tools)
    : reader_(format.style == Style::kHarmony ? harmony_reader(tools)
                                              : std::make_unique<MarkedReader>(format, tools)) {}
ToolCallParser::~ToolCallParser() = default;
ToolCallParser::ToolCallParser(ToolCallParser&&) noexcept = default;
ToolCallParser& ToolCallParser::operator=(ToolCallParser&&) noexcept = default;

std::vector<ToolEvent> ToolCallParser::push(std::string_view text) {
  for (const char c : text) reader_->push(c);
  return reader_->take();
}

std::vector<ToolEvent> ToolCallParser::finish(End end) {
  reader_->finish(end == End::kCutOff);
  return reader_->take();
}

int32_t ToolCallParser::calls() const { return reader_->calls(); }

}  // namespace chimere::text
