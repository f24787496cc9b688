#include "loading.h"

#include <iostream>
#include <utility>

#include "command.h"
#include "runtime/adapters.h"
#include "runtime/gpu.h"

namespace chimere::app {
namespace {

void show_line(const std::string& text) { std::cerr << message_rows(text) << '\n'; }

}  // namespace

Result<std::unique_ptr<gguf::Reader>> open_model(const Settings& settings, const std::string& name,
                                                 runtime::ShippedModel shipped) {
  const LoadMessages messages(settings);
  return open_model(settings, name, shipped, messages.observer());
}

Result<std::unique_ptr<gguf::Reader>> open_model(const Settings& settings, const std::string& name,
                                                 runtime::ShippedModel shipped,
                                                 const runtime::LoadObserver& observer) {
  CHIMERE_TRY(const runtime::ModelPath found,
              runtime::find_model_or_suggest(name.empty() ? settings.get(settings::kModel) : name,
                                             settings, shipped));
  if (found.shipped) {
    observer.say("Using the shipped model " + found.path + " (-m MODEL chooses another)");
  }
  return gguf::Reader::open(found.path);
}

LoadMessages::LoadMessages(const Settings& settings) {
  observer_.warning = [this](const std::string& text) {
    progress_.reset();
    show_line(text);
  };
  if (settings.get(settings::kQuiet)) return;
  observer_.notice = observer_.warning;
  observer_.upload = [this](int64_t done, int64_t total) {
    if (!progress_) progress_.emplace("Loading", runtime::kQuietUpload);
    progress_->show(done, total);
  };
}

Result<runtime::LoadedModel> load(const Settings& settings, const runtime::MemoryRequest& request) {
  CHIMERE_TRY(auto file, open_model(settings));
  return load(std::move(file), settings, request);
}

Result<runtime::LoadedModel> load(std::unique_ptr<gguf::Reader> file, const Settings& settings,
                                  const runtime::MemoryRequest& request) {
  const LoadMessages messages(settings);
  CHIMERE_TRY(runtime::LoadedModel loaded,
              runtime::load(std::move(file), settings, request, runtime::Runtime(settings),
                            messages.observer()));
  CHIMERE_CHECK_OK(runtime::load_adapters(settings, loaded));
  return loaded;
}

Result<runtime::TokenText> read_tokens(const runtime::LoadedModel& loaded,
                                       const std::string& path) {
  CHIMERE_TRY(const std::string text, read_file(path));
  return runtime::tokens_of_text(loaded, text, path);
}

}  // namespace chimere::app
