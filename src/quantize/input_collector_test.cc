#include "quantize/input_collector.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/fresh_seed.h"
#include "quantize/observing_ops.h"
#include "quantize/plan_budget.h"
#include "quantize/quantize.h"
#include "runtime/load.h"
#include "runtime/prediction.h"
#include "support/tiny_model.h"

namespace chimere::quantize {
namespace {

constexpr int64_t kWindow = 48;

class Observed : public ::testing::Test {
 protected:
  Observed() : path_(::testing::TempDir() + "observed-" + std::to_string(seed_) + ".gguf") {}
  ~Observed() override { std::filesystem::remove(path_); }

  void write(const test::TinyModel& shape) const {
    auto writer = test::make_tiny_model(shape);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE(writer->write(path_).ok());
  }

  Result<runtime::LoadedModel> load(const std::shared_ptr<InputCollector>& collector,
                                    std::unique_ptr<gguf::Reader> file,
                                    const runtime::Runtime& runtime) const {
    Settings settings;
    runtime::MemoryRequest request;
    request.default_context = kWindow;
    request.on_gpu = false;
    if (collector) {
      request.wrap_ops = [collector](std::unique_ptr<kernels::Ops> ops) {
        return make_observing_ops(std::move(ops), [collector](const void* w, ConstMatrixView x) {
          collector->observe(w, x);
        });
      };
    }
    return runtime::load(std::move(file), settings, request, runtime, {});
  }

  std::vector<float> logits(const runtime::LoadedModel& model) const {
    std::vector<int32_t> tokens;
    for (int32_t i = 0; i < kWindow; ++i) tokens.push_back(7 + i * 5 % 200);
    std::vector<float> out;
    const runtime::LoadedModel* one = &model;
    EXPECT_TRUE(
        runtime::for_each_logits({&one, 1}, tokens, kWindow, 0,
                                 [&](int64_t, std::span<const runtime::LogitsRow> rows) -> Status {
                                   out.insert(out.end(), rows[0].begin(), rows[0].end());
                                   return {};
                                 })
            .ok());
    return out;
  }

  const unsigned seed_ = fresh_seed();
  std::string path_;
  runtime::Runtime runtime_{runtime::Runtime::Options{.threads = 2}};
};

TEST_F(Observed, ReportsAllInputsAndChangesNoBit) {
  for (const char* architecture : {"qwen35moe", "qwen3", "qwen3moe"}) {
    test::TinyModel shape;
    shape.architecture = architecture;
    shape.seed = seed_;
    shape.n_vocab = 300;
    write(shape);
    auto plain_file = gguf::Reader::open(path_);
    auto observed_file = gguf::Reader::open(path_);
    ASSERT_TRUE(plain_file.ok() && observed_file.ok());
    const auto collector = std::make_shared<InputCollector>(**observed_file);
    const auto plain = load(nullptr, std::move(*plain_file), runtime_);
    const auto observed = load(collector, std::move(*observed_file), runtime_);
    ASSERT_TRUE(plain.ok() && observed.ok());
    EXPECT_EQ(logits(*plain), logits(*observed)) << architecture;
    const ImportanceMatrix importance = collector->importance();
    const auto plan = plan_uniform(*observed->file, DType::kQ8_0, {});
    ASSERT_TRUE(plan.ok());
    for (const PlannedTensor& tensor : plan->tensors) {
      const std::string& name = tensor.source->name;
      // Look-ups are no products.
      if (tensor.fixed || (name == "token_embd.weight" && !shape.tied_head)) continue;
      const auto found = importance.tensors.find(name);
      ASSERT_NE(found, importance.tensors.end()) << architecture << " " << name;
      double rows = 0;
      for (const float count : found->second.counts) rows += double{count};
      const bool experts = tensor.role == Role::kExperts;
      EXPECT_EQ(rows, experts ? kWindow * shape.n_used : kWindow) << name;
      EXPECT_EQ(found->second.counts.size(), experts ? static_cast<size_t>(shape.n_experts) : 1U);
      double sum = 0;
      for (const float s : found->second.sums) sum += double{s};
      EXPECT_GT(sum, 0) << name;
    }
  }
}

TEST_F(Observed, MeasuredSensitivitiesMakePlansWithinTheBudget) {
  test::TinyModel shape;
  shape.seed = seed_;
  shape.n_vocab = 300;
  write(shape);
  const auto file = gguf::Reader::open(path_);
  ASSERT_TRUE(file.ok());
  LossOptions options;
  for (int i = 0; i < 400; ++i) options.calibration += "some words that the model reads, ";
  const auto table = measure_losses(**file, options, Settings(), runtime_);
  ASSERT_TRUE(table.ok()) << table.error().message;
  for (const double bits : {4.6, 5.5, 8.0}) {
    const auto plan = plan_within(*table, tensor_bytes_at(*table, bits));
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    EXPECT_LE(plan->mean_bits(), bits);
    EXPECT_GT(plan->mean_bits(), bits - 0.2);
  }
  EXPECT_FALSE(plan_within(*table, tensor_bytes_at(*table, 1.0)).ok());
  EXPECT_FALSE(plan_within(*table, 100).ok());
  for (size_t t = 0; t < table->sensitivity.size(); ++t) {
    EXPECT_EQ(table->sensitivity[t] > 0, !table->plan.tensors[t].fixed);
  }
  options.calibration = "short";
  EXPECT_FALSE(measure_losses(**file, options, Settings(), runtime_).ok());
}

std::vector<uint8_t> contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// Everything that a quantisation by measured losses computes.
struct Made {
  std::vector<uint8_t> importance;  ///< the file
  LossTable losses;
  std::vector<DType> types;
  std::vector<uint8_t> model;
};

class Reproduced : public Observed {
 protected:
  ~Reproduced() override {
    for (const std::string& path : {importance_, output_}) std::filesystem::remove(path);
  }

