// The vocabulary of random model files.
#ifndef CHIMERE_TESTS_SUPPORT_VOCABULARY_H_
#define CHIMERE_TESTS_SUPPORT_VOCABULARY_H_

#include "gguf/writer.h"

namespace chimere::test {

/// Writes the keys of a tokenizer with n_vocab tokens: TinyModel::n_vocab says which.
void write_vocabulary(gguf::Writer& writer, int n_vocab);
/// Replaces tokens 257, 258 and 259 of a vocabulary of bytes by those for filling in: prefix,
/// suffix and middle.
void add_infill_tokens(gguf::Writer& writer, int n_vocab);

}  // namespace chimere::test

#endif  // CHIMERE_TESTS_SUPPORT_VOCABULARY_H_
