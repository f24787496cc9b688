#include "serving/endpoints/admin_endpoint.h"

#include <string>
#include <utility>
#include <vector>

#include "protocol/admin.h"

namespace chimere::serving {
namespace {

using protocol::ApiError;

const char* const kAdminScope = "admin";

ApiError from_keys(const Error& error, const char* param) {
  switch (error.code) {
    case Error::Code::kInvalidArgument:
      return protocol::bad_field(error.message, param);
    case Error::Code::kNotFound:
      return {"not_found", error.message};
    default:
      return {"engine_error", error.message};
  }
}

}  // namespace

void AdminEndpoint::add_routes(Router& router) {
  router.add({"/v1/requests", "GET", kAdminScope, [this](const CallPtr& call) { requests(call); }});
  if (keys_ == nullptr) return;
  // On a worker: the file may be on a slow disk.
  const auto on_worker = [this](void (AdminEndpoint::*handle)(const CallPtr&) const) {
    return [this, handle](const CallPtr& call) {
      if (!context().workers.push([this, handle, call] { (this->*handle)(call); })) {
        respond(call, ApiError{"overloaded", "This server is overloaded.", "", 1});
      }
    };
  };
  const auto add = [&](const char* path, const char* method, auto handle) {
    Route route{path, method, kAdminScope, std::move(handle)};
    route.limited = false;
    router.add(std::move(route));
  };
  add("/v1/keys", "GET", on_worker(&AdminEndpoint::list));
  add("/v1/keys", "POST", [this](const CallPtr& call) { create(call); });
  add("/v1/keys/", "DELETE", [this](const CallPtr& call) { erase(call); });
}

void AdminEndpoint::requests(const CallPtr& call) const {
  respond(call, HttpResponse{200, protocol::running_requests(calls_.list())});
}

void AdminEndpoint::list(const CallPtr& call) const {
  const auto keys = keys_->list();
  if (!keys.ok()) return respond(call, from_keys(keys.error(), ""));
  const KeyUsage::Day today = usage_.today();
  std::vector<protocol::KeyEntry> entries;
  for (const ApiKey& key : *keys) {
    const auto used = today.tokens.find(key.name);
    entries.push_back({key.name, key.scopes, key.parallel, key.per_minute, key.tokens_per_day,
                       used == today.tokens.end() ? 0 : used->second});
  }
  std::vector<std::string> names;
  for (const Scope& scope : scopes()) names.emplace_back(scope.name);
  respond(call, HttpResponse{200, protocol::key_list(entries, names)});
}

void AdminEndpoint::create(const CallPtr& call) const {
  protocol::CreateKeyRequest request;
  if (auto error = protocol::parse_create_key(call->request.body, context().limits, request)) {
    return respond(call, *error);
  }
  ApiKey entry;
  entry.name = request.name;
  if (!request.scopes.empty()) entry.scopes = std::move(request.scopes);
  entry.parallel = request.parallel;
  entry.per_minute = request.per_minute;
  entry.tokens_per_day = request.tokens_per_day;
  const auto key = keys_->add(std::move(entry));
  if (!key.ok()) return respond(call, from_keys(key.error(), "name"));
  respond(call, HttpResponse{200, protocol::key_created(request.name, *key)});
}

void AdminEndpoint::erase(const CallPtr& call) const {
  const std::string name = name_in_path(*call);
  if (call->key && call->key->name == name) {
    return respond(call, protocol::bad_field("A key cannot delete itself; use another key.", "name",
                                             "unsupported_value"));
  }
  const Status done = keys_->remove(name);
  if (!done.ok()) return respond(call, from_keys(done.error(), "name"));
  respond(call, HttpResponse{200, protocol::key_deleted(name)});
}

}  // namespace chimere::serving
