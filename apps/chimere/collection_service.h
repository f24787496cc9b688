// The collections of this machine, for the server's API and for the orchestrator.
#ifndef CHIMERE_APPS_CHIMERE_COLLECTION_SERVICE_H_
#define CHIMERE_APPS_CHIMERE_COLLECTION_SERVICE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/settings.h"
#include "orchestrator/passages.h"
#include "protocol/collections.h"

namespace chimere::app {

/// The models of collections are loaded at the first search or addition. Thread-safe.
class CollectionService final : public protocol::CollectionHolder {
 public:
  /// Errors: kInvalidArgument without a home folder.
  static Result<std::unique_ptr<CollectionService>> create(const Settings& settings);
  ~CollectionService() override;

  /// The same collections for the orchestrator; they may outlive this.
  std::shared_ptr<orchestrator::PassageSource> passages() const;

  Result<std::vector<protocol::CollectionSummary>> list(const std::string& owner) override;
  Result<protocol::CollectionSummary> info(const std::string& owner,
                                           const std::string& name) override;
  Result<std::vector<protocol::CollectionDocument>> documents(const std::string& owner,
                                                              const std::string& name) override;
  Status create(const std::string& owner, const std::string& name) override;
  Result<protocol::CollectionReport> add(const std::string& owner, const std::string& name,
                                         const protocol::AddDocumentsRequest& request,
                                         const std::function<bool()>& interrupted) override;
  Result<protocol::CollectionMatches> search(
      const std::string& owner, const std::string& name,
      const protocol::SearchCollectionRequest& request) override;
  Status remove(const std::string& owner, const std::string& name) override;
  Status remove_document(const std::string& owner, const std::string& name,
                         const std::string& document) override;

 private:
  class Lazy;
  explicit CollectionService(std::shared_ptr<Lazy> collections);
  std::shared_ptr<Lazy> collections_;
};

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_COLLECTION_SERVICE_H_
