#include "retrieval/document_type.h"

#include <algorithm>
#include <cctype>

namespace chimere::retrieval {
namespace {

using Type = DocumentType;

struct NamedType {
  std::string_view name;
  Type type;
};

/// By the end of a name, without the dot.
constexpr NamedType kExtensions[] = {
    {"md", Type::kMarkdown},  {"markdown", Type::kMarkdown},
    {"mkd", Type::kMarkdown}, {"mdx", Type::kMarkdown},
    {"html", Type::kHtml},    {"htm", Type::kHtml},
    {"xhtml", Type::kHtml},   {"txt", Type::kText},
    {"rst", Type::kText},     {"adoc", Type::kText},
    {"org", Type::kText},     {"tex", Type::kText},
    {"csv", Type::kText},     {"log", Type::kText},
    {"c", Type::kCode},       {"h", Type::kCode},
    {"cc", Type::kCode},      {"cpp", Type::kCode},
    {"cxx", Type::kCode},     {"hpp", Type::kCode},
    {"hh", Type::kCode},      {"cu", Type::kCode},
    {"cuh", Type::kCode},     {"py", Type::kCode},
    {"pyi", Type::kCode},     {"js", Type::kCode},
    {"mjs", Type::kCode},     {"ts", Type::kCode},
    {"tsx", Type::kCode},     {"jsx", Type::kCode},
    {"java", Type::kCode},    {"kt", Type::kCode},
    {"swift", Type::kCode},   {"rs", Type::kCode},
    {"go", Type::kCode},      {"rb", Type::kCode},
    {"php", Type::kCode},     {"pl", Type::kCode},
    {"pm", Type::kCode},      {"sh", Type::kCode},
    {"bash", Type::kCode},    {"zsh", Type::kCode},
    {"lua", Type::kCode},     {"cs", Type::kCode},
    {"scala", Type::kCode},   {"hs", Type::kCode},
    {"ml", Type::kCode},      {"ex", Type::kCode},
    {"erl", Type::kCode},     {"clj", Type::kCode},
    {"lisp", Type::kCode},    {"el", Type::kCode},
    {"r", Type::kCode},       {"jl", Type::kCode},
    {"sql", Type::kCode},     {"cmake", Type::kCode},
    {"json", Type::kCode},    {"yaml", Type::kCode},
    {"yml", Type::kCode},     {"toml", Type::kCode},
    {"ini", Type::kCode},     {"conf", Type::kCode},
    {"xml", Type::kCode},     {"css", Type::kCode},
    {"proto", Type::kCode},   {"s", Type::kCode},
};

/// Archives that a compressed file's name announces.
constexpr std::string_view kCompressedTar[] = {".tar.gz", ".tgz", ".tar.bz2", ".tbz2",
                                               ".tar.xz", ".txz", ".tar.zst", ".tzst"};

constexpr NamedType kMediaTypes[] = {
    {"text/markdown", Type::kMarkdown},     {"text/html", Type::kHtml},
    {"application/xhtml+xml", Type::kHtml}, {"application/pdf", Type::kPdf},
    {"text/troff", Type::kManual},          {"application/zip", Type::kArchive},
    {"application/x-tar", Type::kArchive},
};

/// By the first bytes.
constexpr NamedType kMagic[] = {
    {"%PDF-", Type::kPdf},
    {{"PK\x03\x04", 4}, Type::kArchive},
    {"7z\xbc\xaf\x27\x1c", Type::kArchive},
    {{"\x1f\x8b", 2}, Type::kCompressed},
    {"BZh", Type::kCompressed},
    {{"\xfd"
      "7zXZ\0",
      6},
     Type::kCompressed},
    {{"\x28\xb5\x2f\xfd", 4}, Type::kCompressed},
};

std::string lower_ascii(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

std::string extension_of(std::string_view name) {
  name = name.substr(name.find_last_of('/') + 1);
  const size_t dot = name.rfind('.');
  return dot == std::string_view::npos || dot == 0 ? "" : lower_ascii(name.substr(dot + 1));
}

/// Bytes that no text has: zeros, or many control characters.
bool looks_binary(std::string_view bytes) {
  const std::string_view head = bytes.substr(0, 8192);
  const auto controls = std::ranges::count_if(head, [](char c) {
    const auto u = static_cast<unsigned char>(c);
    return u < 0x20 && c != '\n' && c != '\r' && c != '\t' && c != '\f' && c != '\v' && c != '\b' &&
           c != '\x1b';
  });
  return head.find('\0') != std::string_view::npos ||
         controls > static_cast<std::ptrdiff_t>(head.size() / 50);
}

/// Whether the name has a section's ending ("ls.1", "open.3pm") and the bytes a section's macro.
bool is_manual(std::string_view extension, std::string_view bytes) {
  if (extension.empty() || extension.size() > 8 || extension[0] < '1' || extension[0] > '9')
    return false;
  return bytes.find("\n.S") != std::string_view::npos || bytes.starts_with(".so ") ||
         bytes.find("\n.so ") != std::string_view::npos;
}

bool is_html(std::string_view bytes) {
  const size_t at = bytes.substr(0, 1024).find_first_not_of(" \t\r\n\xef\xbb\xbf");
  if (at == std::string_view::npos) return false;
  const std::string head = lower_ascii(bytes.substr(at, 16));
  return head.starts_with("<!doctype html") || head.starts_with("<html");
}

Type type_of_magic(std::string_view name, std::string_view bytes) {
  for (const NamedType& magic : kMagic) {
    if (!bytes.starts_with(magic.name)) continue;
    const std::string lower = lower_ascii(name);
    const bool tar =
        std::ranges::any_of(kCompressedTar, [&](auto e) { return lower.ends_with(e); });
    return magic.type == Type::kCompressed && tar ? Type::kArchive : magic.type;
  }
  constexpr size_t kUstar = 257;
  return bytes.size() > kUstar + 5 && bytes.substr(kUstar, 5) == "ustar" ? Type::kArchive
                                                                         : Type::kUnknown;
}

}  // namespace

DocumentType document_type(std::string_view name, std::string_view bytes,
                           std::string_view media_type) {
  if (const Type type = type_of_magic(name, bytes); type != Type::kUnknown) return type;
  std::string media = lower_ascii(media_type.substr(0, media_type.find(';')));
  while (media.ends_with(' ')) media.pop_back();
  for (const NamedType& known : kMediaTypes)
    if (media == known.name) return known.type;
  const bool wide = bytes.starts_with("\xff\xfe") || bytes.starts_with("\xfe\xff");  // UTF-16
  if (!wide && looks_binary(bytes)) return Type::kBinary;
  const std::string extension = extension_of(name);
  if (is_manual(extension, bytes)) return Type::kManual;
  for (const NamedType& known : kExtensions)
    if (extension == known.name) return known.type;
  if (is_html(bytes)) return Type::kHtml;
  return Type::kText;
}

}  // namespace chimere::retrieval
