#include "serving/endpoints/collections_endpoint.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace chimere::serving {
namespace {

using protocol::ApiError;

const char* const kWriteScope = "collections";

/// Changing collections needs a scope of its own; POST of a search does not.
std::optional<ApiError> refuse_writing(const Call& call) {
  if (!call.key || call.key->has_scope(kWriteScope)) return std::nullopt;
  return ApiError{"insufficient_scope",
                  "This key does not have the scope '" + std::string(kWriteScope) + "'."};
}

/// NAME and ACTION of a path below /v1/collections/: NAME[/ACTION].
struct CollectionPath {
  std::string name, action;
};

CollectionPath collection_path(const Call& call) {
  const std::string rest = name_in_path(call);
  const size_t slash = rest.find('/');
  if (slash == std::string::npos) return {rest, ""};
  return {rest.substr(0, slash), rest.substr(slash + 1)};
}

const ApiError kNoCollectionAction = {
    "not_found", "There is nothing at this path; docs/collections-api.md lists the routes."};

}  // namespace

std::function<void(const CallPtr&)> CollectionsEndpoint::waiting(Handler handle) {
  return [this, handle](const CallPtr& call) {
    WorkQueue& threads =
        context().orchestrations != nullptr ? *context().orchestrations : context().workers;
    if (!threads.push([this, handle, call] { (this->*handle)(call); })) {
      respond(call, ApiError{"overloaded", "This server is overloaded.", "", 1});
    }
  };
}

void CollectionsEndpoint::add_routes(Router& router) {
  router.add({"/v1/collections", "GET", "inference", waiting(&CollectionsEndpoint::list)});
  router.add({"/v1/collections", "POST", kWriteScope, waiting(&CollectionsEndpoint::create)});
  router.add({"/v1/collections/", "GET", "inference", waiting(&CollectionsEndpoint::show)});
  router.add({"/v1/collections/", "POST", "inference", waiting(&CollectionsEndpoint::post)});
  router.add({"/v1/collections/", "DELETE", kWriteScope, waiting(&CollectionsEndpoint::erase)});
}

void CollectionsEndpoint::list(const CallPtr& call) const {
  const auto found = holder_.list(call->owner());
  if (!found.ok()) return respond(call, protocol::from_collections(found.error()));
  respond(call, HttpResponse{200, protocol::collection_list(*found)});
}

void CollectionsEndpoint::create(const CallPtr& call) const {
  protocol::CreateCollectionRequest request;
  if (auto error =
          protocol::parse_create_collection(call->request.body, context().limits, request)) {
    return respond(call, *error);
  }
  const Status made = holder_.create(call->owner(), request.name);
  if (!made.ok()) return respond(call, protocol::from_collections(made.error()));
  const auto info = holder_.info(call->owner(), request.name);
  if (!info.ok()) return respond(call, protocol::from_collections(info.error()));
  respond(call, HttpResponse{200, protocol::collection_info(*info)});
}

void CollectionsEndpoint::show(const CallPtr& call) const {
  const CollectionPath path = collection_path(*call);
  if (!path.action.empty()) return respond(call, kNoCollectionAction);
  int64_t most = 1000;
  if (const auto limit = call->request.head.query_value("limit")) {
    std::from_chars(limit->data(), limit->data() + limit->size(), most);
    most = std::clamp<int64_t>(most, 0, 100'000);
  }
  const auto info = holder_.info(call->owner(), path.name);
  if (!info.ok()) return respond(call, protocol::from_collections(info.error()));
  const auto documents = holder_.documents(call->owner(), path.name);
  if (!documents.ok()) return respond(call, protocol::from_collections(documents.error()));
  respond(call, HttpResponse{200, protocol::collection_with_documents(*info, *documents, most)});
}

void CollectionsEndpoint::post(const CallPtr& call) const {
  const CollectionPath path = collection_path(*call);
  if (path.action == "search") return search(call, path.name);
  if (path.action == "documents") return add(call, path.name);
  respond(call, kNoCollectionAction);
}

void CollectionsEndpoint::add(const CallPtr& call, const std::string& name) const {
  protocol::AddDocumentsRequest request;
  auto error = refuse_writing(*call);
  if (!error) error = protocol::parse_add_documents(call->request.body, context().limits, request);
  if (error) return respond(call, *error);
  const auto report = holder_.add(call->owner(), name, request, [&] {
    return call->stream->abandoned() || context().draining.load();
  });
  if (!report.ok()) return respond(call, protocol::from_collections(report.error()));
  respond(call, HttpResponse{200, protocol::collection_report(name, *report)});
}

void CollectionsEndpoint::search(const CallPtr& call, const std::string& name) const {
  protocol::SearchCollectionRequest request;
  if (auto error =
          protocol::parse_search_collection(call->request.body, context().limits, request)) {
    return respond(call, *error);
  }
  const auto found = holder_.search(call->owner(), name, request);
  if (!found.ok()) return respond(call, protocol::from_collections(found.error()));
  respond(call, HttpResponse{200, protocol::collection_matches(name, *found)});
}

void CollectionsEndpoint::erase(const CallPtr& call) const {
  const CollectionPath path = collection_path(*call);
  std::string document;
  if (path.action == "documents") {
    document = call->request.head.query_value("name").value_or("");
    if (document.empty()) {
      return respond(call, protocol::bad_field("The query has no 'name' of a document.", "name",
                                               "missing_field"));
    }
  } else if (!path.action.empty()) {
    return respond(call, kNoCollectionAction);
  }
  const Status done = document.empty()
                          ? holder_.remove(call->owner(), path.name)
                          : holder_.remove_document(call->owner(), path.name, document);
  if (!done.ok()) return respond(call, protocol::from_collections(done.error()));
  respond(call, HttpResponse{200, protocol::collection_deleted(path.name, document)});
}

}  // namespace chimere::serving
