// Collects the lines of a document into blocks.
#ifndef CHIMERE_RETRIEVAL_BLOCK_BUILDER_H_
#define CHIMERE_RETRIEVAL_BLOCK_BUILDER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "retrieval/document.h"

namespace chimere::retrieval {

class BlockBuilder {
 public:
  explicit BlockBuilder(Document& document) : document_(document) {}

  /// Ends the open block, if any.
  void end() {
    const size_t last = open_.text.find_last_not_of(" \t\n");
    open_.text.resize(last == std::string::npos ? 0 : last + 1);
    if (!open_.text.empty()) document_.blocks.push_back(std::move(open_));
    open_ = {};
  }
  /// Adds a line to the open block, or begins one.
  void add(Block::Kind kind, std::string_view text, int64_t line) {
    if (!open_.text.empty() && open_.kind != kind) end();
    if (open_.text.empty()) {
      open_.kind = kind;
      open_.line = line;
    } else {
      open_.text += '\n';
    }
    open_.text += text;
  }
  void heading(int level, std::string_view text, int64_t line) {
    end();
    if (text.empty()) return;
    document_.blocks.push_back({Block::Kind::kHeading, level, std::string(text), line});
  }
  bool empty() const { return open_.text.empty(); }

 private:
  Document& document_;
  Block open_;
};

}  // namespace chimere::retrieval

#endif  // CHIMERE_RETRIEVAL_BLOCK_BUILDER_H_
