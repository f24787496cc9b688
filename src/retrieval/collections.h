// Collections of documents: add, keep up to date, search. docs/retrieval.md.
#ifndef CHIMERE_RETRIEVAL_COLLECTIONS_H_
#define CHIMERE_RETRIEVAL_COLLECTIONS_H_

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "retrieval/collection_types.h"
#include "retrieval/text_models.h"

namespace chimere::retrieval {

class OpenCollection;

/// All collections of a folder, one SQLite file each. Thread-safe: searches of one collection run
/// side by side, also while it is updated; an update waits for another one of the same collection.
class Collections {
 public:
  /// `embedder` and `reranker` may be nullptr. The folder is created when it is needed.
  Collections(std::string folder, std::shared_ptr<TextEmbedder> embedder,
              std::shared_ptr<TextReranker> reranker);
  ~Collections();
  Collections(const Collections&) = delete;
  Collections& operator=(const Collections&) = delete;

  /// Adds sources, creating the collection if there is none, and reads them; then computes the
  /// vectors that are missing. Documents that cannot be read are reported, not errors. Errors:
  /// kInvalidArgument (a bad name), kNotFound (a source does not exist), kCancelled, kIo,
  /// kOutOfSpace, those of the embedder.
  Result<UpdateReport> add(const CollectionId& id, std::span<const Source> sources,
                           const UpdateOptions& options = {});
  /// Adds a document that has no source: `name` is what a search shows, `type` as in
  /// type_of_name() or a media type; empty: by name and content. Replaces one of the same name.
  /// Errors: also kInvalidData, kUnsupported (it cannot be read).
  Result<UpdateReport> add_text(const CollectionId& id, const std::string& name,
                                const std::string& bytes, const std::string& type = "",
                                const UpdateOptions& options = {});
  /// Looks at all sources again: reads what changed, removes what is gone. Errors: also kNotFound.
  Result<UpdateReport> update(const CollectionId& id, const UpdateOptions& options = {});

  /// The owner's collections, by name.
  Result<std::vector<CollectionInfo>> list(const std::string& owner = "");
  /// Errors: kNotFound.
  Result<CollectionInfo> info(const CollectionId& id);
  Result<std::vector<DocumentInfo>> documents(const CollectionId& id);
  /// Errors: kNotFound.
  Status remove(const CollectionId& id);
  Status remove_document(const CollectionId& id, const std::string& name);

  /// The passages that answer the query best; none if nothing fits. Errors: kNotFound, and those of
  /// the models and the database.
  Result<Found> search(const CollectionId& id, const std::string& query,
                       const SearchOptions& options = {});
  /// "ok", or what is damaged.
  Result<std::string> check(const CollectionId& id);

  const std::string& folder() const { return folder_; }
  TextEmbedder* embedder() const { return embedder_.get(); }

 private:
  Result<std::string> path_of(const CollectionId& id) const;
  Result<std::shared_ptr<OpenCollection>> opened(const CollectionId& id, bool create);

  std::string folder_;
  std::shared_ptr<TextEmbedder> embedder_;
  std::shared_ptr<TextReranker> reranker_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<OpenCollection>> opened_;  ///< by path; guarded by mutex_
};

}  // namespace chimere::retrieval

#endif  // CHIMERE_RETRIEVAL_COLLECTIONS_H_
