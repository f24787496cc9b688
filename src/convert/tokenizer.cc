#include "convert/tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/pre_tokenizer_names.h"
#include "convert/special_tokens.h"
#include "convert/vocabulary_source.h"

namespace chimere::convert {
namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581, SentencePiece's space

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

/// Puts added tokens at their places. User-defined ones have plain spaces.
Status place_added(const std::vector<AddedToken>& added, std::vector<Entry>& entries) {
  for (const AddedToken& token : added) {
    if (token.id >= static_cast<int64_t>(entries.size())) {
      return invalid_data("the added token '" + token.text.substr(0, 80) + "' has the id " +
                          std::to_string(token.id) + ", but the model has embeddings for " +
                          std::to_string(entries.size()) + " tokens");
    }
    Entry& entry = entries[static_cast<size_t>(token.id)];
    entry.text = token.text;
    if (entry.kind == EntryKind::kUnknown || entry.kind == EntryKind::kByte) continue;
    if (token.special || looks_special(token.text)) {
      entry.kind = EntryKind::kControl;
    } else {
      entry.kind = EntryKind::kUserDefined;
      replace_all(entry.text, kSpaceMark, " ");
    }
  }
  return {};
}

/// `count` entries that no text has.
std::vector<Entry> unused_entries(int64_t count, float score) {
  std::vector<Entry> out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = {.text = "[PAD" + std::to_string(i) + "]", .kind = EntryKind::kUnused, .score = score};
  }
  return out;
}

void write_entries(const std::string& model, const std::string& pre,
                   const std::vector<Entry>& entries, bool scores, gguf::Writer& out) {
  std::vector<std::string> texts;
  std::vector<int32_t> kinds;
  std::vector<float> values;
  for (const Entry& entry : entries) {
    texts.push_back(entry.text);
    kinds.push_back(static_cast<int32_t>(entry.kind));
    values.push_back(entry.score);
  }
  out.set_string("tokenizer.ggml.model", model);
  out.set_string("tokenizer.ggml.pre", pre);
  out.set_strings("tokenizer.ggml.tokens", texts);
  if (scores) out.set_f32s("tokenizer.ggml.scores", values);
  out.set_i32s("tokenizer.ggml.token_type", kinds);
}

/// Merges as "left right". A space inside a part is written as the byte-level alphabet does.
Result<std::vector<std::string>> read_merges(const Json& model) {
  const auto merges = model.find("merges");
  if (merges == model.end() || !merges->is_array()) {
    return invalid_data("tokenizer.json has no model.merges");
  }
  std::vector<std::string> out;
  for (const Json& merge : *merges) {
    if (merge.is_string()) {
      out.push_back(merge.get<std::string>());
      continue;
    }
    if (!merge.is_array() || merge.size() != 2 || !merge[0].is_string() || !merge[1].is_string()) {
      return invalid_data("tokenizer.json: model.merges must be pairs of texts");
    }
    std::string left = merge[0].get<std::string>();
    std::string right = merge[1].get<std::string>();
    constexpr std::string_view kByteSpace = "\xC4\xA0";  // U+0120
    replace_all(left, " ", kByteSpace);
    replace_all(right, " ", kByteSpace);
    left += ' ';
    left += right;
    out.push_back(std::move(left));
  }
  return out;
}

Status write_byte_level(const TokenizerFiles& files, const std::vector<AddedToken>& added,
                        int64_t count, gguf::Writer& out) {
  CHIMERE_TRY(const std::string pre, pre_tokenizer_name(*files.tokenizer));
  CHIMERE_TRY(const auto vocab, read_vocab(*files.tokenizer, count));
  CHIMERE_TRY(const auto merges, read_merges((*files.tokenizer)["model"]));
  std::vector<Entry> entries = unused_entries(count, 0);
  for (const auto& [id, text] : vocab) {
    entries[static_cast<size_t>(id)] = {.text = text, .kind = EntryKind::kNormal, .score = 0};
  }
  CHIMERE_CHECK_OK(place_added(added, entries));
  write_entries("gpt2", pre, entries, /*scores=*/false, out);
  out.set_strings("tokenizer.ggml.merges", merges);
  return {};
}

