#include <utility>

#include "text/bpe_tokenizer.h"
#include "text/spm_tokenizer.h"
#include "text/tokenizer.h"
#include "text/unigram_tokenizer.h"
#include "text/word_piece_tokenizer.h"

namespace chimere::text {

Result<std::unique_ptr<Tokenizer>> Tokenizer::create(Vocabulary vocabulary) {
  if (vocabulary.model == "gpt2") return BpeTokenizer::create(std::move(vocabulary));
  if (vocabulary.model == "llama") return SpmTokenizer::create(std::move(vocabulary));
  if (vocabulary.model == "bert") return WordPieceTokenizer::create(std::move(vocabulary));
  if (vocabulary.model == "t5") return UnigramTokenizer::create(std::move(vocabulary));
  return unsupported("The tokenizer model '" + vocabulary.model +
                     "' is not supported. Known are: gpt2 (byte-level BPE), llama (SentencePiece "
                     "BPE), bert (WordPiece), t5 (SentencePiece unigram).");
}

}  // namespace chimere::text
