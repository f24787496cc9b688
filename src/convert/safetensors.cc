#include "convert/safetensors.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "convert/json_text.h"

namespace chimere::convert {
namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr size_t kMaxDims = 8;

struct TypeRow {
  std::string_view name;
  SourceType type;
  int64_t bytes;
};
constexpr TypeRow kTypes[] = {
    {"F32", SourceType::kF32, 4},       {"F16", SourceType::kF16, 2},
    {"BF16", SourceType::kBF16, 2},     {"U8", SourceType::kU8, 1},
    {"F64", SourceType::kOther, 8},     {"I64", SourceType::kOther, 8},
    {"U64", SourceType::kOther, 8},     {"I32", SourceType::kOther, 4},
    {"U32", SourceType::kOther, 4},     {"I16", SourceType::kOther, 2},
    {"U16", SourceType::kOther, 2},     {"I8", SourceType::kOther, 1},
    {"BOOL", SourceType::kOther, 1},    {"F8_E4M3", SourceType::kOther, 1},
    {"F8_E5M2", SourceType::kOther, 1},
};

struct Placed {
  SourceTensor tensor;
  uint64_t begin = 0;
  uint64_t end = 0;
};

/// A non-negative integer, or false.
bool unsigned_value(const Json& value, uint64_t& out) {
  if (!value.is_number_integer() || (!value.is_number_unsigned() && value.get<int64_t>() < 0)) {
    return false;
  }
  out = value.get<uint64_t>();
  return true;
}

/// `bytes`: of all tensors together.
Result<Placed> read_entry(const std::string& name, const Json& entry, uint64_t bytes,
                          const std::string& path) {
  const std::string who = path + ": the tensor '" + name.substr(0, kShownBytes) + "'";
  const auto at = [&](const char* key) {
    return entry.is_object() ? entry.find(key) : entry.end();
  };
  const auto type = at("dtype");
  const auto shape = at("shape");
  const auto offsets = at("data_offsets");
  if (!entry.is_object() || type == entry.end() || !type->is_string() || shape == entry.end() ||
      !shape->is_array() || shape->size() > kMaxDims || offsets == entry.end() ||
      !offsets->is_array() || offsets->size() != 2) {
    return invalid_data(who + " has no valid dtype, shape and data_offsets");
  }
  Placed out;
  out.tensor.name = name;
  out.tensor.type_name = type->get_ref<const std::string&>();
  const auto* const row = std::ranges::find(kTypes, out.tensor.type_name, &TypeRow::name);
  if (row == std::end(kTypes)) {
    return invalid_data(who + " has the unknown type '" +
                        out.tensor.type_name.substr(0, kShownBytes) + "'");
  }
  out.tensor.type = row->type;
  uint64_t size = static_cast<uint64_t>(row->bytes);
  for (const Json& dim : *shape) {
    uint64_t n = 0;
    if (!unsigned_value(dim, n) || n == 0 || n > bytes / size) {
      return invalid_data(who + " has a shape that does not fit into the file");
    }
    size *= n;
    out.tensor.shape.push_back(static_cast<int64_t>(n));
  }
  if (!unsigned_value((*offsets)[0], out.begin) || !unsigned_value((*offsets)[1], out.end) ||
      out.begin > out.end || out.end > bytes) {
    return invalid_data(who + " lies outside the file");
  }
  if (out.end - out.begin != size) {
    return invalid_data(who + " has " + std::to_string(out.end - out.begin) +
                        " bytes where its shape and type need " + std::to_string(size));
  }
  return out;
}

}  // namespace

int64_t SourceTensor::elements() const {
  int64_t n = 1;
  for (const int64_t d : shape) n *= d;
  return n;
}

int64_t bytes_of(SourceType type) {
  switch (type) {
    case SourceType::kF32:
      return 4;
    case SourceType::kF16:
    case SourceType::kBF16:
      return 2;
    case SourceType::kU8:
      return 1;
    case SourceType::kOther:
      break;
  }
  return 0;
}

Result<std::vector<SourceTensor>> parse_safetensors(std::span<const uint8_t> file,
                                                    const std::string& path) {
  uint64_t header = 0;
  if (file.size() < sizeof(header)) {
    return invalid_data(path + " is too short for a safetensors file");
  }
  std::memcpy(&header, file.data(), sizeof(header));
  if (header > kMaxHeaderBytes || header > file.size() - sizeof(header)) {
    return invalid_data(path + " says that its header has " + std::to_string(header) +
                        " bytes, which cannot be; the file is damaged or incomplete");
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + sizeof(header),
                              static_cast<size_t>(header));
  CHIMERE_TRY(const Json entries, parse_json(text, "the header of " + path));
  const auto data = file.subspan(sizeof(header) + static_cast<size_t>(header));
  std::vector<Placed> placed;
  for (const auto& [name, entry] : entries.items()) {
    if (name == "__metadata__") continue;
    CHIMERE_TRY(Placed one, read_entry(name, entry, data.size(), path));
    placed.push_back(std::move(one));
  }
  std::ranges::sort(placed, {}, [](const Placed& p) { return std::pair(p.begin, p.end); });
  uint64_t at = 0;
  for (const Placed& p : placed) {
    if (p.begin != at) {
      return invalid_data(path + ": the tensor '" + p.tensor.name.substr(0, kShownBytes) + "' " +
                          (p.begin < at ? "overlaps another one" : "leaves a gap before it"));
    }
    at = p.end;
  }
  if (at != data.size()) {
    return invalid_data(path + " has " + std::to_string(data.size() - at) +
                        " bytes behind its last tensor");
  }
  std::vector<SourceTensor> out;
  out.reserve(placed.size());
  for (Placed& p : placed) {
    p.tensor.bytes =
        data.subspan(static_cast<size_t>(p.begin), static_cast<size_t>(p.end - p.begin));
    out.push_back(std::move(p.tensor));
  }
  return out;
}

Result<SafetensorsFile> open_safetensors(const std::string& path) {
  SafetensorsFile out;
  CHIMERE_TRY(out.file, MappedFile::open(path));
  CHIMERE_TRY(out.tensors, parse_safetensors({out.file.data(), out.file.size()}, path));
  return out;
}

}  // namespace chimere::convert
