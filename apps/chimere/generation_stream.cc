#include "generation_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <utility>

#include "base/terminal.h"
#include "terminal/cells.h"

namespace chimere::app {
namespace {

constexpr std::string_view kEraseRow = "\r\x1b[J";

/// The end of a text in one row of so many columns.
std::string last_words(std::string_view text, int columns) {
  // No more than fits; a piece of a character at the beginning is cut with what does not fit.
  const size_t most = 8 * static_cast<size_t>(std::max(columns, 0));
  if (text.size() > most) text.remove_prefix(text.size() - most);
  std::string row = terminal::visible(text);
  std::ranges::replace_if(
      row, [](char c) { return c == '\n' || c == '\t'; }, ' ');
  size_t begin = 0;
  for (int width = terminal::text_width(row); width > columns && begin < row.size();) {
    const terminal::Cluster cluster = terminal::cluster_at(row, begin);
    width -= cluster.width;
    begin += cluster.length;
  }
  return row.substr(begin);
}

}  // namespace

GenerationStream::GenerationStream(const CommandLine& line, text::ReasoningSplitter splitter,
                                   Form form, Reasoning reasoning)
    : splitter_(std::move(splitter)),
      show_answer_(!line.json),
      show_reasoning_(!line.json && !line.settings.get(settings::kQuiet)),
      faint_(has_colours(StandardStream::kError)),
      reasoning_terminal_(is_terminal(StandardStream::kError)),
      answer_terminal_(is_terminal(StandardStream::kOutput)),
      markdown_(form == Form::kMarkdown && has_colours(StandardStream::kOutput)),
      folded_(reasoning == Reasoning::kFolded && has_control_sequences(StandardStream::kError)) {}

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
    show_reasoning(piece.reasoning);
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

void GenerationStream::show_reasoning(const std::string& piece) {
  if (!in_reasoning_ && faint_) std::cerr << "\x1b[2m";
  in_reasoning_ = true;
  if (!thinking_) thinking_.emplace();
  if (folded_) {
    constexpr std::string_view kThinking = "Thinking: ";
    const int columns = terminal_size(StandardStream::kError).columns - 1;
    std::cerr << kEraseRow << kThinking
              << last_words(reasoning_, columns - static_cast<int>(kThinking.size()));
  } else {
    std::cerr << (reasoning_terminal_ ? visible_reasoning_.push(piece) : piece);
  }
  std::cerr << std::flush;
}

void GenerationStream::end_reasoning() {
  if (!in_reasoning_) return;
  in_reasoning_ = false;
  if (folded_) {
    std::cerr << kEraseRow
              << fmt::format("Thought for {:.0f} s; /show reasoning shows it.",
                             std::max(1.0, thinking_->seconds()));
  }
  std::cerr << visible_reasoning_.finish() << (faint_ ? "\x1b[0m\n\n" : "\n\n") << std::flush;
}

}  // namespace chimere::app
