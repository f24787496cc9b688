#include "foreign_flags.h"

#include <algorithm>
#include <array>

namespace chimere::app {
namespace {

using FlagUse = ForeignFlag::Use;
using FlagValue = ForeignFlag::Value;

constexpr ForeignFlag synonym(std::string_view name, std::string_view ours) {
  return {name, ours, "", FlagUse::kSynonym};
}
constexpr ForeignFlag ignored(std::string_view name, std::string_view why,
                              FlagValue value = FlagValue::kNone) {
  return {name, "", why, FlagUse::kIgnored, value};
}
constexpr ForeignFlag refused(std::string_view name, std::string_view advice) {
  return {name, "", advice, FlagUse::kRefused};
}

constexpr std::string_view kOnGpu =
    "weights go to the GPU as far as they fit; --backend cpu keeps them off it";
constexpr std::string_view kExperts =
    "--cpu-experts N sets the number of layers whose experts run on the CPU";
constexpr std::string_view kOneGpu = "a model runs on one GPU; --backend cuda takes the first";
constexpr std::string_view kAllThreads = "--threads (-t) is the number for everything";
constexpr std::string_view kMapped = "files are always mapped and never locked";
constexpr std::string_view kBatches = "the sizes of batches are chosen automatically";
constexpr std::string_view kAttention = "the attention kernel is chosen automatically";
constexpr std::string_view kStandardInput =
    "`chimere run -f FILE` reads a prompt from a file, `chimere run < FILE` from standard input";
constexpr std::string_view kChat =
    "`chimere chat` opens a conversation, `chimere run` with a prompt gives one answer";
constexpr std::string_view kTemplate =
    "every chat template is read as Jinja; --chat-template chooses another one than the model's";
constexpr std::string_view kHub =
    "`chimere pull OWNER/NAME:QUANT` downloads a model; -m OWNER/NAME:QUANT selects it";
constexpr std::string_view kDrafts =
    "how many drafts are checked follows from their cost and from what was right before";
constexpr std::string_view kSpeculation =
    "--speculate chooses where drafts come from; --draft-model names a drafter";
constexpr std::string_view kRope = "RoPE parameters are taken from the model file";
constexpr std::string_view kAdapters = "--lora FILE=SCALE of run, chat and serve takes adapters";
constexpr std::string_view kNotShown =
    "only the answer goes to standard output; --quiet leaves out everything else";
constexpr std::string_view kStatistics =
    "`chimere run` and `chimere chat` have --verbose, which shows statistics";
constexpr std::string_view kTerminal = "the terminal decides; NO_COLOR=1 switches colours off";
constexpr std::string_view kEscapes =
    "prompts are taken as they are; in most shells $'a\\nb' writes a line feed";
constexpr std::string_view kKeyFile = "keys are in a file: --keys FILE, made by `chimere keys add`";
constexpr std::string_view kEmbeddings =
    "`chimere embed` makes vectors; `chimere serve` has --embedding-model";
constexpr std::string_view kTextOnly = "models here read text only, no images and no sound";
constexpr std::string_view kReasoningLimit =
    "--reasoning none, low, medium, high or a number of tokens limits the reasoning";
constexpr std::string_view kAlwaysServed = "`chimere serve` always has its pages and /metrics";

constexpr auto kForeignFlags = std::to_array<ForeignFlag>({
    // llama.cpp: devices, threads and batches
    ignored("-ngl", kOnGpu, FlagValue::kOne),
    ignored("--gpu-layers", kOnGpu, FlagValue::kOne),
    ignored("--n-gpu-layers", kOnGpu, FlagValue::kOne),
    refused("-dev", kOneGpu),
    refused("--device", kOneGpu),
    ignored("-sm", kOneGpu, FlagValue::kOne),
    ignored("--split-mode", kOneGpu, FlagValue::kOne),
    ignored("-ts", kOneGpu, FlagValue::kOne),
    ignored("--tensor-split", kOneGpu, FlagValue::kOne),
    ignored("-mg", kOneGpu, FlagValue::kOne),
    ignored("--main-gpu", kOneGpu, FlagValue::kOne),
    refused("-cmoe", kExperts),
    refused("--cpu-moe", kExperts),
    synonym("-ncmoe", "--cpu-experts"),
    synonym("--n-cpu-moe", "--cpu-experts"),
    refused("-ot", kExperts),
    refused("--override-tensor", kExperts),
    ignored("-tb", kAllThreads, FlagValue::kOne),
    ignored("--threads-batch", kAllThreads, FlagValue::kOne),
    ignored("--mlock", kMapped),
    ignored("--mmap", kMapped),
    ignored("--no-mmap", kMapped),
    ignored("-b", kBatches, FlagValue::kOne),
    ignored("--batch-size", kBatches, FlagValue::kOne),
    ignored("-ub", kBatches, FlagValue::kOne),
    ignored("--ubatch-size", kBatches, FlagValue::kOne),
    ignored("-cb", kBatches),
    ignored("--cont-batching", kBatches),
    ignored("-fa", kAttention, FlagValue::kSwitch),
    ignored("--flash-attn", kAttention, FlagValue::kSwitch),
    ignored("--no-warmup", "nothing is run before the first prompt"),
    // The model, the context and its cache
    synonym("--ctx-size", "--ctx"),
    synonym("-ctk", "--cache-k"),
    synonym("--cache-type-k", "--cache-k"),
    synonym("-ctv", "--cache-v"),
    synonym("--cache-type-v", "--cache-v"),
    synonym("-hf", "--model"),
    synonym("-hfr", "--model"),
    synonym("--hf-repo", "--model"),
    refused("-hff", kHub),
    refused("--hf-file", kHub),
    refused("-mu", kHub),
    refused("--model-url", kHub),
    refused("-mm", kTextOnly),
    refused("--mmproj", kTextOnly),
    refused("--image", kTextOnly),
    refused("--audio", kTextOnly),
    refused("--lora", kAdapters),
    refused("--lora-scaled", kAdapters),
    refused("--rope-scaling", kRope),
    refused("--rope-scale", kRope),
    refused("--rope-freq-base", kRope),
    refused("--rope-freq-scale", "use --rope-scale, whose value is the inverse"),
    refused("--override-kv",
            "a model file's keys are not changed; --ctx, --rope-freq-base and --chat-template "
            "replace the usual ones, `chimere inspect` shows all"),
    refused("--prompt-cache", "`--state FILE` keeps a conversation and continues it"),
    refused("--slot-save-path", "use --state-folder"),
    // Prompts and generations
    synonym("-sys", "--system"),
    synonym("--system-prompt", "--system"),
    refused("-f", kStandardInput),
    refused("--file", kStandardInput),
    refused("-bf", kStandardInput),
    refused("-sysf", "--system \"$(cat FILE)\" takes a system message from a file"),
    refused("--system-prompt-file", "--system \"$(cat FILE)\" takes a system message from a file"),
    ignored("-i", kChat),
    ignored("--interactive", kChat),
    ignored("-if", kChat),
    ignored("--interactive-first", kChat),
    ignored("-cnv", kChat),
    ignored("--conversation", kChat),
    ignored("-no-cnv", kChat),
    ignored("--no-conversation", kChat),
    ignored("-st", kChat),
    ignored("--single-turn", kChat),
    ignored("-mli", "lines that end in a backslash, and \"\"\", begin new lines"),
    ignored("--multiline-input", "lines that end in a backslash, and \"\"\", begin new lines"),
    ignored("--jinja", kTemplate),
    synonym("--chat-template-file", "--chat-template"),
    refused("--chat-template-kwargs",
            "--reasoning none switches reasoning off; templates have no other switch here"),
    ignored("-e", kEscapes),
    ignored("--escape", kEscapes),
    ignored("--no-escape", kEscapes),
    ignored("--no-display-prompt", kNotShown),
    ignored("--no-perf", kNotShown),
    ignored("--log-disable", kNotShown),
    ignored("--simple-io", kNotShown),
    ignored("-v", kStatistics),
    ignored("--verbose", kStatistics),
    ignored("--log-verbose", kStatistics),
    ignored("-co", kTerminal),
    ignored("--color", kTerminal, FlagValue::kSwitch),
    synonym("--predict", "--max-tokens"),
    synonym("--n-predict", "--max-tokens"),
    refused("--ignore-eos",
            "the model ends its answer, at the latest after --max-tokens (-n); --logit-bias ID-inf "
            "forbids the token with this id"),
    synonym("-r", "--stop"),
    synonym("--reverse-prompt", "--stop"),
    refused("--reasoning-budget", kReasoningLimit),
    ignored("--reasoning-format", "reasoning is always apart from the answer", FlagValue::kOne),
    synonym("--grammar-file", "--grammar"),
    synonym("-j", "--json-schema"),
    synonym("-jf", "--json-schema"),
    synonym("--json-schema-file", "--json-schema"),
    // Sampling
    synonym("--temperature", "--temp"),
    synonym("--typical-p", "--typical"),
    synonym("--top-n-sigma", "--top-nsigma"),
    synonym("-l", "--logit-bias"),
    refused("--sampling-seq", "use --samplers"),
    refused("--sampler-seq", "use --samplers"),
    refused("--dry-sequence-breaker", "use --dry-sequence-breakers, which takes a JSON list"),
    // Drafts
    synonym("-md", "--draft-model"),
    synonym("--model-draft", "--draft-model"),
    ignored("--draft", kDrafts, FlagValue::kOne),
    ignored("--draft-max", kDrafts, FlagValue::kOne),
    ignored("--draft-min", kDrafts, FlagValue::kOne),
    ignored("--draft-n", kDrafts, FlagValue::kOne),
    // The server
    synonym("-a", "--alias"),
    synonym("-np", "--max-running"),
    synonym("--parallel", "--max-running"),
    refused("--api-key", kKeyFile),
    refused("--api-key-file", kKeyFile),
    synonym("--ssl-key-file", "--tls-key"),
    synonym("--ssl-cert-file", "--tls-certificate"),
    refused("--embedding", kEmbeddings),
    refused("--embeddings", kEmbeddings),
    ignored("--metrics", kAlwaysServed),
    ignored("--slots", "/v1/status of `chimere serve` shows what runs"),
    ignored("--no-slots", "/v1/status of `chimere serve` shows what runs"),
    ignored("--props", kAlwaysServed),
    ignored("--webui", kAlwaysServed),
    ignored("--no-webui", kAlwaysServed),
    // Ollama
    refused("--format", "--json-schema '{\"type\": \"object\"}' makes JSON"),
    refused("--think", kReasoningLimit),
    ignored("--hidethinking", "--quiet hides the reasoning"),
    ignored("--nowordwrap", "answers are not wrapped"),
    ignored("--keepalive",
            "a model is in memory while its command runs; `chimere serve` has --keep-alive",
            FlagValue::kOne),
    ignored("--insecure", "`chimere pull` downloads from --hub-endpoint"),
    // vLLM
    synonym("--max-model-len", "--ctx"),
    synonym("--max-num-seqs", "--max-running"),
    refused("--gpu-memory-utilization", "use --vram-budget, which takes an amount like 15.5GiB"),
    refused("--kv-cache-dtype", "use --cache-k and --cache-v"),
    synonym("--served-model-name", "--alias"),
    ignored("--tensor-parallel-size", kOneGpu, FlagValue::kOne),
    refused("--speculative-config", kSpeculation),
});

const ForeignFlag* find_foreign_flag(std::string_view name) {
  const auto* const found = std::ranges::find(kForeignFlags, name, &ForeignFlag::name);
  return found == kForeignFlags.end() ? nullptr : found;
}

bool is_switch(std::string_view word) {
  constexpr auto kSwitchWords = std::to_array<std::string_view>(
      {"on", "off", "auto", "always", "never", "true", "false", "0", "1"});
  return std::ranges::find(kSwitchWords, word) != kSwitchWords.end();
}

}  // namespace

std::span<const ForeignFlag> foreign_flags() { return kForeignFlags; }

OwnArguments without_foreign_flags(std::span<const std::string> words,
                                   const std::function<OwnFlag(const std::string&)>& own) {
  OwnArguments out;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--") {  // flags end here
      out.words.insert(out.words.end(), words.begin() + static_cast<int64_t>(i), words.end());
      break;
    }
    if (!word.starts_with('-')) {
      out.words.push_back(word);
      continue;
    }
    const size_t equals = word.find('=');
    const bool has_value = equals != std::string::npos;
    std::string name = word.substr(0, equals);
    const std::string rest = has_value ? word.substr(equals) : "";
    const auto known = [&] { return own(name).declared || find_foreign_flag(name) != nullptr; };
    if (!known()) {  // llama.cpp takes --n_predict for --n-predict
      const std::string typed = name;
      std::ranges::replace(name, '_', '-');
      if (!known()) name = typed;
    }
    const OwnFlag declared = own(name);
    const ForeignFlag* flag = declared.declared ? nullptr : find_foreign_flag(name);
    if (flag == nullptr) {
      out.words.push_back(name + rest);
      if (declared.takes_value && !has_value && i + 1 < words.size()) {
        out.words.push_back(words[++i]);
      }
      continue;
    }
    if (flag->use == FlagUse::kSynonym && own(std::string(flag->ours)).declared) {
      out.words.push_back(std::string(flag->ours) + rest);
      if (!has_value && i + 1 < words.size()) out.words.push_back(words[++i]);
      continue;
    }
    if (flag->use == FlagUse::kIgnored) {
      out.notices.push_back(name + " changes nothing here: " + std::string(flag->advice) + ".");
      const bool follows = !has_value && i + 1 < words.size();
      if (follows && (flag->value == FlagValue::kOne ||
                      (flag->value == FlagValue::kSwitch && is_switch(words[i + 1])))) {
        ++i;
      }
      continue;
    }
    out.refusal = name + " is a flag of another program; here: " +
                  (flag->use == FlagUse::kSynonym ? "its name is " + std::string(flag->ours) +
                                                        ", which this command does not have"
                                                  : std::string(flag->advice));
    return out;
  }
  return out;
}

}  // namespace chimere::app
