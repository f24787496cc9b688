#include "serving/endpoints/responses_endpoint.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

namespace chimere::serving {

using protocol::ApiError;

namespace {

/// The query of a list of items.
std::optional<ApiError> read_page(const HttpHead& head, protocol::ItemPage& out) {
  constexpr size_t kMost = 100;
  const std::string limit = head.query_value("limit").value_or("20");
  const auto [end, error] = std::from_chars(limit.data(), limit.data() + limit.size(), out.limit);
  if (error != std::errc() || end != limit.data() + limit.size() || out.limit < 1 ||
      out.limit > kMost) {
    return protocol::bad_field("'limit' must be a whole number from 1 to 100.", "limit");
  }
  const std::string order = head.query_value("order").value_or("desc");
  if (order != "asc" && order != "desc") {
    return protocol::bad_field("'order' must be asc or desc.", "order");
  }
  out.oldest_first = order == "asc";
  out.after = head.query_value("after").value_or("");
  return std::nullopt;
}

}  // namespace

void ResponsesEndpoint::add_routes(Router& router) {
  router.add({"/v1/responses", "POST", "inference", [this](const CallPtr& call) { create(call); },
              ModelKind::kText});
  router.add({"/v1/responses/input_tokens", "POST", "inference",
              [this](const CallPtr& call) { count(call); }, ModelKind::kText});
  for (const char* method : {"GET", "DELETE"}) {
    router.add({"/v1/responses/", method, "inference",
                [this](const CallPtr& call) { stored(call); }, ModelKind::kText});
  }
  // Also at the limit of the key's requests, which it helps to leave.
  router.add({"/v1/responses/", "POST", "inference", [this](const CallPtr& call) { cancel(call); },
              ModelKind::kNone, protocol::ApiForm::kOpenAi, false});
}

std::optional<ApiError> ResponsesEndpoint::complete(const Call& call,
                                                    protocol::ResponsesRequest& request,
                                                    std::vector<text::ChatMessage>& kept) {
  if (!request.previous.empty()) {
    if (!store_.enabled()) {
      return ApiError{"unsupported_value",
                      "This server stores no responses, so 'previous_response_id' continues "
                      "nothing; send the whole conversation, or start the server with "
                      "--response-store.",
                      "previous_response_id"};
    }
    const auto previous = store_.find(call.owner(), request.previous);
    if (previous == nullptr) {
      return ApiError{"previous_response_not_found",
                      "There is no stored response '" + request.previous.substr(0, 200) +
                          "' (any more); send the whole conversation.",
                      "previous_response_id"};
    }
    kept = previous->messages;
  }
  kept.insert(kept.end(), request.messages.begin(), request.messages.end());
  request.messages = kept;
  if (request.instructions.empty()) return std::nullopt;
  text::ChatMessage system;
  system.role = "system";
  system.content = request.instructions;
  request.messages.insert(request.messages.begin(), std::move(system));
  return std::nullopt;
}

void ResponsesEndpoint::create(const CallPtr& call) {
  const ServedModel& model = model_of(*call);
  protocol::ResponsesRequest request;
  auto error =
      protocol::parse_responses(call->request.body, model.defaults, context().limits, request);
  std::vector<text::ChatMessage> kept;
  if (!error) error = complete(*call, request, kept);
  if (error) return respond(call, *error);
  const bool stored = request.store && store_.enabled();
  const protocol::ResponseHead head{
      make_id("resp_"), unix_seconds(), reply_name(model, request), model.fingerprint, {}};
  add_running(*call, head);
  // The writer has what is stored; the job owns it longer than this function runs.
  const auto writer = std::make_shared<std::weak_ptr<protocol::GenerationWriter>>();
  OnEnd on_end = [this, id = head.id](const auto&...) { remove_running(id); };
  if (stored) {
    on_end = [this, call, writer, kept, input = request.input, id = head.id](
                 std::span<const protocol::Choice> choices, const protocol::Usage& usage,
                 const protocol::Timings& timings) {
      const auto writing = writer->lock();
      if (writing == nullptr) return remove_running(id);
      StoredResponse out{kept, input, writing->whole(choices, usage, timings)};
      const protocol::Choice& answer = choices.front();
      text::ChatMessage& message = out.messages.emplace_back();
      message.role = "assistant";
      message.content = answer.content;
      message.reasoning_content = answer.reasoning;
      for (const protocol::ToolCallPiece& piece : answer.tool_calls) {
        message.tool_calls.push_back({piece.id, piece.name, piece.arguments});
      }
      store_.put(call->owner(), id, std::move(out));
      remove_running(id);  // it is always one of both
    };
  }
  const std::string echo = request.echo;
  const bool carry = request.carry_reasoning;
  chat(
      call, std::move(request),
      [=](const std::vector<protocol::Warning>& warnings) {
        protocol::ResponseHead whole = head;
        whole.warnings = warnings;
        std::shared_ptr<protocol::GenerationWriter> made =
            protocol::responses_writer(std::move(whole), echo, stored, carry);
        *writer = made;
        return made;
      },
      std::move(on_end));
}

void ResponsesEndpoint::count(const CallPtr& call) {
  protocol::ResponsesRequest request;
  auto error = protocol::parse_responses(call->request.body, model_of(*call).defaults,
                                         context().limits, request);
  if (!error) error = check_model(*call, request.model);
  std::vector<text::ChatMessage> kept;
  if (!error) error = complete(*call, request, kept);
  Prepared prepared;
  if (!error) error = prepare(*call, request, prepared);
  if (error) return respond(call, *error);
  const auto tokens = static_cast<int64_t>(prepared.prompt.tokens.size());
  respond(call, HttpResponse{200, protocol::input_token_count_response(tokens)});
}

void ResponsesEndpoint::add_running(const Call& call, const protocol::ResponseHead& head) {
  const std::lock_guard lock(mutex_);
  // Amortised: the next sweep comes when there are twice as many responses.
  if (running_.size() >= sweep_at_) {
    std::erase_if(running_, [](const auto& entry) { return entry.second.stream.expired(); });
    sweep_at_ = std::max<size_t>(64, 2 * running_.size());
  }
  running_.insert_or_assign(head.id, Running{call.owner(), head, call.stream});
}

void ResponsesEndpoint::remove_running(const std::string& id) {
  const std::lock_guard lock(mutex_);
  running_.erase(id);
}

/// POST of a response's /cancel. One that has ended is returned as it is.
void ResponsesEndpoint::cancel(const CallPtr& call) {
  std::string id = name_in_path(*call);
  constexpr std::string_view kCancel = "/cancel";
  if (!id.ends_with(kCancel)) {
    return respond(call, ApiError{"not_found", "A response is changed by its /cancel only."});
  }
  id.resize(id.size() - kCancel.size());
  if (const auto ended = store_.find(call->owner(), id)) {
    return respond(call, HttpResponse{200, ended->body});
  }
  std::shared_ptr<ResponseStream> stream;
  protocol::ResponseHead head;
  {
    const std::lock_guard lock(mutex_);
    const auto found = running_.find(id);
    if (found != running_.end() && found->second.owner == call->owner()) {
      stream = found->second.stream.lock();
      head = found->second.head;
    }
  }
  if (stream == nullptr) {
    return respond(call, ApiError{"response_not_found",
                                  "No response '" + id.substr(0, 200) + "' is running."});
  }
  stream->cancel();
  respond(call, HttpResponse{200, protocol::cancelled_response(head)});
}

/// GET and DELETE of a stored response; GET of its input_items.
void ResponsesEndpoint::stored(const CallPtr& call) {
  std::string id = name_in_path(*call);
  constexpr std::string_view kItems = "/input_items";
  const bool items = id.ends_with(kItems);
  if (items) id.resize(id.size() - kItems.size());
  const bool erase = call->request.head.method == "DELETE";
  const auto found = items && erase ? nullptr : store_.find(call->owner(), id);
  if (found == nullptr) {
    return respond(call, ApiError{"response_not_found",
                                  "There is no stored response '" + id.substr(0, 200) +
                                      "' (any more); --response-store is the size of the store."});
  }
  if (erase) {
    store_.erase(call->owner(), id);
    return respond(call, HttpResponse{200, protocol::deleted_response(id)});
  }
  if (!items) return respond(call, HttpResponse{200, found->body});
  protocol::ItemPage page;
  if (auto error = read_page(call->request.head, page)) return respond(call, *error);
  respond(call, HttpResponse{200, protocol::input_items_response(found->input, page)});
}

}  // namespace chimere::serving
