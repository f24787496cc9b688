// From the bytes that a terminal sends to keys. Pure: no terminal, no time.
#ifndef CHIMERE_TERMINAL_KEY_DECODER_H_
#define CHIMERE_TERMINAL_KEY_DECODER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace chimere::terminal {

enum class Key : uint8_t {
  kCharacter,  ///< KeyEvent::text, one character; with `ctrl` a lower-case letter or a sign
  kPaste,      ///< KeyEvent::text, of any size
  kEnter,
  kTab,
  kBackTab,
  kBackspace,
  kDelete,
  kLeft,
  kRight,
  kUp,
  kDown,
  kHome,
  kEnd,
  kPageUp,
  kPageDown,
  kEscape,
  kOther,  ///< a key without a use here
};

struct KeyEvent {
  Key key = Key::kOther;
  std::string text = {};
  bool ctrl = false;
  bool alt = false;
  bool shift = false;
  bool operator==(const KeyEvent&) const = default;
};

/// Decodes the control sequences of xterm and its relatives (ECMA-48 CSI and SS3), of the Linux
/// console and of the "kitty" keyboard protocol; bracketed paste; UTF-8. The result does not depend
/// on how the bytes are split, except for what flush() decides. Time and memory are linear in the
/// input.
class KeyDecoder {
 public:
  /// Appends the keys that the bytes complete.
  void push(std::string_view bytes, std::vector<KeyEvent>& keys);
  /// No byte has followed for a while: what is held is complete. A lone ESC is the escape key; a
  /// sequence that was cut off is dropped. A paste continues.
  void flush(std::vector<KeyEvent>& keys);
  /// Whether flush() would do something.
  bool holds_bytes() const { return !pasting_ && !held_.empty(); }

 private:
  /// Takes one key from the front of `bytes`; returns its length, 0 if it is incomplete.
  size_t take(std::string_view bytes, std::vector<KeyEvent>& keys);
  size_t take_escape(std::string_view bytes, std::vector<KeyEvent>& keys);
  size_t take_sequence(std::string_view bytes, std::vector<KeyEvent>& keys);
  /// Takes pasted bytes; returns how many.
  size_t take_paste(std::string_view bytes, std::vector<KeyEvent>& keys);

  std::string held_;  ///< bytes of an incomplete key, fewer than 100
  bool pasting_ = false;
  std::string paste_;
};

}  // namespace chimere::terminal

#endif  // CHIMERE_TERMINAL_KEY_DECODER_H_
