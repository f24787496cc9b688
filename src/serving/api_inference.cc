// The routes that use the model.
#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "protocol/responses.h"
#include "serving/api.h"
#include "text/tokenizer.h"

namespace chimere::serving {
namespace {

using protocol::ApiError;

/// Seed increment between the choices of a prompt, so that their random numbers differ.
constexpr uint64_t kSeedStep = 0x9e3779b97f4a7c15ULL;

ApiError too_long(int64_t tokens, int64_t context, const char* param) {
  return {400,
          "This model's maximum context length is " + std::to_string(context) +
              " tokens, and the prompt has " + std::to_string(tokens) +
              "; shorten it so that at least one token is left for the generation.",
          param, "context_length_exceeded", 0};
}

/// A warning if the requested token limit exceeds what the prompt leaves of the context.
std::optional<protocol::Warning> clamped(const std::pair<std::string, int64_t>& asked,
                                         int64_t prompt, int64_t context) {
  if (asked.first.empty() || asked.second <= context - prompt) return std::nullopt;
  return protocol::Warning{asked.first, "'" + asked.first + "' is " + std::to_string(asked.second) +
                                            ", but a prompt of " + std::to_string(prompt) +
                                            " tokens leaves " + std::to_string(context - prompt) +
                                            " of the context's " + std::to_string(context) +
                                            "; the generation ends there at the latest."};
}

std::string lossy(const std::string& bytes) {
  text::StreamDecoder decoder;
  std::string out = decoder.push(bytes);
  return out + decoder.finish();
}

}  // namespace

std::optional<ApiError> Api::add_choices(const protocol::GenerationFields& fields, const Call& call,
                                         std::vector<int32_t> tokens,
                                         protocol::ReasoningSplitter::Start start,
                                         const std::string& echo, GenerationSpec& spec) const {
  const int64_t context = model_.service.context();
  const char* param = spec.chat ? "messages" : "prompt";
  const auto size = static_cast<int64_t>(tokens.size());
  if (size >= context) return too_long(size, context, param);
  if (tokens.empty()) return protocol::bad_field("The prompt has no tokens.", param);
  for (const int32_t token : tokens) {
    if (token >= model_.tokenizer.n_tokens()) {
      return protocol::bad_field("The prompt contains token " + std::to_string(token) +
                                     ", but this model has only " +
                                     std::to_string(model_.tokenizer.n_tokens()) + " tokens.",
                                 param);
    }
  }
  if (auto warning = clamped(fields.max_tokens, size, context); warning && spec.warnings.empty()) {
    spec.warnings.push_back(*std::move(warning));
  }
  auto made = model_.make_request(fields.settings, owner_of(call), fields.engram);
  if (!made.ok()) return protocol::from_engram(made.error());
  engine::Request& request = *made;
  request.stop = fields.stop;
  request.sampling.logprobs = static_cast<int32_t>(fields.logprobs);
  for (const auto& [id, bias] : fields.logit_bias) {
    if (id >= model_.tokenizer.n_tokens()) {
      return protocol::bad_field(
          "'logit_bias' contains token " + std::to_string(id) + ", which this model does not have.",
          "logit_bias");
    }
    request.sampling.logit_bias.push_back({id, bias});
  }
  request.prompt = std::move(tokens);
  for (int64_t i = 0; i < fields.n; ++i) {
    if (i > 0 && request.sampling.auxiliary != nullptr) {
      // An auxiliary model object follows the text of a single choice.
      auto again = model_.make_request(fields.settings, owner_of(call), fields.engram);
      if (!again.ok()) return protocol::from_engram(again.error());
      request.sampling.auxiliary = std::move(again->sampling.auxiliary);
    }
    spec.choices.push_back({request, start, echo, i == 0});
    request.sampling.seed += kSeedStep;
  }
  return std::nullopt;
}

const std::string& Api::owner_of(const Call& call) {
  static const std::string kAnonymous;
  return call.key ? call.key->name : kAnonymous;
}

void Api::generate(const CallPtr& call, const protocol::GenerationFields& fields,
                   GenerationSpec spec) {
  spec.stream = fields.stream;
  spec.include_usage = fields.include_usage;
  spec.headers = extra_headers(call->request.head);
  for (const protocol::Warning& w : spec.warnings) {
    spec.headers.emplace_back("X-Chimere-Warning", w.message);
  }
  std::make_shared<GenerationJob>(
      model_, call->stream, std::move(spec),
      [this, call](const GenerationReport& report) { finish(call, report); })
      ->start();
}

/// Schedules warm-ups of the prompt prefixes that the next turn can start with. Runs on a worker
/// thread, because rendering takes time.
void Api::warmup_next_turn(NextTurn& turn, const std::string& owner,
                           const protocol::Choice& answer) {
  model_.service.warmup(owner, turn.prefixes(answer.content, answer.reasoning));
}

void Api::chat(const CallPtr& call) {
  protocol::ChatRequest request;
  auto error = protocol::parse_chat(call->request.body, model_.defaults, options_.limits, request);
  if (!error) error = check_model(request.model);
  if (error) return respond(call, *error);
  auto prompt = chat_prompt(model_, request.messages, request.settings.get(settings::kReasoning),
                            request.template_kwargs);
  if (!prompt.ok()) {
    return respond(call, ApiError{400, prompt.error().message, "messages", "template_error", 0});
  }
  GenerationSpec spec;
  error = add_choices(request, *call, std::move(prompt->tokens), prompt->start, "", spec);
  if (error) return respond(call, *error);
  if (model_.service.has_prefix_cache()) {
    for (GenerationSpec::Choice& choice : spec.choices) choice.request.warmup = false;
    const auto turn = std::make_shared<NextTurn>(model_, request.messages,
                                                 request.settings.get(settings::kReasoning),
                                                 request.template_kwargs);
    spec.on_choice = [this, turn, owner = owner_of(*call)](const protocol::Choice& answer) {
      (void)workers_.push([this, turn, owner, answer = std::make_shared<protocol::Choice>(answer)] {
        warmup_next_turn(*turn, owner, *answer);
      });
    };
  }
  generate(call, request, std::move(spec));
}

void Api::completion(const CallPtr& call) {
  protocol::CompletionRequest request;
  auto error =
      protocol::parse_completion(call->request.body, model_.defaults, options_.limits, request);
  if (!error) error = check_model(request.model);
  if (error) return respond(call, *error);
  GenerationSpec spec;
  spec.chat = false;
  for (protocol::Prompt& prompt : request.prompts) {
    const auto* text = std::get_if<std::string>(&prompt);
    const text::Tokenizer& tokenizer = model_.tokenizer;
    std::vector<int32_t> tokens = text != nullptr ? tokenizer.encode_with_bos(*text, true)
                                                  : std::get<std::vector<int32_t>>(prompt);
    std::string echo;
    if (request.echo) echo = text != nullptr ? *text : lossy(tokenizer.decode(tokens, true));
    error = add_choices(request, *call, std::move(tokens),
                        protocol::ReasoningSplitter::Start::kContent, echo, spec);
    if (error) return respond(call, *error);
  }
  generate(call, request, std::move(spec));
}

void Api::embeddings(const CallPtr& call) {
  protocol::EmbeddingsRequest request;
  if (auto error = protocol::parse_embeddings(call->request.body, options_.limits, request)) {
    return respond(call, *error);
  }
  if (request.model == model_.id || (request.model.empty() && !model_.embedder)) {
    return respond(call,
                   ApiError{400,
                            "The model '" + model_.id +
                                "' generates text; it does not compute embeddings. Start "
                                "the server with --embedding-model to serve a model that does.",
                            "model", "model_does_not_embed", 0});
  }
  if (!model_.embedder || (!request.model.empty() && request.model != model_.embedder->id)) {
    return respond(call, *unknown_model(request.model));
  }
  const engine::Embedder& embedder = model_.embedder->embedder;
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
          ApiError{400,
                   "This model's maximum context length is " + std::to_string(embedder.context()) +
                       " tokens, and an input has " + std::to_string(size) + "; split it.",
                   "input", "context_length_exceeded", 0});
    }
  }
  const bool accepted = embedding_worker_.push(
      [this, call, texts = std::move(texts), request] { embed(call, texts, request); });
  if (!accepted) {
    respond(call, ApiError{429, "Too many embedding requests are waiting. Try again in a moment.",
                           "", "overloaded", 1});
  }
}

