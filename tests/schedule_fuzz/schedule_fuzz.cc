// A request's logits do not depend on its batch. Random schedules (arrivals, splits, forks,
// cancellations, evictions, restores, chains of drafts of different lengths, verifications with
// rejected rows, hits in a prefix cache of three tiers that is closed and opened again) run on tiny
// models of every architecture, weight format and cache type, with one and two threads. Every
// requested row of logits must equal the request's solo run bit for bit. Some schedules are
// generations of the engine under constraints (constrained.h), or with every kind of drafter and
// with n-gram tables (drafting.h), on the same models.
//
//   schedule_fuzz [--schedules N] [--only I] [--device emulator|GPU]
//                 [--cuda-profile=NAME]
//
// On a device the two instances are two devices (the emulator's two orders of threads), or the same
// GPU twice.
//
// A failure prints the seed and the schedule's index, which replay it alone (except for the time at
// which the prefix cache's copies are ready).
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/fresh_seed.h"
#include "constrained.h"
#include "drafting.h"
#include "fleet.h"
#include "kernels/cuda/device/profile.h"
#include "kernels/cuda/emulator/device.h"
#include "requests.h"
#include "world.h"

namespace chimere::fuzz {
namespace {

// Number of schedules for one model and its solo runs. A short run
// uses five models.
constexpr int64_t kSchedulesPerModel = 40;
constexpr int kRequestPairs = 10;
/// From this number on, a run is a long one.
constexpr int64_t kLong = 2000;
/// One schedule in so many runs constrained generations as well, and another one generations with
/// drafters.
constexpr int64_t kGenerationsEach = 4;
/// Exit status that ctest takes for "skipped".
constexpr int kSkipped = 77;

struct Options {
  int64_t schedules = 200;
  uint32_t seed = fresh_seed();
  std::optional<int64_t> only;
  std::string device;
  kernels::cuda::Profile profile = kernels::cuda::Profile::kNative;
};

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    constexpr std::string_view kProfile = "--cuda-profile=";
    if (name.starts_with(kProfile)) {
      const auto profile = kernels::cuda::parse_profile(name.substr(kProfile.size()));
      if (!profile.ok()) return std::nullopt;
      options.profile = *profile;
      --i;
      continue;
    }
    if (i + 1 == argc) return std::nullopt;
    if (name == "--device") {
      options.device = argv[i + 1];
      if (options.device != "emulator" && options.device != "gpu") return std::nullopt;
      continue;
    }
    char* end = nullptr;
    const long long value = std::strtoll(argv[i + 1], &end, 10);
    if (*end != '\0' || value < 0) return std::nullopt;
    if (name == "--schedules") {
      options.schedules = value;
    } else if (name == "--only") {
      options.only = value;
    } else {
      return std::nullopt;
    }
  }
  return options;
}

/// A separate random generator for each purpose, so that a schedule can be replayed alone.
std::mt19937 generator(const Options& options, const char* purpose, int64_t index) {
  std::seed_seq seq{options.seed, static_cast<uint32_t>(purpose[0]), static_cast<uint32_t>(index)};
  return std::mt19937(seq);
}

/// Checks that the scalar oracle gives the same bits for a whole model, on the shortest request.
bool oracle_agrees(FleetModel& m, const std::vector<Request>& requests) {
  const Request& request =
      *std::ranges::min_element(requests, {}, [](const Request& r) { return r.tokens.size(); });
  auto fast = run_solo(*m.solo.model, request);
  auto slow = run_solo(*m.oracle.model, request);
  if (!fast.ok() || !slow.ok()) {
    std::fprintf(stderr, "%s\n", (fast.ok() ? slow : fast).error().message.c_str());
    return false;
  }
  if (std::memcmp(fast->data(), slow->data(), slow->size() * sizeof(float)) == 0) return true;
  std::fprintf(stderr, "the CPU's logits are not the scalar oracle's\n");
  return false;
}

/// The counts of a run, over all its models.
struct Totals {
  Counts schedules;
  ConstrainedCounts constrained;
  std::map<std::string, DraftingCounts> drafting;  ///< by architecture
  std::map<std::string, int> models;               ///< by architecture
};

void line(const char* what, int64_t n) {
  std::printf("  %-18s %lld\n", what, static_cast<long long>(n));
}

void print(const DraftingCounts& c) {
  line("greedy, drafters", c.greedy);
  line("sampled, drafters", c.sampled);
  line("  with tables", c.with_tables);
  line("  cancelled", c.cancelled);
  line("  from the cache", c.from_cache);
  line("  suspended", c.suspended);
  for (size_t i = 0; i < c.drafts.size(); ++i) {
    const std::string name = "  " + std::string(kDraftSourceNames[i]);
    std::printf("%-20s %lld drafted, %lld accepted\n", name.c_str(),
                static_cast<long long>(c.drafts[i].drafted),
                static_cast<long long>(c.drafts[i].accepted));
  }
}

