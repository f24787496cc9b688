#include "question_language.h"

#include <gtest/gtest.h>

#include <array>
#include <utility>

namespace chimere::app {
namespace {

using Row = std::pair<std::string_view, std::string_view>;  // a question, and its languages

constexpr auto kOthers = std::to_array<Row>({
    {"Wie heißt du?", "de"},
    {"Was ist die Hauptstadt von Frankreich?", "de"},
    {"Wie installiere ich ein Paket unter Debian?", "de"},
    {"Erkläre mir den Unterschied zwischen TCP und UDP", "de"},
    {"Kannst du mir bitte helfen?", "de"},
    {"Guten Tag!", "de"},
    {"Quelle est la capitale de la France ?", "fr"},
    {"Comment est-ce que je peux installer un paquet ?", "fr"},
    {"Qu'est-ce que c'est que nginx ?", "fr"},
    {"Écris-moi un poème sur la mer et le vent", "fr"},
    {"Bonjour", "fr"},
    {"¿Cómo te llamas?", "es"},
    {"¿Cuál es la capital de Francia?", "es"},
    {"¿Dónde está el archivo de configuración?", "es"},
    {"Hola", "es"},
    {"Explica por qué el cielo es azul", "es"},
    {"Come ti chiami?", "it"},
    {"Qual è la capitale della Francia?", "it"},
    {"Perché il cielo è blu?", "it"},
    {"Ciao!", "it"},
    {"Como você se chama?", "pt"},
    {"Qual é a capital da França?", "pt"},
    {"Por que o céu é azul? Não sei o que isso quer dizer", "pt"},
    {"Bom dia", "pt"},
    {"Как тебя зовут?", "ru uk be bg sr mk kk ky mn"},
    {"你叫什么名字？", "zh ja"},
    {"あなたの名前は何ですか", "ja"},
    {"이름이 뭐예요?", "ko"},
    {"ما اسمك؟", "ar fa ur ps"},
    {"Πώς σε λένε;", "el"},
});

constexpr auto kEnglishOrCode = std::to_array<std::string_view>({
    "What does ls do?",
    "hi",
    "Hello there",
    "How do I free a port that another process uses?",
    "What is the difference between du and df?",
    "man du",
    "du -sh * | sort -h",
    "for i in $(ls *.txt); do echo \"$i\"; done",
    "find . -name '*.log' -mtime +7 -delete",
    "git commit -am 'la la la' && git push origin main",
    "SELECT name FROM users WHERE id IN (1, 2, 3)",
    "int main(void) { return 0; }",
    "def une_fonction(x):\n    return x + 1",
    "sed -i 's/foo/bar/g' /etc/hosts",
    "Translate \"Wie heißt du?\" into English",
    "What does Schadenfreude mean?",
    "What does je ne sais quoi mean?",
    "crème brûlée recipe",
    "à la carte menu",
    "Where is the café in São Paulo?",
    "Who is Björn Müller?",
    "Los Angeles to Rio de la Plata",
    "Was the die cast in iron?",
    "per se violation",
    "tar: Option -z: unknown",
    "systemctl restart nginx.service",
    "What is π?",
    "the formula is α + β = γ",
    "ENOSPC",
    "",
});

std::string joined(const std::vector<std::string_view>& codes) {
  std::string out;
  for (const std::string_view code : codes) (out += out.empty() ? "" : " ") += code;
  return out;
}

TEST(QuestionLanguage, OtherLanguagesAreRecognised) {
  for (const auto& [question, codes] : kOthers) {
    EXPECT_EQ(joined(question_languages(question)), codes) << question;
  }
}

TEST(QuestionLanguage, EnglishAndCodeRaiseNoAlarm) {
  for (const std::string_view question : kEnglishOrCode) {
    EXPECT_EQ(joined(question_languages(question)), "") << question;
  }
}

TEST(QuestionLanguage, InvalidBytesAreNoWords) {
  EXPECT_EQ(joined(question_languages("\xff\xfe\x80 \xc3")), "");
  EXPECT_EQ(joined(question_languages("Wie hei\xc3\x9ft du? \xe2\x82")), "de");
}

TEST(LanguageNotice, NamesWhatTheModelKnows) {
  const std::vector<std::string> english = {"en"};
  EXPECT_EQ(language_notice("Wie heißt du?", english),
            "This model is made for English only; `chimere models --for-this-machine` lists models "
            "that know other languages.");
  EXPECT_EQ(language_notice("What does ls do?", english), "");
  EXPECT_EQ(language_notice("Wie heißt du?", {}), "");
  for (const char* other : {"multilingual", "e\x1b", "pt-\x1b[2J", "", "en-us"}) {
    EXPECT_EQ(language_notice("Wie heißt du?", {{"en", other}}), "") << other;
  }
  const std::vector<std::string> several = {"en", "de", "pt-BR", "xx"};
  EXPECT_EQ(language_notice("Wie heißt du?", several), "");
  EXPECT_EQ(language_notice("Qual é a capital da França?", several), "");
  EXPECT_EQ(language_notice("Bonjour", several).substr(0, 65),
            "This model is made for English, German, pt-BR and xx only; `chime");
}

}  // namespace
}  // namespace chimere::app