/// Runs on the embedding thread.
void Api::embed(const CallPtr& call, const std::vector<std::vector<int32_t>>& texts,
                const protocol::EmbeddingsRequest& request) {
  engine::Embedder& embedder = model_.embedder->embedder;
  std::vector<std::vector<float>> vectors;
  int64_t tokens = 0;
  const std::span<const std::vector<int32_t>> all = texts;
  for (size_t at = 0; at < all.size(); at += engine::Embedder::kMaxTexts) {
    if (draining_ || call->stream->abandoned()) {
      return respond(call, ApiError{503, "This server is stopping.", "", "stopping", 5});
    }
    const auto some =
        all.subspan(at, std::min<size_t>(all.size() - at, engine::Embedder::kMaxTexts));
    auto made = embedder.embed(some);
    if (!made.ok()) {
      ApiError error = protocol::from_engine(made.error());
      if (error.status == 400) error.param = "input";
      return respond(call, error);
    }
    for (const auto& text : some) tokens += static_cast<int64_t>(text.size());
    for (std::vector<float>& vector : *made) {
      if (request.dimensions > 0) engine::shorten(vector, request.dimensions);
      vectors.push_back(std::move(vector));
    }
  }
  metrics_.count_embeddings(tokens);
  respond(call, HttpResponse{200, protocol::embeddings_response(model_.embedder->id, vectors,
                                                                request.base64, tokens)});
}

