// What the endpoints that generate text share, whatever their API: from a parsed request to a
// running GenerationJob.
#ifndef CHIMERE_SERVING_ENDPOINTS_GENERATING_ENDPOINT_H_
#define CHIMERE_SERVING_ENDPOINTS_GENERATING_ENDPOINT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/speculation/speculation.h"
#include "protocol/generation_writer.h"
#include "serving/endpoints/endpoint.h"
#include "serving/generation_job.h"
#include "serving/next_turn.h"

namespace chimere::serving {

class GeneratingEndpoint : public Endpoint {
 public:
  using Endpoint::Endpoint;

 protected:
  /// A conversation as the model sees it.
  struct Prepared {
    ChatInput input;  ///< without the lines that change in every request
    std::vector<std::string> volatile_lines = {};  ///< names of the rules that changed the prompt
    ChatPrompt prompt;
  };
  /// Makes the writer of the response, once its warnings are known.
  using MakeWriter = std::function<std::shared_ptr<protocol::GenerationWriter>(
      const std::vector<protocol::Warning>&)>;
  using OnEnd = decltype(GenerationSpec::on_end);

  /// Renders the conversation. What it returns is all that the tokens of the prompt depend on, so
  /// that count_tokens and a generation have the same number. Errors: `template_error`.
  std::optional<protocol::ApiError> prepare(const Call& call, protocol::ChatRequest& request,
                                            Prepared& out) const;
  /// Runs `work` now or, if it compiles a constraint, on threads of their own, so that requests
  /// without one do not wait for it.
  void run(const CallPtr& call, bool compiles, std::function<void()> work) const;
  /// Generates the next message of a conversation; answers the call.
  void chat(const CallPtr& call, protocol::ChatRequest request, const MakeWriter& make_writer,
            OnEnd on_end = {});

  /// chat() of a call that the orchestrator answers.
  void orchestrate(const CallPtr& call, protocol::ChatRequest request,
                   const MakeWriter& make_writer, OnEnd on_end);

  /// Adds the choices for one prompt to `spec`. `param`: the field of the prompt.
  std::optional<protocol::ApiError> add_choices(const protocol::GenerationFields& fields,
                                                const Call& call, const char* param,
                                                std::vector<int32_t> tokens,
                                                text::ReasoningSplitter::Start start,
                                                const std::string& echo, GenerationSpec& spec,
                                                std::vector<protocol::Warning>& warnings) const;
  /// Restricts the generations. `param`: the field that asks for it.
  std::optional<protocol::ApiError> constrain(
      const Call& call, const Result<std::optional<constraints::ConstraintSpec>>& wanted,
      const std::string& param, GenerationSpec& spec) const;
  /// Starts the job. `writer`: as in chat().
  void generate(const CallPtr& call, const protocol::GenerationFields& fields, GenerationSpec spec,
                std::vector<protocol::Warning> warnings, const MakeWriter& make_writer);

  /// The field `model` of a reply: the model's id, or what the request says if that names one of
  /// its adapters.
  static std::string reply_name(const ServedModel& model, const protocol::GenerationFields& fields);

 private:
  /// chat() of a call that the model answers.
  void answer(const CallPtr& call, protocol::ChatRequest request, const MakeWriter& make_writer,
              OnEnd on_end);
  /// Adds what the response has to warn of.
  void warn(Call& call, const protocol::GenerationFields& fields) const;
  /// Makes the calls in the generations visible.
  void add_tools(const Call& call, const std::vector<text::Tool>& tools,
                 GenerationSpec& spec) const;
  /// The adapter that a model's name in a request says; empty: none.
  static std::string named_adapter(const ServedModel& model, std::string name);
  /// The adapters of the request: those of `lora`, the one that the model's name says, or the
  /// server's.
  static std::optional<protocol::ApiError> choose_adapters(const ServedModel& model,
                                                           const protocol::GenerationFields& fields,
                                                           engine::RequestAdapters& out);
  /// Schedules warm-ups of the prompt prefixes that the next turn can start with. Runs on a worker
  /// thread, because rendering takes time.
  void warmup_next_turn(const Call& call, NextTurn& turn, const std::optional<std::string>& scope,
                        const engine::RequestAdapters& adapters, engine::Speculation speculation,
                        const protocol::Choice& answer) const;
};

/// The scope of a request's states in the prefix cache, within that of the owner; absent: the
/// owner's.
std::optional<std::string> cache_scope(const std::string& owner, const std::string& key);

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_ENDPOINTS_GENERATING_ENDPOINT_H_
