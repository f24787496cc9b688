// The table of the server's routes.
#ifndef CHIMERE_SERVING_ROUTER_H_
#define CHIMERE_SERVING_ROUTER_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "serving/call.h"

namespace chimere::serving {

struct Route {
  /// A path, or a prefix that ends in a slash and continues with a name ("/v1/models/").
  std::string path;
  std::string method;  ///< "GET" (and HEAD), "POST" or "DELETE"
  std::string scope;   ///< of the API key; empty: no key required
  /// Called on a worker thread for POST, on the connections' thread for GET; answers the call now
  /// or later.
  std::function<void(const CallPtr&)> handle;
  /// The kind of model that the body's "model" names, for POST: the handler is called when it is
  /// loaded, and finds it as Call::model or Call::embedder. kNone: the route uses no model.
  ModelKind model = ModelKind::kNone;
  protocol::ApiForm form = protocol::ApiForm::kOpenAi;  ///< of errors
  bool limited = true;  ///< counts among the requests of its key, unless it is GET without a model
};

class Router {
 public:
  void add(Route route);
  /// The route of the path for this method ("HEAD" is "GET"), or else for another one; nullptr:
  /// there is nothing at this path. Valid until the next add().
  const Route* find(std::string_view path, std::string_view method) const;
  /// The methods of the path, separated by commas.
  std::string methods(std::string_view path) const;
  const std::vector<Route>& routes() const { return routes_; }
  /// The path that a client means: without doubled and trailing slashes, and with or without "/v1",
  /// where only that leads to a route, of the scope "inference".
  std::string canonical(std::string_view path) const;

 private:
  std::vector<Route> routes_;
};

/// What follows the prefix of the call's route in its path: "a" of "/v1/models/a".
std::string name_in_path(const Call& call);

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_ROUTER_H_
