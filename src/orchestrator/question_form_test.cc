#include "orchestrator/question_form.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace chimere::orchestrator {
namespace {

/// What answers, or "-".
std::string answer(const std::string& question, const std::string& text,
                   const std::string& title = "Marlow", const std::string& place = "") {
  const auto form = form_of(question);
  if (!form) return "no form";
  const std::vector<Passage> passages = {{text, title, place, "notes", 1}};
  const std::vector<Fact> facts = facts_in(*form, passages);
  return facts.empty() ? "-" : facts[0].text;
}

TEST(QuestionForm, ConceptsJoinFormsOfWords) {
  for (const auto& [a, b] :
       std::vector<std::pair<std::string, std::string>>{{"built", "builder"},
                                                        {"building", "build"},
                                                        {"founder", "founded"},
                                                        {"closes", "closed"},
                                                        {"stopped", "stops"},
                                                        {"carries", "carried"},
                                                        {"tall", "height"},
                                                        {"weighs", "heavy"},
                                                        {"inhabitants", "people"},
                                                        {"born", "birth"},
                                                        {"discovers", "discoverer"},
                                                        {"gates", "gate"}}) {
    EXPECT_EQ(concept_of(a), concept_of(b)) << a << " " << b;
  }
  EXPECT_NE(concept_of("bridge"), concept_of("bride"));
}

TEST(QuestionForm, KindsOfAnswers) {
  struct Row {
    const char* question;
    AnswerKind kind;
  };
  for (const Row& row :
       std::vector<Row>{{"Who founded Marlow Works?", AnswerKind::kPerson},
                        {"Could you tell me when the mill was built?", AnswerKind::kTime},
                        {"In which year was the mill built?", AnswerKind::kTime},
                        {"Where does the Corva lily grow?", AnswerKind::kPlace},
                        {"How many gates does Marlow have?", AnswerKind::kNumber},
                        {"How long does the bread bake?", AnswerKind::kDuration},
                        {"How long is the bridge of Marlow?", AnswerKind::kNumber},
                        {"How often is the lily watered?", AnswerKind::kFrequency},
                        {"What colour is the door of the mill?", AnswerKind::kColour},
                        {"What is the height of the tower?", AnswerKind::kNumber},
                        {"What is the capital of Vell?", AnswerKind::kAny},
                        {"Name the capital of Vell.", AnswerKind::kAny},
                        {"Why was the mill closed?", AnswerKind::kReason}}) {
    const auto form = form_of(row.question);
    ASSERT_TRUE(form) << row.question;
    EXPECT_EQ(form->kind, row.kind) << row.question;
  }
}

TEST(QuestionForm, OtherQuestionsHaveNone) {
  for (const char* question :
       {"What does tar do?", "Which option of tar extracts an archive?", "ELI5 tar",
        "A colleague told me to run tar. What will it do for me?", "What is a spindle?",
        "Is the mill old?", "How do I extract an archive?", "What is the purpose of tar?",
        "Who is Anna Keller?", "Quand la ville a-t-elle été fondée ?", "",
        "What does -x do in tar?", "Where can I find my files?", "explain tar"}) {
    EXPECT_FALSE(form_of(question)) << question;
  }
}

TEST(QuestionForm, ASentenceHasSubjectFactAndKind) {
  const std::string town =
      "Marlow lies on the river Tass. It has 4,200 inhabitants. The old mill was built in 1823 of "
      "oak, and burned down in 1902. Dr. Anna Keller founded the school. The doors of the hall are "
      "green.";
  EXPECT_EQ(answer("How many inhabitants does Marlow have?", town), "It has 4,200 inhabitants.");
  EXPECT_EQ(answer("Who founded the school of Marlow?", town),
            "Dr. Anna Keller founded the school.");
  EXPECT_EQ(answer("On which river does Marlow lie?", town), "Marlow lies on the river Tass.");
  EXPECT_NE(answer("When was the old mill of Marlow built?", town), "-");
  EXPECT_NE(answer("What colour are the doors of the hall?", town), "-");
  // No sentence has it, though each word is somewhere.
  for (const char* question :
       {"Who built the old mill of Marlow?", "When was the school of Marlow founded?",
        "How many mills does Marlow have?", "What colour is the mill of Marlow?",
        "How high is the hall of Marlow?", "When was the hall of Marlow built?",
        "How many inhabitants does Ostrand have?", "Who is the mayor of Marlow?",
        "Where was Anna Keller born?", "Which bridge crosses the river Tass?"}) {
    EXPECT_EQ(answer(question, town), "-") << question;
  }
}

TEST(QuestionForm, OthersFactsAreNotTheSubjects) {
  const std::string question = "How many inhabitants does Marlow have?";
  for (const char* text :
       {"The neighbouring Ostrand has 9,000 inhabitants.", "Ostrand has 9,000 inhabitants.",
        "The river leads to Ostrand, whose inhabitants are 9,000.",
        "At Ostrand, 9,000 inhabitants were counted.",
        "Ostrand is a village. It has 9,000 inhabitants.",
        "Ostrand, unlike Marlow, has 9,000 inhabitants."}) {
    EXPECT_EQ(answer(question, text), "-") << text;
  }
  EXPECT_EQ(answer("Who founded Marlow?", "Ostrand was founded by Petra Holm."), "-");
  EXPECT_EQ(answer("Who founded Marlow?", "Petra Holm founded Ostrand."), "-");
  EXPECT_EQ(answer("When was the mill built?", "The inn beside the mill was built in 1823."), "-");
  EXPECT_NE(answer("When was the inn beside the mill built?",
                   "The inn beside the mill was built in 1823."),
            "-");
  EXPECT_NE(answer("Who founded Marlow Works?", "Petra Holm founded it in 1870.", "Marlow Works"),
            "-");
  EXPECT_NE(
      answer("When was Marlow Works founded?", "Petra Holm founded it in 1870.", "Marlow Works"),
      "-");
}

TEST(QuestionForm, HeadingsAndRowsTell) {
  EXPECT_EQ(answer("What is the population of Marlow?", "It was 4,200 in 2019.", "Marlow",
                   "Marlow > Population"),
            "It was 4,200 in 2019.");
  EXPECT_EQ(answer("What is the population of Marlow?", "A town.\n\nPopulation\n\nIt was 4,200."),
            "It was 4,200.");
  const std::string rows = "Height: 45 m\nMayor: Anna Keller\nFounded: 1823\n";
  EXPECT_EQ(answer("What is the height of Marlow?", rows), "Height: 45 m");
  EXPECT_EQ(answer("Who is the mayor of Marlow?", rows), "Mayor: Anna Keller");
  EXPECT_EQ(answer("When was Marlow founded?", rows), "Founded: 1823");
  EXPECT_EQ(answer("What is the weight of Marlow?", rows), "-");
  // Lines without words are no sentences.
  EXPECT_EQ(answer("What is the population of Marlow?",
                   "----------\n\n| --- | --- |\n\n***\n\nIt was 4,200 in 2019.", "Marlow",
                   "Marlow > Population"),
            "It was 4,200 in 2019.");
  // The unit says what the number is.
  EXPECT_NE(answer("How far is Marlow from Ostrand?", "Marlow is 12 km from Ostrand."), "-");
}

TEST(QuestionForm, TheBestSentenceComesFirst) {
  const auto form = form_of("When was Marlow Works founded?");
  ASSERT_TRUE(form);
  const std::vector<Passage> passages = {
      {"Vell Works was founded in 1900.", "Vell Works", "", "notes", 1},
      {"It was founded in 1870. Marlow Works was founded in 1870 in a shed.", "Marlow Works", "",
       "notes", 0.5}};
  const std::vector<Fact> facts = facts_in(*form, passages);
  ASSERT_EQ(facts.size(), 2U);
  EXPECT_EQ(facts[0].passage, 1U);
  EXPECT_EQ(facts[0].text, "Marlow Works was founded in 1870 in a shed.");
  EXPECT_TRUE(facts_in(*form, {}).empty());
}

}  // namespace
}  // namespace chimere::orchestrator
