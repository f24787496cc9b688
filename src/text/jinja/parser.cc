#include "text/jinja/parser.h"

#include <algorithm>
#include <initializer_list>

#include "text/jinja/expression_parser.h"
#include "text/jinja/token_stream.h"

namespace chimere::text::jinja {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view source)
      : tokens_(tokenize_template(source)), expressions_(tokens_) {}

  Block run() {
    Block block = parse_block({});
    if (!tokens_.is(Token::Kind::kEnd)) {
      tokens_.error("this tag belongs to no block");
    }
    return block;
  }

 private:
  /// Reads statements up to a tag with one of the names (its name is the current token then), or,
  /// without names, to the end.
  Block parse_block(std::initializer_list<std::string_view> ends);
  /// The body of a statement and its closing tag.
  Block body_until(std::string_view end);
  Statement parse_tag();
  Statement parse_if(Statement node);
  Statement parse_for(Statement node);
  Statement parse_set(Statement node);
  Statement parse_macro(Statement node);
  Statement parse_call_block(Statement node);
  Statement parse_with(Statement node);
  void parse_parameters(Statement& node);
  void macro_body(Statement& node, std::string_view end);
  void end_of_tag() { tokens_.expect(Token::Kind::kBlockEnd, "the end of the tag"); }

  TokenStream tokens_;
  ExpressionParser expressions_;
  int depth_ = 0;
  int loops_ = 0;
};

Block Parser::parse_block(std::initializer_list<std::string_view> ends) {
  if (++depth_ > kMaxNesting) tokens_.error("blocks are nested too deeply");
  Block block;
  while (!tokens_.is(Token::Kind::kEnd)) {
    Statement node;
    node.line = tokens_.current().line;
    if (tokens_.is(Token::Kind::kText)) {
      node.text = MarkedText(tokens_.next().text, true);
    } else if (tokens_.is(Token::Kind::kOutputBegin)) {
      tokens_.next();
      node.kind = Statement::Kind::kOutput;
      node.expressions.push_back(expressions_.tuple_or_expression());
      tokens_.expect(Token::Kind::kOutputEnd, "'}}'");
    } else {
      tokens_.expect(Token::Kind::kBlockBegin, "a tag");
      const bool at_end = tokens_.is(Token::Kind::kName) &&
                          std::ranges::find(ends, tokens_.current().text) != ends.end();
      if (at_end) {
        --depth_;
        return block;
      }
      node = parse_tag();
    }
    block.push_back(std::move(node));
  }
  if (ends.size() > 0) tokens_.error("'" + std::string(*(ends.end() - 1)) + "' is missing");
  --depth_;
  return block;
}

Block Parser::body_until(std::string_view end) {
  end_of_tag();
  Block body = parse_block({end});
  tokens_.next();
  end_of_tag();
  return body;
}

Statement Parser::parse_tag() {
  Statement node;
  node.line = tokens_.current().line;
  if (!tokens_.is(Token::Kind::kName)) tokens_.error("the name of a tag is expected");
  const std::string tag = tokens_.current().text;
  if (tag == "if") return parse_if(std::move(node));
  if (tag == "for") return parse_for(std::move(node));
  if (tag == "set") return parse_set(std::move(node));
  if (tag == "macro") return parse_macro(std::move(node));
  if (tag == "call") return parse_call_block(std::move(node));
  if (tag == "with") return parse_with(std::move(node));
  if (tag == "filter") {
    tokens_.next();
    node.kind = Statement::Kind::kFilter;
    node.expressions.push_back(expressions_.filter_chain());
    node.blocks.push_back(body_until("endfilter"));
    return node;
  }
  if (tag == "generation") {  // marks the model's own words for trainers
    tokens_.next();
    node.kind = Statement::Kind::kScope;
    node.blocks.push_back(body_until("endgeneration"));
    return node;
  }
  if (tag == "break" || tag == "continue") {
    if (loops_ == 0) tokens_.error("there is no loop here");
    tokens_.next();
    node.kind = tag == "break" ? Statement::Kind::kBreak : Statement::Kind::kContinue;
    end_of_tag();
    return node;
  }
  tokens_.error("the tag is unknown or not supported in chat templates");
}

