#include "convert/special_tokens.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace chimere::convert {
namespace {

struct KindRow {
  std::string_view name;     ///< in the source: "bos_token"
  std::string_view id_key;   ///< empty: not in a file
  std::string_view add_key;  ///< empty: not in a file
};
constexpr KindRow kKinds[] = {
    {"bos", "bos_token_id", "add_bos_token"},
    {"eos", "eos_token_id", "add_eos_token"},
    {"unk", "unknown_token_id", ""},
    {"sep", "seperator_token_id", "add_sep_token"},  // as the format spells it
    {"pad", "padding_token_id", ""},
    {"cls", "", ""},
    {"mask", "mask_token_id", ""},
    {"eot", "eot_token_id", ""},
};

/// What the files say, by kind.
struct Special {
  std::map<std::string, std::string, std::less<>> text;
  std::map<std::string, bool, std::less<>> add;
};

std::optional<std::string> text_of(const Json& object, const std::string& name) {
  const auto value = object.find(name);
  if (value == object.end()) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  if (value->is_object() && value->contains("content") && (*value)["content"].is_string()) {
    return (*value)["content"].get<std::string>();
  }
  return std::nullopt;
}

/// The token at one place of a template; empty for a text's place.
std::string template_token(const Json& steps, size_t at) {
  const Json& step = steps[at];
  if (!step.is_object() || !step.contains("SpecialToken")) return {};
  const Json& token = step["SpecialToken"];
  return token.is_object() ? text_of(token, "id").value_or("") : "";
}

/// A post-processor that puts tokens around a text.
void read_template(const Json& processor, Special& out) {
  const auto single = processor.find("single");
  if (single == processor.end() || !single->is_array() || single->size() < 2) return;
  const auto known = [&](const char* kind) {
    const auto found = out.text.find(kind);
    return found == out.text.end() ? std::string() : found->second;
  };
  if (const std::string first = template_token(*single, 0); !first.empty()) {
    if (known("bos").empty()) out.text["bos"] = first;
    out.add["bos"] = first == known("bos") || first == known("cls");
  }
  const std::string last = template_token(*single, single->size() - 1);
  if (!last.empty()) {
    if (last != known("eos")) {
      if (!known("eos").empty()) out.text.emplace("eot", known("eos"));
      out.text["eos"] = last;
    }
    out.add["eos"] = true;
  }
  // Between two texts, where nothing ends the first one otherwise.
  const auto pair = processor.find("pair");
  if (pair == processor.end() || !pair->is_array() || pair->size() < 3) return;
  for (size_t i = 1; i + 1 < pair->size(); ++i) {
    const std::string between = template_token(*pair, i);
    if (between.empty()) continue;
    const bool separator = between == known("sep") || between == known("eos");
    if (out.add.find("sep") == out.add.end()) out.add["sep"] = separator && last.empty();
    break;
  }
}

void read_post_processor(const Json& tokenizer, Special& out) {
  const auto post = tokenizer.find("post_processor");
  if (post == tokenizer.end() || !post->is_object()) return;
  const auto several = post->find("processors");
  const Json parts =
      several != post->end() && several->is_array() ? *several : Json::array({*post});
  for (const Json& part : parts) {
    const auto type = part.is_object() ? text_of(part, "type") : std::nullopt;
    if (type == "TemplateProcessing") read_template(part, out);
    if (type != "RobertaProcessing") continue;
    for (const char* kind : {"bos", "eos", "sep"}) out.add[kind] = true;
  }
}

void read_normalizer(const Json& part, gguf::Writer& out) {
  const auto type = part.is_object() ? text_of(part, "type") : std::nullopt;
  constexpr const char* kLowercase = "tokenizer.ggml.normalizer.lowercase";
  constexpr const char* kStrip = "tokenizer.ggml.normalizer.strip_accents";
  if (type == "Lowercase") out.set_bool(kLowercase, true);
  if (type == "StripAccents") out.set_bool(kStrip, true);
  if (type == "BertNormalizer") {
    const auto flag = [&](const char* name, const char* key) {
      const auto value = part.find(name);
      if (value != part.end() && value->is_boolean()) out.set_bool(key, value->get<bool>());
    };
    flag("lowercase", kLowercase);
    flag("strip_accents", kStrip);
  }
  if (type != "Sequence") return;
  const auto parts = part.find("normalizers");
  if (parts == part.end() || !parts->is_array()) return;
  for (const Json& inner : *parts) read_normalizer(inner, out);
}

/// Names in tokenizer_config.json.
void read_names(const Json& config, Special& out) {
  for (const KindRow& kind : kKinds) {
    const std::string name(kind.name);
    if (auto text = text_of(config, name + "_token")) out.text[name] = *std::move(text);
  }
  const auto found = [&](const char* kind) { return out.text.find(kind) != out.text.end(); };
  if (!found("bos") && found("cls")) out.text["bos"] = out.text["cls"];
  if (!found("eos") && found("sep")) out.text["eos"] = out.text["sep"];
}

std::optional<int64_t> integer_of(const Json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  const auto n = value.get<int64_t>();
  return n >= 0 ? std::optional(n) : std::nullopt;
}

/// The first end of text of generation_config.json that is not `eos`.
std::optional<int64_t> other_end(const TokenizerFiles& files, std::optional<int64_t> eos) {
  if (!files.generation || !files.generation->contains("eos_token_id")) return std::nullopt;
  const Json& ends = (*files.generation)["eos_token_id"];
  if (!ends.is_array()) return std::nullopt;
  for (const Json& end : ends) {
    const auto id = integer_of(end);
    if (id && id != eos) return id;
  }
  return std::nullopt;
}

}  // namespace

