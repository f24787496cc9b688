#include "convert/vocabulary_source.h"

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

namespace chimere::convert {
namespace {

constexpr int64_t kMaxId = int64_t{1} << 31;

bool id_of(const Json& value, int64_t& out) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned() && value.get<uint64_t>() >= static_cast<uint64_t>(kMaxId)) {
    return false;
  }
  out = value.get<int64_t>();
  return out >= 0 && out < kMaxId;
}

Result<AddedToken> added_token(const Json& entry, std::optional<int64_t> id) {
  AddedToken out;
  const auto content = entry.is_object() ? entry.find("content") : entry.end();
  const bool named = entry.is_object() && content != entry.end() && content->is_string();
  if (id) {
    out.id = *id;
  } else if (!named || !entry.contains("id") || !id_of(entry["id"], out.id)) {
    return invalid_data("tokenizer.json has an added token without an id and a content");
  }
  if (!named) return invalid_data("tokenizer_config.json has an added token without a content");
  out.text = content->get<std::string>();
  const auto special = entry.find("special");
  out.special = special != entry.end() && special->is_boolean() && special->get<bool>();
  return out;
}

/// Reads the fields of a protocol buffer.
class ProtocolBuffer {
 public:
  explicit ProtocolBuffer(std::string_view bytes) : bytes_(bytes) {}
  struct Field {
    uint64_t number = 0;
    uint64_t integer = 0;    ///< of a varint or a fixed 32-bit value
    std::string_view bytes;  ///< of a length-delimited field
  };
  bool done() const { return at_ == bytes_.size(); }
  bool next(Field& out) {
    uint64_t tag = 0;
    out = {};
    if (!varint(tag)) return false;
    out.number = tag >> 3;
    switch (tag & 7) {
      case 0:
        return varint(out.integer);
      case 1:
        return fixed(8, out.integer);
      case 2: {
        uint64_t size = 0;
        if (!varint(size) || size > bytes_.size() - at_) return false;
        out.bytes = bytes_.substr(at_, static_cast<size_t>(size));
        at_ += static_cast<size_t>(size);
        return true;
      }
      case 5:
        return fixed(4, out.integer);
      default:
        return false;
    }
  }

 private:
  bool varint(uint64_t& out) {
    out = 0;
    for (unsigned shift = 0; shift < 64 && at_ < bytes_.size(); shift += 7) {
      const auto byte = static_cast<uint8_t>(bytes_[at_++]);
      out |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) return true;
    }
    return false;
  }
  bool fixed(size_t size, uint64_t& out) {
    if (bytes_.size() - at_ < size) return false;
    std::memcpy(&out, bytes_.data() + at_, size);
    at_ += size;
    return true;
  }
  std::string_view bytes_;
  size_t at_ = 0;
};

Error damaged() { return invalid_data("tokenizer.model is damaged"); }

Result<Entry> parse_piece(std::string_view bytes) {
  Entry out = {.text = {}, .kind = EntryKind::kNormal, .score = 0};
  ProtocolBuffer fields(bytes);
  ProtocolBuffer::Field field;
  while (!fields.done()) {
    if (!fields.next(field)) return damaged();
    if (field.number == 1) out.text = std::string(field.bytes);
    if (field.number == 2) {
      const auto bits = static_cast<uint32_t>(field.integer);
      std::memcpy(&out.score, &bits, sizeof(bits));
    }
    if (field.number == 3) {
      if (field.integer < 1 || field.integer > 6) return damaged();
      out.kind = static_cast<EntryKind>(field.integer);
    }
  }
  return out;
}

}  // namespace

Result<TokenizerFiles> read_tokenizer_files(const std::string& folder) {
  const std::filesystem::path root(folder);
  TokenizerFiles out = {.folder = folder, .tokenizer = {}, .config = {}, .generation = {}};
  CHIMERE_TRY(out.tokenizer, read_json((root / "tokenizer.json").string()));
  CHIMERE_TRY(out.config, read_json((root / "tokenizer_config.json").string()));
  CHIMERE_TRY(out.generation, read_json((root / "generation_config.json").string()));
  return out;
}

