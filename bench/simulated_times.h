// Models whose steps take the times of another machine: what drafts would gain there.
#ifndef CHIMERE_BENCH_SIMULATED_TIMES_H_
#define CHIMERE_BENCH_SIMULATED_TIMES_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>

#include "model/model.h"

namespace chimere {

/// Times of a machine, in milliseconds, as a JSON file has them.
struct StepTimes {
  std::map<int32_t, double> decode;  ///< step of decode rows; between them it is interpolated
  double prompt_row = 0;             ///< a row of a prompt
  std::map<int32_t, double> pass;    ///< pass of a block drafter, by its blocks
  double context = 0;                ///< the block drafter's context rows of a step
  double mtp = 0;                    ///< a draft of the MTP head
  double first = 0;                  ///< what the first two steps of a shape take in addition

  /// Throws what nlohmann::json does.
  static StepTimes read(const std::string& path) {
    std::ifstream file(path);
    const auto json = nlohmann::json::parse(file);
    StepTimes out;
    if (json.at("decode").empty() || json.at("pass").empty()) {
      throw std::invalid_argument("no times of steps or passes");
    }
    for (const auto& [rows, ms] : json.at("decode").items()) out.decode[std::stoi(rows)] = ms;
    for (const auto& [blocks, ms] : json.at("pass").items()) out.pass[std::stoi(blocks)] = ms;
    out.prompt_row = json.at("prompt_row");
    out.context = json.at("context");
    out.mtp = json.at("mtp");
    out.first = json.at("first");
    return out;
  }

  /// On the line through the neighbouring points; beyond the last one on that through the last two.
  static double at(const std::map<int32_t, double>& points, int32_t n) {
    if (points.size() < 2) return points.begin()->second;
    auto above = points.lower_bound(n);
    if (above == points.end()) --above;
    if (above == points.begin()) ++above;
    const auto below = std::prev(above);
    const double share = double(n - below->first) / (above->first - below->first);
    return below->second + share * (above->second - below->second);
  }
};

/// Time that passes only in steps.
class SimulatedClock {
 public:
  using Clock = std::chrono::steady_clock;

  Clock::time_point now() const { return now_; }
  double seconds() const {
    return std::chrono::duration<double>(now_ - Clock::time_point()).count();
  }
  void add(double milliseconds) {
    now_ += std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double, std::milli>(milliseconds));
  }

 private:
  Clock::time_point now_ = Clock::time_point() + std::chrono::seconds(1);
};

/// Another model, whose steps take the times of a file.
class SimulatedModel final : public model::Model {
 public:
  SimulatedModel(model::Model& model, const StepTimes& times, SimulatedClock& clock)
      : model_(model), times_(times), clock_(clock) {}

  const std::string& architecture() const override { return model_.architecture(); }
  int64_t n_vocab() const override { return model_.n_vocab(); }
  int64_t n_embd() const override { return model_.n_embd(); }
  int32_t n_layers() const override { return model_.n_layers(); }
  int64_t n_outputs() const override { return model_.n_outputs(); }
  int64_t context_length() const override { return model_.context_length(); }
  int64_t max_step_rows() const override { return model_.max_step_rows(); }
  const model::BlockDraft* block_draft() const override { return model_.block_draft(); }
  int64_t active_weight_bytes() const override { return model_.active_weight_bytes(); }
  Memory& memory() override { return model_.memory(); }
  state::StateStore& states() override { return model_.states(); }
  Status finish_context() override { return model_.finish_context(); }
  int64_t first_steps() const override { return first_steps_; }
  Status read_logits(int64_t row, std::span<float> out) override {
    return model_.read_logits(row, out);
  }
  Status read_taps(int64_t first_row, std::span<float> out) override {
    return model_.read_taps(first_row, out);
  }
  bool has_drafts() const override { return model_.has_drafts(); }

  Result<model::StepResult> forward(const model::StepPlan& plan) override {
    int32_t rows = 0;
    int32_t prompt_rows = 0;
    int32_t blocks = 0;
    bool context = false;
    bool folds = false;
    for (const model::SequenceRows& s : plan.sequences) {
      const auto n = static_cast<int32_t>(s.tokens.size());
      const bool prompt = s.row_class == model::RowClass::kPrefill;
      (prompt ? prompt_rows : rows) += n;
      blocks += s.block > 0;
      context |= !s.tapped.empty();
      folds |= s.state->pending_rows() > 0;
    }
    if (context) {
      clock_.add(times_.context);
    } else if (blocks > 0) {
      begin(blocks, false);
      clock_.add(StepTimes::at(times_.pass, blocks));
    } else {
      if (prompt_rows == 0) begin(rows, folds);
      clock_.add(prompt_rows * times_.prompt_row +
                 (rows > 0 ? StepTimes::at(times_.decode, rows) : 0));
    }
    return model_.forward(plan);
  }

  Status draft(std::span<const model::DraftStart> starts, int depth,
               const model::ChooseDraft& choose) override {
    size_t last = starts.size();  // of the pass before
    return model_.draft(starts, depth, [&](size_t i, std::span<const float> logits) {
      if (i <= last) clock_.add(times_.mtp);
      last = i;
      return choose(i, logits);
    });
  }

 private:
  /// A GPU allocates in the first step of a shape and captures the second.
  void begin(int32_t rows, bool folds) {
    if (++seen_[{rows, folds}] > 2) return;
    ++first_steps_;
    clock_.add(times_.first);
  }

  model::Model& model_;
  const StepTimes& times_;
  SimulatedClock& clock_;
  std::map<std::pair<int32_t, bool>, int> seen_;
  int64_t first_steps_ = 0;
};

}  // namespace chimere

#endif  // CHIMERE_BENCH_SIMULATED_TIMES_H_
