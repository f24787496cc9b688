// A vocabulary for the tests of this folder.
#ifndef CHIMERE_TRAIN_TEST_VOCABULARY_H_
#define CHIMERE_TRAIN_TEST_VOCABULARY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/reader.h"
#include "gguf/writer.h"

namespace chimere::train {

/// `size` tokens, at most 64, in a file as chimere-vocabulary writes it.
inline Result<std::unique_ptr<gguf::Reader>> test_vocabulary(uint32_t size,
                                                             const std::string& path) {
  gguf::Writer writer;
  std::vector<std::string> tokens;
  for (uint32_t i = 0; i < size; ++i) tokens.emplace_back(2, static_cast<char>('0' + i));
  writer.set_string("tokenizer.ggml.model", "gpt2");
  writer.set_string("tokenizer.ggml.pre", "qwen2");
  writer.set_string("tokenizer.chat_template", "{{ messages }}");
  writer.set_strings("tokenizer.ggml.tokens", tokens);
  writer.set_strings("tokenizer.ggml.merges", {"t 1"});
  writer.set_i32s("tokenizer.ggml.token_type", std::vector<int32_t>(size, 1));
  writer.set_u32("tokenizer.ggml.eos_token_id", size - 2);
  writer.set_u32("tokenizer.ggml.padding_token_id", size - 1);
  CHIMERE_CHECK_OK(writer.write(path));
  return gguf::Reader::open(path);
}

}  // namespace chimere::train

#endif  // CHIMERE_TRAIN_TEST_VOCABULARY_H_
