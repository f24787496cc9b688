// The last turns of a conversation, shortened, for a user who continues it.
#ifndef CHIMERE_APPS_CHIMERE_RECAP_H_
#define CHIMERE_APPS_CHIMERE_RECAP_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "text/tool_messages.h"

namespace chimere::app {

/// The last two questions with their answers, without what comes before `reasoning_close`, each in
/// at most three rows of `columns` columns; questions begin with "> ", answers are indented. No
/// line feed ends the last row.
std::string recap(const std::vector<text::ChatMessage>& messages, std::string_view reasoning_close,
                  size_t columns);

/// The beginning of a text in at most `rows` rows of `columns` columns, as visible() shows it; ends
/// in " ..." if there is more. Rows but the first are indented by `indent`, which all leave free.
std::string shorten_to_rows(std::string_view text, size_t rows, size_t indent, size_t columns);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_RECAP_H_
