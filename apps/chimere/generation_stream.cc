#include "generation_stream.h"

#include <iostream>

#include "base/system.h"

namespace chimere::app {

GenerationStream::GenerationStream(const CommandLine& line,
                                   protocol::ReasoningSplitter::Start start)
    : splitter_(start),
      show_answer_(!line.json),
      show_reasoning_(!line.json && !line.settings.get(settings::kQuiet)),
      faint_(is_terminal(StandardStream::kError)) {}

void GenerationStream::push(std::string_view text) { show(splitter_.push(text)); }

void GenerationStream::finish() {
  show(splitter_.finish());
  end_reasoning();
  if (show_answer_) std::cout << '\n' << std::flush;
}

void GenerationStream::show(const protocol::ReasoningSplitter::Piece& piece) {
  reasoning_ += piece.reasoning;
  answer_ += piece.content;
  if (show_reasoning_ && !piece.reasoning.empty()) {
    if (!in_reasoning_ && faint_) std::cerr << "\x1b[2m";
    in_reasoning_ = true;
    std::cerr << piece.reasoning << std::flush;
  }
  if (piece.content.empty()) return;
  end_reasoning();
  if (show_answer_) std::cout << piece.content << std::flush;
}

void GenerationStream::end_reasoning() {
  if (!in_reasoning_) return;
  in_reasoning_ = false;
  std::cerr << (faint_ ? "\x1b[0m\n\n" : "\n\n") << std::flush;
}

}  // namespace chimere::app
