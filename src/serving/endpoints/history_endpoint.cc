#include "serving/endpoints/history_endpoint.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "protocol/history.h"

namespace chimere::serving {
namespace {

using protocol::ApiError;

/// The parts of a path below /v1/conversations/: ID[/ACTION[/MESSAGE[/OF_MESSAGE]]].
struct HistoryPath {
  std::string id, action, message, of_message;

  bool is_of_message(std::string_view what) const {
    return action == "messages" && of_message == what;
  }
};

std::optional<HistoryPath> history_path(const Call& call) {
  std::string_view rest(call.request.head.path);
  rest.remove_prefix(std::min(rest.size(), call.route.size()));
  HistoryPath out;
  for (std::string* part : {&out.id, &out.action, &out.message, &out.of_message}) {
    *part = rest.substr(0, rest.find('/'));
    rest.remove_prefix(std::min(rest.size(), part->size() + 1));
  }
  const bool valid = rest.empty() && protocol::is_history_id(out.id) &&
                     (out.message.empty() || protocol::is_history_id(out.message));
  return valid ? std::optional(std::move(out)) : std::nullopt;
}

const ApiError kNoConversation = {"conversation_not_found",
                                  "An id has 1 to 64 letters, digits, '-' and '_'."};
const ApiError kNoAction = {"not_found",
                            "There is nothing at this path; docs/serving.md lists the routes."};
const ApiError kNoGeneration = {"generation_not_found",
                                "No generation of this message runs or has just ended; the message "
                                "has what there is."};

/// The number of the last event that the client has: of the query, or of the header with which
/// browsers come back to a stream.
std::optional<int64_t> last_event(const HttpHead& head) {
  const std::string text =
      head.query_value("after").value_or(std::string(head.header("last-event-id")));
  int64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  const bool valid = error == std::errc() && end == text.data() + text.size() && out >= 0;
  return valid ? std::optional(out) : std::nullopt;
}

}  // namespace

void HistoryEndpoint::add_routes(Router& router) {
  // Reading and deleting take as long as the disk does, too long for the connections' thread.
  const auto on_worker = [this](void (HistoryEndpoint::*handle)(const CallPtr&) const) {
    return [this, handle](const CallPtr& call) {
      if (!context().workers.push([this, handle, call] { (this->*handle)(call); })) {
        respond(call, ApiError{"overloaded", "This server is overloaded.", "", 1});
      }
    };
  };
  const auto add = [&](const char* path, const char* method, auto handle) {
    Route route{path, method, "inference", std::move(handle)};
    route.limited = false;  // Studio stores a message while it is generated, once a second
    router.add(std::move(route));
  };
  add("/v1/conversations", "GET", on_worker(&HistoryEndpoint::list));
  add("/v1/conversations", "DELETE", [this](const CallPtr& call) { erase(call); });
  add("/v1/conversations/", "GET", on_worker(&HistoryEndpoint::show));
  add("/v1/conversations/", "POST", [this](const CallPtr& call) { post(call); });
  add("/v1/conversations/", "DELETE", [this](const CallPtr& call) { erase(call); });
}

void HistoryEndpoint::list(const CallPtr& call) const {
  const HttpHead& head = call->request.head;
  ConversationFilter filter;
  filter.search = head.query_value("search").value_or("").substr(0, 1000);
  filter.folder = head.query_value("folder");
  if (const auto limit = head.query_value("limit")) {
    std::from_chars(limit->data(), limit->data() + limit->size(), filter.limit);
    filter.limit = std::clamp<int64_t>(filter.limit, 1, 10'000);
  }
  const auto found = store_.list(call->owner(), filter);
  if (!found.ok()) return respond(call, from_history(found.error()));
  respond(call, HttpResponse{200, protocol::conversation_list(*found)});
}

void HistoryEndpoint::show(const CallPtr& call) const {
  const auto path = history_path(*call);
  if (!path) return respond(call, kNoConversation);
  if (path->is_of_message("events")) return attach(call, {call->owner(), path->id, path->message});
  if (!path->action.empty()) return respond(call, kNoAction);
  const auto info = store_.info(call->owner(), path->id);
  if (!info.ok()) return respond(call, from_history(info.error()));
  const auto messages = store_.messages(call->owner(), path->id);
  if (!messages.ok()) return respond(call, from_history(messages.error()));
  respond(call, HttpResponse{200, protocol::conversation(*info, *messages)});
}

void HistoryEndpoint::post(const CallPtr& call) const {
  const auto path = history_path(*call);
  if (!path) return respond(call, kNoConversation);
  if (path->is_of_message("stop")) {
    return stop_generation(call, {call->owner(), path->id, path->message});
  }
  const std::string& body = call->request.body;
  const std::string& owner = call->owner();
  Result<void> done;
  std::optional<ApiError> error;
  if (!path->message.empty()) {
    error = kNoAction;
  } else if (path->action.empty()) {
    ConversationChange change;
    error = protocol::parse_conversation(body, context().limits, change);
    if (!error) done = store_.put(owner, path->id, change);
  } else if (path->action == "messages") {
    protocol::StoreMessagesRequest request;
    error = protocol::parse_messages(body, context().limits, request);
    if (!error) done = store_.put_messages(owner, path->id, request.messages);
  } else if (path->action == "append") {
    protocol::AppendRequest part;
    error = protocol::parse_append(body, context().limits, part);
    if (!error) {
      done = store_.append(owner, path->id, part.message, part.content_at, part.content,
                           part.reasoning_at, part.reasoning);
    }
  } else {
    error = kNoAction;
  }
  if (!error && !done.ok()) error = from_history(done.error());
  if (error) return respond(call, *error);
  respond(call, HttpResponse{200, protocol::history_stored(path->id)});
}

void HistoryEndpoint::attach(const CallPtr& call, const DetachedAnswer::Place& place) const {
  const auto answer = context().detached->find(place);
  if (answer == nullptr) return respond(call, kNoGeneration);
  if (call->request.head.method == "HEAD") {
    return respond(call, HttpResponse{200, "", "text/event-stream"});
  }
  context().responder.finish(call, {});  // counted when it begins
  answer->attach(call->stream, context().responder.extra_headers(*call),
                 last_event(call->request.head));
}

void HistoryEndpoint::stop_generation(const CallPtr& call,
                                      const DetachedAnswer::Place& place) const {
  const auto answer = context().detached->find(place);
  if (answer == nullptr) return respond(call, kNoGeneration);
  answer->stop([this, call](const StoredMessage& message) {
    respond(call, HttpResponse{200, protocol::conversation_message(message)});
  });
}

void HistoryEndpoint::erase(const CallPtr& call) const {
  if (call->route == "/v1/conversations") {
    const auto done = store_.erase_all(call->owner());
    if (!done.ok()) return respond(call, from_history(done.error()));
    return respond(call, HttpResponse{200, protocol::conversation_deleted("")});
  }
  const auto path = history_path(*call);
  if (!path) return respond(call, kNoConversation);
  if (!path->of_message.empty() ||
      (!path->action.empty() && (path->action != "messages" || path->message.empty()))) {
    return respond(call, kNoAction);
  }
  const auto done = path->action.empty()
                        ? store_.erase(call->owner(), path->id)
                        : store_.erase_message(call->owner(), path->id, path->message);
  if (!done.ok()) return respond(call, from_history(done.error()));
  respond(call, HttpResponse{200, protocol::conversation_deleted(
                                      path->message.empty() ? path->id : path->message)});
}

}  // namespace chimere::serving
