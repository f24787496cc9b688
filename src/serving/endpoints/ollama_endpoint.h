// Chats, generations and models in the form of Ollama's API.
#ifndef CHIMERE_SERVING_ENDPOINTS_OLLAMA_ENDPOINT_H_
#define CHIMERE_SERVING_ENDPOINTS_OLLAMA_ENDPOINT_H_

#include <functional>
#include <optional>
#include <string>

#include "protocol/ollama_writer.h"
#include "serving/endpoints/generating_endpoint.h"
#include "serving/model_files.h"
#include "serving/work_queue.h"

namespace chimere::serving {

class OllamaEndpoint final : public GeneratingEndpoint {
 public:
  /// `files`: nullptr: the API changes no files.
  OllamaEndpoint(const EndpointContext& context, std::string version, ModelFiles* files);
  void add_routes(Router& router) override;
  void stop() override { changes_.stop(); }

 private:
  void talk(const CallPtr& call, bool as_chat);
  /// Continues the prompt without the template.
  void continue_raw(const CallPtr& call, const protocol::OllamaRequest& request,
                    const MakeWriter& make_writer);
  void list(const CallPtr& call, bool loaded);
  void show(const CallPtr& call);
  void pull(const CallPtr& call);
  void remove(const CallPtr& call);
  void copy(const CallPtr& call);
  /// Downloads the model; answers the call.
  void download(const CallPtr& call, const protocol::PullRequest& request);
  /// Runs a change of the files on a thread of its own, or refuses it.
  void change(const CallPtr& call, std::function<void()> work);
  /// Waits until the registry has a model of this name (`present`), or no longer one of this id.
  /// The error if it does not.
  std::optional<protocol::ApiError> wait_for_model(const std::string& name, bool present) const;
  std::optional<ModelStatus> find_any(const std::string& name) const;
  /// The same, but no model by the name of its adapter.
  std::optional<ModelDescription> find_own(const std::string& name) const;
  static protocol::OllamaModel describe(const ModelStatus& model);

  const std::string version_;
  ModelFiles* const files_;
  WorkQueue changes_;  ///< of files, which take long
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_ENDPOINTS_OLLAMA_ENDPOINT_H_
