#include "served_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "base/byte_amount.h"
#include "base/system.h"
#include "gguf/reader.h"
#include "loading.h"
#include "model/model.h"
#include "runtime/adapters.h"
#include "runtime/gpu.h"
#include "runtime/memory_budget.h"
#include "runtime/model_catalogue.h"
#include "runtime/model_facts.h"
#include "transfer_progress.h"

namespace chimere::app {
namespace {

using serving::ModelKind;
using serving::ModelSource;

/// A file's name without folder and extension.
std::string name_of(const std::string& path) { return std::filesystem::path(path).stem().string(); }

int64_t modified(const std::string& path) {
  std::error_code error;
  const auto time = std::filesystem::last_write_time(path, error);
  if (error) return 0;
  const auto system = std::chrono::file_clock::to_sys(time);
  return std::chrono::duration_cast<std::chrono::seconds>(system.time_since_epoch()).count();
}

/// Writes to the log what loading says. `id`: of the model; empty: not known yet.
runtime::LoadObserver log_observer(const ServeLog& log, const std::string& id) {
  const auto writer = [&](const char* event) {
    return [log, id, event](const std::string& text) {
      serving::LogLine line(event);
      if (!id.empty()) line.add("model", id);
      log(line.add("what", text));
    };
  };
  runtime::LoadObserver out;
  out.notice = writer("model_notice");
  out.warning = writer("model_warning");
  return out;
}

/// The same, and passes the progress on.
runtime::LoadObserver load_observer(const ServeLog& log, const std::string& id,
                                    const ModelSource::Progress& progress) {
  runtime::LoadObserver out = log_observer(log, id);
  out.upload = [progress](int64_t done, int64_t total) {
    progress(static_cast<double>(done) / static_cast<double>(std::max<int64_t>(1, total)));
  };
  return out;
}

/// The same for a model that is loaded at the start: the progress is logged, or a bar on a
/// terminal.
runtime::LoadObserver start_observer(const ServeLog& log, const std::string& id) {
  const auto bar = std::make_shared<std::optional<TransferProgress>>();
  const auto after_bar = [bar](std::function<void(const std::string&)> write) {
    return [bar, write = std::move(write)](const std::string& text) {
      bar->reset();
      write(text);
    };
  };
  const runtime::LoadObserver written = log_observer(log, id);
  runtime::LoadObserver out;
  out.notice = after_bar(written.notice);
  out.warning = after_bar(written.warning);
  out.upload = [bar, written](int64_t done, int64_t total) {
    if (!*bar) {
      bar->emplace("Loading", runtime::kQuietUpload, TransferProgress::Unit::kBytes,
                   written.notice);
    }
    (*bar)->show(done, total);
  };
  return out;
}

class Builder {
 public:
  Builder(const ServeContext& context, int64_t budget) : context_(context), budget_(budget) {}

