#include <array>
#include <utility>

#include "protocol/request_types.h"

namespace chimere::protocol {
namespace {

using Create = FieldsOf<CreateCollectionRequest>;
using Document = FieldsOf<NewDocument>;
using Add = FieldsOf<AddDocumentsRequest>;
using Search = FieldsOf<SearchCollectionRequest>;

/// Documents of one request.
constexpr int64_t kMostDocuments = 256;

constexpr auto kCreateRows = std::to_array<Create::Row>({
    Create::text<&CreateCollectionRequest::name>(
        {.name = "name",
         .help = "1 to 64 letters, digits, '.', '_' and '-', the first no '.'",
         .required = true,
         .max_bytes = 64}),
});

void read_text_field(Fields& f, const FieldInfo& info, const RequestLimits& /*limits*/,
                     NewDocument& out) {
  std::string value;
  if (f.text(info.name, value)) out.text = std::move(value);
}

void read_data_field(Fields& f, const FieldInfo& info, const RequestLimits& /*limits*/,
                     NewDocument& out) {
  std::string value;
  if (!f.text(info.name, value)) return;
  out.data = decode_base64(value);
  if (!out.data) f.fail("'" + f.path_of(info.name) + "' is no base64.", info.name);
}

constexpr auto kDocumentRows = std::to_array<Document::Row>({
    Document::text<&NewDocument::name>(
        {.name = "name",
         .help = "What a search shows, such as a file's name; a document of the same name is "
                 "replaced. Required unless there is a `url`",
         .max_bytes = 1000}),
    Document::text<&NewDocument::type>(
        {.name = "type",
         .help = "Media type, such as text/markdown; default: by name and content",
         .max_bytes = 200}),
    Document::other({.name = "text",
                     .help = "The document as text",
                     .type_text = "text",
                     .valid = R"(["x"])",
                     .invalid = "[1]"},
                    &read_text_field),
    Document::other({.name = "data",
                     .help = "The document's bytes in base64",
                     .type_text = "text",
                     .valid = R"(["YQ=="])",
                     .invalid = R"([1, "*"])"},
                    &read_data_field),
    Document::text<&NewDocument::url>(
        {.name = "url",
         .help = "A page of the web, which the server fetches: public addresses only",
         .max_bytes = 2000}),
});

/// The rules between the fields of a document.
std::optional<ApiError> check_document(const NewDocument& d, const std::string& path) {
  const int given = (d.text ? 1 : 0) + (d.data ? 1 : 0) + (d.url.empty() ? 0 : 1);
  if (given > 1) {
    return bad_field("A document has one of 'text', 'data' and 'url'.",
                     path + (d.url.empty() ? ".data" : ".url"), "conflicting_fields");
  }
  const char* const missing = given == 0                        ? ".text"
                              : d.url.empty() && d.name.empty() ? ".name"
                                                                : nullptr;
  if (missing == nullptr) return std::nullopt;
  return bad_field("'" + path + missing + "' is missing.", path + missing, "missing_field");
}

constexpr ObjectType<NewDocument> kDocumentType{kDocumentRows};

constexpr auto kAddRows = std::to_array<Add::Row>({
    Add::list<&AddDocumentsRequest::documents, kDocumentType>(
        {.name = "documents",
         .help = "At most 256, each with one of `text`, `data` and `url`",
         .required = true,
         .min = 1,
         .max = kMostDocuments,
         .valid = R"([[{"name": "a.md", "text": "A text."}]])",
         .invalid = R"([[], ["a"], {}, "a"])"}),
});

constexpr auto kSearchRows = std::to_array<Search::Row>({
    Search::text<&SearchCollectionRequest::query>(
        {.name = "query", .help = "A question, or words", .required = true, .max_bytes = 1 << 16}),
    Search::integer<&SearchCollectionRequest::count>(
        {.name = "count", .help = "Most passages", .min = 1, .max = 100, .default_value = "8"}),
    Search::text<&SearchCollectionRequest::by>({.name = "by",
                                                .help = "What to search by",
                                                .choices = {"both", "words", "vectors"},
                                                .default_value = "both"}),
});

}  // namespace

constexpr ObjectType<CreateCollectionRequest> kCreateCollectionType{kCreateRows};
constexpr ObjectType<AddDocumentsRequest> kAddDocumentsType{kAddRows};
constexpr ObjectType<SearchCollectionRequest> kSearchCollectionType{kSearchRows};

std::optional<std::string> decode_base64(std::string_view text) {
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  std::string out;
  out.reserve(text.size() / 4 * 3 + 2);
  uint32_t bits = 0;
  int have = 0;
  for (const char c : text) {
    uint32_t value = 0;
    if (c >= 'A' && c <= 'Z') {
      value = static_cast<uint32_t>(c - 'A');
    } else if (c >= 'a' && c <= 'z') {
      value = static_cast<uint32_t>(c - 'a') + 26;
    } else if (c >= '0' && c <= '9') {
      value = static_cast<uint32_t>(c - '0') + 52;
    } else if (c == '+' || c == '/') {
      value = c == '+' ? 62 : 63;
    } else {
      return std::nullopt;
    }
    bits = (bits << 6U) | value;
    have += 6;
    if (have >= 8) {
      have -= 8;
      out += static_cast<char>((bits >> static_cast<unsigned>(have)) & 0xffU);
    }
  }
  if (have >= 6) return std::nullopt;  // one character alone holds no byte
  return out;
}

std::optional<ApiError> parse_create_collection(std::string_view body, const RequestLimits& limits,
                                                CreateCollectionRequest& out) {
  out = {};
  return parse_body(kCreateCollectionType, body, own_api(limits), out);
}

std::optional<ApiError> parse_add_documents(std::string_view body, const RequestLimits& limits,
                                            AddDocumentsRequest& out) {
  out = {};
  if (auto error = parse_body(kAddDocumentsType, body, own_api(limits), out)) return error;
  for (size_t i = 0; i < out.documents.size(); ++i) {
    const std::string path = "documents[" + std::to_string(i) + "]";
    if (auto error = check_document(out.documents[i], path)) return error;
  }
  return std::nullopt;
}

std::optional<ApiError> parse_search_collection(std::string_view body, const RequestLimits& limits,
                                                SearchCollectionRequest& out) {
  out = {};
  return parse_body(kSearchCollectionType, body, own_api(limits), out);
}

}  // namespace chimere::protocol
