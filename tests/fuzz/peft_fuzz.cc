// Converts a folder of a PEFT adapter with arbitrary contents. The input is the size of the
// configuration (two bytes), the configuration and the safetensors file. An adapter that is
// accepted must be one that can be read.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <string_view>

#include "convert/convert.h"
#include "fuzz.h"
#include "gguf/reader.h"
#include "model/adapter.h"

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBase =
    R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","num_hidden_layers":1,)"
    R"("hidden_size":8,"intermediate_size":16,"num_attention_heads":2,"num_key_value_heads":1,)"
    R"("vocab_size":32,"max_position_embeddings":64,"rms_norm_eps":1e-5,"head_dim":4})";

void require(bool truth, const std::string& what) {
  if (truth) return;
  std::fprintf(stderr, "%s\n", what.c_str());
  std::abort();
}

void write_file(const fs::path& path, std::string_view text) {
  std::ofstream stream(path, std::ios::binary);
  stream.write(text.data(), static_cast<std::streamsize>(text.size()));
  require(stream.good(), "a file cannot be written");
}

/// The folders of the base model and of the adapter, removed at the end.
struct Folder {
  Folder() {
    fs::create_directories(root / "base");
    fs::create_directories(root / "adapter");
    write_file(root / "base/config.json", kBase);
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(root, ignored);
  }
  fs::path root =
      fs::temp_directory_path() / ("chimere-peft-fuzz-" + std::to_string(std::random_device{}()));
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Folder folder;
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const size_t config = std::min<size_t>(data[0] | data[1] << 8, text.size());
  write_file(folder.root / "adapter/adapter_config.json", text.substr(0, config));
  write_file(folder.root / "adapter/adapter_model.safetensors", text.substr(config));
  chimere::convert::Options options;
  options.folder = (folder.root / "adapter").string();
  options.base = (folder.root / "base").string();
  options.output = (folder.root / "out.gguf").string();
  const auto done = chimere::convert::convert_adapter(options);
  if (!done.ok()) {
    require(!done.error().message.empty(), "an error says nothing");
    return 0;
  }
  const auto file = chimere::gguf::Reader::open(options.output);
  require(file.ok(), "a converted adapter cannot be opened");
  const auto adapter = chimere::model::describe_adapter(**file);
  // Ranks above the limit are refused where the adapter is loaded.
  require(adapter.ok() || adapter.error().code == chimere::Error::Code::kUnsupported,
          "a converted adapter cannot be read");
  return 0;
}

std::vector<std::vector<uint8_t>> fuzz_seeds() {
  std::vector<std::vector<uint8_t>> seeds;
  for (const char* config :
       {R"({"peft_type":"LORA","r":2,"lora_alpha":4,"target_modules":["q_proj"]})",
        R"({"peft_type":"LORA","r":2,"lora_alpha":4,"use_rslora":true,"rank_pattern":{},)"
        R"("alpha_pattern":{"q_proj":8},"bias":"none"})"}) {
    const std::string header =
        R"({"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight":{"dtype":"F32",)"
        R"("shape":[2,8],"data_offsets":[0,64]},)"
        R"("base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight":{"dtype":"F32",)"
        R"("shape":[8,2],"data_offsets":[64,128]}})";
    const std::string text = config;
    std::vector<uint8_t> seed = {static_cast<uint8_t>(text.size() & 255),
                                 static_cast<uint8_t>(text.size() >> 8)};
    seed.insert(seed.end(), text.begin(), text.end());
    const uint64_t size = header.size();
    const auto* bytes = reinterpret_cast<const uint8_t*>(&size);
    seed.insert(seed.end(), bytes, bytes + sizeof(size));
    seed.insert(seed.end(), header.begin(), header.end());
    seed.resize(seed.size() + 128, 1);
    seeds.push_back(std::move(seed));
  }
  return seeds;
}
