// Weights of the default gate: rows are orders 1 to kMaxOrder, columns the features of gate.cc.
// Fitted by GateTrainer as docs/engram.md says; orders above 5 have the weights of order 5.
#ifndef CHIMERE_ENGRAM_GATE_TABLES_H_
#define CHIMERE_ENGRAM_GATE_TABLES_H_

#include <array>

namespace chimere::engram {

inline constexpr std::array<float, 96> kLearnedGate = {
    0.5769F,  -1.4515F, -0.2044F, -0.0876F, -0.0534F, 0.2020F,  -0.7566F, -0.5640F, -0.0621F,
    -1.3731F, 3.1402F,  0.7595F,  1.0817F,  -1.1346F, -0.3944F, -0.1858F, 0.0464F,  0.2016F,
    0.0243F,  -0.3148F, 0.0474F,  -0.2454F, 4.5424F,  1.4332F,  1.3387F,  -0.3932F, -0.4570F,
    -0.3547F, -0.1274F, 0.1904F,  -0.4827F, -0.4133F, 0.3390F,  -0.0781F, 0.4550F,  -0.0213F,
    1.0124F,  -0.4651F, -0.5278F, -0.3879F, -0.0974F, 0.0182F,  -0.1726F, -0.2497F, 0.2789F,
    -0.0431F, 0.7004F,  0.1020F,  0.4741F,  -0.7690F, -0.2078F, -0.0400F, 0.0486F,  0.0816F,
    -0.2387F, 0.2792F,  0.0459F,  -0.9467F, 2.1510F,  0.6733F,  0.4741F,  -0.7690F, -0.2078F,
    -0.0400F, 0.0486F,  0.0816F,  -0.2387F, 0.2792F,  0.0459F,  -0.9467F, 2.1510F,  0.6733F,
    0.4741F,  -0.7690F, -0.2078F, -0.0400F, 0.0486F,  0.0816F,  -0.2387F, 0.2792F,  0.0459F,
    -0.9467F, 2.1510F,  0.6733F,  0.4741F,  -0.7690F, -0.2078F, -0.0400F, 0.0486F,  0.0816F,
    -0.2387F, 0.2792F,  0.0459F,  -0.9467F, 2.1510F,  0.6733F,
};

}  // namespace chimere::engram

#endif  // CHIMERE_ENGRAM_GATE_TABLES_H_
