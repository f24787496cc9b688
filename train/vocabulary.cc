// chimere-vocabulary: trains the byte-level BPE vocabulary of a corpus and encodes documents to
// token files.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>

#include "arguments.h"
#include "gguf/reader.h"
#include "gguf/writer.h"
#include "text/tokenizer.h"
#include "token_file.h"
#include "vocabulary/bpe_trainer.h"

namespace chimere::train {
namespace {

constexpr const char* kUsage =
    R"(chimere-vocabulary learn --out F --template F [--size N] [--pre qwen2] FILE...
  documents end with a zero byte, as train/corpus/build.py writes them; F is a GGUF of tokenizer.* metadata
chimere-vocabulary order --vocabulary F --out F FILE...
  the same tokens and merges with ids in the order of their frequency in the files (conversations and documents),
  so that a list of the first few thousand covers most of a text; control tokens stay last
chimere-vocabulary encode --vocabulary F --out F [--special yes|no] [--max-tokens N] FILE
  --special yes: <|im_start|> and the like in the text are control tokens (conversations)
)";

Result<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream all;
  all << in.rdbuf();
  if (!in) return io_error("Cannot read " + path + ".");
  return std::move(all).str();
}

/// Calls f with each document.
template <typename F>
Status each_document(std::string_view text, F f) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\0'), text.size());
    CHIMERE_CHECK_OK(f(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {};
}

/// Writes a GGUF of tokenizer.* metadata.
Status write_vocabulary(const text::Vocabulary& v, const std::string& chat_template,
                        const std::string& path) {
  const auto n = static_cast<uint32_t>(v.tokens.size());
  gguf::Writer file;
  file.set_string("tokenizer.ggml.model", "gpt2");
  file.set_string("tokenizer.ggml.pre", v.pre);
  file.set_strings("tokenizer.ggml.tokens", v.tokens);
  file.set_i32s("tokenizer.ggml.token_type", v.types);
  file.set_strings("tokenizer.ggml.merges", v.merges);
  file.set_bool("tokenizer.ggml.add_bos_token", false);
  file.set_string("tokenizer.chat_template", chat_template);
  for (const auto& [key, token] : {std::pair("tokenizer.ggml.eos_token_id", "<|im_end|>"),
                                   std::pair("tokenizer.ggml.padding_token_id", "<|endoftext|>")}) {
    const auto at = std::find(v.tokens.begin(), v.tokens.end(), token);
    if (at == v.tokens.end()) return invalid_data(std::string("The vocabulary lacks ") + token);
    file.set_u32(key, static_cast<uint32_t>(at - v.tokens.begin()));
  }
  std::printf("%u tokens\n", n);
  return file.write(path);
}

Status learn(Arguments& a) {
  BpeTrainOptions options;
  options.pre = a.get("pre", "qwen2");
  options.vocab_size = static_cast<int32_t>(a.integer("size", 16384));
  options.max_token_bytes = 24;
  options.control_tokens = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  options.user_defined_tokens = {"<tool_response>", "</tool_response>", "<tool_call>",
                                 "</tool_call>",    "<think>",          "</think>"};
  const std::string out = a.get("out", "");
  CHIMERE_TRY(const std::string chat_template, read_file(a.get("template", "")));
  CHIMERE_CHECK_OK(a.unread());
  WordCounts words;
  for (const std::string& path : a.words()) {
    CHIMERE_TRY(const std::string all, read_file(path));
    CHIMERE_CHECK_OK(each_document(
        all, [&](std::string_view document) { return count_words(options.pre, document, words); }));
  }
  CHIMERE_TRY(const text::Vocabulary v, train_bpe(words, options));
  std::printf("%zu different words\n", words.size());
  return write_vocabulary(v, chat_template, out);
}

Result<text::Vocabulary> read_vocabulary(const gguf::Reader& file) {
  text::Vocabulary v;
  CHIMERE_TRY(v.model, file.get_string("tokenizer.ggml.model"));
  CHIMERE_TRY(v.pre, file.get_string("tokenizer.ggml.pre"));
  const auto* tokens = file.find_strings("tokenizer.ggml.tokens");
  const auto* merges = file.find_strings("tokenizer.ggml.merges");
  if (tokens == nullptr || merges == nullptr) return invalid_data("The vocabulary has no tokens.");
  v.tokens = *tokens;
  v.merges = *merges;
  CHIMERE_TRY(const auto types, file.get_int_array("tokenizer.ggml.token_type"));
  v.types.assign(types.begin(), types.end());
  return v;
}

Status order(Arguments& a) {
  CHIMERE_TRY(const auto file, gguf::Reader::open(a.get("vocabulary", "")));
  CHIMERE_TRY(text::Vocabulary v, read_vocabulary(*file));
  CHIMERE_TRY(const std::string chat_template, file->get_string("tokenizer.chat_template"));
  const std::string out = a.get("out", "");
  CHIMERE_CHECK_OK(a.unread());
  CHIMERE_TRY(const auto tokenizer, text::Tokenizer::create(v));
  std::vector<int64_t> counts(v.tokens.size());
  for (const std::string& path : a.words()) {
    CHIMERE_TRY(const std::string all, read_file(path));
    CHIMERE_CHECK_OK(each_document(all, [&](std::string_view document) -> Status {
      for (const int32_t id : tokenizer->encode(document, true)) ++counts[static_cast<size_t>(id)];
      return {};
    }));
  }
  std::vector<size_t> ids(v.tokens.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto last = std::stable_partition(ids.begin(), ids.end(), [&](size_t i) {
    return v.types[i] == static_cast<int32_t>(text::TokenType::kNormal);
  });
  std::stable_sort(ids.begin(), last, [&](size_t x, size_t y) { return counts[x] > counts[y]; });
  text::Vocabulary sorted = v;
  for (size_t i = 0; i < ids.size(); ++i) {
    sorted.tokens[i] = v.tokens[ids[i]];
    sorted.types[i] = v.types[ids[i]];
  }
  return write_vocabulary(sorted, chat_template, out);
}

Status encode(Arguments& a) {
  CHIMERE_TRY(const auto file, gguf::Reader::open(a.get("vocabulary", "")));
  CHIMERE_TRY(text::Vocabulary v, read_vocabulary(*file));
  CHIMERE_TRY(const auto tokenizer, text::Tokenizer::create(std::move(v)));
  const std::string out = a.get("out", "");
  const bool special = a.get("special", "no") == "yes";
  const auto limit = static_cast<size_t>(a.integer("max-tokens", int64_t{1} << 40));
  CHIMERE_CHECK_OK(a.unread());
  if (a.words().size() != 1) return invalid_argument(kUsage);
  CHIMERE_TRY(const std::string all, read_file(a.words()[0]));
  const int32_t end = tokenizer->find("<|endoftext|>");
  if (end < 0 || tokenizer->n_tokens() > 65536) {
    return invalid_data(
        "Token files need a vocabulary of at most 65536 tokens with <|endoftext|>.");
  }
  TokenFile tokens{
      static_cast<uint32_t>(tokenizer->n_tokens()), static_cast<uint32_t>(end), 0, {}, {}};
  CHIMERE_CHECK_OK(each_document(all, [&](std::string_view document) -> Status {
    if (tokens.ids.size() >= limit) return {};
    for (const int32_t id : tokenizer->encode(document, special)) {
      tokens.ids.push_back(static_cast<uint16_t>(id));
    }
    tokens.ids.push_back(static_cast<uint16_t>(end));
    tokens.text_bytes += document.size();
    return {};
  }));
  std::printf("%s: %zu tokens, %.3f bytes a token\n", out.c_str(), tokens.ids.size(),
              double(tokens.text_bytes) / double(tokens.ids.size()));
  return tokens.write(out);
}

}  // namespace
}  // namespace chimere::train

int main(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  chimere::train::Arguments a(argc, argv);
  const chimere::Status status = command == "learn"   ? chimere::train::learn(a)
                                 : command == "order" ? chimere::train::order(a)
                                 : command == "encode"
                                     ? chimere::train::encode(a)
                                     : chimere::invalid_argument(chimere::train::kUsage);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.error().message.c_str());
  return 1;
}
