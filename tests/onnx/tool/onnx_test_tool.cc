// What pytest needs of src/onnx: `<command> <input> [<output>]...` for any number of files.
//   rewrite IN OUT ...   reads models and writes them again
//   tensors IN OUT ...   the same, with every initializer made anew from its value
//   check IN ...         opens and validates models; prints "ok" or "<error code>: <message>" a
//   model

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "onnx/reader.h"
#include "onnx/tensor_data.h"
#include "onnx/validate.h"
#include "onnx/writer.h"

namespace sardonyx::onnx {
namespace {

void Rewrite(const std::string& in, const std::string& out) {
  WriteModel(OpenModel(in)->model, out);
}

void RewriteTensors(const std::string& in, const std::string& out) {
  const auto file = OpenModel(in);
  ModelProto model = file->model;
  std::vector<Tensor> values;
  for (TensorProto& tensor : model.graph->initializer) {
    values.push_back(ReadTensor(tensor, *file));
    tensor = WriteTensor(values.back(), tensor.name.Get());
  }
  for (SparseTensorProto& tensor : model.graph->sparse_initializer) {
    values.push_back(ReadSparseTensor(tensor, *file));
    model.graph->initializer.push_back(WriteTensor(values.back(), tensor.values->name.Get()));
  }
  model.graph->sparse_initializer.clear();
  WriteModel(model, out);
}

void Check(const std::string& in) {
  try {
    const auto file = OpenModel(in);
    for (const TensorProto& tensor : file->model.graph->initializer) ReadTensor(tensor, *file);
    ValidateModel(file->model, file->name);
    std::puts("ok");
  } catch (const Error& error) {
    std::string text = error.what();
    for (char& c : text) c = c == '\n' ? ' ' : c;
    std::printf("%d: %s\n", static_cast<int>(error.code()), text.c_str());
  }
}

int Main(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  try {
    for (int i = 2; i < argc;) {
      if (command == "check") {
        Check(argv[i++]);
      } else if (i + 1 < argc && (command == "rewrite" || command == "tensors")) {
        (command == "rewrite" ? Rewrite : RewriteTensors)(argv[i], argv[i + 1]);
        i += 2;
      } else {
        std::fputs("usage: onnx_test_tool rewrite|tensors|check FILE...\n", stderr);
        return 2;
      }
    }
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace sardonyx::onnx

int main(int argc, char** argv) { return sardonyx::onnx::Main(argc, argv); }
