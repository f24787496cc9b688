// The server's orchestrator in a build without one: there is none.
#include "odo_host.h"

namespace chimere::app {

Result<OdoHost> make_odo_host(const Settings& /*settings*/, const ServeLog& /*log*/) {
  return OdoHost{};
}

}  // namespace chimere::app
