#include "runtime/text_model.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <limits>
#include <memory>
#include <utility>

#include "constraints/reasoning_before.h"
#include "runtime/adapters.h"
#include "runtime/file_defaults.h"
#include "runtime/load.h"
#include "runtime/prediction.h"
#include "runtime/prefix_cache_options.h"
#include "runtime/state_folder.h"

namespace chimere::runtime {
namespace {

/// What the engine's thread hands over to the thread that waits for a generation.
struct Mailbox : std::enable_shared_from_this<Mailbox> {
  struct Token {
    int32_t id;
    float logprob;
    std::string text;
  };

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Token> tokens;
  std::optional<engine::Outcome> outcome;

  /// Makes the request deliver here. The caller may be gone by then: its callback may throw.
  void connect(engine::Request& request) {
    request.on_token = [box = shared_from_this()](const engine::TokenEvent& event) {
      const std::scoped_lock lock(box->mutex);
      box->tokens.push_back({event.token.id, event.token.logprob, std::string(event.text)});
      box->changed.notify_one();
    };
    request.on_finish = [box = shared_from_this()](engine::Outcome o) {
      const std::scoped_lock lock(box->mutex);
      box->outcome = std::move(o);
      box->changed.notify_one();
    };
  }

  /// Passes each token to `use` on this thread until the generation ends.
  engine::Outcome wait(const std::function<void(const Token&)>& use) {
    while (true) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return !tokens.empty() || outcome; });
      if (tokens.empty()) return *std::move(outcome);
      const Token token = std::move(tokens.front());
      tokens.pop_front();
      lock.unlock();
      use(token);
    }
  }
};

/// The text of tokens that a request has generated before, as far as its characters are whole.
std::string text_of(const engine::Request& request, const text::Tokenizer& tokenizer,
                    std::span<const int32_t> generated) {
  text::StreamDecoder decoder;
  std::string out;
  for (const int32_t token : generated) {
    out += decoder.push(tokenizer.token_bytes(token, request.shows(token)));
  }
  return out;
}

}  // namespace

TextModel::TextModel(const Settings& settings, LoadedModel loaded)
    : settings_(settings), loaded_(std::move(loaded)) {}

Result<std::unique_ptr<TextModel>> TextModel::load(std::unique_ptr<gguf::Reader> file,
                                                   const Settings& settings, const Runtime& runtime,
                                                   const LoadObserver& observer) {
  // Few sequences fill their context: all share the capacity of this many full contexts.
  constexpr int64_t kContexts = 8;
  const int64_t running = settings.get(settings::kMaxRunning);
  CHIMERE_TRY(LoadedModel loaded,
              runtime::load(std::move(file), settings,
                            {.contexts = std::min(running, kContexts),
                             .sequences = running,
                             .default_context = std::numeric_limits<int64_t>::max(),
                             .checkpoints = settings.get(settings::kCacheStates),
                             .elastic = true,
                             .drafter = true},
                            runtime, observer));
  if (loaded.model->embeds()) {
    return unsupported("This is an embedding model, which generates no text.");
  }
  CHIMERE_CHECK_OK(load_adapters(settings, loaded));
  CHIMERE_TRY(const Settings own, with_file_defaults(settings, *loaded.file));
  std::unique_ptr<TextModel> out(new TextModel(own, std::move(loaded)));
  CHIMERE_CHECK_OK(out->start(observer));
  return out;
}

Status TextModel::start(const LoadObserver& observer) {
  engine::ServiceOptions options;
  options.engine = {
      .max_step_rows = loaded_.step_rows,
      .max_running = static_cast<int32_t>(settings_.get(settings::kMaxRunning)),
      .context = loaded_.context,
      .pool = loaded_.pool.get(),
      .draft_model = loaded_.draft_model(),
  };
  options.max_queue = static_cast<int32_t>(settings_.get(settings::kMaxQueue));
  options.cache = prefix_cache_options(settings_, *loaded_.file, [](const std::string&) {});
  prompt_template_ = load_prompt_template(*loaded_.file, *loaded_.tokenizer, settings_,
                                          [&](const std::string& text) { observer.warn(text); });
  // A model without a template can do much; a chosen one that is wrong is an error.
  if (!prompt_template_->ok() && !settings_.get(settings::kChatTemplate).empty()) {
    return prompt_template_->error();
  }
  requests_.emplace(*loaded_.tokenizer, reasoning_tags(*prompt_template_, *loaded_.tokenizer));
  constraints_.emplace(*loaded_.tokenizer, loaded_.model->n_vocab());
  CHIMERE_TRY(service_, engine::EngineService::create(*loaded_.model, *loaded_.tokenizer, options));
  return {};
}

Result<std::vector<int32_t>> TextModel::chat(std::span<const text::ChatMessage> messages,
                                             const Settings& settings) const {
  if (!prompt_template_->ok()) return prompt_template_->error();
  CHIMERE_CHECK_OK(reasoning_from(settings));
  CHIMERE_TRY(
      const text::RenderedChat chat,
      (*prompt_template_)->render(messages, {}, {.reasoning = settings.get(settings::kReasoning)}));
  return text::encode_chat(*loaded_.tokenizer, chat);
}

