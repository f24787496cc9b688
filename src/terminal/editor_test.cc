#include "terminal/editor.h"

#include <gtest/gtest.h>

namespace chimere::terminal {
namespace {

class EditorTest : public testing::Test {
 protected:
  EditorTest() {
    for (const char* text : {"first question", "second thing", "third question"}) {
      EXPECT_TRUE(history_.add(text).ok());
    }
    editor_.start();
  }

  /// Types bytes as a terminal sends them; returns the last action.
  Editor::Action type(std::string_view bytes) {
    std::vector<KeyEvent> keys;
    decoder_.push(bytes, keys);
    decoder_.flush(keys);
    Editor::Action action = Editor::Action::kNone;
    for (const KeyEvent& key : keys) action = editor_.handle(key);
    return action;
  }

  static Completions complete(std::string_view before) {
    Completions out;
    for (const char* word : {"/save", "/set", "/system"}) {
      if (std::string_view(word).starts_with(before)) out.candidates.push_back({word, "help"});
    }
    return out;
  }

  History history_;
  KeyDecoder decoder_;
  Editor editor_{history_, complete};
};

TEST_F(EditorTest, EnterSubmitsAndAltEnterBreaksTheLine) {
  EXPECT_EQ(type("a\x1b\rb\\\rc"), Editor::Action::kNone);
  EXPECT_EQ(editor_.text(), "a\nb\nc");
  EXPECT_EQ(type("\r"), Editor::Action::kSubmit);
}

TEST_F(EditorTest, ArrowsWalkThroughTheHistory) {
  type("draft\x1b[A");
  EXPECT_EQ(editor_.text(), "third question");
  type("\x1b[A\x1b[A\x1b[A");
  EXPECT_EQ(editor_.text(), "first question");
  type("\x1b[B\x1b[B\x1b[B");
  EXPECT_EQ(editor_.text(), "draft");
}

TEST_F(EditorTest, SearchesBackwards) {
  type("\x12question");
  EXPECT_EQ(editor_.text(), "third question");
  EXPECT_NE(editor_.search_prompt().find("question"), std::string::npos);
  type("\x12");
  EXPECT_EQ(editor_.text(), "first question");
  type("\x12");
  EXPECT_NE(editor_.search_prompt().find("no match"), std::string::npos);
  type("\x1b[D!");  // an arrow ends the search and moves
  EXPECT_EQ(editor_.text(), "first questio!n");
  editor_.start("kept");
  type("\x12second\x07");
  EXPECT_EQ(editor_.text(), "kept");
  EXPECT_EQ(type("\x12second\r"), Editor::Action::kSubmit);
  EXPECT_EQ(editor_.text(), "second thing");
}

TEST_F(EditorTest, InterruptsClearThenLeave) {
  EXPECT_EQ(type("abc\x03"), Editor::Action::kNone);
  EXPECT_EQ(editor_.text(), "");
  EXPECT_EQ(type("\x03"), Editor::Action::kNone);
  EXPECT_EQ(editor_.notes().size(), 1);
  type("x\x7f");
  EXPECT_EQ(type("\x03"), Editor::Action::kNone);  // not twice in a row
  EXPECT_EQ(type("\x03"), Editor::Action::kLeave);
  editor_.start();
  EXPECT_EQ(type("a\x01\x04"), Editor::Action::kNone);
  EXPECT_EQ(type("\x04"), Editor::Action::kLeave);
}

TEST_F(EditorTest, Completes) {
  type("/sa\t");
  EXPECT_EQ(editor_.text(), "/save ");
  editor_.start();
  type("/\t");
  EXPECT_EQ(editor_.text(), "/s");
  EXPECT_EQ(editor_.notes().size(), 3);
  type("x\t");
  EXPECT_EQ(editor_.text(), "/sx");
  EXPECT_TRUE(editor_.notes().empty());
}

TEST_F(EditorTest, APasteIsTextWhateverItHolds) {
  EXPECT_EQ(type("\x1b[200~one\rtwo\x03\x1b[A\x1b[201~"), Editor::Action::kNone);
  EXPECT_EQ(editor_.text(), "one\ntwo\x03\x1b[A");
}

TEST_F(EditorTest, LongPastesAreFoldedAndSentWhole) {
  std::string lines;
  for (int i = 0; i < 11; ++i) lines += std::to_string(i) + "\n";
  const std::string wide(700, 'x');
  const auto pasted = [](const std::string& text) { return "\x1b[200~" + text + "\x1b[201~"; };
  type("a" + pasted(lines) + "b" + pasted(wide + "é" + wide));
  EXPECT_EQ(editor_.shown().text, "a[pasted 11 lines]b[pasted 1401 characters]");
  EXPECT_EQ(editor_.shown().cursor, editor_.shown().text.size());
  EXPECT_EQ(editor_.text(), "a" + lines + "b" + wide + "é" + wide);
  // A fold is one character: the arrow moves over it, Backspace deletes it, Ctrl-_ brings it back.
  type("\x1b[D");
  EXPECT_EQ(editor_.shown().cursor, std::string("a[pasted 11 lines]b").size());
  type("\x7f\x7f");
  EXPECT_EQ(editor_.shown().text, "a[pasted 1401 characters]");
  type("\x1f");
  EXPECT_EQ(editor_.text(), "a" + lines + "b" + wide + "é" + wide);
  // What was cut is pasted into the next text.
  type("\x05\x15");
  EXPECT_EQ(editor_.text(), "");
  EXPECT_EQ(type("\x19\r"), Editor::Action::kSubmit);
  EXPECT_EQ(editor_.text(), "a" + lines + "b" + wide + "é" + wide);
  // The characters that stand for folds are no folds when they come from outside.
  editor_.start();
  type("\xf4\x80\x80\x80" + pasted("\xf4\x80\x80\x81"));
  EXPECT_EQ(editor_.text(), "\xef\xbf\xbd\xef\xbf\xbd");
}

TEST_F(EditorTest, OtherKeys) {
  EXPECT_EQ(type("\x18\x05"), Editor::Action::kOpenEditor);
  EXPECT_EQ(type("\x1a"), Editor::Action::kSuspend);
  EXPECT_EQ(type("\x0c"), Editor::Action::kClear);
  EXPECT_EQ(type("\x1b[5~\x1b[15~"), Editor::Action::kNone);
  EXPECT_EQ(editor_.text(), "");
}

}  // namespace
}  // namespace chimere::terminal