  /// With `interrupted`, a part of the way: every stage that can be cancelled is cancelled there
  /// once and then repeated.
  void make(int threads, double interrupted, Made& made) {
    const runtime::Runtime runtime(runtime::Runtime::Options{.threads = threads});
    measure_inputs(runtime);
    made.importance = contents(importance_);
    const auto importance = load_importance(importance_);
    ASSERT_TRUE(importance.ok()) << importance.error().message;
    const auto file = gguf::Reader::open(path_);
    ASSERT_TRUE(file.ok());

    LossOptions losses;
    losses.importance = &*importance;
    losses.sample = 1024;
    for (int i = 0; i < 20; ++i) losses.calibration += "some words to read, ";
    int calls = 0;
    losses.cancelled = [&] { return ++calls == stop_at(interrupted, measuring_calls_); };
    if (interrupted > 0) {
      const auto cancelled = measure_losses(**file, losses, Settings(), runtime);
      ASSERT_FALSE(cancelled.ok());
      ASSERT_EQ(cancelled.error().code, Error::Code::kCancelled);
    }
    auto table = measure_losses(**file, losses, Settings(), runtime);
    ASSERT_TRUE(table.ok()) << table.error().message;
    if (interrupted == 0) measuring_calls_ = calls;
    const auto plan = plan_within(*table, tensor_bytes_at(*table, 4));
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    for (const PlannedTensor& tensor : plan->tensors) made.types.push_back(tensor.type);
    made.losses = std::move(*table);

    WriteOptions write;
    write.output = output_;
    write.importance = &*importance;
    write.importance_name = "imatrix.gguf";
    calls = 0;
    write.cancelled = [&] { return ++calls == stop_at(interrupted, writing_calls_); };
    ThreadPool pool(threads);
    if (interrupted > 0) {
      ASSERT_FALSE(write_model(**file, *plan, write, pool).ok());
    }
    const auto report = write_model(**file, *plan, write, pool);
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_EQ(report->resumed, interrupted > 0);
    if (interrupted == 0) writing_calls_ = calls;
    made.model = contents(output_);
  }

 private:
  static int stop_at(double interrupted, int calls) {
    return interrupted > 0 ? static_cast<int>(interrupted * calls) : -1;
  }

  /// As `chimere imatrix` does it.
  void measure_inputs(const runtime::Runtime& runtime) const {
    auto file = gguf::Reader::open(path_);
    ASSERT_TRUE(file.ok());
    const auto collector = std::make_shared<InputCollector>(**file);
    const auto model = load(collector, std::move(*file), runtime);
    ASSERT_TRUE(model.ok()) << model.error().message;
    std::vector<int32_t> tokens;
    for (int32_t i = 0; i < 3 * kWindow; ++i) tokens.push_back(7 + i * 5 % 200);
    ASSERT_TRUE(run_windows(*model, tokens, kWindow, [](int64_t) {}).ok());
    ASSERT_TRUE(save_importance(collector->importance(), importance_).ok());
  }

  const std::string importance_ = path_ + ".imatrix";
  const std::string output_ = path_ + ".out";
  int measuring_calls_ = 0;  ///< of `cancelled` in a whole run
  int writing_calls_ = 0;
};

TEST_F(Reproduced, AllBytesWithAnyThreadsAndAfterInterruptions) {
  test::TinyModel shape;
  shape.seed = seed_;
  shape.n_layers = 2;
  shape.attention_interval = 2;
  shape.n_embd = 256;
  shape.n_experts = 3;
  shape.n_vocab = 300;
  write(shape);
  Made first;
  make(1, 0, first);
  if (HasFatalFailure()) return;
  const std::set<DType> formats(first.types.begin(), first.types.end());
  EXPECT_GT(formats.size(), 4U);
  struct Run {
    int threads;
    double interrupted;
  };
  for (const Run run : {Run{2, 0.2}, Run{5, 0.8}}) {
    SCOPED_TRACE(run.threads);
    Made made;
    make(run.threads, run.interrupted, made);
    if (HasFatalFailure()) return;
    EXPECT_EQ(made.importance, first.importance);
    EXPECT_EQ(made.losses.losses, first.losses.losses);
    EXPECT_EQ(made.losses.sensitivity, first.losses.sensitivity);
    EXPECT_EQ(made.types, first.types);
    EXPECT_EQ(made.model, first.model);
  }
}

}  // namespace
}  // namespace chimere::quantize
