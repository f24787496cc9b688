#include "retrieval/read_documents.h"

#include <algorithm>
#include <utility>

#include "retrieval/archive.h"
#include "retrieval/charset.h"
#include "retrieval/document_type.h"
#include "retrieval/readers.h"
#include "text/utf8.h"

namespace chimere::retrieval {

std::string clean_text(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  if (bytes.starts_with("\xef\xbb\xbf")) bytes.remove_prefix(3);
  for (size_t at = 0; at < bytes.size();) {
    const auto c = static_cast<unsigned char>(bytes[at]);
    if (c < 0x80) {
      if (c >= 0x20 ? c != 0x7f : (c == '\n' || c == '\t' || c == '\r')) out += bytes[at];
      if (c == '\f' || c == '\v') out += '\n';
      ++at;
      continue;
    }
    const text::Utf8Char character = text::read_utf8(bytes, at);
    if (character.kind == text::Utf8Char::Kind::kValid) {
      if (character.code >= 0xa0)
        out.append(bytes.substr(at, static_cast<size_t>(character.length)));
      at += static_cast<size_t>(character.length);
    } else {
      text::append_utf8(out, 0xfffd);
      at += static_cast<size_t>(std::max(character.length, 1));
    }
  }
  return out;
}

namespace {

using Take = std::function<Status(const std::string& name, Document)>;
using Skip = std::function<void(std::string)>;

/// A name without the ending of its compression, for its type.
std::string without_compression(const std::string& name) {
  for (const std::string_view ending : {".gz", ".bz2", ".xz", ".zst"})
    if (name.ends_with(ending)) return name.substr(0, name.size() - ending.size());
  return name;
}

/// An escape sequence of roff may take the first byte of a character and leave the others.
Document repaired(Document document) {
  if (!text::is_valid_utf8(document.title)) document.title = clean_text(document.title);
  for (Block& block : document.blocks)
    if (!text::is_valid_utf8(block.text)) block.text = clean_text(block.text);
  return document;
}

Error about(const std::string& name, Error error) {
  error.message = "'" + name + "': " + error.message;
  return error;
}

/// `name` is the document's, `file` the one that tells its type.
Status read_any(const std::string& name, const std::string& file, std::string_view bytes,
                std::string_view media_type, ArchiveBudget& budget, const Take& take,
                const Skip& skip) {
  const DocumentType type = document_type(file, bytes, media_type);
  const auto text = [&](bool html = false) {
    return clean_text(to_utf8(bytes, charset_of(bytes, media_type, html)));
  };
  switch (type) {
    case DocumentType::kMarkdown:
      return take(name, read_markdown(text()));
    case DocumentType::kText:
    case DocumentType::kUnknown:
      return take(name, read_text(text()));
    case DocumentType::kCode:
      return take(name, read_code(text()));
    case DocumentType::kManual:
      return take(name, repaired(read_manual(text())));
    case DocumentType::kHtml: {
      Result<Document> document = read_html(text(true));
      if (!document.ok()) return about(name, document.error());
      return take(name, *std::move(document));
    }
    case DocumentType::kCompressed: {
      if (budget.nesting <= 0) return invalid_data("'" + name + "' is nested too deeply.");
      --budget.nesting;
      Result<std::string> inside = decompress(bytes, budget);
      if (!inside.ok()) return about(name, inside.error());
      Status done = read_any(name, without_compression(file), *inside, "", budget, take, skip);
      ++budget.nesting;
      return done;
    }
    case DocumentType::kArchive: {
      if (budget.nesting <= 0) return invalid_data("'" + name + "' is nested too deeply.");
      --budget.nesting;
      Status done = unpack(
          bytes, budget,
          [&](const std::string& entry, const std::string& inside) -> Status {
            const std::string inner = name + "!/" + entry;
            Status read = read_any(inner, entry, inside, "", budget, take, skip);
            // What is no text is left out; limits and the caller's errors end the archive.
            if (!read.ok() && read.error().code == Error::Code::kUnsupported) return {};
            if (!read.ok() && read.error().code == Error::Code::kInvalidData && budget.bytes > 0) {
              skip(read.error().message);
              return {};
            }
            return read;
          },
          skip);
      ++budget.nesting;
      if (!done.ok()) return about(name, done.error());
      return {};
    }
    case DocumentType::kPdf: {
      Result<Document> document = read_pdf(bytes);
      if (!document.ok()) return about(name, document.error());
      return take(name, *std::move(document));
    }
    case DocumentType::kBinary:
      break;
  }
  return unsupported("'" + name + "' is not a text.");
}

}  // namespace

Status read_documents(const std::string& name, std::string_view bytes, std::string_view media_type,
                      const Take& take, const Skip& skip) {
  ArchiveBudget budget;
  return read_any(name, name, bytes, media_type, budget, take, skip);
}

}  // namespace chimere::retrieval