void print(const Counts& c, const ConstrainedCounts& constrained) {
  line("steps", c.steps);
  line("interleaved decode", c.interleaved);
  line("rows checked", c.rows_checked);
  line("top-k rows checked", c.top_rows_checked);
  line("selected logits", c.selected_checked);
  line("rows with allowed tokens", c.masks_checked);
  line("asynchronous rows", c.async_rows);
  line("sums", c.sums_checked);
  line("completions", c.completions);
  line("forks", c.forks);
  line("restores", c.restores);
  line("evictions", c.evictions);
  line("returns", c.returns);
  line("rows rolled back", c.rows_taken_back);
  line("drafts accepted", c.drafts_accepted);
  line("drafts rejected", c.drafts_rejected);
  line("different depths", c.mixed_depths);
  line("blocks drafted", c.drafted_blocks);
  line("non-causal ones", c.non_causal_blocks);
  line("cancellations", c.cancellations);
  line("refusals", c.refusals);
  line("states cached", c.cached);
  line("  with adapters", c.adapted);
  for (const auto tier : {engine::CacheTier::kDevice, engine::CacheTier::kMemory,
                          engine::CacheTier::kDisk, engine::CacheTier::kNone}) {
    const std::string name = std::string("cache: ") + engine::cache_tier_name(tier);
    line(name.c_str(), c.hits[static_cast<size_t>(tier)]);
  }
  line("forced evictions", c.forced_evictions);
  line("cache starts", c.cache_starts);
  line("constrained", constrained.generations);
  line("  complete", constrained.complete);
  line("  with a budget", constrained.with_budget);
  line("  tokens drafted", constrained.drafted);
  line("  from the cache", constrained.from_cache);
}

/// Whether every kind of event happened often enough to be tested. Events of one schedule in a
/// hundred are required of long runs only.
bool complete(const Counts& c, const ConstrainedCounts& constrained, bool on_gpu,
              int64_t schedules) {
  const bool rare = c.hits[static_cast<size_t>(engine::CacheTier::kMemory)] > 0 &&
                    c.hits[static_cast<size_t>(engine::CacheTier::kDisk)] > 0;
  if (schedules >= kLong && !rare) return false;
  const bool few_on_gpu = on_gpu && schedules < 100;
  if (on_gpu && !few_on_gpu && c.async_rows == 0) return false;
  if (constrained.complete == 0 || constrained.with_budget == 0 || constrained.drafted == 0 ||
      constrained.from_cache == 0) {
    return false;
  }
  if (c.drafts_accepted == 0 || c.drafts_rejected == 0 || c.mixed_depths == 0) return false;
  if (c.drafted_blocks == 0 || (schedules >= kLong && c.non_causal_blocks == 0)) return false;
  return (few_on_gpu || c.interleaved > 0) && c.rows_checked > c.top_rows_checked &&
         c.top_rows_checked > 0 && c.selected_checked > 0 && c.sums_checked > 0 &&
         c.masks_checked > 0 && c.completions > 0 && c.forks > 0 && c.restores > 0 &&
         c.evictions > 0 && c.returns > 0 && c.rows_taken_back > 0 && c.cancellations > 0 &&
         c.refusals > 0 && c.hits[static_cast<size_t>(engine::CacheTier::kDevice)] > 0 &&
         c.adapted > 0 && c.forced_evictions > 0 && c.cache_starts > 0;
}

/// Whether drafts of every source were verified, and of those that every model has some were
/// accepted and some rejected. A short run has one or two models with an MTP head.
bool complete(const DraftingCounts& c) {
  for (const DraftSource source :
       {DraftSource::kBlock, DraftSource::kTables, DraftSource::kLookup, DraftSource::kAny}) {
    const DraftingCounts::Drafts& drafts = c.of(source);
    if (drafts.accepted == 0 || drafts.accepted == drafts.drafted) return false;
  }
  if (c.of(DraftSource::kMtp).drafted == 0 || c.of(DraftSource::kDflash).drafted == 0) return false;
  return c.greedy > 0 && c.sampled > 0 && c.with_tables > 0 && c.cancelled > 0 && c.from_cache > 0;
}

/// Whether the drafters that need nothing of the model drafted for every architecture of the run.
bool drafted_with_every_architecture(const Totals& totals) {
  bool all = true;
  for (const auto& [name, count] : totals.models) {
    const auto found = totals.drafting.find(name);
    const bool drafted = found != totals.drafting.end() &&
                         found->second.of(DraftSource::kBlock).drafted +
                                 found->second.of(DraftSource::kDflash).drafted >
                             0 &&
                         found->second.of(DraftSource::kTables).drafted > 0;
    if (drafted) continue;
    std::fprintf(stderr, "no drafts were verified by a model of the architecture %s\n",
                 name.c_str());
    all = false;
  }
  return all;
}

/// Whether a long run had models of every architecture.
bool has_every_architecture(const std::map<std::string, int>& models) {
  bool all = true;
  for (const std::string& name : fleet_architectures()) {
    if (models.contains(name)) continue;
    std::fprintf(stderr, "no model of the architecture %s\n", name.c_str());
    all = false;
  }
  return all;
}

