#include "engine/prefix_cache/disk_folder.h"

#include <utility>

namespace chimere::engine {

DiskFolder::DiskFolder(state::StateStore& store, Background& background, DiskOptions options,
                       Found found)
    : store_(store),
      background_(background),
      options_(std::move(options)),
      found_(std::move(found)),
      layout_(store, {}) {}

Result<DiskFolder::Opened> DiskFolder::open_folder(const state::PrefixFolderOptions& options,
                                                   const state::ImageLayout& layout) {
  Opened out;
  CHIMERE_TRY(out.folder, state::PrefixFolder::open(options, layout));
  (void)out.folder->trim();  // repeated after each write
  out.found = out.folder->find_new();
  return out;
}

void DiskFolder::open() {
  const Status usable = state::make_prefix_folder(options_.folder.folder);
  if (!usable.ok()) {
    options_.weights->abandon();
    options_.log("Prompts are kept in memory only. " + usable.error().message);
    return;
  }
  using OpenResult = std::pair<Result<Opened>, state::ImageLayout>;
  auto job = [weights = options_.weights, disk = options_.folder, &store = store_] {
    const Result<state::Hash128> hash = weights->get();
    if (!hash.ok()) return OpenResult(Result<Opened>(hash.error()), state::ImageLayout(store, {}));
    const state::ImageLayout layout(store, *hash);
    return OpenResult(open_folder(disk, layout), layout);
  };
  opening_ = true;
  if (options_.weights->ready()) {
    OpenResult outcome = job();
    return opened(std::move(outcome.first), outcome.second);
  }
  background_.post(
      [this, job] {
        const auto outcome = std::make_shared<OpenResult>(job());
        return [this, outcome] { opened(std::move(outcome->first), outcome->second); };
      },
      Background::Lane::kQuick);
}

void DiskFolder::opened(Result<Opened> result, const state::ImageLayout& layout) {
  opening_ = false;
  if (!result.ok()) {
    if (result.error().code != Error::Code::kCancelled)
      options_.log("Prompts are kept in memory only. " + result.error().message);
    return;
  }
  folder_ = std::move(result->folder);
  layout_ = layout;
  found_(result->found, true);
}

void DiskFolder::close() {
  if (opening_) options_.weights->abandon();  // the background thread may be waiting for it
}

uint64_t DiskFolder::list() {
  const uint64_t number = ++listings_asked_;
  background_.post(
      [this, number, folder = folder_]() -> Background::Done {
        if (number <= listings_covered_) return [] {};  // an earlier job covered it
        listings_covered_ = listings_asked_;
        auto found = std::make_shared<state::PrefixFolder::New>(folder->find_new());
        return [this, found, done = listings_covered_] {
          listings_done_ = done;
          found_(*found, false);
        };
      },
      Background::Lane::kQuick);
  return number;
}

}  // namespace chimere::engine
