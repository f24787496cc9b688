// Chat templates that the program has itself, and the choice of a model's template.
#ifndef CHIMERE_TEXT_BUILTIN_TEMPLATES_H_
#define CHIMERE_TEXT_BUILTIN_TEMPLATES_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/prompt_template.h"
#include "text/tokenizer.h"

namespace chimere::text {

/// The source of a template by its name, like "chatml"; nullopt: there is none.
std::optional<std::string_view> builtin_template(std::string_view name);

/// The token that begins a message of ChatML, if the vocabulary has it. Chunks of prompts begin
/// there (model::chunk_sizes()), whatever the template: the bits of the logits depend on them.
std::vector<int32_t> chatml_starts(const Tokenizer& tokenizer);

/// What Qwen3-Reranker reads, with {query} and {document}.
std::string reranker_template();

/// Their names, separated by commas.
std::string builtin_template_names();

/// Whether the text is a template of Ollama, in the language of Go's text/template, and not Jinja:
/// `{{ .Prompt }}`, `{{ if .System }}`.
bool is_go_template(std::string_view source);

/// A value of --chat-template: a built-in name, the text of a template, or a file with one.
/// Errors: kInvalidArgument (neither of them), kIo.
Result<std::string> chosen_template(const std::string& value);

/// The template that a model is used with. `chosen`: a value of --chat-template; empty: that of the
/// file. `own`: of the file; nullopt: it has none. In place of none, an empty one and one of Go
/// comes ChatML, if the vocabulary has its tokens, and a sentence for `warn`, which also hears of a
/// template that shows no messages. Errors: kUnsupported (no template), those of chosen_template()
/// and PromptTemplate::create().
Result<PromptTemplate> select_template(const Tokenizer& tokenizer, const std::string& chosen,
                                       const std::optional<std::string>& own,
                                       const std::function<void(const std::string&)>& warn);

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_BUILTIN_TEMPLATES_H_
