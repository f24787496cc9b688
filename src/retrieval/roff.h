// The part of roff that manual pages are written in: requests, conditions, strings, escapes. Text
// for terminals: `n` is true, `t` is false. groff(7).
#ifndef CHIMERE_RETRIEVAL_ROFF_H_
#define CHIMERE_RETRIEVAL_ROFF_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "retrieval/line_reader.h"

namespace chimere::retrieval {

struct RoffWord {
  std::string text;  ///< without escapes
  bool quoted = false;
};

/// A line of text, or a macro or request with its arguments.
struct RoffLine {
  std::string name;  ///< of the macro, without its dot; empty: a line of text
  std::vector<RoffWord> words;
  std::string text;  ///< a line of text, or all that follows the macro's name; without escapes
  int64_t number = 0;
};

/// Goes through a source. Conditions and definitions of strings are carried out, definitions of
/// macros are skipped. Linear time; expanded strings make it at most eight times as long.
class RoffReader {
 public:
  explicit RoffReader(std::string_view source);

  /// Advances to the next line; false after the last one.
  bool next();
  const RoffLine& line() const { return line_; }
  /// Whether the source defined a macro of this name.
  bool defines(const std::string& macro) const { return macros_.contains(macro); }

 private:
  bool raw_line(std::string& out);
  bool control(std::string_view line);
  void condition(std::string_view rest, bool has_else);
  void otherwise(std::string_view rest);
  void branch(std::string_view rest, bool taken);
  void skip_block(std::string_view rest);
  void skip_definition(std::string_view ending);
  void define_string(std::string_view rest, bool append);
  std::string expanded(std::string_view text, int depth);

  LineReader lines_;
  RoffLine line_;
  std::vector<std::string> pending_;  ///< lines to process before the source's next one, last first
  std::vector<bool> else_;            ///< whether the .el of each open .ie is taken
  std::map<std::string, std::string, std::less<>> strings_;
  std::map<std::string, bool, std::less<>> macros_;
  int64_t budget_;  ///< bytes that strings may still add
};

/// A line of roff without escape sequences: special characters become Unicode, changes of font and
/// size disappear.
std::string without_escapes(std::string_view text);

}  // namespace chimere::retrieval

#endif  // CHIMERE_RETRIEVAL_ROFF_H_
