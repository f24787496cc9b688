#include "text/jinja/expression_parser.h"

#include <algorithm>
#include <charconv>

namespace chimere::text::jinja {

using Kind = Expression::Kind;

ExpressionPtr ExpressionParser::make(Kind kind) const {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->line = tokens_.current().line;
  return node;
}

void ExpressionParser::adopt(Expression& parent, ExpressionPtr child) const {
  if (child != nullptr) {
    parent.height = std::max(parent.height, child->height + 1);
    if (parent.height > kMaxNesting) tokens_.error("the expression is nested too deeply");
  }
  parent.children.push_back(std::move(child));
}

ExpressionPtr ExpressionParser::binary(Kind kind, std::string name, ExpressionPtr left,
                                       ExpressionPtr right) const {
  ExpressionPtr node = make(kind);
  node->name = std::move(name);
  adopt(*node, std::move(left));
  adopt(*node, std::move(right));
  return node;
}

ExpressionPtr ExpressionParser::expression() {
  // Every way to nest passes here or through unary().
  if (++depth_ > kMaxNesting) tokens_.error("the expression is nested too deeply");
  ExpressionPtr node = or_expression();
  while (tokens_.take_name("if")) {
    ExpressionPtr conditional = make(Kind::kConditional);
    adopt(*conditional, std::move(node));
    adopt(*conditional, or_expression());
    adopt(*conditional, tokens_.take_name("else") ? expression() : nullptr);
    node = std::move(conditional);
  }
  --depth_;
  return node;
}

ExpressionPtr ExpressionParser::tuple_or_expression(bool conditional) {
  const auto item = [&] { return conditional ? expression() : or_expression(); };
  ExpressionPtr first = item();
  if (!tokens_.is_operator(",")) return first;
  ExpressionPtr tuple = make(Kind::kTuple);
  adopt(*tuple, std::move(first));
  while (tokens_.take_operator(",")) {
    const bool ends = tokens_.is(Token::Kind::kBlockEnd) || tokens_.is(Token::Kind::kOutputEnd) ||
                      tokens_.is_operator(")") || tokens_.is_name("in");
    if (ends) break;
    adopt(*tuple, item());
  }
  return tuple;
}

ExpressionPtr ExpressionParser::or_expression() {
  ExpressionPtr node = and_expression();
  while (tokens_.take_name("or")) node = binary(Kind::kOr, "", std::move(node), and_expression());
  return node;
}

ExpressionPtr ExpressionParser::and_expression() {
  ExpressionPtr node = not_expression();
  while (tokens_.take_name("and")) node = binary(Kind::kAnd, "", std::move(node), not_expression());
  return node;
}

ExpressionPtr ExpressionParser::not_expression() {
  int count = 0;
  while (tokens_.take_name("not")) {
    if (++count > kMaxNesting) tokens_.error("the expression is nested too deeply");
  }
  ExpressionPtr node = comparison();
  for (; count > 0; --count) {
    ExpressionPtr negated = make(Kind::kNot);
    adopt(*negated, std::move(node));
    node = std::move(negated);
  }
  return node;
}

ExpressionPtr ExpressionParser::comparison() {
  ExpressionPtr first = sum();
  ExpressionPtr node;
  while (true) {
    std::string op;
    for (const char* known : {"==", "!=", "<", "<=", ">", ">="}) {
      if (tokens_.is_operator(known)) op = known;
    }
    if (!op.empty()) {
      tokens_.next();
    } else if (tokens_.take_name("in")) {
      op = "in";
    } else if (tokens_.is_name("not") && tokens_.following().kind == Token::Kind::kName &&
               tokens_.following().text == "in") {
      tokens_.next();
      tokens_.next();
      op = "notin";
    } else {
      return node == nullptr ? std::move(first) : std::move(node);
    }
    if (node == nullptr) {
      node = make(Kind::kCompare);
      adopt(*node, std::move(first));
    }
    node->operators.push_back(op);
    adopt(*node, sum());
  }
}

ExpressionPtr ExpressionParser::sum() {
  ExpressionPtr node = concatenation();
  while (tokens_.is_operator("+") || tokens_.is_operator("-")) {
    std::string op = tokens_.next().text;
    node = binary(Kind::kArithmetic, std::move(op), std::move(node), concatenation());
  }
  return node;
}

ExpressionPtr ExpressionParser::concatenation() {
  ExpressionPtr first = product();
  if (!tokens_.is_operator("~")) return first;
  ExpressionPtr node = make(Kind::kConcat);
  adopt(*node, std::move(first));
  while (tokens_.take_operator("~")) adopt(*node, product());
  return node;
}

ExpressionPtr ExpressionParser::product() {
  ExpressionPtr node = power();
  while (tokens_.is_operator("*") || tokens_.is_operator("/") || tokens_.is_operator("//") ||
         tokens_.is_operator("%")) {
    std::string op = tokens_.next().text;
    node = binary(Kind::kArithmetic, std::move(op), std::move(node), power());
  }
  return node;
}

ExpressionPtr ExpressionParser::power() {
  ExpressionPtr node = unary(true);
  while (tokens_.take_operator("**")) {
    node = binary(Kind::kArithmetic, "**", std::move(node), unary(true));
  }
  return node;
}

ExpressionPtr ExpressionParser::unary(bool with_filters) {
  if (++depth_ > kMaxNesting) tokens_.error("the expression is nested too deeply");
  ExpressionPtr node;
  if (tokens_.is_operator("-") || tokens_.is_operator("+")) {
    node = make(tokens_.next().text == "-" ? Kind::kNegate : Kind::kPlus);
    adopt(*node, unary(false));
  } else {
    node = primary();
  }
  node = postfix(std::move(node));
  if (with_filters) node = filters_and_tests(std::move(node));
  --depth_;
  return node;
}

ExpressionPtr ExpressionParser::primary() {
  ExpressionPtr node = make(Kind::kConstant);
  const Token token = tokens_.current();
  switch (token.kind) {
    case Token::Kind::kName:
      tokens_.next();
      if (token.text == "true" || token.text == "True") {
        node->constant = Value::boolean(true);
      } else if (token.text == "false" || token.text == "False") {
        node->constant = Value::boolean(false);
      } else if (token.text == "none" || token.text == "None") {
        node->constant = Value::none();
      } else {
        node->kind = Kind::kName;
        node->name = token.text;
        mentioned.caller |= token.text == "caller";
        mentioned.varargs |= token.text == "varargs";
        mentioned.kwargs |= token.text == "kwargs";
      }
      return node;
    case Token::Kind::kString: {
      std::string text;
      while (tokens_.is(Token::Kind::kString)) text += tokens_.next().text;
      node->constant = Value::string(text, true);
      return node;
    }
    case Token::Kind::kInteger: {
      int64_t value = 0;
      if (std::from_chars(token.text.data(), token.text.data() + token.text.size(), value).ec !=
          std::errc()) {
        tokens_.error("an integer is too large");
      }
      tokens_.next();
      node->constant = Value::integer(value);
      return node;
    }
    case Token::Kind::kReal: {
      double value = 0;
      if (std::from_chars(token.text.data(), token.text.data() + token.text.size(), value).ec !=
          std::errc()) {
        tokens_.error("a number is out of range");
      }
      tokens_.next();
      node->constant = Value::real(value);
      return node;
    }
    default:
      break;
  }
  if (tokens_.take_operator("(")) return parenthesized();
  if (tokens_.take_operator("[")) return list();
  if (tokens_.take_operator("{")) return dict();
  tokens_.error("an expression is expected");
}

ExpressionPtr ExpressionParser::parenthesized() {
  if (tokens_.take_operator(")")) return make(Kind::kTuple);
  ExpressionPtr node = tuple_or_expression();
  tokens_.expect_operator(")");
  return node;
}

ExpressionPtr ExpressionParser::list() {
  ExpressionPtr node = make(Kind::kList);
  while (!tokens_.take_operator("]")) {
    if (!node->children.empty()) {
      tokens_.expect_operator(",");
      if (tokens_.take_operator("]")) break;
    }
    adopt(*node, expression());
  }
  return node;
}

ExpressionPtr ExpressionParser::dict() {
  ExpressionPtr node = make(Kind::kDict);
  while (!tokens_.take_operator("}")) {
    if (!node->children.empty()) {
      tokens_.expect_operator(",");
      if (tokens_.take_operator("}")) break;
    }
    adopt(*node, expression());
    tokens_.expect_operator(":");
    adopt(*node, expression());
  }
  return node;
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr node) {
  while (true) {
    if (tokens_.take_operator(".")) {
      ExpressionPtr access = make(Kind::kAttribute);
      if (tokens_.is(Token::Kind::kInteger)) {
        access->kind = Kind::kItem;
        adopt(*access, std::move(node));
        adopt(*access, primary());
      } else {
        access->name = tokens_.expect_name();
        adopt(*access, std::move(node));
      }
      node = std::move(access);
    } else if (tokens_.take_operator("[")) {
      node = subscript(std::move(node));
    } else if (tokens_.take_operator("(")) {
      node = call(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPtr ExpressionParser::filters_and_tests(ExpressionPtr node) {
  while (true) {
    if (tokens_.take_operator("|")) {
      node = filter(std::move(node));
    } else if (tokens_.take_name("is")) {
      node = test(std::move(node));
    } else if (tokens_.take_operator("(")) {
      node = call(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr object) {
  ExpressionPtr node = make(Kind::kItem);
  adopt(*node, std::move(object));
  const auto part = [&]() -> ExpressionPtr {
    if (tokens_.is_operator(":") || tokens_.is_operator("]")) return nullptr;
    return expression();
  };
  ExpressionPtr first = part();
  if (tokens_.take_operator(":")) {
    node->kind = Kind::kSlice;
    adopt(*node, std::move(first));
    adopt(*node, part());
    adopt(*node, tokens_.take_operator(":") ? part() : nullptr);
  } else if (first != nullptr && !tokens_.is_operator(",")) {
    adopt(*node, std::move(first));
  } else {
    // Several indices, or none, are one tuple.
    ExpressionPtr tuple = make(Kind::kTuple);
    if (first != nullptr) adopt(*tuple, std::move(first));
    while (tokens_.take_operator(",")) adopt(*tuple, expression());
    adopt(*node, std::move(tuple));
  }
  tokens_.expect_operator("]");
  return node;
}

void ExpressionParser::arguments(Expression& node) {
  bool first = true;
  while (!tokens_.take_operator(")")) {
    if (!first) {
      tokens_.expect_operator(",");
      if (tokens_.take_operator(")")) return;
    }
    first = false;
    const bool list = tokens_.is_operator("*");
    if (list || tokens_.is_operator("**")) {
      ExpressionPtr& unpacked = list ? node.unpack_list : node.unpack_dict;
      if (unpacked != nullptr || node.unpack_dict != nullptr) {
        tokens_.error("arguments are unpacked twice");
      }
      tokens_.next();
      unpacked = expression();
      node.height = std::max(node.height, unpacked->height + 1);
      continue;
    }
    if (node.unpack_dict != nullptr) tokens_.error("an argument follows unpacked ones");
    const Token& after = tokens_.following();
    if (tokens_.is(Token::Kind::kName) && after.kind == Token::Kind::kOperator &&
        after.text == "=") {
      std::string name = tokens_.next().text;
      tokens_.next();
      ExpressionPtr value = expression();
      node.height = std::max(node.height, value->height + 1);
      node.named.emplace_back(std::move(name), std::move(value));
    } else {
      if (!node.named.empty() || node.unpack_list != nullptr) {
        tokens_.error("a positional argument follows a named one");
      }
      adopt(node, expression());
    }
  }
}

ExpressionPtr ExpressionParser::call(ExpressionPtr function) {
  ExpressionPtr node = make(Kind::kCall);
  adopt(*node, std::move(function));
  arguments(*node);
  return node;
}

std::string ExpressionParser::dotted_name() {
  std::string name = tokens_.expect_name();
  while (tokens_.take_operator(".")) name += "." + tokens_.expect_name();
  return name;
}

ExpressionPtr ExpressionParser::filter(ExpressionPtr input) {
  ExpressionPtr node = make(Kind::kFilter);
  node->name = dotted_name();
  adopt(*node, std::move(input));
  if (tokens_.take_operator("(")) arguments(*node);
  return node;
}

ExpressionPtr ExpressionParser::filter_chain() {
  ExpressionPtr node = filter(nullptr);
  while (tokens_.take_operator("|")) node = filter(std::move(node));
  return node;
}

ExpressionPtr ExpressionParser::test(ExpressionPtr input) {
  const bool negated = tokens_.take_name("not");
  ExpressionPtr node = make(Kind::kTest);
  node->name = dotted_name();
  adopt(*node, std::move(input));
  const Token& token = tokens_.current();
  const bool begins_value =
      token.kind == Token::Kind::kString || token.kind == Token::Kind::kInteger ||
      token.kind == Token::Kind::kReal || tokens_.is_operator("[") || tokens_.is_operator("{");
  // Every other word is taken for an argument, `if` and `in` too, as in Jinja2.
  const bool is_name = token.kind == Token::Kind::kName && token.text != "else" &&
                       token.text != "or" && token.text != "and";
  if (tokens_.take_operator("(")) {
    arguments(*node);
  } else if (begins_value || is_name) {
    if (is_name && token.text == "is") tokens_.error("tests cannot be chained");
    adopt(*node, postfix(primary()));
  }
  if (!negated) return node;
  ExpressionPtr inverted = make(Kind::kNot);
  adopt(*inverted, std::move(node));
  return inverted;
}

ExpressionPtr ExpressionParser::target(bool with_attributes) {
  const auto one = [&]() -> ExpressionPtr {
    if (tokens_.take_operator("(")) {
      if (++depth_ > kMaxNesting) tokens_.error("the targets are nested too deeply");
      ExpressionPtr inner = target(false);
      --depth_;
      tokens_.expect_operator(")");
      return inner;
    }
    ExpressionPtr node = make(Kind::kName);
    node->name = tokens_.expect_name();
    if (with_attributes && tokens_.take_operator(".")) {
      ExpressionPtr attribute = make(Kind::kAttribute);
      attribute->name = tokens_.expect_name();
      adopt(*attribute, std::move(node));
      return attribute;
    }
    return node;
  };
  ExpressionPtr first = one();
  if (!tokens_.is_operator(",")) return first;
  ExpressionPtr tuple = make(Kind::kTuple);
  adopt(*tuple, std::move(first));
  while (tokens_.take_operator(",")) {
    if (!tokens_.is(Token::Kind::kName) && !tokens_.is_operator("(")) break;
    if (tokens_.is_name("in")) break;
    adopt(*tuple, one());
  }
  return tuple;
}

}  // namespace chimere::text::jinja
