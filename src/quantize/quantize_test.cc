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
#include "quantize/sensitivity.h"

namespace chimere::quantize {
namespace {

namespace fs = std::filesystem;

std::vector<uint8_t> contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// Formats of every encoder, those that take little time first.
constexpr DType kFormats[] = {DType::kQ8_0,  DType::kQ4_0,   DType::kQ4_K,   DType::kMXFP4,
                              DType::kQ6_K,  DType::kQ5_1,   DType::kQ2_K,   DType::kTQ2_0,
                              DType::kQ3_K,  DType::kIQ4_NL, DType::kIQ4_XS, DType::kIQ4_K,
                              DType::kIQ2_K, DType::kIQ3_S,  DType::kIQ2_XS, DType::kIQ1_S};

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

  /// A tensor for each of the first `formats` of kFormats. The first has more rows than one thread
  /// encodes at once. The others are experts, whose borders lie within the pieces of two threads.
  void write_mixed_source(size_t formats) {
    gguf::Writer out;
    out.set_string("general.architecture", "qwen35moe");
    for (size_t i = 0; i < formats; ++i) {
      const std::vector<int64_t> dims =
          i == 0 ? std::vector<int64_t>{256, 1100} : std::vector<int64_t>{256, 90, 3};
      const std::vector<float> x = normal(i == 0 ? 256 * 1100 : 256 * 270);
      const std::string name =
          i == 0 ? "token_embd.weight" : "blk." + std::to_string(i) + ".ffn_up_exps.weight";
      ASSERT_TRUE(out.add_tensor(name, dims, DType::kF32, x.data(), x.size() * 4).ok());
    }
    ASSERT_TRUE(out.write(path("source.gguf")).ok());
  }

  /// Of every tensor of the source but the third; one expert of each has no samples.
  ImportanceMatrix random_importance() {
    std::lognormal_distribution<float> distribution(0, 1.5F);
    ImportanceMatrix importance;
    const auto file = open("source.gguf");
    for (const gguf::TensorInfo& t : file->tensors()) {
      if (&t == &file->tensors()[2]) continue;
      InputStatistics& one = importance.tensors[t.name];
      one.n_in = t.dims[0];
      one.counts = t.dims.size() > 2 ? std::vector<float>{50, 0, 7} : std::vector<float>{40};
      for (const float count : one.counts) {
        for (int64_t i = 0; i < one.n_in; ++i) one.sums.push_back(count * distribution(random_));
      }
    }
    return importance;
  }

  /// Each tensor of write_mixed_source() in its format.
  Result<WriteReport> write_mixed(const std::string& name, int threads,
                                  WriteOptions options) const {
    const auto file = open("source.gguf");
    CHIMERE_TRY(Plan plan, plan_uniform(*file, DType::kQ8_0, {}));
    for (size_t i = 0; i < plan.tensors.size(); ++i) plan.tensors[i].type = kFormats[i];
    options.output = path(name);
    ThreadPool pool(threads);
    return write_model(*file, plan, options, pool);
  }

