// Unigram models of tokenizer.json.
#include <array>
#include <nlohmann/json.hpp>

#include "convert/vocabulary_source.h"

namespace chimere::convert {
namespace {

constexpr std::string_view kDamagedMap =
    "tokenizer.json: precompiled_charsmap is no base64 (RFC 4648)";

Result<std::string> decode_base64(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::array<int, 256> value = {};
  value.fill(-1);
  for (size_t i = 0; i < kDigits.size(); ++i) {
    value[static_cast<uint8_t>(kDigits[i])] = static_cast<int>(i);
  }
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int digit = value[static_cast<uint8_t>(c)];
    if (digit < 0) return invalid_data(std::string(kDamagedMap));
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out += static_cast<char>(bits >> count & 0xFF);
  }
  return out;
}

/// What a normalizer or pre-tokenizer, or the parts of one, do.
Status read_steps(const Json& step, UnigramModel& out) {
  if (!step.is_object()) return {};
  const auto type = step.find("type");
  if (type == step.end() || !type->is_string()) return {};
  const auto& name = type->get_ref<const std::string&>();
  for (const char* parts : {"normalizers", "pretokenizers"}) {
    const auto inner = step.find(parts);
    if (name != "Sequence" || inner == step.end() || !inner->is_array()) continue;
    for (const Json& one : *inner) CHIMERE_CHECK_OK(read_steps(one, out));
    return {};
  }
  if (name == "Precompiled") {
    const auto map = step.find("precompiled_charsmap");
    if (map == step.end() || map->is_null()) return {};
    if (!map->is_string()) return invalid_data(std::string(kDamagedMap));
    CHIMERE_TRY(out.character_map, decode_base64(map->get_ref<const std::string&>()));
    return {};
  }
  // Spaces become one by splitting at them, or by replacing runs (" {2,}").
  if (name == "WhitespaceSplit" || name == "Strip" || name == "Replace") {
    out.removes_spaces = true;
    return {};
  }
  if (name == "Metaspace") return {};
  return unsupported("tokenizer.json normalises text by '" + name.substr(0, 40) +
                     "', which a unigram model of a GGUF file cannot express");
}

}  // namespace

Result<UnigramModel> read_unigram(const Json& tokenizer) {
  UnigramModel out;
  for (const char* part : {"normalizer", "pre_tokenizer"}) {
    if (tokenizer.contains(part)) CHIMERE_CHECK_OK(read_steps(tokenizer[part], out));
  }
  const Json& model = tokenizer["model"];
  if (!model.contains("vocab") || !model["vocab"].is_array()) {
    return invalid_data("tokenizer.json has no model.vocab");
  }
  for (const Json& piece : model["vocab"]) {
    if (!piece.is_array() || piece.size() != 2 || !piece[0].is_string() || !piece[1].is_number()) {
      return invalid_data("tokenizer.json: model.vocab must hold pairs of a text and a score");
    }
    out.entries.push_back({.text = piece[0].get<std::string>(),
                           .kind = EntryKind::kNormal,
                           .score = piece[1].get<float>()});
  }
  const auto unknown = model.find("unk_id");
  if (unknown == model.end() || unknown->is_null()) return out;
  if (!unknown->is_number_integer() || *unknown < 0 || *unknown >= out.entries.size()) {
    return invalid_data("tokenizer.json: model.unk_id is not the number of a piece");
  }
  out.entries[unknown->get<size_t>()].kind = EntryKind::kUnknown;
  return out;
}

}  // namespace chimere::convert
