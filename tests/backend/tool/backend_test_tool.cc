// Runs models for another process, which may be of another machine: requests come in on standard
// input, answers go out on standard output. tests/backend/remote.py is the other side.
//
//   request: 'M', model, folder of its external data     answer: no values
//            'R', count of inputs, of each: kind, proto   answer: values of the outputs
//   answer:  error (empty if there was none), count, values
//   value:   0 | 1, tensor | 2, count, values | 3, tensor of keys, count, values
//   tensor:  element type, rank, dimensions of 64 bits, texts or bytes
//
// Numbers are of 32 bits, little-endian; texts and bytes are their length and themselves.

#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "sardonyx/sardonyx.hpp"

namespace sardonyx {
namespace {

class Output {
 public:
  template <typename T>
  void Number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void Count(size_t count) { Number(static_cast<uint32_t>(count)); }
  void Text(std::string_view text) {
    Count(text.size());
    bytes_ += text;
  }
  void Write(const Tensor& tensor) {
    Count(static_cast<size_t>(tensor.dtype()));
    Count(tensor.dims().size());
    for (const int64_t dim : tensor.dims()) Number(dim);
    if (tensor.dtype() != DType::kString) {
      return Text({static_cast<const char*>(tensor.raw()), static_cast<size_t>(tensor.bytes())});
    }
    for (int64_t i = 0; i < tensor.size(); ++i) Text(tensor.data<std::string>()[i]);
  }
  void Write(const std::vector<Datum>& values) {
    Count(values.size());
    for (const Datum& value : values) Write(value);
  }
  void Send() const {
    std::fwrite(bytes_.data(), 1, bytes_.size(), stdout);
    std::fflush(stdout);
  }

 private:
  void Write(const Datum& datum) {
    Count(datum.value.index());
    if (const Tensor* tensor = datum.tensor()) Write(*tensor);
    if (const Sequence* sequence = datum.sequence()) Write(*sequence);
    if (const Map* map = datum.map()) {
      Write(map->keys);
      Write(map->values);
    }
  }

  std::string bytes_;
};

// False at the end of the input.
bool Read(void* to, size_t size) { return std::fread(to, 1, size, stdin) == size; }

uint32_t ReadCount() {
  uint32_t count = 0;
  Read(&count, sizeof(count));
  return count;
}

std::string ReadText() {
  std::string text(ReadCount(), '\0');
  Read(text.data(), text.size());
  return text;
}

int Serve() {
  std::optional<Session> session;
  for (char what = 0; Read(&what, 1);) {
    Output answer;
    std::string error;
    std::vector<Datum> values;
    std::vector<std::pair<std::string, std::string>> inputs;  // kind, proto
    std::string model, folder;
    if (what == 'M') {
      model = ReadText();
      folder = ReadText();
    } else {
      inputs.resize(ReadCount());
      for (auto& [kind, proto] : inputs) {
        kind = ReadText();
        proto = ReadText();
      }
    }
    try {
      if (what == 'M') {
        const auto owner = std::make_shared<const std::string>(std::move(model));
        session.emplace(*owner, owner, Options{.external_data_folder = folder});
      } else {
        NamedData named;
        for (size_t i = 0; i < inputs.size(); ++i) {
          named.emplace_back(session->inputs().at(i).name,
                             ReadProtobuf(inputs[i].second, inputs[i].first));
        }
        values = session->Run(named);
      }
    } catch (const std::exception& caught) {
      error = caught.what();
    }
    answer.Text(error);
    answer.Write(values);
    answer.Send();
  }
  return 0;
}

}  // namespace
}  // namespace sardonyx

int main() { return sardonyx::Serve(); }