  static WriteOptions with_importance(const ImportanceMatrix& importance) {
    WriteOptions options;
    options.importance = &importance;
    options.importance_name = "imatrix.gguf";
    options.importance_identity = "first";
    return options;
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
  const Rules rules = {
      {"blk.?.attn_q.*"}, {{Role::kOutput, DType::kQ6_K}, {Role::kRecurrent, DType::kQ5_K}}, {}};
  ASSERT_TRUE(write(DType::kQ3_K, "out.gguf", 2, {}, rules).ok());
  const auto out = open("out.gguf");
  const auto type = [&](const char* name) { return out->find_tensor(name)->type; };
  EXPECT_EQ(type("output.weight"), DType::kQ6_K);
  EXPECT_EQ(type("blk.0.attn_qkv.weight"), DType::kQ5_K);  // block 0 has a recurrent mixer
  EXPECT_EQ(type("blk.1.attn_q.weight"), DType::kF32);
  EXPECT_EQ(type("token_embd.weight"), DType::kQ3_K);
  EXPECT_FALSE(write(DType::kQ3_K, "no.gguf", 2, {}, {{"blk.9.*"}, {}, {}}).ok());
  EXPECT_FALSE(
      write(DType::kQ3_K, "no.gguf", 2, {}, {{}, {{Role::kDraft, DType::kQ6_K}}, {}}).ok());
}

TEST_F(Quantize, TypesOnRequestComeBeforeFloors) {
  Rules rules;
  rules.floors = {{Role::kOutput, DType::kQ6_K}, {Role::kAttention, DType::kQ8_0}};
  rules.types = {
      {"output.*", DType::kQ4_K}, {"*put.weight", DType::kQ5_K}, {"token_*", DType::kQ2_K}};
  ASSERT_TRUE(write(DType::kQ3_K, "out.gguf", 2, {}, rules).ok());
  const auto out = open("out.gguf");
  const auto type = [&](const char* name) { return out->find_tensor(name)->type; };
  EXPECT_EQ(type("output.weight"), DType::kQ4_K);
  EXPECT_EQ(type("token_embd.weight"), DType::kQ2_K);
  EXPECT_EQ(type("blk.1.attn_q.weight"), DType::kQ8_0);
  EXPECT_FALSE(write(DType::kQ3_K, "no.gguf", 2, {}, {{}, {}, {{"x*", DType::kQ4_K}}}).ok());
  rules.keep = {"token_*"};
  ASSERT_TRUE(write(DType::kQ3_K, "kept.gguf", 2, {}, rules).ok());
  EXPECT_EQ(open("kept.gguf")->find_tensor("token_embd.weight")->type, DType::kF32);
}

TEST_F(Quantize, BytesDoNotDependOnThreads) {
  write_mixed_source(std::size(kFormats));
  const ImportanceMatrix importance = random_importance();
  for (const WriteOptions& options : {WriteOptions(), with_importance(importance)}) {
    ASSERT_TRUE(write_mixed("one.gguf", 1, options).ok());
    for (const int threads : {2, 5}) {
      ASSERT_TRUE(write_mixed("several.gguf", threads, options).ok());
      EXPECT_EQ(contents(path("several.gguf")), contents(path("one.gguf"))) << threads;
    }
  }
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

/// Cancelled at several points and continued with other threads.
TEST_F(Quantize, ACancelledRunWithImportanceContinues) {
  write_mixed_source(7);
  const ImportanceMatrix importance = random_importance();
  WriteOptions options = with_importance(importance);
  const auto whole = write_mixed("whole.gguf", 1, options);
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  EXPECT_EQ(whole->without_importance, 1U);
  for (const int point : {1, 2, 4, 7}) {
    SCOPED_TRACE(point);
    int calls = 0;
    options.cancelled = [&] { return ++calls == point; };
    const auto cancelled = write_mixed("cut.gguf", 1 + point % 2, options);
    ASSERT_FALSE(cancelled.ok());
    ASSERT_EQ(cancelled.error().code, Error::Code::kCancelled);
    options.cancelled = {};
    const auto report = write_mixed("cut.gguf", point % 2 == 0 ? 1 : 5, options);
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_TRUE(report->resumed);
    EXPECT_EQ(report->without_importance, whole->without_importance);
    EXPECT_EQ(contents(path("cut.gguf")), contents(path("whole.gguf")));
  }
}

/// The files as they are at several points of a run, as if the machine had stopped there: more
/// bytes than the journal names, or a whole tensor less.
TEST_F(Quantize, ACrashedRunWithImportanceContinues) {
  write_mixed_source(7);
  const ImportanceMatrix importance = random_importance();
  WriteOptions options = with_importance(importance);
  options.checkpoint_bytes = 150'000;
  const auto crashed = [](int point) { return "crashed" + std::to_string(point) + ".gguf"; };
  int points = 0;
  options.progress = [&](const WriteProgress&) {
    for (const char* file : {".partial", ".partial.journal"}) {
      fs::copy_file(path("whole.gguf") + file, path(crashed(points)) + file);
    }
    ++points;
  };
  ASSERT_TRUE(write_mixed("whole.gguf", 1, options).ok());
  ASSERT_EQ(points, 8) << "two for the first tensor";
  options.progress = {};
  bool resumed = false;
  for (int point = 0; point < points; point += 2) {
    const auto report = write_mixed(crashed(point), 1 + point, options);
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_EQ(contents(path(crashed(point))), contents(path("whole.gguf"))) << point;
    resumed = resumed || report->resumed;
  }
  EXPECT_TRUE(resumed);
}

TEST_F(Quantize, AnotherImportanceStartsAnew) {
  write_mixed_source(4);
  const ImportanceMatrix first = random_importance();
  const ImportanceMatrix second = random_importance();
  WriteOptions options = with_importance(first);
  int calls = 0;
  options.cancelled = [&] { return ++calls == 3; };
  ASSERT_FALSE(write_mixed("out.gguf", 2, options).ok());
  options = with_importance(second);
  options.importance_identity = "second";
  const auto report = write_mixed("out.gguf", 2, options);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_FALSE(report->resumed);
  ASSERT_TRUE(write_mixed("again.gguf", 2, options).ok());
  EXPECT_EQ(contents(path("out.gguf")), contents(path("again.gguf")));
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
  // What a run that was killed while it wrote leaves is replaced.
  std::ofstream(path("again.gguf.partial"), std::ios::binary) << std::string(100'000, 'x');
  ASSERT_TRUE(save_importance(importance, path("again.gguf")).ok());
  EXPECT_EQ(contents(path("again.gguf")), contents(path("i.gguf")));
  EXPECT_FALSE(fs::exists(path("again.gguf.partial")));
  importance.tensors["a.weight"].sums[1] = -1;
  ASSERT_TRUE(save_importance(importance, path("i.gguf")).ok());
  EXPECT_FALSE(load_importance(path("i.gguf")).ok());
}

TEST(ExpectedSensitivity, FallsFromTheFirstBlockAndFromValuesToKeys) {
  const auto of = [](const char* name, Role role) { return expected_sensitivity(name, role); };
  EXPECT_GT(of("blk.0.ffn_down.weight", Role::kDense), of("blk.1.ffn_down.weight", Role::kDense));
  EXPECT_EQ(of("blk.10.ffn_up.weight", Role::kDense), of("blk.1.ffn_up.weight", Role::kDense));
  EXPECT_GT(of("blk.3.attn_v.weight", Role::kAttention),
            of("blk.3.attn_k.weight", Role::kAttention));
  EXPECT_GT(of("blk.3.ffn_down_exps.weight", Role::kExperts),
            of("blk.3.ffn_down_shexp.weight", Role::kSharedExpert));
  EXPECT_GT(of("output.weight", Role::kOutput), of("blk.0.attn_qkv.weight", Role::kRecurrent));
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
