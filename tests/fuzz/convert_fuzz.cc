// Parses arbitrary bytes as a safetensors file, a configuration and a SentencePiece model. Accepted
// tensors must lie inside the file, one behind the other.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "convert/config.h"
#include "convert/safetensors.h"
#include "convert/vocabulary_source.h"
#include "fuzz.h"

namespace convert = chimere::convert;

namespace {

// Parts of one text. NOLINTBEGIN(bugprone-suspicious-missing-comma)
constexpr std::string_view kHeaders[] = {
    R"({"b":{"dtype":"F16","shape":[2,3],"data_offsets":[4,16]},)"
    R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})",
    R"({"__metadata__":{"format":"pt"},"x":{"dtype":"BF16","shape":[4,2],"data_offsets":[0,16]}})",
};
// NOLINTEND(bugprone-suspicious-missing-comma)

void require(bool truth, const char* what) {
  if (truth) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

void check_tensors(const uint8_t* data, size_t size) {
  const auto tensors = convert::parse_safetensors({data, size}, "file");
  if (!tensors.ok()) {
    require(!tensors.error().message.empty(), "an error says nothing");
    return;
  }
  const uint8_t* end = data;
  for (const convert::SourceTensor& tensor : *tensors) {
    require(tensor.bytes.data() >= end && tensor.bytes.data() + tensor.bytes.size() <= data + size,
            "a tensor overlaps or leaves the file");
    end = tensor.bytes.data() + tensor.bytes.size();
    const int64_t each = convert::bytes_of(tensor.type);
    require(each == 0 || tensor.elements() * each == static_cast<int64_t>(tensor.bytes.size()),
            "a tensor has another size than its shape");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  check_tensors(data, size);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto model = convert::parse_sentence_piece(text); !model.ok()) {
    require(!model.error().message.empty(), "an error says nothing");
  }
  auto json = convert::parse_json(text, "text");
  if (!json.ok()) return 0;
  const auto config = convert::Config::of(*std::move(json));
  if (!config.ok()) return 0;
  const auto layers = config->layers();
  require(!layers.ok() || *layers > 0, "no layers");
  (void)config->head_dim().ok();
  (void)config->rope_type();
  return 0;
}

std::vector<std::vector<uint8_t>> fuzz_seeds() {
  std::vector<std::vector<uint8_t>> seeds;
  for (const std::string_view header : kHeaders) {
    const uint64_t size = header.size();
    std::vector<uint8_t> seed(sizeof(size));
    std::memcpy(seed.data(), &size, sizeof(size));
    seed.insert(seed.end(), header.begin(), header.end());
    seed.resize(seed.size() + 16);
    seeds.push_back(std::move(seed));
  }
  constexpr std::string_view kConfig =
      R"({"architectures":["LlamaForCausalLM"],"num_hidden_layers":3,"hidden_size":64,)"
      R"("num_attention_heads":4,"text_config":{"rope_scaling":{"type":"linear","factor":2}}})";
  seeds.emplace_back(kConfig.begin(), kConfig.end());
  constexpr std::string_view kPieces(
      "\x0a\x05\x0a\x01"
      "a\x18\x01\x12\x02\x18\x02",
      11);
  seeds.emplace_back(kPieces.begin(), kPieces.end());
  return seeds;
}
