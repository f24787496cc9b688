// Random constraints of every kind, small and with parts that overlap.
#ifndef CHIMERE_TESTS_CONSTRAINTS_TOKEN_MASKS_RANDOM_CONSTRAINT_H_
#define CHIMERE_TESTS_CONSTRAINTS_TOKEN_MASKS_RANDOM_CONSTRAINT_H_

#include <random>
#include <string>

#include "constraints/constraint.h"

namespace chimere::constraints {

struct RandomConstraint {
  ConstraintSpec spec;
  std::string text;  ///< as one would write it, for messages
  /// Masks may contain a few tokens too many: names of properties that are written with escapes.
  bool escapes = false;
};

RandomConstraint random_constraint(std::mt19937& random);

}  // namespace chimere::constraints

#endif  // CHIMERE_TESTS_CONSTRAINTS_TOKEN_MASKS_RANDOM_CONSTRAINT_H_
