// Recognises questions in languages that a model does not know.
#ifndef CHIMERE_APPS_CHIMERE_QUESTION_LANGUAGE_H_
#define CHIMERE_APPS_CHIMERE_QUESTION_LANGUAGE_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/reader.h"

namespace chimere::app {

/// Codes (ISO 639-1) of the languages other than English in which a question may be: by its script,
/// or, for German, French, Spanish, Italian and Portuguese, by its frequent words. Empty: it is
/// English, code or a command, or too short to tell. Takes time linear in the text.
std::vector<std::string_view> question_languages(std::string_view question);

/// Codes of the languages that a model knows: general.languages of its file, or English for a
/// shipped model, whose file does not say. Empty: unknown.
std::vector<std::string> model_languages(const gguf::Reader& file);

/// What to tell a user whose question the model cannot read; empty: nothing. `known`: codes of the
/// model's languages; nothing is told if it is empty.
std::string language_notice(std::string_view question, std::span<const std::string> known);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_QUESTION_LANGUAGE_H_