  /// `open`: the model's file, for its first load, at the start; or nullptr.
  /// `kind` kNone: as the file says.
  Result<ModelSource> source(runtime::CatalogueModel model, ModelKind kind,
                             std::unique_ptr<gguf::Reader> open) const {
    std::unique_ptr<gguf::Reader> read;
    if (open == nullptr) {
      CHIMERE_TRY(read, gguf::Reader::open(model.path));
      CHIMERE_CHECK_OK(model::check_architecture(*read));
    }
    CHIMERE_TRY(const runtime::ModelFacts facts, runtime::model_facts(open ? *open : *read));
    read.reset();
    if (kind == ModelKind::kNone) {
      kind = facts.kind == runtime::FileKind::kReranking   ? ModelKind::kReranking
             : facts.kind == runtime::FileKind::kEmbedding ? ModelKind::kEmbedding
                                                           : ModelKind::kText;
    }
    CHIMERE_TRY(const int64_t states, limit_states(facts.file_bytes, model.settings));
    CHIMERE_TRY(const auto adapters, runtime::adapter_paths(model.settings.get(settings::kLora)));
    ModelSource out;
    out.about = {.id = model.name,
                 .aliases = model.aliases,
                 .kind = kind,
                 .created = modified(model.path),
                 .architecture = facts.architecture,
                 .quantization = model.quant,
                 .parameters = facts.parameters,
                 .trained_context = facts.trained_context,
                 .embedding_length = facts.embedding_length,
                 .file_bytes = facts.file_bytes,
                 .memory_bytes = facts.file_bytes + states,
                 .keep_alive = std::nullopt,
                 .in_folder = model.in_folder,
                 .configured = model.configured};
    for (const runtime::AdapterPath& a : adapters) {
      if (kind == ModelKind::kText) out.about.adapters.push_back(a.name);
      out.fingerprint += a.path + "\n" + runtime::file_fingerprint(a.path) + "\n";
    }
    if (model.keep_alive) out.about.keep_alive = std::chrono::seconds(*model.keep_alive);
    out.fingerprint += model.path + "\n" + runtime::file_fingerprint(model.path) + "\n" +
                       model.overrides + std::to_string(states);
    const auto first = std::make_shared<std::unique_ptr<gguf::Reader>>(std::move(open));
    out.load = [context = context_, kind, model = std::move(model),
                first](const ModelSource::Progress& progress) {
      return load(context, kind, model, std::move(*first), progress);
    };
    return out;
  }

 private:
  /// Sets --state-memory where the budget decides it. Returns what states and prefix cache may
  /// take.
  Result<int64_t> limit_states(int64_t file_bytes, Settings& settings) const {
    const bool given = !settings.get(settings::kStateMemory).empty();
    if (budget_ > 0 && !given) {
      const int64_t states = default_state_memory(budget_, file_bytes, settings);
      CHIMERE_CHECK_OK(settings.set(settings::kStateMemory,
                                    std::to_string(std::max<int64_t>(states, 1)) + "B",
                                    "the default of --state-memory"));
    }
    int64_t out =
        settings.get(settings::kCacheStates) == 0 ? 0 : settings.get(settings::kCacheMemory) << 20;
    if (budget_ > 0 || given) {
      CHIMERE_TRY(const int64_t states, runtime::state_memory(settings));
      out += states;
    }
    return out;
  }

  static Result<std::unique_ptr<serving::ResidentModel>> load(
      const ServeContext& context, ModelKind kind, const runtime::CatalogueModel& model,
      std::unique_ptr<gguf::Reader> file, const ModelSource::Progress& progress) {
    const auto load_kind = kind == ModelKind::kReranking   ? &load_reranking_model
                           : kind == ModelKind::kEmbedding ? &load_embedding_model
                                                           : &load_text_model;
    if (file != nullptr) {
      return load_kind(std::move(file), model.name, model.settings, context,
                       start_observer(context.log, model.name));
    }
    CHIMERE_TRY(file, gguf::Reader::open(model.path));
    return load_kind(std::move(file), model.name, model.settings, context,
                     load_observer(context.log, model.name, progress));
  }

