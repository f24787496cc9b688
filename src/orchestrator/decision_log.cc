#include "orchestrator/decision_log.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

namespace chimere::orchestrator {
namespace {

using Json = nlohmann::ordered_json;

constexpr database::Migration kDecisionSchema[] = {{R"(
CREATE TABLE decisions (
  id INTEGER PRIMARY KEY,
  time_ms INTEGER NOT NULL,
  owner TEXT NOT NULL,
  pipeline TEXT NOT NULL,
  intent TEXT NOT NULL,
  stage TEXT NOT NULL,
  confidence REAL NOT NULL,
  mode INTEGER NOT NULL,
  complexity REAL NOT NULL,
  entropy REAL,
  features TEXT NOT NULL,
  reasons TEXT NOT NULL,
  metadata TEXT NOT NULL,
  score REAL,
  seconds REAL NOT NULL
);
CREATE INDEX decisions_scored ON decisions (intent, mode) WHERE score IS NOT NULL;
)"}};

constexpr size_t kMostWaiting = 4096;
constexpr size_t kMostOutcomes = 2000;
constexpr size_t kLearnEvery = 32;

std::string features_text(const Features& features) {
  Json list = Json::array();
  for (const double value : features.values) list.push_back(value);
  return list.dump();
}

Features features_from(std::string_view text) {
  Features out;
  const Json list = Json::parse(text, nullptr, false);
  if (!list.is_array() || list.size() != Features::kCount) return out;
  for (size_t i = 0; i < Features::kCount; ++i) {
    if (list[i].is_number()) out.values.at(i) = list[i].get<double>();
  }
  return out;
}

Decision decision_of(const database::Statement& row) {
  Decision out;
  out.time_ms = row.integer(0);
  out.owner = row.text(1);
  out.pipeline = row.text(2);
  out.intent = row.text(3);
  out.stage = row.text(4);
  out.confidence = row.number(5);
  const int64_t mode = row.integer(6);
  out.mode = mode >= 0 && mode <= 3 ? static_cast<Mode>(mode) : Mode::kFast;
  out.complexity = row.number(7);
  if (!row.is_null(8)) out.entropy = row.number(8);
  out.features = features_from(row.text(9));
  out.reasons = row.text(10);
  out.metadata = row.text(11);
  if (!row.is_null(12)) out.score = row.number(12);
  out.seconds = row.number(13);
  return out;
}

constexpr const char* kSelect =
    "SELECT time_ms, owner, pipeline, intent, stage, confidence, mode, complexity, entropy, "
    "features, reasons, metadata, score, seconds FROM decisions ";

}  // namespace

Result<std::unique_ptr<DecisionLog>> DecisionLog::open(const std::string& path) {
  CHIMERE_TRY(auto database, database::Database::open(path, kDecisionSchema));
  std::unique_ptr<DecisionLog> log(new DecisionLog(std::move(database)));
  CHIMERE_CHECK_OK(log->load());
  log->thread_ = std::thread([raw = log.get()] { raw->run(); });
  return log;
}

DecisionLog::~DecisionLog() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Status DecisionLog::load() {
  CHIMERE_TRY(auto rows, database_.prepare(std::string(kSelect) +
                                           "WHERE score IS NOT NULL ORDER BY id DESC LIMIT 2000"));
  std::vector<Decision> newest;
  while (true) {
    CHIMERE_TRY(const bool row, rows.step());
    if (!row) break;
    newest.push_back(decision_of(rows));
  }
  for (auto it = newest.rbegin(); it != newest.rend(); ++it) remember(*it);
  learn();
  return {};
}

void DecisionLog::remember(const Decision& decision) {
  if (!decision.score) return;
  QualityHistory& history = history_[decision.intent];
  const auto mode = static_cast<size_t>(decision.mode);
  // A mean that forgets: models and pipelines change.
  const double n = static_cast<double>(std::min<int64_t>(++history.count.at(mode), 200));
  history.mean.at(mode) += (*decision.score - history.mean.at(mode)) / n;
  if (decision.mode != Mode::kFast) return;
  outcomes_.push_back({decision.features, decision.entropy, *decision.score < 0.5});
  if (outcomes_.size() > kMostOutcomes) outcomes_.pop_front();
}

void DecisionLog::learn() {
  weights_ = fit_weights({outcomes_.begin(), outcomes_.end()}, RouterWeights{});
}

void DecisionLog::record(Decision decision) {
  {
    const std::scoped_lock lock(mutex_);
    remember(decision);
    waiting_.push_back(std::move(decision));
    if (waiting_.size() > kMostWaiting) waiting_.pop_front();
  }
  changed_.notify_all();
}

void DecisionLog::run() {
  size_t scored = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const Decision next = std::move(waiting_.front());
    waiting_.pop_front();
    busy_ = true;
    lock.unlock();
    Status status = write(next);
    lock.lock();
    busy_ = false;
    failure_ = std::move(status);
    if (next.score && ++scored % kLearnEvery == 0) learn();
    if (waiting_.empty()) idle_.notify_all();
  }
}

Status DecisionLog::write(const Decision& d) {
  const std::scoped_lock lock(writing_);
  CHIMERE_TRY(auto insert,
              database_.prepare("INSERT INTO decisions (time_ms, owner, pipeline, intent, stage, "
                                "confidence, mode, complexity, entropy, features, reasons, "
                                "metadata, score, seconds) VALUES "
                                "(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, CASE WHEN ?9 THEN ?10 END, ?11, "
                                "?12, ?13, CASE WHEN ?14 THEN ?15 END, ?16)"));
  CHIMERE_CHECK_OK(insert.bind(d.time_ms, d.owner, d.pipeline, d.intent, d.stage, d.confidence,
                               static_cast<int64_t>(d.mode), d.complexity, d.entropy.has_value(),
                               d.entropy.value_or(0), features_text(d.features), d.reasons,
                               d.metadata, d.score.has_value(), d.score.value_or(0), d.seconds));
  return insert.run();
}

Status DecisionLog::flush() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return waiting_.empty() && !busy_; });
  return failure_;
}

QualityHistory DecisionLog::history(const std::string& intent) const {
  const std::scoped_lock lock(mutex_);
  const auto found = history_.find(intent);
  return found == history_.end() ? QualityHistory{} : found->second;
}

RouterWeights DecisionLog::weights() const {
  const std::scoped_lock lock(mutex_);
  return weights_;
}

Result<std::vector<Decision>> DecisionLog::recent(int64_t most) {
  CHIMERE_CHECK_OK(flush());
  const std::scoped_lock lock(writing_);
  CHIMERE_TRY(auto rows, database_.prepare(std::string(kSelect) + "ORDER BY id DESC LIMIT ?1"));
  CHIMERE_CHECK_OK(rows.bind(most));
  std::vector<Decision> out;
  while (true) {
    CHIMERE_TRY(const bool row, rows.step());
    if (!row) return out;
    out.push_back(decision_of(rows));
  }
}

}  // namespace chimere::orchestrator
