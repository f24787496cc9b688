#include "orchestrator/relevance.h"

#include <gtest/gtest.h>

#include "orchestrator/words.h"

namespace chimere::orchestrator {
namespace {

std::vector<Passage> passages() {
  return {{"tar extracts files from an archive with the option -x.", "tar", "OPTIONS", "man", 1},
          {"ls lists the contents of directories.", "ls", "NAME", "man", 0.5},
          {"gzip compresses files.", "gzip", "NAME", "man", 0.2}};
}

TEST(Words, KeepNamesWhole) {
  EXPECT_EQ(words_of("What's apt-get in C++, or ls.1?"),
            (std::vector<std::string>{"what", "s", "apt-get", "in", "c++", "or", "ls.1"}));
  const std::string text = "One. Two!\n\nThree? e.g.5 Four";
  std::string joined;
  for (const std::string& s : sentences_of(text)) joined += s;
  EXPECT_EQ(joined, text);
  EXPECT_EQ(sentences_of(text).size(), 4U);
}

TEST(Relevance, IsTheShareOfTheQuestionThatAPassageCovers) {
  const auto r = relevance_of("Which option of tar extracts an archive?", passages());
  ASSERT_EQ(r.size(), 3U);
  EXPECT_GT(r[0], 0.9);
  EXPECT_LT(r[1], 0.2);
  // A name that no passage has weighs most.
  const auto unknown = relevance_of("Which option of zorblat extracts an archive?", passages());
  EXPECT_LT(unknown[0], r[0] - 0.2);
  EXPECT_EQ(relevance_of("the of", passages()), (std::vector<double>{0, 0, 0}));
}

TEST(Relevance, VerdictHasThreeValues) {
  EnrichSpec spec;
  spec.correct = 0.6;
  spec.incorrect = 0.3;
  EXPECT_EQ(verdict_of(std::vector<double>{0.1, 0.7}, spec), Verdict::kCorrect);
  EXPECT_EQ(verdict_of(std::vector<double>{0.1, 0.4}, spec), Verdict::kAmbiguous);
  EXPECT_EQ(verdict_of(std::vector<double>{0.1, 0.2}, spec), Verdict::kIncorrect);
  EXPECT_EQ(verdict_of(std::vector<double>{}, spec), Verdict::kIncorrect);
}

TEST(Relevance, RefineKeepsTheSentencesOfTheQuestion) {
  std::string text = "Tar stores files. ";
  for (int i = 0; i < 50; ++i) text += "Nothing of interest here at all. ";
  text += "The option -x extracts an archive. ";
  const std::string kept = refine("which option extracts an archive", text, 200);
  EXPECT_LE(kept.size(), 200U);
  EXPECT_NE(kept.find("-x extracts"), std::string::npos);
  EXPECT_NE(kept.find("Tar stores"), std::string::npos);
}

TEST(Citations, AreAddedWhereAPassageSupportsASentence) {
  Citations citations({"tar extracts files from an archive with the option -x",
                       "ls lists the contents of directories"});
  std::string out;
  for (const char c : std::string("Tar extracts files. The moon is green cheese. Ls lists the "
                                  "contents of directories [1].")) {
    out += citations.push(std::string(1, c));
  }
  out += citations.finish();
  EXPECT_EQ(out,
            "Tar extracts files [1]. The moon is green cheese. Ls lists the contents of "
            "directories [2].");
  EXPECT_EQ(citations.cited(), (std::vector<bool>{true, true}));
}

TEST(Citations, OfNothingAreTakenBack) {
  Citations citations({"tar extracts files"});
  std::string out = citations.push("Apples are red [1]. Pears [7] are not [12");
  out += citations.finish();
  EXPECT_EQ(out, "Apples are red. Pears are not [12");
  EXPECT_EQ(citations.cited(), (std::vector<bool>{false}));
}

}  // namespace
}  // namespace chimere::orchestrator
