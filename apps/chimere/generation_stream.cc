#include "generation_stream.h"

#include <iostream>

#include "base/terminal.h"

namespace chimere::app {

GenerationStream::GenerationStream(const CommandLine& line, text::ReasoningSplitter::Start start,
                                   Form form)
    : splitter_(start),
      show_answer_(!line.json),
      show_reasoning_(!line.json && !line.settings.get(settings::kQuiet)),
      faint_(has_colours(StandardStream::kError)),
      reasoning_terminal_(is_terminal(StandardStream::kError)),
      answer_terminal_(is_terminal(StandardStream::kOutput)),
      markdown_(form == Form::kMarkdown && has_colours(StandardStream::kOutput)) {}

GenerationStream::~GenerationStream() {
  end_reasoning();
  if (!finished_ && show_answer_ && markdown_) std::cout << "\x1b[0m" << std::flush;
}

void GenerationStream::push(std::string_view text) { show(splitter_.push(text)); }

void GenerationStream::finish() {
  show(splitter_.finish());
  end_reasoning();
  finished_ = true;
  if (!show_answer_) return;
  if (markdown_) {
    std::cout << renderer_.finish();
  } else if (answer_terminal_) {
    std::cout << visible_answer_.finish();
  }
  std::cout << '\n' << std::flush;
}

void GenerationStream::show(const text::ReasoningSplitter::Piece& piece) {
  reasoning_ += piece.reasoning;
  answer_ += piece.content;
  if (show_reasoning_ && !piece.reasoning.empty()) {
    if (!in_reasoning_ && faint_) std::cerr << "\x1b[2m";
    in_reasoning_ = true;
    std::cerr << (reasoning_terminal_ ? visible_reasoning_.push(piece.reasoning) : piece.reasoning)
              << std::flush;
  }
  if (piece.content.empty()) return;
  end_reasoning();
  if (!show_answer_) return;
  if (markdown_) {
    std::cout << renderer_.push(piece.content);
  } else {
    std::cout << (answer_terminal_ ? visible_answer_.push(piece.content) : piece.content);
  }
  std::cout << std::flush;
}

void GenerationStream::end_reasoning() {
  if (!in_reasoning_) return;
  in_reasoning_ = false;
  std::cerr << visible_reasoning_.finish() << (faint_ ? "\x1b[0m\n\n" : "\n\n") << std::flush;
}

}  // namespace chimere::app