/// The prefix cache's temporary folder, removed at exit.
class Folder {
 public:
  Folder()
      : path_(std::filesystem::temp_directory_path() /
              ("chimere-fuzz-" + std::to_string(std::random_device{}()))) {}
  ~Folder() { clear(); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  void clear() const {
    std::error_code e;
    std::filesystem::remove_all(path_, e);
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

/// Runs schedule `i` on its model.
bool run_schedule(const Options& options, int64_t i, FleetModel& m, std::vector<Request>& requests,
                  Totals& totals, const Folder& folder) {
  const int threads = 1 + static_cast<int>(i % 2);
  model::Model& model = *m.with_threads[threads - 1].model;
  std::mt19937 rng = generator(options, "schedule", i);
  folder.clear();
  World world(model, *m.solo.model, requests, static_cast<uint32_t>(rng()), totals.schedules,
              folder.path());
  std::optional<std::string> failure = world.run();
  const int64_t kind = (i / 2) % kGenerationsEach;
  if (!failure && kind == 0) {
    failure = constrained_generations(model, *m.solo.model, static_cast<uint32_t>(rng()),
                                      totals.constrained);
  }
  if (!failure && kind == kGenerationsEach / 2) {
    const FleetModel::Drafter& drafter = rng() % 3 == 0 ? m.dflash : m.plain;
    failure = drafted_generations(model, *drafter.with_threads[threads - 1].model, *m.solo.model,
                                  static_cast<uint32_t>(rng()), folder.path(),
                                  totals.drafting[m.architecture]);
  }
  if (failure) std::fprintf(stderr, "%d threads: %s\n", threads, failure->c_str());
  return !failure;
}

using Devices = std::vector<std::unique_ptr<kernels::cuda::Device>>;

Result<Devices> open_devices(const std::string& name, kernels::cuda::Profile profile) {
  Devices devices;
  if (name == "emulator") {
    devices.push_back(
        kernels::cuda::make_emulator(kernels::cuda::emulator::Order::kRising, profile));
    devices.push_back(
        kernels::cuda::make_emulator(kernels::cuda::emulator::Order::kFalling, profile));
  } else if (name == "gpu") {
    CHIMERE_TRY(std::unique_ptr<kernels::cuda::Device> gpu,
                kernels::cuda::open_cuda_device(0, profile));
    devices.push_back(std::move(gpu));
  }
  return devices;
}

int run(const Options& options) {
  std::fflush(stdout);  // visible even if the run hangs
  const auto devices = open_devices(options.device, options.profile);
  if (!devices.ok()) {
    std::printf("skipped: %s\n", devices.error().message.c_str());
    return kSkipped;
  }
  Totals totals;
  std::unique_ptr<FleetModel> m;
  std::vector<Request> requests;
  int64_t loaded = -1;
  const Folder folder;
  const int64_t first = options.only.value_or(0);
  const int64_t last = options.only ? first + 1 : options.schedules;
  for (int64_t i = first; i < last; ++i) {
    const int64_t number = i / kSchedulesPerModel;
    bool ok = true;
    if (number != loaded) {
      auto model = load_fleet_model(options.seed, static_cast<uint64_t>(number), *devices);
      if (!model.ok()) {
        std::fprintf(stderr, "model %lld: %s\n", static_cast<long long>(number),
                     model.error().message.c_str());
        return 1;
      }
      m = std::make_unique<FleetModel>(std::move(model).value());
      loaded = number;
      ++totals.models[m->architecture];
      std::mt19937 rng = generator(options, "requests", number);
      requests = make_requests(rng, kRequestPairs);
      // Prefill rows of a device have other bits than the CPU's.
      ok = !devices->empty() || oracle_agrees(*m, requests);
    }
    if (!ok || !run_schedule(options, i, *m, requests, totals, folder)) {
      std::fprintf(stderr, "%s\nreplay: TEST_SEED=%u schedule_fuzz --only %lld\n", m->name.c_str(),
                   options.seed, static_cast<long long>(i));
      return 1;
    }
  }
  print(totals.schedules, totals.constrained);
  DraftingCounts drafting;
  for (const auto& [name, counts] : totals.drafting) drafting.add(counts);
  print(drafting);
  for (const auto& [name, count] : totals.models) {
    std::printf("  %-18s %d models\n", name.c_str(), count);
  }
  if (options.only || options.schedules < 200) return 0;
  if (options.schedules >= kLong && !has_every_architecture(totals.models)) return 1;
  if (!complete(totals.schedules, totals.constrained, !devices->empty(), options.schedules) ||
      !complete(drafting) || !drafted_with_every_architecture(totals)) {
    std::fprintf(stderr, "some events never happened; the run does not cover them\n");
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace chimere::fuzz

int main(int argc, char** argv) {
  const auto options = chimere::fuzz::parse(argc, argv);
  if (!options) {
    std::fprintf(stderr,
                 "usage: schedule_fuzz [--schedules N] [--only I] "
                 "[--device emulator|GPU] [--cuda-profile=NAME]\n");
    return 2;
  }
  return chimere::fuzz::run(*options);
}
