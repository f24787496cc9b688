// Readers: the bytes of a document to its blocks. All take untrusted bytes, never fail and never
// use more than linear time and memory, except where stated.
#ifndef CHIMERE_RETRIEVAL_READERS_H_
#define CHIMERE_RETRIEVAL_READERS_H_

#include <string>
#include <string_view>

#include "base/result.h"
#include "retrieval/document.h"

namespace chimere::retrieval {

/// Plain text: paragraphs between empty lines; a line that is underlined with = or - is a heading.
Document read_text(std::string_view text);

/// Markdown: ATX and Setext headings, fenced and indented code, lists, tables; links and emphasis
/// become their text. The title is the first heading of level 1, or the front matter's.
Document read_markdown(std::string_view text);

/// HTML: the main content without navigation, forms and scripts; headings, paragraphs, lists,
/// tables, code. Errors: those of parse_html().
Result<Document> read_html(std::string_view html);

/// The source of a manual page: man(7) or mdoc(7). The title is its name with its purpose.
Document read_manual(std::string_view source);

/// PDF, by pdftotext in a sandboxed process with limits of time, memory and text; each page is a
/// section "page N". Errors: kUnsupported (pdftotext is not installed), kInvalidData.
Result<Document> read_pdf(std::string_view bytes);

/// Source code: a definition (a line that begins one in many languages) is a heading, empty lines
/// separate blocks.
Document read_code(std::string_view source);

}  // namespace chimere::retrieval

#endif  // CHIMERE_RETRIEVAL_READERS_H_
