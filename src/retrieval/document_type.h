// What kind of document some bytes are.
#ifndef CHIMERE_RETRIEVAL_DOCUMENT_TYPE_H_
#define CHIMERE_RETRIEVAL_DOCUMENT_TYPE_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace chimere::retrieval {

enum class DocumentType : uint8_t {
  kUnknown,
  kText,
  kMarkdown,
  kHtml,
  kManual,  ///< source of a manual page, man(7) or mdoc(7)
  kCode,
  kPdf,
  kArchive,     ///< tar (compressed or not), zip, 7-Zip
  kCompressed,  ///< one file: gzip, bzip2, xz, zstd
  kBinary,      ///< none that can be read
};

/// By the media type ("text/html; charset=utf-8"), if it says something, else by the name's
/// extension, else by the first bytes.
DocumentType document_type(std::string_view name, std::string_view bytes,
                           std::string_view media_type = "");

}  // namespace chimere::retrieval

#endif  // CHIMERE_RETRIEVAL_DOCUMENT_TYPE_H_
