// Weights of the default gate: rows are orders 1 to kMaxOrder, columns the features of gate.cc.
// Fitted by GateTrainer (docs/experiments/engram-gate.md); orders above 5 have those of order 5.
#ifndef CHIMERE_ENGRAM_GATE_TABLES_H_
#define CHIMERE_ENGRAM_GATE_TABLES_H_

#include <array>

namespace chimere::engram {

inline constexpr std::array<float, 96> kLearnedGate = {
    1.2254F,  -1.5547F, -0.2855F, -0.1742F, -0.0567F, 0.1553F,  -0.6414F, -0.4583F, -0.1282F,
    -1.1475F, 0.9137F,  0.1824F,  1.0265F,  -0.9977F, -0.6335F, -0.8967F, 0.0424F,  0.2169F,
    -0.2672F, -0.4092F, 0.2483F,  -0.3160F, 2.2375F,  0.6948F,  0.7036F,  -0.9270F, -0.3094F,
    -0.0926F, 0.0159F,  0.2425F,  -0.5602F, -0.3883F, -0.0220F, -0.8650F, 1.9143F,  0.6292F,
    1.0900F,  -0.2804F, -0.5354F, -0.2795F, 0.1192F,  0.5060F,  -0.2068F, -0.4125F, 0.0542F,
    -0.1610F, 0.2980F,  0.0729F,  0.4949F,  -0.5629F, -0.5952F, -0.7853F, 0.0705F,  0.1758F,
    0.0960F,  0.1215F,  0.2065F,  0.1095F,  3.3840F,  1.2222F,  0.4949F,  -0.5629F, -0.5952F,
    -0.7853F, 0.0705F,  0.1758F,  0.0960F,  0.1215F,  0.2065F,  0.1095F,  3.3840F,  1.2222F,
    0.4949F,  -0.5629F, -0.5952F, -0.7853F, 0.0705F,  0.1758F,  0.0960F,  0.1215F,  0.2065F,
    0.1095F,  3.3840F,  1.2222F,  0.4949F,  -0.5629F, -0.5952F, -0.7853F, 0.0705F,  0.1758F,
    0.0960F,  0.1215F,  0.2065F,  0.1095F,  3.3840F,  1.2222F,
};

}  // namespace chimere::engram

#endif  // CHIMERE_ENGRAM_GATE_TABLES_H_
