// Converts a model of the gpt-oss family whose experts are in MXFP4, as OpenAI publishes them: the
// file has the values of the checkpoint, and runs.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "convert/convert.h"
#include "convert/fixture.h"
#include "gguf/reader.h"
#include "kernels/api.h"
#include "model/model.h"
#include "quant/quant.h"

namespace chimere {
namespace {

using test::Json;

constexpr int64_t kExperts = 4;
constexpr int64_t kWidth = 64;  // of the model and of each expert

struct Part {
  std::string name;
  std::vector<int64_t> shape;
  std::string type;
  std::string bytes;
};

std::string drawn_bytes(const std::string& name, int64_t count, int lowest, int highest) {
  std::string out;
  for (const float x : test::drawn(name, count, 2048, 2048)) {  // in [0, 1)
    out +=
        static_cast<char>(lowest + static_cast<int>(x * static_cast<float>(highest - lowest + 1)));
  }
  return out;
}

/// The tensors of the fixture, with experts [4, rows, 64] in MXFP4.
std::vector<Part> checkpoint_of(const Json& fixture) {
  std::vector<Part> out;
  for (const Json& tensor : fixture["source"]) {
    const std::string name = tensor[0];
    if (name.ends_with("experts.gate_up_proj") || name.ends_with("experts.down_proj")) {
      const int64_t rows = name.ends_with("gate_up_proj") ? 2 * kWidth : kWidth;
      const int64_t blocks = kExperts * rows * kWidth / 32;
      out.push_back({name + "_blocks",
                     {kExperts, rows, kWidth / 32, 16},
                     "U8",
                     drawn_bytes(name + "b", blocks * 16, 0, 255)});
      out.push_back({name + "_scales",
                     {kExperts, rows, kWidth / 32},
                     "U8",
                     drawn_bytes(name + "s", blocks, 120, 124)});
      continue;
    }
    const auto shape = tensor[1].get<std::vector<int64_t>>();
    int64_t count = 1;
    for (const int64_t dim : shape) count *= dim;
    const auto values = test::drawn(name, count, tensor[2], tensor[3]);
    out.push_back(
        {name, shape, "F32",
         std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float))});
  }
  return out;
}

void write_folder(const Json& fixture, const std::vector<Part>& parts, const std::string& folder) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/config.json") << fixture["config"];
  Json header = Json::object();
  std::string data;
  for (const Part& part : parts) {
    header[part.name] = {{"dtype", part.type},
                         {"shape", part.shape},
                         {"data_offsets", {data.size(), data.size() + part.bytes.size()}}};
    data += part.bytes;
  }
  const std::string text = header.dump();
  const uint64_t size = text.size();
  std::ofstream out(folder + "/model.safetensors", std::ios::binary);
  out.write(reinterpret_cast<const char*>(&size), sizeof(size));
  out << text << data;
}

const Part& part_of(const std::vector<Part>& parts, const std::string& name) {
  return *std::ranges::find(parts, name, &Part::name);
}

