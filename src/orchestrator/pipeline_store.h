// The pipelines by name: those that ship with the program, and those of a folder, read again when
// its files change.
#ifndef CHIMERE_ORCHESTRATOR_PIPELINE_STORE_H_
#define CHIMERE_ORCHESTRATOR_PIPELINE_STORE_H_

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "orchestrator/pipeline.h"

namespace chimere::orchestrator {

/// A pipeline that is part of the program.
struct ShippedPipeline {
  std::string_view name;
  std::string_view yaml;
};
std::span<const ShippedPipeline> shipped_pipelines();

/// Thread-safe. A request holds one immutable set of pipelines from its start to its end, so that
/// a change in between never mixes two versions.
class PipelineStore {
 public:
  using Set = std::map<std::string, std::shared_ptr<const Pipeline>, std::less<>>;
  /// Receives what changed: "loaded", "rejected" or "removed", the file, and why it was rejected.
  using Log =
      std::function<void(std::string_view what, const std::string& file, const std::string& why)>;

  /// `folder`: of files NAME.yaml, which replace shipped pipelines of the same name; empty, or one
  /// that does not exist: none. Errors: kInvalidData (a file is invalid; only here, at the start).
  static Result<std::unique_ptr<PipelineStore>> open(const std::string& folder, Log log);

  /// The pipelines now. Looks at the folder at most ten times a second. An invalid file keeps the
  /// version before it; if there is none, it is left out.
  std::shared_ptr<const Set> current();
  /// Looks at the folder now.
  void refresh();

 private:
  struct File {
    std::filesystem::file_time_type time;
    uintmax_t size = 0;
    std::shared_ptr<const Pipeline> pipeline;  ///< nullptr: it has never been valid
    bool operator==(const File& other) const { return time == other.time && size == other.size; }
  };
  PipelineStore(std::string folder, Log log);
  /// The first problem, for the start.
  Status scan();
  void publish();

  const std::string folder_;
  const Log log_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point looked_;
  Set shipped_;
  std::map<std::string, File> files_;
  std::shared_ptr<const Set> set_;
};

}  // namespace chimere::orchestrator

#endif  // CHIMERE_ORCHESTRATOR_PIPELINE_STORE_H_
