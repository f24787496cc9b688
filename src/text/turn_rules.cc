#include "text/turn_rules.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "text/tool_messages.h"

namespace chimere::text {
namespace {

using jinja::Dict;
using jinja::MarkedText;
using jinja::Value;

constexpr std::string_view kResultOpen = "<tool_response>";
constexpr std::string_view kResultClose = "</tool_response>";

std::string_view role_of(const Dict& message) {
  const Value* role = message.find("role");
  return role != nullptr && role->is_string() ? std::string_view(role->as_bytes()) : "";
}

bool is_system(const Dict& message) {
  return role_of(message) == "system" || role_of(message) == "developer";
}

bool has_calls(const Dict& message) {
  const Value* calls = message.find("tool_calls");
  return calls != nullptr && calls->truth();
}

MarkedText text_at(const Dict& message, std::string_view key) {
  const Value* value = message.find(key);
  return value != nullptr && value->is_string() ? value->as_text() : MarkedText();
}

void append_paragraph(const MarkedText& text, MarkedText& out) {
  if (text.empty()) return;
  if (!out.empty()) out.append("\n\n", true);
  out.append(text);
}

Dict turn(std::string_view role, MarkedText content = {}) {
  Dict out;
  out.set("role", Value::string(role, true));
  out.set("content", Value::string(std::move(content)));
  return out;
}

/// Puts the text of `key` in `second` behind that of `first`.
void join_text(std::string_view key, const Dict& second, Dict& first) {
  MarkedText joined = text_at(first, key);
  append_paragraph(text_at(second, key), joined);
  if (!joined.empty()) first.set(key, Value::string(std::move(joined)));
}

class Adapter {
 public:
  Adapter(const TurnRules& rules, std::vector<Dict> messages)
      : rules_(rules), messages_(std::move(messages)) {}

  std::vector<Dict> adapted() {
    rename_developers();
    join_leading();
    move_systems();
    write_orphans();
    add_question();
    alternate();
    return std::move(messages_);
  }

 private:
  void rename_developers() {
    if (rules_.developer) return;
    for (Dict& m : messages_) {
      if (role_of(m) == "developer") m.set("role", Value::string("system", true));
    }
  }

  size_t leading() const {
    return static_cast<size_t>(std::ranges::find_if_not(messages_, is_system) - messages_.begin());
  }

  void join_leading() {
    const size_t count = leading();
    if (!rules_.system || rules_.leading_systems || count < 2) return;
    for (size_t i = 1; i < count; ++i) join_text("content", messages_[i], messages_.front());
    messages_.erase(messages_.begin() + 1, messages_.begin() + static_cast<ptrdiff_t>(count));
  }

  /// The place of system messages that the template does not show is in messages of the user.
  void move_systems() {
    const size_t front = leading();
    const bool ends_with_user = !messages_.empty() && role_of(messages_.back()) == "user";
    const bool shown_in_front =
        rules_.system && (rules_.system_always || ends_with_user || front == messages_.size());
    std::vector<Dict> out;
    MarkedText waiting;
    const auto flush = [&] {
      if (waiting.empty()) return;
      if (out.empty() || role_of(out.back()) != "user") out.push_back(turn("user"));
      join_text("content", turn("user", std::exchange(waiting, {})), out.back());
    };
    for (size_t i = 0; i < messages_.size(); ++i) {
      Dict& m = messages_[i];
      if (is_system(m) && !(i < front ? shown_in_front : rules_.late_systems)) {
        append_paragraph(text_at(m, "content"), waiting);
        continue;
      }
      if (role_of(m) == "user" && !waiting.empty()) {
        append_paragraph(text_at(m, "content"), waiting);
        m.set("content", Value::string(std::exchange(waiting, {})));
      }
      // Nothing comes between a call and its results.
      if (role_of(m) != "tool" || !follows_calls(out)) flush();
      out.push_back(std::move(m));
    }
    flush();
    messages_ = std::move(out);
  }

