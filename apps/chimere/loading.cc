#include "loading.h"

#include <iostream>
#include <optional>
#include <utility>

#include "command.h"
#include "runtime/gpu.h"
#include "runtime/load_observer.h"
#include "transfer_progress.h"

namespace chimere::app {
namespace {

void show_line(const std::string& text) { std::cerr << text << '\n'; }

}  // namespace

Result<std::unique_ptr<gguf::Reader>> open_model(const Settings& settings, const std::string& name,
                                                 runtime::ShippedModel shipped) {
  CHIMERE_TRY(
      const runtime::ModelPath found,
      runtime::find_model(name.empty() ? settings.get(settings::kModel) : name, settings, shipped));
  if (found.shipped && !settings.get(settings::kQuiet))
    show_line("Using the shipped model " + found.path + " (-m MODEL chooses another)");
  return gguf::Reader::open(found.path);
}

namespace {

Result<runtime::LoadedModel> load_file(std::unique_ptr<gguf::Reader> file, const Settings& settings,
                                       const runtime::MemoryRequest& request,
                                       const runtime::Runtime& runtime) {
  runtime::LoadObserver observer;
  std::optional<TransferProgress> progress;
  observer.warning = [&](const std::string& text) {
    progress.reset();
    show_line(text);
  };
  if (!settings.get(settings::kQuiet)) {
    observer.notice = observer.warning;
    observer.upload = [&](int64_t done, int64_t total) {
      if (!progress) progress.emplace(runtime::kQuietUpload);
      progress->show(done, total);
    };
  }
  return runtime::load(std::move(file), settings, request, runtime, observer);
}

}  // namespace

Result<runtime::LoadedModel> load(const Settings& settings, const runtime::MemoryRequest& request) {
  return load_shared(settings, request, runtime::Runtime(settings));
}

Result<runtime::LoadedModel> load_shared(const Settings& settings,
                                         const runtime::MemoryRequest& request,
                                         const runtime::Runtime& runtime) {
  CHIMERE_TRY(auto file, open_model(settings));
  return load_file(std::move(file), settings, request, runtime);
}

Result<runtime::LoadedModel> load(std::unique_ptr<gguf::Reader> file, const Settings& settings,
                                  const runtime::MemoryRequest& request) {
  return load_file(std::move(file), settings, request, runtime::Runtime(settings));
}

Result<runtime::TokenText> read_tokens(const runtime::LoadedModel& loaded,
                                       const std::string& path) {
  CHIMERE_TRY(const std::string text, read_file(path));
  return runtime::tokens_of_text(loaded, text, path);
}

}  // namespace chimere::app