bool is_byte(std::string_view text) {
  return text.size() == 6 && text.starts_with("<0x") && text.back() == '>' &&
         text.substr(3, 2).find_first_not_of("0123456789ABCDEFabcdef") == std::string_view::npos;
}

/// Whether a normalizer or pre-tokenizer puts a space before a text.
bool prepends_space(const Json& tokenizer) {
  const auto has = [&](const char* part, std::string_view text) {
    const auto at = tokenizer.find(part);
    return at != tokenizer.end() && at->dump().find(text) != std::string::npos;
  };
  if (has("pre_tokenizer", "\"Metaspace\"")) {
    return !has("pre_tokenizer", "\"prepend_scheme\":\"never\"") &&
           !has("pre_tokenizer", "\"add_prefix_space\":false");
  }
  return has("normalizer", "\"Prepend\"");
}

/// A SentencePiece model that was rewritten as BPE. Its scores are lost; the order of merges gives
/// others that choose the same merges.
Status write_rewritten_pieces(const TokenizerFiles& files, const std::vector<AddedToken>& added,
                              int64_t count, gguf::Writer& out) {
  CHIMERE_TRY(const auto vocab, read_vocab(*files.tokenizer, count));
  const Json& model = (*files.tokenizer)["model"];
  CHIMERE_TRY(const auto merges, read_merges(model));
  std::map<std::string, float, std::less<>> scores;
  for (size_t i = 0; i < merges.size(); ++i) {
    std::string merged = merges[i];
    merged.erase(merged.find(' '), 1);
    scores.emplace(std::move(merged), -static_cast<float>(i));
  }
  const std::string unknown = model.contains("unk_token") && model["unk_token"].is_string()
                                  ? model["unk_token"].get<std::string>()
                                  : std::string();
  constexpr float kLast = -1e6F;
  std::vector<Entry> entries = unused_entries(count, kLast);
  for (const auto& [id, text] : vocab) {
    const auto score = scores.find(text);
    entries[static_cast<size_t>(id)] = {.text = text,
                                        .kind = text == unknown ? EntryKind::kUnknown
                                                : is_byte(text) ? EntryKind::kByte
                                                                : EntryKind::kNormal,
                                        .score = score != scores.end() ? score->second : kLast};
  }
  CHIMERE_CHECK_OK(place_added(added, entries));
  write_entries("llama", "default", entries, /*scores=*/true, out);
  out.set_bool("tokenizer.ggml.add_space_prefix", prepends_space(*files.tokenizer));
  return {};
}

Status write_pieces(const std::string& path, const std::vector<AddedToken>& added, int64_t count,
                    gguf::Writer& out) {
  CHIMERE_TRY(const std::string bytes, read_text(path));
  CHIMERE_TRY(const SentencePieceModel model, parse_sentence_piece(bytes));
  if (static_cast<int64_t>(model.entries.size()) > count) {
    return invalid_data(path + " has " + std::to_string(model.entries.size()) +
                        " tokens, but the model has embeddings for " + std::to_string(count));
  }
  constexpr float kLast = -10000;
  std::vector<Entry> entries = unused_entries(count, kLast);
  std::ranges::copy(model.entries, entries.begin());
  std::vector<AddedToken> further;
  for (const AddedToken& token : added) {
    // Those that the model has already keep its kind.
    const bool known = token.id < static_cast<int64_t>(model.entries.size()) &&
                       model.entries[static_cast<size_t>(token.id)].text == token.text;
    if (!known) further.push_back(token);
  }
  CHIMERE_CHECK_OK(place_added(further, entries));
  for (const AddedToken& token : further) entries[static_cast<size_t>(token.id)].score = -1000;
  write_entries("llama", "default", entries, /*scores=*/true, out);
  if (!model.add_space_prefix) out.set_bool("tokenizer.ggml.add_space_prefix", false);
  return {};
}