  static bool follows_calls(const std::vector<Dict>& messages) {
    const auto last = std::find_if(messages.rbegin(), messages.rend(),
                                   [](const Dict& m) { return role_of(m) != "tool"; });
    return last != messages.rend() && has_calls(*last);
  }

  void write_orphans() {
    if (rules_.orphan_results) return;
    std::vector<Dict> out;
    for (Dict& m : messages_) {
      if (role_of(m) == "tool" && !follows_calls(out)) {
        MarkedText text(std::string(kResultOpen) + "\n", false);
        text.append(text_at(m, "content"));
        text.append("\n" + std::string(kResultClose), false);
        m = turn("user", std::move(text));
      }
      out.push_back(std::move(m));
    }
    messages_ = std::move(out);
  }

  static bool is_question(const Dict& message) {
    if (role_of(message) != "user") return false;
    const MarkedText content = text_at(message, "content");
    return !content.bytes().starts_with(kResultOpen) || !content.bytes().ends_with(kResultClose);
  }

  void add_question() {
    const size_t first = leading();
    const bool asked = std::ranges::any_of(messages_, is_question);
    const bool assistant = first < messages_.size() && role_of(messages_[first]) == "assistant";
    if (!messages_.empty() && (asked || rules_.no_question) &&
        !(assistant && !rules_.assistant_first)) {
      return;
    }
    messages_.insert(messages_.begin() + static_cast<ptrdiff_t>(first), turn("user"));
  }

  void alternate() {
    std::vector<Dict> out;
    std::string speaker;  // of the last message without calls and results
    for (Dict& m : messages_) {
      const std::string role(role_of(m));
      const bool follows_role = !out.empty() && role_of(out.back()) == role;
      const bool after_calls =
          !out.empty() && (role_of(out.back()) == "tool" || has_calls(out.back()));
      if (follows_role && ((role == "user" && !rules_.user_runs) ||
                           (role == "assistant" && !rules_.assistant_runs && !has_calls(m) &&
                            !has_calls(out.back())))) {
        join_text("content", m, out.back());
        for (const std::string_view key : kReasoningKeys) join_text(key, m, out.back());
        continue;
      }
      if (role == "user" && after_calls && !rules_.user_after_calls) {
        out.push_back(turn("assistant"));
      }
      if (has_calls(m) && speaker == "assistant" && !rules_.calls_after_answer) {
        out.push_back(turn("user"));
        speaker = "user";
      }
      if (role == "user" || (role == "assistant" && !has_calls(m))) speaker = role;
      out.push_back(std::move(m));
    }
    messages_ = std::move(out);
  }

  const TurnRules& rules_;
  std::vector<Dict> messages_;
};

void write_parts(Dict& message) {
  const Value* content = message.find("content");
  if (content == nullptr || !content->is_string()) return;
  Dict part;
  part.set("type", Value::string("text", true));
  part.set("text", *content);
  message.set("content", Value::list({Value::dict(std::move(part))}));
}

constexpr std::string_view kTurnSystem = "turnprobe1";
constexpr std::string_view kTurnMoreSystem = "turnprobe2";
constexpr std::string_view kTurnQuestion = "turnprobe3";
constexpr std::string_view kTurnAnswer = "turnprobe4";
constexpr std::string_view kTurnResult = "turnprobe5";
constexpr std::string_view kTurnNextQuestion = "turnprobe6";
constexpr std::string_view kTurnNextAnswer = "turnprobe7";

class TurnProber {
 public:
  TurnProber(const ChatTemplate& chat_template, const ToolFormat& format,
             const ChatOptions& options)
      : template_(chat_template), format_(format), options_(options) {
    constexpr int64_t kMostSteps = 1'000'000;
    options_.limits.steps = std::min(options_.limits.steps, kMostSteps);
  }

