#pragma once
// Sardonyx: runs ONNX models.
//
//   #include <sardonyx/sardonyx.hpp>
//   sardonyx::Session session("model.onnx");
//   sardonyx::Tensor x(sardonyx::DType::kFloat32, {1, 3, 224, 224});
//   ... fill x.data<float>() ...
//   std::vector<sardonyx::Datum> outputs = session.Run({{"x", x}});

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sardonyx/dtype.hpp"
#include "sardonyx/error.hpp"
#include "sardonyx/export.hpp"
#include "sardonyx/tensor.hpp"

namespace sardonyx {

// "0.1.0"
SARDONYX_API std::string_view Version();

// The name of an element type as ONNX writes it ("float", "int64"), and back (kUndefined if none).
SARDONYX_API std::string_view DTypeName(DType dtype);
SARDONYX_API DType DTypeByName(std::string_view name);
// Width of an element in bits: 2, 4 and 6 for the packed types; 0 for strings.
SARDONYX_API int DTypeBits(DType dtype);
SARDONYX_API bool DTypeIsFloat(DType dtype);    // a real number of any float format
SARDONYX_API bool DTypeIsInteger(DType dtype);  // of any width, signed or not; not bool

// The elements as another type, as ONNX's Cast makes them: rounded to the nearest, integers cut to
// whole numbers, bounded to the type's range. Throws kUnsupported for complex numbers.
SARDONYX_API Tensor Converted(const Tensor& tensor, DType to);
// A tensor of a packed type from the low bits of a byte an element, as NumPy has them; and back, to
// kUInt8.
SARDONYX_API Tensor Packed(DType dtype, std::vector<int64_t> dims, const uint8_t* codes);
SARDONYX_API Tensor Unpacked(const Tensor& tensor);

// How an implementation is chosen where a node has several.
enum class Tuning {
  kEstimate,  // by a model of their costs
  kMeasure,  // by running them on the shapes at hand, once for a shape; takes up to seconds a model
};

struct Options {
  // Threads that a run may use; 0: as many as the machine (container quota, affinity) gives.
  int threads = 0;
  // Passes to leave out, by name (PassNames() lists them).
  std::vector<std::string> disabled_passes = {};
  // Plans (one for each tuple of input shapes) that are kept.
  int max_plans = 32;
  // For models given as bytes: the folder beneath which external data lies.
  std::string external_data_folder = {};
  // Told of the graph as text before the first pass (name "") and after each that changed it.
  std::function<void(std::string_view pass, const std::string& text)> trace_passes = nullptr;
  Tuning tuning = Tuning::kEstimate;
  // Whether convolutions may run by Winograd's transforms, which multiply less and round somewhat
  // more than direct sums do.
  bool winograd = true;
  // Told of each choice that is measured, as a line.
  std::function<void(const std::string& line)> progress = nullptr;
  // An engine file that this machine or version cannot use, or whose weights were changed, is
  // compiled again from the model it names, and replaced, instead of refused.
  bool recompile = false;
};

// A size of a declared shape: known, named, or neither.
struct Dimension {
  int64_t value = -1;  // -1: not fixed
  std::string symbol;  // name, empty if it has none
};

// An input or output as the model declares it.
struct ValueInfo {
  std::string name;
  std::string type;                 // "tensor(float)", "seq(tensor(int64))", ...
  DType dtype = DType::kUndefined;  // of a tensor
  bool has_shape = false;
  std::vector<Dimension> shape;
};

using NamedData = std::vector<std::pair<std::string, Datum>>;
using NamedShapes = std::vector<std::pair<std::string, std::vector<int64_t>>>;

struct CompileOptions {
  // Shapes of the inputs that kernels are chosen and weights packed for, any number of sets. Sizes
  // that a set does not say are as declared, and 1 where the model fixes none. Without a set: one
  // that says nothing.
  std::vector<NamedShapes> shapes = {};
  // Leaves weights out that these shapes need in packed form alone. Other shapes may then need the
  // model beside the engine file. Always done where the model fixes all shapes.
  bool compact = false;
};

// A model ready to run. Copies share it; any number of threads may run one at the same time.
class SARDONYX_API Session {
 public:
  // Loads a model, or an engine file that Compile wrote. Throws Error.
  explicit Session(const std::string& path, const Options& options = {});
  // Loads from memory that `owner` keeps alive (null: it must outlive the session).
  Session(std::string_view bytes, std::shared_ptr<const void> owner, const Options& options = {});

