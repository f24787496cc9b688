// The vocabulary of random model files.
#ifndef CHIMERE_TESTS_SUPPORT_VOCABULARY_H_
#define CHIMERE_TESTS_SUPPORT_VOCABULARY_H_

#include "gguf/writer.h"

namespace chimere::test {

/// Writes the keys of a tokenizer with n_vocab tokens: TinyModel::n_vocab says which.
void write_vocabulary(gguf::Writer& writer, int n_vocab);

}  // namespace chimere::test

#endif  // CHIMERE_TESTS_SUPPORT_VOCABULARY_H_
