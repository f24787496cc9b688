// What each key does to the line being edited. Pure: keys in, a state to draw out.
#ifndef CHIMERE_TERMINAL_EDITOR_H_
#define CHIMERE_TERMINAL_EDITOR_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "terminal/history.h"
#include "terminal/key_decoder.h"
#include "terminal/line_buffer.h"

namespace chimere::terminal {

/// One way to complete a text.
struct Candidate {
  std::string text;       ///< replaces the text from Completions::begin to the cursor
  std::string help = {};  ///< shown beside it
  bool finished = true;   ///< a space follows; false: the user may continue (a folder)
};
struct Completions {
  size_t begin = 0;
  std::vector<Candidate> candidates;
};
/// `before`: the text before the cursor.
using Completer = std::function<Completions(std::string_view before)>;

/// The editing keys of GNU readline's emacs mode, for texts of several lines. Enter submits; with
/// Alt or Shift, or behind a backslash, it begins a new line. Pastes of more than ten lines or
/// 1,000 bytes are folded: drawn as "[pasted 312 lines]", and moved over and deleted as one
/// character.
class Editor {
 public:
  enum class Action {
    kNone,
    kSubmit,      ///< text() is complete
    kLeave,       ///< Ctrl-D, or Ctrl-C twice, on an empty line
    kSuspend,     ///< Ctrl-Z
    kClear,       ///< Ctrl-L: clear the screen
    kOpenEditor,  ///< Ctrl-X Ctrl-E: edit the text in another program
  };

  /// The history must outlive the editor. `completer` may be empty.
  Editor(const History& history, Completer completer)
      : history_(&history), completer_(std::move(completer)) {}

  /// Begins a new text.
  void start(std::string_view text = "");
  Action handle(const KeyEvent& event);

  std::string text() const;
  /// What is drawn: the text, with a note in the place of each long paste.
  struct Shown {
    std::string text;
    size_t cursor = 0;
  };
  Shown shown() const;
  /// Replaces the prompt during a search; empty: no search.
  std::string search_prompt() const;
  /// Lines below the text: completions, hints.
  const std::vector<std::string>& notes() const { return notes_; }
  void replace_text(std::string_view text);

 private:
  struct Search {
    std::string query;
    size_t index;  ///< of the entry shown; history size: none
    bool failed = false;
    std::string original;
  };

  void paste(std::string_view text);
  Action handle_control(char letter);
  bool handle_alt(char letter);
  bool handle_search(const KeyEvent& event, Action& action);
  void find(size_t from);
  void older();
  void newer();
  void complete();
  Action interrupt();
  Action enter(const KeyEvent& event);

  const History* history_;
  Completer completer_;
  /// In place of each long paste it holds one character, which is edited as such.
  LineBuffer buffer_;
  /// The long pastes by that character. They stay: what was cut can be pasted into a later text.
  std::vector<std::string> folds_;
  std::optional<size_t> history_index_;  ///< absent: the text is the user's own
  std::string own_text_;                 ///< while the history is shown
  std::optional<Search> search_;
  std::vector<std::string> notes_;
  bool interrupted_ = false;  ///< the last key was Ctrl-C on an empty line
  bool prefix_ = false;       ///< the last key was Ctrl-X
};

}  // namespace chimere::terminal

#endif  // CHIMERE_TERMINAL_EDITOR_H_
