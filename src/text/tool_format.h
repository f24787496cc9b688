// How a model writes calls of tools, and how its chat template takes them.
#ifndef CHIMERE_TEXT_TOOL_FORMAT_H_
#define CHIMERE_TEXT_TOOL_FORMAT_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/chat_template.h"
#include "text/conversation.h"
#include "text/jinja/value.h"
#include "text/tokenizer.h"

namespace chimere::text {

/// What the answer follows in gpt-oss's format, after channels with reasoning and calls.
inline constexpr std::string_view kHarmonyAnswer = "<|channel|>final<|message|>";

/// Where chat templates look for the reasoning of a message, the most common one first.
inline constexpr std::array<std::string_view, 3> kReasoningKeys = {"reasoning_content", "reasoning",
                                                                   "thinking"};

/// The text of a generation's calls is
///   section_open  call (separator call)*  section_close
/// and each call is
///   call_open  name  after_name  [id  after_id]  arguments  [before_id  id]  call_close
/// with these texts as the template writes them, white space included. White space in front of
/// section_open is not part of the format. The arguments of kTagged are
///   (parameter_open  key  after_key  value  parameter_close)*
struct ToolFormat {
  enum class Style {
    /// An object with name and arguments: call_open ends with {"name": " or similar. Hermes,
    /// Qwen 2.5
    /// and 3, Llama 3, Mistral up to Nemo, Granite, Falcon-H1.
    kObject,
    kNamed,    ///< the name, then a JSON object. DeepSeek, newer Mistral, Kimi K2, functionary.
    kTagged,   ///< the name, then tagged parameters. Qwen3-Coder, Nemotron 3, GLM 4.5, MiniMax.
    kPython,   ///< name(key=value, ...) with Python's literals, in a list. LFM2.
    kHarmony,  ///< messages to recipients in channels. gpt-oss. No texts.
  };
  enum class Ids {
    kAny,
    kNineLetters,  ///< exactly nine letters and digits. Mistral.
    kNumbered,     ///< the call's index follows the name: `functions.NAME:0`. Kimi K2.
  };

  Style style = Style::kObject;
  std::string section_open;  ///< empty with an empty call_open up to `{`: calls have no marker
  std::string call_open;
  std::string after_name;
  std::string after_id;  ///< empty: no id between name and arguments
  std::string call_close;
  std::string separator;
  std::string section_close;
  // Of kObject.
  std::string name_key = "name";
  std::string arguments_key = "arguments";
  /// Between the arguments and the id, as in `, "id": "`; call_close follows the id. Empty: no id.
  std::string before_id;
  // Of kTagged.
  std::string parameter_open;
  std::string after_key;
  std::string parameter_close;

  Ids ids = Ids::kAny;
  bool parallel = true;  ///< a generation may have several calls

  /// What the template does with tools and reasoning.
  struct Rendering {
    bool tools = false;              ///< renders the definitions
    bool calls = false;              ///< renders calls in messages of the assistant
    bool results = false;            ///< renders messages of the role `tool`
    bool several_calls = false;      ///< takes messages with more than one call
    bool string_arguments = false;   ///< takes arguments as JSON text in place of a mapping
    bool none_content = false;       ///< renders calls only if the content is none
    bool content_and_calls = false;  ///< renders text and calls of one message
    /// The member of a message whose text it renders as reasoning: one of kReasoningKeys.
    std::string_view reasoning_key = kReasoningKeys[0];

    friend bool operator==(const Rendering& a, const Rendering& b) = default;
  };
  Rendering rendering;

  /// The format of a template, from renderings of conversations with calls, or the written format
  /// that the template's own words or else a token of the vocabulary point to; the one of Hermes
  /// where nothing does. `source`: the template's text; `vocabulary`: may be nullptr.
  /// `reasoning_close`: what ends the reasoning that a template may write before calls; empty:
  /// none. Never fails: a template that refuses all of it has a written format.
  static ToolFormat of(const ChatTemplate& chat_template, std::string_view source,
                       const ChatOptions& options, std::string_view reasoning_close,
                       const Tokenizer* vocabulary = nullptr);

  /// The texts of the format without white space at their ends, in which control tokens may occur:
  /// the parser must see their text. `<tool_call>`, `[TOOL_CALLS]`, ...
  std::vector<std::string> markers() const;

  /// The first marker of a section of calls without white space; empty: calls have none, and stand
  /// at the beginning of the content.
  std::string trigger() const;

  friend bool operator==(const ToolFormat& a, const ToolFormat& b) = default;
};

/// The calls as the format writes them. The format's own texts are trusted, the rest is not. For a
/// template that does not render calls itself; not for kHarmony, whose template always does.
jinja::MarkedText write_tool_calls(const ToolFormat& format, std::span<const ToolCall> calls);

/// The written format that words of the template's source point to, else a word that is a token of
/// `vocabulary` (nullptr: none is); the one of Hermes where none does.
ToolFormat written_tool_format(std::string_view source, const Tokenizer* vocabulary = nullptr);

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_TOOL_FORMAT_H_
