// Shared by the readers of manual pages.
#ifndef CHIMERE_RETRIEVAL_MANUAL_PAGE_H_
#define CHIMERE_RETRIEVAL_MANUAL_PAGE_H_

#include <string>
#include <string_view>

#include "retrieval/document.h"

namespace chimere::retrieval {

/// "ls(1) - list directory contents", from the NAME section of a page, with all its names behind
/// if there are several; else from `name` and `section`.
std::string manual_title(const Document& document, std::string_view name, std::string_view section);

/// A page in mdoc(7), the macros of the BSDs.
Document read_mdoc(std::string_view source);

}  // namespace chimere::retrieval

#endif  // CHIMERE_RETRIEVAL_MANUAL_PAGE_H_
