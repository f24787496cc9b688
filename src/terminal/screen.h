// Draws the line being edited: from a state to the bytes that show it. Pure.
#ifndef CHIMERE_TERMINAL_SCREEN_H_
#define CHIMERE_TERMINAL_SCREEN_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/terminal.h"
#include "terminal/layout.h"

namespace chimere::terminal {

struct Frame {
  std::string_view prompt;        ///< before the first line
  std::string_view continuation;  ///< before the others; as wide as the prompt
  std::string_view text;
  size_t cursor = 0;
  const std::vector<std::string>* notes = nullptr;  ///< lines below; cut at the right margin
};

/// Replaces one frame by the next, below what is already on the terminal. Lines are wrapped by the
/// terminal, so that it can wrap them again when its size changes. A text with more rows than the
/// terminal is shown in part, around the cursor.
class Screen {
 public:
  explicit Screen(bool colours) : colours_(colours) {}

  /// The bytes that draw the frame in place of the last one.
  std::string draw(const Frame& frame, TerminalSize size);
  /// The bytes that leave the frame on the terminal, the cursor on an empty line below. Of a text
  /// that exceeds the terminal the beginning is left.
  std::string leave(const Frame& frame, TerminalSize size);
  /// Forgets the last frame: the terminal was cleared.
  void forget() { drawn_ = false; }

 private:
  void erase(const Frame& frame, TerminalSize size, std::string& out);
  void write_rows(const Frame& frame, const Layout& layout, size_t first, size_t end, int columns,
                  std::string& out) const;

  bool colours_;
  bool drawn_ = false;
  size_t rows_above_ = 0;  ///< from the first row drawn to the cursor
  size_t first_ = 0;       ///< first row of the layout that is shown
  TerminalSize size_;
};

}  // namespace chimere::terminal

#endif  // CHIMERE_TERMINAL_SCREEN_H_
