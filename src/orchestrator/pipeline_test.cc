#include "orchestrator/pipeline.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "orchestrator/pipeline_store.h"

namespace chimere::orchestrator {
namespace {

namespace fs = std::filesystem;

TEST(Pipeline, ReadsWhatTheSchemaHas) {
  const auto read = parse_pipeline(R"(
name: review
description: two agents
model: other
system: Be brief.
mode: quality
params: {temperature: 0.2, max_tokens: 50}
thinking: 128
engram: [notes]
constraint: {type: choice, choices: [a, b]}
enrich: {when: always, collections: [man], passages: 3, correct: 0.7, incorrect: 0.2}
tools: {allowed: [calculate], rounds: 2}
search: {strategy: dvts, width: 3, budget: 100}
gate: {when: auto, accept: 0.4}
steps:
  - name: one
    system: First.
  - name: two
    hand_over: all
    params: {temperature: 0}
routes: {code: code}
)",
                                   "review.yaml");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->model, "other");
  EXPECT_EQ(read->mode, Mode::kQuality);
  EXPECT_EQ(read->params, (std::vector<std::pair<std::string, std::string>>{{"temp", "0.2"},
                                                                            {"max-tokens", "50"}}));
  EXPECT_EQ(read->constraint.choices, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(read->enrich.passages, 3);
  EXPECT_EQ(read->search.strategy, SearchSpec::Strategy::kDvts);
  ASSERT_EQ(read->steps.size(), 2U);
  EXPECT_EQ(read->steps[1].hand_over, StepSpec::HandOver::kAll);
  EXPECT_EQ(read->routes.at("code"), "code");
}

struct Invalid {
  const char* yaml;
  const char* message;
};

TEST(Pipeline, SaysWhatIsWrongInWhichLine) {
  const Invalid cases[] = {
      {"name: a\nmodes: fast\n", "x.yaml:2: 'modes' is no key here"},
      {"name: a\nmode: slow\n", "x.yaml:2: 'mode' must be one of auto, fast, quality, ultra"},
      {"system: a\n", "x.yaml:1: 'name' is missing"},
      {"name: A B\n", "x.yaml:1: 'name' may have small letters"},
      {"name: a\nparams:\n  temperature: hot\n", "x.yaml:3: "},
      {"name: a\nparams:\n  temperatur: 1\n", "x.yaml:3: 'params.temperatur' is no parameter"},
      {"name: a\nenrich:\n  passages: 0\n", "x.yaml:3: 'enrich.passages' must be a whole number"},
      {"name: a\nenrich: {correct: 0.2, incorrect: 0.5}\n", "'enrich.incorrect' must not be above"},
      {"name: a\nsteps:\n  - system: b\n", "x.yaml:3: 'steps[0].name' is missing"},
      {"name: a\nsteps:\n  - name: b\n  - name: b\n", "x.yaml:4: 'steps[1].name' is the name of"},
      {"name: a\nname: b\n", "'name' is given twice"},
      {"name: a\ntools: [calculate]\n", "x.yaml:2: 'tools' must be a mapping"},
      {"name: a\nconstraint: {type: regex}\n", "'constraint.text' is missing"},
      {"name: a\nthinking: much\n", "x.yaml:2: 'thinking' must be auto, none"},
      {"name: [a\n", "x.yaml:2: The file is no valid YAML"},
      {"- a\n", "x.yaml:1: A pipeline is a mapping"},
  };
  for (const Invalid& c : cases) {
    const auto read = parse_pipeline(c.yaml, "x.yaml");
    ASSERT_FALSE(read.ok()) << c.yaml;
    EXPECT_NE(read.error().message.find(c.message), std::string::npos) << c.yaml << "\n"
                                                                       << read.error().message;
  }
}

TEST(Pipeline, ShippedOnesAreValid) {
  std::vector<std::string> names;
  for (const ShippedPipeline& shipped : shipped_pipelines()) {
    const auto read = parse_pipeline(shipped.yaml, std::string(shipped.name));
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(read->name, shipped.name);
    names.push_back(read->name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"code", "cyber", "default", "kine", "research"}));
}

class Store : public testing::Test {
 protected:
  Store() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~Store() override { fs::remove_all(folder_); }
  void write(const std::string& file, const std::string& text) const {
    std::ofstream(folder_ / file) << text;
  }
  std::unique_ptr<PipelineStore> open() {
    auto store = PipelineStore::open(
        folder_.string(),
        [this](std::string_view what, const std::string& file, const std::string& why) {
          log_.push_back(std::string(what) + " " + file + " " + why);
        });
    EXPECT_TRUE(store.ok());
    return store.ok() ? *std::move(store) : nullptr;
  }

  const fs::path folder_ = fs::path(testing::TempDir()) / "chimere_pipeline_store_test";
  std::vector<std::string> log_;
};

TEST_F(Store, KeepsTheVersionBeforeAnInvalidOneAndSaysWhy) {
  write("mine.yaml", "name: mine\nsystem: first\n");
  const auto store = open();
  ASSERT_TRUE(store);
  EXPECT_EQ(store->current()->at("mine")->system, "first");
  EXPECT_TRUE(store->current()->contains("default"));
  const auto held = store->current();

  write("mine.yaml", "name: mine\nsistem: second, which is longer\n");
  store->refresh();
  EXPECT_EQ(store->current()->at("mine")->system, "first");
  ASSERT_FALSE(log_.empty());
  EXPECT_NE(log_.back().find("rejected mine.yaml mine.yaml:2: 'sistem' is no key here"),
            std::string::npos)
      << log_.back();

  write("mine.yaml", "name: mine\nsystem: third, which has another length\n");
  store->refresh();
  EXPECT_EQ(store->current()->at("mine")->system, "third, which has another length");
  EXPECT_EQ(held->at("mine")->system, "first");

  write("default.yaml", "name: default\nsystem: ours\n");
  store->refresh();
  EXPECT_EQ(store->current()->at("default")->system, "ours");
  fs::remove(folder_ / "default.yaml");
  fs::remove(folder_ / "mine.yaml");
  store->refresh();
  EXPECT_EQ(store->current()->at("default")->system, "");
  EXPECT_FALSE(store->current()->contains("mine"));
}

TEST_F(Store, RefusesToStartWithAnInvalidFile) {
  write("mine.yaml", "name: yours\n");
  const auto store = PipelineStore::open(folder_.string(), [](auto, const auto&, const auto&) {});
  ASSERT_FALSE(store.ok());
  EXPECT_NE(store.error().message.find("the file of that name is yours.yaml"), std::string::npos);
}

}  // namespace
}  // namespace chimere::orchestrator
