// The database file of one collection: documents, chunks, their words and vectors. The format is
// specified in docs/retrieval.md.
#ifndef CHIMERE_RETRIEVAL_STORE_H_
#define CHIMERE_RETRIEVAL_STORE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "database/database.h"
#include "retrieval/chunker.h"
#include "retrieval/words_query.h"

namespace chimere::retrieval {

/// What a collection was told to hold, and looks at again in an update.
struct StoredSource {
  int64_t id = 0;
  std::string kind;   ///< of SourceKind
  std::string place;  ///< an absolute path, a URL or a name
};

struct StoredDocument {
  int64_t id = 0;
  int64_t source = 0;
  std::string name;
  std::string title;
  std::string digest;       ///< of the bytes that were read
  int64_t size = 0;         ///< of the file that the document is in; 0: unknown
  int64_t modified_ns = 0;  ///< of that file; 0: unknown
  int64_t chunks = 0;       ///< filled in by documents()
};

struct StoredPassage {
  int64_t id = 0;
  std::string document;
  std::string title;
  std::string heading;
  std::string text;
  int64_t line = 0;
};

struct WordHit {
  int64_t chunk = 0;
  double score = 0;  ///< BM25; more is better
};

struct StoreCounts {
  int64_t documents = 0;
  int64_t chunks = 0;
  int64_t without_vector = 0;
};

/// One connection to the file; not thread-safe. Several connections, also of several processes,
/// may use the file. A process that is killed leaves every document as it was or as it is to be.
class Store {
 public:
  /// Errors: kNotFound (there is none, and `create` is false), those of Database::open().
  static Result<Store> open(const std::string& path, bool create);

  /// Facts about the collection, by key; empty: unknown.
  Result<std::string> fact(const std::string& key);
  Status set_fact(const std::string& key, const std::string& value);

  Result<std::vector<StoredSource>> sources();
  /// The number of the source; a new one if it is not known yet.
  Result<int64_t> add_source(const std::string& kind, const std::string& place);
  /// Removes a source with its documents.
  Status remove_source(int64_t id);

  /// The documents of a source, by name; without titles.
  Result<std::map<std::string, StoredDocument>> documents_of(int64_t source);
  /// All documents in the order of their names, with their numbers of chunks.
  Result<std::vector<StoredDocument>> documents();
  /// The document with this name; `id` 0: there is none.
  Result<StoredDocument> find_document(const std::string& name);
  /// Adds a document, or replaces the one with its name, with its chunks.
  Status put(const StoredDocument& document, std::span<const Chunk> chunks);
  /// Records another size and time of a file whose content is the same.
  Status touch(int64_t document, int64_t size, int64_t modified_ns);
  Status remove(int64_t document);

  Result<StoreCounts> counts();

  /// At most `most` chunks that have no vector, from `after` on; their ids and what to embed.
  struct Unembedded {
    int64_t id = 0;
    std::string text;
  };
  Result<std::vector<Unembedded>> without_vectors(int64_t after, int64_t most);
  /// Stores the vector of a chunk, unless the chunk is gone.
  Status set_vector(int64_t chunk, std::span<const std::byte> vector);
  Status forget_vectors();
  /// Calls `take` for each chunk after `after` that has a vector, in the order of their ids.
  Status each_vector(int64_t after,
                     const std::function<void(int64_t chunk, std::span<const std::byte>)>& take);
  Result<std::vector<int64_t>> chunks_with_vectors();

  /// The number of chunks that a full-text expression finds, counted up to `most`.
  Result<int64_t> count_words(const std::string& expression, int64_t most);
  /// The best chunks, `most` at most, of those that are to be scored; best first, those of equal
  /// score in the order of their ids.
  Result<std::vector<WordHit>> search_words(const TextsToScore& texts, size_t most);
  /// The passages with these ids, in their order; those that are gone are left out.
  Result<std::vector<StoredPassage>> passages(std::span<const int64_t> ids);

  /// Changes with every commit that another connection makes.
  Result<int64_t> data_version();
  /// "ok", or what is damaged: the file's pages, the index of words, chunks without a document.
  Result<std::string> check();

  database::Database& database() { return database_; }

 private:
  explicit Store(database::Database database) : database_(std::move(database)) {}
  Status remove_chunks(int64_t document);

  database::Database database_;
};

}  // namespace chimere::retrieval

#endif  // CHIMERE_RETRIEVAL_STORE_H_
