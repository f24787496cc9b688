#include "convert/fixture.h"

#include <cstring>
#include <filesystem>
#include <fstream>

#include "quant/quant.h"

namespace chimere::test {
namespace {

uint64_t fnv1a(std::string_view text) {
  uint64_t h = 0xcbf29ce484222325;
  for (const char c : text) h = (h ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return h;
}

uint64_t mixed(uint64_t z) {  // SplitMix64
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

void append(std::string& out, float x, Stored stored) {
  if (stored == Stored::kF32) {
    out.append(reinterpret_cast<const char*>(&x), sizeof(x));
    return;
  }
  const uint16_t half = stored == Stored::kF16 ? quant::f32_to_f16(x) : quant::f32_to_bf16(x);
  out.append(reinterpret_cast<const char*>(&half), sizeof(half));
}

const char* type_name(Stored stored) {
  switch (stored) {
    case Stored::kF32:
      return "F32";
    case Stored::kF16:
      return "F16";
    case Stored::kBF16:
      break;
  }
  return "BF16";
}

}  // namespace

std::vector<float> drawn(std::string_view name, int64_t count, int offset, int scale) {
  constexpr double kUnit = 4096;
  constexpr int64_t kHalfRange = 1 << 23;
  std::vector<float> out;
  uint64_t state = fnv1a(name);
  for (int64_t i = 0; i < count; ++i) {
    state += 0x9e3779b97f4a7c15;
    const int64_t k = static_cast<int64_t>(mixed(state) >> 40) - kHalfRange;
    out.push_back(static_cast<float>(offset / kUnit + static_cast<double>(k) * (scale / kUnit) /
                                                          static_cast<double>(kHalfRange)));
  }
  return out;
}

void write_model_folder(const Json& fixture, const std::string& folder, Stored stored) {
  const std::filesystem::path root(folder);
  std::filesystem::create_directories(root);
  std::ofstream(root / "config.json") << fixture["config"];
  Json header = Json::object();
  std::string data;
  for (const Json& tensor : fixture["source"]) {
    const std::string name = tensor[0];
    int64_t count = 1;
    for (const Json& dim : tensor[1]) count *= dim.get<int64_t>();
    const size_t begin = data.size();
    for (const float x : drawn(name, count, tensor[2], tensor[3])) append(data, x, stored);
    header[name] = {
        {"dtype", type_name(stored)}, {"shape", tensor[1]}, {"data_offsets", {begin, data.size()}}};
  }
  const std::string text = header.dump();
  const uint64_t size = text.size();
  std::ofstream out(root / "model.safetensors", std::ios::binary);
  out.write(reinterpret_cast<const char*>(&size), sizeof(size));
  out << text << data;
}

}  // namespace chimere::test
