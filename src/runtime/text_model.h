// A model that generates text: what a program needs to use one, from any number of threads.
#ifndef CHIMERE_RUNTIME_TEXT_MODEL_H_
#define CHIMERE_RUNTIME_TEXT_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/settings.h"
#include "constraints/constraint.h"
#include "engine/service.h"
#include "gguf/reader.h"
#include "runtime/constraint_factory.h"
#include "runtime/load_observer.h"
#include "runtime/loaded_model.h"
#include "runtime/request.h"
#include "runtime/runtime.h"
#include "runtime/sequence.h"
#include "state/weights_hash.h"

namespace chimere::runtime {

/// A loaded model with an engine of its own. All functions may be called from any thread;
/// concurrent generations are computed in a batch. A Sequence belongs to one call at a time.
class TextModel {
 public:
  /// What one generation asks for beyond the settings.
  struct Generate {
    std::vector<std::string> stop;  ///< stop strings; they act on the answer alone
    bool logprobs = false;          ///< compute sampling::Sampled::logprob
    /// What the answer follows. Without `reasoning`, which is that of the model's template.
    std::optional<constraints::ConstraintSpec> constraint = std::nullopt;
    bool split = false;  ///< divide the text into answer and reasoning
  };
  struct Piece {
    int32_t token = -1;
    float logprob = 0;
    std::string_view text;       ///< all of it, or with Generate::split the answer's
    std::string_view reasoning;  ///< with Generate::split
  };
  /// Returns false to end the generation: it may have sampled a few tokens more by then, which are
  /// reported too. A last call with token -1 carries text that was held back, if there is any.
  using OnToken = std::function<bool(const Piece& piece)>;

  /// `settings` are also the defaults of generations, after with_file_defaults(). Errors: those of
  /// load(), with_file_defaults() and EngineService::create(); kUnsupported (an embedding model).
  static Result<std::unique_ptr<TextModel>> load(std::unique_ptr<gguf::Reader> file,
                                                 const Settings& settings, const Runtime& runtime,
                                                 const LoadObserver& observer);

  const Settings& settings() const { return settings_; }
  const text::Tokenizer& tokenizer() const { return *loaded_.tokenizer; }
  const LoadedModel& loaded() const { return loaded_; }
  /// Most tokens of a sequence.
  int64_t context() const { return service_->context(); }

  /// Whether chat() can render conversations.
  bool has_chat_template() const { return prompt_template_->ok(); }
  /// The prompt of a conversation with the header of the assistant's turn. --reasoning of
  /// `settings` decides whether the template asks for reasoning. Errors: those of
  /// load_prompt_template() and PromptTemplate::render().
  Result<std::vector<int32_t>> chat(std::span<const text::ChatMessage> messages,
                                    const Settings& settings) const;

  /// Adds tokens to the sequence until the generation ends, and returns how it ended. `on_token` is
  /// called on the calling thread. A sequence that is continued gets the same tokens as if it had
  /// been generated at once. Errors: those of RequestFactory::make(),
  /// constraints::Constraint::compile() and Engine::check(), and of the generation; the sequence is
  /// unchanged then.
  Result<engine::Outcome> generate(Sequence& sequence, const Settings& settings,
                                   const Generate& options, const OnToken& on_token);

  /// Natural logarithm of the probability of each token after the ones before it; 0 for the first
  /// one. Other generations wait meanwhile. Errors: kInvalidArgument (no tokens, too many, or one
  /// that does not exist), those of Model::forward().
  Result<std::vector<float>> log_probabilities(std::span<const int32_t> tokens);

  /// The hash of the weights and adapters, for write_sequence(). The first call reads the whole
  /// file, unless the state folder has its hash. Errors: those of WeightsHash::get().
  Result<state::Hash128> weights_hash();

 private:
  TextModel(const Settings& settings, LoadedModel loaded);
  Status start(const LoadObserver& observer);
  /// How the answer to the prompt begins, for a model whose template has tags of reasoning.
  text::ReasoningSplitter::Start reasoning_start(std::span<const int32_t> prompt) const;
  Status score(std::span<const int32_t> tokens, std::vector<float>& out) const;

  Settings settings_;
  LoadedModel loaded_;
  std::optional<RequestFactory> requests_;
  std::optional<ConstraintFactory> constraints_;
  std::optional<Result<text::PromptTemplate>> prompt_template_;
  std::mutex mutex_;
  std::shared_ptr<state::WeightsHash> weights_;  ///< nullptr before its first use
  std::unique_ptr<engine::EngineService> service_;
};

}  // namespace chimere::runtime

#endif  // CHIMERE_RUNTIME_TEXT_MODEL_H_
