#include "ops/lowering.h"

namespace sardonyx::ops {

namespace {

// The core operations have the inputs, outputs and attributes of the newest LSTM, GRU and RNN.
// Older ones differ only in `layout`, which they lack, and output_sequence, which says that Y is
// asked for.
Outputs Recurrent(Lowering& op, const CoreOp& core) {
  Attributes attributes;
  for (const char* name :
       {"activations", "activation_alpha", "activation_beta", "clip", "direction", "hidden_size",
        "input_forget", "linear_before_reset", "layout"}) {
    if (const Attribute* value = op.attributes.Find(name)) attributes.Set(name, *value);
  }
  // The schema of GRU-1 misspells its own default.
  if (op.String("direction") == "foward") attributes.Set("direction", std::string("forward"));
  // The default of RNN's activations is written for two directions.
  std::vector<std::string> activations = attributes.Strings("activations");
  const size_t directions = op.String("direction", "forward") == "bidirectional" ? 2 : 1;
  if (&core == &core::rnn && activations.size() > directions) {
    activations.resize(directions);
    attributes.Set("activations", activations);
  }
  return op.builder().MakeMany(core, op.inputs, attributes, static_cast<int>(op.output_count()));
}

}  // namespace

Outputs LowerLSTM(Lowering& op) { return Recurrent(op, core::lstm); }
Outputs LowerGRU(Lowering& op) { return Recurrent(op, core::gru); }
Outputs LowerRNN(Lowering& op) { return Recurrent(op, core::rnn); }

}  // namespace sardonyx::ops
