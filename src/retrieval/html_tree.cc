#include "retrieval/html_tree.h"

#include <gumbo.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <csetjmp>
#include <cstddef>
#include <cstdlib>
#include <string>

namespace chimere::retrieval {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostPageBytes = size_t{16} << 20;
constexpr std::chrono::seconds kLongestParse{10};

/// Memory for one page. gumbo does not expect an allocation to fail, so that a page beyond the
/// limits is left with longjmp(); between there are only frames of C. The tree is never destroyed
/// node by node, which gumbo does recursively: the arena goes as a whole.
class Arena {
 public:
  explicit Arena(size_t limit) : left_(limit), deadline_(Clock::now() + kLongestParse) {}
  ~Arena() {
    while (blocks_ != nullptr) {
      Block* const next = blocks_->next;
      std::free(blocks_);
      blocks_ = next;
    }
  }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::jmp_buf& way_out() { return way_out_; }

  static void* allocate(void* self, size_t size) { return static_cast<Arena*>(self)->take(size); }
  static void ignore(void* /*self*/, void* /*memory*/) {}

 private:
  struct alignas(std::max_align_t) Block {
    Block* next;
  };

  void* take(size_t size) {
    constexpr size_t kAlign = alignof(std::max_align_t);
    constexpr size_t kBlock = size_t{256} << 10;
    constexpr unsigned kPolls = 256;
    if (++calls_ % kPolls == 0 && Clock::now() > deadline_) give_up();
    if (size > left_) give_up();
    size = (size + kAlign - 1) / kAlign * kAlign;
    if (size > free_) {
      const size_t bytes = std::max(size, kBlock);
      if (bytes > left_) give_up();
      auto* const block = static_cast<Block*>(std::malloc(sizeof(Block) + bytes));
      if (block == nullptr) give_up();
      left_ -= bytes;
      block->next = blocks_;
      blocks_ = block;
      next_ = reinterpret_cast<char*>(block + 1);
      free_ = bytes;
    }
    void* const memory = next_;
    next_ += size;
    free_ -= size;
    return memory;
  }
  [[noreturn]] void give_up() {
    std::longjmp(way_out_, 1);  // NOLINT(cert-err52-cpp): only frames of C in between
  }

