// HTML as a list of nodes, parsed by gumbo within limits of memory and time.
#ifndef CHIMERE_RETRIEVAL_HTML_TREE_H_
#define CHIMERE_RETRIEVAL_HTML_TREE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace chimere::retrieval {

struct HtmlNode {
  enum class Kind : uint8_t { kElement, kText };
  Kind kind = Kind::kElement;
  std::string tag;   ///< of an element, in lower case; empty: none of HTML's
  std::string text;  ///< of a text
  /// Attributes that tell what an element is for: "class", "id" and "role", separated by spaces.
  std::string labels;
  bool hidden = false;
  int64_t line = 0;
  size_t parent = 0;  ///< of the root: itself
  size_t end = 0;     ///< the index after its last descendant
};

/// The nodes in document order, the root first; elements of SVG and MathML are left out. Any bytes
/// are HTML: errors are kInvalidData for a page of more than 16 MiB, one with more than 500
/// elements inside each other, and one that needs more than 16 MiB and 64 times its size in memory,
/// or ten seconds (open formatting elements make HTML's algorithm quadratic).
Result<std::vector<HtmlNode>> parse_html(std::string_view html);

}  // namespace chimere::retrieval

#endif  // CHIMERE_RETRIEVAL_HTML_TREE_H_
