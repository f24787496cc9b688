// Markdown on a terminal, while a model writes it. Pure: text in, bytes for the terminal out.
#ifndef CHIMERE_TERMINAL_MARKDOWN_H_
#define CHIMERE_TERMINAL_MARKDOWN_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "terminal/highlight.h"

namespace chimere::terminal {

/// Text from a model that a terminal may receive, piece by piece: control characters become visible
/// (cells.h), incomplete UTF-8 waits for its rest.
class VisibleText {
 public:
  std::string push(std::string_view piece);
  /// The text has ended.
  std::string finish();

 private:
  std::string held_;  ///< an incomplete character
};

/// Headings, lists, quotes, rules, tables, code blocks, emphasis, code and links in colours. All
/// other text of the input appears; nothing of it becomes a control sequence. Everything that is
/// certain is returned at once: only unfinished markers, words of code and tables wait. Lines end
/// with a line feed alone.
class MarkdownRenderer {
 public:
  std::string push(std::string_view piece);
  std::string finish();

 private:
  struct Fence {
    char mark;
    size_t length;
    CodeHighlighter highlighter;
  };

  void take(std::string_view text, std::string& out);
  /// Renders what is certain of the line so far.
  void render_line(bool complete, std::string& out);
  /// False: the line's kind is not certain yet.
  bool begin_line(bool complete, std::string& out);
  bool begin_code_line(bool complete, std::string& out);
  void end_line(std::string& out);
  void end_table(std::string& out);

  VisibleText visible_;
  std::string line_;    ///< what is not rendered of the current line
  bool begun_ = false;  ///< the line's kind is known
  bool code_ = false;   ///< it is code
  char before_ = 0;     ///< the last character rendered of it
  std::string base_;    ///< its style
  std::optional<Fence> fence_;
  std::vector<std::string> table_;  ///< its lines so far
};

}  // namespace chimere::terminal

#endif  // CHIMERE_TERMINAL_MARKDOWN_H_