  const std::vector<ValueInfo>& inputs() const;
  const std::vector<ValueInfo>& outputs() const;
  // Properties of the model: metadata_props, and "producer_name", "domain", "graph_name", ... by
  // their ONNX names where set.
  const std::map<std::string, std::string>& metadata() const;
  const Options& options() const;  // with threads as resolved

  // Values of the outputs named, or of all the model's outputs in order. Any value of the graph may
  // be named. Throws Error if an input is missing, unknown, or of another type or shape than
  // declared, or if the model fails on these values.
  std::vector<Datum> Run(const NamedData& inputs, const std::vector<std::string>& outputs = {});

  // While on, runs are timed by step.
  void StartProfile();
  void StopProfile();
  std::string ProfileTrace() const;    // trace-event JSON for chrome://tracing or Perfetto
  std::string ProfileSummary() const;  // a table
  struct StepTime {
    std::string node, op_type, core_op, implementation, shape;
    int64_t start_ns, duration_ns;
  };
  std::vector<StepTime> ProfileSteps() const;

  // The optimised graph as text.
  std::string GraphText() const;
  // For inputs of these shapes: what each step runs on, what was refused and why, where it writes;
  // passes with their changes and near misses.
  std::string Explain(const NamedShapes& shapes) const;

 private:
  friend SARDONYX_API void Compile(const std::string&, const std::string&, const Options&,
                                   const CompileOptions&);
  struct State;
  std::shared_ptr<State> state_;
};

// Writes an engine file: the optimised graph and packed weights of a model, for this machine and
// this version of Sardonyx. Session loads it in milliseconds, and all processes share its memory.
SARDONYX_API void Compile(const std::string& model, const std::string& engine,
                          const Options& options = {}, const CompileOptions& compile = {});
// What an engine file is, as text; compares all of it with its digests. Throws Error.
SARDONYX_API std::string DescribeEngine(const std::string& engine);
// Whether a file begins as an engine file does. Throws kNotFound.
SARDONYX_API bool IsEngineFile(const std::string& path);

// What a model is, without compiling it; works for models that cannot run as well.
struct ModelSummary {
  int64_t ir_version = 0;
  std::string producer;
  std::map<std::string, int64_t> opsets;
  std::vector<ValueInfo> inputs, outputs;
  std::map<std::string, int64_t> operators;  // "Conv" or "domain::Name": nodes, bodies included
  int64_t parameters = 0;                    // elements of initializers
  int64_t parameter_bytes = 0;
  int64_t functions = 0;
  std::vector<std::string> unsupported;  // a line an operator, with the reason and its nodes
  std::map<std::string, std::string> metadata;
};
SARDONYX_API ModelSummary Inspect(const std::string& path);

// Names of the passes with a line each, in order.
SARDONYX_API std::vector<std::pair<std::string, std::string>> PassNames();
// Whether an operator runs ("" or "ai.onnx": default domain; opset 0: the newest), with inputs of
// these types, as far as they are given: "tensor(float)" or "float", "seq(tensor(int64))", "" for
// an input left out. Throws kInvalidModel for a text that is no type.
SARDONYX_API bool Supports(std::string_view op_type, std::string_view domain = "",
                           int64_t opset = 0, const std::vector<std::string>& types = {});
// "avx2", "avx512", "baseline", ...: the instruction set that kernels use on this machine.
SARDONYX_API std::string_view TargetName();

// A TensorProto, SequenceProto, MapProto or OptionalProto in the protobuf wire format, as in the
// .pb files of ONNX test data. `type` is the kind to read: "tensor", "sequence", "map", "optional".
SARDONYX_API Datum ReadProtobuf(std::string_view bytes, std::string_view type = "tensor");

}  // namespace sardonyx