text::ReasoningSplitter::Start TextModel::reasoning_start(std::span<const int32_t> prompt) const {
  if (!prompt_template_->ok()) return text::ReasoningSplitter::Start::kContent;
  const text::ChatFormat& format = (*prompt_template_)->format();
  constexpr size_t kSpace = 16;  // tokens of white space
  const size_t most = format.reasoning.open.text.size() + kSpace;
  const std::vector<int32_t> tail(prompt.end() - std::min(prompt.size(), most), prompt.end());
  return format.start(loaded_.tokenizer->decode(tail, /*special=*/true));
}

Result<engine::Outcome> TextModel::generate(Sequence& sequence, const Settings& settings,
                                            const Generate& options, const OnToken& on_token) {
  CHIMERE_TRY(engine::Request request, requests_->make(settings));
  request.prompt = sequence.prompt;
  request.adapters = loaded_.adapters->defaults();
  request.stop = options.stop;
  request.reasoning = reasoning_start(sequence.prompt);
  if (options.constraint) {
    constraints::ConstraintSpec spec = *options.constraint;
    spec.reasoning = constraints::reasoning_before(request.reasoning_tags, request.reasoning,
                                                   settings.get(settings::kReasoning));
    CHIMERE_TRY(request.constraint, constraints_->compile(spec));
  }
  std::optional<text::ReasoningSplitter> splitter;
  if (options.split) {
    splitter.emplace(request.reasoning, request.reasoning_tags);
    splitter->skip(text_of(request, *loaded_.tokenizer, sequence.generated));
  }
  if (options.logprobs) request.sampling.logprobs = 0;
  // A generation with state of its own between tokens runs to its end in one call.
  request.keep_state = !request.thinking && request.sampling.mirostat != 2;
  if (!sequence.generated.empty()) {
    request.continuation = {.generated = sequence.generated, .state = sequence.state};
  }
  const auto mailbox = std::make_shared<Mailbox>();
  mailbox->connect(request);
  CHIMERE_TRY(const engine::RequestId id, service_->submit(std::move(request)));
  bool wanted = true;
  engine::Outcome outcome = mailbox->wait([&](const Mailbox::Token& token) {
    text::ReasoningSplitter::Piece split;
    if (splitter) split = splitter->push(token.text);
    if (!on_token ||
        on_token(
            {token.id, token.logprob, splitter ? split.content : token.text, split.reasoning}) ||
        !wanted) {
      return;
    }
    wanted = false;
    service_->cancel(id);
  });
  if (outcome.reason == engine::FinishReason::kError) return std::move(outcome.error);
  text::ReasoningSplitter::Piece tail = {.reasoning = {}, .content = outcome.text_tail};
  if (splitter) {
    tail = splitter->push(outcome.text_tail);
    const text::ReasoningSplitter::Piece last = splitter->finish();
    tail.reasoning += last.reasoning;
    tail.content += last.content;
  }
  if (on_token && !(tail.content.empty() && tail.reasoning.empty())) {
    (void)on_token({-1, 0, tail.content, tail.reasoning});
  }
  for (const sampling::Sampled& token : outcome.tokens) sequence.generated.push_back(token.id);
  // A request that was cancelled before its first token leaves the sequence as it was.
  if (!outcome.tokens.empty()) sequence.state = std::move(outcome.state);
  return outcome;
}

Status TextModel::score(std::span<const int32_t> tokens, std::vector<float>& out) const {
  const auto n = static_cast<int64_t>(tokens.size());
  out.assign(tokens.size(), 0);
  const LoadedModel* const model = &loaded_;
  return for_each_logits(
      {&model, 1}, tokens, n, 0, [&](int64_t position, std::span<const LogitsRow> rows) -> Status {
        if (position + 1 == n) return {};
        const auto next = static_cast<size_t>(position) + 1;
        CHIMERE_TRY(const double nats, negative_log_likelihood(rows[0], tokens[next]));
        out[next] = static_cast<float>(-nats);
        return {};
      });
}

Result<std::vector<float>> TextModel::log_probabilities(std::span<const int32_t> tokens) {
  if (tokens.empty()) return invalid_argument("There are no tokens; give at least one.");
  if (static_cast<int64_t>(tokens.size()) > context()) {
    return invalid_argument("There are " + std::to_string(tokens.size()) +
                            " tokens, but the context holds " + std::to_string(context()) + ".");
  }
  const int64_t vocabulary = loaded_.model->n_vocab();
  for (const int32_t token : tokens) {
    if (token < 0 || token >= vocabulary) {
      return invalid_argument("Token " + std::to_string(token) +
                              " does not exist; ids go from 0 to " +
                              std::to_string(vocabulary - 1) + ".");
    }
  }
  std::vector<float> out;
  CHIMERE_CHECK_OK(service_->use_model([&] { return score(tokens, out); }));
  return out;
}

Result<state::Hash128> TextModel::weights_hash() {
  std::shared_ptr<state::WeightsHash> weights;
  {
    const std::scoped_lock lock(mutex_);
    if (weights_ == nullptr) weights_ = hash_weights(settings_, *loaded_.file);
    weights = weights_;
  }
  CHIMERE_TRY(const state::Hash128 hash, weights->get());
  return with_adapters(hash, loaded_.adapters->defaults());
}

}  // namespace chimere::runtime
