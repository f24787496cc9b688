// Collections of documents: list, create, add documents, search, delete. docs/retrieval.md.
#ifndef CHIMERE_SERVING_ENDPOINTS_COLLECTIONS_ENDPOINT_H_
#define CHIMERE_SERVING_ENDPOINTS_COLLECTIONS_ENDPOINT_H_

#include "protocol/collections.h"
#include "serving/endpoints/endpoint.h"

namespace chimere::serving {

class CollectionsEndpoint final : public Endpoint {
 public:
  CollectionsEndpoint(const EndpointContext& context, protocol::CollectionHolder& holder)
      : Endpoint(context), holder_(holder) {}
  void add_routes(Router& router) override;

 private:
  /// Runs a handler on a thread that may wait: searches load models, and indexing takes long.
  using Handler = void (CollectionsEndpoint::*)(const CallPtr&) const;
  std::function<void(const CallPtr&)> waiting(Handler handle);

  void list(const CallPtr& call) const;
  void create(const CallPtr& call) const;
  void show(const CallPtr& call) const;
  /// POST /v1/collections/NAME/documents and /v1/collections/NAME/search.
  void post(const CallPtr& call) const;
  void add(const CallPtr& call, const std::string& name) const;
  void search(const CallPtr& call, const std::string& name) const;
  void erase(const CallPtr& call) const;

  protocol::CollectionHolder& holder_;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_ENDPOINTS_COLLECTIONS_ENDPOINT_H_
