// Weights of the default gate: rows are orders 1 to kMaxOrder, columns the features of gate.cc.
// Written by `chimere engram fit` (docs/engram.md, "The gate").
#ifndef CHIMERE_ENGRAM_GATE_TABLES_H_
#define CHIMERE_ENGRAM_GATE_TABLES_H_

#include <array>

namespace chimere::engram {

inline constexpr std::array<float, 96> kLearnedGate = {
    1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  //
    1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  //
    1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  //
    1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  //
    1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  //
    1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  //
    1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  //
    1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  //
};

}  // namespace chimere::engram

#endif  // CHIMERE_ENGRAM_GATE_TABLES_H_
