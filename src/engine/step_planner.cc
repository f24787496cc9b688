#include "engine/step_planner.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>

#include "kernels/api.h"

namespace chimere::engine {
namespace {

struct RowCounts {
  int64_t decoding = 0;  ///< requests with decode rows
  int64_t prompt_rows = 0;
};

RowCounts count_rows(std::span<const PlannedRows> planned) {
  RowCounts counts;
  for (const PlannedRows& p : planned) {
    counts.decoding += p.decodes();
    counts.prompt_rows += p.prompt_rows;
  }
  return counts;
}

}  // namespace

void StepPlanner::plan_decode(std::span<const std::unique_ptr<Generation>> running,
                              std::vector<PlannedRows>& out) {
  out.clear();
  for (const auto& g : running) {
    if (g->may_decode()) out.push_back({g.get()});
  }
}

void StepPlanner::plan(std::span<const std::unique_ptr<Generation>> running,
                       std::vector<PlannedRows>& out) {
  plan_decode(running, out);
  const auto in_prefill = [](const auto& g) { return !g->prompt_done() && !g->held(); };
  if (std::ranges::none_of(running, in_prefill)) return;
  int64_t decode_rows = 0;
  for (const PlannedRows& p : out) decode_rows += p.generation->decode_size();
  const auto decoding = static_cast<int64_t>(out.size());
  add_chunks(running, budget_.prompt_rows(decoding, max_step_rows_ - decode_rows), out);
}

void StepPlanner::add_chunks(std::span<const std::unique_ptr<Generation>> running, int64_t rows,
                             std::vector<PlannedRows>& out) {
  std::map<std::string_view, std::vector<PlannedRows>> prefilling;  // by owner
  for (const auto& g : running) {
    if (!g->prompt_done() && !g->held()) prefilling[g->owner()].push_back({g.get(), 0, false});
  }
  std::vector<std::vector<PlannedRows>*> owners;
  for (auto& [owner, requests] : prefilling) owners.push_back(&requests);
  const auto rotate = [](auto& list, size_t by) {
    std::ranges::rotate(list, list.begin() + static_cast<std::ptrdiff_t>(by % list.size()));
  };
  for (std::vector<PlannedRows>* requests : owners) rotate(*requests, turn_ / owners.size());
  rotate(owners, turn_++);
  const auto add_chunk = [&](std::vector<PlannedRows>& requests) {
    for (PlannedRows& p : requests) {
      const int32_t chunk = p.generation->next_chunk(p.prompt_rows);
      if (chunk == 0 || chunk > rows) continue;
      p.prompt_rows += chunk;
      rows -= chunk;
      rotate(requests, 1);
      return true;
    }
    return false;
  };
  for (bool added = true; added;) {
    added = false;
    for (std::vector<PlannedRows>* requests : owners) added |= add_chunk(*requests);
  }
  for (const std::vector<PlannedRows>* requests : owners) {
    for (PlannedRows p : *requests) {
      if (p.prompt_rows == 0) continue;
      p.samples = p.generation->samples(p.prompt_rows);
      out.push_back(p);
    }
  }
}

int64_t StepPlanner::draft_rows(std::span<const std::unique_ptr<Generation>> running) const {
  const auto decoding =
      std::ranges::count_if(running, [](const auto& g) { return g->prompt_done(); });
  const bool prefilling = static_cast<size_t>(decoding) < running.size();
  return max_step_rows_ - decoding - (prefilling ? kernels::kMaxChunkRows : 0);
}

bool StepPlanner::too_slow(std::span<const PlannedRows> planned) const {
  const auto [decoding, prompt_rows] = count_rows(planned);
  return budget_.too_slow(decoding, prompt_rows);
}

void StepPlanner::record(std::span<const PlannedRows> planned, double seconds) {
  const auto [decoding, prompt_rows] = count_rows(planned);
  budget_.record(decoding, prompt_rows, seconds);
}

}  // namespace chimere::engine
