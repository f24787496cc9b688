#include "support/vocabulary.h"

#include <string>
#include <vector>

namespace chimere::test {
namespace {

/// The character of the byte-level BPE alphabet for each byte, in UTF-8: itself if printable,
/// else the next free character from U+0100 on.
std::vector<std::string> byte_tokens() {
  std::vector<std::string> tokens;
  int next = 256;
  for (int b = 0; b < 256; ++b) {
    const bool printable = (b > 32 && b < 127) || (b > 160 && b != 173);
    const int c = printable ? b : next++;
    if (c < 128) {
      tokens.emplace_back(1, static_cast<char>(c));
    } else {
      tokens.push_back({static_cast<char>(0xC0 | (c >> 6)), static_cast<char>(0x80 | (c & 63))});
    }
  }
  return tokens;
}

void write_tokens(gguf::Writer& writer, int n_vocab, const std::vector<std::string>& infill) {
  const bool bytes = n_vocab >= 260;
  std::vector<std::string> tokens = bytes ? byte_tokens() : std::vector<std::string>{};
  if (bytes) tokens.emplace_back("th");
  const auto ordinary = static_cast<size_t>(n_vocab - (bytes ? 3 : 0));
  while (tokens.size() < ordinary) tokens.push_back("<t" + std::to_string(tokens.size()) + ">");
  std::vector<int32_t> types(ordinary, 1);
  for (size_t i = 0; i < infill.size(); ++i) {
    tokens.at(257 + i) = infill[i];
    types.at(257 + i) = 3;
  }
  if (bytes) {
    tokens.insert(tokens.end(), {"<|endoftext|>", "<|im_start|>", "<|im_end|>"});
    types.insert(types.end(), 3, 3);
  }
  writer.set_strings("tokenizer.ggml.tokens", tokens);
  writer.set_i32s("tokenizer.ggml.token_type", types);
}

}  // namespace

void add_infill_tokens(gguf::Writer& writer, int n_vocab) {
  write_tokens(writer, n_vocab, {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"});
}

void write_vocabulary(gguf::Writer& writer, int n_vocab) {
  const bool bytes = n_vocab >= 260;
  writer.set_string("tokenizer.ggml.model", "gpt2");
  writer.set_string("tokenizer.ggml.pre", "qwen35");
  write_tokens(writer, n_vocab, {});
  writer.set_strings("tokenizer.ggml.merges", {"t h"});
  writer.set_u32("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(n_vocab - 1));
  writer.set_u32("tokenizer.ggml.padding_token_id", static_cast<uint32_t>(n_vocab - 3));
  writer.set_bool("tokenizer.ggml.add_bos_token", false);
  if (bytes) {
    writer.set_string(
        "tokenizer.chat_template",
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
        "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
  }
}

}  // namespace chimere::test
