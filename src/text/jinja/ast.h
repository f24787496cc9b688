// The parsed form of a template.
#ifndef CHIMERE_TEXT_JINJA_AST_H_
#define CHIMERE_TEXT_JINJA_AST_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace chimere::text::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

/// One node. What `children` and `name` hold is said at each kind.
struct Expression {
  enum class Kind {
    kConstant,     ///< `constant`
    kName,         ///< `name`
    kList,         ///< children: items
    kTuple,        ///< children: items
    kDict,         ///< children: key, value, key, value, ...
    kNot,          ///< child
    kNegate,       ///< child
    kPlus,         ///< child, which must be a number
    kArithmetic,   ///< name: + - * / // % **; left, right
    kConcat,       ///< children
    kAnd,          ///< left, right
    kOr,           ///< left, right
    kCompare,      ///< first, then a child for each of `operators`
    kConditional,  ///< then, condition, otherwise (may be null)
    kAttribute,    ///< name; object
    kItem,         ///< object, key
    kSlice,        ///< object, start, stop, step (may be null)
    kCall,         ///< function, positional arguments; `named`
    kFilter,       ///< name; input (null inside a filter block), positional arguments; `named`
    kTest,         ///< name; input, positional arguments; `named`
  };
  Kind kind = Kind::kConstant;
  int line = 0;
  int height = 1;  ///< of the tree below
  std::string name;
  Value constant;
  std::vector<ExpressionPtr> children;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr unpack_list;           ///< *arguments of a call, filter or test; may be null
  ExpressionPtr unpack_dict;           ///< **arguments; may be null
  std::vector<std::string> operators;  ///< == != < <= > >= in notin
};

/// Names that a macro is given beside its parameters if its body mentions them.
struct SpecialNames {
  bool caller = false;
  bool varargs = false;
  bool kwargs = false;
};

struct Statement;
using Block = std::vector<Statement>;

struct Statement {
  enum class Kind {
    kText,       ///< `text`
    kOutput,     ///< expressions[0]
    kIf,         ///< conditions in `expressions`, their `blocks`, and one more block for else
    kFor,        ///< target, iterable, condition (may be null); body, else
    kSet,        ///< target, value
    kSetBlock,   ///< target, filter chain (may be null); body
    kMacro,      ///< name, parameters, their defaults in `expressions` (may be null); body
    kCallBlock,  ///< call; parameters, defaults after the call; body
    kFilter,     ///< filter chain; body
    kWith,       ///< target, value, target, value, ...; body
    kScope,      ///< body
    kBreak,
    kContinue,
  };
  Kind kind = Kind::kText;
  int line = 0;
  bool recursive = false;  ///< of a for: its loop can be called
  SpecialNames uses;       ///< of a macro or a call block: what its body mentions
  std::string name;
  MarkedText text;
  std::vector<std::string> parameters;
  std::vector<ExpressionPtr> expressions;
  std::vector<Block> blocks;
};

}  // namespace chimere::text::jinja

#endif  // CHIMERE_TEXT_JINJA_AST_H_