Status write_unigram(const TokenizerFiles& files, const std::vector<AddedToken>& added,
                     int64_t count, gguf::Writer& out) {
  CHIMERE_TRY(const UnigramModel model, read_unigram(*files.tokenizer));
  if (static_cast<int64_t>(model.entries.size()) > count) {
    return invalid_data("tokenizer.json has " + std::to_string(model.entries.size()) +
                        " tokens, but the model has embeddings for " + std::to_string(count));
  }
  constexpr float kLast = -10000;
  std::vector<Entry> entries = unused_entries(count, kLast);
  std::ranges::copy(model.entries, entries.begin());
  CHIMERE_CHECK_OK(place_added(added, entries));
  write_entries("t5", "default", entries, /*scores=*/true, out);
  out.set_bool("tokenizer.ggml.add_space_prefix", prepends_space(*files.tokenizer));
  out.set_bool("tokenizer.ggml.remove_extra_whitespaces", model.removes_spaces);
  if (!model.character_map.empty()) {
    out.set_u8s("tokenizer.ggml.precompiled_charsmap", model.character_map);
  }
  return {};
}

/// Beginnings of words get SentencePiece's mark in place of marks on the other parts.
Status write_word_pieces(const TokenizerFiles& files, const std::vector<AddedToken>& added,
                         const Config& config, int64_t count, gguf::Writer& out) {
  CHIMERE_TRY(const auto vocab, read_vocab(*files.tokenizer, count));
  std::vector<Entry> entries = unused_entries(count, 0);
  for (const auto& [id, text] : vocab) {
    entries[static_cast<size_t>(id)] = {.text = text, .kind = EntryKind::kNormal, .score = 0};
  }
  CHIMERE_CHECK_OK(place_added(added, entries));
  for (Entry& entry : entries) {
    if (entry.kind == EntryKind::kControl) continue;
    entry.text =
        entry.text.starts_with("##") ? entry.text.substr(2) : std::string(kSpaceMark) + entry.text;
  }
  write_entries("bert", "jina-v2-en", entries, /*scores=*/false, out);
  CHIMERE_TRY(const int64_t types, config.integer_or({"type_vocab_size"}, 1, 1));
  out.set_u32("tokenizer.ggml.token_type_count", static_cast<uint32_t>(types));
  return {};
}

}  // namespace

Status write_tokenizer(const TokenizerSource& source, const Config& config, gguf::Writer& out) {
  CHIMERE_TRY(const TokenizerFiles files, read_tokenizer_files(source.folder));
  CHIMERE_TRY(const auto added, read_added_tokens(files));
  const std::string pieces = (std::filesystem::path(source.folder) / "tokenizer.model").string();
  std::error_code failure;
  if (std::filesystem::exists(pieces, failure)) {
    CHIMERE_CHECK_OK(write_pieces(pieces, added, source.entries, out));
  } else if (!files.tokenizer) {
    return not_found(source.folder + " has no tokenizer.json and no tokenizer.model");
  } else {
    const auto model = files.tokenizer->find("model");
    if (model == files.tokenizer->end() || !model->is_object()) {
      return invalid_data("tokenizer.json has no model");
    }
    const std::string kind = model->contains("type") && (*model)["type"].is_string()
                                 ? (*model)["type"].get<std::string>()
                                 : "BPE";
    const bool bytes = model->contains("byte_fallback") && (*model)["byte_fallback"] == true;
    if (kind == "BPE" && bytes) {
      CHIMERE_CHECK_OK(write_rewritten_pieces(files, added, source.entries, out));
    } else if (kind == "BPE") {
      CHIMERE_CHECK_OK(write_byte_level(files, added, source.entries, out));
    } else if (kind == "WordPiece") {
      CHIMERE_CHECK_OK(write_word_pieces(files, added, config, source.entries, out));
    } else if (kind == "Unigram") {
      CHIMERE_CHECK_OK(write_unigram(files, added, source.entries, out));
    } else {
      return unsupported("tokenizer.json is a " + kind.substr(0, 40) +
                         " model; BPE, WordPiece and Unigram can be converted");
    }
  }
  CHIMERE_CHECK_OK(write_special_tokens(files, added, config, source.entries, out));
  if (source.add_bos) out.set_bool("tokenizer.ggml.add_bos_token", true);
  return write_chat_template(files, out);
}

}  // namespace chimere::convert
