// The main content of a web page.
#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <utility>
#include <vector>

#include "retrieval/block_builder.h"
#include "retrieval/html_tree.h"
#include "retrieval/line_reader.h"
#include "retrieval/readers.h"

namespace chimere::retrieval {
namespace {

using Kind = HtmlNode::Kind;

/// Elements that are never part of the text.
constexpr std::string_view kNoText[] = {
    "script", "style",  "noscript", "template", "iframe", "object",   "embed",  "canvas", "audio",
    "video",  "button", "select",   "option",   "input",  "textarea", "dialog", "map",    "area"};
/// Elements around the content.
constexpr std::string_view kAround[] = {"nav", "footer", "aside", "form", "header", "menu"};
/// Words in classes, ids and roles of elements around the content.
constexpr std::string_view kAroundWords[] = {
    "nav",    "navbar",  "navigation", "menu",       "sidebar",  "footer",        "breadcrumb",
    "cookie", "cookies", "share",      "social",     "advert",   "ads",           "promo",
    "banner", "toolbar", "pagination", "related",    "comments", "complementary", "contentinfo",
    "toc",    "search",  "skip",       "newsletter", "popup",    "modal",         "breadcrumbs"};
constexpr std::string_view kBlocks[] = {
    "p",      "div",    "section",  "article",    "main",      "ul",      "ol",
    "dl",     "li",     "dt",       "dd",         "table",     "tr",      "pre",
    "hr",     "figure", "address",  "details",    "summary",   "caption", "body",
    "header", "footer", "fieldset", "blockquote", "figcaption"};

template <size_t N>
bool one_of(const std::string_view (&names)[N], std::string_view name) {
  return std::ranges::find(names, name) != std::end(names);
}

/// Whether one of the words in `labels` is one of those around content.
bool labelled_around(std::string_view labels) {
  std::string word;
  for (size_t i = 0; i <= labels.size(); ++i) {
    const auto c = static_cast<unsigned char>(i < labels.size() ? labels[i] : ' ');
    if (std::isalnum(c) != 0) {
      word += static_cast<char>(std::tolower(c));
    } else if (!word.empty()) {
      if (one_of(kAroundWords, word)) return true;
      word.clear();
    }
  }
  return false;
}

int heading_level(std::string_view tag) {
  return tag.size() == 2 && tag[0] == 'h' && tag[1] >= '1' && tag[1] <= '6' ? tag[1] - '0' : 0;
}

size_t letters(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](unsigned char c) { return std::isspace(c) == 0 && (c & 0xc0U) != 0x80; }));
}

class Page {
 public:
  explicit Page(std::vector<HtmlNode> nodes) : nodes_(std::move(nodes)) {}

  Document read() {
    const size_t body = find("body");
    measure();
    Document document;
    const size_t content = content_of(body);
    write(content, document);
    document.title = title_of(document);
    return document;
  }

 private:
  size_t find(std::string_view tag) const {
    for (size_t i = 0; i < nodes_.size(); ++i)
      if (nodes_[i].tag == tag) return i;
    return 0;
  }

