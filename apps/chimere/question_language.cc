#include "question_language.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>

#include "text/utf8.h"

namespace chimere::app {
namespace {

struct Language {
  std::string_view code;
  std::string_view words;    ///< frequent ones
  std::string_view letters;  ///< besides a to z
  std::string_view greetings;
};

// A question counts as English by these, which have the names of commands that are words of other
// languages (man, du, die), words that English borrows (per, se), and words of shell scripts.
constexpr std::string_view kEnglish =
    " a about add after al all an and any are as at ask avoid be before between but by can cat "
    "change check come comment copy create delete den die different difference do does done du "
    "each echo else en es esac et etc example explain fi file files find for from get give git "
    "grep has have help how i if in into is it its kill la list ls make man many me mean meaning "
    "menu mode more my need new no not of on one open or order other out par per plus print "
    "program que read remove route run se set show single so some son sort sudo sur tar tell test "
    "than that the their then there these this to top translate tu two un use used user using van "
    "via vis war was we what when where which while who why will with word words write you your ";

constexpr auto kLanguages = std::to_array<Language>({
    {"de",
     " aber alle als am auch auf aus bei bin bist bitte das dass dein dem den der des die dich "
     "dir du ein eine einem einen einer es für gibt hast hat ich im in ist kann kannst kein man "
     "mein meine mich mir mit nach nicht oder schreibe sich sie sind so um und unter von war warum "
     "was welche welcher welches wenn wer werden wie wieso wir wo wurde zu zum zur zwischen über ",
     "äöüß", "|hallo|guten tag|guten morgen|guten abend|danke|vielen dank|"},
    {"fr",
     " as au aux avec avez avoir bonjour ce cette ces comment comme combien dans de des dois donne "
     "du elle en entre est et être faire fait il je la le les leur ma mais me merci mes moi mon ne "
     "nous on ou où par pas peut peux plus pour pourquoi quand que quel quelle quelles quels qui "
     "quoi sa sans se ses son sont suis sur ton tous tu un une vous votre ",
     "àâçéèêëîïôùûüœ", "|bonjour|bonsoir|salut|coucou|merci|"},
    {"es",
     " al como con cual cuando cuál cuándo cuánto cuántos cómo de del desde donde dónde el ella en "
     "eres es esta este esto está están fue gracias hacer hay hola la las le lo los me mi más muy "
     "no nos para pero por porque puede puedes puedo que quien quién qué se ser si sin sobre son "
     "soy su sus también te tiene todos tu tú un una uno y ",
     "áéíñóúü", "|hola|gracias|buenos dias|buenos días|buenas tardes|buenas noches|"},
    {"it",
     " al alla anche che chi chiama chiami chiamo ciao come con cosa cos da dal dei del della "
     "delle di dove e ed era "
     "essere fare fra gli grazie ha hai ho i il in io la le lo ma mi mio nel nella no non o ogni "
     "per perché perchè più posso puoi può qual quale quali quando quanti quanto questa questo sei "
     "se "
     "si sono spiegami su sul ti tra tu un una uno è ",
     "àèìòù", "|ciao|buongiorno|buonasera|buona sera|grazie|"},
    {"pt",
     " ao aos as com como da das de do dos ela ele em entre era essa esse esta este está eu faz "
     "fazer foi isso mais mas me meu minha muito na nas não nem no nos o obrigado olá os ou para "
     "pela pelo pode podes por porque posso qual quando quantos que quem quê se sem ser seu são só "
     "sobre sua também tem te um uma você vocês é ",
     "àáâãçéêíóôõú", "|olá|bom dia|boa tarde|boa noite|obrigado|obrigada|"},
});

/// Languages that are written with other letters than Latin ones.
struct Script {
  uint32_t first;
  uint32_t last;
  std::string_view codes;  ///< separated by spaces
  size_t least;            ///< letters of a question; one alone may be a symbol
};
constexpr auto kScripts = std::to_array<Script>({
    {0x0370, 0x03ff, "el", 4},
    {0x0400, 0x052f, "ru uk be bg sr mk kk ky mn", 3},
    {0x0530, 0x058f, "hy", 3},
    {0x0590, 0x05ff, "he yi", 3},
    {0x0600, 0x077f, "ar fa ur ps", 3},
    {0x0900, 0x097f, "hi mr ne", 3},
    {0x0980, 0x09ff, "bn as", 3},
    {0x0b80, 0x0bff, "ta", 3},
    {0x0c00, 0x0c7f, "te", 3},
    {0x0e00, 0x0e7f, "th", 3},
    {0x10a0, 0x10ff, "ka", 3},
    {0x3040, 0x30ff, "ja", 2},
    {0x4e00, 0x9fff, "zh ja", 2},
    {0xac00, 0xd7a3, "ko", 2},
});

constexpr std::string_view kSpaces = " \t\r\n";

bool contains_word(std::string_view list, const std::string& word, char separator) {
  return list.find(separator + word + separator) != std::string_view::npos;
}

bool is_latin(uint32_t code) {
  return (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z') ||
         (code >= 0xc0 && code <= 0x24f && code != 0xd7 && code != 0xf7);
}

bool is_upper(uint32_t code) {
  return (code >= 'A' && code <= 'Z') || (code >= 0xc0 && code <= 0xde);
}

/// Without what is between backquotes or quotation marks.
std::string without_quotations(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t open = text.find_first_of("`\"");
    out += text.substr(0, open);
    if (open == std::string_view::npos) break;
    const std::string_view mark =
        text.substr(open).starts_with("```") ? "```" : text.substr(open, 1);
    const size_t close = text.find(mark, open + mark.size());
    if (close == std::string_view::npos) break;
    out += ' ';
    text.remove_prefix(close + mark.size());
  }
  return out;
}

/// The words of a text: letters only, in small letters, without names that are all capitals. A run
/// of characters that has digits or the signs of code is none.
struct Words {
  std::vector<std::string> all;
  std::set<std::string> distinct;  ///< without single letters from a to z
  std::set<std::string> accented;  ///< those that begin small and have other letters than a to z
};

void add_word(std::string_view run, Words& words) {
  std::string word;
  size_t letters = 0;
  size_t capitals = 0;
  bool accents = false;
  bool begins_small = false;
  for (size_t at = 0; at < run.size();) {
    const text::Utf8Char c = text::read_utf8(run, at);
    at += static_cast<size_t>(c.length);
    if (letters == 0) begins_small = !is_upper(c.code);
    ++letters;
    if (is_upper(c.code)) ++capitals;
    accents = accents || c.code >= 0x80;
    text::append_utf8(word, is_upper(c.code) ? c.code + 0x20 : c.code);
  }
  if (letters == 0) return;
  words.all.push_back(word);
  if ((letters < 2 && !accents) || capitals == letters) return;
  if (accents && begins_small) words.accented.insert(word);
  words.distinct.insert(std::move(word));
}

/// Adds the parts of a run of characters without spaces.
void add_run(std::string_view run, Words& words) {
  if (run.starts_with('-')) return;
  constexpr std::string_view kCode = "0123456789$\\/_=@#%&*+<>[]{}|~^";
  if (run.find_first_of(kCode) != std::string_view::npos) return;
  const size_t last = run.find_last_not_of(".,;:!?()'");
  if (last == std::string_view::npos) return;
  // file.txt, a:b, f(x)
  if (run.substr(0, last).find_first_of(".,:;(") != std::string_view::npos &&
      run.substr(1, last).find_first_of(".,:;(") != std::string_view::npos) {
    return;
  }
  size_t begin = 0;
  for (size_t at = 0; at < run.size();) {
    const text::Utf8Char c = text::read_utf8(run, at);
    const size_t next = at + static_cast<size_t>(c.length);
    if (c.kind != text::Utf8Char::Kind::kValid || !is_latin(c.code)) {
      add_word(run.substr(begin, at - begin), words);
      begin = next;
    }
    at = next;
  }
  add_word(run.substr(begin), words);
}

Words words_of(std::string_view text) {
  Words words;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(kSpaces), text.size()));
    if (text.empty()) return words;
    const size_t end = std::min(text.find_first_of(kSpaces), text.size());
    add_run(text.substr(0, end), words);
    text.remove_prefix(end);
  }
}

