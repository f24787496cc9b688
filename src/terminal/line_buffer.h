// The text being edited: a cursor, and what editing keys do. Pure.
#ifndef CHIMERE_TERMINAL_LINE_BUFFER_H_
#define CHIMERE_TERMINAL_LINE_BUFFER_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace chimere::terminal {

/// Valid UTF-8 text of one or more lines, and a cursor between two clusters (cells.h). Movements
/// that have nowhere to go do nothing and return false. Words are runs of letters, digits and
/// characters beyond ASCII.
class LineBuffer {
 public:
  const std::string& text() const { return text_; }
  size_t cursor() const { return cursor_; }  ///< byte offset
  bool empty() const { return text_.empty(); }

  /// Replaces everything; the cursor is at the end. undo() brings the old text back.
  void set(std::string text);
  /// Forgets text and undo steps; what was killed remains.
  void clear();
  void insert(std::string_view text);
  /// Replaces the bytes from `start` to the cursor.
  void replace_before_cursor(size_t start, std::string_view text);

  bool left();
  bool right();
  bool word_left();
  bool word_right();
  void line_start();
  void line_end();
  void text_start() { cursor_ = 0; }
  void text_end() { cursor_ = text_.size(); }
  /// To the line above or below, as near to the column as it allows.
  bool line_up();
  bool line_down();

  bool erase_before();  ///< the cluster before the cursor
  bool erase_after();
  // Kills go to the kill ring; adjacent ones are joined.
  void kill_to_line_end();  ///< at the end of a line, the line feed
  void kill_to_line_start();
  void kill_word_before();  ///< back to white space
  void kill_name_before();  ///< back to the start of a word
  void kill_word_after();
  void yank();
  void yank_next();  ///< after a yank: replaces it by an older kill
  void transpose();  ///< exchanges the clusters around the cursor
  enum class Case { kUpper, kLower, kTitle };
  void change_case(Case to);  ///< of the word behind the cursor (ASCII letters)
  void undo();

 private:
  enum class Edit { kNone, kTyping, kErasing, kKillForward, kKillBack, kYank };
  struct Snapshot {
    std::string text;
    size_t cursor;
  };

  size_t start_of_line() const;
  size_t end_of_line() const;
  size_t word_start_before(size_t at) const;
  size_t word_end_after(size_t at) const;
  /// Keeps the present for undo(), unless the edit continues one of the same kind.
  void begin(Edit edit);
  void kill(size_t from, size_t to, Edit direction);

  std::string text_;
  size_t cursor_ = 0;
  Edit last_ = Edit::kNone;
  size_t last_cursor_ = 0;  ///< behind the last edit
  size_t yank_start_ = 0;
  size_t yank_index_ = 0;
  std::vector<std::string> kills_;  ///< the newest last
  std::vector<Snapshot> past_;
  size_t past_bytes_ = 0;
};

}  // namespace chimere::terminal

#endif  // CHIMERE_TERMINAL_LINE_BUFFER_H_
