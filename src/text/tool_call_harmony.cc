#include "text/tool_call_harmony.h"

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "text/text_matcher.h"

namespace chimere::text {
namespace {

constexpr std::string_view kHarmonyMessage = "<|message|>";
constexpr std::string_view kHarmonyChannel = "<|channel|>";
constexpr std::string_view kHarmonyStart = "<|start|>";
/// Longest header of a message.
constexpr size_t kMostHeader = 4096;

/// Messages with a channel and perhaps a recipient in their header. The prompt ends inside the
/// first header, behind the role.
class HarmonyReader final : public ToolCallReader {
 public:
  using ToolCallReader::ToolCallReader;

  void push(char c) override {
    held_ += c;
    while (!held_.empty()) {
      const Found found = marker();
      if (found == Found::kPartly) return;
      if (found == Found::kWhole) {
        const std::string marker = std::exchange(held_, "");
        at_marker(marker);
        return;
      }
      text(held_.front());
      held_.erase(0, 1);
    }
  }

  void finish(bool cut_off) override {
    // What may begin a marker, but for a single character of text.
    if (cut_off && (held_.size() > 1 || body_ == Body::kCall)) held_.clear();
    for (const char c : std::exchange(held_, "")) text(c);
    // The beginning of a header is markup.
    if (in_header_ && !is_header()) content(header_);
    end_message();
    header_.clear();
  }

 private:
  enum class Found { kNone, kPartly, kWhole };
  enum class Body { kContent, kReasoning, kCall };

  Found marker() const {
    constexpr auto kMarkers =
        std::to_array<std::string_view>({kHarmonyStart, kHarmonyChannel, "<|constrain|>",
                                         kHarmonyMessage, "<|end|>", "<|call|>", "<|return|>"});
    Found found = Found::kNone;
    for (const std::string_view marker : kMarkers) {
      if (marker == held_) return Found::kWhole;
      if (marker.starts_with(held_)) found = Found::kPartly;
    }
    return found;
  }

  /// Whether the header so far is one, and not the text of a model that does not keep to the
  /// format.
  bool is_header() const {
    std::string_view rest = header_;
    while (!rest.empty() && is_white_space(rest.front())) rest.remove_prefix(1);
    for (const std::string_view begin : {kHarmonyStart, kHarmonyChannel, kHarmonyMessage,
                                         std::string_view("to="), std::string_view("assistant")}) {
      if (rest.substr(0, begin.size()) == begin.substr(0, rest.size())) return true;
    }
    return false;
  }

  void text(char c) {
    if (in_header_) {
      header_ += c;
      if (is_header() && header_.size() < kMostHeader) return;
      in_header_ = false;
      body_ = Body::kContent;
      content(std::exchange(header_, ""));
      return;
    }
    switch (body_) {
      case Body::kContent:
        return content({&c, 1});
      case Body::kReasoning:
        return reasoning({&c, 1});
      case Body::kCall:
        return arguments({&c, 1});
    }
  }

  void at_marker(const std::string& marker) {
    if (in_header_ && marker == kHarmonyMessage) return begin_body();
    if (in_header_ && marker != "<|end|>" && marker != "<|call|>" && marker != "<|return|>") {
      header_ += marker;
      return;
    }
    if (!in_header_ &&
        (marker == kHarmonyChannel || marker == kHarmonyMessage || marker == "<|constrain|>")) {
      // Not where the format has it.
      for (const char c : marker) text(c);
      return;
    }
    end_message();
    in_header_ = true;
    header_.clear();
    if (marker == kHarmonyStart) header_ = marker;
  }

  void end_message() {
    if (!in_header_ && body_ == Body::kCall) end();
    body_ = Body::kContent;
  }

  /// The word behind `mark` in the header.
  std::string word_behind(std::string_view mark) const {
    const size_t at = header_.find(mark);
    if (at == std::string::npos) return "";
    const size_t begin = at + mark.size();
    const size_t end = header_.find_first_of(" \t\r\n<", begin);
    return header_.substr(begin, end == std::string::npos ? end : end - begin);
  }

  void begin_body() {
    constexpr std::string_view kFunctions = "functions.";
    std::string recipient = word_behind("to=");
    if (recipient.starts_with(kFunctions)) recipient.erase(0, kFunctions.size());
    in_header_ = false;
    if (!recipient.empty() && known(recipient)) {
      body_ = Body::kCall;
      begin(recipient, "");
    } else if (!recipient.empty()) {
      // A call of an unknown tool.
      body_ = Body::kContent;
      content(header_ + std::string(kHarmonyMessage));
    } else {
      body_ = word_behind(kHarmonyChannel) == "analysis" ? Body::kReasoning : Body::kContent;
    }
    header_.clear();
  }

  bool in_header_ = true;
  std::string header_;
  Body body_ = Body::kContent;
  std::string held_;  ///< what may be a marker
};

}  // namespace

std::unique_ptr<ToolCallReader> harmony_reader(std::span<const Tool> tools) {
  return std::make_unique<HarmonyReader>(tools);
}

}  // namespace chimere::text
