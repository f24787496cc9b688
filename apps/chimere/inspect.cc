// chimere inspect: the contents of a model file, and the memory that running it takes.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <variant>

#include "base/byte_amount.h"
#include "base/system.h"
#include "command.h"
#include "json.h"
#include "kernels/cuda/device/profile.h"
#include "loading.h"
#include "model/adapter.h"
#include "runtime/gpu.h"
#include "runtime/loaded_model.h"
#include "runtime/model_facts.h"
#include "state/state_store.h"

namespace chimere::app {
namespace {

struct InspectFlags {
  std::string model;
  bool tensors = false;
};

constexpr size_t kLongestList = 16;

/// Long lists (vocabularies) are shown by their length, but for the quantiser's log.
Json value_json(const std::string& key, const gguf::Value& value) {
  const size_t longest = key == "chimere.quantize.log" ? SIZE_MAX : kLongestList;
  return std::visit(
      [&](const auto& v) -> Json {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, gguf::Array>) {
          return std::visit(
              [&](const auto& items) -> Json {
                if (items.size() > longest) return fmt::format("[{} items]", items.size());
                return items;
              },
              v.items);
        } else {
          return v;
        }
      },
      value);
}

/// "7,077,888".
std::string with_separators(int64_t count) {
  std::string digits = std::to_string(count);
  for (int64_t at = std::ssize(digits) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<size_t>(at), ",");
  }
  return digits;
}

/// The digits of a key's value that tell it from others of its type, without an exponent.
std::string number_text(double value) {
  std::array<char, 512> text;
  const bool fits = std::abs(value) <= std::numeric_limits<float>::max();
  const float narrow = fits ? static_cast<float>(value) : 0;
  const bool is_float = fits && static_cast<double>(narrow) == value;
  const auto [end, error] =
      is_float
          ? std::to_chars(text.data(), text.data() + text.size(), narrow, std::chars_format::fixed)
          : std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  return error == std::errc() ? std::string(text.data(), end) : fmt::format("{}", value);
}

int64_t elements(const gguf::TensorInfo& tensor) {
  int64_t n = 1;
  for (const int64_t d : tensor.dims) n *= d;
  return n;
}

Json tensors_by_type(const gguf::Reader& file) {
  struct Sum {
    int64_t count = 0;
    int64_t elements = 0;
    uint64_t bytes = 0;
  };
  std::map<std::string, Sum> sums;
  for (const gguf::TensorInfo& t : file.tensors()) {
    Sum& sum = sums[std::string(dtype_name(t.type))];
    ++sum.count;
    sum.elements += elements(t);
    sum.bytes += t.bytes;
  }
  Json out = Json::array();
  for (const auto& [type, sum] : sums) {
    out.push_back(
        {{"type", type}, {"count", sum.count}, {"elements", sum.elements}, {"bytes", sum.bytes}});
  }
  return out;
}

/// Bytes that a step reads and that a sequence keeps, and the longest context that fits in memory.
Json costs(const runtime::LoadedModel& loaded) {
  model::Model& model = *loaded.model;
  const state::StateStore& states = model.states();
  const int64_t available = available_memory();
  const int64_t weights = static_cast<int64_t>(loaded.file->file_bytes());
  const int64_t left = available - weights - states.bytes_per_slot();
  const int64_t per_token = states.bytes_per_token();
  const int64_t fits = left <= 0       ? 0
                       : per_token > 0 ? std::min(left / per_token, model.context_length())
                                       : model.context_length();
  return {{"context_length", model.context_length()},
          {"active_weight_bytes", model.active_weight_bytes()},
          {"state_bytes", states.bytes_per_slot()},
          {"kv_bytes_per_token", per_token},
          {"memory_available", available},
          {"fits", left > 0},
          {"context_that_fits", fits}};
}

/// The memory plan for this machine's GPU, or for one with --vram-budget bytes; null without
/// either.
Result<Json> gpu_costs(const Settings& settings, const runtime::LoadedModel& loaded) {
  std::string name = "a GPU";
  int64_t allowed = 0;
  auto gpu = runtime::open_cuda_device(settings);
  if (gpu.ok()) {
    name = (*gpu)->facts().name;
    CHIMERE_TRY(allowed, runtime::vram_budget(settings, **gpu));
  } else if (!settings.get(settings::kVramBudget).empty()) {
    CHIMERE_TRY(allowed, runtime::vram_budget_without_gpu(settings));
  } else {
    return Json();
  }
  CHIMERE_TRY(const runtime::GpuPlan chosen, runtime::plan_for_gpu(settings, loaded, 0, allowed));
  const model::DevicePlan& plan = chosen.plan;
  const int64_t per_token = plan.kv / loaded.min_tokens;
  const int64_t left = allowed - (plan.total() - plan.kv);
  const int64_t fits =
      left <= 0 ? 0
      : per_token == 0
          ? loaded.model->context_length()
          : std::min(left / per_token / kernels::kKvPageTokens * kernels::kKvPageTokens,
                     loaded.model->context_length());
  return Json{{"name", name},
              {"profile", kernels::cuda::profile_name(runtime::cuda_profile(settings))},
              {"allowed", allowed},
              {"weights", plan.weights_on_gpu()},
              {"draft_weights", plan.drafts.weights},
              {"unpacking", plan.unpacked ? plan.unpacking_bytes : 0},
              {"context", loaded.context},
              {"kv", plan.kv},
              {"states", plan.state_total() - plan.kv},
              {"work", plan.work_on_gpu()},
              {"total", plan.total()},
              {"cpu_expert_layers", plan.host_expert_layers},
              {"cpu_expert_bytes", plan.host_experts()},
              {"fits", plan.total() <= allowed},
              {"context_that_fits", fits}};
}

