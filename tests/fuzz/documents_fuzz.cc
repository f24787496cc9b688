// Reads arbitrary bytes as a document of a collection, of the type that the first byte selects: an
// error with a sentence, or chunks of valid UTF-8 within their size.
#include <archive.h>
#include <archive_entry.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "fuzz.h"
#include "retrieval/chunker.h"
#include "retrieval/read_documents.h"
#include "text/utf8.h"

namespace {

using chimere::Status;
using chimere::retrieval::Chunk;
using chimere::retrieval::Document;

constexpr std::array<const char*, 8> kNames = {"a.html",   "a.md",  "a.1", "a.py",
                                               "a.tar.gz", "a.zip", "a",   "a.1.gz"};

// Long documents go over several literals. NOLINTNEXTLINE(bugprone-suspicious-missing-comma)
constexpr std::string_view kTexts[] = {
    "\x08<!doctype html><html><head><meta charset=utf-8><title>T</title></head><body><nav>"
    "<a href=/>x</a></nav><main><h1 id=a>A &amp; b</h1><p>Text <b>bold</b><br>more<table>"
    "<tr><td>1<td>2</table><dl><dt>-a<dd>all</dl><pre>code\n  x</pre><svg><g/></svg></main>",
    "\x01# Title\n\nPara [link](http://x/(y)) `code` *em*\n\n- item\n  - "
    "nested\n\n```sh\nrun\n```\n\nHead\n----\n"
    "| a | b |\n|---|---|\n| 1 | 2 |\n\n    indented\n",
    "\x02.TH A 1\n.ds x \\fBy\\fR\n.if n \\{\\\nshown\n.\\}\n.el hidden\n.SH NAME\na \\- b \\*x "
    "\\(em "
    "\\[u00E9]\n.SH OPTIONS\n.TP\n.B \\-a \\s-1x\\s0\ntext\n.TS\nl l.\na\tb\n.TE\n.nf\ncode\n.fi\n",
    "\x02.Dd May 1\n.Dt A 1\n.Os\n.Sh NAME\n.Nm a\n.Nd b\n.Sh X\n.Bl -tag\n.It Fl a Ar b Ns , Op "
    "Fl c Pq d "
    ".\ntext\n.Xr x 1 .\n.El\n.Bd -literal\ncode\n.Ed\n",
    "\x03# comment\ndef f(x):\n    return x\n\nclass A:\n    def g(self):\n        pass\n\nint "
    "main(int c) {\n}\n",
    "\x06Title\n=====\n\ntext\nline\n\nPart\n----\nmore\n"};

std::vector<uint8_t> packed(uint8_t type, bool zip) {
  archive* const a = archive_write_new();
  if (zip) {
    archive_write_set_format_zip(a);
  } else {
    archive_write_set_format_ustar(a);
    archive_write_add_filter_gzip(a);
  }
  std::vector<uint8_t> bytes(1 << 16);
  size_t used = 0;
  archive_write_open_memory(a, bytes.data() + 1, bytes.size() - 1, &used);
  constexpr std::string_view kContent = "# In an archive\n\ntext\n";
  archive_entry* const entry = archive_entry_new();
  archive_entry_set_pathname(entry, "b/c.md");
  archive_entry_set_size(entry, static_cast<la_int64_t>(kContent.size()));
  archive_entry_set_filetype(entry, AE_IFREG);
  archive_write_header(a, entry);
  archive_write_data(a, kContent.data(), kContent.size());
  archive_entry_free(entry);
  archive_write_close(a);
  archive_write_free(a);
  bytes.resize(used + 1);
  bytes[0] = type;
  return bytes;
}

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Status done = chimere::retrieval::read_documents(
      kNames.at(data[0] % kNames.size()), bytes, "",
      [](const std::string&, const Document& document) -> Status {
        require(chimere::text::is_valid_utf8(document.title), "the title is not UTF-8");
        for (const Chunk& chunk : chimere::retrieval::chunk(document)) {
          require(chimere::text::is_valid_utf8(chunk.text), "a chunk is not UTF-8");
          require(chimere::text::is_valid_utf8(chunk.heading), "a heading is not UTF-8");
          require(!chunk.text.empty() && chunk.text.size() <= 1200, "the size of a chunk is wrong");
        }
        return {};
      },
      [](const std::string& why) { require(!why.empty(), "a message is missing"); });
  if (!done.ok()) require(!done.error().message.empty(), "a message is missing");
  return 0;
}

std::vector<std::vector<uint8_t>> fuzz_seeds() {
  std::vector<std::vector<uint8_t>> seeds;
  for (const std::string_view text : kTexts) seeds.emplace_back(text.begin(), text.end());
  seeds.push_back(packed(4, false));
  seeds.push_back(packed(5, true));
  return seeds;
}