void Api::tokenize(const CallPtr& call) {
  protocol::TokenizeRequest request;
  auto error = protocol::parse_tokenize(call->request.body, options_.limits, request);
  if (!error) error = check_model(request.model);
  if (error) return respond(call, *error);
  std::vector<int32_t> tokens;
  if (request.content) {
    const text::Tokenizer& tokenizer = model_.tokenizer;
    tokens = request.add_special
                 ? tokenizer.encode_with_bos(*request.content, request.parse_special)
                 : tokenizer.encode(*request.content, request.parse_special);
  } else {
    auto prompt = chat_prompt(model_, request.messages, model_.defaults.get(settings::kReasoning),
                              request.template_kwargs);
    if (!prompt.ok()) {
      return respond(call, ApiError{400, prompt.error().message, "messages", "template_error", 0});
    }
    tokens = std::move(prompt->tokens);
  }
  std::vector<std::string> pieces;
  if (request.with_pieces) {
    for (const int32_t token : tokens) pieces.push_back(model_.tokenizer.token_bytes(token, true));
  }
  respond(call,
          HttpResponse{200, protocol::tokenize_response(tokens, pieces, model_.service.context())});
}

/// POST /v1/engram/NAME: adds texts with their quality scores to an engram table.
void Api::remember(const CallPtr& call) {
  protocol::EngramRequest request;
  auto error = protocol::parse_engram(call->request.body, options_.limits, request);
  if (!error) error = check_model(request.model);
  if (!error && !model_.remember) {
    error = {400, "This server has no folder for engram tables; start it with --state-folder.", "",
             "engram_unavailable", 0};
  }
  if (error) return respond(call, *error);
  const std::string table = call->request.head.path.substr(kEngram.size());
  const auto report = model_.remember(owner_of(*call), table, request);
  if (!report.ok()) return respond(call, protocol::from_engram(report.error()));
  respond(call, HttpResponse{200, protocol::engram_response(table, report->written, report->refused,
                                                            report->ngrams)});
}

void Api::detokenize(const CallPtr& call) {
  protocol::DetokenizeRequest request;
  auto error = protocol::parse_detokenize(call->request.body, request);
  if (!error) error = check_model(request.model);
  if (error) return respond(call, *error);
  for (const int32_t token : request.tokens) {
    if (token >= model_.tokenizer.n_tokens()) {
      return respond(call, protocol::bad_field(
                               "Token " + std::to_string(token) + " does not exist.", "tokens"));
    }
  }
  respond(call, HttpResponse{200, protocol::detokenize_response(
                                      model_.tokenizer.decode(request.tokens, true))});
}

}  // namespace chimere::serving
