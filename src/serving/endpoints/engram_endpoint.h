// The clients' n-gram memories: list, write, search, predict, decay and delete.
#ifndef CHIMERE_SERVING_ENDPOINTS_ENGRAM_ENDPOINT_H_
#define CHIMERE_SERVING_ENDPOINTS_ENGRAM_ENDPOINT_H_

#include <string>

#include "serving/endpoints/endpoint.h"

namespace chimere::serving {

class EngramEndpoint final : public Endpoint {
 public:
  using Endpoint::Endpoint;
  void add_routes(Router& router) override;

 private:
  void list(const CallPtr& call);
  void info(const CallPtr& call);
  void erase(const CallPtr& call);
  /// POST /v1/engram/NAME, and with /search, /predict and /decay behind it.
  void post(const CallPtr& call);
  void write(const CallPtr& call, const std::string& table);
  void look_up(const CallPtr& call, const std::string& table, bool predict);
  void decay(const CallPtr& call, const std::string& table);
  void respond_info(const CallPtr& call, const std::string& table);
  /// False, after an answer, if the server has no memories.
  bool available(const CallPtr& call) const;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_ENDPOINTS_ENGRAM_ENDPOINT_H_
