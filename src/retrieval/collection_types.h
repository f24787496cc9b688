// What callers of collections see: sources, passages, reports.
#ifndef CHIMERE_RETRIEVAL_COLLECTION_TYPES_H_
#define CHIMERE_RETRIEVAL_COLLECTION_TYPES_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace chimere::retrieval {

/// Names a collection. Collections of different owners have nothing in common.
struct CollectionId {
  std::string name;   ///< 1 to 64 characters of a-z, A-Z, 0-9, '.', '_', '-', the first no '.'
  std::string owner;  ///< the name of an API key; empty: the user of this machine
};

/// What a collection is made of.
struct Source {
  enum class Kind : uint8_t {
    kPath,    ///< a file or a folder with all below it
    kManual,  ///< the manual pages below a folder of man1, man2, ...; empty: this machine's
    kUrl,     ///< a page of the web
  };
  Kind kind = Kind::kPath;
  std::string place;
};

/// A part of a document that answers a query.
struct Passage {
  int64_t id = 0;        ///< of the chunk; never reused in its collection
  std::string document;  ///< a path or a URL; of an archive's entry ARCHIVE!/ENTRY
  std::string title;     ///< of the document; may be empty
  std::string heading;   ///< the headings above it: "OPTIONS > Output"; may be empty
  int64_t line = 0;      ///< where it begins in the document, from 1; 0: unknown
  std::string text;

  double score = 0;                  ///< what the results are sorted by; more is better
  std::optional<double> words;       ///< BM25, if the search for words found it
  std::optional<double> similarity;  ///< cosine, if the search for vectors found it
  std::optional<double> relevance;   ///< of the reranker, from 0 to 1

  /// "OPTIONS > Output, line 12"; empty if neither is known.
  std::string place() const;
};

struct SearchOptions {
  int count = 8;                ///< most passages
  bool words = true;            ///< search for the words of the query (BM25)
  bool vectors = true;          ///< search for near vectors, if there are any
  double vectors_weight = 0.1;  ///< of the search for vectors beside that for words, above 0
  bool rerank = true;           ///< let the reranker, if there is one, sort the best candidates
  int candidates = 100;         ///< of each search, before they are joined
  int reranked = 24;            ///< candidates that the reranker reads
};

struct Found {
  std::vector<Passage> passages;  ///< best first
  bool by_vectors = false;        ///< the search for vectors took part
  bool reranked = false;
  std::string note;  ///< why a search that was asked for did not take part; empty: all did
};

struct CollectionInfo {
  CollectionId id;
  int64_t documents = 0;
  int64_t chunks = 0;
  int64_t without_vector = 0;  ///< chunks that a search for vectors does not find
  std::string embedder;        ///< identity of the embedder of its vectors; empty: none yet
  int64_t bytes = 0;           ///< of its files
  std::vector<Source> sources;
};

struct DocumentInfo {
  std::string name;
  std::string title;
  int64_t chunks = 0;
};

/// What an update does at the moment.
struct Progress {
  const char* step = "";  ///< "read", "embed"
  int64_t done = 0;
  int64_t total = 0;   ///< 0: unknown
  std::string detail;  ///< the document
};

struct UpdateReport {
  int64_t added = 0;
  int64_t changed = 0;
  int64_t unchanged = 0;
  int64_t removed = 0;
  int64_t embedded = 0;  ///< chunks that got a vector
  int64_t n_skipped = 0;
  std::vector<std::string>
      skipped;  ///< sentences about documents that could not be read; the first 20
};

struct UpdateOptions {
  /// IP addresses that pages may be fetched from although they are not public.
  std::vector<std::string> allowed_addresses;
  std::function<void(const Progress&)> progress;
  std::function<bool()> interrupted;  ///< polled; an update that stops keeps what it did
};

}  // namespace chimere::retrieval

#endif  // CHIMERE_RETRIEVAL_COLLECTION_TYPES_H_
