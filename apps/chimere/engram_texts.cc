#include "engram_texts.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <string_view>
#include <utility>

#include "command.h"
#include "json.h"

namespace chimere::app {
namespace {

namespace fs = std::filesystem;

/// Control characters that text does not contain; zero bytes separate documents.
bool looks_like_text(std::string_view bytes) {
  return std::ranges::none_of(bytes, [](char c) { return c > 0 && c < 8; });
}

void append(std::string& text, std::string_view piece) {
  if (piece.empty()) return;
  if (!text.empty()) text += "\n\n";
  text += piece;
}

/// "content" of a message: a string, or a list of parts, some of them text.
void append_content(std::string& text, const Json& content) {
  if (content.is_string()) append(text, content.get_ref<const std::string&>());
  if (!content.is_array()) return;
  for (const Json& part : content) {
    if (part.is_object() && part.contains("text") && part["text"].is_string())
      append(text, part["text"].get_ref<const std::string&>());
  }
}

/// Empty if the line is not a conversation.
std::string conversation_text(const Json& line) {
  std::string text;
  if (!line.is_object()) return text;
  if (line.contains("messages") && line["messages"].is_array()) {
    for (const Json& message : line["messages"]) {
      if (message.is_object() && message.contains("content"))
        append_content(text, message["content"]);
    }
  }
  for (const char* field : {"prompt", "response", "text"}) {
    if (line.contains(field)) append_content(text, line[field]);
  }
  return text;
}

Result<std::vector<std::string>> read_log(const std::string& path, std::string_view bytes) {
  std::vector<std::string> documents;
  for (int number = 1; !bytes.empty(); ++number) {
    const std::string_view line = bytes.substr(0, bytes.find('\n'));
    bytes.remove_prefix(std::min(bytes.size(), line.size() + 1));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    std::string text = conversation_text(Json::parse(line, nullptr, false));
    if (text.empty()) {
      return invalid_data("Line " + std::to_string(number) + " of '" + path +
                          "' is no conversation: a JSON object with \"messages\", \"prompt\" and "
                          "\"response\", or \"text\" is needed.");
    }
    documents.push_back(std::move(text));
  }
  return documents;
}

Result<std::vector<std::string>> read_one(const std::string& path) {
  CHIMERE_TRY(const std::string bytes, read_file(path));
  if (path.ends_with(".jsonl")) return read_log(path, bytes);
  if (!looks_like_text(bytes))
    return invalid_data("The file '" + path + "' is no text; tables are made from texts.");
  std::vector<std::string> documents;
  for (std::string_view rest = bytes; !rest.empty();) {
    const std::string_view document = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(std::min(rest.size(), document.size() + 1));
    if (!document.empty()) documents.emplace_back(document);
  }
  return documents;
}

Result<std::vector<std::string>> files_below(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; it != end && !error;
       it.increment(error)) {
    std::error_code ignored;  // the file may have been removed meanwhile
    if (it->is_regular_file(ignored) && it->file_size(ignored) > 0)
      paths.push_back(it->path().string());
  }
  if (error) return io_error("The folder '" + folder + "' cannot be read: " + error.message());
  std::ranges::sort(paths);
  return paths;
}

}  // namespace

Result<std::vector<std::string>> read_documents(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return read_one(path);
  CHIMERE_TRY(const std::vector<std::string> paths, files_below(path));
  std::vector<std::string> documents;
  for (const std::string& file : paths) {
    auto some = read_one(file);
    if (!some.ok()) {
      std::cerr << "skipped: " << some.error().message << '\n';
      continue;
    }
    std::ranges::move(*some, std::back_inserter(documents));
  }
  return documents;
}

}  // namespace chimere::app
