// Words by which the form of a question and the kind of its answer are known. English.
#ifndef CHIMERE_ORCHESTRATOR_QUESTION_FORM_TABLES_H_
#define CHIMERE_ORCHESTRATOR_QUESTION_FORM_TABLES_H_

#include <algorithm>
#include <array>
#include <string_view>

#include "orchestrator/answer_kind.h"

namespace chimere::orchestrator {

/// A word and the one that it stands for: irregular forms (of verbs, in the past: a clause with one
/// has a verb), nouns of verbs, names of a measure.
struct SameWord {
  std::string_view word;
  std::string_view same;
};

// clang-format off
inline constexpr auto kIrregularVerbs = std::to_array<SameWord>({
    {"ate", "eat"}, {"bought", "buy"}, {"bred", "breed"}, {"broke", "break"}, {"broken", "break"},
    {"brought", "bring"}, {"built", "build"}, {"burnt", "burn"}, {"came", "come"},
    {"caught", "catch"}, {"chose", "choose"}, {"chosen", "choose"}, {"drawn", "draw"},
    {"drew", "draw"}, {"driven", "drive"}, {"drove", "drive"}, {"dug", "dig"}, {"eaten", "eat"},
    {"fallen", "fall"}, {"fed", "feed"}, {"fell", "fall"}, {"flew", "fly"}, {"flown", "fly"},
    {"fought", "fight"}, {"gave", "give"}, {"given", "give"}, {"grew", "grow"}, {"grown", "grow"},
    {"held", "hold"}, {"kept", "keep"}, {"laid", "lay"}, {"led", "lead"}, {"lost", "lose"},
    {"made", "make"}, {"met", "meet"}, {"paid", "pay"}, {"ran", "run"}, {"ridden", "ride"},
    {"risen", "rise"}, {"rose", "rise"}, {"sang", "sing"}, {"sank", "sink"}, {"seen", "see"},
    {"sent", "send"}, {"sold", "sell"}, {"spent", "spend"}, {"spoke", "speak"},
    {"spoken", "speak"}, {"spun", "spin"}, {"stolen", "steal"}, {"stood", "stand"},
    {"struck", "strike"}, {"sung", "sing"}, {"sunk", "sink"}, {"swam", "swim"}, {"swum", "swim"},
    {"taken", "take"}, {"taught", "teach"}, {"told", "tell"}, {"took", "take"}, {"used", "use"},
    {"won", "win"}, {"wore", "wear"}, {"worn", "wear"}, {"wove", "weave"}, {"woven", "weave"},
    {"written", "write"}, {"wrote", "write"}, {"beaten", "beat"}, {"became", "become"}, {"began", "begin"},
    {"begun", "begin"}, {"left", "leave"}, {"lit", "light"}, {"shown", "show"},
});
inline constexpr auto kSameWords = std::to_array<SameWord>({
    // Who did it, and that it was done.
    {"author", "write"}, {"builder", "build"}, {"designer", "design"},
    {"discoverer", "discover"}, {"founder", "found"}, {"founders", "found"},
    {"inventor", "invent"}, {"owner", "own"}, {"owners", "own"}, {"birth", "born"},
    {"birthplace", "born"}, {"dead", "die"}, {"death", "die"}, {"died", "die"}, {"dies", "die"},
    // Other words for the same.
    {"constructed", "build"}, {"construction", "build"}, {"erected", "build"},
    {"established", "found"}, {"invention", "invent"}, {"located", "lie"},
    {"situated", "lie"}, {"lies", "lie"}, {"lay", "lie"}, {"manufactured", "make"},
    {"manufactures", "make"}, {"inhabitants", "population"}, {"people", "population"},
    {"residents", "population"}, {"employed", "employ"}, {"employees", "employ"},
    {"staff", "employ"}, {"workers", "employ"}, {"workforce", "employ"}, {"color", "colour"},
    {"coloured", "colour"},
    // Measures.
    {"high", "height"}, {"tall", "height"}, {"wide", "width"}, {"broad", "width"},
    {"deep", "depth"}, {"long", "length"}, {"thick", "thickness"}, {"heavy", "weight"},
    {"weigh", "weight"}, {"weighs", "weight"}, {"weighed", "weight"}, {"old", "age"},
    {"aged", "age"}, {"far", "distance"}, {"away", "distance"}, {"distant", "distance"},
    {"fast", "speed"}, {"costs", "cost"}, {"price", "cost"}, {"priced", "cost"},
    {"expensive", "cost"}, {"hot", "temperature"}, {"warm", "temperature"},
    {"cold", "temperature"}, {"big", "size"}, {"large", "size"},
});

/// A noun after "which" or "what", or before "of", and the kind of the answer. Where `said`, the
/// sentence that answers must have the noun, too: "the height is 4 m", but "it opened in 1823".
struct AskedNoun {
  std::string_view noun;
  AnswerKind kind;
  bool said;
};
inline constexpr auto kAskedNouns = std::to_array<AskedNoun>({
    {"age", AnswerKind::kNumber, true}, {"altitude", AnswerKind::kNumber, true},
    {"area", AnswerKind::kNumber, true}, {"artist", AnswerKind::kPerson, false},
    {"architect", AnswerKind::kPerson, false}, {"capacity", AnswerKind::kNumber, true},
    {"century", AnswerKind::kTime, false}, {"color", AnswerKind::kColour, false},
    {"colour", AnswerKind::kColour, false}, {"cost", AnswerKind::kNumber, true},
    {"date", AnswerKind::kTime, false}, {"day", AnswerKind::kTime, false},
    {"decade", AnswerKind::kTime, false}, {"depth", AnswerKind::kNumber, true},
    {"diameter", AnswerKind::kNumber, true}, {"distance", AnswerKind::kNumber, true},
    {"engineer", AnswerKind::kPerson, false}, {"height", AnswerKind::kNumber, true},
    {"length", AnswerKind::kNumber, true}, {"man", AnswerKind::kPerson, false},
    {"month", AnswerKind::kTime, false}, {"number", AnswerKind::kNumber, false},
    {"painter", AnswerKind::kPerson, false}, {"person", AnswerKind::kPerson, false},
    {"population", AnswerKind::kNumber, true}, {"price", AnswerKind::kNumber, true},
    {"scientist", AnswerKind::kPerson, false}, {"season", AnswerKind::kTime, false},
    {"size", AnswerKind::kNumber, true}, {"speed", AnswerKind::kNumber, true},
    {"temperature", AnswerKind::kNumber, false}, {"time", AnswerKind::kTime, false},
    {"weekday", AnswerKind::kTime, false}, {"weight", AnswerKind::kNumber, true},
    {"width", AnswerKind::kNumber, true}, {"woman", AnswerKind::kPerson, false},
    {"year", AnswerKind::kTime, false},
});

/// Questions with these nouns are about documentation, whose sentences leave the noun out: they
/// have no form.
inline constexpr auto kDocumentNouns = std::to_array<std::string_view>({
    "argument", "command", "commands", "difference", "example", "exit", "file", "files", "flag",
    "flags", "format", "function", "functions", "idea", "library", "macro", "meaning", "option",
    "options", "package", "page", "parameter", "point", "program", "programs", "purpose", "setting",
    "supposed", "switch", "syntax", "tool", "tools", "utility", "variable"});

/// Words before the question proper, and requests without a question word.
inline constexpr auto kLeadIns = std::to_array<std::string_view>({
    "according", "and", "ask", "at", "by", "can", "could", "curious", "do", "document", "documents",
    "during", "for", "from", "give", "hello", "hey", "hi", "in", "know", "like", "me", "name",
    "notes", "of", "on", "please", "remind", "say", "since", "so", "state", "tell", "text", "texts",
    "the", "to", "under", "until", "us", "want", "with", "would", "you", "your"});

/// Words of a question that a sentence need not have, beside the function words.
inline constexpr auto kFillers = std::to_array<std::string_view>({
    "actually", "also", "any", "approximately", "been", "being", "called", "current", "currently",
    "did", "during", "each", "ever", "exact", "exactly", "had", "having", "he", "her", "him", "his",
    "into", "kind", "may", "might", "must", "name", "named", "official", "officially", "roughly",
    "shall", "she", "sort", "than", "then", "these", "they", "them", "those", "total", "type",
    "upon", "usually", "were", "whose", "whom", "after", "before", "between", "during", "per",
    "through", "under", "over", "until", "since", "onto", "within", "against", "around", "along",
    "much", "many", "often", "one", "out", "up", "off", "down", "us", "d", "ll", "re", "ve", "m"});
/// Function words of commands' documentation that are words like others in facts.
inline constexpr auto kFactWords = std::to_array<std::string_view>({
    "command", "file", "give", "help", "make", "need", "program", "say", "show", "use", "used",
    "using", "want"});
/// Verbs that say too little for an answer without the noun that is asked for.
inline constexpr auto kLightVerbs = std::to_array<std::string_view>({
    "belong", "come", "contain", "cover", "do", "get", "give", "go", "have", "include", "keep",
    "lie", "make", "need", "take", "use", "work"});
/// Verbs between a noun phrase and the rest of a question.
inline constexpr auto kAuxiliaries = std::to_array<std::string_view>({
    "are", "can", "could", "did", "do", "does", "had", "has", "have", "is", "may", "must", "should",
    "was", "were", "will", "would"});

/// "How ADJECTIVE": the word whose concept the sentence must have, or units that say it.
struct Measure {
  std::string_view adjective;
  std::string_view units;  ///< name in kUnits; empty: the adjective or its noun must be there
};
inline constexpr auto kMeasures = std::to_array<Measure>({
    {"big", ""}, {"broad", ""}, {"cold", "temperature"}, {"deep", ""}, {"expensive", "money"},
    {"far", "length"}, {"fast", "speed"}, {"heavy", "weight"}, {"high", ""}, {"hot", "temperature"},
    {"large", ""}, {"long", ""}, {"old", ""}, {"steep", ""}, {"strong", ""}, {"tall", ""},
    {"thick", ""}, {"warm", "temperature"}, {"wide", ""}});
struct Unit {
  std::string_view unit;
  std::string_view measures;
};
inline constexpr auto kUnits = std::to_array<Unit>({
    {"century", "time"}, {"centuries", "time"}, {"day", "time"}, {"days", "time"},
    {"decade", "time"}, {"decades", "time"}, {"fortnight", "time"}, {"hour", "time"},
    {"hours", "time"}, {"minute", "time"}, {"minutes", "time"}, {"month", "time"},
    {"months", "time"}, {"night", "time"}, {"nights", "time"}, {"second", "time"},
    {"seconds", "time"}, {"week", "time"}, {"weeks", "time"}, {"year", "time"}, {"years", "time"},
    {"cm", "length"}, {"feet", "length"}, {"foot", "length"}, {"inch", "length"},
    {"inches", "length"}, {"kilometre", "length"}, {"kilometres", "length"},
    {"kilometer", "length"}, {"kilometers", "length"}, {"km", "length"}, {"league", "length"},
    {"leagues", "length"}, {"m", "length"}, {"metre", "length"}, {"metres", "length"},
    {"meter", "length"}, {"meters", "length"}, {"mile", "length"}, {"miles", "length"},
    {"mm", "length"}, {"yards", "length"},
    {"g", "weight"}, {"gram", "weight"}, {"grams", "weight"}, {"kg", "weight"}, {"kilo", "weight"},
    {"kilos", "weight"}, {"kilogram", "weight"}, {"kilograms", "weight"}, {"pound", "weight"},
    {"pounds", "weight"}, {"ton", "weight"}, {"tonne", "weight"}, {"tonnes", "weight"},
    {"tons", "weight"},
    {"cent", "money"}, {"cents", "money"}, {"coins", "money"}, {"crown", "money"},
    {"crowns", "money"}, {"dollar", "money"}, {"dollars", "money"}, {"euro", "money"},
    {"euros", "money"}, {"franc", "money"}, {"francs", "money"}, {"guilders", "money"},
    {"pence", "money"}, {"pounds", "money"}, {"thalers", "money"},
    {"degrees", "temperature"}, {"celsius", "temperature"}, {"fahrenheit", "temperature"},
    {"km/h", "speed"}, {"knots", "speed"}, {"mph", "speed"}});

inline constexpr auto kTimeWords = std::to_array<std::string_view>({
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december", "monday", "tuesday", "wednesday", "thursday", "friday",
    "saturday", "sunday", "mondays", "tuesdays", "wednesdays", "thursdays", "fridays", "saturdays",
    "sundays", "spring", "summer", "autumn", "winter", "century", "dawn", "dusk", "noon",
    "midnight", "morning", "evening", "afternoon", "night", "sunrise", "sunset", "easter",
    "christmas", "ago", "yesterday", "today", "tomorrow", "weekend", "weekends", "day", "daily",
    "yearly", "o'clock", "pm", "am"});
inline constexpr auto kNumberWords = std::to_array<std::string_view>({
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
    "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety", "hundred",
    "hundreds", "thousand", "thousands", "million", "dozen", "dozens", "half", "pair", "single",
    "no", "none", "couple", "twice", "once"});
inline constexpr auto kColours = std::to_array<std::string_view>({
    "amber", "azure", "beige", "black", "blue", "bronze", "brown", "copper", "cream", "crimson",
    "cyan", "emerald", "gold", "golden", "gray", "green", "grey", "indigo", "ivory", "lilac",
    "magenta", "maroon", "mauve", "ochre", "olive", "orange", "pink", "purple", "red", "ruby",
    "rust-red", "scarlet", "silver", "tan", "teal", "turquoise", "violet", "white", "yellow",
    "reddish", "bluish", "greenish", "yellowish"});
inline constexpr auto kFrequencies = std::to_array<std::string_view>({
    "annual", "annually", "daily", "each", "every", "hourly", "monthly", "never", "once",
    "quarterly", "times", "twice", "weekly", "yearly", "thrice"});
inline constexpr auto kReasons = std::to_array<std::string_view>({
    "because", "due", "for", "owing", "reason", "since", "so", "thanks", "to", "after", "as"});
inline constexpr auto kPlaceWords = std::to_array<std::string_view>({
    "above", "across", "along", "among", "around", "at", "behind", "below", "beneath", "beside",
    "between", "from", "in", "inside", "into", "near", "north", "east", "south", "west", "on",
    "opposite", "outside", "over", "through", "to", "under", "within"});
/// Verbs that say where something is.
inline constexpr auto kPlaceVerbs = std::to_array<std::string_view>({
    "are", "found", "grow", "grows", "is", "lies", "located", "lives", "lay", "sits", "situated",
    "stand", "stands", "stood", "was", "were"});

/// What follows these is a landmark, not what the sentence is about: "the inn beside the mill".
inline constexpr auto kLandmarks = std::to_array<std::string_view>({
    "above", "behind", "below", "beneath", "beside", "beyond", "near", "opposite", "past",
    "towards"});
/// What follows these is compared with what the sentence is about.
inline constexpr auto kContrasts = std::to_array<std::string_view>({
    "like", "than", "unlike", "versus"});
/// Prepositions before a name that is not the sentence's subject.
inline constexpr auto kBeforePlaces = std::to_array<std::string_view>({
    "at", "by", "for", "from", "in", "near", "on", "since", "to", "towards", "under", "until",
    "with", "beside", "between", "behind", "above", "below", "through", "into", "during", "after",
    "before"});
/// What precedes a number of three or four digits that is a year.
inline constexpr auto kBeforeYears = std::to_array<std::string_view>({
    "about", "after", "around", "before", "by", "circa", "during", "from", "in", "of", "since",
    "to", "until", "year"});
/// Words that stand for what was named before.
inline constexpr auto kPronouns = std::to_array<std::string_view>({
    "he", "her", "here", "his", "it", "its", "she", "their", "there", "they", "this", "these"});
/// Abbreviations with a point that does not end a sentence.
inline constexpr auto kAbbreviations = std::to_array<std::string_view>({
    "approx", "ca", "dr", "mr", "mrs", "ms", "no", "prof", "st"});
/// Where a sentence divides into clauses, beside commas, colons and semicolons.
inline constexpr auto kClauseWords = std::to_array<std::string_view>({
    "although", "and", "because", "but", "if", "though", "whereas", "which", "while", "who",
    "whose", "where", "when"});
// clang-format on

template <typename Table>
constexpr bool in_table(const Table& table, std::string_view word) {
  return std::ranges::find(table, word) != table.end();
}

}  // namespace chimere::orchestrator

#endif  // CHIMERE_ORCHESTRATOR_QUESTION_FORM_TABLES_H_
