// How text occupies a terminal's cells: characters as users see them, and their widths.
#ifndef CHIMERE_TERMINAL_CELLS_H_
#define CHIMERE_TERMINAL_CELLS_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace chimere::terminal {

/// A user-perceived character: a code point with the marks, joiners and modifiers behind it. A
/// subset of the grapheme clusters of UAX #29 that covers what terminals draw in one place:
/// combining marks, variation selectors, emoji sequences, flags, conjoining Hangul.
struct Cluster {
  size_t length = 0;  ///< bytes, at least 1
  int width = 0;      ///< columns of visible(): 0, 1, 2, or more for characters shown as a text
};

/// The cluster that begins at `at`, which must be inside the text and the start of a cluster. The
/// width of a line feed is 0 and that of a tab 1; who draws them decides.
Cluster cluster_at(std::string_view text, size_t at);

/// Start of the cluster that ends at `end` (above 0).
size_t cluster_before(std::string_view text, size_t end);

/// Columns of a text without line feeds and tabs.
int text_width(std::string_view text);

/// The text as a terminal may receive it. Control characters, which could move the cursor, change
/// the terminal or fake text, become visible: ESC is "^[", U+009B "<U+009B>", as are bidirectional
/// overrides (U+202A to U+202E, U+2066 to U+2069). Invalid UTF-8 becomes U+FFFD. Line feeds and
/// tabs are kept.
std::string visible(std::string_view text);

/// The text with each invalid UTF-8 sequence replaced by U+FFFD, CR LF and CR by LF. Other control
/// characters are kept.
std::string clean_text(std::string_view text);

}  // namespace chimere::terminal

#endif  // CHIMERE_TERMINAL_CELLS_H_