  /// Counts text and linked text below each node, without what is left out; marks that.
  void measure() {
    left_out_.assign(nodes_.size(), false);
    text_.assign(nodes_.size(), 0);
    linked_.assign(nodes_.size(), 0);
    links_.assign(nodes_.size(), 0);
    std::vector<bool> in_link(nodes_.size(), false);
    std::vector<bool> in_content(nodes_.size(), false);
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const HtmlNode& node = nodes_[i];
      const size_t up = node.parent;
      left_out_[i] = (i > 0 && left_out_[up]) || leaves_out(node, i > 0 && in_content[up]);
      in_link[i] = node.tag == "a" || (i > 0 && in_link[up]);
      in_content[i] = node.tag == "main" || node.tag == "article" || (i > 0 && in_content[up]);
      links_[i] = node.tag == "a" ? 1 : 0;
      if (node.kind == Kind::kText && !left_out_[i]) {
        text_[i] = letters(node.text);
        if (in_link[i]) linked_[i] = text_[i];
      }
    }
    for (size_t i = nodes_.size(); i-- > 1;) {
      text_[nodes_[i].parent] += text_[i];
      linked_[nodes_[i].parent] += linked_[i];
      links_[nodes_[i].parent] += links_[i];
    }
  }

  static bool leaves_out(const HtmlNode& node, bool in_content) {
    if (node.kind == Kind::kText) return false;
    if (node.hidden || one_of(kNoText, node.tag) || node.tag == "head") return true;
    if (node.tag == "header" && in_content) return false;
    if (one_of(kAround, node.tag)) return true;
    return node.tag != "body" && node.tag != "html" && node.tag != "main" &&
           node.tag != "article" && heading_level(node.tag) == 0 && labelled_around(node.labels);
  }

  /// Text that is no link.
  size_t own_text(size_t i) const { return text_[i] - linked_[i]; }

  /// The element that holds the content: <main>, a role or <article> with much of the text, else
  /// the innermost one with four fifths of the text.
  size_t content_of(size_t body) const {
    const size_t all = own_text(body);
    size_t best = 0;
    for (size_t i = body; i < nodes_[body].end; ++i) {
      const HtmlNode& node = nodes_[i];
      if (left_out_[i]) continue;
      const bool named = node.tag == "main" || node.tag == "article" ||
                         node.labels.find(" main") != std::string::npos;
      if (named && own_text(i) * 5 >= all * 2 && (best == 0 || own_text(i) > own_text(best)))
        best = i;
    }
    size_t at = best == 0 ? body : best;
    if (best != 0) return at;
    bool deeper = all > 0;
    while (deeper) {
      deeper = false;
      for (size_t i = at + 1; i < nodes_[at].end; i = nodes_[i].end) {
        if (nodes_[i].kind != Kind::kText && own_text(i) * 5 >= own_text(at) * 4 &&
            !has_direct_text(i)) {
          at = i;
          deeper = true;
          break;
        }
      }
    }
    return at;
  }

  /// Whether an element is a paragraph or the like, rather than a container.
  bool has_direct_text(size_t i) const {
    size_t direct = 0;
    for (size_t j = i + 1; j < nodes_[i].end; j = nodes_[j].end)
      if (nodes_[j].kind == Kind::kText) direct += text_[j];
    return direct * 5 > text_[i] || nodes_[i].tag == "table" || nodes_[i].tag == "pre";
  }

  /// Whether an element of the content is a list of links: contents, tags, "see also".
  bool link_list(size_t i) const {
    const std::string& tag = nodes_[i].tag;
    return (tag == "ul" || tag == "ol" || tag == "table" || tag == "div") && text_[i] > 60 &&
           linked_[i] * 10 > text_[i] * 9 && links_[i] >= 8;
  }

  void write(size_t root, Document& document) {
    BlockBuilder builder(document);
    std::vector<size_t> open;  // elements that the current node is in
    size_t i = root;
    while (i < nodes_[root].end) {
      while (!open.empty() && nodes_[open.back()].end <= i) {
        leave(open.back(), builder);
        open.pop_back();
      }
      const HtmlNode& node = nodes_[i];
      if (left_out_[i] || (i != root && link_list(i))) {
        i = node.end;
        continue;
      }
      if (node.kind == Kind::kText) {
        take_text(node);
      } else {
        enter(node, builder);
        open.push_back(i);
      }
      ++i;
    }
    while (!open.empty()) {
      leave(open.back(), builder);
      open.pop_back();
    }
    flush(builder);
    builder.end();
  }

  void take_text(const HtmlNode& node) {
    if (line_ == 0 && !trimmed(node.text).empty()) line_ = node.line;
    if (verbatim_ > 0) {
      pending_ += node.text;
      return;
    }
    for (const char c : node.text) {
      const bool space = std::isspace(static_cast<unsigned char>(c)) != 0;
      if (!space) {
        pending_ += c;
      } else if (!pending_.empty() && pending_.back() != ' ' && pending_.back() != '\n') {
        pending_ += ' ';
      }
    }
  }

  void enter(const HtmlNode& node, BlockBuilder& builder) {
    const std::string& tag = node.tag;
    if (tag == "br") {
      pending_ += '\n';
    } else if (tag == "td" || tag == "th") {
      if (!trimmed(pending_).empty()) pending_ += " | ";
    } else if (tag == "pre") {
      flush(builder);
      builder.end();
      ++verbatim_;
    } else if (heading_level(tag) > 0 || one_of(kBlocks, tag)) {
      flush(builder);
      // A definition stays with its term, a row with its table.
      if (tag != "dd" && tag != "tr" && tag != "p") builder.end();
      if (tag == "p" && !in_definition_) builder.end();
      in_definition_ = tag == "dd" || (in_definition_ && tag == "p");
      if (tag == "li") pending_ += "- ";
    }
  }

  void leave(size_t i, BlockBuilder& builder) {
    const std::string& tag = nodes_[i].tag;
    if (tag == "pre") {
      flush(builder);
      builder.end();
      verbatim_ = std::max(verbatim_ - 1, 0);
    } else if (const int level = heading_level(tag); level > 0) {
      std::string text(trimmed(pending_));
      std::ranges::replace(text, '\n', ' ');
      builder.heading(level, without_mark(text), nodes_[i].line);
      pending_.clear();
      line_ = 0;
    } else if (one_of(kBlocks, tag)) {
      flush(builder);
      if (tag != "dt" && tag != "tr" && tag != "dd") in_definition_ = false;
      if (tag == "p" || tag == "li" || tag == "table" || tag == "div" || tag == "section")
        builder.end();
    }
  }

  /// A heading without the pilcrow or # that links to it.
  static std::string_view without_mark(std::string_view text) {
    for (const std::string_view mark : {"¶", "#", "§", "🔗"})
      if (text.ends_with(mark)) text = trimmed(text.substr(0, text.size() - mark.size()));
    return text;
  }

  void flush(BlockBuilder& builder) {
    if (verbatim_ > 0) {
      std::string_view text = pending_;
      while (text.starts_with('\n')) text.remove_prefix(1);
      if (!trimmed(text).empty()) builder.add(Block::Kind::kCode, text, line_);
    } else if (const std::string_view text = trimmed(pending_); !text.empty() && text != "-") {
      builder.add(Block::Kind::kText, text, line_);
    }
    pending_.clear();
    line_ = 0;
  }

  std::string title_of(const Document& document) const {
    for (const Block& block : document.blocks)
      if (block.kind == Block::Kind::kHeading && block.level == 1) return block.text;
    const size_t title = find("title");
    std::string text;
    for (size_t i = title; title > 0 && i < nodes_[title].end; ++i) text += nodes_[i].text;
    std::ranges::replace(text, '\n', ' ');
    constexpr size_t kMost = 200;
    std::string_view clean = trimmed(text);
    size_t end = std::min(clean.size(), kMost);
    while (end < clean.size() && end > 0 &&
           (static_cast<unsigned char>(clean[end]) & 0xc0U) == 0x80)
      --end;
    return std::string(clean.substr(0, end));
  }

  std::vector<HtmlNode> nodes_;
  std::vector<bool> left_out_;
  std::vector<size_t> text_;    ///< characters below a node, without spaces
  std::vector<size_t> linked_;  ///< of these, in links
  std::vector<size_t> links_;   ///< links below a node
  std::string pending_;         ///< text that is not in a block yet
  int64_t line_ = 0;            ///< where it begins
  int verbatim_ = 0;            ///< open <pre>
  bool in_definition_ = false;
};

}  // namespace

Result<Document> read_html(std::string_view html) {
  CHIMERE_TRY(std::vector<HtmlNode> nodes, parse_html(html));
  return Page(std::move(nodes)).read();
}

}  // namespace chimere::retrieval