Result<std::vector<AddedToken>> read_added_tokens(const TokenizerFiles& files) {
  std::vector<AddedToken> out;
  if (files.tokenizer && files.tokenizer->contains("added_tokens")) {
    const Json& all = (*files.tokenizer)["added_tokens"];
    if (!all.is_array()) return invalid_data("tokenizer.json: added_tokens must be a list");
    for (const Json& entry : all) {
      CHIMERE_TRY(AddedToken token, added_token(entry, std::nullopt));
      out.push_back(std::move(token));
    }
    return out;
  }
  if (files.config && files.config->contains("added_tokens_decoder")) {
    const Json& all = (*files.config)["added_tokens_decoder"];
    if (!all.is_object()) {
      return invalid_data("tokenizer_config.json: added_tokens_decoder must be an object");
    }
    constexpr size_t kMaxDigits = 9;
    for (const auto& [id, entry] : all.items()) {
      if (id.empty() || id.size() > kMaxDigits ||
          id.find_first_not_of("0123456789") != std::string::npos) {
        return invalid_data("tokenizer_config.json: added_tokens_decoder has no ids");
      }
      CHIMERE_TRY(AddedToken token, added_token(entry, std::stoll(id)));
      out.push_back(std::move(token));
    }
  }
  return out;
}

Result<std::map<int64_t, std::string>> read_vocab(const Json& tokenizer, int64_t entries) {
  const auto model = tokenizer.find("model");
  if (model == tokenizer.end() || !model->is_object() || !model->contains("vocab") ||
      !(*model)["vocab"].is_object()) {
    return invalid_data("tokenizer.json has no model.vocab");
  }
  std::map<int64_t, std::string> out;
  for (const auto& [text, id] : (*model)["vocab"].items()) {
    int64_t number = 0;
    if (!id_of(id, number) || number >= entries) {
      return invalid_data("tokenizer.json has the id " + id.dump().substr(0, 40) +
                          ", but the model has embeddings for " + std::to_string(entries) +
                          " tokens");
    }
    if (!out.emplace(number, text).second) {
      return invalid_data("tokenizer.json has the id " + std::to_string(number) + " twice");
    }
  }
  return out;
}

Result<SentencePieceModel> parse_sentence_piece(std::string_view bytes) {
  SentencePieceModel out;
  ProtocolBuffer fields(bytes);
  ProtocolBuffer::Field field;
  uint64_t kind = 1;  // unigram, the default
  while (!fields.done()) {
    if (!fields.next(field)) return damaged();
    if (field.number == 1) {
      CHIMERE_TRY(Entry piece, parse_piece(field.bytes));
      out.entries.push_back(std::move(piece));
    }
    ProtocolBuffer inner(field.bytes);
    ProtocolBuffer::Field member;
    while ((field.number == 2 || field.number == 3) && !inner.done()) {
      if (!inner.next(member)) return damaged();
      if (field.number == 2 && member.number == 3) kind = member.integer;
      if (field.number == 3 && member.number == 3) out.add_space_prefix = member.integer != 0;
    }
  }
  if (out.entries.empty()) return damaged();
  if (kind != 2) {
    return unsupported(
        "tokenizer.model is no byte-pair encoding; SentencePiece's other kinds "
        "cannot be converted");
  }
  return out;
}

bool looks_special(std::string_view text) {
  for (const std::string_view name : {"<pad>", "<mask>", "<2mass>", "[@BOS@]"}) {
    if (text == name) return true;
  }
  constexpr std::string_view kWideBar = "\xEF\xBD\x9C";  // U+FF5C
  const auto between = [&](const std::string& open, const std::string& close) {
    return text.starts_with(open) && text.ends_with(close);
  };
  return between("<|", "|>") || between("<unused", ">") ||
         between("<" + std::string(kWideBar), std::string(kWideBar) + ">");
}

}  // namespace chimere::convert