  Block* blocks_ = nullptr;
  char* next_ = nullptr;
  size_t free_ = 0;
  size_t left_;
  unsigned calls_ = 0;
  Clock::time_point deadline_;
  std::jmp_buf way_out_ = {};
};

/// nullptr: the page exceeds a limit.
const GumboOutput* parse(Arena& arena, const char* html, size_t size) {
  if (setjmp(arena.way_out()) != 0) return nullptr;  // NOLINT(cert-err52-cpp): see Arena
  GumboOptions options = kGumboDefaultOptions;
  options.allocator = Arena::allocate;
  options.deallocator = Arena::ignore;
  options.userdata = &arena;
  options.max_errors = 0;
  return gumbo_parse_with_options(&options, html, size);
}

/// Whether elements are nested more deeply than any page needs, as far as that can be seen without
/// parsing: gumbo's time grows with the depth times the length. Elements that end without an end
/// tag, like <p>, do not count.
bool too_deep(std::string_view html) {
  constexpr int kMostDepth = 500;
  constexpr std::string_view kNested[] = {
      "div",     "span",    "b",     "i",        "u",          "a",     "em",
      "strong",  "font",    "small", "big",      "tt",         "s",     "strike",
      "code",    "nobr",    "ul",    "ol",       "blockquote", "table", "center",
      "section", "article", "dl",    "form",     "details",    "sub",   "sup",
      "svg",     "math",    "q",     "button",   "fieldset",   "main",  "nav",
      "header",  "footer",  "aside", "template", "object",     "g"};
  int depth = 0;
  for (size_t at = html.find('<'); at != std::string_view::npos; at = html.find('<', at + 1)) {
    const bool end = at + 1 < html.size() && html[at + 1] == '/';
    std::string name;
    for (size_t i = at + (end ? 2 : 1); i < html.size() && name.size() < 11; ++i) {
      const auto c = static_cast<unsigned char>(html[i]);
      if (std::isalnum(c) == 0) break;
      name += static_cast<char>(std::tolower(c));
    }
    if (std::ranges::find(kNested, std::string_view(name)) == std::end(kNested)) continue;
    depth = end ? std::max(depth - 1, 0) : depth + 1;
    if (depth > kMostDepth) return true;
  }
  return false;
}

const GumboVector* children_of(const GumboNode& node) {
  if (node.type == GUMBO_NODE_ELEMENT || node.type == GUMBO_NODE_TEMPLATE)
    return &node.v.element.children;
  return node.type == GUMBO_NODE_DOCUMENT ? &node.v.document.children : nullptr;
}

HtmlNode element_of(const GumboElement& element) {
  HtmlNode node;
  if (element.tag != GUMBO_TAG_UNKNOWN) node.tag = gumbo_normalized_tagname(element.tag);
  node.line = element.start_pos.line;
  for (const char* name : {"class", "id", "role"}) {
    if (const GumboAttribute* a = gumbo_get_attribute(&element.attributes, name)) {
      node.labels += ' ';
      node.labels += std::string_view(a->value).substr(0, 200);
    }
  }
  const GumboAttribute* aria = gumbo_get_attribute(&element.attributes, "aria-hidden");
  node.hidden = gumbo_get_attribute(&element.attributes, "hidden") != nullptr ||
                (aria != nullptr && std::string_view(aria->value) == "true");
  return node;
}

bool is_text(const GumboNode& node) {
  return node.type == GUMBO_NODE_TEXT || node.type == GUMBO_NODE_WHITESPACE ||
         node.type == GUMBO_NODE_CDATA;
}

std::vector<HtmlNode> flattened(const GumboNode& root) {
  struct Open {
    const GumboNode* node;
    size_t index;
    unsigned next_child;
  };
  std::vector<HtmlNode> nodes(1);
  std::vector<Open> open = {{&root, 0, 0}};
  while (!open.empty()) {
    Open& top = open.back();
    const GumboVector* children = children_of(*top.node);
    if (children == nullptr || top.next_child >= children->length) {
      nodes[top.index].end = nodes.size();
      open.pop_back();
      continue;
    }
    const auto& child = *static_cast<const GumboNode*>(children->data[top.next_child++]);
    const size_t parent = top.index;
    if (is_text(child)) {
      HtmlNode node;
      node.kind = HtmlNode::Kind::kText;
      node.text = child.v.text.text;
      node.line = child.v.text.start_pos.line;
      node.parent = parent;
      node.end = nodes.size() + 1;
      nodes.push_back(std::move(node));
    } else if (children_of(child) != nullptr) {
      if (child.v.element.tag_namespace != GUMBO_NAMESPACE_HTML) continue;
      nodes.push_back(element_of(child.v.element));
      nodes.back().parent = parent;
      open.push_back({&child, nodes.size() - 1, 0});
    }
  }
  return nodes;
}

}  // namespace

Result<std::vector<HtmlNode>> parse_html(std::string_view html) {
  if (html.size() > kMostPageBytes) {
    return invalid_data("The HTML page has more than " + std::to_string(kMostPageBytes >> 20U) +
                        " MiB.");
  }
  if (too_deep(html)) return invalid_data("The HTML page is nested too deeply to be read.");
  Arena arena((size_t{16} << 20U) + 64 * html.size());
  const GumboOutput* const output = parse(arena, html.empty() ? "" : html.data(), html.size());
  if (output == nullptr) return invalid_data("The HTML page is nested too deeply to be read.");
  return flattened(*output->document);
}

}  // namespace chimere::retrieval
