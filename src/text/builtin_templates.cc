#include "text/builtin_templates.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>

#include "base/file_stream.h"
#include "text/chat_format.h"

namespace chimere::text {
namespace {

struct BuiltinTemplate {
  std::string_view name;
  std::string_view source;
};

constexpr std::string_view kChatMl =
    R"({% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }})"
    R"({% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %})";

/// What Qwen3-Reranker was trained with (its model card), up to an empty reasoning.
constexpr std::string_view kQwen3Reranker =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    "the Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n"
    "<|im_start|>user\n<Instruct>: Given a web search query, retrieve relevant passages that "
    "answer "
    "the query\n<Query>: {query}\n<Document>: {document}<|im_end|>\n<|im_start|>assistant\n";

/// Without tools and defaults of families: PromptTemplate adds the former, and system messages
/// where a template has none.
constexpr auto kBuiltins = std::to_array<BuiltinTemplate>({
    {"alpaca",
     R"({{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ m.content + '\n\n' }})"
     R"({% elif m.role == 'user' %}{{ '### Instruction:\n' + m.content + '\n\n' }})"
     R"({% elif m.role == 'assistant' %}{{ '### Response:\n' + m.content }}{{ eos_token }}{{ '\n\n' }})"
     R"({% endif %}{% endfor %}{% if add_generation_prompt %}{{ '### Response:\n' }}{% endif %})"},
    {"chatml", kChatMl},
    {"command-r",
     R"({{ bos_token }}{% for m in messages %}{{ '<|START_OF_TURN_TOKEN|>' }})"
     R"({% if m.role == 'system' %}{{ '<|SYSTEM_TOKEN|>' }})"
     R"({% elif m.role == 'user' %}{{ '<|USER_TOKEN|>' }})"
     R"({% elif m.role == 'assistant' %}{{ '<|CHATBOT_TOKEN|>' }}{% endif %})"
     R"({{ m.content + '<|END_OF_TURN_TOKEN|>' }}{% endfor %}{% if add_generation_prompt %})"
     R"({{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{% endif %})"},
    {"deepseek",
     R"({{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ m.content + '\n\n' }})"
     R"({% elif m.role == 'user' %}{{ '<｜User｜>' + m.content }}{% elif m.role == 'assistant' %})"
     R"({{ '<｜Assistant｜>' + m.content + '<｜end▁of▁sentence｜>' }}{% endif %}{% endfor %})"
     R"({% if add_generation_prompt %}{{ '<｜Assistant｜>' }}{% endif %})"},
    {"gemma",
     R"({{ bos_token }}{% for m in messages %}{% if m.role == 'user' or m.role == 'assistant' %})"
     R"({{ '<start_of_turn>' + ('model' if m.role == 'assistant' else 'user') + '\n' }})"
     R"({{ m.content | trim + '<end_of_turn>\n' }}{% endif %}{% endfor %})"
     R"({% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %})"},
    {"granite",
     R"({% for m in messages %}{{ '<|start_of_role|>' + m.role + '<|end_of_role|>' + m.content }})"
     R"({{ '<|end_of_text|>\n' }}{% endfor %}{% if add_generation_prompt %})"
     R"({{ '<|start_of_role|>assistant<|end_of_role|>' }}{% endif %})"},
    {"llama2",
     R"({% set front = namespace(text='') %}{% for m in messages %}{% if m.role == 'system' %})"
     R"({% set front.text = '<<SYS>>\n' + m.content + '\n<</SYS>>\n\n' %})"
     R"({% elif m.role == 'user' %}{{ bos_token }}{{ '[INST] ' + front.text + m.content + ' [/INST]' }})"
     R"({% set front.text = '' %}{% elif m.role == 'assistant' %})"
     R"({{ ' ' + m.content | trim + ' ' }}{{ eos_token }}{% endif %}{% endfor %})"},
    {"llama3",
     R"({{ bos_token }}{% for m in messages %}{{ '<|start_header_id|>' + m.role }})"
     R"({{ '<|end_header_id|>\n\n' + m.content | trim + '<|eot_id|>' }}{% endfor %})"
     R"({% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }})"
     R"({% endif %})"},
    {"mistral", R"({{ bos_token }}{% for m in messages %}{% if m.role == 'user' %})"
                R"({{ '[INST] ' + m.content + ' [/INST]' }}{% elif m.role == 'assistant' %})"
                R"({{ ' ' + m.content | trim }}{{ eos_token }}{% endif %}{% endfor %})"},
    {"phi3", R"({% for m in messages %}{% if m.role in ['system', 'user', 'assistant'] %})"
             R"({{ '<|' + m.role + '|>\n' + m.content + '<|end|>\n' }}{% endif %}{% endfor %})"
             R"({% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %})"},
    {"vicuna",
     R"({{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ m.content + '\n\n' }})"
     R"({% elif m.role == 'user' %}{{ 'USER: ' + m.content + '\n' }})"
     R"({% elif m.role == 'assistant' %}{{ 'ASSISTANT: ' + m.content }}{{ eos_token }}{{ '\n' }})"
     R"({% endif %}{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %})"},
    {"zephyr",
     R"({% for m in messages %}{% if m.role in ['system', 'user', 'assistant'] %})"
     R"({{ '<|' + m.role + '|>\n' + m.content }}{{ eos_token }}{{ '\n' }}{% endif %}{% endfor %})"
     R"({% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %})"},
});

constexpr std::string_view kBlank = " \t\r\n";

bool is_empty(std::string_view source) {
  return source.find_first_not_of(kBlank) == std::string_view::npos;
}

Result<std::string> read_template(const std::string& path) {
  constexpr uint64_t kMostBytes = 16 << 20;
  CHIMERE_TRY(InputFile file, InputFile::open(path));
  if (file.remaining() > kMostBytes) {
    return invalid_argument("The chat template '" + path + "' has more than 16 MiB.");
  }
  std::string out(file.remaining(), '\0');
  CHIMERE_CHECK_OK(file.read({reinterpret_cast<uint8_t*>(out.data()), out.size()}));
  return out;
}

}  // namespace

std::optional<std::string_view> builtin_template(std::string_view name) {
  const auto* found = std::ranges::find(kBuiltins, name, &BuiltinTemplate::name);
  if (found == kBuiltins.end()) return std::nullopt;
  return found->source;
}

std::vector<int32_t> chatml_starts(const Tokenizer& tokenizer) {
  const int32_t start = tokenizer.find("<|im_start|>");
  return start < 0 ? std::vector<int32_t>() : std::vector<int32_t>{start};
}

std::string reranker_template() { return std::string(kQwen3Reranker) + empty_reasoning(); }

std::string builtin_template_names() {
  std::string out;
  for (const BuiltinTemplate& b : kBuiltins) {
    out += (out.empty() ? "" : ", ") + std::string(b.name);
  }
  return out;
}

bool is_go_template(std::string_view source) {
  for (size_t at = source.find("{{"); at != source.npos; at = source.find("{{", at + 2)) {
    std::string_view rest = source.substr(at + 2);
    if (rest.starts_with('-')) rest.remove_prefix(1);
    rest.remove_prefix(std::min(rest.find_first_not_of(kBlank), rest.size()));
    for (const std::string_view begin : {".", "$", "if ", "range ", "with ", "template "}) {
      if (rest.starts_with(begin)) return true;
    }
  }
  return false;
}

Result<std::string> chosen_template(const std::string& value) {
  if (const auto builtin = builtin_template(value)) return std::string(*builtin);
  std::string source = value;
  const bool is_text = value.find("{{") != value.npos || value.find("{%") != value.npos;
  if (!is_text) {
    auto read = read_template(value);
    if (!read.ok() && read.error().code == Error::Code::kNotFound) {
      return invalid_argument("The chat template '" + value +
                              "' is neither built in nor a file; built in are " +
                              builtin_template_names() + ".");
    }
    CHIMERE_TRY(source, std::move(read));
  }
  if (is_empty(source)) return invalid_argument("The chat template '" + value + "' is empty.");
  if (is_go_template(source)) {
    return invalid_argument(
        "The chosen chat template is in the language of Go; give one in Jinja, or a built-in "
        "one: " +
        builtin_template_names() + ".");
  }
  return source;
}

Result<PromptTemplate> select_template(const Tokenizer& tokenizer, const std::string& chosen,
                                       const std::optional<std::string>& own,
                                       const std::function<void(const std::string&)>& warn) {
  std::string source;
  if (!chosen.empty()) {
    CHIMERE_TRY(source, chosen_template(chosen));
  } else if (own && !is_empty(*own) && !is_go_template(*own)) {
    source = *own;
  } else {
    const std::string what = !own             ? "The model file has no chat template"
                             : is_empty(*own) ? "The model file's chat template is empty"
                                              : "The model file's chat template is one of Ollama, "
                                                "in the language of Go";
    if (chatml_starts(tokenizer).empty() || tokenizer.find("<|im_end|>") < 0) {
      return unsupported(what +
                         "; choose one with --chat-template, or give the model plain text "
                         "(`chimere run --raw`, /v1/completions).");
    }
    warn(what +
         "; ChatML is used, whose tokens the vocabulary has. --chat-template chooses another.");
    source = kChatMl;
  }
  CHIMERE_TRY(PromptTemplate out, PromptTemplate::create(tokenizer, std::move(source)));
  if (!out.turn_rules().messages) {
    warn("The chat template does not show the messages; --chat-template chooses another.");
  }
  return out;
}

}  // namespace chimere::text
