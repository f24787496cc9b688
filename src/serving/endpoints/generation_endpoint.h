// Chat completions and text completions in the form of the OpenAI API.
#ifndef CHIMERE_SERVING_ENDPOINTS_GENERATION_ENDPOINT_H_
#define CHIMERE_SERVING_ENDPOINTS_GENERATION_ENDPOINT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "serving/endpoints/endpoint.h"
#include "serving/generation_job.h"
#include "serving/next_turn.h"

namespace chimere::serving {

class GenerationEndpoint final : public Endpoint {
 public:
  using Endpoint::Endpoint;
  void add_routes(Router& router) override;

 private:
  void chat(const CallPtr& call);
  void completion(const CallPtr& call);
  /// Adds the choices for one prompt to `spec`.
  std::optional<protocol::ApiError> add_choices(const protocol::GenerationFields& fields,
                                                const Call& call, std::vector<int32_t> tokens,
                                                protocol::ReasoningSplitter::Start start,
                                                const std::string& echo,
                                                GenerationSpec& spec) const;
  std::optional<protocol::ApiError> constrain(
      const Result<std::optional<constraints::ConstraintSpec>>& wanted, const std::string& param,
      GenerationSpec& spec) const;
  void add_tools(const std::vector<protocol::Tool>& tools, GenerationSpec& spec) const;
  void warmup_next_turn(NextTurn& turn, const std::string& owner, const protocol::Choice& answer);
  void generate(const CallPtr& call, const protocol::GenerationFields& fields, GenerationSpec spec);
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_ENDPOINTS_GENERATION_ENDPOINT_H_
