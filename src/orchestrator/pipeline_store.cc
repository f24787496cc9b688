#include "orchestrator/pipeline_store.h"

#include <set>
#include <utility>

#include "orchestrator/yaml_section.h"

namespace chimere::orchestrator {
namespace {

namespace fs = std::filesystem;

constexpr auto kInterval = std::chrono::milliseconds(100);

}  // namespace

PipelineStore::PipelineStore(std::string folder, Log log)
    : folder_(std::move(folder)), log_(std::move(log)) {}

Result<std::unique_ptr<PipelineStore>> PipelineStore::open(const std::string& folder, Log log) {
  std::unique_ptr<PipelineStore> store(new PipelineStore(folder, std::move(log)));
  for (const ShippedPipeline& shipped : shipped_pipelines()) {
    CHIMERE_TRY(Pipeline pipeline,
                parse_pipeline(shipped.yaml, std::string(shipped.name) + ".yaml"));
    store->shipped_[std::string(shipped.name)] = std::make_shared<const Pipeline>(pipeline);
  }
  const std::scoped_lock lock(store->mutex_);
  CHIMERE_CHECK_OK(store->scan());
  store->publish();
  store->looked_ = std::chrono::steady_clock::now();
  return store;
}

Status PipelineStore::scan() {
  if (folder_.empty()) return {};
  Status first;
  std::set<std::string> present;
  std::error_code error;
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
    const fs::path& path = it->path();
    std::error_code ignored;
    if (path.extension() != ".yaml" || !it->is_regular_file(ignored)) continue;
    const std::string name = path.filename().string();
    present.insert(name);
    File now;
    now.time = it->last_write_time(ignored);
    now.size = it->file_size(ignored);
    const auto known = files_.find(name);
    if (known != files_.end() && known->second == now) continue;
    if (known != files_.end()) now.pipeline = known->second.pipeline;
    auto read = [&]() -> Result<Pipeline> {
      CHIMERE_TRY(const std::string text, yaml_file(path.string()));
      CHIMERE_TRY(Pipeline pipeline, parse_pipeline(text, name));
      if (pipeline.name != path.stem().string()) {
        return invalid_data(name + ":1: The pipeline is named '" + pipeline.name +
                            "'; the file of that name is " + pipeline.name + ".yaml.");
      }
      return pipeline;
    }();
    if (read.ok()) {
      now.pipeline = std::make_shared<const Pipeline>(*std::move(read));
      log_("loaded", name, "");
    } else {
      if (first.ok()) first = read.error();
      log_("rejected", name, read.error().message);
    }
    files_[name] = std::move(now);
  }
  for (auto it = files_.begin(); it != files_.end();) {
    if (present.contains(it->first)) {
      ++it;
    } else {
      log_("removed", it->first, "");
      it = files_.erase(it);
    }
  }
  return first;
}

void PipelineStore::publish() {
  auto next = std::make_shared<Set>(shipped_);
  for (const auto& [name, file] : files_) {
    if (file.pipeline) (*next)[file.pipeline->name] = file.pipeline;
  }
  set_ = std::move(next);
}

void PipelineStore::refresh() {
  const std::scoped_lock lock(mutex_);
  (void)scan();  // what is wrong has been logged
  publish();
  looked_ = std::chrono::steady_clock::now();
}

std::shared_ptr<const PipelineStore::Set> PipelineStore::current() {
  {
    const std::scoped_lock lock(mutex_);
    if (folder_.empty() || std::chrono::steady_clock::now() - looked_ < kInterval) return set_;
  }
  refresh();
  const std::scoped_lock lock(mutex_);
  return set_;
}

}  // namespace chimere::orchestrator
