// Decisions of the orchestrator and the scores of the answers, in SQLite: why a request got what it
// got, and what the router learns from.
#ifndef CHIMERE_ORCHESTRATOR_DECISION_LOG_H_
#define CHIMERE_ORCHESTRATOR_DECISION_LOG_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "database/database.h"
#include "orchestrator/router.h"

namespace chimere::orchestrator {

struct Decision {
  int64_t time_ms = 0;  ///< since 1970
  std::string owner;
  std::string pipeline;
  std::string intent;
  std::string stage;
  double confidence = 0;
  Mode mode = Mode::kFast;
  double complexity = 0;
  std::optional<double> entropy;
  Features features;
  std::string reasons;          ///< JSON list
  std::string metadata;         ///< the response's, JSON
  std::optional<double> score;  ///< of the quality gate, 0 to 1
  double seconds = 0;
};

/// Thread-safe. Writes on a thread of its own; readers see what was recorded after flush().
class DecisionLog {
 public:
  /// Errors: those of Database::open().
  static Result<std::unique_ptr<DecisionLog>> open(const std::string& path);
  ~DecisionLog();  ///< writes what waits
  DecisionLog(const DecisionLog&) = delete;
  DecisionLog& operator=(const DecisionLog&) = delete;

  /// Returns at once. Under a load that the disk does not follow, the oldest decisions are lost.
  void record(Decision decision);
  /// Waits until everything is written. Errors: that of the last write that failed.
  Status flush();

  QualityHistory history(const std::string& intent) const;
  /// Those that ship, or learned ones once there are enough scored answers.
  RouterWeights weights() const;
  /// The newest decisions first.
  Result<std::vector<Decision>> recent(int64_t most);

 private:
  explicit DecisionLog(database::Database database) : database_(std::move(database)) {}
  Status load();
  void run();
  Status write(const Decision& decision);
  void learn();
  void remember(const Decision& decision);

  database::Database database_;  ///< under writing_
  std::mutex writing_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable idle_;
  std::deque<Decision> waiting_;
  bool busy_ = false;
  bool stopping_ = false;
  Status failure_;
  std::map<std::string, QualityHistory> history_;
  std::deque<RouterOutcome> outcomes_;  ///< the newest, of fast answers
  RouterWeights weights_;
  std::thread thread_;
};

}  // namespace chimere::orchestrator

#endif  // CHIMERE_ORCHESTRATOR_DECISION_LOG_H_