/// Whether all letters of a word are among the language's.
bool has_letters_of(const Language& language, std::string_view word) {
  for (size_t at = 0; at < word.size();) {
    const auto length = static_cast<size_t>(text::read_utf8(word, at).length);
    if (length > 1 && language.letters.find(word.substr(at, length)) == std::string_view::npos) {
      return false;
    }
    at += length;
  }
  return true;
}

/// How many words speak for the language, and for it more than for English; 0: too few.
size_t score(const Language& language, const Words& words) {
  size_t own = 0;      // of the language alone
  size_t shared = 0;   // of both
  size_t english = 0;  // of English alone
  size_t listed = 0;
  for (const std::string& word : words.distinct) {
    const bool here = contains_word(language.words, word, ' ');
    const bool there = contains_word(kEnglish, word, ' ');
    if (here && there) ++shared;
    if (!here && there) ++english;
    if (here && !there) ++listed;
    const bool accented = words.accented.contains(word) && has_letters_of(language, word);
    if (!there && (here || accented)) ++own;
  }
  if (listed == 0 || own < 2 || own <= 2 * english) return 0;
  const size_t hits = own + shared;
  const size_t count = words.distinct.size();
  const bool many = 2 * hits > count || (hits >= 4 && 5 * hits >= 2 * count);
  return many ? 2 * own + shared : 0;
}

