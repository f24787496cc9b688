#include "orchestrator/quotation.h"

#include <gtest/gtest.h>

#include "orchestrator/relevance.h"
#include "orchestrator/words.h"

namespace chimere::orchestrator {
namespace {

std::vector<Passage> pages() {
  return {
      {"NAME\n    tar - an archiving utility\n\nOPTIONS\n    -x, --extract\n        Extract files "
       "from\n        an archive.\n    -c, --create\n        Create a new archive.\n",
       "/pages/tar.txt", "", "man", 1},
      {"The command gzip reduces the size of the named files. It keeps their owners.", "gzip",
       "DESCRIPTION", "man", 0.5}};
}

TEST(Quotation, PartsAreParagraphsAndOptions) {
  const auto parts = quotable_parts(pages()[0].text);
  EXPECT_EQ(parts, (std::vector<std::string>{"tar - an archiving utility",
                                             "-x, --extract Extract files from an archive.",
                                             "-c, --create Create a new archive."}));
  EXPECT_TRUE(quotable_parts("").empty());
  const std::string long_text = std::string(300, 'a') + ". " + std::string(700, 'b');
  for (const std::string& part : quotable_parts(long_text)) EXPECT_LE(part.size(), 404U);
}

TEST(Quotation, AnswersFromTheBestPart) {
  const auto option = quote("Which option of tar extracts an archive?", pages());
  ASSERT_TRUE(option);
  EXPECT_EQ(option->passage, 0U);
  EXPECT_EQ(option->text, "-x, --extract Extract files from an archive.");
  const auto named = quote("What does the option --create of tar do?", pages());
  ASSERT_TRUE(named);
  EXPECT_EQ(named->text, "-c, --create Create a new archive.");
  for (const char* question : {"What does tar do?", "pls explain tar thx", "ELI5 tar",
                               "A colleague told me to run tar. What will it do for me?"}) {
    const auto purpose = quote(question, pages());
    ASSERT_TRUE(purpose) << question;
    EXPECT_EQ(purpose->text, "tar - an archiving utility") << question;
  }
  const auto sentence = quote("What does gzip reduce?", pages());
  ASSERT_TRUE(sentence);
  EXPECT_EQ(sentence->passage, 1U);
  EXPECT_FALSE(quote("zorblat", pages()));
  EXPECT_FALSE(quote("what is it", pages()));
  EXPECT_FALSE(quote("tar", {}));
}

TEST(Quotation, SupportLeavesTheQuestionOut) {
  EXPECT_FALSE(support_of("tar", "What does tar do?", pages()));
  EXPECT_DOUBLE_EQ(*support_of("tar is an archiving utility", "What does tar do?", pages()), 1);
  EXPECT_LT(*support_of("tar paints pictures of cats", "What does tar do?", pages()), 0.1);
}

TEST(Relevance, OfRequestsInAnyWordsIsThatOfTheirSubject) {
  const auto known = relevance_of("A colleague told me to run tar. What will it do?", pages());
  EXPECT_GT(known[0], 0.7);
  EXPECT_LT(known[1], 0.3);
  const auto unknown = relevance_of("A colleague told me to run zorb. What will it do?", pages());
  EXPECT_LT(unknown[0], 0.3);
}

TEST(Words, WeakOnesAreSorted) {
  EXPECT_TRUE(is_weak_word("about"));
  EXPECT_TRUE(is_weak_word("yet"));
  EXPECT_TRUE(is_weak_word("colleague"));
  EXPECT_FALSE(is_weak_word("archive"));
}

}  // namespace
}  // namespace chimere::orchestrator
