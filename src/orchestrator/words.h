// Words of a text, for rules and features.
#ifndef CHIMERE_ORCHESTRATOR_WORDS_H_
#define CHIMERE_ORCHESTRATOR_WORDS_H_

#include <string>
#include <string_view>
#include <vector>

#include "protocol/requests.h"

namespace chimere::orchestrator {

/// Letters of ASCII and Latin-1 in lower case; other bytes as they are.
std::string lower(std::string_view text);
/// The words of words_of() as they are written: parts of `text`.
std::vector<std::string_view> word_views(std::string_view text);
/// Maximal runs of letters, digits, '_' and bytes above 127, in lower case. '-', '.' and '+' count
/// inside of a word: "apt-get", "ls.1", "c++".
std::vector<std::string> words_of(std::string_view text);
/// Words that say nothing about the subject of a question, in English and French.
bool is_function_word(std::string_view word);
/// Words of requests that are not their subject: "explain", "colleague", "purpose".
bool is_weak_word(std::string_view word);
/// Words of one family have one stem; crude, and the same for question and passage. `word`: in
/// lower case.
std::string stem(std::string_view word);
/// The sentences of a text with their white space: joined, they are the text. A sentence ends at
/// '.', '!' or '?' before white space, and at an empty line.
std::vector<std::string> sentences_of(std::string_view text);
/// A text without white space at its ends and with single blanks between words.
std::string on_one_line(std::string_view text);
/// The content of the last message of the user; empty: there is none.
std::string_view question_of(const protocol::ChatRequest& request);

}  // namespace chimere::orchestrator

#endif  // CHIMERE_ORCHESTRATOR_WORDS_H_
