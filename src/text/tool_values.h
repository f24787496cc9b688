// Argument values that models do not write as JSON, and their conversion to JSON.
#ifndef CHIMERE_TEXT_TOOL_VALUES_H_
#define CHIMERE_TEXT_TOOL_VALUES_H_

#include <map>
#include <string>
#include <string_view>

#include "text/json_stream.h"

namespace chimere::text {

/// How the text of a tagged parameter is read.
enum class ParameterKind {
  kText,        ///< as a string
  kTextOrNull,  ///< as a string, except for `null`
  kJson,        ///< as JSON
  kAny,         ///< as JSON if it is that, else as a string
};

/// The parameters of a tool by its JSON Schema, as far as it tells strings from other values.
class ToolParameters {
 public:
  ToolParameters() = default;
  /// `schema`: JSON text; a text that is no object declares no parameter.
  explicit ToolParameters(std::string_view schema);
  /// kAny for a parameter that is not declared.
  ParameterKind kind(const std::string& key) const;

 private:
  std::map<std::string, ParameterKind> kinds_;
};

/// A string in JSON, with its quotes.
std::string json_quoted(std::string_view text);

/// Converts the text of one tagged parameter. What is written is JSON when all of it was pushed,
/// unless the text of kJson is not. kAny waits as long as the text can be JSON: words are written
/// at once, numbers and what begins with a quote or bracket at the end.
class TaggedValue {
 public:
  explicit TaggedValue(ParameterKind kind) : kind_(kind) {}
  /// Appends what is decided.
  void push(char c, std::string& out);
  void finish(std::string& out);

 private:
  void push_text(char c, std::string& out);
  void push_json(char c, std::string& out);
  bool may_be_json(char c);

  ParameterKind kind_;
  bool open_ = false;   ///< wrote the first quote
  bool whole_ = false;  ///< nothing is written before the end
  bool done_ = false;   ///< of kJson: the value is complete
  std::string held_;
  JsonStream json_;
};

/// Converts one literal of Python: None, True, False, numbers, strings, lists, tuples and
/// dictionaries; JSON's literals, too.
class PythonValue {
 public:
  enum class Step { kMore, kAfter, kError };
  /// kAfter: the value ended before this byte, a comma or a closing bracket.
  Step push(char c, std::string& out);

 private:
  bool flush_word(std::string& out);
  bool write(std::string_view json, std::string& out);
  Step string_byte(char c, std::string& out);

  JsonStream check_;
  std::string word_;    ///< a number or a name
  std::string levels_;  ///< the bracket that closes each open container
  char quote_ = '\0';   ///< of the string that it is in
  bool escaped_ = false;
  int hex_ = 0;  ///< digits of \x that are missing
  bool any_ = false;
  bool ended_ = false;
};

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_TOOL_VALUES_H_