void print_gpu(const Json& c) {
  const auto bytes = [&](const char* key) { return human_bytes(c[key].get<double>()); };
  const auto profile = c["profile"].get<std::string>();
  std::cout << fmt::format(
      "\nOn {}{}, of which {} may be used\n  weights                      {:>10}\n"
      "  keys and values              {:>10} for {} tokens (--ctx, --cache-k, --cache-v)\n"
      "  states                       {:>10}\n  work                         {:>10}\n"
      "  together                     {:>10}\n",
      c["name"].get<std::string>(), profile == "native" ? "" : fmt::format(" (as {})", profile),
      bytes("allowed"), bytes("weights"), bytes("kv"), c["context"].get<int64_t>(), bytes("states"),
      bytes("work"), bytes("total"));
  if (c["unpacking"].get<int64_t>() > 0) {
    std::cout << fmt::format(
        "  of the weights, for speed    {:>10} (IQ3_S unpacked to four bits)\n",
        bytes("unpacking"));
  }
  if (c["draft_weights"].get<int64_t>() > 0) {
    std::cout << fmt::format("  of the weights, for drafts   {:>10} (the MTP head; --speculate)\n",
                             bytes("draft_weights"));
  }
  if (c["cpu_expert_layers"].get<int>() > 0) {
    std::cout << fmt::format(
        "  in host memory               {:>10}, the experts of {} layers (--cpu-experts)\n",
        bytes("cpu_expert_bytes"), c["cpu_expert_layers"].get<int>());
  }
  std::cout << fmt::format("  It {}; the longest context that does: {} tokens.\n",
                           c["fits"].get<bool>() ? "fits" : "does not fit",
                           c["context_that_fits"].get<int64_t>());
}

void print_text(const Json& document, bool tensors) {
  const auto bytes = [&](const Json& v) { return human_bytes(v.get<double>()); };
  const auto files = document["files"].get<size_t>();
  std::cout << fmt::format(
      "{}  ({}{}, GGUF {})\n", document["path"].get<std::string>(), bytes(document["file_bytes"]),
      files > 1 ? fmt::format(" in {} files", files) : "", document["version"].get<int>());
  std::cout << fmt::format("{} parameters in {} tensors\n\nMetadata\n",
                           with_separators(document["parameters"].get<int64_t>()),
                           document["tensor_count"].get<int64_t>());
  for (const auto& [key, value] : document["metadata"].items()) {
    std::string text = value.is_string()         ? value.get<std::string>()
                       : value.is_number_float() ? number_text(value.get<double>())
                                                 : value.dump(-1, ' ', false, kLenient);
    std::ranges::replace(text, '\n', ' ');
    if (text.size() > 80) text = text.substr(0, 77) + "...";
    std::cout << fmt::format("  {:45} {}\n", key, text);
  }
  std::cout << "\nTensors by type\n";
  for (const Json& t : document["types"]) {
    std::cout << fmt::format("  {:8} {:5}  {:>10}\n", t["type"].get<std::string>(),
                             t["count"].get<int64_t>(), bytes(t["bytes"]));
  }
  if (tensors) {
    std::cout << "\nTensors\n";
    for (const Json& t : document["tensors"]) {
      std::cout << fmt::format("  {:40} {:8} {}\n", t["name"].get<std::string>(),
                               t["type"].get<std::string>(), t["dims"].dump());
    }
  }
  if (document.contains("adapter")) {
    const Json& a = document["adapter"];
    std::cout << fmt::format(
        "\nA LoRA adapter '{}' for models of architecture {}: it changes {} matrices, ranks {} to "
        "{}, alpha {}.\n  chimere run -m MODEL --lora {} uses it.\n",
        a["name"].get<std::string>(), a["architecture"].get<std::string>(),
        a["matrices"].get<int64_t>(), a["least_rank"].get<int64_t>(), a["most_rank"].get<int64_t>(),
        a["alpha"].get<double>(), document["path"].get<std::string>());
    return;
  }
  if (document.contains("drafter")) {
    const auto path = document["path"].get<std::string>();
    std::cout << fmt::format(
        "\nA drafter, which works together with the model that it was trained for, one of "
        "embedding length {}.\n  chimere run -m MODEL --draft-model {} uses it.\n",
        document["drafter"]["embedding_length"].get<int64_t>(), path);
    return;
  }
  if (document.contains("cannot_run")) {
    std::cout << "\nThis program cannot run it: " << document["cannot_run"].get<std::string>()
              << '\n';
    return;
  }
  const Json& c = document["costs"];
  std::cout << fmt::format(
      "\nRunning it\n  a token reads                {:>10} of weights\n  a sequence keeps          "
      "   {:>10} of state\n"
      "  and for each of its tokens   {:>10} of keys and values\n  memory available here        "
      "{:>10}\n",
      bytes(c["active_weight_bytes"]), bytes(c["state_bytes"]), bytes(c["kv_bytes_per_token"]),
      bytes(c["memory_available"]));
  if (c["fits"].get<bool>()) {
    std::cout << fmt::format("  It fits, with a context of {} tokens (trained for {}).\n",
                             c["context_that_fits"].get<int64_t>(),
                             c["context_length"].get<int64_t>());
  } else {
    std::cout << "  It does not fit: parts of it will be read from disk repeatedly.\n";
  }
  if (document.contains("gpu")) print_gpu(document["gpu"]);
}

