// PDF files, by poppler's pdftotext in a process of its own.
#include <chrono>
#include <string>
#include <utility>

#include "base/child_process.h"
#include "base/sandbox.h"
#include "retrieval/block_builder.h"
#include "retrieval/line_reader.h"
#include "retrieval/read_documents.h"
#include "retrieval/readers.h"

namespace chimere::retrieval {
namespace {

constexpr auto kPdfTime = std::chrono::seconds(60);
constexpr int64_t kPdfProcessorSeconds = 30;
constexpr int64_t kPdfMemory = int64_t{1} << 30;
constexpr size_t kPdfText = size_t{32} << 20;

/// The text of pdftotext: pages end with a form feed.
Document document_of_pages(std::string_view text) {
  Document document;
  BlockBuilder builder(document);
  int64_t page = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\f'), text.size());
    const std::string content = clean_text(text.substr(0, end));
    text.remove_prefix(std::min(text.size(), end + 1));
    ++page;
    if (trimmed(content).empty()) continue;
    builder.heading(2, "page " + std::to_string(page), 0);
    LineReader lines(content);
    while (lines.next()) {
      const std::string_view line = trimmed(lines.line());
      if (line.empty()) {
        builder.end();
      } else {
        builder.add(Block::Kind::kText, line, 0);
      }
    }
    builder.end();
  }
  return document;
}

}  // namespace

Result<Document> read_pdf(std::string_view bytes) {
  ChildCommand command;
  command.words = {"pdftotext", "-q", "-enc", "UTF-8", "-", "-"};
  command.memory_bytes = kPdfMemory;
  command.cpu_seconds = kPdfProcessorSeconds;
  auto shut_in = sandboxed(command);
  if (!shut_in.ok() && shut_in.error().code == Error::Code::kNotFound) {
    return unsupported(
        "PDF files are read with pdftotext, which is not installed (Debian: poppler-utils).");
  }
  if (shut_in.ok()) {
    command = *std::move(shut_in);
  } else {
    command.may_write = false;  // without bubblewrap the limits alone hold it
  }
  CHIMERE_TRY(const ChildOutput done, run_child(command, bytes, kPdfTime, kPdfText));
  if (done.timed_out) return invalid_data("The PDF file took more than a minute to read.");
  if (done.truncated) return invalid_data("The PDF file has more than 32 MiB of text.");
  if (done.code != 0) {
    return invalid_data(
        "pdftotext cannot read the PDF file: it is damaged, locked with a password, or needs more "
        "than 1 GiB or 30 s.");
  }
  Document document = document_of_pages(done.text);
  if (document.blocks.empty()) {
    return invalid_data("The PDF file has no text; scanned pages have pictures alone.");
  }
  return document;
}

}  // namespace chimere::retrieval
