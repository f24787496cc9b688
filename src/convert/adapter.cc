// LoRA adapters of PEFT. A file's tensors have the rows and columns of the source in another order
// or in several parts: what a family does to a weight matrix is found out with matrices of row and
// column numbers, and then done to the rows of B and the columns of A.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "convert/checkpoint.h"
#include "convert/config.h"
#include "convert/convert.h"
#include "convert/families/registry.h"
#include "convert/json_text.h"
#include "convert/plan.h"
#include "quant/quant.h"

namespace chimere::convert {
namespace {

constexpr const char* kAdapterConfig = "adapter_config.json";
constexpr int64_t kMaxPeftRank = 1 << 16;

/// Of adapter_config.json.
struct PeftConfig {
  Json json;

  Result<double> alpha_of(const std::string& module) const {
    return number_of("alpha_pattern", module, "lora_alpha");
  }
  bool flag(const char* name) const {
    const auto at = json.find(name);
    return at != json.end() && at->is_boolean() && at->get<bool>();
  }

 private:
  /// The number of the first pattern that the module's name ends with, as PEFT applies them.
  Result<double> number_of(const char* patterns, const std::string& module,
                           const char* otherwise) const {
    const auto of = json.find(patterns);
    if (of != json.end() && of->is_object()) {
      for (const auto& [pattern, value] : of->items()) {
        const bool ends = module == pattern || module.ends_with("." + pattern);
        if (ends && value.is_number()) return value.get<double>();
      }
    }
    const auto at = json.find(otherwise);
    if (at == json.end() || !at->is_number()) {
      return invalid_data(std::string(kAdapterConfig) + " lacks the number " + otherwise);
    }
    return at->get<double>();
  }
};

Result<PeftConfig> read_peft_config(const std::string& folder) {
  const std::string path = (std::filesystem::path(folder) / kAdapterConfig).string();
  CHIMERE_TRY(auto json, read_json(path));
  if (!json) return not_found(folder + " has no " + kAdapterConfig);
  PeftConfig config = {*std::move(json)};
  const auto text = [&](const char* name, const char* otherwise) {
    const auto at = config.json.find(name);
    return at != config.json.end() && at->is_string() ? at->get<std::string>()
                                                      : std::string(otherwise);
  };
  if (text("peft_type", "LORA") != "LORA") {
    return unsupported("the adapter is of type " + text("peft_type", "") +
                       "; only LORA can be converted");
  }
  if (config.flag("use_dora")) return unsupported("DoRA (use_dora) is not LoRA");
  if (config.flag("fan_in_fan_out")) return unsupported("fan_in_fan_out cannot be converted");
  if (text("bias", "none") != "none") {
    return unsupported("the adapter has trained biases (\"bias\"), which its file cannot hold");
  }
  return config;
}

/// A matrix of whose elements each is its row, or its column.
Tensor numbers(int64_t rows, int64_t columns, bool by_row) {
  Tensor out = {.shape = {rows, columns}, .half = false, .read_row = {}};
  out.read_row = [by_row](int64_t row, std::span<float> to) {
    if (by_row) {
      std::ranges::fill(to, static_cast<float>(row));
    } else {
      std::iota(to.begin(), to.end(), 0.0F);
    }
  };
  return out;
}

/// The rows and columns of a matrix of the source that a tensor of the file has.
struct PeftPlace {
  std::string name;
  int expert = -1;
  std::vector<int64_t> rows;
  std::vector<int64_t> columns;
};

Result<std::vector<int64_t>> read_numbers(const Tensor& tensor, bool by_row, int64_t limit,
                                          const std::string& name) {
  const Error odd = unsupported("the matrix of " + name +
                                " is changed by the conversion in a way that an adapter of it "
                                "cannot follow");
  if (tensor.shape.size() != 2) return odd;
  std::vector<float> line(static_cast<size_t>(tensor.width()));
  std::vector<int64_t> out;
  for (int64_t row = 0; row < tensor.rows(); ++row) {
    tensor.read_row(row, line);
    std::vector<int64_t> found;
    for (const float v : line) {
      const auto number = static_cast<int64_t>(v);
      if (!(v >= 0) || static_cast<float>(number) != v || number >= limit) return odd;
      found.push_back(number);
    }
    if (by_row) {
      if (std::ranges::any_of(found, [&](int64_t n) { return n != found[0]; })) return odd;
      out.push_back(found[0]);
    } else if (row == 0) {
      out = std::move(found);
    } else if (out != found) {
      return odd;
    }
  }
  return out;
}

Result<std::vector<PeftPlace>> places_of(const Family& family, const Config& config,
                                         const std::string& module, int64_t rows, int64_t columns) {
  const std::string name = module + ".weight";
  // Larger numbers are no longer exact in f32.
  if (rows >= 1 << 24 || columns >= 1 << 24) return unsupported(name + " is too large");
  CHIMERE_TRY(const PlacedTensors by_row,
              place_tensor(family, config, name, numbers(rows, columns, true)));
  CHIMERE_TRY(const PlacedTensors by_column,
              place_tensor(family, config, name, numbers(rows, columns, false)));
  if (by_row.tensors.empty()) {
    return unsupported("the adapter changes " + name + ", which files do not have");
  }
  std::vector<PeftPlace> out;
  for (size_t i = 0; i < by_row.tensors.size(); ++i) {
    PeftPlace& place = out.emplace_back();
    place.name = by_row.tensors[i].name;
    place.expert = by_row.expert;
    CHIMERE_TRY(place.rows, read_numbers(by_row.tensors[i].tensor, true, rows, name));
    CHIMERE_TRY(place.columns, read_numbers(by_column.tensors[i].tensor, false, columns, name));
  }
  return out;
}

struct PeftPair {
  const SourceTensor* a = nullptr;
  const SourceTensor* b = nullptr;
};

/// "base_model.model.M.lora_A.weight": M, and whether it is A; an empty M: another name.
std::pair<std::string, bool> module_of(std::string_view name) {
  constexpr std::string_view kPrefix = "base_model.model.";
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  for (const std::string_view middle : {"", ".default"}) {
    for (const bool a : {true, false}) {
      const std::string end = (a ? ".lora_A" : ".lora_B") + std::string(middle) + ".weight";
      if (name.ends_with(end)) return {std::string(name.substr(0, name.size() - end.size())), a};
    }
  }
  return {};
}

/// The pairs by module, without what PEFT puts around names.
Result<std::map<std::string, PeftPair>> peft_pairs(const SafetensorsFile& file) {
  std::map<std::string, PeftPair> pairs;
  for (const SourceTensor& tensor : file.tensors) {
    const auto [module, a] = module_of(tensor.name);
    if (module.empty()) {
      return unsupported("the adapter has a tensor '" + tensor.name.substr(0, kShownBytes) +
                         "', which is no lora_A or lora_B of a linear layer");
    }
    if (tensor.shape.size() != 2) {
      return unsupported("the tensor '" + tensor.name + "' is no matrix");
    }
    PeftPair& pair = pairs[module];
    (a ? pair.a : pair.b) = &tensor;
  }
  for (const auto& [module, pair] : pairs) {
    if (pair.a == nullptr || pair.b == nullptr) {
      return invalid_data("the adapter has only one of lora_A and lora_B of " + module);
    }
    const int64_t rank = pair.a->shape[0];
    if (rank != pair.b->shape[1] || rank < 1 || rank > kMaxPeftRank) {
      return invalid_data("lora_A and lora_B of " + module + " have different ranks");
    }
  }
  if (pairs.empty()) return invalid_data("the adapter has no tensors");
  return pairs;
}

Result<std::string> base_folder(const Options& options, const PeftConfig& config) {
  if (!options.base.empty()) return options.base;
  const auto named = config.json.find("base_model_name_or_path");
  std::error_code error;
  if (named != config.json.end() && named->is_string()) {
    const auto folder = std::filesystem::path(named->get<std::string>());
    if (std::filesystem::exists(folder / "config.json", error)) return folder.string();
  }
  return not_found("The adapter's base model is not on this machine; name its folder (--base).");
}

/// Writes f32 rows as the type of the file.
Status add_matrix(gguf::Writer& file, const std::string& name, const Tensor& tensor, DType type,
                  Report& report) {
  const std::vector<int64_t> dims(tensor.shape.rbegin(), tensor.shape.rend());
  const int64_t each = row_bytes(type, tensor.width());
  std::vector<uint8_t> bytes(static_cast<size_t>(tensor.rows() * each));
  std::vector<float> line(static_cast<size_t>(tensor.width()));
  for (int64_t row = 0; row < tensor.rows(); ++row) {
    tensor.read_row(row, line);
    CHIMERE_CHECK_OK(quant::encode(type, line.data(), bytes.data() + row * each, tensor.width()));
  }
  ++report.tensors;
  report.tensor_bytes += bytes.size();
  return file.add_tensor(name, dims, type, bytes.data(), bytes.size());
}

}  // namespace

bool is_adapter_folder(const std::string& folder) {
  std::error_code error;
  return std::filesystem::exists(std::filesystem::path(folder) / kAdapterConfig, error);
}

Result<Report> convert_adapter(const Options& options) {
  CHIMERE_TRY(const PeftConfig peft, read_peft_config(options.folder));
  CHIMERE_TRY(const std::string base, base_folder(options, peft));
  CHIMERE_TRY(auto json, read_json((std::filesystem::path(base) / "config.json").string()));
  if (!json) return not_found(base + " has no config.json; name the folder of the base model");
  CHIMERE_TRY(const Config config, Config::of(*std::move(json)));
  const Family* const family = find_family(config.model_class());
  if (family == nullptr) {
    return unsupported("config.json names the model " + config.model_class() +
                       ", which cannot be converted");
  }
  CHIMERE_TRY(const std::string architecture, family->architecture(config));
  CHIMERE_TRY(const SafetensorsFile source_file,
              open_safetensors(
                  (std::filesystem::path(options.folder) / "adapter_model.safetensors").string()));
  CHIMERE_TRY(const auto pairs, peft_pairs(source_file));

  DType type = DType::kF32;
  const SourceType stored = pairs.begin()->second.a->type;
  if (stored == SourceType::kF16) type = DType::kF16;
  if (stored == SourceType::kBF16) type = DType::kBF16;
  type = options.type.value_or(type);
  if (type == DType::kQ8_0) return unsupported("adapters are f32, f16 or bf16 (--type)");
  CHIMERE_TRY(const double alpha, peft.alpha_of(""));

  gguf::Writer file;
  const auto folder = std::filesystem::weakly_canonical(options.folder);
  file.set_string("general.architecture", architecture);
  file.set_string("general.type", "adapter");
  file.set_string("general.name", folder.filename().string());
  file.set_string("adapter.type", "lora");
  file.set_f32("adapter.lora.alpha", static_cast<float>(alpha));
  Report report = {.architecture = architecture, .type = type, .dropped = {}};
  struct Matrices {
    Tensor a;
    Tensor b;
  };
  std::map<std::string, std::map<int, Matrices>> experts;
  const auto add = [&](const std::string& name, const Matrices& m) -> Status {
    CHIMERE_CHECK_OK(add_matrix(file, name + ".lora_a", m.a, type, report));
    return add_matrix(file, name + ".lora_b", m.b, type, report);
  };
  size_t number = 0;
  for (const auto& [module, pair] : pairs) {
    if (options.progress) options.progress(number++, pairs.size(), module);
    CHIMERE_TRY(Tensor a, source(*pair.a));
    CHIMERE_TRY(Tensor b, source(*pair.b));
    const int64_t rank = a.shape[0];
    // The file's readers apply alpha / rank.
    CHIMERE_TRY(const double own, peft.alpha_of(module));
    const double wanted = own / (peft.flag("use_rslora") ? std::sqrt(static_cast<double>(rank))
                                                         : static_cast<double>(rank));
    const double applied = alpha != 0 ? alpha / static_cast<double>(rank) : 1;
    if (wanted != applied) {
      b = mapped(std::move(b),
                 [f = static_cast<float>(wanted / applied)](float x) { return x * f; });
    }
    CHIMERE_TRY(const auto places, places_of(*family, config, module, b.shape[0], a.shape[1]));
    for (const PeftPlace& place : places) {
      const auto rows = static_cast<int64_t>(place.rows.size());
      Matrices m = {with_columns(a, place.columns), with_rows(b, place.rows, {rows, rank})};
      if (place.expert < 0) {
        CHIMERE_CHECK_OK(add(place.name, m));
      } else {
        experts[place.name].emplace(place.expert, std::move(m));
      }
    }
  }
  for (auto& [name, of] : experts) {
    CHIMERE_TRY(const int64_t count,
                config.integer({"num_local_experts", "num_experts", "n_routed_experts"}, 1));
    if (static_cast<int64_t>(of.size()) != count) {
      return unsupported("the adapter changes " + std::to_string(of.size()) + " of " +
                         std::to_string(count) + " experts of " + name +
                         "; a file needs all of them");
    }
    std::vector<Tensor> as;
    std::vector<Tensor> bs;
    for (auto& [expert, m] : of) {
      as.push_back(std::move(m.a));
      bs.push_back(std::move(m.b));
    }
    CHIMERE_TRY(Tensor a, stacked(std::move(as)));
    CHIMERE_TRY(Tensor b, stacked(std::move(bs)));
    CHIMERE_CHECK_OK(add(name, {std::move(a), std::move(b)}));
  }
  CHIMERE_CHECK_OK(source_file.file.check_unchanged());
  CHIMERE_CHECK_OK(file.write(options.output));
  return report;
}

}  // namespace chimere::convert
