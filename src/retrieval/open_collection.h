// One collection in use: connections to its file, its vectors in memory.
#ifndef CHIMERE_RETRIEVAL_OPEN_COLLECTION_H_
#define CHIMERE_RETRIEVAL_OPEN_COLLECTION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "retrieval/collection_types.h"
#include "retrieval/store.h"
#include "retrieval/text_models.h"
#include "retrieval/vector_index.h"

namespace chimere::retrieval {

/// Thread-safe.
class OpenCollection {
 public:
  OpenCollection(CollectionId id, std::string path) : id_(std::move(id)), path_(std::move(path)) {}

  /// Errors: those of Collections::update(). `sources`: to be added first.
  Result<UpdateReport> update(std::span<const Source> sources, TextEmbedder* embedder,
                              const UpdateOptions& options);
  Result<UpdateReport> add_text(const std::string& name, const std::string& bytes,
                                const std::string& type, TextEmbedder* embedder,
                                const UpdateOptions& options);
  Status remove_document(const std::string& name);
  Result<Found> search(const std::string& query, const SearchOptions& options,
                       TextEmbedder* embedder, TextReranker* reranker);
  Result<CollectionInfo> info();
  Result<std::vector<DocumentInfo>> documents();
  Result<std::string> check();

 private:
  /// A connection for one thread, returned to the pool at the end.
  class Lease;

  Result<Lease> lease();
  /// The vectors as of the last commit; nullptr: there are none, or none of this embedder.
  Result<std::shared_ptr<const VectorIndex>> vectors(Store& store, const TextEmbedder& embedder,
                                                     std::string& note);
  /// The chunks with the words of a query, best first.
  Result<std::vector<WordHit>> chunks_with_words(Store& store, const std::string& query,
                                                 size_t most);
  /// How many chunks an expression finds, remembered until the collection's generation changes.
  Result<int64_t> chunks_with(Store& store, const std::string& generation,
                              const std::string& expression);
  Result<std::vector<VectorHit>> near_chunks(Store& store, const std::string& query,
                                             const SearchOptions& options, TextEmbedder& embedder,
                                             Found& found);
  /// Computes the missing vectors.
  Status embed(Store& store, TextEmbedder& embedder, const UpdateOptions& options,
               UpdateReport& report) const;

  CollectionId id_;
  std::string path_;
  std::mutex updating_;  ///< held during an update

  std::mutex mutex_;
  std::vector<std::unique_ptr<Store>> idle_;  ///< guarded by mutex_

  std::mutex counting_;  ///< guards what follows
  std::unordered_map<std::string, int64_t> chunks_with_;
  std::string counted_generation_;  ///< the fact as of which they were counted

  std::mutex loading_;                          ///< guards what follows
  std::shared_ptr<const VectorIndex> vectors_;  ///< never changes once it is here
  std::string generation_;                      ///< the fact with which it was loaded
};

}  // namespace chimere::retrieval

#endif  // CHIMERE_RETRIEVAL_OPEN_COLLECTION_H_