Statement Parser::parse_if(Statement node) {
  node.kind = Statement::Kind::kIf;
  tokens_.next();
  while (true) {
    node.expressions.push_back(expressions_.tuple_or_expression());
    end_of_tag();
    node.blocks.push_back(parse_block({"elif", "else", "endif"}));
    const Token tag = tokens_.next();
    if (tag.text == "elif") continue;
    if (tag.text == "else") {
      node.blocks.push_back(body_until("endif"));
    } else {
      node.blocks.emplace_back();
      end_of_tag();
    }
    return node;
  }
}

Statement Parser::parse_for(Statement node) {
  node.kind = Statement::Kind::kFor;
  tokens_.next();
  node.expressions.push_back(expressions_.target(false));
  if (!tokens_.take_name("in")) tokens_.error("'in' is expected");
  node.expressions.push_back(expressions_.tuple_or_expression(false));
  node.expressions.push_back(tokens_.take_name("if") ? expressions_.expression() : nullptr);
  node.recursive = tokens_.take_name("recursive");
  end_of_tag();
  ++loops_;
  node.blocks.push_back(parse_block({"else", "endfor"}));
  --loops_;
  if (tokens_.next().text == "else") {
    node.blocks.push_back(body_until("endfor"));
  } else {
    node.blocks.emplace_back();
    end_of_tag();
  }
  return node;
}

Statement Parser::parse_set(Statement node) {
  tokens_.next();
  node.expressions.push_back(expressions_.target(true));
  if (tokens_.take_operator("=")) {
    node.kind = Statement::Kind::kSet;
    node.expressions.push_back(expressions_.tuple_or_expression());
    end_of_tag();
    return node;
  }
  node.kind = Statement::Kind::kSetBlock;
  node.expressions.push_back(tokens_.take_operator("|") ? expressions_.filter_chain() : nullptr);
  node.blocks.push_back(body_until("endset"));
  return node;
}

void Parser::parse_parameters(Statement& node) {
  tokens_.expect_operator("(");
  bool defaults = false;
  while (!tokens_.take_operator(")")) {
    if (!node.parameters.empty()) {
      tokens_.expect_operator(",");
      if (tokens_.take_operator(")")) return;
    }
    node.parameters.push_back(tokens_.expect_name());
    const bool has_default = tokens_.take_operator("=");
    if (defaults && !has_default) tokens_.error("a parameter without default follows one with");
    defaults = has_default;
    node.expressions.push_back(has_default ? expressions_.expression() : nullptr);
  }
}

/// No loop reaches into a macro, but what is mentioned in it is mentioned around it as well.
void Parser::macro_body(Statement& node, std::string_view end) {
  const int outer_loops = std::exchange(loops_, 0);
  const SpecialNames outer = std::exchange(expressions_.mentioned, {});
  node.blocks.push_back(body_until(end));
  node.uses = expressions_.mentioned;
  expressions_.mentioned.caller |= outer.caller;
  expressions_.mentioned.varargs |= outer.varargs;
  expressions_.mentioned.kwargs |= outer.kwargs;
  loops_ = outer_loops;
}

Statement Parser::parse_macro(Statement node) {
  node.kind = Statement::Kind::kMacro;
  tokens_.next();
  node.name = tokens_.expect_name();
  parse_parameters(node);
  macro_body(node, "endmacro");
  return node;
}

Statement Parser::parse_call_block(Statement node) {
  node.kind = Statement::Kind::kCallBlock;
  tokens_.next();
  node.expressions.emplace_back();
  if (tokens_.is_operator("(")) parse_parameters(node);
  node.expressions[0] = expressions_.expression();
  if (node.expressions[0]->kind != Expression::Kind::kCall) tokens_.error("a call is expected");
  macro_body(node, "endcall");
  return node;
}

Statement Parser::parse_with(Statement node) {
  node.kind = Statement::Kind::kWith;
  tokens_.next();
  while (!tokens_.is(Token::Kind::kBlockEnd)) {
    if (!node.expressions.empty()) tokens_.expect_operator(",");
    node.expressions.push_back(expressions_.target(false));
    tokens_.expect_operator("=");
    node.expressions.push_back(expressions_.expression());
  }
  node.blocks.push_back(body_until("endwith"));
  return node;
}

}  // namespace

Block parse_template(std::string_view source) { return Parser(source).run(); }

}  // namespace chimere::text::jinja