/// Element [expert, row, column] of a published tensor: E2M1 times 2^(scale - 127).
float published(const std::vector<Part>& parts, const std::string& name, int64_t rows,
                int64_t expert, int64_t row, int64_t column) {
  constexpr float kMagnitudes[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  const int64_t block = (expert * rows + row) * (kWidth / 32) + column / 32;
  const auto byte = static_cast<uint8_t>(
      part_of(parts, name + "_blocks").bytes[static_cast<size_t>(block * 16 + column % 32 / 2)]);
  const auto scale =
      static_cast<uint8_t>(part_of(parts, name + "_scales").bytes[static_cast<size_t>(block)]);
  const int code = column % 2 == 0 ? byte & 15 : byte >> 4;
  const float magnitude = std::ldexp(kMagnitudes[code & 7], scale - 127);
  return code < 8 ? magnitude : -magnitude;
}

class Mxfp4 : public testing::Test {
 protected:
  Mxfp4() : folder_(testing::TempDir() + "/convert_mxfp4") {
    std::ifstream in(std::string(CHIMERE_CONVERT_MODELS) + "/gpt_oss.json");
    fixture_ = Json::parse(in);
    parts_ = checkpoint_of(fixture_);
  }
  ~Mxfp4() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Result<convert::Report> convert(DType type) {
    write_folder(fixture_, parts_, folder_);
    convert::Options options;
    options.folder = folder_;
    options.output = folder_ + "/out.gguf";
    options.type = type;
    options.tokenizer = false;
    return convert::convert_model(options);
  }

  Json fixture_;
  std::vector<Part> parts_;
  std::string folder_;
};

TEST_F(Mxfp4, KeepsTheBitsOfExpertsAndRuns) {
  const auto report = convert(DType::kBF16);
  ASSERT_TRUE(report.ok()) << report.error().message;
  const auto file = gguf::Reader::open(folder_ + "/out.gguf");
  ASSERT_TRUE(file.ok()) << file.error().message;
  struct Place {
    const char* name;
    const char* source;
    int64_t rows, step, first;  // of the source: row step * i + first
  };
  for (const Place& place : {Place{"ffn_gate_exps", "gate_up_proj", 2 * kWidth, 2, 0},
                             Place{"ffn_up_exps", "gate_up_proj", 2 * kWidth, 2, 1},
                             Place{"ffn_down_exps", "down_proj", kWidth, 1, 0}}) {
    const gguf::TensorInfo* tensor =
        (*file)->find_tensor("blk.1." + std::string(place.name) + ".weight");
    ASSERT_NE(tensor, nullptr) << place.name;
    ASSERT_EQ(tensor->type, DType::kMXFP4);
    ASSERT_EQ(tensor->dims, (std::vector<int64_t>{kWidth, kWidth, kExperts}));
    std::vector<float> values(static_cast<size_t>(kExperts * kWidth * kWidth));
    quant::decode(DType::kMXFP4, tensor->data, values.data(), std::ssize(values));
    size_t at = 0;
    for (int64_t expert = 0; expert < kExperts; ++expert) {
      for (int64_t row = 0; row < kWidth; ++row) {
        for (int64_t column = 0; column < kWidth; ++column) {
          ASSERT_EQ(values[at++],
                    published(parts_, "model.layers.1.mlp.experts." + std::string(place.source),
                              place.rows, expert, place.step * row + place.first, column))
              << place.name << " " << expert << " " << row << " " << column;
        }
      }
    }
  }
  ThreadPool pool(1);
  const auto ops = kernels::make_cpu_ops(pool);
  const auto model = model::load_model(**file, *ops, {});
  ASSERT_TRUE(model.ok()) << model.error().message;
  const auto sequence = (*model)->states().create_sequence();
  model::SequenceRows rows;
  rows.state = sequence.get();
  rows.tokens = {1, 2, 3};
  rows.row_class = model::RowClass::kDecode;
  rows.logits_of = {2};
  const auto result = (*model)->forward({{rows}});
  ASSERT_TRUE(result.ok()) << result.error().message;
  for (int64_t i = 0; i < (*model)->n_vocab(); ++i) {
    EXPECT_TRUE(std::isfinite(result->logits.row(0)[i]));
  }
}

TEST_F(Mxfp4, RefusesScalesThatDoNotFit) {
  for (Part& part : parts_) {
    if (!part.name.ends_with("layers.2.mlp.experts.down_proj_scales")) continue;
    part.shape = {kExperts, kWidth / 2, kWidth / 16};
  }
  const auto report = convert(DType::kF32);
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.error().message.find("layers.2.mlp.experts.down_proj_blocks"), std::string::npos)
      << report.error().message;
}

TEST_F(Mxfp4, RefusesBlocksWithoutScales) {
  std::erase_if(parts_, [](const Part& part) {
    return part.name.ends_with("layers.0.mlp.experts.down_proj_scales");
  });
  const auto report = convert(DType::kF32);
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.error().message.find("layers.0.mlp.experts.down_proj_blocks"), std::string::npos)
      << report.error().message;
}

}  // namespace
}  // namespace chimere