Result<Json> adapter_json(const gguf::Reader& file) {
  CHIMERE_TRY(const model::AdapterFile a, model::describe_adapter(file));
  return Json{{"architecture", a.architecture},
              {"name", a.name},
              {"alpha", a.alpha},
              {"matrices", a.matrices},
              {"least_rank", a.least_rank},
              {"most_rank", a.most_rank}};
}

/// What running the model takes, or why it cannot be run.
Status add_costs(const Settings& settings, std::unique_ptr<gguf::Reader> file, Json& document) {
  const auto loaded = load(std::move(file), settings, {.on_gpu = false});
  if (loaded.ok()) {
    document["costs"] = costs(*loaded);
    CHIMERE_TRY(Json gpu, gpu_costs(settings, *loaded));
    if (!gpu.is_null()) document["gpu"] = std::move(gpu);
  } else {
    document["cannot_run"] = loaded.error().message;
  }
  return {};
}

Status inspect(const CommandLine& line, const InspectFlags& flags) {
  CHIMERE_TRY(auto file, open_model(line.settings, flags.model));
  Json document = {{"path", file->path()},
                   {"files", file->files().size()},
                   {"file_bytes", file->file_bytes()},
                   {"version", file->version()}};
  int64_t parameters = 0;
  Json tensors = Json::array();
  for (const gguf::TensorInfo& t : file->tensors()) {
    parameters += elements(t);
    if (flags.tensors) {
      tensors.push_back(
          {{"name", t.name}, {"type", dtype_name(t.type)}, {"dims", t.dims}, {"bytes", t.bytes}});
    }
  }
  document["parameters"] = parameters;
  document["tensor_count"] = file->tensors().size();
  Json metadata = Json::object();
  for (const std::string& key : file->keys()) metadata[key] = value_json(key, *file->find(key));
  document["metadata"] = std::move(metadata);
  document["types"] = tensors_by_type(*file);
  if (flags.tensors) document["tensors"] = std::move(tensors);
  const runtime::FileKind kind = runtime::file_kind(*file);
  document["kind"] = runtime::kind_name(kind);
  if (kind == runtime::FileKind::kAdapter) {
    CHIMERE_TRY(document["adapter"], adapter_json(*file));
  } else if (kind == runtime::FileKind::kDrafter) {
    CHIMERE_TRY(const runtime::ModelFacts facts, runtime::model_facts(*file));
    document["drafter"] = {{"embedding_length", facts.embedding_length}};
  } else {
    CHIMERE_CHECK_OK(add_costs(line.settings, std::move(file), document));
  }
  if (line.json) {
    print_json(document);
  } else {
    print_text(document, flags.tensors);
  }
  return {};
}

}  // namespace

void declare_inspect(Command& app, CommandLine& line) {
  const auto flags = std::make_shared<InspectFlags>();
  Command command = add_command(
      app, line, "inspect", "Shows what a model file holds and the memory that running it takes",
      [&line, flags] { return inspect(line, *flags); });
  command.option("MODEL", flags->model, "A GGUF file or a name in the model folder")
      .check(not_empty(kNameModel));
  add_settings(command, line, {SettingGroup::kModel, SettingGroup::kQuiet});
  command.flag("--tensors", flags->tensors, "List every tensor");
}

}  // namespace chimere::app
