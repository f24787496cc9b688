// Prints a generation while it is produced, with answer and reasoning on separate streams.
#ifndef CHIMERE_APPS_CHIMERE_GENERATION_STREAM_H_
#define CHIMERE_APPS_CHIMERE_GENERATION_STREAM_H_

#include <optional>
#include <string>
#include <string_view>

#include "base/stopwatch.h"
#include "command.h"
#include "terminal/markdown.h"
#include "text/reasoning_splitter.h"

namespace chimere::app {

/// Splits a generation into answer and reasoning. Without --json the answer goes to standard output
/// and, unless --quiet is given, the reasoning to standard error. On a terminal, control characters
/// of the text become visible, reasoning is faint, and the answer's Markdown is shown in colours;
/// elsewhere the bytes are those of the model.
class GenerationStream {
 public:
  enum class Form { kMarkdown, kPlain };
  /// Folded reasoning is a row with its end that is replaced by its duration; it is shown whole
  /// where a terminal cannot erase a row.
  enum class Reasoning { kWhole, kFolded };
  GenerationStream(const CommandLine& line, text::ReasoningSplitter splitter,
                   Form form = Form::kMarkdown, Reasoning reasoning = Reasoning::kWhole);
  GenerationStream(const GenerationStream&) = delete;
  GenerationStream& operator=(const GenerationStream&) = delete;
  ~GenerationStream();  ///< resets the terminal if the generation failed

  void push(std::string_view text);
  /// Ends the generation: shows the text held back, and ends the line.
  void finish();

  const std::string& answer() const { return answer_; }
  const std::string& reasoning() const { return reasoning_; }

 private:
  void show(const text::ReasoningSplitter::Piece& piece);
  void show_reasoning(const std::string& piece);
  void end_reasoning();

  text::ReasoningSplitter splitter_;
  bool show_answer_;
  bool show_reasoning_;
  bool faint_;
  bool reasoning_terminal_;
  bool answer_terminal_;
  bool markdown_;
  bool folded_;
  std::optional<Stopwatch> thinking_;  ///< since the reasoning began
  bool in_reasoning_ = false;          ///< the last text shown was reasoning
  bool finished_ = false;
  terminal::VisibleText visible_reasoning_;
  terminal::VisibleText visible_answer_;
  terminal::MarkdownRenderer renderer_;
  std::string answer_;
  std::string reasoning_;
};

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_GENERATION_STREAM_H_
