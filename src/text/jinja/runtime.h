// The operations and built-in functions of the template language.
#ifndef CHIMERE_TEXT_JINJA_RUNTIME_H_
#define CHIMERE_TEXT_JINJA_RUNTIME_H_

#include <ctime>
#include <string_view>

#include "text/jinja/arguments.h"
#include "text/jinja/value.h"

namespace chimere::text::jinja {

/// What built-in functions need from the current rendering.
struct Runtime {
  Budget budget;
  std::tm now = {};  ///< for strftime_now
};

/// `object.name`: a method, or a member of a dictionary or namespace; undefined if there is none.
Value get_attribute(Runtime& runtime, const Value& object, std::string_view name);
/// `object[key]`; undefined if there is none.
Value get_item(Runtime& runtime, const Value& object, const Value& key);
/// `object[start:stop:step]`; none stands for a part that is not given.
Value get_slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop,
                const Value& step);
/// + - * / // % **
Value arithmetic(Runtime& runtime, std::string_view op, const Value& left, const Value& right);

bool has_method(const Value& object, std::string_view name);
/// Requires has_method().
Value call_method(Runtime& runtime, const Value& self, std::string_view name,
                  const Arguments& arguments);
bool has_string_method(std::string_view name);
Value call_string_method(Runtime& runtime, const Value& self, std::string_view name,
                         const Arguments& arguments);
/// Whether the method changes its object in Python: templates see it as undefined.
bool changes_value(std::string_view name);
/// Members of Python's values that are deliberately missing here; accessing them fails.
bool is_left_out(const Value& object, std::string_view name);
/// raise_exception, range, dict, strftime_now, cycler, joiner. (namespace() is the evaluator's.)
bool is_global_function(std::string_view name);
Value call_global(Runtime& runtime, std::string_view name, const Arguments& arguments);

/// These fail for unknown names.
Value apply_filter(Runtime& runtime, std::string_view name, const Value& input,
                   const Arguments& arguments);
bool apply_test(Runtime& runtime, std::string_view name, const Value& input,
                const Arguments& arguments);

/// A filter that works on one value, lays text out, or works on a sequence; nullptr if the name
/// does not belong to the kind.
struct Filter {
  Value (*call)(Runtime&, const Value& input, const Arguments&);
  std::string_view parameters;  ///< see check_arguments
};
const Filter* find_text_filter(std::string_view name);
const Filter* find_layout_filter(std::string_view name);
const Filter* find_sequence_filter(std::string_view name);
/// Of any kind.
const Filter* find_filter(std::string_view name);

/// str.splitlines().
std::vector<MarkedText> split_lines(const MarkedText& s, bool keep_ends);
/// str.replace(); count < 0: all.
Value replace_text(Runtime& runtime, const MarkedText& text, const MarkedText& from,
                   const MarkedText& to, int64_t count);
/// Python's `format % values`; `values` is one value, a tuple, or a dictionary for names.
MarkedText format_percent(Runtime& runtime, const MarkedText& format, const Value& values);
/// str.format()
MarkedText format_braces(Runtime& runtime, const MarkedText& format, const Arguments& arguments);
/// dict(): the entries of a dictionary or of pairs, then the named arguments.
Dict make_dict(Runtime& runtime, const Arguments& arguments);

}  // namespace chimere::text::jinja

#endif  // CHIMERE_TEXT_JINJA_RUNTIME_H_
