#include "serving/endpoints/embeddings_endpoint.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "protocol/responses.h"

namespace chimere::serving {

using protocol::ApiError;

EmbeddingsEndpoint::EmbeddingsEndpoint(const EndpointContext& context)
    : Endpoint(context), worker_(1, 256) {}

void EmbeddingsEndpoint::add_routes(Router& router) {
  router.add(
      {"/v1/embeddings", "POST", "inference", [this](const CallPtr& call) { embeddings(call); }});
}

void EmbeddingsEndpoint::embeddings(const CallPtr& call) {
  protocol::EmbeddingsRequest request;
  if (auto error = protocol::parse_embeddings(call->request.body, context().limits, request)) {
    return respond(call, *error);
  }
  if (request.model == model().id || (request.model.empty() && !model().embedder)) {
    return respond(call,
                   ApiError{"model_does_not_embed",
                            "The model '" + model().id +
                                "' generates text; it does not compute embeddings. Start "
                                "the server with --embedding-model to serve a model that does.",
                            "model"});
  }
  if (!model().embedder || (!request.model.empty() && request.model != model().embedder->id)) {
    return respond(call, unknown_model(request.model));
  }
  const engine::Embedder& embedder = model().embedder->embedder;
  if (request.dimensions > embedder.dimensions()) {
    return respond(
        call, protocol::bad_field("'dimensions' may be at most " +
                                      std::to_string(embedder.dimensions()) + " with this model.",
                                  "dimensions"));
  }
  std::vector<std::vector<int32_t>> texts;
  for (protocol::Prompt& input : request.inputs) {
    const auto* text = std::get_if<std::string>(&input);
    texts.push_back(text != nullptr ? embedder.encode(*text)
                                    : std::move(std::get<std::vector<int32_t>>(input)));
    const auto size = static_cast<int64_t>(texts.back().size());
    if (size > embedder.context()) {
      return respond(
          call,
          ApiError{"context_length_exceeded",
                   "This model's maximum context length is " + std::to_string(embedder.context()) +
                       " tokens, and an input has " + std::to_string(size) + "; split it.",
                   "input"});
    }
  }
  const bool accepted = worker_.push(
      [this, call, texts = std::move(texts), request] { embed(call, texts, request); });
  if (!accepted) {
    respond(call,
            ApiError{protocol::ErrorCode("overloaded", 429),
                     "Too many embedding requests are waiting. Try again in a moment.", "", 1});
  }
}

/// Runs on the embedding thread.
void EmbeddingsEndpoint::embed(const CallPtr& call, const std::vector<std::vector<int32_t>>& texts,
                               const protocol::EmbeddingsRequest& request) {
  engine::Embedder& embedder = model().embedder->embedder;
  std::vector<std::vector<float>> vectors;
  int64_t tokens = 0;
  const std::span<const std::vector<int32_t>> all = texts;
  for (size_t at = 0; at < all.size(); at += engine::Embedder::kMaxTexts) {
    if (context().draining || call->stream->abandoned()) {
      return respond(call, ApiError{"stopping", "This server is stopping.", "", 5});
    }
    const auto some =
        all.subspan(at, std::min<size_t>(all.size() - at, engine::Embedder::kMaxTexts));
    auto made = embedder.embed(some);
    if (!made.ok()) {
      ApiError error = protocol::from_engine(made.error());
      if (error.status() == 400) error.param = "input";
      return respond(call, error);
    }
    for (const auto& text : some) tokens += static_cast<int64_t>(text.size());
    for (std::vector<float>& vector : *made) {
      if (request.dimensions > 0) engine::shorten(vector, request.dimensions);
      vectors.push_back(std::move(vector));
    }
  }
  context().metrics.count_embeddings(tokens);
  respond(call, HttpResponse{200, protocol::embeddings_response(model().embedder->id, vectors,
                                                                request.base64, tokens)});
}

}  // namespace chimere::serving
