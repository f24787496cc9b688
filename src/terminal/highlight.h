// Colours of program code, while it arrives. Pure.
#ifndef CHIMERE_TERMINAL_HIGHLIGHT_H_
#define CHIMERE_TERMINAL_HIGHLIGHT_H_

#include <string>
#include <string_view>

namespace chimere::terminal {

/// A family of languages with the same comments and strings; nullptr: unknown.
struct CodeLanguage;
const CodeLanguage* find_language(std::string_view name);

/// Colours comments, strings, numbers and keywords. It knows words, not grammars.
class CodeHighlighter {
 public:
  /// `language`: the first word behind the fence of a code block.
  explicit CodeHighlighter(std::string_view language) : language_(find_language(language)) {}

  /// Appends the code to `out`. `code`: part of a line, without its line feed and without control
  /// characters. An unfinished word is held back.
  void push(std::string_view code, std::string& out);
  /// The line has ended: appends what is held; the next push() begins a line.
  void end_line(std::string& out);

 private:
  enum class State { kCode, kString, kLineComment, kBlockComment };
  void take(char c, std::string& out);
  void finish_word(std::string& out);
  void open(State state, std::string_view style, std::string& out);
  void close(std::string& out);

  const CodeLanguage* language_;
  State state_ = State::kCode;
  std::string word_;    ///< an unfinished word or number
  std::string marker_;  ///< the beginning of what may start or end a comment
  char quote_ = 0;
  bool escaped_ = false;
  char last_ = ' ';
};

}  // namespace chimere::terminal

#endif  // CHIMERE_TERMINAL_HIGHLIGHT_H_
