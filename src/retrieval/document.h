// Documents as readers produce them: blocks in reading order.
#ifndef CHIMERE_RETRIEVAL_DOCUMENT_H_
#define CHIMERE_RETRIEVAL_DOCUMENT_H_

#include <cstdint>
#include <string>
#include <vector>

namespace chimere::retrieval {

struct Block {
  enum class Kind : uint8_t {
    kHeading,  ///< one line
    kText,     ///< a paragraph or list item; may be cut after a sentence
    kCode,     ///< lines that belong together; may be cut after a line
  };
  Kind kind = Kind::kText;
  int level = 0;  ///< of a heading, from 1 (the document's title) on
  std::string text;
  int64_t line = 0;  ///< where it begins in the source, from 1; 0: unknown
};

struct Document {
  std::string title;  ///< may be empty
  std::vector<Block> blocks;
};

}  // namespace chimere::retrieval

#endif  // CHIMERE_RETRIEVAL_DOCUMENT_H_