  TurnRules rules() {
    const Message question = message("user", kTurnQuestion);
    const Message answer = message("assistant", kTurnAnswer);
    const Message next_question = message("user", kTurnNextQuestion);
    const Message next_answer = message("assistant", kTurnNextAnswer);
    const Message system = message("system", kTurnSystem);
    const Message more_system = message("system", kTurnMoreSystem);
    const Message call = {.role = "assistant", .tool_calls = {{"aAbBcC123", "probe", "{}"}}};
    const Message result = {.role = "tool",
                            .content = std::string(kTurnResult),
                            .name = "probe",
                            .tool_call_id = "aAbBcC123"};
    TurnRules out;
    if (!shows({question})) {
      rules_.content_parts = true;
      out.content_parts = out.messages = shows({question});
      if (!out.messages) return out;
    }
    out.system = shows({system, question});
    out.developer = shows({message("developer", kTurnSystem), question});
    // The following ones begin as conversations do.
    if (out.system) begin_ = {system};
    out.leading_systems = out.system && shows({more_system, question});
    out.late_systems =
        shows({question, answer, more_system, next_question}) && shows({question, more_system});
    out.system_always = shows({question, answer});
    if (!out.system_always) begin_.clear();
    out.assistant_first = shows({answer, question});
    out.user_runs = shows({question, next_question});
    out.assistant_runs = shows({question, answer, next_answer, next_question});
    out.no_question = shows({answer}) && (!out.system || (out.system_always && shows({})));
    // Results that the template does not know are messages of the user.
    if (!format_.rendering.results) return out;
    out.orphan_results = shows({question, result}) && shows({question, answer, result});
    if (!format_.rendering.calls) return out;
    out.system_always = out.system_always && shows({question, call, result});
    if (!out.system_always) begin_.clear();
    out.no_question = out.no_question && shows({call, result});
    out.user_after_calls =
        shows({question, call, result, next_question}) && shows({question, call, next_question});
    out.calls_after_answer = shows({question, answer, call, result, next_answer, next_question});
    return out;
  }

 private:
  using Message = ChatMessage;

  static Message message(std::string_view role, std::string_view text) {
    return {.role = std::string(role), .content = std::string(text)};
  }

  bool shows(std::initializer_list<Message> conversation) const {
    std::vector<Message> messages = begin_;
    messages.insert(messages.end(), conversation);
    const auto values = messages_value(messages, {}, format_);
    if (!values.ok()) return false;
    const auto chat = template_.render(adapt_turns(*values, rules_), options_);
    if (!chat.ok()) return false;
    for (const Message& m : begin_) {
      if (chat->text.find(m.content) == std::string::npos) return false;
    }
    size_t at = 0;
    for (const Message& m : conversation) {
      at = chat->text.find(m.content, at);
      if (at == std::string::npos) return false;
      at += m.content.size();
    }
    return true;
  }

  const ChatTemplate& template_;
  const ToolFormat& format_;
  ChatOptions options_;
  TurnRules rules_;             ///< of the probes themselves
  std::vector<Message> begin_;  ///< of the conversations
};

}  // namespace

TurnRules TurnRules::of(const ChatTemplate& chat_template, const ToolFormat& format,
                        const ChatOptions& options) {
  return TurnProber(chat_template, format, options).rules();
}

TurnRules TurnRules::strictest() const {
  TurnRules out;
  out.messages = messages;
  out.content_parts = content_parts;
  out.system = system;
  out.system_always = system_always;
  out.developer = out.leading_systems = out.late_systems = false;
  out.no_question = out.assistant_first = false;
  out.user_runs = out.assistant_runs = false;
  out.user_after_calls = out.calls_after_answer = out.orphan_results = false;
  return out;
}

Value adapt_turns(const Value& messages, const TurnRules& rules) {
  if (!rules.messages) return messages;
  std::vector<Dict> turns;
  for (const Value& message : messages.as_list().items) turns.push_back(message.as_dict());
  std::vector<Value> out;
  for (Dict& message : Adapter(rules, std::move(turns)).adapted()) {
    if (rules.content_parts) write_parts(message);
    out.push_back(Value::dict(std::move(message)));
  }
  return Value::list(std::move(out));
}

}  // namespace chimere::text
