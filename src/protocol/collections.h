// Collections of documents as the API has them: pure data, its JSON, and the interface to what
// holds them. docs/collections-api.md has the shapes.
#ifndef CHIMERE_PROTOCOL_COLLECTIONS_H_
#define CHIMERE_PROTOCOL_COLLECTIONS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "protocol/api_error.h"
#include "protocol/requests.h"

namespace chimere::protocol {

struct CollectionSummary {
  std::string name = {};
  int64_t documents = 0;
  int64_t chunks = 0;
  int64_t without_vector = 0;  ///< chunks that a search by vectors does not find
  std::string embedder = {};   ///< of its vectors; empty: it has none
  int64_t bytes = 0;           ///< of its file
};

struct CollectionDocument {
  std::string name = {};
  std::string title = {};
  int64_t chunks = 0;
};

struct CollectionPassage {
  int64_t id = 0;  ///< never used again in its collection
  std::string document = {};
  std::string title = {};
  std::string heading = {};
  int64_t line = 0;  ///< from 1; 0: unknown
  std::string place = {};
  std::string text = {};
  double score = 0;
  std::optional<double> bm25 = {};
  std::optional<double> similarity = {};
  std::optional<double> relevance = {};
};

struct CollectionMatches {
  std::vector<CollectionPassage> passages = {};  ///< best first
  bool by_vectors = false;
  bool reranked = false;
  std::string note = {};  ///< why a search that was asked for did not take part; may be empty
};

struct CollectionReport {
  int64_t added = 0;
  int64_t changed = 0;
  int64_t unchanged = 0;
  int64_t embedded = 0;                   ///< chunks that got a vector
  std::vector<std::string> skipped = {};  ///< sentences about documents that could not be read
};

struct CreateCollectionRequest {
  std::string name = {};
};

/// Exactly one of `text`, `data` and `url` is given.
struct NewDocument {
  std::string name = {};  ///< what a search shows; of a `url` the address
  std::string type = {};  ///< media type; empty: by name and content
  std::optional<std::string> text = {};
  std::optional<std::string> data = {};  ///< bytes, decoded from base64
  std::string url = {};
};

struct AddDocumentsRequest {
  std::vector<NewDocument> documents = {};
};

struct SearchCollectionRequest {
  std::string query = {};
  int64_t count = 8;
  std::string by = "both";  ///< "words", "vectors", "both"
};

/// Holds collections. Thread-safe. `owner`: the name of an API key, or empty. Errors of all:
/// kNotFound (the owner has no such collection), kInvalidArgument (no name of a collection), kIo.
class CollectionHolder {
 public:
  virtual ~CollectionHolder() = default;
  virtual Result<std::vector<CollectionSummary>> list(const std::string& owner) = 0;
  virtual Result<CollectionSummary> info(const std::string& owner, const std::string& name) = 0;
  virtual Result<std::vector<CollectionDocument>> documents(const std::string& owner,
                                                            const std::string& name) = 0;
  /// An empty one; the one of this name, if there is one already.
  virtual Status create(const std::string& owner, const std::string& name) = 0;
  /// Reads and indexes the documents. Blocks. `interrupted` is polled; then the error is
  /// kCancelled, and what was indexed stays.
  virtual Result<CollectionReport> add(const std::string& owner, const std::string& name,
                                       const AddDocumentsRequest& request,
                                       const std::function<bool()>& interrupted) = 0;
  virtual Result<CollectionMatches> search(const std::string& owner, const std::string& name,
                                           const SearchCollectionRequest& request) = 0;
  virtual Status remove(const std::string& owner, const std::string& name) = 0;
  virtual Status remove_document(const std::string& owner, const std::string& name,
                                 const std::string& document) = 0;
};

std::optional<ApiError> parse_create_collection(std::string_view body, const RequestLimits& limits,
                                                CreateCollectionRequest& out);
std::optional<ApiError> parse_add_documents(std::string_view body, const RequestLimits& limits,
                                            AddDocumentsRequest& out);
std::optional<ApiError> parse_search_collection(std::string_view body, const RequestLimits& limits,
                                                SearchCollectionRequest& out);

/// Bytes of base64 with padding or without; nothing if `text` is no base64.
std::optional<std::string> decode_base64(std::string_view text);

/// The error of a CollectionHolder.
ApiError from_collections(const Error& error);

std::string collection_list(std::span<const CollectionSummary> collections);
std::string collection_info(const CollectionSummary& info);
/// `most`: documents listed.
std::string collection_with_documents(const CollectionSummary& info,
                                      std::span<const CollectionDocument> documents, int64_t most);
std::string collection_report(std::string_view name, const CollectionReport& report);
std::string collection_matches(std::string_view name, const CollectionMatches& found);
/// `document`: empty if the collection itself was removed.
std::string collection_deleted(std::string_view name, std::string_view document);

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_COLLECTIONS_H_