Status write_special_tokens(const TokenizerFiles& files, const std::vector<AddedToken>& added,
                            const Config& config, int64_t entries, gguf::Writer& out) {
  Special special;
  if (files.config) read_names(*files.config, special);
  if (files.tokenizer) {
    if (files.tokenizer->contains("normalizer")) {
      read_normalizer((*files.tokenizer)["normalizer"], out);
    }
    read_post_processor(*files.tokenizer, special);
  }
  std::map<std::string, int64_t, std::less<>> ids;
  for (const KindRow& kind : kKinds) {
    const std::string name(kind.name);
    if (files.config) {
      const auto add = files.config->find("add_" + name + "_token");
      if (add != files.config->end() && add->is_boolean()) special.add[name] = add->get<bool>();
    }
    const auto text = special.text.find(name);
    if (text != special.text.end()) {
      const auto token = std::ranges::find(added, text->second, &AddedToken::text);
      if (token != added.end() && token->id < entries) ids.emplace(name, token->id);
    }
    if (const Json* const id = config.find({name + "_token_id"}); id != nullptr) {
      const auto number = integer_of(*id);
      if (number && *number < entries) ids.emplace(name, *number);
    }
  }
  const auto eos = ids.find("eos");
  if (ids.find("eot") == ids.end() && eos != ids.end()) {
    const auto end = other_end(files, eos->second);
    if (end && *end < entries) ids.emplace("eot", *end);
  }
  for (const KindRow& kind : kKinds) {
    const auto id = ids.find(kind.name);
    if (id != ids.end() && !kind.id_key.empty()) {
      out.set_u32("tokenizer.ggml." + std::string(kind.id_key), static_cast<uint32_t>(id->second));
    }
    const auto add = special.add.find(kind.name);
    if (add != special.add.end() && !kind.add_key.empty()) {
      out.set_bool("tokenizer.ggml." + std::string(kind.add_key), add->second);
    }
  }
  return {};
}

Status write_chat_template(const TokenizerFiles& files, gguf::Writer& out) {
  const std::filesystem::path root(files.folder);
  const std::string key = "tokenizer.chat_template";
  // The member of tokenizer_config.json comes before the files, as llama.cpp reads them.
  if (files.config && files.config->contains("chat_template")) {
    const Json& own = (*files.config)["chat_template"];
    if (own.is_string()) {
      out.set_string(key, own.get_ref<const std::string&>());
      return {};
    }
    if (!own.is_array() && !own.is_null()) {
      return invalid_data("tokenizer_config.json: chat_template must be a text or a list");
    }
    std::vector<std::string> names;
    for (const Json& entry : own.is_array() ? own : Json::array()) {
      const auto name = entry.is_object() ? text_of(entry, "name") : std::nullopt;
      const auto text = entry.is_object() ? text_of(entry, "template") : std::nullopt;
      if (!name || !text) {
        return invalid_data("tokenizer_config.json has a chat_template without name and template");
      }
      if (*name == "default") {
        out.set_string(key, *text);
      } else {
        out.set_string(key + "." + *name, *text);
        names.push_back(*name);
      }
    }
    if (!names.empty()) out.set_strings("tokenizer.chat_templates", names);
    if (own.is_array()) return {};
  }
  const std::string jinja = (root / "chat_template.jinja").string();
  std::error_code failure;
  if (std::filesystem::exists(jinja, failure)) {
    CHIMERE_TRY(const std::string text, read_text(jinja));
    out.set_string(key, text);
    return {};
  }
  CHIMERE_TRY(const auto json, read_json((root / "chat_template.json").string()));
  const auto text = json ? text_of(*json, "chat_template") : std::nullopt;
  if (text) out.set_string(key, *text);
  return {};
}

}  // namespace chimere::convert
