#include "collection_service.h"

#include <mutex>
#include <utility>

#include "collection_models.h"
#include "retrieval/collections.h"

namespace chimere::app {

/// Two views of one folder: the plain one answers without models.
class CollectionService::Lazy final : public orchestrator::PassageSource {
 public:
  Lazy(Settings settings, const std::string& folder)
      : settings_(std::move(settings)), plain_(folder, nullptr, nullptr) {}

  retrieval::Collections& plain() { return plain_; }
  Result<retrieval::Collections*> with_models() {
    const std::scoped_lock lock(mutex_);
    if (!full_) {
      CHIMERE_TRY(full_, open_collections(settings_));
    }
    return full_.get();
  }

  Result<std::vector<orchestrator::Passage>> search(const std::string& owner,
                                                    const std::string& collection,
                                                    const std::string& query,
                                                    int64_t most) override {
    CHIMERE_TRY(retrieval::Collections* const collections, with_models());
    retrieval::SearchOptions options;
    options.count = static_cast<int>(most);
    CHIMERE_TRY(retrieval::Found found,
                collections->search({.name = collection, .owner = owner}, query, options));
    std::vector<orchestrator::Passage> out;
    for (retrieval::Passage& passage : found.passages) {
      orchestrator::Passage& to = out.emplace_back();
      to.place = passage.place();
      to.text = std::move(passage.text);
      to.document = std::move(passage.document);
      to.name = passage.title.empty() ? to.document : std::move(passage.title);
      to.collection = collection;
      to.score = passage.score;
    }
    return out;
  }

 private:
  const Settings settings_;
  retrieval::Collections plain_;
  std::mutex mutex_;
  std::unique_ptr<retrieval::Collections> full_;  ///< guarded by mutex_
};

namespace {

protocol::CollectionSummary summary_of(const retrieval::CollectionInfo& info) {
  return {info.id.name,        info.documents, info.chunks,
          info.without_vector, info.embedder,  info.bytes};
}

void add_report(const retrieval::UpdateReport& from, protocol::CollectionReport& to) {
  to.added += from.added;
  to.changed += from.changed;
  to.unchanged += from.unchanged;
  to.embedded += from.embedded;
  to.skipped.insert(to.skipped.end(), from.skipped.begin(), from.skipped.end());
}

}  // namespace

CollectionService::CollectionService(std::shared_ptr<Lazy> collections)
    : collections_(std::move(collections)) {}

CollectionService::~CollectionService() = default;

Result<std::unique_ptr<CollectionService>> CollectionService::create(const Settings& settings) {
  CHIMERE_TRY(const std::string folder, collections_folder(settings));
  return std::unique_ptr<CollectionService>(
      new CollectionService(std::make_shared<Lazy>(settings, folder)));
}

std::shared_ptr<orchestrator::PassageSource> CollectionService::passages() const {
  return collections_;
}

Result<std::vector<protocol::CollectionSummary>> CollectionService::list(const std::string& owner) {
  CHIMERE_TRY(const auto found, collections_->plain().list(owner));
  std::vector<protocol::CollectionSummary> out;
  out.reserve(found.size());
  for (const auto& info : found) out.push_back(summary_of(info));
  return out;
}

Result<protocol::CollectionSummary> CollectionService::info(const std::string& owner,
                                                            const std::string& name) {
  CHIMERE_TRY(const auto info, collections_->plain().info({.name = name, .owner = owner}));
  return summary_of(info);
}

Result<std::vector<protocol::CollectionDocument>> CollectionService::documents(
    const std::string& owner, const std::string& name) {
  CHIMERE_TRY(const auto found, collections_->plain().documents({.name = name, .owner = owner}));
  std::vector<protocol::CollectionDocument> out;
  out.reserve(found.size());
  for (const auto& document : found)
    out.push_back({document.name, document.title, document.chunks});
  return out;
}

Status CollectionService::create(const std::string& owner, const std::string& name) {
  CHIMERE_TRY(const auto report, collections_->plain().add({.name = name, .owner = owner}, {}, {}));
  (void)report;
  return {};
}

Result<protocol::CollectionReport> CollectionService::add(
    const std::string& owner, const std::string& name, const protocol::AddDocumentsRequest& request,
    const std::function<bool()>& interrupted) {
  const retrieval::CollectionId id = {.name = name, .owner = owner};
  // Documents go into collections that exist, so that a wrong name makes none.
  CHIMERE_TRY(const auto present, collections_->plain().info(id));
  (void)present;
  CHIMERE_TRY(retrieval::Collections* const collections, collections_->with_models());
  retrieval::UpdateOptions options;
  options.interrupted = interrupted;
  protocol::CollectionReport out;
  std::vector<retrieval::Source> pages;
  for (const protocol::NewDocument& document : request.documents) {
    if (!document.url.empty()) {
      pages.push_back({retrieval::Source::Kind::kUrl, document.url});
      continue;
    }
    const std::string& bytes = document.text ? *document.text : *document.data;
    const auto report = collections->add_text(id, document.name, bytes, document.type, options);
    const bool unreadable = !report.ok() && (report.error().code == Error::Code::kUnsupported ||
                                             report.error().code == Error::Code::kInvalidData);
    if (!report.ok() && !unreadable) return report.error();
    if (unreadable) {
      out.skipped.push_back(report.error().message);
    } else {
      add_report(*report, out);
    }
  }
  if (!pages.empty()) {
    CHIMERE_TRY(const auto report, collections->add(id, pages, options));
    add_report(report, out);
  }
  return out;
}

Result<protocol::CollectionMatches> CollectionService::search(
    const std::string& owner, const std::string& name,
    const protocol::SearchCollectionRequest& request) {
  retrieval::SearchOptions options;
  options.count = static_cast<int>(request.count);
  options.words = request.by != "vectors";
  options.vectors = request.by != "words";
  CHIMERE_TRY(retrieval::Collections* const collections, collections_->with_models());
  CHIMERE_TRY(retrieval::Found found,
              collections->search({.name = name, .owner = owner}, request.query, options));
  protocol::CollectionMatches out;
  out.by_vectors = found.by_vectors;
  out.reranked = found.reranked;
  out.note = std::move(found.note);
  for (retrieval::Passage& p : found.passages) {
    protocol::CollectionPassage& to = out.passages.emplace_back();
    to.id = p.id;
    to.place = p.place();
    to.document = std::move(p.document);
    to.title = std::move(p.title);
    to.heading = std::move(p.heading);
    to.line = p.line;
    to.text = std::move(p.text);
    to.score = p.score;
    to.bm25 = p.words;
    to.similarity = p.similarity;
    to.relevance = p.relevance;
  }
  return out;
}

Status CollectionService::remove(const std::string& owner, const std::string& name) {
  return collections_->plain().remove({.name = name, .owner = owner});
}

Status CollectionService::remove_document(const std::string& owner, const std::string& name,
                                          const std::string& document) {
  return collections_->plain().remove_document({.name = name, .owner = owner}, document);
}

}  // namespace chimere::app
