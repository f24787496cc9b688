#include "orchestrator/intent.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

namespace chimere::orchestrator {
namespace {

/// The shipped intents, fitted once for all tests.
const IntentCascade& shipped() {
  static const IntentCascade* const cascade = [] {
    auto intents = read_intents("");
    EXPECT_TRUE(intents.ok()) << intents.error().message;
    return new IntentCascade(*std::move(intents), {});
  }();
  return *cascade;
}

std::string best_of(const IntentCascade& cascade, std::string_view question) {
  return cascade.ranked(question).front().name;
}

/// Calibration of predictions: the mean distance of confidence and precision in ten bins.
class Calibration {
 public:
  void add(double confidence, bool right) {
    auto& bin = bins_[static_cast<size_t>(std::min(9.0, confidence * 10))];
    bin[0] += confidence;
    bin[1] += right ? 1 : 0;
    ++count_;
  }
  double error() const {
    double out = 0;
    for (const auto& bin : bins_) out += std::abs(bin[0] - bin[1]);
    return out / count_;
  }

 private:
  std::array<std::array<double, 2>, 10> bins_{};
  double count_ = 0;
};

// A classifier that was fitted to the other examples judges each one.
TEST(Intent, CrossValidatedWordsAreRightAndCalibrated) {
  const auto& intents = shipped().intents();
  const auto held_out = shipped().classifier().held_out();
  std::vector<std::array<double, 3>> counts(intents.size());  // right, said, wanted
  Calibration calibration;
  size_t row = 0;
  double sure = 0;
  double sure_and_right = 0;
  for (size_t i = 0; i < intents.size(); ++i) {
    for (size_t j = 0; j < intents[i].examples.size(); ++j, ++row) {
      const auto best = std::ranges::max_element(held_out[row]);
      const auto said = static_cast<size_t>(best - held_out[row].begin());
      counts[i][2] += 1;
      counts[said][1] += 1;
      counts[i][0] += said == i ? 1 : 0;
      calibration.add(*best, said == i);
      if (*best < 0.7) continue;
      sure += 1;
      sure_and_right += said == i ? 1 : 0;
    }
  }
  ASSERT_EQ(row, held_out.size());
  double f1 = 0;
  for (const auto& c : counts) f1 += 2 * c[0] / (c[1] + c[2]) / static_cast<double>(counts.size());
  RecordProperty("macro_f1", std::to_string(f1));
  RecordProperty("calibration_error", std::to_string(calibration.error()));
  EXPECT_GE(f1, 0.85);
  EXPECT_LE(calibration.error(), 0.05);
  EXPECT_GE(sure / static_cast<double>(row), 0.75);
  EXPECT_GE(sure_and_right / sure, 0.9);
}

TEST(Intent, RulesDecideWhereNoOtherIntentIsNear) {
  const auto rule = [](std::string_view text) {
    const auto intent = shipped().by_rules(text);
    return intent ? intent->name : "";
  };
  EXPECT_EQ(rule("Write a poem about autumn leaves"), "write");
  EXPECT_EQ(rule("Write a function that returns nothing"), "code");
  EXPECT_EQ(rule("Which command shows it?"), "how-to");
  EXPECT_EQ(rule("Rééducation après une entorse de la cheville"), "physiotherapy");
  EXPECT_EQ(rule("Write a poem about a segfault"), "");
  EXPECT_EQ(rule("Write a function that calculates the derivative of a polynomial"), "");
  EXPECT_EQ(rule("Rewrite a poem"), "");
  EXPECT_EQ(rule(""), "");
  EXPECT_GE(shipped().by_rules("Write a poem")->confidence, 0.9);
}

TEST(Intent, FilesAndFencesDecideWhereTheWordsAllowIt) {
  const auto file = [](std::string_view text) {
    const auto intent = shipped().by_files(text);
    return intent ? intent->name : "";
  };
  EXPECT_EQ(file("What is wrong with main.rs?"), "code");
  EXPECT_EQ(file("Fix it:\n```py\nx = [\n```"), "code");
  EXPECT_EQ(file("Look at traffic.pcap for an attack"), "security");
  EXPECT_EQ(file("Compare main.rs with traffic.pcap"), "");  // two intents
  EXPECT_EQ(file("Write a birthday poem for my grandmother, save it as poem.py"), "");
  EXPECT_EQ(file("Version 2.5 is not 2.6"), "");
}

TEST(Intent, WordsKnowTraps) {
  const std::map<std::string, std::vector<std::string>> traps = {
      {"write", {"Compose a ballad about a firewall", "Écris une chanson sur un algorithme"}},
      {"chat", {"What is the dress code of a wedding?", "Who invented the Java language?"}},
      {"code", {"Write a C++ function that counts the words of a poem"}},
      {"math", {"A hacker tries 50 passwords per second, how many in 3 hours?"}},
      {"how-to", {"How do I change the password of a user on Debian?"}},
      {"physiotherapy", {"My shoulder hurts after eight hours of writing code"}},
      {"research", {"What do studies say about the effect of poetry on pain?"}},
      {"security", {"An attacker changed a function in our Python code, what now?"}}};
  for (const auto& [intent, questions] : traps) {
    for (const std::string& question : questions) {
      EXPECT_EQ(best_of(shipped(), question), intent) << question;
    }
  }
}

TEST(Intent, ProbabilitiesOfAnyBytesAddUpToOne) {
  for (const std::string& text : {std::string(), std::string("\xff\xfe"), std::string(100000, 'a'),
                                  std::string("?!\n\n```")}) {
    double sum = 0;
    for (const Intent& intent : shipped().ranked(text)) sum += intent.confidence;
    EXPECT_NEAR(sum, 1, 1e-9);
  }
}

/// Intents whose words say nothing, but whose vectors say all.
std::vector<IntentSpec> alike() {
  std::vector<IntentSpec> out(2);
  for (size_t i = 0; i < 2; ++i) {
    out[i].name = i == 0 ? "left" : "right";
    for (int j = 0; j < 40; ++j)
      out[i].examples.push_back(std::string(1, static_cast<char>('a' + i)) + std::to_string(j));
  }
  return out;
}

TEST(Intent, NeighboursDecideWhereTheirEmbedderKnowsMore) {
  const auto knows =
      [](const std::vector<std::string>& texts) -> Result<std::vector<std::vector<float>>> {
    std::vector<std::vector<float>> out;
    for (const std::string& text : texts) {
      out.push_back(text.starts_with('a') ? std::vector<float>{1, 0} : std::vector<float>{0, 1});
    }
    return out;
  };
  const IntentCascade cascade(alike(), knows);
  EXPECT_FALSE(cascade.by_words("a777").has_value());
  const auto near = cascade.by_examples("a777");
  ASSERT_TRUE(near.has_value());
  EXPECT_EQ(near->name, "left");
  EXPECT_EQ(near->stage, "examples");
  EXPECT_EQ(cascade.by_examples("b777")->name, "right");
}

TEST(Intent, NeighboursOfAnEmbedderThatKnowsNothingHaveNoSay) {
  const auto same =
      [](const std::vector<std::string>& texts) -> Result<std::vector<std::vector<float>>> {
    return std::vector<std::vector<float>>(texts.size(), {1, 0});
  };
  const IntentCascade cascade(alike(), same);
  EXPECT_FALSE(cascade.by_examples("a777").has_value());
  const auto fails =
      [](const std::vector<std::string>& /*texts*/) -> Result<std::vector<std::vector<float>>> {
    return unsupported("no embedder");
  };
  EXPECT_FALSE(IntentCascade(alike(), fails).by_examples("a777").has_value());
  EXPECT_FALSE(IntentCascade(alike(), {}).by_examples("a777").has_value());
}

class IntentFolder : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / "intents";
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  std::string error() const {
    const auto read = read_intents(folder_.string());
    return read.ok() ? "" : read.error().message;
  }
  std::filesystem::path folder_;
};

TEST_F(IntentFolder, AddsIntentsAndExamples) {
  write("cooking.yaml",
        "name: cooking\n"
        "phrases: [recipe for]\n"
        "actions: [cook, bake, roast, boil, fry]\n"
        "subjects: [soup, cake, bread, stew, dough, sauce, oven, pan]\n"
        "examples:\n"
        "  - How do I cook rice?\n"
        "  - How long do I boil an egg?\n"
        "  - Bake a cake without butter\n"
        "  - What sauce goes with fish?\n"
        "  - My dough does not rise, why?\n"
        "  - How hot must the oven be for bread?\n"
        "  - Can I fry potatoes without oil?\n"
        "  - How do I thicken a soup?\n"
        "  - Roast a chicken with lemon\n"
        "  - What can I cook with leeks and cream?\n");
  write("code.yaml", "name: code\nexamples: [frobnicate A, frobnicate B, frobnicate C]\n");
  auto intents = read_intents(folder_.string());
  ASSERT_TRUE(intents.ok()) << intents.error().message;
  EXPECT_EQ(intents->size(), 9U);
  const auto code = std::ranges::find(*intents, "code", &IntentSpec::name);
  EXPECT_EQ(code->examples.back(), "frobnicate C");
  EXPECT_GT(code->examples.size(), 100U);
  const IntentCascade cascade(*std::move(intents), {});
  EXPECT_EQ(best_of(cascade, "How long do I roast a duck in the oven?"), "cooking");
  EXPECT_EQ(cascade.by_rules("A recipe for gnocchi, please")->name, "cooking");
  EXPECT_EQ(best_of(cascade, "frobnicate D"), "code");
  EXPECT_EQ(best_of(cascade, "Write a function that reverses a list"), "code");
}

TEST_F(IntentFolder, SaysTheLineOfWhatIsWrong) {
  write("a.yaml", "name: a\nexample: [x]\n");
  EXPECT_EQ(
      error(),
      "a.yaml:1: 'examples' is missing.\na.yaml:2: 'example' is no key here; the keys are name, "
      "phrases, files, actions, subjects, names, examples.");
  write("a.yaml", "name: a\nexamples: [x, y]\n");
  EXPECT_EQ(error(), "a.yaml:2: 'examples' must have 3 at least.");
  write("a.yaml", "name: A b\nexamples: [x, y, z]\n");
  EXPECT_EQ(error(), "a.yaml:1: 'name' may have small letters, digits, - and _ only.");
  write("a.yaml", "name: b\nexamples: [x, y, z]\n");
  EXPECT_EQ(error(), "a.yaml:1: The intent is named 'b'; the file of that name is b.yaml.");
  write("a.yaml", "name: [\n");
  EXPECT_NE(error().find("a.yaml:2: The file is no valid YAML"), std::string::npos) << error();
  write("a.yaml", "name: a\nexamples: [x, y, z]\n");
  EXPECT_EQ(error(), "");
}

}  // namespace
}  // namespace chimere::orchestrator
