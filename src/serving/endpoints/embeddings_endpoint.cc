#include "serving/endpoints/embeddings_endpoint.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>

#include "protocol/ollama_writer.h"
#include "protocol/responses.h"

namespace chimere::serving {

using protocol::ApiError;

void EmbeddingsEndpoint::add_routes(Router& router) {
  router.add({"/v1/embeddings", "POST", "inference",
              [this](const CallPtr& call) { embeddings(call, Style::kOpenAi); },
              ModelKind::kEmbedding});
  router.add({"/v2/embed", "POST", "inference",
              [this](const CallPtr& call) { embeddings(call, Style::kCohere); },
              ModelKind::kEmbedding});
  router.add({"/api/embed", "POST", "inference",
              [this](const CallPtr& call) { embeddings(call, Style::kOllama); },
              ModelKind::kEmbedding, protocol::ApiForm::kOllama});
  router.add({"/api/embeddings", "POST", "inference",
              [this](const CallPtr& call) { embeddings(call, Style::kOllamaOne); },
              ModelKind::kEmbedding, protocol::ApiForm::kOllama});
}

void EmbeddingsEndpoint::embeddings(const CallPtr& call, Style style) {
  protocol::EmbeddingsRequest request;
  const std::string& body = call->request.body;
  auto error = style == Style::kOpenAi ? protocol::parse_embeddings(body, context().limits, request)
               : style == Style::kCohere
                   ? protocol::parse_cohere_embed(body, context().limits, request)
                   : protocol::parse_ollama_embed(body, context().limits,
                                                  style == Style::kOllamaOne, request);
  if (!error) error = check_model(*call, request.model);
  if (error) return respond(call, *error);
  note(*call, request.notes);
  if (request.keep_alive) {
    registry().keep_alive(call->embedder->id, std::chrono::seconds(*request.keep_alive));
  }
  engine::EmbeddingService& service = call->embedder->service;
  const engine::Embedder& embedder = service.embedder();
  if (request.dimensions > embedder.dimensions()) {
    return respond(
        call, protocol::bad_field("'dimensions' may be at most " +
                                      std::to_string(embedder.dimensions()) + " with this model.",
                                  "dimensions"));
  }
  std::vector<engine::EmbeddingInput> texts;
  int64_t tokens = 0;
  for (const protocol::Prompt& input : request.inputs) {
    const auto* text = std::get_if<std::string>(&input);
    texts.push_back(
        {text != nullptr ? embedder.encode(*text) : std::get<std::vector<int32_t>>(input), 0});
    const auto size = static_cast<int64_t>(texts.back().tokens.size());
    tokens += size;
    if (size > embedder.context()) {
      return respond(
          call,
          ApiError{"context_length_exceeded",
                   "This model's maximum context length is " + std::to_string(embedder.context()) +
                       " tokens, and an input has " + std::to_string(size) + "; split it.",
                   "input"});
    }
    const Status readable = embedder.check(texts.back());
    if (!readable.ok()) {
      ApiError unreadable = protocol::from_engine(readable.error());
      unreadable.param = "input";
      return respond(call, unreadable);
    }
  }
  const bool accepted = service.submit(
      {std::move(texts),
       [this, call, request, style, tokens](Result<std::vector<std::vector<float>>> made) {
         send(call, request, style, tokens, std::move(made));
       },
       [this, call] { return context().draining || call->stream->abandoned(); }});
  if (!accepted) {
    respond(call,
            ApiError{protocol::ErrorCode("overloaded", 429),
                     "Too many embedding requests are waiting. Try again in a moment.", "", 1});
  }
}

void EmbeddingsEndpoint::send(const CallPtr& call, const protocol::EmbeddingsRequest& request,
                              Style style, int64_t tokens,
                              Result<std::vector<std::vector<float>>> made) const {
  if (!made.ok()) {
    const bool stopping = made.error().code == Error::Code::kCancelled;
    return respond(call, stopping ? ApiError{"stopping", "This server is stopping.", "", 5}
                                  : protocol::from_engine(made.error()));
  }
  for (std::vector<float>& vector : *made) {
    if (request.dimensions > 0) engine::shorten(vector, request.dimensions);
  }
  context().metrics.count_embeddings(tokens);
  const std::string& id = call->embedder->id;
  if (style == Style::kCohere) {
    return respond(call, HttpResponse{200, protocol::cohere_embed_response(
                                               make_id("embed-"), request, *made, tokens)});
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - call->began;
  respond(call,
          HttpResponse{200, style == Style::kOpenAi
                                ? protocol::embeddings_response(id, *made, request.base64, tokens)
                                : protocol::ollama_embeddings(id, *made, tokens, seconds.count(),
                                                              style == Style::kOllamaOne)});
}

}  // namespace chimere::serving
