#include "retrieval/readers.h"

#include <gtest/gtest.h>

#include <string>

#include "base/child_process.h"
#include "retrieval/charset.h"
#include "retrieval/document_type.h"
#include "retrieval/read_documents.h"

namespace chimere::retrieval {
namespace {

/// A document as lines: "1 heading", "| text", "> code".
std::string shown(const Document& document) {
  std::string out;
  for (const Block& block : document.blocks) {
    if (block.kind == Block::Kind::kHeading) {
      out += std::to_string(block.level) + " " + block.text + "\n";
    } else {
      out += (block.kind == Block::Kind::kCode ? "> " : "| ") + block.text + "\n";
    }
  }
  return out;
}

TEST(ReadMarkdown, HeadingsCodeListsAndLinks) {
  const Document document = read_markdown(
      "---\ntitle: \"Front\"\n---\n# The *tool*\n\nSee [the page](http://x.y/(a)) and `code*`.\n\n"
      "Below\n-----\n- one\n- two\n\n```sh\n# no heading\nrun\n```\n\n    indented\n### Deep "
      "###\nend\n");
  EXPECT_EQ(document.title, "Front");
  EXPECT_EQ(shown(document),
            "1 The tool\n| See the page and code*.\n2 Below\n| - one\n- two\n> # no heading\nrun\n"
            ">     indented\n3 Deep\n| end\n");
  EXPECT_EQ(document.blocks[0].line, 4);
  EXPECT_EQ(document.blocks[1].line, 6);
}

TEST(ReadText, ParagraphsAndUnderlinedHeadings) {
  const Document document = read_text("Title\n=====\n\nfirst\nline\n\nPart\n----\nsecond\n");
  EXPECT_EQ(document.title, "Title");
  EXPECT_EQ(shown(document), "1 Title\n| first\nline\n2 Part\n| second\n");
}

TEST(ReadHtml, FindsTheContent) {
  const auto document = read_html(R"(<!doctype html><html><head><title>T - Site</title>
<script>evil()</script></head><body><nav><a href=/>Home</a><a href=/b>Blog</a></nav>
<div class="sidebar">Buy now</div>
<div id=wrap><main><h1>Reading <em>files</em> <a href=#x>¶</a></h1><p>A file is   a sequence
of bytes &amp; more.</p><h2>Steps</h2><ul><li>open<li>read</ul><pre>  int fd;
read(fd);</pre><table><tr><th>Flag<th>Meaning<tr><td>-a<td>all</table>
<dl><dt>--all</dt><dd>Shows everything.</dd></dl><div hidden>secret</div></main></div>
<footer>Imprint</footer></body></html>)");
  ASSERT_TRUE(document.ok());
  EXPECT_EQ(document->title, "Reading files");
  EXPECT_EQ(
      shown(*document),
      "1 Reading files\n| A file is a sequence of bytes & more.\n2 Steps\n| - open\n| - read\n"
      ">   int fd;\nread(fd);\n| Flag | Meaning\n-a | all\n| --all\nShows everything.\n");
}

TEST(ReadHtml, RefusesWhatWouldCostTooMuch) {
  // HTML reopens all open formatting elements in each paragraph: quadratic.
  std::string bomb;
  for (int i = 0; i < 20'000; ++i) bomb += "<p><b id=" + std::to_string(i) + ">x";
  const auto document = read_html(bomb);
  ASSERT_FALSE(document.ok());
  EXPECT_EQ(document.error().code, Error::Code::kInvalidData);
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "<div>";
  EXPECT_FALSE(read_html(deep + "text").ok());
  std::string unclosed;
  for (int i = 0; i < 20'000; ++i) unclosed += "<p>a<li>b<td>c";
  EXPECT_TRUE(read_html(unclosed).ok());
}

constexpr const char* kMan = R"(.\" A comment
.TH LS 1 "March 2024" "GNU coreutils" "User Commands"
.ds tool ls
.ie t .ds quote ``
.el .ds quote "
.de ZZ
.B never shown
..
.de IX
..
.IX Title "LS 1"
.SH NAME
ls \- list directory contents
.SH SYNOPSIS
.B ls
[\fI\,OPTION\/\fR]... [\fI\,FILE\/\fR]...
.SH DESCRIPTION
.\" more
List information with \*[tool] and \*(quxx.
.if t \{\
for typesetters
only
.\}
.if n for terminals
.TP
\fB\-a\fR, \fB\-\-all\fR
do not ignore entries starting with .
.TP
.BR \-b ", " \-\-escape
print C\-style escapes\(emall of them \[u00E9]
.SS "Exit status:"
.nf
ok   0
  bad  1
.fi
.TS
l l.
a	b
c	d
.TE
)";

TEST(ReadManual, ManMacros) {
  const Document document = read_manual(kMan);
  EXPECT_EQ(document.title, "ls(1) - list directory contents");
  EXPECT_EQ(shown(document),
            "1 NAME\n| ls - list directory contents\n1 SYNOPSIS\n| ls\n[OPTION]... [FILE]...\n"
            "1 DESCRIPTION\n| List information with ls and xx.\nfor terminals\n"
            "| -a, --all\ndo not ignore entries starting with .\n"
            "| -b, --escape\nprint C-style escapes—all of them é\n"
            "2 Exit status:\n> ok   0\n  bad  1\n> a  b\nc  d\n");
}

TEST(ReadManual, MdocMacros) {
  const Document document = read_manual(R"(.Dd March 1, 2024
.Dt CAT 1
.Os
.Sh NAME
.Nm cat
.Nd concatenate files
.Sh SYNOPSIS
.Nm
.Op Fl bn
.Op Ar
.Sh DESCRIPTION
The
.Nm
utility reads
.Pq see Xr head 1 , Xr tail 1 .
.Bl -tag -width x
.It Fl b
Number the lines,
.Ar file Ns s
of
.Dq some kind .
.It Fl Fl color Ns = Ns Ar when
Colours.
.El
.Bd -literal
cat  a
.Ed
)");
  EXPECT_EQ(document.title, "cat(1) - concatenate files");
  EXPECT_EQ(
      shown(document),
      "1 NAME\n| cat\n- concatenate files\n1 SYNOPSIS\n| cat\n[-bn]\n[]\n1 DESCRIPTION\n"
      "| The\ncat\nutility reads\n(see head(1), tail(1)).\n"
      "| -b\nNumber the lines,\nfiles\nof\n\"some kind\".\n| --color=when\nColours.\n> cat  a\n");
}

TEST(ReadManual, StringsThatExpandThemselvesEnd) {
  std::string page = ".TH A 1\n.ds a \\*b\\*b\\*b\\*b\n.ds b \\*a\\*a\\*a\\*a\n.SH NAME\n";
  for (int i = 0; i < 200; ++i) page += "\\*a\\*a\\*a\\*a\n";
  const Document document = read_manual(page);
  EXPECT_EQ(document.title, "a(1)");
}

TEST(ReadCode, DefinitionsAreHeadings) {
  const Document document = read_code(
      "#include <x>\n\n// Adds.\nint add(int a, int b) {\n  return a + b;\n}\n\n"
      "class Stack:\n    def push(self, x):\n        self.items.append(x)\n");
  EXPECT_EQ(
      shown(document),
      "> #include <x>\n1 int add(int a, int b)\n> // Adds.\nint add(int a, int b) {\n  return a "
      "+ b;\n}\n1 class Stack\n> class Stack:\n2 def push(self, x)\n>     def push(self, x):\n "
      "       self.items.append(x)\n");
}

/// A PDF file with these lines on pages of their own, as small as the format allows.
std::string pdf_of(const std::vector<std::string>& pages) {
  std::string out = "%PDF-1.4\n";
  std::vector<size_t> offsets;
  const auto object = [&](const std::string& body) {
    offsets.push_back(out.size());
    out += std::to_string(offsets.size()) + " 0 obj\n" + body + "\nendobj\n";
  };
  std::string kids;
  for (size_t i = 0; i < pages.size(); ++i) kids += std::to_string(4 + 2 * i) + " 0 R ";
  object("<</Type/Catalog/Pages 2 0 R>>");
  object("<</Type/Pages/Count " + std::to_string(pages.size()) + "/Kids[" + kids + "]>>");
  object("<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>");
  for (size_t i = 0; i < pages.size(); ++i) {
    object(
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F 3 0 R>>>>/Contents " +
        std::to_string(5 + 2 * i) + " 0 R>>");
    const std::string stream = "BT /F 12 Tf 72 720 Td (" + pages[i] + ") Tj ET";
    object("<</Length " + std::to_string(stream.size()) + ">>stream\n" + stream + "\nendstream");
  }
  const size_t table = out.size();
  const std::string count = std::to_string(offsets.size() + 1);
  out += "xref\n0 " + count + "\n0000000000 65535 f \n";
  for (const size_t offset : offsets) {
    std::string digits = std::to_string(offset);
    digits.insert(0, 10 - digits.size(), '0');
    out += digits + " 00000 n \n";
  }
  return out + "trailer<</Size " + count + "/Root 1 0 R>>\nstartxref\n" + std::to_string(table) +
         "\n%%EOF\n";
}

TEST(Pdf, IsReadPageByPageOrSaysWhatIsMissing) {
  const auto read = read_pdf(pdf_of({"The zorb counts moons.", "The quux sings."}));
  const auto damaged = read_pdf("%PDF-1.4\nnothing");
  ASSERT_FALSE(damaged.ok());
  if (find_program("pdftotext").empty()) {
    ASSERT_FALSE(read.ok());
    EXPECT_EQ(read.error().code, Error::Code::kUnsupported);
    EXPECT_NE(read.error().message.find("poppler-utils"), std::string::npos);
    return;
  }
  EXPECT_EQ(damaged.error().code, Error::Code::kInvalidData);
  ASSERT_TRUE(read.ok()) << read.error().message;
  ASSERT_EQ(read->blocks.size(), 4U);
  EXPECT_EQ(read->blocks[0].text, "page 1");
  EXPECT_EQ(read->blocks[1].text, "The zorb counts moons.");
  EXPECT_EQ(read->blocks[2].text, "page 2");
  EXPECT_EQ(read->blocks[3].text, "The quux sings.");
  const auto empty = read_pdf(pdf_of({""}));
  ASSERT_FALSE(empty.ok());
  EXPECT_NE(empty.error().message.find("no text"), std::string::npos);
}

TEST(DocumentTypes, ByMagicMediaTypeNameAndContent) {
  using Type = DocumentType;
  EXPECT_EQ(document_type("a.md", "text"), Type::kMarkdown);
  EXPECT_EQ(document_type("x/ls.1", ".TH LS 1\n.SH NAME\n"), Type::kManual);
  EXPECT_EQ(document_type("release.1", "plain text"), Type::kText);
  EXPECT_EQ(document_type("a", "<!DOCTYPE html><p>"), Type::kHtml);
  EXPECT_EQ(document_type("a.md", "x", "text/html; charset=utf-8"), Type::kHtml);
  EXPECT_EQ(document_type("a.txt", "%PDF-1.7"), Type::kPdf);
  EXPECT_EQ(document_type("a.tar.gz", "\x1f\x8b\x08"), Type::kArchive);
  EXPECT_EQ(document_type("ls.1.gz", "\x1f\x8b\x08"), Type::kCompressed);
  EXPECT_EQ(document_type("a.py", "def f(): pass"), Type::kCode);
  EXPECT_EQ(document_type("a.out", std::string("\x7f"
                                               "ELF\0\0",
                                               6)),
            Type::kBinary);
}

TEST(Charsets, BecomeUtf8) {
  EXPECT_EQ(charset_of("<html><meta charset=\"Shift_JIS\">", "", true), "shift_jis");
  EXPECT_EQ(charset_of("x", "text/html; Charset='ISO-8859-15'", true), "iso-8859-15");
  EXPECT_EQ(to_utf8("\x80 caf\xe9", "latin1"), "€ café");
  EXPECT_EQ(to_utf8("caf\xe9", ""), "café");
  EXPECT_EQ(to_utf8("caf\xc3\xa9", ""), "café");
  EXPECT_EQ(to_utf8("caf\xe9", "no-such-charset"), "café");
  EXPECT_EQ(to_utf8(std::string_view("\xff\xfe\x41\x00\xe9\x00", 6), "utf-16le"), "Aé");
  EXPECT_EQ(clean_text("a\x01"
                       "b\xff"
                       "c\r\n"),
            "ab\xef\xbf\xbd"
            "c\r\n");
}

}  // namespace
}  // namespace chimere::retrieval
