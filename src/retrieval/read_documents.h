// Bytes of any supported type to documents.
#ifndef CHIMERE_RETRIEVAL_READ_DOCUMENTS_H_
#define CHIMERE_RETRIEVAL_READ_DOCUMENTS_H_

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "retrieval/document.h"

namespace chimere::retrieval {

/// Reads the bytes of the file or page `name`; calls `take` for the document, or for each document
/// of an archive ("NAME!/ENTRY"), and `skip` with a sentence for what cannot be read in it.
/// `media_type`: as of HTTP, or empty. Archives are unpacked within the limits of ArchiveBudget.
/// Texts are UTF-8 then, without control characters. Errors:
/// kInvalidData, kUnsupported (nothing can be read), those of `take`.
Status read_documents(const std::string& name, std::string_view bytes, std::string_view media_type,
                      const std::function<Status(const std::string& name, Document)>& take,
                      const std::function<void(std::string)>& skip);

/// Valid UTF-8 without control characters other than ends of lines and tabs: invalid bytes become
/// U+FFFD.
std::string clean_text(std::string_view bytes);

}  // namespace chimere::retrieval

#endif  // CHIMERE_RETRIEVAL_READ_DOCUMENTS_H_