std::vector<std::string_view> split(std::string_view list) {
  std::vector<std::string_view> out;
  while (!list.empty()) {
    const size_t end = std::min(list.find(' '), list.size());
    out.push_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return out;
}

/// The languages of the script that most of the letters have; empty: Latin.
std::vector<std::string_view> languages_of_script(std::string_view text) {
  std::array<size_t, kScripts.size()> counts{};
  size_t latin = 0;
  size_t others = 0;
  for (size_t at = 0; at < text.size();) {
    const text::Utf8Char c = text::read_utf8(text, at);
    at += static_cast<size_t>(c.length);
    if (c.kind != text::Utf8Char::Kind::kValid) continue;
    if (is_latin(c.code)) ++latin;
    for (size_t i = 0; i < kScripts.size(); ++i) {
      if (c.code < kScripts.at(i).first || c.code > kScripts.at(i).last) continue;
      ++counts.at(i);
      ++others;
    }
  }
  if (others <= latin) return {};
  const auto most = static_cast<size_t>(std::ranges::max_element(counts) - counts.begin());
  if (others < kScripts.at(most).least) return {};
  // Japanese has more Chinese characters than its own.
  const bool kana = std::ranges::any_of(kScripts, [&](const Script& s) {
    return s.codes == "ja" && counts.at(static_cast<size_t>(&s - kScripts.data())) > 0;
  });
  return split(kana && kScripts.at(most).codes == "zh ja" ? "ja" : kScripts.at(most).codes);
}

/// "English", or the code of a language without a name here.
std::string language_name(std::string_view code) {
  constexpr auto kNames =
      std::to_array<std::pair<std::string_view, std::string_view>>({{"ar", "Arabic"},
                                                                    {"de", "German"},
                                                                    {"en", "English"},
                                                                    {"es", "Spanish"},
                                                                    {"fr", "French"},
                                                                    {"hi", "Hindi"},
                                                                    {"it", "Italian"},
                                                                    {"ja", "Japanese"},
                                                                    {"ko", "Korean"},
                                                                    {"pt", "Portuguese"},
                                                                    {"ru", "Russian"},
                                                                    {"th", "Thai"},
                                                                    {"zh", "Chinese"}});
  const auto* const found = std::ranges::find(kNames, code, [](const auto& n) { return n.first; });
  return std::string(found == kNames.end() ? code : found->second);
}

}  // namespace

std::vector<std::string_view> question_languages(std::string_view question) {
  const std::string text = without_quotations(question);
  if (auto by_script = languages_of_script(text); !by_script.empty()) return by_script;
  const Words words = words_of(text);
  std::string whole;
  for (const std::string& word : words.all) whole += (whole.empty() ? "" : " ") + word;
  std::vector<std::string_view> out;
  size_t best = 0;
  for (const Language& language : kLanguages) {
    if (!whole.empty() && contains_word(language.greetings, whole, '|')) return {language.code};
    const size_t points = score(language, words);
    if (points > best) out.clear();
    if (points > 0 && points >= best) out.push_back(language.code);
    best = std::max(best, points);
  }
  return out;
}

std::vector<std::string> model_languages(const gguf::Reader& file) {
  if (const auto* languages = file.find_strings("general.languages")) return *languages;
  const auto name = file.get_string("general.name");
  const bool shipped = name.ok() && (*name == "chimere-mini" || *name == "chimere-nano");
  return shipped ? std::vector<std::string>{"en"} : std::vector<std::string>{};
}

/// Of countries, as in "pt-BR".
constexpr std::string_view kCapitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

std::string language_notice(std::string_view question, std::span<const std::string> known) {
  // "multilingual", for instance, tells nothing; and the texts of files are not shown as they are.
  const auto is_code = [](const std::string& code) {
    const auto letter = [](char c) { return c >= 'a' && c <= 'z'; };
    return (code.size() == 2 || (code.size() == 5 && code[2] == '-' &&
                                 code.substr(3).find_first_not_of(kCapitals) == code.npos)) &&
           letter(code[0]) && letter(code[1]);
  };
  if (known.empty() || !std::ranges::all_of(known, is_code)) return "";
  const auto languages = question_languages(question);
  if (languages.empty()) return "";
  // "pt-BR" is Portuguese.
  const auto fits = [&](const std::string& code) {
    return std::ranges::any_of(languages,
                               [&](std::string_view l) { return code.substr(0, 2) == l; });
  };
  if (std::ranges::any_of(known, fits)) return "";
  constexpr size_t kNamed = 8;
  std::string names;
  for (size_t i = 0; i < std::min(known.size(), kNamed); ++i) {
    if (i > 0) names += i + 1 == known.size() ? " and " : ", ";
    names += language_name(known[i]);
  }
  if (known.size() > kNamed) names += " and others";
  return "This model is made for " + names +
         " only; `chimere models --for-this-machine` lists models that know other languages.";
}

}  // namespace chimere::app