  const ServeContext& context_;
  const int64_t budget_;
};

}  // namespace

bool serves_several(const Settings& settings) {
  return !settings.get(settings::kModelsFile).empty() ||
         !settings.get(settings::kModelsMemory).empty();
}

Result<int64_t> models_memory(const Settings& settings) {
  if (!serves_several(settings)) return 0;
  if (settings.get(settings::kModelsMemory).empty()) {
    const int64_t available = available_memory();
    return available / 5 * 4;
  }
  auto bytes = parse_byte_amount(settings.get(settings::kModelsMemory));
  if (!bytes.ok()) return invalid_argument("--models-memory: " + bytes.error().message + ".");
  return bytes;
}

Result<ServedModels> served_models(const ServeContext& context, bool start) {
  const Settings& settings = context.settings;
  CHIMERE_TRY(const int64_t budget, models_memory(settings));
  const Builder builder(context, budget);
  const std::string& file = settings.get(settings::kModelsFile);
  std::vector<runtime::CatalogueModel> catalogue;
  // --lora belongs to the model of --model; those of a file may have adapters of their own.
  Settings others = settings;
  CHIMERE_CHECK_OK(others.set(settings::kLora, "", "models without adapters"));
  ServedModels out;
  if (!file.empty()) {
    CHIMERE_TRY(catalogue, runtime::read_catalogue(file, others, &out.with_folder));
  } else if (budget > 0) {
    CHIMERE_TRY(catalogue, runtime::folder_catalogue(others, {}));
    out.with_folder = true;
  }

  runtime::LoadObserver opening;
  if (start) opening = log_observer(context.log, "");
  const auto open = [&](const std::string& name) {
    return open_model(settings, name, runtime::ShippedModel::kText, opening);
  };

  const auto taken = [&](const std::string& id) {
    return std::ranges::any_of(out.sources, [&](const ModelSource& source) {
      return source.about.id == id ||
             std::ranges::find(source.about.aliases, id) != source.about.aliases.end();
    });
  };
  // The models that flags name, which are loaded at start.
  const auto add = [&](std::unique_ptr<gguf::Reader> opened, const std::string& alias,
                       ModelKind kind) -> Status {
    runtime::CatalogueModel model;
    model.path = opened->path();
    model.name = alias.empty() ? name_of(model.path) : alias;
    model.settings = settings;
    for (runtime::CatalogueModel& row : catalogue) {
      if (runtime::same_path(row.path, model.path)) row.configured = true;
    }
    const auto listed = std::ranges::find_if(catalogue, [&](const auto& row) {
      return (row.name == model.name && !row.in_folder) || runtime::same_path(row.path, model.path);
    });
    if (listed != catalogue.end()) {
      model = std::move(*listed);
      if (!alias.empty() && alias != model.name) model.aliases.push_back(alias);
      if (kind == ModelKind::kText && model.settings.get(settings::kLora).empty()) {
        CHIMERE_CHECK_OK(
            model.settings.set(settings::kLora, settings.get(settings::kLora), "the flag --lora"));
      }
      catalogue.erase(listed);
    }
    if (taken(model.name)) {
      model.name += kind == ModelKind::kReranking ? "-rerank" : "-embeddings";
      model.in_folder = false;
    }
    // Small models before the main one, which takes what memory a GPU has left.
    const bool last = kind == ModelKind::kText;
    out.preload.insert(last ? out.preload.end() : out.preload.begin(), model.name);
    CHIMERE_TRY(ModelSource source,
                builder.source(std::move(model), kind, start ? std::move(opened) : nullptr));
    out.sources.push_back(std::move(source));
    return {};
  };
  if (file.empty() || !settings.get(settings::kModel).empty()) {
    CHIMERE_TRY(auto opened, open(""));
    CHIMERE_CHECK_OK(add(std::move(opened), settings.get(settings::kAlias), ModelKind::kText));
  }
  if (const std::string& name = settings.get(settings::kEmbeddingModel);
      !name.empty() && name != "none") {
    CHIMERE_TRY(auto opened, open(name));
    CHIMERE_CHECK_OK(add(std::move(opened), "", ModelKind::kEmbedding));
  }
  if (const std::string& name = settings.get(settings::kRerankModel); !name.empty()) {
    CHIMERE_TRY(auto opened, open(name));
    CHIMERE_CHECK_OK(add(std::move(opened), "", ModelKind::kReranking));
  }
  for (runtime::CatalogueModel& model : catalogue) {
    const std::string name = model.name;
    if (taken(name)) continue;
    std::erase_if(model.aliases, taken);
    if (model.preload) out.preload.push_back(name);
    auto source = builder.source(std::move(model), ModelKind::kNone, nullptr);
    if (source.ok()) {
      out.sources.push_back(*std::move(source));
    } else if (file.empty()) {  // in the folder may be anything
      context.log(
          serving::LogLine("model_skipped").add("model", name).add("why", source.error().message));
    } else {
      return Error{source.error().code,
                   fmt::format("The model '{}' of {}: {}", name, file, source.error().message)};
    }
  }
  return out;
}

}  // namespace chimere::app
