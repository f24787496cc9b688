#include "runtime/adapters.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <memory>
#include <utility>

#include "gguf/reader.h"
#include "model/adapter.h"
#include "runtime/engram_tables.h"

namespace chimere::runtime {

Result<std::vector<AdapterPath>> adapter_paths(std::string_view lora) {
  std::vector<AdapterPath> out;
  for (std::string& item : split_paths(lora)) {
    AdapterPath& adapter = out.emplace_back();
    if (const size_t at = item.rfind('='); at != std::string::npos) {
      const char* const end = item.data() + item.size();
      float scale = 0;
      const auto [stop, error] = std::from_chars(item.data() + at + 1, end, scale);
      if (error == std::errc() && stop == end) {
        if (!std::isfinite(scale)) {
          return invalid_argument("--lora " + item + ": the scale must be a number.");
        }
        adapter.scale = scale;
        item.resize(at);
      }
    }
    adapter.path = std::move(item);
    adapter.name = std::filesystem::path(adapter.path).stem().string();
    if (adapter.name.empty()) return invalid_argument("--lora needs a file before the '='.");
    for (size_t i = 0; i + 1 < out.size(); ++i) {
      if (out[i].name != adapter.name) continue;
      return invalid_argument("--lora names two adapters '" + adapter.name + "': " + out[i].path +
                              " and " + adapter.path + "; rename one file.");
    }
  }
  return out;
}

Status load_adapters(const Settings& settings, LoadedModel& loaded) {
  CHIMERE_TRY(const auto paths, adapter_paths(settings.get(settings::kLora)));
  for (const AdapterPath& item : paths) {
    CHIMERE_TRY(const auto file, gguf::Reader::open(item.path));
    const auto told = [&](const Error& error) {
      return Error{error.code, "The adapter " + item.path + ": " + error.message};
    };
    Result<model::Adapter> adapter =
        model::read_adapter(*file, loaded.model->architecture(), loaded.model->adapter_targets());
    if (!adapter.ok()) return told(adapter.error());
    const std::string contents =
        state::hexadecimal(adapter->hash.high) + state::hexadecimal(adapter->hash.low);
    const Result<int32_t> number = loaded.model->add_adapter(*std::move(adapter));
    if (!number.ok()) return told(number.error());
    CHIMERE_CHECK_OK(loaded.adapters->add({item.name, item.path, *number, contents, item.scale}));
  }
  return {};
}

state::Hash128 with_adapters(const state::Hash128& weights,
                             const engine::RequestAdapters& adapters) {
  if (adapters.key.empty()) return weights;
  state::Hasher128 hasher;
  hasher.update({reinterpret_cast<const uint8_t*>(&weights), sizeof(weights)});
  hasher.update({reinterpret_cast<const uint8_t*>(adapters.key.data()), adapters.key.size()});
  return hasher.value();
}

}  // namespace chimere::runtime
