// Emphasis, code and links within a line of Markdown, as styles of a terminal. Pure.
#ifndef CHIMERE_TERMINAL_INLINE_MARKDOWN_H_
#define CHIMERE_TERMINAL_INLINE_MARKDOWN_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace chimere::terminal {

/// Control sequences of the styles in use.
namespace style {
inline constexpr std::string_view kReset = "\x1b[0m";
inline constexpr std::string_view kBold = "\x1b[1m";
inline constexpr std::string_view kDim = "\x1b[2m";
inline constexpr std::string_view kItalic = "\x1b[3m";
inline constexpr std::string_view kUnderline = "\x1b[4m";
inline constexpr std::string_view kStruck = "\x1b[9m";
inline constexpr std::string_view kHeading = "\x1b[1;34m";
inline constexpr std::string_view kCode = "\x1b[36m";
inline constexpr std::string_view kMarker = "\x1b[33m";
inline constexpr std::string_view kKeyword = "\x1b[35m";
inline constexpr std::string_view kString = "\x1b[32m";
inline constexpr std::string_view kNumber = "\x1b[33m";
}  // namespace style

/// Appends the beginning of `line` to `out`, with styles in place of the markers, and returns how
/// many bytes it took. Markers that nothing closes are text. While the line is not `complete`, it
/// stops where a marker may still be closed; a span has at most kLongestSpan bytes.
/// `base`: the style around the text. `before`: the character before it, 0 at the line's beginning.
/// `line` holds no control characters.
size_t render_inline(std::string_view line, bool complete, std::string_view base, char before,
                     std::string& out);

inline constexpr size_t kLongestSpan = 2000;

}  // namespace chimere::terminal

#endif  // CHIMERE_TERMINAL_INLINE_MARKDOWN_H_
