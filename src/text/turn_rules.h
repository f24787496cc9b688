// Which conversations a chat template takes, and how others are made to fit.
#ifndef CHIMERE_TEXT_TURN_RULES_H_
#define CHIMERE_TEXT_TURN_RULES_H_

#include <vector>

#include "text/chat_template.h"
#include "text/jinja/value.h"
#include "text/tool_format.h"

namespace chimere::text {

/// What a template shows of a conversation. "Shows" means that a rendering succeeds and has all
/// texts, in their order except for a system message in front. The default is a template that shows
/// everything.
struct TurnRules {
  bool messages = true;            ///< a user's question
  bool content_parts = false;      ///< ... only if contents are lists of parts
  bool system = true;              ///< a system message in front
  bool developer = true;           ///< a message of the role `developer` in front
  bool leading_systems = true;     ///< several system messages in front
  bool late_systems = true;        ///< system messages behind others
  bool system_always = true;       ///< a system message in front, even if no question is at the end
  bool no_question = true;         ///< conversations without a message of the user
  bool assistant_first = true;     ///< a message of the assistant in front of the first question
  bool user_runs = true;           ///< several messages of the user in a row
  bool assistant_runs = true;      ///< several messages of the assistant in a row
  bool user_after_calls = true;    ///< a question after calls or results that were not answered
  bool calls_after_answer = true;  ///< calls after an answer, without a question between
  bool orphan_results = true;      ///< results of calls that the conversation does not have

  /// From renderings of small conversations. Never fails. `format`: that of the same template.
  static TurnRules of(const ChatTemplate& chat_template, const ToolFormat& format,
                      const ChatOptions& options);

  /// Those of a template that takes the user and the assistant in turns, calls with their results,
  /// and of the rest what `this` shows.
  TurnRules strictest() const;

  friend bool operator==(const TurnRules& a, const TurnRules& b) = default;
};

/// Makes the messages, as messages_value() returns them, fit a template. What the template shows
/// stays as it is. Otherwise
/// - system messages in front become one; without a system role their text goes in front of the
///   first question;
/// - later system messages become text of the next message if that is the user's, else of the
///   message before if that is the user's, else a message of the user;
/// - a missing question or turn is an empty message;
/// - messages of one role in a row become one; texts are joined with an empty line;
/// - a result without its call is text of the user.
jinja::Value adapt_turns(const jinja::Value& messages, const TurnRules& rules);

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_TURN_RULES_H_
