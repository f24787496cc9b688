#include "retrieval/chunker.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace chimere::retrieval {
namespace {

constexpr size_t kMostLevels = 6;
constexpr size_t kMostHeading = 120;  // bytes of one heading in a path

bool continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0U) == 0x80; }

/// The longest beginning of at most `most` bytes that does not end inside a character.
std::string_view beginning(std::string_view text, size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && continuation(text[most])) --most;
  return text.substr(0, most);
}

/// Where to cut `text`, which is longer than `most`: after the last sentence or line that begins in
/// the second half, else after a word, else after a character.
size_t cut_of(std::string_view text, size_t most, Block::Kind kind) {
  const size_t least = most / 2;
  const std::string_view head = text.substr(0, most);
  if (kind == Block::Kind::kText) {
    for (size_t i = head.size() - 1; i > least; --i) {
      const char before = head[i - 1];
      if ((head[i] == ' ' || head[i] == '\n') && (before == '.' || before == '!' || before == '?'))
        return i + 1;
    }
  }
  if (const size_t line = head.rfind('\n'); line != std::string_view::npos && line >= least)
    return line + 1;
  if (const size_t space = head.rfind(' '); space != std::string_view::npos && space >= least)
    return space + 1;
  return std::max<size_t>(beginning(text, most).size(), 1);
}

void trim_end(std::string& text) {
  const size_t end = text.find_last_not_of(" \t\r\n");
  text.resize(end == std::string::npos ? 0 : end + 1);
}

/// The end of a chunk that the next one repeats: whole sentences or lines, else whole words.
std::string_view overlap_of(std::string_view text, size_t most) {
  if (most == 0 || text.size() <= most) return {};
  const size_t from = text.size() - most;
  for (size_t i = from; i + 1 < text.size(); ++i) {
    const bool sentence = text[i] == ' ' && i > 0 && (text[i - 1] == '.' || text[i - 1] == '!');
    if (text[i] == '\n' || sentence) return text.substr(i + 1);
  }
  const size_t space = text.find(' ', from);
  return space == std::string_view::npos ? std::string_view() : text.substr(space + 1);
}

class Chunker {
 public:
  explicit Chunker(const ChunkRules& rules) : rules_(rules) {}

  void heading(const Block& block) {
    const auto level =
        std::clamp<size_t>(static_cast<size_t>(std::max(block.level, 1)), 1, kMostLevels);
    const std::string text(beginning(block.text, kMostHeading));
    // A short section stays together with the next one if that is no higher in the hierarchy.
    const bool joined = open_ && level >= first_level_ && current_.text.size() < rules_.few &&
                        current_.text.size() + text.size() + 1 < rules_.most;
    path_.resize(level - 1);
    path_.push_back(text);
    if (joined) {
      append("\n", text);
      return;
    }
    finish();
    pending_line_ = block.line;
    pending_level_ = level;
  }

  void text(const Block& block) {
    std::string_view rest = block.text;
    int64_t line = block.line;
    while (!rest.empty()) {
      const std::string separator = current_.text.empty()              ? ""
                                    : block.kind == Block::Kind::kCode ? "\n"
                                                                       : "\n\n";
      const size_t used = current_.text.size() + separator.size();
      // A block is cut only if it does not fit into a chunk of its own.
      const size_t room = used < rules_.most ? rules_.most - used : 0;
      if (rest.size() <= room) {
        begin(line);
        append(separator, rest);
        return;
      }
      if (open_ && fresh_ && current_.text.size() >= rules_.few) {
        continue_section();
        continue;
      }
      if (open_ && !fresh_ && rest.size() <= rules_.most) {  // the repeated text is in the way
        current_.text.clear();
        continue;
      }
      const size_t space = std::max<size_t>(room, rules_.most / 4);
      const size_t cut = cut_of(rest, std::min(space, rest.size() - 1), block.kind);
      begin(line);
      append(separator, rest.substr(0, cut));
      if (line > 0) line += std::ranges::count(rest.substr(0, cut), '\n');
      rest.remove_prefix(cut);
      continue_section();
    }
  }

  std::vector<Chunk> take() {
    finish();
    return std::move(chunks_);
  }

 private:
  void begin(int64_t line) {
    if (!open_) {
      open_ = true;
      current_ = {};
      first_level_ = pending_level_;
      current_.line = pending_line_ > 0 ? pending_line_ : line;
      set_heading();
      pending_line_ = 0;
    } else if (!fresh_) {
      current_.line = line;
    }
    fresh_ = true;
  }

  void set_heading() {
    current_.heading.clear();
    for (const std::string& part : path_) {
      if (part.empty()) continue;
      if (!current_.heading.empty()) current_.heading += " > ";
      current_.heading += part;
    }
  }

  void append(std::string_view separator, std::string_view text) {
    current_.text += separator;
    current_.text += text;
  }

  /// Ends the chunk; the next one continues the section and repeats its end.
  void continue_section() {
    const size_t level = first_level_;
    const std::string repeated(overlap_of(current_.text, rules_.overlap));
    finish();
    open_ = true;
    fresh_ = false;
    first_level_ = level;
    current_ = {};
    current_.text = repeated;
    set_heading();
  }

  void finish() {
    if (open_ && fresh_) {
      trim_end(current_.text);
      if (!current_.text.empty()) chunks_.push_back(std::move(current_));
    }
    current_ = {};
    open_ = false;
    fresh_ = false;
  }

  ChunkRules rules_;
  std::vector<Chunk> chunks_;
  std::vector<std::string> path_;
  Chunk current_;
  bool open_ = false;   ///< current_ has begun
  bool fresh_ = false;  ///< and has text that no other chunk has
  size_t first_level_ = 0;
  size_t pending_level_ = 0;
  int64_t pending_line_ = 0;
};

}  // namespace

std::vector<Chunk> chunk(const Document& document, const ChunkRules& rules) {
  Chunker chunker(rules);
  for (const Block& block : document.blocks) {
    if (block.kind == Block::Kind::kHeading) {
      chunker.heading(block);
    } else {
      chunker.text(block);
    }
  }
  return chunker.take();
}

}  // namespace chimere::retrieval
