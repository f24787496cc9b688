// ODO, the orchestrator: understands a request, decides how much effort it deserves, adds what is
// missing, searches for an answer, checks it, and says where it came from.
#ifndef CHIMERE_ORCHESTRATOR_ORCHESTRATOR_H_
#define CHIMERE_ORCHESTRATOR_ORCHESTRATOR_H_

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "orchestrator/decision_log.h"
#include "orchestrator/intent.h"
#include "orchestrator/passages.h"
#include "orchestrator/pipeline_store.h"
#include "orchestrator/tools/tool.h"
#include "protocol/orchestration.h"

namespace chimere::orchestrator {

struct OrchestratorOptions {
  std::string pipelines = {};         ///< folder of pipelines; may be empty
  std::string intents = {};           ///< folder of intents; may be empty
  std::string database = ":memory:";  ///< of decisions and scores
  Embed embed = {};                   ///< of the stage of examples of intents; empty: none
  std::shared_ptr<PassageSource> passages = nullptr;  ///< nullptr: there are no collections
  std::vector<std::shared_ptr<Tool>> tools = {};      ///< beside the built-in ones
  PipelineStore::Log log = [](std::string_view, const std::string&, const std::string&) {};
};

class Orchestrator final : public protocol::ChatOrchestrator {
 public:
  /// Errors: those of PipelineStore::open(), DecisionLog::open() and read_intents(); two tools of
  /// one name.
  static Result<std::unique_ptr<Orchestrator>> create(OrchestratorOptions options);

  std::vector<std::string> names() const override;
  std::optional<std::string> model_of(std::string_view name) const override;
  std::optional<protocol::ApiError> answer(const protocol::ChatRequest& request,
                                           const std::string& owner, protocol::ModelClient& model,
                                           protocol::AnswerSink& sink,
                                           protocol::OrchestratedAnswer& out) override;

  PipelineStore& pipelines() { return *pipelines_; }
  DecisionLog& decisions() { return *decisions_; }
  const ToolBox& tools() const { return tools_; }

 private:
  const IntentCascade& intents();
  explicit Orchestrator(OrchestratorOptions options) : options_(std::move(options)) {}

  const OrchestratorOptions options_;
  std::unique_ptr<PipelineStore> pipelines_;
  std::unique_ptr<DecisionLog> decisions_;
  std::vector<IntentSpec> specs_;
  std::once_flag intents_made_;  ///< at the first request
  std::optional<IntentCascade> intents_;
  ToolBox tools_;
};

}  // namespace chimere::orchestrator

#endif  // CHIMERE_ORCHESTRATOR_ORCHESTRATOR_H_
