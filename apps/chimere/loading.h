// Loads models for commands, and reports on standard error.
#ifndef CHIMERE_APPS_CHIMERE_LOADING_H_
#define CHIMERE_APPS_CHIMERE_LOADING_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/settings.h"
#include "gguf/reader.h"
#include "runtime/load.h"
#include "runtime/load_observer.h"
#include "runtime/loaded_embedder.h"
#include "runtime/loaded_model.h"
#include "runtime/model_path.h"
#include "runtime/prediction.h"
#include "runtime/runtime.h"
#include "transfer_progress.h"

namespace chimere::app {

/// The largest token id that a flag takes; vocabularies are smaller.
constexpr int32_t kMaxTokenId = std::numeric_limits<int32_t>::max();

/// Opens the model `name`; if it is empty, the one that `settings::kModel` names; if that is empty
/// too, the shipped one, with a notice on standard error unless --quiet is given.
Result<std::unique_ptr<gguf::Reader>> open_model(
    const Settings& settings, const std::string& name = "",
    runtime::ShippedModel shipped = runtime::ShippedModel::kText);
/// The same, with the notice to `observer`.
Result<std::unique_ptr<gguf::Reader>> open_model(const Settings& settings, const std::string& name,
                                                 runtime::ShippedModel shipped,
                                                 const runtime::LoadObserver& observer);

/// Notices and the progress of the upload on standard error unless --quiet is given, and warnings
/// always. Must outlive its observer.
class LoadMessages {
 public:
  explicit LoadMessages(const Settings& settings);
  const runtime::LoadObserver& observer() const { return observer_; }

 private:
  std::optional<TransferProgress> progress_;
  runtime::LoadObserver observer_;
};

/// runtime::load() with notices and the progress of the upload unless --quiet is given; warnings
/// are always shown. Errors: also those of open_model().
Result<runtime::LoadedModel> load(const Settings& settings, const runtime::MemoryRequest& request);
/// The same for an open file.
Result<runtime::LoadedModel> load(std::unique_ptr<gguf::Reader> file, const Settings& settings,
                                  const runtime::MemoryRequest& request);
/// The tokens of a file, or of standard input if the path is "-". Errors: those of read_file() and
/// runtime::tokens_of_text().
Result<runtime::TokenText> read_tokens(const runtime::LoadedModel& loaded, const std::string& path);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_LOADING_H_
