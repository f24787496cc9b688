#include "orchestrator/orchestrator.h"

#include <utility>

#include "orchestrator/answer_run.h"

namespace chimere::orchestrator {
namespace {

constexpr std::string_view kName = "odo";

/// "default" for "odo", NAME for "odo:NAME", nothing for other names.
std::optional<std::string_view> pipeline_in(std::string_view model) {
  if (model == kName) return "default";
  if (model.size() > kName.size() + 1 && model.starts_with(kName) && model[kName.size()] == ':') {
    return model.substr(kName.size() + 1);
  }
  return std::nullopt;
}

}  // namespace

Result<std::unique_ptr<Orchestrator>> Orchestrator::create(OrchestratorOptions options) {
  std::unique_ptr<Orchestrator> out(new Orchestrator(std::move(options)));
  const OrchestratorOptions& o = out->options_;
  CHIMERE_TRY(out->pipelines_, PipelineStore::open(o.pipelines, o.log));
  CHIMERE_TRY(out->specs_, read_intents(o.intents));
  CHIMERE_TRY(out->decisions_, DecisionLog::open(o.database));
  for (auto& tool : built_in_tools()) (void)out->tools_.add(std::move(tool));
  for (const auto& tool : o.tools) {
    if (!out->tools_.add(tool)) {
      return invalid_argument("There are two tools named '" + tool->definition().name + "'.");
    }
  }
  return out;
}

const IntentCascade& Orchestrator::intents() {
  std::call_once(intents_made_, [this] { intents_.emplace(std::move(specs_), options_.embed); });
  return *intents_;
}

std::vector<std::string> Orchestrator::names() const {
  std::vector<std::string> out = {std::string(kName)};
  for (const auto& [name, pipeline] : *pipelines_->current()) {
    if (name != "default") out.push_back(std::string(kName) + ":" + name);
  }
  return out;
}

std::optional<std::string> Orchestrator::model_of(std::string_view name) const {
  const auto pipeline = pipeline_in(name);
  if (!pipeline) return std::nullopt;
  const auto set = pipelines_->current();
  const auto found = set->find(*pipeline);
  return found == set->end() ? "" : found->second->model;
}

std::optional<protocol::ApiError> Orchestrator::answer(const protocol::ChatRequest& request,
                                                       const std::string& owner,
                                                       protocol::ModelClient& model,
                                                       protocol::AnswerSink& sink,
                                                       protocol::OrchestratedAnswer& out) {
  const Surroundings around = {pipelines_->current(), *decisions_, intents(),
                               options_.passages.get(), tools_};
  const auto name = pipeline_in(request.model);
  const auto found = name ? around.pipelines->find(*name) : around.pipelines->end();
  if (found == around.pipelines->end()) {
    std::string list;
    for (const auto& [known, pipeline] : *around.pipelines)
      list += (list.empty() ? "" : ", ") + known;
    return protocol::ApiError{
        "model_not_found",
        "There is no pipeline of the name in '" + request.model + "'; there are " + list + ".",
        "model"};
  }
  AnswerRun run(around, request, owner, model, sink);
  auto error = run.run(found->second);
  out.usage = run.report().usage();
  out.metadata = run.report().json().dump(-1, ' ', false, Json::error_handler_t::replace);
  if (!error) decisions_->record(run.decision());
  return error;
}

}  // namespace chimere::orchestrator
