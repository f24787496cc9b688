#include "convert/convert.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "convert/checkpoint.h"
#include "convert/families/registry.h"
#include "convert/plan.h"
#include "convert/pooling.h"
#include "convert/tokenizer.h"
#include "quant/quant.h"

namespace chimere::convert {
namespace {

constexpr DType kOutputTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0};
constexpr uint32_t kQuantizationVersion = 2;

/// general.file_type of GGUF.
uint32_t file_type_number(DType type) {
  switch (type) {
    case DType::kF16:
      return 1;
    case DType::kQ8_0:
      return 7;
    case DType::kBF16:
      return 32;
    default:
      return 0;
  }
}

DType type_of_matrices(const Checkpoint& checkpoint) {
  for (const SourceTensor* tensor : checkpoint.tensors()) {
    if (tensor->shape.size() < 2) continue;
    if (tensor->type == SourceType::kBF16) return DType::kBF16;
    if (tensor->type == SourceType::kF16) return DType::kF16;
  }
  return DType::kF16;
}

Result<Config> read_config(const std::string& folder) {
  const std::string path = (std::filesystem::path(folder) / "config.json").string();
  CHIMERE_TRY(auto json, read_json(path));
  if (!json) return not_found(folder + " has no config.json; give the folder of a model");
  return Config::of(*std::move(json));
}

std::string known_classes() {
  std::string out;
  for (const std::string& name : model_classes()) out += (out.empty() ? "" : ", ") + name;
  return out;
}

/// Q8_0 as llama.cpp's converter rounds it: the largest magnitude becomes 127. (quant::encode()
/// looks for the scale with the least error instead.)
void encode_q8(std::span<const float> row, uint8_t* out) {
  constexpr size_t kBlock = 32;
  for (size_t at = 0; at < row.size(); at += kBlock) {
    const std::span<const float> block = row.subspan(at, kBlock);
    float largest = 0;
    for (const float x : block) largest = std::max(largest, std::abs(x));
    const float scale = largest / 127.0F;
    const float inverse = scale > 0 ? 1.0F / scale : 0.0F;
    const uint16_t stored = quant::f32_to_f16(scale);
    std::memcpy(out, &stored, sizeof(stored));
    out += sizeof(stored);
    for (const float x : block) *out++ = static_cast<uint8_t>(std::lround(x * inverse));
  }
}

/// Encodes all rows into `out`.
Status encode_rows(const Tensor& tensor, DType type, std::span<uint8_t> out) {
  std::vector<float> line(static_cast<size_t>(tensor.width()));
  const auto each = static_cast<size_t>(row_bytes(type, tensor.width()));
  const int64_t rows = tensor.rows();
  for (int64_t row = 0; row < rows; ++row) {
    uint8_t* const to = out.data() + static_cast<size_t>(row) * each;
    if (tensor.read_stored) {
      tensor.read_stored(row, {to, each});
      continue;
    }
    tensor.read_row(row, line);
    if (type == DType::kQ8_0) {
      if (!std::ranges::all_of(line, [](float x) { return std::isfinite(x); })) {
        return invalid_data(
            "a weight is infinite or not a number, which Q8_0 cannot hold; convert "
            "to F32, F16 or BF16");
      }
      encode_q8(line, to);
    } else {
      CHIMERE_CHECK_OK(quant::encode(type, line.data(), to, tensor.width()));
    }
  }
  return {};
}

/// What every file says of itself.
void write_general(const Options& options, DType type, KeyWriter& keys) {
  gguf::Writer& file = keys.file();
  const auto folder = std::filesystem::weakly_canonical(options.folder);
  file.set_string("general.architecture", keys.architecture());
  file.set_string("general.type", "model");
  file.set_string("general.name", folder.filename().string());
  file.set_u32("general.file_type", file_type_number(type));
  file.set_u32("general.quantization_version", kQuantizationVersion);
}

}  // namespace

std::optional<DType> parse_output_type(std::string_view name) {
  const auto type = parse_dtype(name);
  if (!type || std::ranges::find(kOutputTypes, *type) == std::end(kOutputTypes)) {
    return std::nullopt;
  }
  return type;
}

Result<Report> convert_model(const Options& options) {
  CHIMERE_TRY(const Config config, read_config(options.folder));
  const Family* const family = find_family(config.model_class());
  if (family == nullptr) {
    return unsupported("config.json names the model " + config.model_class() +
                       "; these can be converted: " + known_classes());
  }
  CHIMERE_TRY(const Checkpoint checkpoint, open_checkpoint(options.folder));
  CHIMERE_TRY(const std::string architecture, family->architecture(config));
  CHIMERE_TRY(const TensorPlan plan, plan_tensors(*family, config, checkpoint));
  Report report = {.architecture = architecture,
                   .type = options.type.value_or(type_of_matrices(checkpoint)),
                   .tensors = plan.tensors.size(),
                   .tensor_bytes = 0,
                   .dropped = plan.dropped};
  gguf::Writer file;
  KeyWriter keys(file, architecture);
  write_general(options, report.type, keys);
  CHIMERE_CHECK_OK(family->keys(config, keys));
  CHIMERE_CHECK_OK(write_pooling(options.folder, keys));
  if (options.tokenizer && !family->drafter) {
    const auto embedding = std::ranges::find(plan.tensors, "token_embd.weight", &NamedTensor::name);
    CHIMERE_CHECK_OK(write_tokenizer({.folder = options.folder,
                                      .entries = embedding->tensor.shape.front(),
                                      .add_bos = family->add_bos},
                                     config, file));
  }
  size_t number = 0;
  for (const NamedTensor& one : plan.tensors) {
    const DType type = file_type_of(one, report.type);
    std::vector<int64_t> dims(one.tensor.shape.rbegin(), one.tensor.shape.rend());
    const uint64_t bytes = static_cast<uint64_t>(one.tensor.rows()) *
                           static_cast<uint64_t>(row_bytes(type, one.tensor.width()));
    report.tensor_bytes += bytes;
    const auto fill = [&, type, number](std::span<uint8_t> out) -> Status {
      if (options.progress) options.progress(number, plan.tensors.size(), one.name);
      Status status = encode_rows(one.tensor, type, out);
      return status.ok() ? checkpoint.check_unchanged() : status;
    };
    CHIMERE_CHECK_OK(file.add_tensor(one.name, dims, type, bytes, fill));
    ++number;
  }
  CHIMERE_CHECK_OK(file.write(options.output));
  return report;
}

}  // namespace chimere::convert
