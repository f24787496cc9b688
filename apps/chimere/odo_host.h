// The orchestrator of this process, made from the settings.
#ifndef CHIMERE_APPS_CHIMERE_ODO_HOST_H_
#define CHIMERE_APPS_CHIMERE_ODO_HOST_H_

#include <memory>

#include "base/result.h"
#include "base/settings.h"
#include "protocol/collections.h"
#include "protocol/orchestration.h"
#include "resident_models.h"

namespace chimere::app {

/// The orchestrator and the collections that it reads. Both are nullptr in a program that was built
/// without them.
struct OdoHost {
  std::unique_ptr<protocol::CollectionHolder> collections;
  std::unique_ptr<protocol::ChatOrchestrator> orchestrator;
};

/// Pipelines are files of the folder `pipelines` in the state folder, decisions are logged in
/// odo.db there; without a state folder, only the shipped pipelines exist and nothing is kept.
/// Errors: an invalid pipeline, a damaged database, no folder for collections.
Result<OdoHost> make_odo_host(const Settings& settings, const ServeLog& log);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_ODO_HOST_H_
