#include "terminal/line_reader.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "base/terminal.h"
#include "terminal/cells.h"
#include "terminal/screen.h"

namespace chimere::terminal {
namespace {

constexpr std::string_view kBeginPastes = "\x1b[?2004h";
constexpr std::string_view kEndPastes = "\x1b[?2004l";
/// After an ESC so many milliseconds without a byte mean the escape key.
constexpr int kEscapeDelay = 50;
/// The terminal's size is looked at so often, in milliseconds.
constexpr int kSizePeriod = 200;

}  // namespace

LineReader::LineReader(const History& history, Options options)
    : options_(std::move(options)), editor_(history, options_.completer) {}

std::optional<std::string> LineReader::read(const std::string& prompt, std::string_view initial) {
  std::optional<TerminalMode> mode(TerminalMode::Kind::kKeys);
  Screen screen(options_.colours);
  TerminalSize size = terminal_size(StandardStream::kError);
  std::string continuation;
  std::string search;
  Editor::Shown shown_text;
  editor_.start(initial);
  const auto frame = [&] {
    search = editor_.search_prompt();
    const std::string& shown = search.empty() ? prompt : search;
    shown_text = editor_.shown();
    continuation.assign(static_cast<size_t>(text_width(shown)), ' ');
    return Frame{.prompt = shown,
                 .continuation = continuation,
                 .text = shown_text.text,
                 .cursor = shown_text.cursor,
                 .notes = &editor_.notes()};
  };
  const auto leave = [&] {
    Frame last = frame();
    last.notes = nullptr;
    write_to_terminal(screen.leave(last, size));
    write_to_terminal(kEndPastes);
  };
  write_to_terminal(kBeginPastes);
  write_to_terminal(screen.draw(frame(), size));
  while (true) {
    const bool changed = !keys_.empty();
    while (!keys_.empty()) {
      const KeyEvent event = std::move(keys_.front());
      keys_.pop_front();
      switch (editor_.handle(event)) {
        case Editor::Action::kNone:
          break;
        case Editor::Action::kSubmit:
          if (options_.completed) options_.completed();
          leave();
          return editor_.text();
        case Editor::Action::kLeave:
          leave();
          return std::nullopt;
        case Editor::Action::kSuspend:
          leave();
          mode->suspend();
          write_to_terminal(kBeginPastes);
          break;
        case Editor::Action::kClear:
          write_to_terminal("\x1b[H\x1b[2J");
          screen.forget();
          break;
        case Editor::Action::kOpenEditor:
          if (!options_.open_editor) break;
          leave();
          mode.reset();
          if (auto text = options_.open_editor(editor_.text())) {
            while (text->ends_with('\n')) text->pop_back();
            editor_.replace_text(clean_text(*text));
          }
          mode.emplace(TerminalMode::Kind::kKeys);
          write_to_terminal(kBeginPastes);
          break;
      }
    }
    const TerminalSize now = terminal_size(StandardStream::kError);
    if (changed || now != size) {
      size = now;
      write_to_terminal(screen.draw(frame(), size));
    }
    const TypedBytes typed = read_typed(decoder_.holds_bytes() ? kEscapeDelay : kSizePeriod);
    std::vector<KeyEvent> events;
    if (typed.bytes.empty()) {
      decoder_.flush(events);
    } else {
      decoder_.push(typed.bytes, events);
    }
    for (KeyEvent& event : events) keys_.push_back(std::move(event));
    if (typed.ended && keys_.empty()) {
      leave();
      return std::nullopt;
    }
  }
}

bool LineReader::take_interrupt() {
  std::vector<KeyEvent> events;
  decoder_.push(read_typed(0).bytes, events);
  for (KeyEvent& event : events) keys_.push_back(std::move(event));
  const auto last = std::find(keys_.rbegin(), keys_.rend(),
                              KeyEvent{.key = Key::kCharacter, .text = "c", .ctrl = true});
  if (last == keys_.rend()) return false;
  keys_.erase(keys_.begin(), last.base());
  return true;
}

}  // namespace chimere::terminal
