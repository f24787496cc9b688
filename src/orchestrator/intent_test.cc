#include "orchestrator/intent.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "orchestrator/words.h"

namespace chimere::orchestrator {
namespace {

struct Labelled {
  const char* intent;  ///< "": the cheap stages should abstain
  const char* text;
};

// Written apart from the rules; half are traps, whose obvious word misleads.
constexpr Labelled kQuestions[] = {
    {"code", "Write a function in Python that merges two sorted lists"},
    {"code", "Implement a ring buffer in C++"},
    {"code", "Please refactor this class so that it has one responsibility"},
    {"code", "Why does this code raise an exception?"},
    {"code", "Écris une fonction qui inverse une chaîne"},
    {"code", "Write a unit test for parse_date"},
    {"code", "There is a bug in my parser.py, can you find it?"},
    {"code", "What is wrong with main.rs?"},
    {"security", "We see thousands of failed password lines for root from one address"},
    {"security", "Is CVE-2021-44228 a vulnerability of our server?"},
    {"security", "A user opened a phishing mail, what now?"},
    {"security", "Check this capture: traffic.pcap"},
    {"security", "How do we contain the ransomware?"},
    {"research", "Compare the evidence for the two diets and cite sources"},
    {"research", "Give me an overview of the literature on sleep"},
    {"research", "What is the state of the art in speech recognition?"},
    {"physiotherapy", "Which exercises for a rotator cuff tendinopathy?"},
    {"physiotherapy", "Rééducation après une entorse de la cheville"},
    {"physiotherapy", "Is stretching good for low back pain?"},
    {"math", "Calculate 17% of 430"},
    {"math", "Solve the equation x^2 = 2"},
    {"math", "How much is 12 times 12?"},
    {"write", "Write a poem about autumn"},
    {"write", "Translate this sentence into French"},
    {"write", "Summarise this article"},
    {"how-to", "Which command shows the free space of a disk?"},
    {"how-to", "How do I install a package on Debian?"},
    {"how-to", "What does the command grep do?"},
    {"chat", "Hello, how are you?"},
    {"chat", "Merci, bonne journée"},
    // Traps.
    {"", "What is the dress code for the opera?"},
    {"", "Which zip code has Springfield?"},
    {"", "Are pythons dangerous?"},
    {"", "Tell me about the island of Java"},
    {"", "Who wrote for Monty Python?"},
    {"", "How is a bed bug bite treated?"},
    {"", "He had a heart attack last year"},
    {"", "My neighbour exploits his garden"},
    {"", "Is music an integral part of life?"},
    {"", "Can a detective solve a crime alone?"},
    {"", "Does the museum count derivative works?"},
    {"", "Where is the function room of the hotel?"},
    {"", "I like my coffee strong"},
    {"", "What colour is rust on iron?"},
};

std::optional<Intent> cheap(const char* text) {
  auto intent = intent_by_rules(text);
  return intent ? intent : intent_by_files(text);
}

TEST(Intent, CheapStagesAreRightOrAbstain) {
  std::map<std::string, std::array<int, 3>> counts;  // right, said, wanted
  int abstained = 0;
  int said = 0;
  int right = 0;
  double confidence = 0;
  for (const Labelled& q : kQuestions) {
    const auto intent = cheap(q.text);
    const std::string name = intent ? intent->name : "";
    EXPECT_EQ(name, q.intent) << q.text;
    counts[q.intent][2] += 1;
    counts[name][1] += 1;
    counts[name][0] += name == q.intent ? 1 : 0;
    if (!intent) {
      ++abstained;
      continue;
    }
    ++said;
    right += name == q.intent ? 1 : 0;
    confidence += intent->confidence;
  }
  double f1 = 0;
  for (const auto& [name, c] : counts) f1 += 2.0 * c[0] / std::max(1, c[1] + c[2]);
  f1 /= static_cast<double>(counts.size());
  RecordProperty("macro_f1", std::to_string(f1));
  EXPECT_GE(f1, 0.9);
  EXPECT_GE(abstained, 14);
}

TEST(Intent, ExamplesDecideByNeighboursAndAbstainFarAway) {
  // One dimension for each word: texts with common words are near.
  std::map<std::string, size_t> ids;
  const Embed embed =
      [&ids](const std::vector<std::string>& texts) -> Result<std::vector<std::vector<float>>> {
    std::vector<std::vector<float>> out;
    for (const std::string& text : texts) {
      std::vector<float> v(512, 0.0F);
      for (const std::string& word : words_of(text)) {
        if (!is_function_word(word)) v[ids.emplace(word, ids.size() % 512).first->second] = 1;
      }
      float norm = 0;
      for (const float x : v) norm += x * x;
      for (float& x : v) x = norm > 0 ? x / std::sqrt(norm) : 0;
      out.push_back(std::move(v));
    }
    return out;
  };
  auto examples = IntentExamples::create(embed);
  ASSERT_TRUE(examples.ok()) << examples.error().message;
  const auto near = examples->classify("reverses a linked list with a function");
  ASSERT_TRUE(near.has_value());
  EXPECT_EQ(near->name, "code");
  EXPECT_EQ(near->stage, "examples");
  EXPECT_FALSE(examples->classify("zebra quagga okapi").has_value());
}

}  // namespace
}  // namespace chimere::orchestrator
