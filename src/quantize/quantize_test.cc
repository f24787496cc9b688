#include "quantize/quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "base/fresh_seed.h"
#include "gguf/writer.h"
#include "quant/quant.h"
#include "quantize/resumable_file.h"

namespace chimere::quantize {
namespace {

namespace fs = std::filesystem;

std::vector<uint8_t> contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

class Quantize : public ::testing::Test {
 protected:
  Quantize() : random_(seed_), trace_(__FILE__, __LINE__, seed_) {
    folder_ = fs::temp_directory_path() /
              ("chimere_quantize_" + std::to_string(seed_) + "_" +
               ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
    write_source();
  }
  ~Quantize() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  std::vector<float> normal(int64_t n) {
    std::normal_distribution<float> distribution(0, 0.05F);
    std::vector<float> x(static_cast<size_t>(n));
    for (float& v : x) v = distribution(random_);
    return x;
  }

  void write_source() {
    gguf::Writer out;
    out.set_string("general.architecture", "qwen35moe");
    out.set_i32("a.number", -7);
    out.set_u32("general.file_type", 0);
    out.set_strings("tokenizer.ggml.tokens", {"a", "b"});
    const auto add = [&](const char* name, const std::vector<int64_t>& dims) {
      int64_t n = 1;
      for (const int64_t d : dims) n *= d;
      const std::vector<float> x = normal(n);
      ASSERT_TRUE(out.add_tensor(name, dims, DType::kF32, x.data(), x.size() * 4).ok());
    };
    add("token_embd.weight", {256, 300});
    add("output_norm.weight", {256});
    add("blk.0.attn_qkv.weight", {256, 512});
    add("blk.0.ssm_out.weight", {256, 256});
    add("blk.0.ssm_conv1d.weight", {4, 512});
    add("blk.0.ffn_gate_inp.weight", {256, 4});
    add("blk.0.ffn_down_exps.weight", {512, 256, 4});
    add("blk.0.ffn_down_shexp.weight", {96, 256});
    add("blk.1.attn_q.weight", {256, 256});
    add("output.weight", {256, 300});
    ASSERT_TRUE(out.write(path("source.gguf")).ok());
  }

  std::unique_ptr<gguf::Reader> open(const std::string& name) const {
    auto file = gguf::Reader::open(path(name));
    EXPECT_TRUE(file.ok()) << (file.ok() ? "" : file.error().message);
    return std::move(file).value();
  }

  Result<WriteReport> write(DType type, const std::string& name, int threads = 2,
                            WriteOptions options = {}, const Rules& rules = {}) const {
    const auto file = open("source.gguf");
    CHIMERE_TRY(const Plan plan, plan_uniform(*file, type, rules));
    options.output = path(name);
    options.settings = "test";
    ThreadPool pool(threads);
    return write_model(*file, plan, options, pool);
  }

  const unsigned seed_ = fresh_seed();
  std::mt19937 random_;
  ::testing::ScopedTrace trace_;
  fs::path folder_;
};

TEST_F(Quantize, EncodesMatricesAndCopiesTheRest) {
  const auto report = write(DType::kQ4_K, "out.gguf");
  ASSERT_TRUE(report.ok()) << report.error().message;
  const auto in = open("source.gguf");
  const auto out = open("out.gguf");
  EXPECT_EQ(report->file_bytes, out->file_bytes());
  EXPECT_EQ(*out->find("a.number"), gguf::Value{int64_t{-7}});
  EXPECT_EQ(out->find_strings("tokenizer.ggml.tokens")->size(), 2U);
  EXPECT_EQ(*out->get_int("general.file_type"), 14);
  EXPECT_EQ(out->find_strings("chimere.quantize.log")->size(), in->tensors().size());
  const auto type = [&](const char* name) { return out->find_tensor(name)->type; };
  EXPECT_EQ(type("token_embd.weight"), DType::kQ4_K);
  EXPECT_EQ(type("output_norm.weight"), DType::kF32);
  EXPECT_EQ(type("blk.0.ssm_conv1d.weight"), DType::kF32);
  EXPECT_EQ(type("blk.0.ffn_gate_inp.weight"), DType::kF32);
  EXPECT_EQ(type("blk.0.ffn_down_exps.weight"), DType::kQ4_K);
  EXPECT_EQ(type("blk.0.ffn_down_shexp.weight"), DType::kQ5_0);  // rows of 96
  for (const gguf::TensorInfo& t : in->tensors()) {
    const gguf::TensorInfo* encoded = out->find_tensor(t.name);
    ASSERT_NE(encoded, nullptr);
    ASSERT_EQ(encoded->dims, t.dims);
    const auto n = static_cast<int64_t>(t.bytes / 4);
    std::vector<uint8_t> want(static_cast<size_t>(row_bytes(encoded->type, n)));
    ASSERT_TRUE(
        quant::encode(encoded->type, static_cast<const float*>(t.data), want.data(), n).ok());
    EXPECT_EQ(std::memcmp(want.data(), encoded->data, want.size()), 0) << t.name;
  }
}

TEST_F(Quantize, FloorsAndKeptTensors) {
  const Rules rules = {{"blk.?.attn_q.*"},
                       {{Role::kOutput, DType::kQ6_K}, {Role::kRecurrent, DType::kQ5_K}}};
  ASSERT_TRUE(write(DType::kQ3_K, "out.gguf", 2, {}, rules).ok());
  const auto out = open("out.gguf");
  const auto type = [&](const char* name) { return out->find_tensor(name)->type; };
  EXPECT_EQ(type("output.weight"), DType::kQ6_K);
  EXPECT_EQ(type("blk.0.attn_qkv.weight"), DType::kQ5_K);  // block 0 has a recurrent mixer
  EXPECT_EQ(type("blk.1.attn_q.weight"), DType::kF32);
  EXPECT_EQ(type("token_embd.weight"), DType::kQ3_K);
  EXPECT_FALSE(write(DType::kQ3_K, "no.gguf", 2, {}, {{"blk.9.*"}, {}}).ok());
  EXPECT_FALSE(write(DType::kQ3_K, "no.gguf", 2, {}, {{}, {{Role::kDraft, DType::kQ6_K}}}).ok());
}

TEST_F(Quantize, BytesDoNotDependOnThreads) {
  ASSERT_TRUE(write(DType::kQ5_K, "one.gguf", 1).ok());
  ASSERT_TRUE(write(DType::kQ5_K, "three.gguf", 3).ok());
  EXPECT_EQ(contents(path("one.gguf")), contents(path("three.gguf")));
}

TEST_F(Quantize, AnInterruptedRunContinues) {
  ASSERT_TRUE(write(DType::kQ6_K, "whole.gguf").ok());
  const std::vector<uint8_t> whole = contents(path("whole.gguf"));
  int calls = 0;
  WriteOptions options;
  options.checkpoint_bytes = 1;
  for (int stop_after = 1; stop_after < 40; ++stop_after) {
    calls = 0;
    options.cancelled = [&] { return ++calls > stop_after % 3; };
    const auto report = write(DType::kQ6_K, "cut.gguf", 1 + stop_after % 2, options);
    if (report.ok()) {
      EXPECT_TRUE(report->resumed);
      break;
    }
    ASSERT_EQ(report.error().code, Error::Code::kCancelled);
    ASSERT_FALSE(fs::exists(path("cut.gguf")));
    ASSERT_TRUE(fs::exists(path("cut.gguf.partial")));
    // What a crash leaves after the last checkpoint is not used.
    std::ofstream(path("cut.gguf.partial"), std::ios::binary | std::ios::app) << "torn bytes";
  }
  EXPECT_EQ(contents(path("cut.gguf")), whole);
  EXPECT_FALSE(fs::exists(path("cut.gguf.partial")));
  EXPECT_FALSE(fs::exists(path("cut.gguf.partial.journal")));
}

TEST_F(Quantize, OtherInputsStartAnew) {
  WriteOptions options;
  options.checkpoint_bytes = 1;
  int calls = 0;
  options.cancelled = [&] { return ++calls > 3; };
  ASSERT_FALSE(write(DType::kQ6_K, "out.gguf", 2, options).ok());
  write_source();  // other numbers of the same shapes
  const auto report = write(DType::kQ6_K, "out.gguf");
  ASSERT_TRUE(report.ok());
  EXPECT_FALSE(report->resumed);
  ASSERT_TRUE(write(DType::kQ6_K, "again.gguf").ok());
  EXPECT_EQ(contents(path("out.gguf")), contents(path("again.gguf")));
}

TEST_F(Quantize, NumbersThatNoFormatHoldsLeaveNoFile) {
  gguf::Writer out;
  std::vector<float> x = normal(256 * 8);
  x[700] = INFINITY;
  ASSERT_TRUE(
      out.add_tensor("blk.0.ffn_up.weight", {256, 8}, DType::kF32, x.data(), x.size() * 4).ok());
  ASSERT_TRUE(out.write(path("source.gguf")).ok());
  const auto report = write(DType::kQ4_K, "out.gguf");
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, Error::Code::kInvalidData);
  EXPECT_NE(report.error().message.find("blk.0.ffn_up.weight"), std::string::npos);
  EXPECT_NE(report.error().message.find("row 2"), std::string::npos);
  EXPECT_FALSE(fs::exists(path("out.gguf")));
  EXPECT_FALSE(fs::exists(path("out.gguf.partial")));
}

TEST_F(Quantize, ImportanceLowersTheWeightedErrorOfEachExpert) {
  ImportanceMatrix importance;
  InputStatistics& experts = importance.tensors["blk.0.ffn_down_exps.weight"];
  experts.n_in = 512;
  experts.counts = {50, 3, 0, 80};
  std::lognormal_distribution<float> distribution(0, 1.5F);
  for (const float count : experts.counts) {
    for (int i = 0; i < 512; ++i) experts.sums.push_back(count * distribution(random_));
  }
  const auto weights = importance.weights("blk.0.ffn_down_exps.weight", 512, 4);
  ASSERT_TRUE(weights.ok());
  WriteOptions options;
  options.importance = &importance;
  options.importance_name = "imatrix.gguf";
  const auto with = write(DType::kQ2_K, "with.gguf", 2, options);
  ASSERT_TRUE(with.ok()) << with.error().message;
  EXPECT_EQ(with->without_importance, 6U);
  ASSERT_TRUE(write(DType::kQ2_K, "without.gguf").ok());
  const auto source = open("source.gguf");
  const auto* x =
      static_cast<const float*>(source->find_tensor("blk.0.ffn_down_exps.weight")->data);
  const auto errors = [&](const std::string& name) {
    const auto file = open(name);
    const gguf::TensorInfo* t = file->find_tensor("blk.0.ffn_down_exps.weight");
    std::vector<float> y(512 * 256 * 4);
    quant::decode(t->type, t->data, y.data(), static_cast<int64_t>(y.size()));
    std::vector<double> sums(4);
    for (size_t i = 0; i < y.size(); ++i) {
      const double d = double{x[i]} - double{y[i]};
      const size_t expert = i / (size_t{512} * 256);
      sums[expert] += double{(*weights)[expert * 512 + i % 512]} * d * d;
    }
    return sums;
  };
  const auto better = errors("with.gguf");
  const auto plain = errors("without.gguf");
  for (size_t e = 0; e < 4; ++e) EXPECT_LT(better[e], 0.9 * plain[e]) << e;
  EXPECT_EQ(*open("with.gguf")->get_string("quantize.imatrix.file"), "imatrix.gguf");
}

TEST_F(Quantize, ImportanceFilesRoundTripAndRefuseNonsense) {
  ImportanceMatrix importance;
  importance.datasets = {"text.txt"};
  importance.chunks = 3;
  importance.chunk_size = 512;
  importance.tensors["a.weight"] = {2, {1, 4, 3, 0}, {10, 0}};
  ASSERT_TRUE(save_importance(importance, path("i.gguf")).ok());
  const auto read = load_importance(path("i.gguf"));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->tensors.at("a.weight").sums, importance.tensors["a.weight"].sums);
  EXPECT_EQ(read->chunks, 3U);
  EXPECT_FALSE(read->weights("a.weight", 2, 3).ok());
  EXPECT_FALSE(read->weights("a.weight", 4, 2).ok());
  EXPECT_TRUE(read->weights("b.weight", 2, 2)->empty());
  // The second matrix has no samples: it gets the mean of all.
  const std::vector<float> w = *read->weights("a.weight", 2, 2);
  EXPECT_NEAR(w[2], 0.1, 1e-6);
  EXPECT_FALSE(load_importance(path("source.gguf")).ok());
  importance.tensors["a.weight"].sums[1] = -1;
  ASSERT_TRUE(save_importance(importance, path("i.gguf")).ok());
  EXPECT_FALSE(load_importance(path("i.gguf")).ok());
}

TEST(TensorRules, Patterns) {
  EXPECT_TRUE(matches("blk.*.ffn_*", "blk.12.ffn_up.weight"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("a*b*c", "aXbbYc"));
  EXPECT_FALSE(matches("a*b*c", "aXbbY"));
  EXPECT_FALSE(matches("blk.?.x", "blk.10.x"));
  EXPECT_EQ(fitting_type(DType::kQ4_K, 96), DType::kQ5_0);
  EXPECT_EQ(fitting_type(DType::kIQ2_XS, 96), DType::kIQ4_NL);
  EXPECT_EQ(fitting_type(DType::kQ4_0, 40), DType::kF16);
}

}  // namespace
}  // namespace chimere::quantize
